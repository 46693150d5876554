//! Upstream Kubernetes as the reference server: etcd and kube-apiserver (on request also the
//! controller manager and the scheduler), built from their own Go modules and run on loopback.
//!
//! Guarantees: the versions are the ones pinned in `tools/upstream` and `tools/etcd`; a build is
//! seen by others whole or not at all; a started server is ready when `Upstream::start` returns and
//! is gone when the value is dropped or this process dies. A directory that is used again keeps
//! its keys, tokens and data; only the ports change.
//!
//! Deliberately not here: nodes, kubelets, networking, high availability, upgrades. Nobody should
//! keep anything of value in it: etcd listens on loopback without TLS and need not sync.

mod binaries;
mod identity;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::binaries::{
    Binaries, Part, binaries, check_go, older_kubectl, part, parts_dir, promtool,
};
use self::identity::{Pki, User, kubeconfig, tokens, write_private};
use crate::tool;

/// A server that is not ready by then will not become so; a busy two-core machine took 12 s.
const READY_WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

const SERVICE_CIDR: &str = "10.96.0.0/16";

/// Arguments of `cargo xtask upstream`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where keys, data, logs and the kubeconfig live; used again if it exists
    #[arg(long, default_value_os_t = workspace().join("target/upstream"))]
    dir: PathBuf,
    /// Also run the controller manager and the scheduler
    #[arg(long)]
    with_controllers: bool,
    /// Let etcd sync every write to disk, as in production
    #[arg(long)]
    fsync: bool,
    /// Only build the programs (or find them built) and print where they are
    #[arg(long)]
    build_only: bool,
}

/// `cargo xtask upstream`: runs the reference server in the foreground until it is interrupted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut out = io::stdout();
    if args.build_only {
        let etcd = binaries()?.etcd;
        writeln!(out, "{}", etcd.parent().unwrap_or(&etcd).display())?;
        return Ok(());
    }
    let options =
        Options { controllers: args.with_controllers, fsync: args.fsync, ..Options::default() };
    let mut upstream = Upstream::start(&args.dir, &options)?;
    writeln!(out, "kube-apiserver {} on {}", upstream.version, upstream.url)?;
    writeln!(out, "export KUBECONFIG={}", upstream.kubeconfig.display())?;
    writeln!(out, "contexts: admin, admin-cert, alice (no groups), bob (group devs); Ctrl-C ends")?;
    upstream.wait()
}

/// The folder that holds `tools/` and `xtask/`.
pub(crate) fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

enum Contended {
    Wait,
    Refuse,
}

/// Holds an advisory lock while the file is open; the system releases it if we are killed.
fn lock(path: &Path, contended: Contended) -> Result<File> {
    let failed = || format!("cannot lock {}", path.display());
    let file = OpenOptions::new().create(true).append(true).open(path).with_context(failed)?;
    match (file.try_lock(), contended) {
        (Ok(()), _) => {}
        (Err(fs::TryLockError::WouldBlock), Contended::Wait) => {
            eprintln!("waiting for another run that holds {}", path.display());
            file.lock().with_context(failed)?;
        }
        (Err(fs::TryLockError::WouldBlock), Contended::Refuse) => {
            bail!("another server runs here ({}): end it, or choose another --dir", path.display());
        }
        (Err(fs::TryLockError::Error(error)), _) => return Err(error).with_context(failed),
    }
    Ok(file)
}

/// What to run besides etcd and kube-apiserver, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// Also run the controller manager and the scheduler.
    pub(crate) controllers: bool,
    /// Let etcd sync to disk; off by default, since nothing here must survive the machine.
    pub(crate) fsync: bool,
    /// More flags for kube-apiserver, such as `--feature-gates=...`; they win over ours.
    pub(crate) apiserver_flags: Vec<String>,
    /// More flags for the controller manager.
    pub(crate) manager_flags: Vec<String>,
}

/// A running reference server.
pub(crate) struct Upstream {
    /// `https://127.0.0.1:<port>`
    pub(crate) url: String,
    /// A kubeconfig with one context per user; `admin` is the current one.
    pub(crate) kubeconfig: PathBuf,
    /// What the server calls itself, such as `v1.35.4`.
    pub(crate) version: String,
    tokens: Vec<(User, String)>,
    agent: ureq::Agent,
    // Later ones need earlier ones, so they end in reverse order.
    children: Vec<Service>,
    _lock: File,
}

impl Upstream {
    /// Starts the servers and waits until they are ready. The children end with the *thread* that
    /// calls this, so call it from one that lives as long as the servers shall.
    pub(crate) fn start(dir: &Path, options: &Options) -> Result<Self> {
        let binaries = binaries()?;
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = &dir.canonicalize()?;
        let lock = lock(&dir.join(".lock"), Contended::Refuse)?;
        let pki = Pki::ensure(&dir.join("pki"))?;
        let tokens = tokens(&dir.join("tokens.csv"))?;
        let ports = free_ports::<5>()?;
        let mut upstream = Self {
            url: format!("https://127.0.0.1:{}", ports[2]),
            kubeconfig: dir.join("kubeconfig"),
            version: String::new(),
            tokens,
            agent: agent(&pki.ca_pem)?,
            children: Vec::new(),
            _lock: lock,
        };
        let text = kubeconfig(&upstream.url, &pki.dir, &upstream.tokens)?;
        write_private(&upstream.kubeconfig, &text)?;
        upstream.start_etcd(&binaries, dir, ports, options)?;
        upstream.start_apiserver(&binaries, dir, ports, options)?;
        if options.controllers {
            upstream.start_controllers(&binaries, dir, ports, &options.manager_flags)?;
        }
        Ok(upstream)
    }

    /// The bearer token of `admin`, `alice` or `bob`.
    pub(crate) fn token(&self, user: &str) -> Option<&str> {
        self.tokens.iter().find(|(known, _)| known.name == user).map(|(_, token)| token.as_str())
    }

    /// Reads a path of the server as admin, for callers that need no Kubernetes client.
    pub(crate) fn get(&self, path: &str, accept: &str) -> Result<String> {
        let url = format!("{}{path}", self.url);
        let failed = || format!("GET {url} failed");
        let token = self.token("admin").unwrap_or_default();
        let request = self.agent.get(&url).header("accept", accept);
        let request = request.header("authorization", format!("Bearer {token}"));
        let mut response = request.call().with_context(failed)?;
        let status = response.status();
        let body = response.body_mut().with_config().limit(256 << 20).read_to_string();
        let body = body.with_context(failed)?;
        ensure!(status.is_success(), "GET {url}: {status}: {body}");
        Ok(body)
    }

    /// The processes, in the order in which they were started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(|service| service.child.id()).collect()
    }

    /// Waits until one of the servers ends, which is always an error.
    pub(crate) fn wait(&mut self) -> Result<()> {
        loop {
            for child in &mut self.children {
                child.check()?;
            }
            tool::pause(POLL);
        }
    }

    fn start_etcd(
        &mut self,
        binaries: &Binaries,
        dir: &Path,
        ports: [u16; 5],
        options: &Options,
    ) -> Result<()> {
        let url = format!("http://127.0.0.1:{}", ports[0]);
        let peer = format!("http://127.0.0.1:{}", ports[1]);
        let mut flags = vec![
            "--name=reference".into(),
            format!("--data-dir={}", dir.join("etcd").display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=reference={peer}"),
            "--log-level=warn".into(),
        ];
        if !options.fsync {
            flags.push("--unsafe-no-fsync".into());
        }
        self.children.push(Service::spawn("etcd", &binaries.etcd, dir, &flags)?);
        self.until_ready(&format!("{url}/readyz"))
    }

    fn start_apiserver(
        &mut self,
        binaries: &Binaries,
        dir: &Path,
        ports: [u16; 5],
        options: &Options,
    ) -> Result<()> {
        let pki = |name: &str| dir.join("pki").join(name).display().to_string();
        let mut flags = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", ports[0]),
            "--bind-address=127.0.0.1".into(),
            // The endpoint of the `kubernetes` Service may not be a loopback address.
            "--advertise-address=192.0.2.1".into(),
            format!("--secure-port={}", ports[2]),
            format!("--tls-cert-file={}", pki("server.crt")),
            format!("--tls-private-key-file={}", pki("server.key")),
            format!("--client-ca-file={}", pki("ca.crt")),
            format!("--token-auth-file={}", dir.join("tokens.csv").display()),
            "--authorization-mode=Node,RBAC".into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-signing-key-file={}", pki("sa.key")),
            format!("--service-account-key-file={}", pki("sa.pub")),
            format!("--service-cluster-ip-range={SERVICE_CIDR}"),
            "--allow-privileged=true".into(),
            "--enable-bootstrap-token-auth=true".into(),
        ];
        flags.extend(options.apiserver_flags.iter().cloned());
        let service = Service::spawn("kube-apiserver", &binaries.kube_apiserver, dir, &flags)?;
        self.children.push(service);
        self.until_ready(&format!("{}/readyz", self.url))?;
        let version = self.get("/version", "application/json")?;
        self.version = json_string(&version, "gitVersion").unwrap_or("unknown").to_owned();
        Ok(())
    }

    fn start_controllers(
        &mut self,
        binaries: &Binaries,
        dir: &Path,
        ports: [u16; 5],
        manager_flags: &[String],
    ) -> Result<()> {
        let kubeconfig = dir.join("kubeconfig");
        let serving = Serving { pki: &dir.join("pki"), name: "server" };
        self.children.extend(controllers(
            binaries,
            dir,
            &kubeconfig,
            &serving,
            [ports[3], ports[4]],
            manager_flags,
        )?);
        self.until_ready(&format!("https://127.0.0.1:{}/healthz", ports[3]))?;
        self.until_ready(&format!("https://127.0.0.1:{}/healthz", ports[4]))?;
        // The manager calls itself healthy seconds before its controllers have filled their
        // caches; pods are refused until one of them has made this account.
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        self.until(account, |this| this.get(account, "application/json").map(drop))
    }

    fn until_ready(&mut self, url: &str) -> Result<()> {
        self.until(url, |this| {
            let status = this.agent.get(url).call()?.status();
            ensure!(status.is_success(), "{status}");
            Ok(())
        })
    }

    fn until(&mut self, what: &str, ready: impl Fn(&Self) -> Result<()>) -> Result<()> {
        let started = Instant::now();
        while let Err(error) = ready(self) {
            for child in &mut self.children {
                child.check()?;
            }
            if started.elapsed() > READY_WITHIN {
                let logs = self.children.iter().map(Service::tail).collect::<String>();
                bail!("{what} is not ready after {READY_WITHIN:?}: {error:#}\n{logs}");
            }
            tool::pause(POLL);
        }
        Ok(())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        while self.children.pop().is_some() {}
    }
}

/// Keys that the control plane's programs share.
pub(crate) struct Serving<'a> {
    /// Holds `ca.crt`, `ca.key` and `sa.key`.
    pub(crate) pki: &'a Path,
    /// Of the certificate and the key in it that the programs listen with.
    pub(crate) name: &'a str,
}

/// Starts the controller manager and the scheduler, at these ports.
pub(crate) fn controllers(
    binaries: &Binaries,
    dir: &Path,
    kubeconfig: &Path,
    serving: &Serving<'_>,
    ports: [u16; 2],
    manager_flags: &[String],
) -> Result<[Service; 2]> {
    let missing = "KUBEBUILDER_ASSETS has no controller manager or no scheduler: unset it to \
                   have them built, or run without controllers";
    let manager = binaries.kube_controller_manager.as_ref().context(missing)?;
    let scheduler = binaries.kube_scheduler.as_ref().context(missing)?;
    let pki = |name: &str| serving.pki.join(name).display().to_string();
    let common = |port: u16| {
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", pki(&format!("{}.crt", serving.name))),
            format!("--tls-private-key-file={}", pki(&format!("{}.key", serving.name))),
        ]
    };
    let mut flags = common(ports[0]);
    flags.extend([
        format!("--service-account-private-key-file={}", pki("sa.key")),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        "--use-service-account-credentials=true".into(),
        "--controllers=*,bootstrapsigner,tokencleaner".into(),
    ]);
    flags.extend(manager_flags.iter().cloned());
    Ok([
        Service::spawn("kube-controller-manager", manager, dir, &flags)?,
        Service::spawn("kube-scheduler", scheduler, dir, &common(ports[1]))?,
    ])
}

/// One child process and its log.
pub(crate) struct Service {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Starts it, with a log in `dir`; it ends with the thread that calls this.
    pub(crate) fn spawn(
        name: &'static str,
        program: &Path,
        dir: &Path,
        flags: &[String],
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let failed = || format!("cannot start {name}, log {}", log.display());
        let file = File::create(&log).with_context(failed)?;
        let child = dying_with_us(program)
            .args(flags)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(file.try_clone().with_context(failed)?)
            .stderr(file)
            .spawn()
            .with_context(failed)?;
        Ok(Self { name, child, log })
    }

    /// What it was started as.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Fails once it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))? {
            Some(status) => bail!("{} ended by itself: {status}\n{}", self.name, self.tail()),
            None => Ok(()),
        }
    }

    /// What it said last.
    pub(crate) fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        format!("last lines of {}:\n{}\n", self.log.display(), last.join("\n"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail only if the child is gone already, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A killed parent runs no destructors, so the kernel is asked to end the child; `setpriv` of
/// util-linux does it without unsafe code. Without it only an orderly end stops the servers.
fn dying_with_us(program: &Path) -> Command {
    let known = Command::new("setpriv").arg("--version").stdout(Stdio::null()).status();
    if !known.is_ok_and(|status| status.success()) {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The ports are held together until all are known, so that they differ. Another process may
/// still take one before our child does; then the child's log says so and a new run helps.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot find a free port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A client that trusts one authority and keeps its connections.
pub(crate) fn agent(ca_pem: &str) -> Result<ureq::Agent> {
    let ca = ureq::tls::Certificate::from_pem(ca_pem.as_bytes()).context("our own CA is broken")?;
    let roots = ureq::tls::RootCerts::new_with_certs(&[ca]);
    let config = ureq::Agent::config_builder()
        .tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build())
        .http_status_as_error(false)
        // Loopback never goes through a proxy, whatever the environment says.
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(120)))
        .build();
    Ok(config.into())
}

/// Enough JSON for `/version`: the value of a top-level string field.
fn json_string<'a>(json: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{field}\""))?;
    rest.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_field() {
        assert_eq!(json_string("{\"a\": 1, \"gitVersion\": \"v1\"}", "gitVersion"), Some("v1"));
        assert_eq!(json_string("{}", "gitVersion"), None);
    }
}
