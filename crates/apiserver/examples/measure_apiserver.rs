//! Measures the server in its own process, without a socket: creates, lists, a watch, memory.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
//!
//! `cargo run --release -p apiserver --example measure_apiserver [PODS]`

use std::error::Error;
use std::time::Instant;

use apiserver::{ApiServer, Service};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kit::{clock::Clock, ids::Ids};
use tower::Service as _;

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let pods: usize = std::env::args().nth(1).map_or(Ok(50_000), |text| text.parse())?;
    let began = Instant::now();
    let server = ApiServer::in_memory(Clock::system(), Ids::seeded(1)).await?;
    let mut client = server.service_as_admin();
    println!("ready                {:>10.3} s", began.elapsed().as_secs_f64());
    println!("memory               {:>10} MiB", resident()? / 1024);

    let began = Instant::now();
    let mut bytes = 0;
    for n in 0..pods {
        bytes = send(&mut client, "POST", "/api/v1/namespaces/default/pods", JSON, pod(n)).await?;
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{pods} pods created   {took:>10.3} s  ({:.3} ms each, {bytes} bytes)",
        took * 1e3 / pods as f64
    );
    println!("memory               {:>10} MiB", resident()? / 1024);

    for (what, path, accept) in [
        ("list of all", "/api/v1/pods", JSON),
        ("table of all", "/api/v1/pods", TABLE),
        ("table without objects", "/api/v1/pods?includeObject=None", TABLE),
        ("metadata of all", "/api/v1/pods", METADATA),
        ("a page of 500", "/api/v1/pods?limit=500", JSON),
        ("list of one node", "/api/v1/pods?fieldSelector=spec.nodeName=node-7", JSON),
    ] {
        let began = Instant::now();
        let bytes = send(&mut client, "GET", path, accept, String::new()).await?;
        let took = began.elapsed().as_secs_f64();
        println!(
            "{what:<22} {took:>8.3} s  ({bytes} bytes, {:.1} us per pod)",
            took * 1e6 / pods as f64
        );
    }
    println!("memory               {:>10} MiB", resident()? / 1024);
    Ok(())
}

/// Sends a request and reads the answer; how many bytes it has.
async fn send(
    client: &mut Service,
    method: &str,
    path: &str,
    accept: &str,
    body: String,
) -> Outcome<usize> {
    let request = Request::builder().method(method).uri(path).header("accept", accept);
    let request = request.body(Full::new(Bytes::from(body)))?;
    let response = client.call(request).await?;
    if !response.status().is_success() {
        return Err(format!("{method} {path}: {}", response.status()).into());
    }
    Ok(response.into_body().collect().await?.to_bytes().len())
}

/// A pod with what pods of a training job carry: labels, environment, resources, tolerations.
fn pod(n: usize) -> String {
    let environment: Vec<_> = (0..12)
        .map(|i| serde_json::json!({"name": format!("SETTING_{i}"), "value": "a value of some length"}))
        .collect();
    serde_json::json!({
        "metadata": {"name": format!("pod-{n}"), "labels": {"app": "train", "job": format!("j{}", n / 64)}},
        "spec": {"nodeName": format!("node-{}", n % 5_000), "containers": [{
            "name": "main", "image": "registry.example.com/train:1.2", "env": environment,
            "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}},
        }]},
    })
    .to_string()
}

/// Resident memory, in KiB.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    Ok(line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("0").parse()?)
}
