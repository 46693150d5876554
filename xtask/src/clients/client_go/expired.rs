//! An informer that is away while objects change and the server forgets its history: it is told
//! 410, lists again, and its handlers hear of everything that they missed, once.
//!
//! The order of things is forced, no time is waited for: the server is killed, changed where the
//! informer cannot see it, backed up and restored (which forgets all history), and only then found
//! again where it was.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use crate::clients::session::{Session, output};
use crate::server::{ANY_PORT, Ours, Place};
use crate::upstream;

/// As many as `tools/clients/expired.go` expects: it makes the last one of the first ten itself.
const BEFORE: usize = 10;
const AFTER: usize = 200;

/// Ends what is still running when a check has failed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One informer's loss and recovery.
pub(super) fn check(session: &Session, program: &Path, watch_list: bool) -> Result<()> {
    let dir = session.dir.join(format!("expired-{watch_list}"));
    let [port] = upstream::free_ports::<1>()?;
    let address = format!("127.0.0.1:{port}");
    let data = dir.join("data");

    let first = serve(session, &dir.join("first"), &data, &address)?;
    let own: String = (0..BEFORE - 1).map(config_map).collect();
    session.feed(&[&first.flag, "create", "-f", "-"], &own)?;

    let mut command = session.command(program);
    command.arg("--expired").arg(format!("--watch-list={watch_list}"));
    command.arg(&first.flag).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut informer = Running(command.spawn().context("cannot start the informer")?);
    let mut said = String::new();
    let stdout = informer.0.stdout.take().context("the informer has no output")?;
    BufReader::new(stdout).read_line(&mut said).context("the informer says nothing")?;
    ensure!(said == "synced\n", "the informer ended before its list was complete");
    drop(first.ours);

    let apart = serve(session, &dir.join("apart"), &data, ANY_PORT)?;
    session.kubectl(&format!("{} delete configmap own0", apart.flag))?;
    session.kubectl(&format!("{} label configmap own1 at=2 --overwrite", apart.flag))?;
    let own: String = (BEFORE..BEFORE + AFTER).map(config_map).collect();
    session.feed(&[&apart.flag, "create", "-f", "-"], &own)?;
    drop(apart.ours);

    let (backup, restored) = (dir.join("backup"), dir.join("restored"));
    output(
        session.command(&session.program).arg("backup").arg("--data-dir").args([&data, &backup]),
    )?;
    fs::create_dir_all(&restored).context("cannot create a directory")?;
    fs::rename(data.join("pki"), restored.join("pki")).context("cannot keep the certificates")?;
    let mut restore = session.command(&session.program);
    output(restore.arg("restore").arg("--data-dir").args([&restored, &backup]))?;

    let _last = serve(session, &dir.join("last"), &restored, &address)?;
    let mut stdin = informer.0.stdin.take().context("the informer has no input")?;
    stdin.write_all(b"back\n").context("the informer listens no more")?;
    let status = informer.0.wait().context("cannot wait for the informer")?;
    ensure!(status.success(), "the informer says above what it missed");
    Ok(())
}

struct Served {
    ours: Ours,
    /// Names its kubeconfig to whoever takes a `--kubeconfig`.
    flag: String,
}

/// Our server over these data, without controllers.
fn serve(session: &Session, dir: &Path, data: &Path, address: &str) -> Result<Served> {
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let place = Place::Directory(data.to_owned());
    let flags = ["--controllers=-*".as_ref()];
    let (ours, _) = Ours::start_at(&session.program, dir, &place, address, &flags)?;
    Ok(Served { ours, flag: format!("--kubeconfig={}", dir.join("ours.kubeconfig").display()) })
}

fn config_map(at: usize) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: own{at}, labels: {{at: \"1\"}}}}}}\n"
    )
}
