//! A server that cannot start says in one line why, and what to do.

use std::path::Path;

use crate::support::{Server, run};

#[track_caller]
fn check(args: &[&str], line: &str) {
    let done = run(&[&["serve"], args].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    // Whatever was logged before is not the answer.
    let last = said.lines().filter(|line| !line.contains("level=")).collect::<Vec<_>>();
    assert_eq!(last, [line]);
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stdout.is_empty(), "{}", String::from_utf8_lossy(&done.stdout));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn places_that_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(directory.path(), &["--data-dir", text(&data)]);
    let address = &server.address;
    check(
        &["--in-memory", "--listen", address],
        &format!(
            "seatrial: cannot listen on {address}; choose another address with --listen: Address \
             already in use (os error 98)"
        ),
    );
    check(
        &["--data-dir", text(&data), "--listen", "127.0.0.1:0"],
        &format!(
            "seatrial: data directory {}/store is in use by process {}; stop it first, or choose \
             another directory",
            data.display(),
            server.id()
        ),
    );
    // The one that has the place is not disturbed.
    assert_eq!(server.get(&crate::support::Who::Admin, "/api/v1/namespaces").code, 200);
}

#[test]
fn token_files_that_cannot_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.csv");
    let path = text(&file);
    let args = ["--in-memory", "--listen", "127.0.0.1:0", "--token-auth-file", path];
    check(
        &args,
        &format!(
            "seatrial: cannot read the token file {path}; name another with --token-auth-file: \
             No such file or directory (os error 2)"
        ),
    );
    for (content, line, problem) in [
        ("t1,alice,1\n\nsecret,bob\n", 3, "fewer than three columns (token, user, uid)"),
        ("t1,alice,1\nt1,bob,2\n", 2, "the token was given before"),
        (",alice,1\n", 1, "the token is empty"),
        (
            "t1,alice,1,dev,ops\n",
            1,
            "more than four columns; several groups stand in quotes: \"a,b\"",
        ),
    ] {
        std::fs::write(&file, content).unwrap();
        check(
            &args,
            &format!("seatrial: cannot use the token file {path}; mend it: line {line}: {problem}"),
        );
    }
}

#[test]
fn places_that_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    check(
        &["--data-dir", text(&file), "--listen", "127.0.0.1:0"],
        &format!("seatrial: cannot create {}/store: Not a directory (os error 20)", file.display()),
    );
    let inside = file.join("kubeconfig");
    check(
        &["--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", text(&inside)],
        &format!(
            "seatrial: cannot write the kubeconfig {}; choose another place with --kubeconfig: \
             File exists (os error 17)",
            inside.display()
        ),
    );
}
