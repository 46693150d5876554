//! The commands that end by themselves.

use serde_json::{Value, json};

use crate::support::run;

fn out(args: &[&str]) -> String {
    let done = run(args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn versions() {
    let (_, _, kubernetes) = apiserver::KUBERNETES_VERSION;
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(out(&["version"]), format!("Seatrial {own} (Kubernetes API {kubernetes})\n"));
    let json: Value = serde_json::from_str(&out(&["version", "--output", "json"])).unwrap();
    assert_eq!(json, json!({"version": own, "kubernetes": kubernetes}));
    assert_eq!(out(&["--version"]), format!("seatrial {own}\n"));
}

#[test]
fn completions_know_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&["generate", "completions", shell]);
        for word in ["serve", "backup", "restore", "kubeconfig", "version", "generate", "data-dir"]
        {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
    }
}

#[test]
fn every_subcommand_has_a_man_page() {
    let directory = tempfile::tempdir().unwrap();
    let man = directory.path().join("share/man1");
    assert_eq!(out(&["generate", "man", man.to_str().unwrap()]), "");
    for word in ["", "-serve", "-kubeconfig", "-backup", "-restore", "-version", "-generate"] {
        let page = format!("seatrial{word}");
        let text = std::fs::read_to_string(man.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(&format!(".TH {page} 1")), "{text}");
    }
}

#[test]
fn a_word_that_is_no_command_is_refused() {
    for args in [&["sevre"][..], &["serve", "--in-memory", "--data-dir", "x"], &[]] {
        let done = run(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("Usage: seatrial"), "{args:?}");
    }
}

#[test]
fn under_the_name_of_a_plugin_it_is_kubectls() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-seatrial");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_seatrial"), &plugin).unwrap();
    let done =
        std::process::Command::new(&plugin).args(["node", "why", "--help"]).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("Usage: kubectl seatrial node why [OPTIONS] <NAME>"), "{said}");
    assert!(out(&["pool", "--help"]).contains("Usage: seatrial pool [OPTIONS] <COMMAND>"));
}
