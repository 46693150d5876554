//! nginx, which most models that are not in object storage are served by.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{hasty, load, open, right, striped, told};

pub(crate) struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master's end is not its workers'; this is how it is asked to take them along.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

impl Nginx {
    /// One that serves a directory, and its URL.
    pub(crate) fn start(directory: &Path) -> (Self, String) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/{name};", directory.display()));
        let config = directory.join("nginx.conf");
        let text = format!(
            "daemon off;\nuser root root;\npid {0}/pid;\nerror_log stderr notice;\n\
             worker_processes 2;\nevents {{}}\nhttp {{\n  access_log off;\n  sendfile on;\n  \
             keepalive_requests 10;\n  {1}\n  server {{\n    listen 127.0.0.1:{port};\n    \
             root {0};\n    dav_methods PUT;\n    client_max_body_size 0;\n  }}\n}}\n",
            directory.display(),
            temporary.join("\n  ")
        );
        std::fs::write(&config, text).unwrap();
        let spawn = |program: &str| {
            let mut command = Command::new(program);
            command.arg("-p").arg(directory).arg("-c").arg(&config).args(["-e", "stderr"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
        };
        // Not everybody's path leads to where Debian keeps servers.
        let child = spawn("nginx").or_else(|_| spawn("/usr/sbin/nginx"));
        let mut child = child.expect(
            "nginx is absent; `cargo xtask test` installs it as root, or do it by hand: \
             apt-get install nginx-light",
        );
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let nginx = Self(child);
        let mut all = String::new();
        while !all.contains("start worker process") {
            assert!(said.read_line(&mut all).unwrap() > 0, "nginx ended: {all}");
        }
        // What it says later is nobody's, and must not make it wait.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        (nginx, format!("http://127.0.0.1:{port}"))
    }
}

#[test]
fn nginx_is_read_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a model.tensors");
    std::fs::write(&path, &striped().file).unwrap();
    let (_nginx, url) = Nginx::start(directory.path());
    let model = open(&format!("{url}/a model.tensors"), &hasty()).unwrap();
    right(&load(&model).unwrap());
    right(&load(&model).unwrap());
    assert!(model.traffic().unwrap().connections > 1, "it ends connections after ten requests");

    let missing = told(&open(&format!("{url}/none"), &hasty()).unwrap_err());
    assert!(missing.ends_with("nothing is there (404)"), "{missing}");

    // Another file in its place: nginx minds If-Match by what it makes its ETags of.
    let other = directory.path().join("other");
    std::fs::write(&other, [&striped().file[..], b"more"].concat()).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let changed = told(&load(&model).err().unwrap());
    assert!(changed.ends_with("it was changed while it was read: open it again"), "{changed}");
}
