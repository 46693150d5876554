//! `seatrial job`: how far training jobs have come, and where the time of their stops went.

use std::io::Write as _;

use api::training::{KEY, LABEL, Progress};
use api::{Incident, Machine};
use clap::Subcommand;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::clock::Clock;
use kube::Api;
use kube::api::ListParams;

use super::Outcome;
use crate::client::{Cluster, Where, run as block_on, unknown};

/// Arguments of `job`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  seatrial job why train\n  seatrial job why acme/train")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: Where,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say how far a training job has come, what stopped it, and what each stop cost by cause
    Why {
        /// The job, with its namespace where several have the name: acme/train
        name: String,
    },
}

/// What a job says of itself is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("the progress of {job} cannot be read; see ConfigMap {map}")]
struct Unreadable {
    job: String,
    map: String,
    source: serde_json::Error,
}

/// Does a verb.
pub(crate) fn run(args: &Args) -> Outcome {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        match &args.verb {
            Verb::Why { name } => why(&cluster, name).await,
        }
    })
}

async fn why(cluster: &Cluster, name: &str) -> Outcome {
    let maps: Api<ConfigMap> = Api::all(cluster.client().clone());
    let told = maps.list(&ListParams::default().labels(LABEL)).await;
    let told = told.map_err(|error| cluster.explain(error))?;
    let job = |map: &ConfigMap| {
        let labels = map.metadata.labels.as_ref();
        let job = labels.and_then(|labels| labels.get(LABEL)).cloned().unwrap_or_default();
        (map.metadata.namespace.clone().unwrap_or_default(), job)
    };
    let named = |map: &&ConfigMap| {
        let (namespace, job) = job(map);
        job == name || format!("{namespace}/{job}") == name
    };
    let known: Vec<String> = told.items.iter().map(|map| job(map).1).collect();
    let map = told.items.iter().find(named);
    let map = map.ok_or_else(|| unknown("training job", name, known.iter().map(String::as_str)))?;
    let (namespace, job) = job(map);
    let job = format!("{namespace}/{job}");
    let text = map.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str);
    let progress: Progress = serde_json::from_str(text).map_err(|source| {
        let own = map.metadata.name.clone().unwrap_or_default();
        Unreadable { job: job.clone(), map: format!("{namespace}/{own}"), source }
    })?;
    let incidents: Vec<Incident> = cluster.list().await?;
    let machines: Vec<Machine> = cluster.list().await?;
    let now = Clock::system().now();
    let told = plan::tell::training(now, &job, &progress, &incidents, &machines);
    Ok(writeln!(std::io::stdout(), "{told}")?)
}
