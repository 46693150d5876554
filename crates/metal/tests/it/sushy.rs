//! OpenStack's BMC emulator, which others wrote: over sockets and TLS, with a certificate that nobody
//! signed. It does what it is told after 1 to 11 seconds, and has no power cycle.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use api::machine::Bmc;
use api::request::Power;
use metal::redfish::{Bmcs, Credential, Failure};

/// The version stands in `xtask/src/pip.rs` too.
const PACKAGE: &str = "sushy-tools==2.2.0";

struct Emulator {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `cargo xtask test` keeps it.
fn program() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let parts = set("SEATRIAL_PARTS")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("seatrial/parts")))
        .or_else(|| Some(set("HOME")?.join(".cache/seatrial/parts")))
        .expect("set SEATRIAL_PARTS to a folder where programs may be kept");
    let dir = parts.join(PACKAGE.replace("==", "-python-"));
    let program = dir.join("bin/sushy-emulator");
    let dir = dir.display();
    assert!(
        program.is_file(),
        "{PACKAGE} is absent; `cargo xtask test` installs it, or do it by hand: \
         python3 -m venv {dir} && {dir}/bin/pip install {PACKAGE}"
    );
    program
}

impl Emulator {
    /// One machine that is off; the emulator's address.
    fn start(dir: &Path) -> (Self, String) {
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let signed = rcgen::generate_simple_self_signed(["bmc".to_owned()]).unwrap();
        let certificate = file("cert.pem", &signed.cert.pem());
        let key = file("key.pem", &signed.signing_key.serialize_pem());
        // bcrypt of `secret`, at the least cost.
        let users = "root:$2b$04$eUs3lFBWozWfsvePxVcujeRUq4lrhm3yng9sPU5C1MEq1bpFTGzxy\n";
        let users = file("users", users);
        let dir = dir.display();
        let config = file(
            "emulator.conf",
            &format!(
                "SUSHY_EMULATOR_STATE_DIR = '{dir}'\n\
                 SUSHY_EMULATOR_AUTH_FILE = '{}'\n\
                 SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': 'u-1', 'name': 'one', \
                 'power_state': 'Off', 'nics': [{{'mac': '02:00:00:00:00:01', 'ip': '10.0.0.1'}}]}}]\n",
                users.display()
            ),
        );
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new(program())
            .args(["--fake", "--interface", "127.0.0.1", "--port", &port.to_string()])
            .arg("--config")
            .arg(config)
            .arg("--ssl-certificate")
            .arg(certificate)
            .arg("--ssl-key")
            .arg(key)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut emulator = Self { child, said };
        emulator.until_it_says("Running on");
        (emulator, format!("https://127.0.0.1:{port}"))
    }

    fn until_it_says(&mut self, what: &str) {
        let mut all = String::new();
        while self.said.read_line(&mut all).unwrap() > 0 {
            if all.contains(what) {
                return;
            }
        }
        panic!("the emulator ended: {all}");
    }
}

#[test]
fn the_emulator_of_openstack_is_switched() {
    let dir = tempfile::tempdir().unwrap();
    let (mut emulator, address) = Emulator::start(dir.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bmcs = Bmcs::real().unwrap();
    let bmc = Bmc { address, credential: "bmc".to_owned() };
    let credential =
        |password: &str| Credential { username: "root".to_owned(), password: password.to_owned() };
    let right = credential("secret");
    let switched = async {
        let refused = bmcs.read(&bmc, &credential("guess")).await.unwrap_err();
        assert!(matches!(refused, Failure::Error(why) if why.contains("refuses the password")));

        let until = async |on: bool| while bmcs.read(&bmc, &right).await.unwrap().on != on {};
        assert!(!bmcs.read(&bmc, &right).await.unwrap().on);
        bmcs.power(&bmc, &right, Power::On).await.unwrap();
        until(true).await;
        // It allows no PowerCycle: off, drain, on.
        bmcs.power(&bmc, &right, Power::Cycle).await.unwrap();
        until(true).await;
        bmcs.power(&bmc, &right, Power::ForceRestart).await.unwrap();
        let unknown = Bmc { address: format!("{}/elsewhere", bmc.address), ..bmc.clone() };
        let error = bmcs.read(&unknown, &right).await.unwrap_err();
        assert!(matches!(error, Failure::Error(_)), "{error}");
    };
    // Three times up to 11 s, and the drain.
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(120), switched).await })
        .expect("it never did what it was told");
    // Its log shows that the boot source was taken at the first try.
    for told in ["PATCH", "ComputerSystem.Reset", "PATCH", "ComputerSystem.Reset"] {
        emulator.until_it_says(told);
    }
    drop(emulator);
    runtime.block_on(async {
        let silence = bmcs.read(&bmc, &right).await.unwrap_err();
        assert!(matches!(silence, Failure::Silence(_)), "{silence}");
    });
}
