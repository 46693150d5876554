//! What models are read from over loopback: nginx, our server and our cache, each until it is dropped.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::ours;
use crate::tool;

/// The bucket that nginx shows its directory as.
const BUCKET: &str = "models";

/// Room of a cache beyond what it is for: the least that it accepts, and chunks that are not full.
const SLACK: u64 = 256 << 20;

/// nginx from the distribution, with two workers, over HTTP, HTTPS and as an S3 that checks nothing.
pub(super) struct Nginx {
    child: Child,
    plain: u16,
    secure: u16,
    scratch: TempDir,
}

impl Nginx {
    /// Serves a directory.
    pub(super) fn start(root: &Path) -> Result<Self> {
        let scratch = tempfile::tempdir().context("cannot make a scratch directory")?;
        let (plain, secure) = (free_port()?, free_port()?);
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        fs::write(scratch.path().join("cert.pem"), signed.cert.pem())?;
        fs::write(scratch.path().join("key.pem"), signed.signing_key.serialize_pem())?;
        let config = scratch.path().join("nginx.conf");
        fs::write(&config, configured(root, scratch.path(), plain, secure)?)?;
        let program = if tool::has("nginx", "-v") { "nginx" } else { "/usr/sbin/nginx" };
        let mut command = Command::new(program);
        command.arg("-p").arg(scratch.path()).arg("-c").arg(&config);
        command.args(["-e", "error.log"]).stderr(Stdio::null());
        let child = command.spawn().context("nginx is absent: apt-get install nginx-light")?;
        let mut nginx = Self { child, plain, secure, scratch };
        while TcpStream::connect(("127.0.0.1", plain)).is_err() {
            if let Some(status) = nginx.child.try_wait()? {
                let log = fs::read_to_string(nginx.scratch.path().join("error.log"));
                bail!("nginx ended ({status}): {}", log.unwrap_or_default().trim());
            }
            tool::pause(Duration::from_millis(20));
        }
        Ok(nginx)
    }

    pub(super) fn plain(&self, file: &str) -> String {
        format!("http://localhost:{}/{file}", self.plain)
    }

    pub(super) fn secure(&self, file: &str) -> String {
        format!("https://localhost:{}/{file}", self.secure)
    }

    /// The certificate that it shows.
    pub(super) fn certificate(&self) -> PathBuf {
        self.scratch.path().join("cert.pem")
    }

    /// A file as an object of S3.
    pub(super) fn object(&self, file: &str) -> String {
        format!("s3://{BUCKET}/{file}")
    }

    /// Has a program take it for S3.
    pub(super) fn as_s3(&self, mut command: Command) -> Command {
        command.env("AWS_ENDPOINT_URL", format!("http://localhost:{}", self.plain));
        command.envs([
            ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "example"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING", "0"),
        ]);
        command
    }

    /// Ends it, and says how many bytes of bodies it sent of a file.
    pub(super) fn sent(mut self, file: &str) -> Result<f64> {
        // Not before what it is sending is sent and logged.
        self.signal("QUIT")?;
        self.child.wait()?;
        let log = fs::read_to_string(self.scratch.path().join("sent.log"))?;
        let of = |line: &str| {
            let (bytes, path) = line.split_once(' ')?;
            (path.strip_prefix('/')? == file).then(|| bytes.parse::<f64>().ok())?
        };
        Ok(log.lines().filter_map(of).sum())
    }

    fn signal(&self, name: &str) -> Result<()> {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &self.child.id().to_string()]);
        kill.status().context("cannot run `kill`").map(drop)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Its workers end with it, which they would not if it were killed.
            let _ = self.signal("TERM");
            let _ = self.child.wait();
        }
    }
}

fn configured(root: &Path, scratch: &Path, plain: u16, secure: u16) -> Result<String> {
    let (root, scratch) = (root.display(), scratch.display());
    let mut text = String::from("daemon off;\nworker_processes 2;\nworker_rlimit_nofile 8192;\n");
    // Workers of a master who is root would be somebody who cannot read the model.
    if fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it))? == 0 {
        text.push_str("user root root;\n");
    }
    writeln!(text, "pid \"{scratch}/pid\";\nevents {{ worker_connections 4096; }}\nhttp {{")?;
    writeln!(
        text,
        "log_format sent '$body_bytes_sent $uri'; access_log \"{scratch}/sent.log\" sent;"
    )?;
    text.push_str("sendfile on; keepalive_requests 100000;\n");
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(text, "{name}_temp_path \"{scratch}/{name}\";")?;
    }
    writeln!(
        text,
        "ssl_certificate \"{scratch}/cert.pem\"; ssl_certificate_key \"{scratch}/key.pem\";"
    )?;
    writeln!(text, "server {{ listen 127.0.0.1:{plain}; listen 127.0.0.1:{secure} ssl;")?;
    writeln!(text, "root \"{root}\"; location /{BUCKET}/ {{ alias \"{root}/\"; }} }} }}")?;
    Ok(text)
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// Our server over a directory, or as a cache in one.
pub(super) struct Ours {
    child: Child,
    port: u16,
}

impl Ours {
    pub(super) fn folder(root: &Path) -> Result<Self> {
        Self::start(root, &[])
    }

    /// A cache in a directory of what an origin has, with room for this file of it.
    pub(super) fn cache(kept: &Path, origin: &str, file: &Path) -> Result<Self> {
        let room = fs::metadata(file).context("no model to cache")?.len() + SLACK;
        Self::start(kept, &[origin, &room.to_string()])
    }

    fn start(dir: &Path, origin: &[&str]) -> Result<Self> {
        let mut command = ours(["serve".as_ref(), dir.as_os_str()]);
        let mut child =
            command.args(origin).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("no output")?;
        let mut server = Self { child, port: 0 };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        server.port = line.trim().parse().context("our server did not start")?;
        Ok(server)
    }

    pub(super) fn url(&self, file: &str) -> String {
        format!("http://127.0.0.1:{}/{file}", self.port)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
