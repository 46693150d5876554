//! The two servers of a run: where they listen, whom they know, and how ours is started.

pub(crate) mod client;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use self::client::Client;
use crate::{tool, upstream};

const READY_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A server that answers.
pub(crate) struct Server {
    pub(crate) client: Client,
    /// `https://host:port`
    pub(crate) url: String,
    ca_pem: String,
    /// Bearer tokens by user.
    pub(crate) tokens: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
struct User {
    token: Option<String>,
}

impl Server {
    /// The first cluster of a kubeconfig, with every user that has a token.
    pub(crate) fn of(kubeconfig: &Path) -> Result<Self> {
        let shown = kubeconfig.display();
        let text =
            fs::read_to_string(kubeconfig).with_context(|| format!("cannot read {shown}"))?;
        let config: Kubeconfig =
            serde_saphyr::from_str(&text).with_context(|| format!("cannot parse {shown}"))?;
        let first = config.clusters.into_iter().next();
        let cluster = first.with_context(|| format!("{shown} has no cluster"))?.cluster;
        let ca = match (cluster.certificate_authority_data, cluster.certificate_authority) {
            (Some(data), _) => {
                let decoded = STANDARD.decode(data).context("certificate-authority-data")?;
                String::from_utf8(decoded).context("certificate-authority-data")?
            }
            (None, Some(path)) => {
                let path = kubeconfig.parent().unwrap_or(kubeconfig).join(path);
                fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?
            }
            (None, None) => bail!("{shown} names no certificate authority"),
        };
        let users = config.users.into_iter();
        let tokens = users.filter_map(|each| Some((each.name, each.user.token?))).collect();
        let client = Client::new(&cluster.server, &ca)?;
        Ok(Self { client, url: cluster.server, ca_pem: ca, tokens })
    }

    /// A client that keeps a connection of its own.
    pub(crate) fn agent(&self) -> Result<ureq::Agent> {
        upstream::agent(&self.ca_pem)
    }
}

/// Any free port of loopback.
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

/// Where our server keeps its objects.
pub(crate) enum Place {
    Memory,
    Directory(PathBuf),
}

/// Our own server as a child, ended with this value.
pub(crate) struct Ours {
    child: Child,
}

impl Ours {
    /// Starts `seatrial serve` with the users of a token file and waits until it is ready.
    pub(crate) fn start(
        program: &Path,
        dir: &Path,
        tokens: &Path,
        place: &Place,
    ) -> Result<(Self, Server)> {
        Self::start_known(program, dir, tokens, place, &[])
    }

    /// Likewise, with more flags.
    pub(crate) fn start_known(
        program: &Path,
        dir: &Path,
        tokens: &Path,
        place: &Place,
        more: &[&OsStr],
    ) -> Result<(Self, Server)> {
        // The reference runs without controllers too.
        let bare = OsStr::new("--controllers=-*");
        let mut flags = vec![OsStr::new("--token-auth-file"), tokens.as_os_str(), bare];
        flags.extend(more);
        let (ours, mut server) = Self::start_with(program, dir, place, &flags)?;
        server.tokens = known(tokens)?;
        Ok((ours, server))
    }

    /// Starts `seatrial serve` with more flags and waits until it is ready.
    pub(crate) fn start_with(
        program: &Path,
        dir: &Path,
        place: &Place,
        flags: &[&OsStr],
    ) -> Result<(Self, Server)> {
        Self::start_at(program, dir, place, ANY_PORT, flags)
    }

    /// The same where one wants it to listen.
    pub(crate) fn start_at(
        program: &Path,
        dir: &Path,
        place: &Place,
        address: &str,
        flags: &[&OsStr],
    ) -> Result<(Self, Server)> {
        let kubeconfig = dir.join("ours.kubeconfig");
        let log = dir.join("ours.log");
        let output = fs::File::create(&log).with_context(|| format!("cannot create {log:?}"))?;
        // One that an earlier run left would be taken for this one's.
        let _ = fs::remove_file(&kubeconfig);
        let mut command = Command::new(program);
        command.args(["serve", "--listen", address, "--kubeconfig"]).arg(&kubeconfig);
        match place {
            Place::Memory => command.arg("--in-memory"),
            Place::Directory(data) => command.arg("--data-dir").arg(data),
        };
        let child = command
            .args(flags)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut ours = Self { child };
        let server = ours.until_ready(&kubeconfig, &log)?;
        Ok((ours, server))
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn until_ready(&mut self, kubeconfig: &Path, log: &Path) -> Result<Server> {
        let started = Instant::now();
        loop {
            if let Ok(server) = Server::of(kubeconfig) {
                let answer = server.client.open("GET", "/readyz", &[], None);
                if answer.is_ok_and(|stream| stream.answer.status == 200) {
                    return Ok(server);
                }
            }
            let ended = self.child.try_wait().context("cannot wait for our server")?;
            if ended.is_some() || started.elapsed() > READY_WITHIN {
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("our server is not ready (ended: {ended:?}); it said:\n{said}");
            }
            tool::pause(POLL);
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // Both fail only if the child is gone already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The users of a token file: `token,user,uid[,"groups"]`.
fn known(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?;
    let pairs = text.lines().filter_map(|line| {
        let mut columns = line.split(',');
        let token = columns.next()?;
        Some((columns.next()?.to_owned(), token.to_owned()))
    });
    Ok(pairs.collect())
}
