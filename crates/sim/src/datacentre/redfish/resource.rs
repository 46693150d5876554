//! What can be read of a BMC: documents that follow from the hidden truth, as far as a BMC sees it.

use super::habits::Habits;
use crate::datacentre::fault::Mishap;
use crate::datacentre::hardware::Signal;
use crate::datacentre::show::symptoms;
use crate::datacentre::truth::{Around, Truth};
use plan::catalogue::Metric;
use plan::detect::Symptom;
use serde_json::{Value, json};

pub(super) const BOOT_TARGETS: &[&str] = &["None", "Pxe", "UefiHttp", "Hdd", "BiosSetup"];
pub(super) const BOOT_ENABLED: &[&str] = &["Disabled", "Once", "Continuous"];
/// Fans of an 8-GPU machine.
const FANS: usize = 8;

/// What a BMC sees of its machine.
pub(super) struct Seen<'a> {
    pub(super) truth: &'a Truth,
    pub(super) around: &'a Around<'a>,
    pub(super) habits: &'static Habits,
    pub(super) name: &'a str,
    /// It says the wrong power state now.
    pub(super) lie: bool,
    pub(super) boot_target: Option<(String, String)>,
}

impl Seen<'_> {
    fn link(&self, path: &str) -> String {
        format!("/bmc/{}/redfish/v1{path}", self.name)
    }

    fn to(&self, path: &str) -> Value {
        json!({"@odata.id": self.link(path)})
    }

    fn collection(&self, path: &str, kind: &str, members: &[String]) -> Value {
        let links: Vec<Value> =
            members.iter().map(|member| self.to(&format!("{path}/{member}"))).collect();
        json!({
            "@odata.id": self.link(path),
            "@odata.type": format!("#{kind}Collection.{kind}Collection"),
            "Name": format!("{kind} Collection"),
            "Members@odata.count": links.len(),
            "Members": links,
        })
    }

    fn powered(&self) -> &'static str {
        if self.truth.on != self.lie { "On" } else { "Off" }
    }

    /// Sensors that are not well: metric, name, whether critical.
    fn unwell(&self) -> Vec<(Metric, String, bool)> {
        let bmc = |row: &Option<String>| row.as_deref().is_some_and(|r| r.starts_with("bmc/"));
        let ills = self.truth.ills.iter().filter(|ill| bmc(&ill.fault.row));
        let samples = ills.flat_map(|ill| symptoms(ill, self.around)).filter_map(|due| {
            let Signal::Symptom(symptom) = due.signal else { return None };
            let Symptom::Samples(samples) = *symptom else { return None };
            let last = samples.last()?;
            let name = last.part.name().to_owned();
            last.metric.as_str().starts_with("sensor-").then_some((
                last.metric,
                name,
                last.value > 1.0,
            ))
        });
        samples.collect()
    }
}

/// The document at a path after `/redfish`, if there is one.
pub(super) fn document(seen: &Seen<'_>, path: &[&str]) -> Option<Value> {
    let system = seen.habits.system;
    Some(match path {
        [] => json!({"v1": seen.link("/")}),
        ["v1"] => root(seen),
        ["v1", "Systems"] => seen.collection("/Systems", "ComputerSystem", &[system.to_owned()]),
        ["v1", "Systems", id] if *id == system => computer(seen),
        ["v1", "Systems", id, "ResetActionInfo"] if *id == system && seen.habits.action_info => {
            json!({
                "@odata.id": seen.link(&format!("/Systems/{system}/ResetActionInfo")),
                "@odata.type": "#ActionInfo.v1_1_0.ActionInfo",
                "Id": "ResetActionInfo",
                "Parameters": [{
                    "Name": "ResetType", "Required": true, "DataType": "String",
                    "AllowableValues": seen.habits.resets,
                }],
            })
        }
        ["v1", "Chassis"] => seen.collection("/Chassis", "Chassis", &["1".to_owned()]),
        ["v1", "Chassis", "1"] => chassis(seen),
        ["v1", "Chassis", "1", "Thermal"] => thermal(seen),
        ["v1", "Chassis", "1", "Power"] => power(seen),
        ["v1", "Chassis", "1", "Sensors"] => sensors(seen),
        ["v1", "Managers"] => seen.collection("/Managers", "Manager", &["1".to_owned()]),
        ["v1", "Managers", "1"] => manager(seen),
        ["v1", "UpdateService"] => json!({
            "@odata.id": seen.link("/UpdateService"),
            "@odata.type": "#UpdateService.v1_8_0.UpdateService",
            "ServiceEnabled": true,
            "FirmwareInventory": seen.to("/UpdateService/FirmwareInventory"),
        }),
        ["v1", "UpdateService", "FirmwareInventory"] => {
            let names: Vec<String> = seen.truth.firmware(seen.around).into_keys().collect();
            seen.collection("/UpdateService/FirmwareInventory", "SoftwareInventory", &names)
        }
        ["v1", "UpdateService", "FirmwareInventory", name] => {
            let version = seen.truth.firmware(seen.around).remove(*name)?;
            json!({
                "@odata.id": seen.link(&format!("/UpdateService/FirmwareInventory/{name}")),
                "@odata.type": "#SoftwareInventory.v1_3_0.SoftwareInventory",
                "Id": name, "Name": name, "Version": version,
            })
        }
        ["v1", "SessionService"] => json!({
            "@odata.id": seen.link("/SessionService"),
            "@odata.type": "#SessionService.v1_1_0.SessionService",
            "ServiceEnabled": true,
            "Sessions": seen.to("/SessionService/Sessions"),
        }),
        ["v1", "SessionService", "Sessions"] => {
            seen.collection("/SessionService/Sessions", "Session", &[])
        }
        _ => return None,
    })
}

fn root(seen: &Seen<'_>) -> Value {
    json!({
        "@odata.id": seen.link("/"),
        "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot",
        "Id": "RootService",
        "Name": "Simulated BMC",
        "RedfishVersion": "1.8.0",
        "Vendor": seen.habits.maker,
        "Systems": seen.to("/Systems"),
        "Chassis": seen.to("/Chassis"),
        "Managers": seen.to("/Managers"),
        "UpdateService": seen.to("/UpdateService"),
        "SessionService": seen.to("/SessionService"),
        "Links": {"Sessions": seen.to("/SessionService/Sessions")},
    })
}

fn computer(seen: &Seen<'_>) -> Value {
    let path = format!("/Systems/{}", seen.habits.system);
    let kind = seen.around.kind;
    let mut reset = json!({"target": seen.link(&format!("{path}/Actions/ComputerSystem.Reset"))});
    if seen.habits.action_info {
        let info = seen.link(&format!("{path}/ResetActionInfo"));
        set(&mut reset, "@Redfish.ActionInfo", json!(info));
    } else {
        set(&mut reset, "ResetType@Redfish.AllowableValues", json!(seen.habits.resets));
    }
    let none = ("None".to_owned(), "Disabled".to_owned());
    let (target, enabled) = seen.boot_target.clone().unwrap_or(none);
    let mut system = json!({
        "@odata.id": seen.link(&path),
        "@odata.type": "#ComputerSystem.v1_14_0.ComputerSystem",
        "Id": seen.habits.system,
        "Name": seen.name,
        "SystemType": "Physical",
        "Manufacturer": seen.habits.maker,
        "Model": seen.around.plan.instance_type,
        "SerialNumber": format!("SIM-{}", seen.name),
        "PowerState": seen.powered(),
        "Status": {"State": "Enabled", "Health": health(worst(&seen.unwell()))},
        "ProcessorSummary": {"Count": 2, "CoreCount": kind.expected.cores},
        "MemorySummary": {"TotalSystemMemoryGiB": kind.expected.memory_gib},
        "Boot": {
            "BootSourceOverrideTarget": target,
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideMode": "UEFI",
            "BootSourceOverrideTarget@Redfish.AllowableValues": BOOT_TARGETS,
        },
        "Actions": {"#ComputerSystem.Reset": reset},
        "Links": {"Chassis": [seen.to("/Chassis/1")], "ManagedBy": [seen.to("/Managers/1")]},
    });
    let says = seen.habits.last_reset && !seen.truth.has(|mishap| mishap == Mishap::NoLastReset);
    if let Some(at) = seen.truth.last_reset.filter(|_| says) {
        set(&mut system, "LastResetTime", json!(at.to_string()));
    }
    system
}

fn set(value: &mut Value, key: &str, to: Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), to);
    }
}

/// The worst of the sensors: nothing, a warning, or critical.
fn worst(unwell: &[(Metric, String, bool)]) -> Option<bool> {
    unwell.iter().map(|(.., critical)| *critical).max()
}

fn health(worst: Option<bool>) -> &'static str {
    match worst {
        None => "OK",
        Some(false) => "Warning",
        Some(true) => "Critical",
    }
}

fn chassis(seen: &Seen<'_>) -> Value {
    json!({
        "@odata.id": seen.link("/Chassis/1"),
        "@odata.type": "#Chassis.v1_15_0.Chassis",
        "Id": "1",
        "Name": seen.name,
        "ChassisType": "RackMount",
        "PowerState": seen.powered(),
        "Status": {"State": "Enabled", "Health": health(worst(&seen.unwell()))},
        "Thermal": seen.to("/Chassis/1/Thermal"),
        "Power": seen.to("/Chassis/1/Power"),
        "Sensors": seen.to("/Chassis/1/Sensors"),
        "Links": {"ComputerSystems": [seen.to(&format!("/Systems/{}", seen.habits.system))]},
    })
}

/// Parts by name, each with its health; a part that is unwell and not among them is added.
fn parts(seen: &Seen<'_>, of: &[Metric], names: Vec<String>, well: &Value) -> Vec<Value> {
    let unwell = seen.unwell();
    let mut names = names;
    for (metric, name, _) in &unwell {
        if of.contains(metric) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    let part = |name: &String| {
        let mut part = well.clone();
        let own =
            unwell.iter().filter(|(metric, of_name, _)| of.contains(metric) && of_name == name);
        let worst = own.map(|(.., critical)| *critical).max();
        set(&mut part, "Name", json!(name));
        set(&mut part, "Status", json!({"State": "Enabled", "Health": health(worst)}));
        if worst == Some(true) {
            set(&mut part, "Reading", json!(0));
        }
        part
    };
    names.iter().map(part).collect()
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (1..=count.min(64)).map(|number| format!("{prefix}{number}")).collect()
}

fn thermal(seen: &Seen<'_>) -> Value {
    let rpm = if seen.truth.on { 9_600 } else { 0 };
    let fan = json!({"Reading": rpm, "ReadingUnits": "RPM"});
    let degrees = json!({"ReadingCelsius": 27, "UpperThresholdCritical": 45});
    let inlet = vec!["Inlet".to_owned()];
    json!({
        "@odata.id": seen.link("/Chassis/1/Thermal"),
        "@odata.type": "#Thermal.v1_6_0.Thermal",
        "Id": "Thermal",
        "Fans": parts(seen, &[Metric::SensorFan, Metric::SensorFanRedundancy], numbered("FAN", FANS), &fan),
        "Temperatures": parts(seen, &[Metric::SensorInlet, Metric::SensorThermal], inlet, &degrees),
    })
}

fn power(seen: &Seen<'_>) -> Value {
    let count = seen.around.kind.expected.power_supplies as usize;
    let supply = json!({"LineInputVoltage": 230, "PowerCapacityWatts": 3_300});
    let of = [Metric::SensorPsu, Metric::SensorPsuRedundancy];
    json!({
        "@odata.id": seen.link("/Chassis/1/Power"),
        "@odata.type": "#Power.v1_7_0.Power",
        "Id": "Power",
        "PowerSupplies": parts(seen, &of, numbered("PSU", count), &supply),
    })
}

fn sensors(seen: &Seen<'_>) -> Value {
    let sensor = |(metric, name, critical): &(Metric, String, bool)| {
        json!({
            "Id": format!("{metric}-{name}"),
            "Name": name,
            "Status": {"State": "Enabled", "Health": health(Some(*critical))},
        })
    };
    let members: Vec<Value> = seen.unwell().iter().map(sensor).collect();
    json!({
        "@odata.id": seen.link("/Chassis/1/Sensors"),
        "@odata.type": "#SensorCollection.SensorCollection",
        "Name": "Sensors that are not well",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

fn manager(seen: &Seen<'_>) -> Value {
    let version = seen.truth.firmware(seen.around).remove("bmc");
    json!({
        "@odata.id": seen.link("/Managers/1"),
        "@odata.type": "#Manager.v1_11_0.Manager",
        "Id": "1",
        "Name": "Simulated BMC",
        "ManagerType": "BMC",
        "FirmwareVersion": version,
        "Status": {"State": "Enabled", "Health": "OK"},
    })
}
