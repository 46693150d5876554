//! What verbs read of the cluster to tell about a node, a machine or a pool.

use api::{Breaker, Incident, Ledger, Machine, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kit::clock::Clock;
use kube::Api;
use kube::api::ListParams;
use plan::catalogue::Catalogue;
use plan::tell::{self, Blast, Facts, Why};

use crate::client::{ClientError, Cluster, unknown};

/// A node and the machine below it, with what surrounds them.
pub(crate) struct View {
    pub(crate) now: Timestamp,
    /// What it is called: the node's name, or the machine's where there is no node.
    pub(crate) name: String,
    pub(crate) node: Option<Node>,
    pub(crate) machine: Option<Machine>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) incidents: Vec<Incident>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) pool: Option<NodePool>,
    pub(crate) breakers: Vec<Breaker>,
    pub(crate) ledger: Option<Ledger>,
    told: Vec<(Timestamp, String, String)>,
}

/// The node that runs on a machine.
pub(crate) fn node_of(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node.as_ref().map(|node| node.name.as_str())
}

impl View {
    /// Reads about a node, or a machine, of this name.
    ///
    /// # Errors
    /// If there is none, with the nearest name; and what the API answered.
    pub(crate) async fn of(cluster: &Cluster, name: &str) -> Result<Self, ClientError> {
        let machines: Vec<Machine> = cluster.list().await?;
        let runs = |machine: &&Machine| node_of(machine) == Some(name);
        let machine = machines.iter().find(|machine| machine.name() == name);
        let machine = machines.iter().find(runs).or(machine).cloned();
        let node_name = machine.as_ref().and_then(node_of).unwrap_or(name).to_owned();
        let node: Option<Node> = cluster.find(&node_name).await?;
        if node.is_none() && machine.is_none() {
            let nodes: Vec<Node> = cluster.list().await?;
            let nodes = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
            let known = nodes.chain(machines.iter().map(Machine::name));
            return Err(unknown("node or machine", name, known));
        }
        let pool = machine.as_ref().and_then(|machine| {
            let serves = machine.status.as_ref().and_then(|status| status.pool.clone());
            serves.or_else(|| machine.spec.assignment.as_ref().map(|a| a.pool.clone()))
        });
        let pool = match pool {
            Some(pool) => cluster.find::<NodePool>(&pool).await?,
            None => None,
        };
        let fallen = machine.as_ref().map(|machine| machine.name().to_owned());
        Ok(Self {
            now: Clock::system().now(),
            name: if node.is_some() { node_name.clone() } else { name.to_owned() },
            pods: pods_on(cluster, &node_name).await?,
            incidents: cluster.list().await?,
            breakers: cluster.list().await?,
            ledger: cluster.find(api::names::LEDGER).await.unwrap_or_default(),
            told: told(cluster, fallen.as_deref().unwrap_or(name)).await?,
            node,
            machine,
            machines,
            pool,
        })
    }

    pub(crate) fn why(&self, catalogue: &Catalogue) -> Why {
        tell::why(&Facts {
            now: self.now,
            name: &self.name,
            node: self.node.as_ref(),
            machine: self.machine.as_ref(),
            machines: &self.machines,
            incidents: &self.incidents,
            pods: &self.pods,
            pool: self.pool.as_ref(),
            breakers: &self.breakers,
            ledger: self.ledger.as_ref(),
            told: &self.told,
            catalogue,
        })
    }

    /// What would be disturbed.
    pub(crate) fn blast(&self) -> Blast {
        let (machine, pool, ledger) =
            (self.machine.as_ref(), self.pool.as_ref(), self.ledger.as_ref());
        tell::blast(&self.name, &self.pods, machine, &self.machines, pool, ledger)
    }

    /// The incidents of this machine.
    pub(crate) fn own_incidents(&self) -> Vec<Incident> {
        let machine = self.machine.as_ref().map(Machine::name);
        let own = |incident: &&Incident| {
            Some(incident.spec.machine.as_str()) == machine || incident.spec.node == self.name
        };
        self.incidents.iter().filter(own).cloned().collect()
    }
}

/// The pods on a node.
///
/// # Errors
/// What the API answered.
pub(crate) async fn pods_on(cluster: &Cluster, node: &str) -> Result<Vec<Pod>, ClientError> {
    let pods: Api<Pod> = Api::all(cluster.client().clone());
    let only = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = pods.list(&only).await.map_err(|error| cluster.explain(error))?;
    Ok(list.items)
}

/// What was told of machines that took this one's place: when, of which, and what.
async fn told(
    cluster: &Cluster,
    machine: &str,
) -> Result<Vec<(Timestamp, String, String)>, ClientError> {
    let events: Api<Event> = Api::all(cluster.client().clone());
    let only = ListParams::default().fields("involvedObject.kind=Machine,reason=Assigning");
    let list = events.list(&only).await.map_err(|error| cluster.explain(error))?;
    let about = format!("takes the place of {machine},");
    let read = |event: Event| {
        let at = event.event_time.map(|at| at.0).or(event.first_timestamp.map(|at| at.0))?;
        let note = event.message.filter(|note| note.starts_with(&about))?;
        Some((at, event.involved_object.name?, note))
    };
    let mut told: Vec<_> = list.items.into_iter().filter_map(read).collect();
    told.sort();
    Ok(told)
}
