//! The controllers that run beside the embedded server: each as a user of its own, with exactly the
//! role that it declares. The watches, which all share, have the roles of all.

use apiserver::ApiServer;
use apiserver::auth::User;
use controllers::{Selection, Site};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use kit::clock::Clock;
use kit::controller::{Manager, Options, Running, WATCH_LIFETIME};
use kit::ids::Ids;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Who lists and watches for all controllers.
pub(crate) const READER: &str = "system:seatrial:controllers";

/// Starts the chosen controllers in this process.
///
/// # Errors
/// If their roles cannot be written.
pub(crate) async fn start(
    selection: &Selection,
    server: &ApiServer,
    site: &Site,
    clock: Clock,
) -> Result<Running, kube::Error> {
    let client = |name: &str| {
        let groups = vec!["system:authenticated".to_owned()];
        let user = User { name: name.to_owned(), groups, ..User::default() };
        Client::new(server.service_as(user), "default")
    };
    let admin = Client::new(server.service_as_admin(), "default");
    let mut manager = Manager::new(Options {
        client: client(READER),
        clock,
        ids: Ids::system(),
        watch_lifetime: WATCH_LIFETIME,
        instance: "seatrial-serve".to_owned(),
    });
    for entry in selection.entries(site) {
        let user = format!("system:seatrial:controller:{}", entry.folder);
        grant(&admin, &(entry.declare)().cluster_role(), &[&user, READER]).await?;
        (entry.add)(&mut manager, client(&user), site);
    }
    let metrics = manager.metrics();
    server.tell_metrics_of(move || metrics.text());
    Ok(manager.start())
}

/// Writes a role, and binds users to it.
pub(crate) async fn grant(
    admin: &Client,
    role: &ClusterRole,
    users: &[&str],
) -> Result<(), kube::Error> {
    let name = role.metadata.name.clone().unwrap_or_default();
    let apply = PatchParams::apply("seatrial").force();
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    roles.patch(&name, &apply, &Patch::Apply(role)).await?;
    let subject = |user: &&str| Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "User".to_owned(),
        name: (*user).to_owned(),
        namespace: None,
    };
    let binding = ClusterRoleBinding {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: name.clone(),
        },
        subjects: Some(users.iter().map(subject).collect()),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.patch(&name, &apply, &Patch::Apply(&binding)).await.map(drop)
}
