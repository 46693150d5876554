//! A boot's way into the cluster, as `metal::boot` and upstream's kubelet go it.
//!
//! A boot draws a secret and asks the boot service who it is, until it is told; its agent speaks as that
//! from then on. When the agent wants a kubelet, that asks for a token to join, sends a request for a
//! certificate with it, waits until that is issued, and acts by the certificate. Secret, key, token and
//! certificate lie in the memory of the machine, so that whoever starts again during a boot goes on.
//!
//! Nothing here gives up: what fails is tried again, more and more rarely, or when the boot service says
//! that it is worth it. A certificate is not renewed: it is good for a year, and every boot has its own.

use std::time::Duration;

use apiserver::auth::certificate::PeerCertificates;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::pki::PrivateKey;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use metal::boot::{self, Claim, JoinToken, NotGiven};
use tokio::sync::watch;

use super::host::Host;
use super::identity::{Asking, Credential};
use crate::datacentre::{Running, Voice};

/// The first wait after a failure, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// How long a request for a certificate is waited for before it is looked at anew.
const ISSUED_WITHIN: Duration = Duration::from_secs(120);
/// A token that ends this soon is not worth a try.
const SOON: SignedDuration = SignedDuration::from_secs(5);

/// What a boot keeps in its machine's memory.
const SECRET: &str = "boot.secret";
const KEY: &str = "kubelet.key";
const TOKEN: &str = "bootstrap.token";
const CERTIFICATE: &str = "kubelet.crt";

/// One boot of a host that asks who it is.
pub(super) struct Joining<'a> {
    pub(super) host: &'a Host,
    pub(super) running: &'a Running,
    pub(super) asking: &'a Asking,
}

impl Joining<'_> {
    /// Asks who this boot is until it is told.
    pub(super) async fn enrol(&self) -> boot::Identity {
        let boots = &self.asking.boots;
        let mut failures = 0;
        loop {
            let asked = match self.claim(Voice::Agent) {
                Ok(claim) => boot::enrol(&boots.exchange, &boots.url, &claim).await,
                Err(why) => Err(why),
            };
            match asked {
                Ok(identity) => return identity,
                Err(why) => self.rest(&mut failures, &why).await,
            }
        }
    }

    /// Asks anew before the identity ends, for as long as the boot lasts.
    pub(super) async fn stay_enrolled(&self, tokens: watch::Sender<String>, mut ends: Timestamp) {
        loop {
            let left = ends.duration_since(self.host.clock.now()).unsigned_abs();
            tokio::time::sleep(left.mul_f64(0.8)).await;
            let identity = self.enrol().await;
            ends = identity.expires;
            tokens.send_replace(identity.token);
        }
    }

    /// Runs the kubelet while it is wanted, once it has joined.
    pub(super) async fn kubelet(&self, mut wanted: watch::Receiver<bool>) {
        let (host, name) = (self.host, self.host.hardware.name());
        loop {
            if *wanted.borrow_and_update() {
                let client = tokio::select! {
                    biased;
                    Ok(()) = wanted.changed() => continue,
                    client = self.node() => client,
                };
                let mute = !host.heard(Voice::Kubelet);
                host.fleet.start_kubelet(name, self.running, client, mute, host.clock.now());
            } else {
                host.fleet.stop_kubelet(name, host.clock.now());
            }
            if wanted.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// A client that acts as the machine's node.
    async fn node(&self) -> Client {
        let mut failures = 0;
        loop {
            if let Some(credential) = self.certificate_kept() {
                return (self.asking.door)(credential);
            }
            match self.join().await {
                Ok(pem) => self.keep(CERTIFICATE, &pem),
                Err(why) => self.rest(&mut failures, &why).await,
            }
        }
    }

    /// Joins: the certificate.
    async fn join(&self) -> Result<String, NotGiven> {
        let token = match self.kept_token() {
            Some(token) => token,
            None => {
                let (boots, claim) = (&self.asking.boots, self.claim(Voice::Kubelet)?);
                let token = boot::join(&boots.exchange, &boots.url, &claim).await?;
                self.keep(TOKEN, &serde_json::to_string(&token).unwrap_or_default());
                token
            }
        };
        let key = match self.kept(KEY).and_then(|pem| PrivateKey::from_pem(&pem).ok()) {
            Some(key) => key,
            None => {
                let key = PrivateKey::draw().map_err(|error| not_given(&error))?;
                self.keep(KEY, &key.to_pem());
                key
            }
        };
        self.certificate(&token, &key).await
    }

    /// Sends a request for the node's certificate, unless that was done before, and waits for it.
    async fn certificate(&self, token: &JoinToken, key: &PrivateKey) -> Result<String, NotGiven> {
        let node = format!("system:node:{}", self.host.hardware.name());
        let pem = key.request(&node, "system:nodes").map_err(|error| not_given(&error))?;
        let (id, _) = token.token.split_once('.').unwrap_or_default();
        let name = format!("node-csr-{id}");
        let request = CertificateSigningRequest {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(pem.into_bytes()),
                signer_name: plan::certificates::KUBELET.to_owned(),
                usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let client = (self.asking.door)(Credential::token(token.token.clone()));
        let requests: Api<CertificateSigningRequest> = Api::all(client);
        match requests.create(&PostParams::default(), &request).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other.map_err(|error| not_given(&error))?),
        }
        let decided = await_condition(requests, &name, |request: Option<&_>| {
            request.is_none_or(|request| verdict(request).is_some())
        });
        let decided = tokio::time::timeout(ISSUED_WITHIN, decided).await;
        let decided = decided.map_err(|error| not_given(&error))?;
        let decided = decided.map_err(|error| not_given(&error))?;
        let verdict = decided.as_ref().and_then(verdict);
        verdict.unwrap_or_else(|| Err("the request is gone".to_owned())).map_err(|why| {
            // It is good for no other request.
            self.host.hardware.forget(TOKEN);
            NotGiven { why, after: None }
        })
    }

    /// What this boot claims, if it can be heard.
    fn claim(&self, voice: Voice) -> Result<Claim, NotGiven> {
        let host = self.host;
        if !host.heard(voice) {
            return Err(NotGiven { why: "a fault silences it".to_owned(), after: None });
        }
        let secret = match self.kept(SECRET) {
            Some(secret) => secret,
            None => {
                let mut bytes = [0; 16];
                host.ids.fill(&mut bytes).map_err(|error| not_given(&error))?;
                let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.keep(SECRET, &secret);
                secret
            }
        };
        let mac = host.hardware.plan().macs.first().cloned().unwrap_or_default();
        Ok(Claim { mac, boot: self.running.boot.clone(), secret })
    }

    fn certificate_kept(&self) -> Option<Credential> {
        let (certificate, key) = (self.kept(CERTIFICATE)?, self.kept(KEY)?);
        // One that nobody can read is as good as none.
        PeerCertificates::of_this_process(&certificate)?;
        Some(Credential::Certificate { certificate, key })
    }

    /// A token that this boot was given and can still use.
    fn kept_token(&self) -> Option<JoinToken> {
        let token: JoinToken = serde_json::from_str(&self.kept(TOKEN)?).ok()?;
        let left = token.expires.duration_since(self.host.clock.now());
        (left > SOON).then_some(token)
    }

    fn kept(&self, name: &str) -> Option<String> {
        self.host.hardware.kept(&self.running.boot, name)
    }

    fn keep(&self, name: &str, text: &str) {
        self.host.hardware.keep(&self.running.boot, name, text);
    }

    /// Waits after a failure: longer each time, spread, and not before the service says.
    async fn rest(&self, failures: &mut u32, why: &NotGiven) {
        let name = self.host.hardware.name();
        tracing::debug!(machine = name, %why, "waits before it asks again");
        let exact = WAITS.0.saturating_mul(1 << (*failures).min(16)).min(WAITS.1);
        *failures = failures.saturating_add(1);
        let mut byte = [0; 1];
        // Without random numbers all come back at once, which is slower and still right.
        let share = self.host.ids.fill(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 255.0);
        let spread = exact.mul_f64(0.5 + share);
        tokio::time::sleep(why.after.unwrap_or_default() + spread).await;
    }
}

fn not_given(error: &(dyn std::error::Error + 'static)) -> NotGiven {
    NotGiven { why: kit::error::chain(error).to_string(), after: None }
}

/// What became of a request, once something has: the certificate, or why there is none.
fn verdict(request: &CertificateSigningRequest) -> Option<Result<String, String>> {
    let status = request.status.as_ref()?;
    if let Some(pem) = status.certificate.as_ref().filter(|pem| !pem.0.is_empty()) {
        return Some(String::from_utf8(pem.0.clone()).map_err(|error| error.to_string()));
    }
    let ended = |type_: &str| matches!(type_, "Denied" | "Failed");
    let refused = status.conditions.iter().flatten().find(|c| ended(&c.type_))?;
    let why = refused.message.clone().unwrap_or_default();
    Some(Err(format!("the request is {}: {why}", refused.type_.to_lowercase())))
}
