//! Parts of tests that run in a process of their own: the test binary once more, told to run one
//! of its tests. That test does nothing when it is run by anyone else.

use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const DIRECTORY: &str = "STORE_TEST_DIRECTORY";

/// The directory that this process was started for, if it is such a child.
pub(crate) fn directory() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from)
}

/// Starts a child by way of `command`, to which the test binary is appended.
pub(crate) fn start(mut command: Command, test: &str, directory: &Path) -> Running {
    let mut child = command
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines();
    Running { child, said }
}

/// The test binary.
pub(crate) fn binary() -> PathBuf {
    env::current_exe().unwrap()
}

pub(crate) struct Running {
    pub(crate) child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// What it says next, once it says it; nothing more once it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        // A last line may have been cut by the kill; whoever reads it must tell.
        self.said.next().and_then(Result::ok)
    }

    /// Kills it outright, if it is not over yet, and returns the rest of what it said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.said.map_while(Result::ok).collect()
    }
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}
