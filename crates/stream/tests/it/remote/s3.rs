//! S3 as others understand it: moto, which checks every signature by botocore's own arithmetic.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stream::{Addressing, Credentials, Remote, S3, Signer, presign};

use super::{hasty, load, located, open, right, striped, told};

/// The version stands in `xtask/src/pip.rs` too.
const PACKAGE: &str = "moto[server]==5.2.5";

/// Makes a user who may do everything and a bucket with an object, prints the user's keys, and from
/// then on has every signature checked.
pub(crate) const SETUP: &str = r#"
import boto3, json, sys, urllib.request
endpoint, path = sys.argv[1:]
def client(name):
    keys = dict(aws_access_key_id="x", aws_secret_access_key="x", region_name="eu-west-1")
    return boto3.client(name, endpoint_url=endpoint, **keys)
iam = client("iam")
iam.create_user(UserName="u")
every = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=json.dumps(every))
key = iam.create_access_key(UserName="u")["AccessKey"]
s3 = client("s3")
s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
s3.upload_file(path, "models", "a folder/mödel+1.tensors")
plain = {"Content-Type": "text/plain"}
reset = urllib.request.Request(endpoint + "/moto-api/reset-auth", b"0", plain, method="POST")
urllib.request.urlopen(reset).read()
print(key["AccessKeyId"], key["SecretAccessKey"])
"#;

/// What botocore makes of the same object, credentials and moment; moto checks no presigned URL.
const PRESIGN: &str = r#"
import botocore.auth, sys
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from datetime import datetime
from urllib.parse import parse_qs, urlsplit
url, key, secret = sys.argv[1:]
said = {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()}
moment = datetime.strptime(said["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
botocore.auth.get_current_datetime = lambda *args, **kwargs: moment
signer = botocore.auth.S3SigV4QueryAuth(
    Credentials(key, secret), "s3", "eu-west-1", expires=int(said["X-Amz-Expires"]))
request = AWSRequest("GET", url.split("?")[0])
signer.add_auth(request)
made = {name: value[0] for name, value in parse_qs(urlsplit(request.url).query).items()}
assert made == said, (made, said)
"#;

pub(crate) struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where `cargo xtask test` keeps it.
pub(crate) fn environment() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let parts = set("SEATRIAL_PARTS")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("seatrial/parts")))
        .or_else(|| Some(set("HOME")?.join(".cache/seatrial/parts")))
        .expect("set SEATRIAL_PARTS to a folder where programs may be kept");
    let name = PACKAGE.replace("==", "-python-").replace('[', "-").replace(']', "");
    let dir = parts.join(name);
    let shown = dir.display();
    assert!(
        dir.join("bin/moto_server").is_file(),
        "{PACKAGE} is absent; `cargo xtask test` installs it, or do it by hand: \
         python3 -m venv {shown} && {shown}/bin/pip install '{PACKAGE}'"
    );
    dir
}

impl Moto {
    /// The emulator and its address.
    pub(crate) fn start(environment: &Path) -> (Self, String) {
        let mut child = Command::new(environment.join("bin/python"))
            .args(["-u"])
            .arg(environment.join("bin/moto_server"))
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "moto ended: {all}");
            all.push_str(&line);
            if let Some((_, address)) = line.split_once("Running on ") {
                break address.trim().to_owned();
            }
        };
        // What it says later is nobody's, and must not make it wait.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        (Self(child), address)
    }
}

/// As somebody, of the store at this address.
pub(crate) fn asking(signer: Signer, endpoint: &str) -> Remote {
    let (region, endpoint) = (Some("eu-west-1".to_owned()), Some(endpoint.to_owned()));
    Remote { s3: S3 { signer, region, endpoint, ..S3::default() }, ..hasty() }
}

#[test]
fn another_implementation_accepts_what_is_signed_and_nothing_else() {
    let environment = environment();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model");
    std::fs::write(&path, &striped().file).unwrap();
    let (_moto, endpoint) = Moto::start(&environment);
    let python = |script: &str, arguments: &[&str]| {
        let mut python = Command::new(environment.join("bin/python"));
        let done = python.args(["-c", script]).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let keys = python(SETUP, &[&endpoint, path.to_str().unwrap()]);
    let (id, secret) = keys.trim().split_once(' ').unwrap();
    let place = "s3://models/a folder/mödel+1.tensors";

    let signer = Signer::Given(Credentials::new(id, secret, None).unwrap());
    let how = asking(signer, &endpoint);
    let model = open(place, &how).unwrap_or_else(|error| panic!("{}", told(&error)));
    right(&load(&model).unwrap());
    // Where the bucket's name stands in the host, it is signed there.
    let mut named = how.clone();
    named.s3.endpoint = Some(endpoint.replace("127.0.0.1", "localhost"));
    named.s3.addressing = Addressing::Virtual;
    right(&load(&open(place, &named).unwrap()).unwrap());

    let wrong = Signer::Given(Credentials::new(id, "hunter2", None).unwrap());
    let refused = open(place, &asking(wrong, &endpoint)).unwrap_err();
    let said = format!("{} {refused:?}", told(&refused));
    assert!(said.contains("403 SignatureDoesNotMatch") && !said.contains("hunter2"), "{said}");
    let stranger = Signer::Given(Credentials::new("AKIASTRANGER", secret, None).unwrap());
    let said = told(&open(place, &asking(stranger, &endpoint)).unwrap_err());
    assert!(said.contains("the server refuses it (403"), "{said}");
    let said = told(&open("s3://models/none", &how).unwrap_err());
    assert!(said.contains("nothing is there (404 NoSuchKey)"), "{said}");

    let url = presign(&located(place), &how.s3, Duration::from_secs(600)).unwrap();
    python(PRESIGN, &[&url, id, secret]);
    let nobody = asking(Signer::Nobody, &endpoint).s3;
    assert!(presign(&located(place), &nobody, Duration::from_secs(1)).is_err());
}
