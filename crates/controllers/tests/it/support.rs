//! What the tests share: a cluster, and controllers that run in it with their own rights only.

mod brake;
mod real;

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use apiserver::ApiServer;
use apiserver::auth::User;
use controllers::{ALL, Entry, Site};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use kit::clock::Clock;
use kit::controller::{Declaration, Manager, Options, Running, VIRTUAL_WATCH_LIFETIME, reading};
use kit::ids::Ids;
use kit::pki::{CertificateAuthority, Pki};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt as _;

use self::real::Real;

/// Nothing here takes this long unless it hangs. Of real time: a held clock would be over it in no
/// time while a real server takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

enum Engine {
    Embedded(ApiServer),
    Real(Box<Real>),
}

pub(crate) struct Cluster {
    engine: Engine,
    clock: Clock,
    ids: Ids,
    /// The administrator.
    pub(crate) client: Client,
}

/// Runs a test on a cluster in the process, whatever the environment names: one whose server must
/// share the test's clock or be reached by more ways than one.
pub(crate) fn in_the_process(test: impl AsyncFnOnce(Cluster)) {
    on_a_held_clock(async move { test(Cluster::embedded().await).await });
}

fn on_a_held_clock(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(test);
}

/// Runs a test on the cluster that the environment names, else on one in the process.
pub(crate) fn on_a_cluster(test: impl AsyncFnOnce(Cluster)) {
    // What the controllers log, where RUST_LOG asks for it.
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
    }
    let real = std::env::var_os("SEATRIAL_TEST_KUBECONFIG").map(PathBuf::from);
    let Some(kubeconfig) = real else { return in_the_process(test) };
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let _turn = real::turn();
    on_a_held_clock(async move { test(Cluster::real(kubeconfig).await).await });
}

impl Cluster {
    async fn embedded() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::in_memory(clock.clone(), Ids::seeded(1)).await.unwrap();
        let client = Client::new(server.service_as_admin(), "default");
        Self { engine: Engine::Embedded(server), clock, ids: Ids::seeded(2), client }
    }

    async fn real(kubeconfig: Kubeconfig) -> Self {
        let real = Real::new(kubeconfig).await;
        let client = real.admin().await;
        // From now on, and then as fast as nothing happens.
        let clock = Clock::simulated(Clock::system().now());
        let cluster =
            Self { engine: Engine::Real(Box::new(real)), clock, ids: Ids::system(), client };
        cluster.account("default").await;
        cluster
    }

    /// A client that acts as a user of these groups.
    pub(crate) async fn act_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        match &self.engine {
            Engine::Embedded(server) => {
                let user = User { name: user.to_owned(), groups, ..User::default() };
                Client::new(server.service_as(user), "default")
            }
            Engine::Real(real) => real.act_as(user.to_owned(), Some(groups)).await,
        }
    }

    /// A client that shows a bearer token.
    pub(crate) async fn showing(&self, token: &str) -> Client {
        let server = match &self.engine {
            Engine::Embedded(server) => server,
            Engine::Real(real) => return real.showing(token).await,
        };
        let bearer = http::HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        let service = server.service();
        let shown = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer.clone());
            service.clone().oneshot(request)
        });
        Client::new(shown, "default")
    }

    /// A client that acts as a service account of ours.
    async fn client_as(&self, account: &str) -> Client {
        let name = format!("system:serviceaccount:kube-system:{account}");
        match &self.engine {
            Engine::Embedded(server) => {
                let groups = vec!["system:authenticated".to_owned()];
                let user = User { name, groups, ..User::default() };
                Client::new(server.service_as(user), "default")
            }
            Engine::Real(real) => real.act_as(name, None).await,
        }
    }

    /// Starts controllers, each as its own account with exactly the role that it declares.
    pub(crate) async fn start(&self, folders: &[&str]) -> Running {
        self.start_at(folders, &Site::default()).await
    }

    /// The same, where a site sets something.
    pub(crate) async fn start_at(&self, folders: &[&str], site: &Site) -> Running {
        let running = self.start_through(folders, site, |client| client).await;
        idle(&running).await;
        running
    }

    /// The same, with something between the controllers and the API; not at rest yet.
    pub(crate) async fn start_through(
        &self,
        folders: &[&str],
        site: &Site,
        through: impl Fn(Client) -> Client,
    ) -> Running {
        let entries: Vec<&Entry> =
            ALL.iter().filter(|entry| folders.contains(&entry.folder)).collect();
        assert_eq!(entries.len(), folders.len());
        for entry in &entries {
            self.grant(&(entry.declare)(), entry.folder).await;
        }
        let mut manager = Manager::new(Options {
            client: self.client_as("seatrial-reader").await,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            watch_lifetime: VIRTUAL_WATCH_LIFETIME,
            instance: "test".to_owned(),
        });
        for entry in entries {
            let client = self.client_as(&format!("seatrial-{}", entry.folder)).await;
            (entry.add)(&mut manager, through(client), site);
        }
        manager.start()
    }

    /// The controller gets what it declares, and who reads for all what it reads.
    async fn grant(&self, declaration: &Declaration, folder: &str) {
        let own = declaration.cluster_role();
        let reads = ClusterRole {
            metadata: ObjectMeta {
                name: own.metadata.name.as_ref().map(|name| format!("{name}:reads")),
                ..ObjectMeta::default()
            },
            rules: Some(reading([declaration])),
            ..ClusterRole::default()
        };
        for (role, account) in [(&own, folder), (&reads, "reader")] {
            let (role_ref, subjects) = binding("ClusterRole", &role.metadata, account);
            let metadata = ObjectMeta { name: role.metadata.name.clone(), ..ObjectMeta::default() };
            let binding = ClusterRoleBinding { metadata, role_ref, subjects: Some(subjects) };
            self.apply(None, role).await;
            self.apply(None, &binding).await;
        }
        for role in declaration.roles() {
            let (role_ref, subjects) = binding("Role", &role.metadata, folder);
            let metadata = role.metadata.clone();
            let binding = RoleBinding { metadata, role_ref, subjects: Some(subjects) };
            let namespace = role.metadata.namespace.clone().unwrap();
            let home = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            self.apply(None, &serde_json::from_value::<Namespace>(home).unwrap()).await;
            self.apply(Some(&namespace), &role).await;
            self.apply(Some(&namespace), &binding).await;
        }
    }

    pub(crate) async fn apply<K>(&self, namespace: Option<&str>, object: &K)
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let apply = PatchParams::apply("test").force();
        let url = K::url_path(&(), namespace);
        let name = object.meta().name.clone().unwrap();
        let request =
            kube::core::Request::new(url).patch(&name, &apply, &Patch::Apply(object)).unwrap();
        self.client.request::<K>(request).await.unwrap();
    }

    /// A namespace of the test's own, with the account without which a real server admits no pod.
    pub(crate) async fn namespace(&self, prefix: &str) -> String {
        let namespace = self.bare_namespace(prefix).await;
        self.account(&namespace).await;
        namespace
    }

    async fn account(&self, namespace: &str) {
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("default".to_owned());
        self.apply(Some(namespace), &account).await;
    }

    /// A namespace of the test's own with nothing in it.
    pub(crate) async fn bare_namespace(&self, prefix: &str) -> String {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some(format!("{prefix}-"));
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let made = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        made.metadata.name.unwrap()
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass: at once, since the clock is held.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Creates objects from JSON.
    pub(crate) async fn create<K>(&self, namespace: Option<&str>, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
    {
        let mut object: K = serde_json::from_value(object).unwrap();
        object.meta_mut().namespace = namespace.map(str::to_owned);
        let url = K::url_path(&(), namespace);
        let request = kube::core::Request::new(url)
            .create(&PostParams::default(), serde_json::to_vec(&object).unwrap());
        self.client.request(request.unwrap()).await.unwrap()
    }

    /// Objects of the whole cluster.
    pub(crate) fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// An authority of the test's own.
    pub(crate) fn authority(&self) -> CertificateAuthority {
        let directory = tempfile::tempdir().unwrap();
        let pki = Pki::open(directory.path().join("pki"), self.clock.clone()).unwrap();
        pki.authority("ca", "test").unwrap()
    }

    pub(crate) fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Waits, with all controllers at rest in between, until something holds.
    pub(crate) async fn until(&self, running: &Running, holds: impl AsyncFn() -> bool) {
        let waiting = async {
            while !holds().await {
                idle(running).await;
                tokio::task::yield_now().await;
            }
        };
        patiently(waiting).await.expect("it never came to be");
    }
}

/// What binds an account of ours to a role.
fn binding(kind: &str, role: &ObjectMeta, account: &str) -> (RoleRef, Vec<Subject>) {
    let role_ref = RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: role.name.clone().unwrap(),
    };
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: format!("seatrial-{account}"),
        namespace: Some("kube-system".to_owned()),
        ..Subject::default()
    };
    (role_ref, vec![subject])
}

/// Waits until nothing is left to do.
pub(crate) async fn idle(running: &Running) {
    let Some(idle) = patiently(running.until_idle()).await else {
        panic!("it never came to rest: {}", running.metrics().text());
    };
    idle.unwrap();
}

/// What comes of something, unless it takes too long.
async fn patiently<T>(something: impl Future<Output = T>) -> Option<T> {
    let (late, lateness) = tokio::sync::oneshot::channel::<()>();
    let (_over, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = late.send(());
        }
    });
    tokio::select! {
        biased;
        value = something => Some(value),
        Ok(()) = lateness => None,
    }
}
