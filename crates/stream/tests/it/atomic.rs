//! A file appears whole or not at all: writers that are killed, disks that are full.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use stream::{Layout, Load, Model, write};

use crate::support::{borrowed, model, plain, spec};

/// The test itself, as another process that writes models until it is stopped.
const DIRECTORY: &str = "STREAM_TEST_DIRECTORY";

#[test]
fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let path = Path::new(&directory).join("model");
    let tensors = [(spec("a", "uint8", &[24 << 20]), vec![5; 24 << 20])];
    loop {
        if let Err(error) = write(&path, &borrowed(&tensors), plain(Layout::Aligned)) {
            panic!("{error}: {}", std::error::Error::source(&error).unwrap());
        }
        eprint!(".");
    }
}

fn spawn(program: &str, before: &[&str], directory: &Path) -> std::process::Child {
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(before).arg(this).args(["--exact", "atomic::child", "--nocapture"]);
    command.env(DIRECTORY, directory).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_writer_that_is_killed_leaves_no_half_file() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let mut child = spawn("env", &[], directory.path());
        let mut said = child.stderr.take().unwrap();
        // Somewhere in a write that is not the first.
        let mut dots = vec![0; 1 + round % 3];
        said.read_exact(&mut dots).unwrap();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let model = Model::open(&directory.path().join("model")).unwrap();
        let loaded = model.load(&Load { verify: true, ..Load::default() }).unwrap();
        assert!(loaded.get("a").unwrap().1.iter().all(|byte| *byte == 5));
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model");
    write(&path, &borrowed(&model()), plain(Layout::Aligned)).unwrap();
    let before = std::fs::read(&path).unwrap();
    // A file may not grow past 10 MB; the signal that says so is ignored, as for a full disk.
    let limited = ["-c", "trap '' XFSZ; ulimit -f 10000; exec \"$@\"", "sh"];
    let mut child = spawn("sh", &limited, directory.path());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(101), "{said}");
    assert!(said.contains("cannot write") && said.contains("model"), "{said}");
    assert_eq!(names(directory.path()), ["model"], "nothing else is left");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let path = Path::new("/nowhere/at/all/model");
    let failed = write(path, &borrowed(&model()), plain(Layout::Aligned)).unwrap_err();
    assert_eq!(failed.to_string(), "cannot write /nowhere/at/all/model");
}
