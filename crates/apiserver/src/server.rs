//! The server's state, and the way of a request through it.
//!
//! One path for everybody: identity, route, right, resource, verb, answer. A client in the process
//! walks it exactly as one on the network does; only where the identity comes from differs. The
//! server runs no task of its own and keeps no timer: what follows from a write (a CRD that becomes
//! a resource, a role that takes effect) is done by the request that wrote, before it is answered.

mod authorizer;
mod bootstrap;
mod definitions;
mod expiry;
mod inflight;
mod route;

use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use http::{Request, Response};
use kit::clock::{Clock, rfc3339_seconds};
use kit::ids::Ids;
use serde_json::Value;
use store::{KeyRange, Store};

use crate::audit::Audit;
use crate::auth::aggregate;
use crate::auth::authn::Authenticator;
use crate::auth::bootstrap::BootstrapTokens;
use crate::auth::rbac::{RbacIndex, RbacKind};
use crate::auth::service_account::{Issuer, ServiceAccountTokens};
use crate::auth::signing::{TokenKey, UseKey};
use crate::auth::{MASTERS, User};
use crate::builtin;
use crate::metrics::Metrics;
use crate::openapi::Documents;
use crate::registry::by_node;
use crate::registry::quota::Locks;
use crate::registry::{Call, Object, Policies, Webhooks};
use crate::request::{Query, ResourcePath, Verb};
use crate::resource::{Resource, Table};
use crate::service::Service;
use crate::status::ApiError;
use crate::stored::Stored;
use crate::wire::body::ResponseBody;

pub(crate) use self::authorizer::{is_mirror, node_of};
use self::definitions::Definitions;
use self::expiry::Leases;
use self::inflight::Doors;
pub use self::inflight::InFlight;
pub(crate) use self::route::in_process;

/// A Kubernetes-compatible API server over a store. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Clock,
    ids: Ids,
    authenticator: Authenticator,
    issuer: Arc<Issuer>,
    without: Vec<Plugin>,
    audit: Option<Audit>,
    watch_limits: WatchLimits,
    doors: Doors,
    table: RwLock<Arc<Table>>,
    definitions: Definitions,
    /// The rules as they stand; none once a role or binding was written, until somebody asks.
    rbac: RwLock<Option<Arc<RbacIndex>>>,
    policies: RwLock<Arc<Policies>>,
    webhooks: RwLock<Arc<Webhooks>>,
    metrics: Metrics,
    beside: OnceLock<Beside>,
    leases: Leases,
    openapi: Documents,
    /// Held while a service is given its address and ports, until it is stored.
    addresses: tokio::sync::Mutex<()>,
    quotas: Locks,
}

/// Metrics of what runs beside the server in its process, in Prometheus' text form.
type Beside = Box<dyn Fn() -> String + Send + Sync>;

/// What bounds a watch.
#[derive(Clone)]
pub(crate) struct WatchLimits {
    /// How long one may last if the client names no time.
    pub(crate) lifetime: Duration,
    /// How often a client that wants bookmarks gets one, if there is anything new to say.
    pub(crate) bookmark_every: Option<Duration>,
    /// Ends every watch when the server stops.
    pub(crate) stopping: Stopping,
}

/// Tells watches that the server is about to stop.
#[derive(Clone)]
pub struct Stopping(tokio::sync::watch::Receiver<bool>);

impl Stopping {
    /// Resolves when the server stops; never, if whoever could stop it is gone.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How a server is made; [`ApiServer::new`] takes it.
pub struct Options {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// The time that objects are stamped with.
    pub clock: Clock,
    /// Where UIDs and generated names come from.
    pub ids: Ids,
    /// Who is who. The server adds the tokens that it issues itself.
    pub authenticator: Authenticator,
    /// What signs the tokens of service accounts; `None` draws a key that ends with the server.
    pub token_key: Option<TokenKey>,
    /// Rules that pods and nodes are not held to.
    pub without: Vec<Plugin>,
    /// What is told of requests; `None` tells nothing.
    pub audit: Option<Audit>,
    /// How many requests may be under way at a time.
    pub inflight: InFlight,
    /// How often watches that ask for bookmarks get them; `None` keeps a paused clock at rest.
    pub bookmark_every: Option<Duration>,
    /// Becomes true when watches must end.
    pub stopping: tokio::sync::watch::Receiver<bool>,
}

/// A rule of admission that can be left out, by the name that a kube-apiserver gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// A pod runs as a service account that is there, and gets its token. Who keeps no controller
    /// that makes the accounts of new namespaces leaves it out, as a bare test server does.
    ServiceAccount,
    /// A kubelet writes only what is its own node's.
    NodeRestriction,
    /// Claims and volumes get the finalizers that keep them while they are used. Who keeps no controller
    /// that takes those off leaves it out.
    StorageObjectInUseProtection,
}

impl Plugin {
    /// Those that count on controllers to go on with what they do: a bare server leaves them out.
    pub const OF_CONTROLLERS: [Self; 2] =
        [Self::ServiceAccount, Self::StorageObjectInUseProtection];
}

/// The name under which tokens are issued, and by which they know this server.
const ISSUER: &str = "https://kubernetes.default.svc";

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store's content cannot be read or the first objects cannot be written.
    #[error("cannot prepare the store: {0}")]
    Prepare(ApiError),
    /// The built-in tables are inconsistent.
    #[error("the table of built-in kinds is damaged: {0}")]
    Facts(String),
    /// There is no key for the tokens of service accounts.
    #[error("cannot draw a key for the tokens of service accounts")]
    DrawKey(#[source] UseKey),
}

impl ApiServer {
    /// A server over a store, with the objects that every cluster has.
    pub async fn new(options: Options) -> Result<Self, StartError> {
        let table = builtin::table().map_err(StartError::Facts)?;
        let key = match options.token_key {
            Some(key) => key,
            None => TokenKey::draw(&options.ids).map_err(StartError::DrawKey)?,
        };
        let issuer = Arc::new(Issuer::new(key, ISSUER));
        let mut authenticator = options.authenticator;
        if authenticator.audiences.is_empty() {
            authenticator.audiences.push(ISSUER.to_owned());
        }
        authenticator.tokens.push(Box::new(ServiceAccountTokens::new(
            Arc::clone(&issuer),
            Arc::clone(&options.store),
            options.clock.clone(),
        )));
        authenticator.tokens.push(Box::new(BootstrapTokens::new(
            Arc::clone(&options.store),
            options.clock.clone(),
        )));
        let server = Self(Arc::new(Inner {
            store: options.store,
            clock: options.clock,
            ids: options.ids,
            authenticator,
            issuer,
            without: options.without,
            audit: options.audit,
            doors: Doors::new(options.inflight),
            watch_limits: WatchLimits {
                lifetime: Duration::from_secs(30 * 60),
                bookmark_every: options.bookmark_every,
                stopping: Stopping(options.stopping),
            },
            table: RwLock::new(Arc::new(table)),
            definitions: Definitions::default(),
            rbac: RwLock::default(),
            policies: RwLock::default(),
            webhooks: RwLock::default(),
            metrics: Metrics::default(),
            beside: OnceLock::new(),
            leases: Leases::default(),
            openapi: Documents::default(),
            addresses: tokio::sync::Mutex::default(),
            quotas: Locks::default(),
        }));
        server.store().alias(by_node::alias);
        server.prepare().await.map_err(StartError::Prepare)?;
        Ok(server)
    }

    /// A server that keeps everything in memory and knows only clients in its own process: what
    /// tests and simulations want.
    pub async fn in_memory(clock: Clock, ids: Ids) -> Result<Self, StartError> {
        let (_keep, stopping) = tokio::sync::watch::channel(false);
        Self::new(Options {
            store: Arc::new(store::MemoryStore::new()),
            clock,
            ids,
            authenticator: Authenticator::default(),
            token_key: None,
            without: Plugin::OF_CONTROLLERS.into(),
            audit: None,
            inflight: InFlight::UNLIMITED,
            bookmark_every: None,
            stopping,
        })
        .await
    }

    /// Lets `/metrics` tell of what runs beside the server too. Said once; later ones are not heard.
    pub fn tell_metrics_of(&self, beside: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.0.beside.set(Box::new(beside));
    }

    /// The server as a `tower` service in which every request comes from `user`. Authorization,
    /// admission and `managedFields` are those of the network.
    pub fn service_as(&self, user: User) -> Service {
        Service::new(self.clone(), Some(user))
    }

    /// The service of an administrator, whom nothing is forbidden.
    pub fn service_as_admin(&self) -> Service {
        let groups = vec![MASTERS.to_owned(), crate::auth::AUTHENTICATED.to_owned()];
        self.service_as(User { name: "admin".to_owned(), groups, ..User::default() })
    }

    /// The server as a `tower` service for a network front; identities come from credentials.
    pub fn service(&self) -> Service {
        Service::new(self.clone(), None)
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Held while a service is written.
    pub(crate) fn addresses(&self) -> &tokio::sync::Mutex<()> {
        &self.0.addresses
    }

    /// Held while what quotas count is written.
    pub(crate) fn quotas(&self) -> &Locks {
        &self.0.quotas
    }

    pub(crate) fn ids(&self) -> &Ids {
        &self.0.ids
    }

    pub(crate) fn watch_limits(&self) -> WatchLimits {
        self.0.watch_limits.clone()
    }

    /// The time as objects carry it.
    pub(crate) fn now(&self) -> String {
        rfc3339_seconds(self.0.clock.now())
    }

    /// The time in whole seconds, the finest that most fields of objects hold.
    pub(crate) fn second(&self) -> jiff::Timestamp {
        let now = self.0.clock.now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    pub(crate) fn timestamp(&self) -> jiff::Timestamp {
        self.0.clock.now()
    }

    /// When an object that may take so long to end will be gone.
    pub(crate) fn deletion_time(&self, grace_seconds: i64) -> String {
        let now = self.0.clock.now();
        let grace = jiff::SignedDuration::from_secs(grace_seconds);
        rfc3339_seconds(now.checked_add(grace).unwrap_or(jiff::Timestamp::MAX))
    }

    /// The resources as they are now.
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&read(&self.0.table))
    }

    /// Reads an object past every rule: for the server's own use.
    pub(crate) fn read(
        &self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Object>, ApiError> {
        let Some(resource) = self.table().get(group, plural).cloned() else { return Ok(None) };
        let key = crate::registry::key(&resource, namespace, name);
        let Some(entry) = self.store().get(&key, None).map_err(ApiError::internal)? else {
            return Ok(None);
        };
        let stored = Stored::from_entry(&entry).map_err(ApiError::internal)?;
        match stored.to_value().map_err(ApiError::internal)? {
            Value::Object(object) => Ok(Some(object)),
            _ => Err(ApiError::internal("an object in the store is damaged")),
        }
    }

    /// Every object of a resource, past every rule: for the server's own use.
    pub(crate) fn read_all(&self, resource: &Resource) -> Result<Vec<Object>, ApiError> {
        self.read_all_in(resource, None)
    }

    /// Every object of a resource in a namespace, likewise.
    pub(crate) fn read_all_in(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Vec<Object>, ApiError> {
        let range = KeyRange::prefix(crate::registry::prefix(resource, namespace));
        let page = self.store().list(&range, None, None).map_err(ApiError::internal)?;
        let mut objects = Vec::with_capacity(page.entries.len());
        for entry in &page.entries {
            let stored = Stored::from_entry(entry).map_err(ApiError::internal)?;
            if let Value::Object(object) = stored.to_value().map_err(ApiError::internal)? {
                objects.push(object);
            }
        }
        Ok(objects)
    }

    /// A call by the server itself, past authorization.
    pub(crate) fn own_call<'a>(
        &'a self,
        user: &'a User,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Call<'a> {
        Call {
            server: self,
            user,
            resource: Arc::clone(resource),
            version: resource.storage,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            query: Query::parse(Some("fieldManager=kube-apiserver")),
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::new(),
            annotations: Vec::new(),
            emptied: Vec::new(),
            warnings: Vec::new(),
            followed: false,
        }
    }

    /// Does what follows from a write to a resource, before the write is answered.
    pub(crate) async fn committed(&self, resource: &Resource) {
        let followed = match (resource.group.as_str(), resource.plural.as_str()) {
            ("rbac.authorization.k8s.io", _) => {
                *write(&self.0.rbac) = None;
                Ok(())
            }
            ("admissionregistration.k8s.io", _) => self.follow_admission(),
            ("apiextensions.k8s.io", _) => self.follow_definitions().await,
            _ if resource.is_custom() => self.follow_instances(resource).await,
            _ => Ok(()),
        };
        if let Err(error) = followed {
            // The write itself stands; what should follow from it is tried again at the next one.
            tracing::error!(%error, resource = %resource.group_resource(), "cannot follow a write");
        }
    }

    /// Reads roles and bindings. They are few, and change seldom.
    fn read_rbac(&self) -> Result<RbacIndex, ApiError> {
        let table = self.table();
        let mut index = RbacIndex::default();
        for (plural, kind) in [
            ("roles", RbacKind::Role),
            ("clusterroles", RbacKind::ClusterRole),
            ("rolebindings", RbacKind::RoleBinding),
            ("clusterrolebindings", RbacKind::ClusterRoleBinding),
        ] {
            let Some(resource) = table.get("rbac.authorization.k8s.io", plural) else { continue };
            let mut objects = self.read_all(resource)?;
            if kind == RbacKind::ClusterRole {
                aggregate::gather(&mut objects);
            }
            for object in objects {
                let metadata = crate::registry::meta(&object);
                let of = |field| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
                let (namespace, name) = (of("namespace").to_owned(), of("name").to_owned());
                if let Err(error) = index.apply(kind, &namespace, &name, &Value::Object(object)) {
                    tracing::warn!(%error, kind = plural, %namespace, %name, "cannot read a rule");
                }
            }
        }
        Ok(index)
    }

    /// Compiles what changed of the policies and webhooks of admission.
    fn follow_admission(&self) -> Result<(), ApiError> {
        let table = self.table();
        let all = |plural| match table.get("admissionregistration.k8s.io", plural) {
            Some(resource) => self.read_all(resource),
            None => Ok(Vec::new()),
        };
        let policies = all("validatingadmissionpolicies")?;
        let bindings = all("validatingadmissionpolicybindings")?;
        let mut current = write(&self.0.policies);
        *current = Arc::new(Policies::of(&current, policies, bindings));
        drop(current);
        let mutating = all("mutatingwebhookconfigurations")?;
        let validating = all("validatingwebhookconfigurations")?;
        let mut current = write(&self.0.webhooks);
        *current = Arc::new(Webhooks::of(&current, mutating, validating));
        Ok(())
    }

    /// The webhooks of admission as they are now.
    pub(crate) fn webhooks(&self) -> Arc<Webhooks> {
        Arc::clone(&read(&self.0.webhooks))
    }

    /// The policies of admission as they are now.
    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&read(&self.0.policies))
    }

    /// Answers a request.
    pub(crate) async fn handle<B>(
        &self,
        request: Request<B>,
        user: Option<User>,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body,
        B::Error: std::fmt::Display,
    {
        route::handle(self, request, user).await
    }

    /// What signs tokens.
    pub(crate) fn issuer(&self) -> &Issuer {
        &self.0.issuer
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.0.audit.as_ref()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Whether a rule of admission counts.
    pub(crate) fn admits_with(&self, plugin: Plugin) -> bool {
        !self.0.without.contains(&plugin)
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// Whether a user may do something to what a path names; the refusal otherwise.
    pub(crate) fn authorize(
        &self,
        user: &User,
        verb: Verb,
        path: &ResourcePath,
    ) -> Result<(), ApiError> {
        route::authorize(self, user, path, verb.as_str())
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// All that `/metrics` says.
    pub(crate) fn metrics_text(&self) -> String {
        let mut text = self.0.metrics.text(self.0.store.revision().0);
        text.push_str(&self.0.doors.text());
        if let Some(beside) = self.0.beside.get() {
            // The end mark of the newer text form is a comment in the one that is served.
            text.push_str(&beside());
        }
        text
    }

    pub(crate) fn openapi(&self) -> &Documents {
        &self.0.openapi
    }

    /// The rules that stand. What was answered before is in them; they are read again when the first
    /// asks after a write, so that a hundred roles in a row cost one reading.
    pub(crate) fn rbac(&self) -> Arc<RbacIndex> {
        if let Some(rules) = &*read(&self.0.rbac) {
            return Arc::clone(rules);
        }
        let mut rules = write(&self.0.rbac);
        if rules.is_none() {
            match self.read_rbac() {
                Ok(read) => *rules = Some(Arc::new(read)),
                Err(error) => tracing::error!(%error, "cannot read the rules: nobody may anything"),
            }
        }
        rules.clone().unwrap_or_default()
    }
}

/// A lock is only ever held over moves of finished values, so a poisoned one is still whole.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}
