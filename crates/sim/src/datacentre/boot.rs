//! What a machine's firmware does at its boot: asks the boot service by its hardware address.

use super::site::{BootService, Datacentre};
use super::truth::{Fetched, KERNEL};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use std::time::Duration;
use tower::ServiceExt;

/// After so long without an answer the firmware tries its next boot device.
const PATIENCE: Duration = Duration::from_secs(60);
/// A manifest is a few hundred bytes; network cards have little memory.
const MAX_BYTES: usize = 64 << 10;

/// What iPXE takes for a script.
const MAGIC: &str = "#!ipxe";

/// The parts of a manifest that the hardware needs; the rest is for what it boots.
#[derive(Deserialize)]
struct Manifest {
    image: String,
    /// The URL of the kernel.
    #[serde(default)]
    kernel: String,
}

/// Asks for script and manifest, and goes on with the boot or tries again.
pub(super) async fn fetch(site: Datacentre, index: usize, start: u64) {
    let mac = site.plan(index).macs.first().cloned().unwrap_or_default();
    let found = match site.boot_service() {
        Some(service) => tokio::time::timeout(PATIENCE, ask(&service, &mac)).await.ok().flatten(),
        None => None,
    };
    site.touch(index, |truth, around| truth.fetched(start, found, around));
}

async fn ask(service: &BootService, mac: &str) -> Option<Fetched> {
    get(service, "script", mac).await.filter(|script| script.starts_with(MAGIC))?;
    let manifest = get(service, "manifest", mac).await?;
    let Manifest { image, kernel } = serde_json::from_str(&manifest).ok()?;
    Some(Fetched { image, kernel: version(&kernel), manifest })
}

/// The version of a kernel by its URL, as `6.12.9` of `…/vmlinuz-6.12.9`; else that of the simulator.
fn version(url: &str) -> String {
    let name = url.rsplit('/').next().unwrap_or_default();
    let version = name.trim_start_matches("vmlinuz").trim_start_matches("linux");
    let version = version.trim_start_matches('-');
    let is = version.starts_with(|c: char| c.is_ascii_digit()) && version.len() <= 64;
    if is { version.to_owned() } else { KERNEL.to_owned() }
}

async fn get(service: &BootService, what: &str, mac: &str) -> Option<String> {
    let url = format!("{}/boot/v1/{what}?mac={mac}", service.url.trim_end_matches('/'));
    let request = Request::builder().method(Method::GET).uri(url).body(Bytes::new()).ok()?;
    let answer = service.exchange.clone().oneshot(request).await.ok()?;
    if answer.status() != StatusCode::OK || answer.body().len() > MAX_BYTES {
        tracing::debug!(mac, what, status = %answer.status(), "the boot service refuses");
        return None;
    }
    String::from_utf8(answer.into_body().to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_known_by_its_name() {
        assert_eq!(version("http://images/a/vmlinuz-6.12.9-cloud"), "6.12.9-cloud");
        for url in ["", "http://images/a/vmlinuz", "http://images/a/kernel?x=1"] {
            assert_eq!(version(url), KERNEL);
        }
    }
}
