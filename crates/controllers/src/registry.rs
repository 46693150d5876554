//! Every controller there is, by name, and which of them shall run.

use std::sync::Arc;

use kit::controller::{Controller, Declaration, Manager, declaration};
use kit::pki::CertificateAuthority;
use kube::Client;
use metal::redfish::Bmcs;
use plan::Rules;
use plan::catalogue::Catalogue;

use crate::boot::Desk;
use crate::heartbeats::Heartbeats;

/// What a site sets for its controllers. Nothing set: whoever needs it rests.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// Signs the certificates of nodes and of the API's clients, and is published as the one to
    /// trust.
    pub authority: Option<CertificateAuthority>,
    /// Where machines that join reach the API: `https://api.example:6443`
    pub address: Option<String>,
    /// How many ended pods the cluster keeps.
    pub ended_pods: Option<usize>,
    /// The kinds of the fleet are installed ([`api::definitions`]), so its controllers can run.
    pub fleet: bool,
    /// How the BMCs of the fleet are reached.
    pub bmcs: Option<Bmcs>,
    /// Times and bounds of every decision about the fleet.
    pub rules: Rules,
    /// What faults mean; the built-in catalogue if absent.
    pub catalogue: Option<Arc<Catalogue>>,
    /// Where machines ask what they boot and who they are; it answers while the boot controller runs.
    pub boots: Option<Desk>,
    /// Where heartbeats of nodes come from that renew no Leases.
    pub heartbeats: Option<Arc<dyn Heartbeats>>,
    /// Where heartbeats of machines' agents come from that renew no Leases.
    pub agents: Option<Arc<dyn Heartbeats>>,
}

impl Site {
    /// What machines that join are told.
    fn kubeconfig(&self) -> Option<String> {
        let (address, certificate) = (self.address.as_ref()?, self.certificate()?);
        Some(crate::bootstrapsigner::kubeconfig(address, &certificate))
    }

    fn nodes(&self) -> crate::node::Settings {
        let catalogue = self.catalogue.clone().unwrap_or_else(Catalogue::built_in);
        crate::node::Settings { rules: self.rules.clone(), catalogue }
    }

    fn ended_pods(&self) -> crate::podgc::Threshold {
        self.ended_pods.map_or_else(Default::default, crate::podgc::Threshold)
    }

    fn machines(&self) -> crate::machine::Settings {
        crate::machine::Settings { bmcs: self.bmcs.clone(), rules: self.rules.clone() }
    }

    /// The certificate to trust, PEM.
    fn certificate(&self) -> Option<String> {
        self.authority.as_ref().map(|authority| authority.certificate_pem().to_owned())
    }
}

/// A controller that can be chosen by name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line; kube-controller-manager's where it has that controller.
    pub name: &'static str,
    /// Its name in metrics and roles; its folder's, where that holds no other.
    pub folder: &'static str,
    /// It works on the fleet's own kinds, and rests where they are not installed.
    pub fleet: bool,
    /// What it declares.
    pub declare: fn() -> Declaration,
    /// Adds it to a manager.
    pub add: fn(&mut Manager, Client, &Site),
}

impl Entry {
    /// Whether it runs in every process, whichever leads: machines that boot ask any of them, and what
    /// it gives is settled by who writes first.
    pub fn runs_everywhere(&self) -> bool {
        self.folder == crate::boot::Boots::NAME
    }
}

macro_rules! entry {
    ($name:literal, $controller:ty) => {
        entry!($name, $controller, |_| <$controller as Controller>::Settings::default(), fleet: false)
    };
    // What the site says, as the controller's settings.
    ($name:literal, $controller:ty, $settings:expr) => {
        entry!($name, $controller, $settings, fleet: false)
    };
    ($name:literal, $controller:ty, $settings:expr, fleet: $fleet:literal) => {
        Entry {
            name: $name,
            folder: <$controller as Controller>::NAME,
            fleet: $fleet,
            declare: declaration::<$controller>,
            add: |manager, client, site| {
                let settings: fn(&Site) -> <$controller as Controller>::Settings = $settings;
                manager.add_with::<$controller>(client, settings(site));
            },
        }
    };
}

/// Every controller, in the order in which they are started.
pub const ALL: &[Entry] = &[
    entry!("namespace-controller", crate::namespace::Namespaces),
    entry!("serviceaccount-controller", crate::serviceaccount::ServiceAccounts),
    entry!(
        "replicationcontroller-controller",
        crate::replicaset::Replicas<k8s_openapi::api::core::v1::ReplicationController>
    ),
    entry!(
        "replicaset-controller",
        crate::replicaset::Replicas<k8s_openapi::api::apps::v1::ReplicaSet>
    ),
    entry!("deployment-controller", crate::deployment::Deployments),
    entry!("statefulset-controller", crate::statefulset::StatefulSets),
    entry!("daemonset-controller", crate::daemonset::DaemonSets),
    entry!("job-controller", crate::job::Jobs),
    entry!("cronjob-controller", crate::cronjob::CronJobs),
    entry!("endpointslice-controller", crate::endpointslice::EndpointSlices),
    entry!("scheduler", crate::scheduler::Scheduler),
    entry!("garbage-collector-controller", crate::gc::GarbageCollector),
    entry!("node-lifecycle-controller", crate::nodelifecycle::NodeLifecycle, |site| site
        .heartbeats
        .clone()),
    entry!("taint-eviction-controller", crate::tainteviction::TaintEviction),
    entry!("disruption-controller", crate::disruption::Disruption),
    entry!("root-ca-certificate-publisher-controller", crate::rootca::RootCa, Site::certificate),
    entry!("certificatesigningrequest-approving-controller", crate::certificates::CsrApproving),
    entry!(
        "certificatesigningrequest-signing-controller",
        crate::certificates::CsrSigning,
        |site| site.authority.clone()
    ),
    entry!("certificatesigningrequest-cleaner-controller", crate::certificates::CsrCleaner),
    entry!(
        "bootstrap-signer-controller",
        crate::bootstrapsigner::BootstrapSigner,
        Site::kubeconfig
    ),
    entry!("token-cleaner-controller", crate::tokencleaner::TokenCleaner),
    entry!("persistentvolumeclaim-protection-controller", crate::pvcprotection::PvcProtection),
    entry!("persistentvolume-protection-controller", crate::pvprotection::PvProtection),
    entry!("ttl-after-finished-controller", crate::ttlafterfinished::TtlAfterFinished),
    entry!("pod-garbage-collector-controller", crate::podgc::PodGc, Site::ended_pods),
    entry!(
        "boot-controller",
        crate::boot::Boots,
        |site| site.boots.clone().unwrap_or_default(),
        fleet: true
    ),
    entry!(
        "machine-join-approving-controller",
        crate::certificates::JoinApproving,
        |_| (),
        fleet: true
    ),
    entry!("machine-controller", crate::machine::Machines, Site::machines, fleet: true),
    entry!("pool-controller", crate::pool::Pools, |site| site.rules.clone(), fleet: true),
    entry!("silence-controller", crate::silence::Silences, |site| site.agents.clone(), fleet: true),
    entry!("breaker-controller", crate::breaker::Breakers, Site::nodes, fleet: true),
    entry!("node-controller", crate::node::Nodes, Site::nodes, fleet: true),
];

/// Which controllers run, as kube-controller-manager's `--controllers` says it: `*` is all, `-name`
/// leaves one out, `name` takes one; `-*` with nothing else takes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<&'static str>);

/// A name that no controller has.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no controller {name:?}; the nearest is {nearest:?}, and there are: {all}")]
pub struct Unknown {
    name: String,
    nearest: &'static str,
    all: String,
}

impl Selection {
    /// All of them.
    pub fn all() -> Self {
        Self(ALL.iter().map(|entry| entry.name).collect())
    }

    /// Those of the fleet, where others run the cluster's.
    pub fn fleet() -> Self {
        Self(ALL.iter().filter(|entry| entry.fleet).map(|entry| entry.name).collect())
    }

    /// Reads a list of names, separated by commas.
    ///
    /// # Errors
    /// If a name is no controller's.
    pub fn parse(list: &str) -> Result<Self, Unknown> {
        let words: Vec<&str> =
            list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if name != "*" && !ALL.iter().any(|entry| entry.name == name) {
                return Err(unknown(name));
            }
        }
        let chosen = |entry: &&Entry| {
            // What names it alone counts before what names all.
            let by_name = words.iter().find_map(|word| match word.strip_prefix('-') {
                Some(name) if name == entry.name => Some(false),
                None if *word == entry.name => Some(true),
                _ => None,
            });
            by_name.unwrap_or_else(|| words.contains(&"*"))
        };
        Ok(Self(ALL.iter().filter(chosen).map(|entry| entry.name).collect()))
    }

    /// The chosen ones that can run at a site, in their order.
    pub fn entries(&self, site: &Site) -> impl Iterator<Item = &'static Entry> {
        let runs = |entry: &&Entry| site.fleet || !entry.fleet;
        ALL.iter().filter(runs).filter(|entry| self.0.contains(&entry.name))
    }
}

fn unknown(name: &str) -> Unknown {
    let common =
        |entry: &&Entry| entry.name.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let nearest = ALL.iter().max_by_key(common).map_or("*", |entry| entry.name);
    let all: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    Unknown { name: name.to_owned(), nearest, all: all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_upstream_reads_them() {
        let names = |list: &str| Selection::parse(list).unwrap().0;
        let (gc, ns) = ("garbage-collector-controller", "namespace-controller");
        assert_eq!(names("*").len(), ALL.len());
        assert!(names("-*").is_empty());
        assert_eq!(names(gc), [gc]);
        assert_eq!(names(&format!("-*,{ns}")), [ns]);
        assert!(!names(&format!("*, -{gc}")).contains(&gc));
        let wrong = Selection::parse("garbage-collector").unwrap_err();
        assert_eq!(wrong.nearest, gc);
    }

    #[test]
    fn the_fleets_controllers_run_only_where_its_kinds_are() {
        let machines = |site: &Site| {
            Selection::all().entries(site).any(|entry| entry.name == "machine-controller")
        };
        assert!(!machines(&Site::default()));
        assert!(machines(&Site { fleet: true, ..Site::default() }));
    }
}
