//! The controllers as a Deployment: two replicas of which one leads, under the strictest pod security;
//! and the Service by which machines that boot reach them.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, ContainerPort, HTTPGetAction, PodAffinityTerm,
    PodAntiAffinity, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecurityContext, Service, ServicePort, ServiceSpec, WeightedPodAffinityTerm,
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use super::cluster::Boots;
use super::rights::PROCESS;

/// One leads, and one waits.
const REPLICAS: i32 = 2;
/// Where metrics and health are answered.
const PORT: i32 = 8080;
/// Where machines that boot are answered.
const BOOT_PORT: i32 = 8082;
/// The Service before it.
const BOOT_SERVICE: &str = "seatrial-boot";
/// A user with no rights on any machine, as distroless images number it.
const NOBODY: i64 = 65_532;
/// The controllers of 10,000 nodes use less; see SPECIFICATION.md.
const MEMORY: &str = "1Gi";
/// How long a pod may take to end: reconciles that run are finished, then the lease is given back.
const GRACE_SECONDS: i64 = 30;

/// What selects its pods.
fn selector() -> LabelSelector {
    let labels = [("app.kubernetes.io/name", "seatrial"), ("app.kubernetes.io/component", PROCESS)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    LabelSelector { match_labels: Some(labels.into()), ..LabelSelector::default() }
}

fn named(namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(PROCESS.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

/// The controllers, from an image whose entry point is `seatrial`.
pub(super) fn deployment(namespace: &str, image: &str, boots: Option<&Boots>) -> Deployment {
    let replaced_one_by_one = RollingUpdateDeployment {
        max_unavailable: Some(IntOrString::Int(1)),
        max_surge: Some(IntOrString::Int(0)),
    };
    Deployment {
        metadata: named(namespace),
        spec: Some(DeploymentSpec {
            replicas: Some(REPLICAS),
            selector: selector(),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(replaced_one_by_one),
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: selector().match_labels,
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(image, boots)),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn pod(image: &str, boots: Option<&Boots>) -> PodSpec {
    PodSpec {
        service_account_name: Some(PROCESS.to_owned()),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(NOBODY),
            run_as_group: Some(NOBODY),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        affinity: Some(apart()),
        containers: vec![container(image, boots)],
        ..PodSpec::default()
    }
}

/// Better on two machines than on one.
fn apart() -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(selector()),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let preferred = WeightedPodAffinityTerm { weight: 100, pod_affinity_term: term };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// What the controllers are started with.
fn arguments(boots: Option<&Boots>) -> Vec<String> {
    let mut arguments = vec!["controllers".to_owned(), format!("--listen=0.0.0.0:{PORT}")];
    if let Some(Boots { url, api, images, arguments: kernel }) = boots {
        arguments.push(format!("--boot-listen=0.0.0.0:{BOOT_PORT}"));
        arguments.push(format!("--boot-url={url}"));
        arguments.push(format!("--boot-api={api}"));
        arguments.push(format!("--boot-images={images}"));
        arguments.extend(kernel.iter().map(|word| format!("--boot-argument={word}")));
    }
    arguments
}

/// What they answer on.
fn ports(boots: Option<&Boots>) -> Vec<ContainerPort> {
    let port = |name: &str, container_port| ContainerPort {
        name: Some(name.to_owned()),
        container_port,
        ..ContainerPort::default()
    };
    let boot = boots.map(|_| port("boot", BOOT_PORT));
    std::iter::once(port("metrics", PORT)).chain(boot).collect()
}

/// Where machines that boot find any of the controllers' pods that is ready.
pub(super) fn boot_service(namespace: &str) -> Service {
    Service {
        metadata: ObjectMeta {
            name: Some(BOOT_SERVICE.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            // Machines are outside of the cluster until they have joined.
            type_: Some("LoadBalancer".to_owned()),
            selector: selector().match_labels,
            ports: Some(vec![ServicePort {
                name: Some("boot".to_owned()),
                port: BOOT_PORT,
                target_port: Some(IntOrString::String("boot".to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn container(image: &str, boots: Option<&Boots>) -> Container {
    let amount = |what: &str, much: &str| (what.to_owned(), Quantity(much.to_owned()));
    let probe = |path: &str| Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(PORT),
            ..HTTPGetAction::default()
        }),
        ..Probe::default()
    };
    Container {
        name: "controllers".to_owned(),
        image: Some(image.to_owned()),
        args: Some(arguments(boots)),
        ports: Some(ports(boots)),
        liveness_probe: Some(probe("/healthz")),
        readiness_probe: Some(probe("/readyz")),
        resources: Some(ResourceRequirements {
            requests: Some([amount("cpu", "100m"), amount("memory", "128Mi")].into()),
            limits: Some([amount("memory", MEMORY)].into()),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// A drain takes one of them at a time.
pub(super) fn disruption_budget(namespace: &str) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: named(namespace),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}
