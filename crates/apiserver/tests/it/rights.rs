//! Rights: a user in the process has those of the rules, from the moment a rule is answered.

use apiserver::auth::User;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::support::{admin, config_map, refusal, server};

fn alice() -> User {
    User { name: "alice".into(), ..User::default() }
}

async fn grant(admin: &Client, verbs: &[&str]) {
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "maps"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }))
    .unwrap();
    Api::default_namespaced(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::default_namespaced(admin.clone()).create(&PostParams::default(), &binding).await.unwrap();
}

#[tokio::test]
async fn rules_count_from_the_moment_they_are_answered() {
    let server = server().await;
    let admin = admin(&server);
    let maps: Api<ConfigMap> =
        Api::default_namespaced(Client::new(server.service_as(alice()), "default"));

    let (code, reason, message) = refusal(maps.list(&ListParams::default()).await);
    assert_eq!((code, &*reason), (403, "Forbidden"));
    assert_eq!(
        message,
        "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"default\""
    );
    grant(&admin, &["list", "create"]).await;
    maps.list(&ListParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("a", &[])).await.unwrap();
    assert_eq!(refusal(maps.get("a").await).0, 403);
    let elsewhere: Api<ConfigMap> = Api::namespaced(maps.clone().into_client(), "kube-system");
    assert_eq!(refusal(elsewhere.list(&ListParams::default()).await).0, 403);

    let bindings: Api<RoleBinding> = Api::default_namespaced(admin);
    bindings.delete("maps", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(maps.list(&ListParams::default()).await).0, 403);
}

#[tokio::test]
async fn a_kubelet_reads_the_secrets_of_its_pods_alone() {
    let server = server().await;
    let admin = admin(&server);
    let secrets: Api<Secret> = Api::default_namespaced(admin.clone());
    for name in ["mine", "others"] {
        let secret = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mine"}}],
        },
    }))
    .unwrap();
    Api::default_namespaced(admin).create(&PostParams::default(), &pod).await.unwrap();

    for (node, name, may) in [("n1", "mine", true), ("n1", "others", false), ("n2", "mine", false)]
    {
        let kubelet = User {
            name: format!("system:node:{node}"),
            groups: vec!["system:nodes".into()],
            ..User::default()
        };
        let client = Client::new(server.service_as(kubelet), "default");
        let read = Api::<Secret>::default_namespaced(client).get(name).await;
        assert_eq!(read.is_ok(), may, "{node} reads {name}: {read:?}");
    }
}

#[tokio::test]
async fn the_server_knows_who_wrote() {
    let server = server().await;
    grant(&admin(&server), &["create"]).await;
    let maps: Api<ConfigMap> =
        Api::default_namespaced(Client::new(server.service_as(alice()), "default"));
    let by_alice = PostParams { field_manager: Some("alices-tool".into()), ..Default::default() };
    let made = maps.create(&by_alice, &config_map("a", &[("k", "v")])).await.unwrap();
    let managers: Vec<_> = made.metadata.managed_fields.unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("alices-tool"));
}
