//! A machine joins: it asks for a certificate, gets it, and registers as the node that it names.

use controllers::Site;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::support::{Cluster, idle, on_a_cluster};

const ALL: [&str; 3] = ["csrapproving", "csrsigning", "csrcleaner"];

pub(crate) fn request(common_name: &str, organization: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

/// Sends a request for a node's client certificate; its name.
pub(crate) async fn ask(client: &Client, pem: &str) -> String {
    let object = json!({
        "metadata": {"generateName": "node-csr-"},
        "spec": {
            "request": k8s_openapi::ByteString(pem.as_bytes().to_vec()),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
            "expirationSeconds": 7200,
        },
    });
    let object: CertificateSigningRequest = serde_json::from_value(object).unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    requests.create(&PostParams::default(), &object).await.unwrap().name_any()
}

/// What kubeadm binds for machines that join.
async fn bind(cluster: &Cluster) {
    let client = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    for (name, role) in [("join", "system:node-bootstrapper"), ("approve", client)] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("test-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                "name": "system:bootstrappers"}],
        });
        let bindings: Api<ClusterRoleBinding> = cluster.api();
        let apply = PatchParams::apply("test").force();
        bindings.patch(&format!("test-{name}"), &apply, &Patch::Apply(binding)).await.unwrap();
    }
}

#[test]
fn a_machine_joins_by_its_bootstrap_token() {
    on_a_cluster(async |cluster| {
        let site = Site { authority: Some(cluster.authority()), ..Site::default() };
        let running = cluster.start_at(&ALL, &site).await;
        bind(&cluster).await;
        let machine = cluster.act_as("system:bootstrap:abcdef", &["system:bootstrappers"]).await;
        let name = ask(&machine, &request("system:node:joins", "system:nodes")).await;
        idle(&running).await;
        let requests: Api<CertificateSigningRequest> = cluster.api();
        let status = requests.get(&name).await.unwrap().status.unwrap();
        let approved = &status.conditions.unwrap()[0];
        assert_eq!(
            (&*approved.type_, approved.reason.as_deref()),
            ("Approved", Some("AutoApproved"))
        );
        let pem = status.certificate.unwrap().0;
        let (_, block) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        let (_, certificate) = X509Certificate::from_der(&block.contents).unwrap();
        let seconds = certificate.validity.not_after.timestamp() - cluster.now().as_second();
        assert!((7100..=7200).contains(&seconds), "{seconds}");

        // The node registers as whom its certificate says it is.
        let subject = certificate.subject();
        let user = subject.iter_common_name().next().unwrap().as_str().unwrap();
        let groups: Vec<_> = subject.iter_organization().map(|o| o.as_str().unwrap()).collect();
        assert_eq!((user, &groups[..]), ("system:node:joins", &["system:nodes"][..]));
        let nodes: Api<Node> = Api::all(cluster.act_as(user, &groups).await);
        let node = serde_json::from_value(json!({"metadata": {"name": "joins"}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let other = serde_json::from_value(json!({"metadata": {"name": "another"}})).unwrap();
        assert!(nodes.create(&PostParams::default(), &other).await.is_err());

        // An hour later nobody asks for the request any more.
        cluster.pass(3601).await;
        cluster.until(&running, async || requests.get_opt(&name).await.unwrap().is_none()).await;
        cluster.api::<Node>().delete("joins", &Default::default()).await.unwrap();
        running.stop().await;
    });
}

#[test]
fn what_nobody_may_have_is_not_approved_and_what_is_wrong_is_not_signed() {
    on_a_cluster(async |cluster| {
        let site = Site { authority: Some(cluster.authority()), ..Site::default() };
        let running = cluster.start_at(&ALL, &site).await;
        bind(&cluster).await;
        let stranger = cluster.act_as("stranger", &["system:masters"]).await;
        let wrong = ask(&stranger, &request("admin", "system:nodes")).await;
        idle(&running).await;
        let requests: Api<CertificateSigningRequest> = cluster.api();
        let seen = requests.get(&wrong).await.unwrap();
        assert!(seen.status.unwrap_or_default().conditions.is_none());

        // Somebody approves it none the less.
        let approval = Patch::Merge(json!({"status": {"conditions": [
            {"type": "Approved", "status": "True", "reason": "Test", "message": "by hand"}]}}));
        let params = PatchParams::default();
        requests.patch_subresource("approval", &wrong, &params, &approval).await.unwrap();
        idle(&running).await;
        let status = requests.get(&wrong).await.unwrap().status.unwrap();
        assert!(status.certificate.is_none());
        let failed = status.conditions.unwrap();
        let failed = failed.iter().find(|condition| condition.type_ == "Failed").unwrap();
        assert_eq!(failed.reason.as_deref(), Some("SignerValidationFailed"));
        let why = "subject common name does not begin with system:node: ";
        assert_eq!(failed.message.as_deref(), Some(why));
        requests.delete(&wrong, &Default::default()).await.unwrap();
        running.stop().await;
    });
}

#[test]
fn a_bootstrap_token_goes_at_its_date() {
    on_a_cluster(async |cluster| {
        let running = cluster.start(&["tokencleaner"]).await;
        let end = cluster.now() + jiff::SignedDuration::from_secs(30);
        let token = |id: &str, expiration: String| {
            json!({
                "metadata": {"name": format!("bootstrap-token-{id}")},
                "type": "bootstrap.kubernetes.io/token",
                "stringData": {"token-id": id, "token-secret": "0123456789abcdef",
                    "expiration": expiration},
            })
        };
        let date = kit::clock::rfc3339_seconds(end);
        cluster.create::<Secret>(Some("kube-system"), token("abcdef", date)).await;
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
        let there = async || secrets.get_opt("bootstrap-token-abcdef").await.unwrap().is_some();
        idle(&running).await;
        cluster.pass(20).await;
        idle(&running).await;
        assert!(there().await);
        cluster.pass(11).await;
        cluster.until(&running, async || !there().await).await;
        running.stop().await;
    });
}
