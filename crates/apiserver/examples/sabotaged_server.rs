//! The server with one deliberate bug, or none, for whoever compares it with a kube-apiserver.
#![allow(clippy::print_stdout, reason = "printing is what `list` is for")]
//!
//! `cargo xtask corpus --bugs` builds and drives it. It takes what that says to `seatrial serve`:
//!
//! ```text
//! sabotaged_server list
//! sabotaged_server serve --listen 127.0.0.1:0 --in-memory --kubeconfig FILE
//!     --token-auth-file FILE [--sabotage NAME]
//! ```
//!
//! `list` prints a bug a line, with the cases of the corpus that must tell it.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use apiserver::auth::authn::Authenticator;
use apiserver::auth::token_file::StaticTokens;
use apiserver::serve::{Counters, Limits, TlsConfig, serve};
use apiserver::{ApiServer, InFlight, Options, Sabotage};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::clock::Clock;
use kit::ids::Ids;
use kit::pki::Pki;
use serde_json::json;
use store::MemoryStore;
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("list") => {
            for (sabotage, cases) in Sabotage::ALL {
                println!("{sabotage:?} {}", cases.join(" "));
            }
            Ok(())
        }
        Some("serve") => start(&flags(words)).await,
        _ => Err("say `list` or `serve`; `cargo xtask corpus --bugs` does".into()),
    }
}

/// `--name value` and `--name=value`; what stands alone has no value.
fn flags(words: impl Iterator<Item = String>) -> HashMap<String, String> {
    let (mut flags, mut last) = (HashMap::new(), String::new());
    for word in words {
        match word.strip_prefix("--") {
            Some(flag) => {
                let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
                last = name.to_owned();
                flags.insert(last.clone(), value.to_owned());
            }
            None => {
                flags.insert(last.clone(), word);
            }
        }
    }
    flags
}

async fn start(flags: &HashMap<String, String>) -> Outcome<()> {
    let flag = |name: &str| flags.get(name).ok_or_else(|| format!("--{name} is missing"));
    if let Some(name) = flags.get("sabotage") {
        let found = Sabotage::ALL.iter().find(|(known, _)| format!("{known:?}") == *name);
        let (sabotage, _) =
            found.ok_or_else(|| format!("no sabotage is named {name}; ask `list`"))?;
        sabotage.plant().map_err(|other| format!("{other:?} is planted already"))?;
    }
    let listener = TcpListener::bind(flag("listen")?).await?;
    let address = listener.local_addr()?;
    let scratch = tempfile::tempdir()?;
    let clock = Clock::system();
    let pki = Pki::open(scratch.path(), clock.clone())?;
    let authority = pki.authority("ca", "sabotaged")?;
    let hosts = [address.ip().to_string()];
    let credential = pki.server("apiserver", &authority, "kube-apiserver", &hosts)?;
    let tokens = StaticTokens::parse(&std::fs::read_to_string(flag("token-auth-file")?)?)?;
    let (_keep, stopping) = tokio::sync::watch::channel(false);
    let server = ApiServer::new(Options {
        store: Arc::new(MemoryStore::new()),
        clock,
        ids: Ids::system(),
        authenticator: Authenticator {
            anonymous: true,
            tokens: vec![Box::new(tokens)],
            ..Authenticator::default()
        },
        token_key: None,
        without: Vec::new(),
        audit: None,
        inflight: InFlight::default(),
        bookmark_every: None,
        stopping,
    })
    .await?;
    let ca = authority.certificate_pem();
    let tls = TlsConfig::from_pem(&credential.certificate_pem, &credential.key_pem, Some(ca))?;
    let cluster = json!({
        "server": format!("https://{address}"), "certificate-authority-data": STANDARD.encode(ca),
    });
    let kubeconfig = json!({"clusters": [{"name": "sabotaged", "cluster": cluster}], "users": []});
    put(Path::new(flag("kubeconfig")?), &kubeconfig.to_string())?;
    let (limits, counters) = (Limits::default(), Arc::new(Counters::default()));
    serve(listener, tls, server.service(), limits, counters, std::future::pending()).await?;
    Ok(())
}

/// Whole or not at all: somebody waits for it.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::rename(draft, path)
}
