//! Machines as they stand in production: for a site that is met in service and not brought up.

use super::{Layout, MachinePlan};
use api::machine::{Agent, Assignment, MachineStatus, NodeReference, TestResult};
use api::state::{Role, State};
use api::{Machine, NodePool, names};
use jiff::Timestamp;

/// How a machine stands that came into production by this moment.
#[derive(Clone, Debug)]
pub struct Serving<'a> {
    /// Its boot, and the kernel that runs.
    pub boot: &'a str,
    /// The kernel that runs, if that is known.
    pub kernel: Option<&'a str>,
    /// Its node, if that has joined.
    pub node: Option<NodeReference>,
    /// The pool that it serves; a spare without one.
    pub pool: Option<&'a NodePool>,
    /// Since when.
    pub since: Timestamp,
}

impl Layout {
    /// A machine of the layout in production: its object, and the status that goes with it.
    pub fn serving(
        &self,
        plan: &MachinePlan,
        mut machine: Machine,
        stands: &Serving<'_>,
    ) -> (Machine, MachineStatus) {
        let kind = self.kind(plan).cloned().unwrap_or_default();
        let Serving { boot, kernel, node, pool, since } = stands;
        let named = |pool: &&NodePool| pool.metadata.name.clone().unwrap_or_default();
        let (name, tenant) = (pool.as_ref().map(named), pool.map(|pool| pool.spec.tenant.clone()));
        machine.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        machine.spec.certified = 1;
        machine.spec.assignment = name
            .clone()
            .zip(tenant.clone())
            .map(|(pool, tenant)| Assignment { pool, tenant, since: *since });
        let kernel = kernel.map(str::to_owned);
        let proven = TestResult {
            test: "quick".to_owned(),
            passed: true,
            detail: "passed".to_owned(),
            image: Some(kind.image.clone()),
            kernel: kernel.clone(),
            figures: Default::default(),
            at: *since,
        };
        let agent = Agent { boot: (*boot).to_owned(), image: kind.image, kernel, since: *since };
        let status = MachineStatus {
            state: State::Production,
            role: if pool.is_some() { Role::Member } else { Role::Spare },
            since: Some(*since),
            onboardings: 1,
            node: node.clone(),
            pool: name,
            tenant,
            agent: Some(agent),
            inventory: Some(kind.expected),
            tests: vec![proven],
            ..MachineStatus::default()
        };
        (machine, status)
    }
}
