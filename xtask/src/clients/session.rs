//! One server, the programs beside it, and a person with kubectl who watches them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::server::{Ours, Place, Server};
use crate::tool;
use crate::upstream::{self, Binaries, Service, Serving, Upstream};

/// What has not happened by then will not; two busy cores took 15 s for the slowest.
const WITHIN: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);

/// A server of its own for one client.
pub(crate) struct Session {
    /// Of this session alone.
    pub(crate) dir: PathBuf,
    /// An administrator's.
    pub(crate) kubeconfig: PathBuf,
    /// Our own.
    pub(crate) program: PathBuf,
    binaries: Binaries,
    services: Vec<Service>,
    server: Server,
    _runs: Runs,
}

/// What a session talks to.
enum Runs {
    Ours { _server: Ours },
    Upstream { _cluster: Box<Upstream> },
}

impl Session {
    /// Starts the embedded server with these controllers, and waits until it is ready.
    pub(crate) fn start(program: &Path, dir: &Path, controllers: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let place = Place::Directory(dir.join("data"));
        let flag = OsString::from(format!("--controllers={controllers}"));
        let (ours, server) = Ours::start_with(program, dir, &place, &[&flag])?;
        let kubeconfig = dir.join("ours.kubeconfig");
        Self::with(program, dir, kubeconfig, server, Runs::Ours { _server: ours })
    }

    /// Starts etcd and kube-apiserver instead, with kube-controller-manager and kube-scheduler if
    /// asked to.
    pub(crate) fn start_upstream(program: &Path, dir: &Path, controllers: bool) -> Result<Self> {
        let options = upstream::Options { controllers, ..upstream::Options::default() };
        let cluster = Box::new(Upstream::start(&dir.join("upstream"), &options)?);
        let (kubeconfig, server) = (cluster.kubeconfig.clone(), Server::of(&cluster.kubeconfig)?);
        Self::with(program, dir, kubeconfig, server, Runs::Upstream { _cluster: cluster })
    }

    fn with(
        program: &Path,
        dir: &Path,
        kubeconfig: PathBuf,
        server: Server,
        runs: Runs,
    ) -> Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            kubeconfig,
            program: program.canonicalize().with_context(|| format!("no {}", program.display()))?,
            binaries: upstream::binaries()?,
            services: Vec::new(),
            server,
            _runs: runs,
        })
    }

    /// Starts upstream's controller manager and scheduler and waits until both are healthy.
    pub(crate) fn start_controllers(&mut self) -> Result<()> {
        let ports = upstream::free_ports::<2>()?;
        let serving = Serving { pki: &self.dir.join("data/pki"), name: "apiserver" };
        let pair = upstream::controllers(
            &self.binaries,
            &self.dir,
            &self.kubeconfig,
            &serving,
            ports,
            &[],
        )?;
        self.services.extend(pair);
        let agent = self.server.agent()?;
        for port in ports {
            let url = format!("https://127.0.0.1:{port}/healthz");
            self.until(&url, || {
                let status = agent.get(&url).call()?.status();
                ensure!(status.is_success(), "{status}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Starts a program that runs as long as the session.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        program: &Path,
        flags: &[String],
    ) -> Result<()> {
        self.services.push(Service::spawn(name, program, &self.dir, flags)?);
        Ok(())
    }

    /// Ends a program that was spawned, without a word to it.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.services.iter().position(|service| service.name() == name);
        let at = at.with_context(|| format!("no {name} runs"))?;
        drop(self.services.remove(at));
        Ok(())
    }

    /// A program that talks to the server by way of its environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.dir)
            .env("KUBECONFIG", &self.kubeconfig)
            // Caches and settings of the person who runs this are none of its business.
            .env("HOME", &self.dir)
            .stdin(Stdio::null());
        command
    }

    /// Types a kubectl command, its words between spaces; it must succeed.
    pub(crate) fn kubectl(&self, words: &str) -> Result<String> {
        let mut command = self.command(self.binaries.dir.join("kubectl"));
        command.args(words.split_whitespace());
        output(&mut command)
    }

    /// Patches an object's status.
    pub(crate) fn patch_status(&self, what: &str, status: &str) -> Result<()> {
        let mut command = self.command(self.binaries.dir.join("kubectl"));
        command.args(["patch", what, "--subresource=status", "--patch", status]);
        output(&mut command).map(drop)
    }

    /// Creates what a manifest says.
    pub(crate) fn create(&self, manifest: &str) -> Result<()> {
        self.feed(&["create", "-f", "-"], manifest)
    }

    /// Gives a manifest to a kubectl command.
    pub(crate) fn feed(&self, words: &[&str], manifest: &str) -> Result<()> {
        let mut command = self.command(self.binaries.dir.join("kubectl"));
        command.args(words).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start kubectl")?;
        let mut stdin = child.stdin.take().context("kubectl has no input")?;
        stdin.write_all(manifest.as_bytes()).context("kubectl reads nothing")?;
        drop(stdin);
        let output = child.wait_with_output().context("kubectl")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {said}\n{manifest}", words.join(" "));
        Ok(())
    }

    /// Waits until `kubectl get WORDS` prints this.
    pub(crate) fn until_get(&self, words: &str, expected: &str) -> Result<()> {
        self.until(&format!("`kubectl get {words}` is not `{expected}`"), || {
            let said = self.kubectl(&format!("get {words}"))?;
            ensure!(said.trim() == expected, "it is `{}`", said.trim());
            Ok(())
        })
    }

    /// Waits until something holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn() -> Result<()>) -> Result<()> {
        self.until_within(WITHIN, what, holds)
    }

    /// The same for what takes longer.
    pub(crate) fn until_within(
        &self,
        within: Duration,
        what: &str,
        holds: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let began = Instant::now();
        while let Err(error) = holds() {
            if began.elapsed() > within {
                return Err(error).with_context(|| format!("{what} after {within:?}"));
            }
            tool::pause(POLL);
        }
        Ok(())
    }

    /// What the programs beside the server said last.
    pub(crate) fn tails(&self) -> String {
        self.services.iter().map(Service::tail).collect()
    }
}

/// Runs a program to its end; what it printed, or what it complained of.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let shown = format!("{shown} {}", words.join(" "));
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{shown}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}
