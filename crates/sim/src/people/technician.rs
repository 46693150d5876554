//! Certifies what is racked, mends what is broken and sends it back to the beginning.

use std::sync::Arc;

use api::Machine;
use api::request::{Ask, Request};
use api::state::State;
use jiff::Timestamp;
use kit::controller::{Cache, Context, Controller, Error, ObjectKey, Wake, Watch, Wiring};
use kube::api::Patch;
use serde_json::{Value, json};

use super::{Act, Deed, People, TECHNICIAN, Todo, later};

/// See the module.
pub struct Technician {
    machines: Cache<Machine>,
    people: People,
}

/// A machine, as the technician sees it.
pub struct Observed {
    machine: Arc<Machine>,
    people: People,
    now: Timestamp,
}

/// What the technician does.
pub enum Work {
    /// Certify rack and cables for this onboarding.
    Certify(Arc<Machine>, u32),
    /// Mend it, and ask for it to begin anew under this request's name.
    Mend(Arc<Machine>, String),
}

impl Controller for Technician {
    type Key = ObjectKey;
    type Settings = People;
    type Observed = Observed;
    type Plan = Todo<Work>;
    const NAME: &'static str = "technician";

    fn wire(people: People, wiring: &mut Wiring<ObjectKey>) -> Self {
        wiring.about("Certifies and mends machines, as a simulated person").may(
            &["patch"],
            "fleet.seatrial.dev",
            &["machines"],
        );
        let waits = |machine: &Machine| machine.state().waits_for_people();
        let machines = Watch::<Machine>::all().when(move |old, new| waits(old) || waits(new));
        Self { machines: wiring.own(machines), people }
    }

    async fn observe(&self, context: &Context, key: &ObjectKey) -> Result<Option<Observed>, Error> {
        let now = context.now();
        let observed = |machine| Observed { machine, people: self.people.clone(), now };
        Ok(self.machines.get(key).map(observed))
    }

    fn plan(observed: &Observed) -> Todo<Work> {
        let machine = &observed.machine;
        let Some(status) = &machine.status else { return Todo::Nothing };
        let (hands, now) = (&observed.people.hands, observed.now);
        let since = status.since.unwrap_or(now);
        let own = Arc::clone(machine);
        if status.state == State::Onboard {
            if machine.spec.certified >= status.onboardings {
                return Todo::Nothing;
            }
            let work = Work::Certify(own, status.onboardings);
            return Todo::due(later(since, hands.certify), now, work);
        }
        let takes = match status.state {
            State::Rma => hands.repair,
            State::Debug => hands.debug,
            _ => return Todo::Nothing,
        };
        // Nobody reaches into a machine that is being switched.
        if status.operation.is_some() {
            return Todo::Nothing;
        }
        let id = format!("{TECHNICIAN}-{}-{}", machine.name(), since.as_millisecond());
        // Made already; or another's stands there that nobody has answered yet.
        let answered = status.answer.as_ref().map(|answer| answer.id.as_str());
        let stands = |request: &Request| request.id == id || answered != Some(&*request.id);
        if machine.spec.request.as_ref().is_some_and(stands) {
            return Todo::Nothing;
        }
        let part = observed.people.workshop.ready(machine.name());
        let due = later(since, takes).max(part.unwrap_or(since));
        Todo::due(due, now, Work::Mend(own, id))
    }

    async fn apply(
        &self,
        context: &Context,
        _: &ObjectKey,
        plan: Self::Plan,
    ) -> Result<Wake, Error> {
        match plan {
            Todo::Nothing => Ok(Wake::Never),
            Todo::Later(at) => Ok(Wake::At(at)),
            Todo::Now(Work::Certify(machine, onboarding)) => {
                let spec = json!({"certified": onboarding});
                self.write(context, &machine, spec).await?;
                let why = format!("rack and cables are as they should be, onboarding {onboarding}");
                self.done(context, &machine, Deed::Certified, why);
                Ok(Wake::Never)
            }
            Todo::Now(Work::Mend(machine, id)) => {
                let why = self.people.workshop.mend(machine.name());
                let spec = json!({"request": request(id, &why, context.now())});
                self.write(context, &machine, spec).await?;
                self.done(context, &machine, Deed::Mended, why);
                Ok(Wake::Never)
            }
        }
    }
}

impl Technician {
    /// Writes to the machine as it was seen: a state entered since is looked at anew.
    async fn write(&self, context: &Context, machine: &Machine, spec: Value) -> Result<(), Error> {
        let meta = &machine.metadata;
        let patch = Patch::Merge(json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "spec": spec,
        }));
        context.patch::<Machine>(meta, None, &patch).await.map(drop)
    }

    fn done(&self, context: &Context, machine: &Machine, what: Deed, why: String) {
        let (at, about) = (context.now(), machine.name().to_owned());
        self.people.acts.add(Act { at, by: TECHNICIAN, about, what, why });
    }
}

/// A request whole: what an older one said beside is taken away, as it was meant for that one.
fn request(id: String, why: &str, at: Timestamp) -> Value {
    let request = Request {
        id,
        ask: Ask::Onboard,
        target: None,
        by: TECHNICIAN.to_owned(),
        why: why.to_owned(),
        evidence: Vec::new(),
        incident: None,
        node_uid: None,
        boot: None,
        shown: None,
        at,
    };
    let mut value = json!({
        "target": null, "evidence": null, "incident": null, "nodeUid": null, "boot": null,
        "shown": null,
    });
    // A request is always an object.
    if let (Some(fields), Ok(Value::Object(set))) =
        (value.as_object_mut(), serde_json::to_value(&request))
    {
        fields.extend(set);
    }
    value
}
