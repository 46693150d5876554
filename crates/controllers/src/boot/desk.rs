//! Where machines ask: what can be answered from the caches is, the rest is handed to the controller.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::state::State;
use api::{InstanceType, Machine, NodePool};
use kit::controller::{Adder, Cache, Change, ObjectKey};
use metal::boot::{BootSource, Booting, Enrol, Join, Manifest, Unavailable};
use metal::{Exchange, Unreachable};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

/// How long an ask may wait for its turn; then the machine asks again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where machines find what they are told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The boot service's own URL, as machines reach it: `http://boot.example`
    pub service: String,
    /// The URL of the Kubernetes API, as machines reach it.
    pub api: String,
    /// Where images lie: kernel and initial RAM disk of the image `gpu-1.0` are at
    /// `IMAGES/gpu-1.0/vmlinuz` and `IMAGES/gpu-1.0/initrd`.
    pub images: String,
    /// Arguments of every kernel.
    pub arguments: Vec<String>,
}

/// The boot service's source; see the module. Cheap to clone. It answers once a manager runs
/// [`Boots`](super::Boots) with it.
#[derive(Clone, Default)]
pub struct Desk(Arc<Inner>);

#[derive(Default)]
struct Inner {
    addresses: Addresses,
    state: Mutex<Standing>,
}

#[derive(Default)]
struct Standing {
    caches: Option<Caches>,
    work: Option<Adder<ObjectKey>>,
    /// Machines by hardware address. Of two that claim one address the first by name has it.
    by_mac: BTreeMap<String, Vec<String>>,
    asks: BTreeMap<ObjectKey, VecDeque<Arc<Ask>>>,
}

#[derive(Clone)]
pub(super) struct Caches {
    pub(super) machines: Cache<Machine>,
    pub(super) kinds: Cache<InstanceType>,
    pub(super) pools: Cache<NodePool>,
}

impl Caches {
    fn are_synced(&self) -> bool {
        self.machines.is_synced() && self.kinds.is_synced() && self.pools.is_synced()
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Enrol,
    Join,
}

/// What is answered.
pub(super) enum Answer {
    Enrol(Enrol),
    Join(Join),
}

/// An ask of one boot, and who waits for its answer.
pub(super) struct Ask {
    pub(super) what: What,
    pub(super) boot: String,
    /// The digest of the boot's secret.
    pub(super) proof: String,
    reply: Mutex<Option<oneshot::Sender<Result<Answer, Unavailable>>>>,
}

impl Ask {
    pub(super) fn answer(&self, answer: Answer) {
        self.reply(Ok(answer));
    }

    pub(super) fn fail(&self, why: &str) {
        self.reply(Err(Unavailable(why.to_owned())));
    }

    fn reply(&self, answer: Result<Answer, Unavailable>) {
        if let Some(reply) = lock(&self.reply).take() {
            // Whoever asked may have given up, and asks again.
            let _ = reply.send(answer);
        }
    }

    fn is_waited_for(&self) -> bool {
        lock(&self.reply).as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Desk").field("addresses", &self.0.addresses).finish_non_exhaustive()
    }
}

impl Desk {
    /// A desk that tells machines of these addresses.
    pub fn new(addresses: Addresses) -> Self {
        Self(Arc::new(Inner { addresses, state: Mutex::default() }))
    }

    /// Whether it knows the machines, so that it can answer.
    pub fn is_ready(&self) -> bool {
        let caches = self.state().caches.clone();
        caches.is_some_and(|caches| caches.are_synced())
    }

    /// Answers requests to the boot service, over a listener ([`metal::serve`]) or within the process.
    pub fn exchange(&self) -> Exchange {
        let desk = self.clone();
        Exchange::new(tower::service_fn(move |request| {
            let desk = desk.clone();
            async move { Ok::<_, Unreachable>(metal::boot::answer(&desk, &request).await) }
        }))
    }

    /// The caches are there, and what is asked for is worked on through `work`.
    pub(super) fn open(&self, caches: Caches, work: Adder<ObjectKey>) {
        let mut state = self.state();
        (state.caches, state.work) = (Some(caches.clone()), Some(work));
        drop(state);
        // Weak, as the cache lives in the desk.
        let inner = Arc::downgrade(&self.0);
        caches.machines.on_change(move |change| {
            if let Some(inner) = inner.upgrade() {
                see(&mut lock(&inner.state).by_mac, change);
            }
        });
    }

    /// The next ask about a machine that somebody still waits for.
    pub(super) fn next(&self, key: &ObjectKey) -> Option<Arc<Ask>> {
        let mut state = self.state();
        let asks = state.asks.get_mut(key)?;
        let next = std::iter::from_fn(|| asks.pop_front()).find(|ask| ask.is_waited_for());
        let more = !asks.is_empty();
        if !more {
            state.asks.remove(key);
        }
        let work = state.work.clone().filter(|_| more);
        drop(state);
        if let Some(work) = work {
            work.add(key.clone());
        }
        next
    }

    /// An ask that is looked at again.
    pub(super) fn put_back(&self, key: &ObjectKey, ask: Arc<Ask>) {
        self.state().asks.entry(key.clone()).or_default().push_front(ask);
    }

    pub(super) fn machine_of(&self, key: &ObjectKey) -> Option<Arc<Machine>> {
        self.state().caches.as_ref()?.machines.get(key)
    }

    async fn ask(
        &self,
        what: What,
        machine: &str,
        boot: &str,
        secret: &str,
    ) -> Result<Answer, Unavailable> {
        let (reply, answer) = oneshot::channel();
        let ask = Arc::new(Ask {
            what,
            boot: boot.to_owned(),
            proof: digest(secret),
            reply: Mutex::new(Some(reply)),
        });
        self.queue(ObjectKey::cluster(machine), ask)?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Err(Unavailable("the boot service is busy".to_owned())),
        }
    }

    fn queue(&self, key: ObjectKey, ask: Arc<Ask>) -> Result<(), Unavailable> {
        let mut state = self.state();
        let work = state.work.clone().ok_or_else(starting)?;
        state.asks.entry(key.clone()).or_default().push_back(ask);
        drop(state);
        work.add(key);
        Ok(())
    }

    fn booting(&self, machine: &Machine, caches: &Caches) -> Result<Booting, Unavailable> {
        let (name, status) = (machine.name(), machine.status.as_ref());
        let kind = caches.kinds.get(&ObjectKey::cluster(&machine.spec.instance_type));
        let assigned = machine.spec.assignment.as_ref().map(|assigned| &assigned.pool);
        let pool = assigned.or_else(|| status?.pool.as_ref());
        let pool = pool.and_then(|pool| caches.pools.get(&ObjectKey::cluster(pool)));
        let image =
            plan::boot::image(machine, pool.as_deref(), kind.as_deref()).ok_or_else(|| {
                let kind = &machine.spec.instance_type;
                Unavailable(format!("there is no InstanceType {kind}, so no image for {name}"))
            })?;
        let Addresses { service, api, images, arguments } = &self.0.addresses;
        let images = images.trim_end_matches('/');
        Ok(Booting {
            manifest: Manifest {
                machine: name.to_owned(),
                image: image.clone(),
                kernel: format!("{images}/{image}/vmlinuz"),
                initrd: format!("{images}/{image}/initrd"),
                arguments: arguments.clone(),
                service: service.clone(),
                api: api.clone(),
            },
            production: machine.state() == State::Production,
            boot: status.and_then(|status| status.agent.as_ref()).map(|agent| agent.boot.clone()),
        })
    }

    fn state(&self) -> MutexGuard<'_, Standing> {
        lock(&self.0.state)
    }
}

impl BootSource for Desk {
    async fn machine(&self, mac: &str) -> Result<Option<Booting>, Unavailable> {
        let (caches, name) = {
            let state = self.state();
            let caches = state.caches.clone().ok_or_else(starting)?;
            (caches, state.by_mac.get(mac).and_then(|names| names.first()).cloned())
        };
        if !caches.are_synced() {
            return Err(starting());
        }
        let machine = name.and_then(|name| caches.machines.get(&ObjectKey::cluster(name)));
        machine.map(|machine| self.booting(&machine, &caches)).transpose()
    }

    async fn enrol(&self, machine: &str, boot: &str, secret: &str) -> Result<Enrol, Unavailable> {
        match self.ask(What::Enrol, machine, boot, secret).await? {
            Answer::Enrol(answer) => Ok(answer),
            Answer::Join(_) => Err(Unavailable("another's answer".to_owned())),
        }
    }

    async fn join(&self, machine: &str, boot: &str, secret: &str) -> Result<Join, Unavailable> {
        match self.ask(What::Join, machine, boot, secret).await? {
            Answer::Join(answer) => Ok(answer),
            Answer::Enrol(_) => Err(Unavailable("another's answer".to_owned())),
        }
    }
}

fn starting() -> Unavailable {
    Unavailable("the boot service does not know the machines yet".to_owned())
}

/// Keeps the index of hardware addresses as the machines are.
fn see(by_mac: &mut BTreeMap<String, Vec<String>>, change: &Change<Machine>) {
    let macs = |machine: &Arc<Machine>| machine.spec.macs.clone();
    let (old, new) = (change.old.as_ref().map(macs), change.new.as_ref().map(macs));
    if old == new {
        return;
    }
    let name = &change.key.name;
    for mac in old.into_iter().flatten() {
        if let Some(names) = by_mac.get_mut(&mac) {
            names.retain(|known| known != name);
            if names.is_empty() {
                by_mac.remove(&mac);
            }
        }
    }
    for mac in new.into_iter().flatten() {
        let names = by_mac.entry(mac).or_default();
        if let Err(at) = names.binary_search(name) {
            names.insert(at, name.clone());
        }
    }
}

/// SHA-256 in hexadecimal.
fn digest(secret: &str) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
