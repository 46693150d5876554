//! Objects of S3 in parts, taken by moto, which checks every signature by botocore's own arithmetic.

use std::process::Command;

use stream::{Convert, Credentials, Destination, Layout, Location, Model, Remote, Signer};
use stream::{Writer, write};

use super::{forms, holds, large};
use crate::remote::s3::{Moto, SETUP, asking, environment};
use crate::remote::{located, open, told};
use crate::support::{borrowed, key, plain};

/// Prints what is unfinished in the bucket, and how many parts an object has.
const LOOK: &str = r#"
import boto3, sys
endpoint, id, secret, name = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=id, aws_secret_access_key=secret,
    region_name="eu-west-1")
unfinished = s3.list_multipart_uploads(Bucket="models").get("Uploads", [])
parts = 0
if name:
    tag = s3.head_object(Bucket="models", Key=name)["ETag"].strip('"')
    parts = int(tag.partition("-")[2] or 1)
print(len(unfinished), parts)
"#;

/// A URL by which anybody may put an object; moto checks none, and takes none while it checks others.
const PRESIGN: &str = r#"
import boto3, sys, urllib.request
from botocore.config import Config
endpoint, id, secret, name = sys.argv[1:]
plain = {"Content-Type": "text/plain"}
reset = urllib.request.Request(endpoint + "/moto-api/reset-auth", b"1000", plain, method="POST")
urllib.request.urlopen(reset).read()
s3 = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=id, aws_secret_access_key=secret,
    region_name="eu-west-1", config=Config(signature_version="s3v4"))
print(s3.generate_presigned_url("put_object", Params={"Bucket": "models", "Key": name}))
"#;

struct Store {
    _moto: Moto,
    endpoint: String,
    id: String,
    secret: String,
}

impl Store {
    fn start() -> Self {
        let (moto, endpoint) = Moto::start(&environment());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("something");
        std::fs::write(&path, b"something").unwrap();
        let keys = python(SETUP, &[&endpoint, path.to_str().unwrap()]);
        let (id, secret) = keys.trim().split_once(' ').unwrap();
        let (id, secret) = (id.to_owned(), secret.to_owned());
        Self { _moto: moto, endpoint, id, secret }
    }

    fn how(&self) -> Remote {
        let credentials = Credentials::new(&self.id, &self.secret, None).unwrap();
        asking(Signer::Given(credentials), &self.endpoint)
    }

    fn ask(&self, script: &str, name: &str) -> String {
        python(script, &[&self.endpoint, &self.id, &self.secret, name]).trim().to_owned()
    }
}

fn python(script: &str, arguments: &[&str]) -> String {
    let mut python = Command::new(environment().join("bin/python"));
    let done = python.args(["-c", script]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn at(name: &str) -> Location {
    located(&format!("s3://models/{name}"))
}

#[test]
fn a_model_goes_to_s3_in_parts() {
    let (store, tensors, key) = (Store::start(), large(), key());
    let how = store.how();
    for (name, form) in forms(&key) {
        let place = at(name);
        let to = Destination::At(&place, &how);
        let written =
            write(to, &borrowed(&tensors), form).unwrap_or_else(|e| panic!("{}", told(&e)));
        let model = open(&place.to_string(), &how).unwrap();
        assert_eq!((model.file_len(), model.tensors().len()), (written.file_len, tensors.len()));
        holds(&model, &tensors);
        assert_eq!(store.ask(LOOK, name), "0 4", "{name}: parts of 8 MiB");
    }
    // Byte for byte what a file would be, where nothing in it is random.
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    write(&here, &borrowed(&tensors), plain(Layout::Legacy)).unwrap();
    let how_converted = |form| Convert { secret: None, form, drop_meta: false, progress: &|_| {} };
    let model = open("s3://models/legacy", &how).unwrap();
    model.convert(&there, &how_converted(plain(Layout::Legacy))).unwrap();
    assert!(std::fs::read(&here).unwrap() == std::fs::read(&there).unwrap());
    // From one object to another, and over itself.
    for to in ["copy", "aligned"] {
        let from = open("s3://models/aligned", &how).unwrap();
        let place = at(to);
        let done =
            from.convert(Destination::At(&place, &how), &how_converted(plain(Layout::Aligned)));
        done.unwrap_or_else(|e| panic!("{}", told(&e)));
        holds(&open(&format!("s3://models/{to}"), &how).unwrap(), &tensors);
    }
    // A small one is one request.
    let small: Vec<_> = tensors.iter().filter(|(_, bytes)| bytes.len() < 5000).cloned().collect();
    let place = at("small");
    write(Destination::At(&place, &how), &borrowed(&small), plain(Layout::Aligned)).unwrap();
    holds(&open("s3://models/small", &how).unwrap(), &small);
    assert_eq!(store.ask(LOOK, "small"), "0 1");
}

#[test]
fn a_model_that_comes_in_parts_goes_to_s3_in_parts() {
    let (store, tensors, key) = (Store::start(), large(), key());
    let how = store.how();
    for (name, secret, count, parts) in
        [("plain", None, 6, 2), ("sealed", Some(&key), 6, 2), ("short", None, 1, 1)]
    {
        let (tensors, place) = (&tensors[6 - count..], at(name));
        let to = Destination::At(&place, &how);
        let mut writer = Writer::create(to, Layout::Aligned, secret).unwrap();
        for tensor in borrowed(tensors) {
            writer.add(&[tensor]).unwrap_or_else(|e| panic!("{}", told(&e)));
        }
        let written = writer.finish().unwrap_or_else(|e| panic!("{}", told(&e)));
        let model = open(&place.to_string(), &how).unwrap();
        assert_eq!((model.file_len(), model.tensors().len()), (written.file_len, count));
        holds(&model, tensors);
        assert_eq!(store.ask(LOOK, name), format!("0 {parts}"), "{name}");
    }
    let url = located(&format!("{}/models/x", store.endpoint));
    let refused = Writer::create(Destination::At(&url, &how), Layout::Aligned, None);
    let refused = told(&refused.err().unwrap());
    assert!(refused.ends_with("write a file and convert that"), "{refused}");
}

#[test]
fn what_fails_leaves_nothing_and_says_why() {
    let (store, tensors) = (Store::start(), large());
    let mut how = store.how();
    let place = at("never");
    // Whoever drops it half-way.
    let mut writer = Writer::create(Destination::At(&place, &how), Layout::Aligned, None).unwrap();
    let twice: Vec<_> = borrowed(&tensors);
    writer.add(&twice).unwrap();
    let again = told(&writer.add(&twice[..1]).unwrap_err());
    assert!(again.contains("embedding"), "{again}");
    drop(writer);
    // A tensor that is shorter than it says.
    let mut short = borrowed(&tensors);
    short[4].1 = &short[4].1[1..];
    let to = Destination::At(&place, &how);
    let failed = told(&write(to, &short, plain(Layout::Aligned)).unwrap_err());
    assert_eq!(failed, "tensor head: 6000000 bytes are there, its shape and type make 6000001");
    assert_eq!(store.ask(LOOK, ""), "0 0", "aborted");
    assert!(told(&open("s3://models/never", &how).unwrap_err()).contains("404 NoSuchKey"));
    // Nobody's bucket, and nobody's key.
    let nowhere = located("s3://nobodys/x");
    let to = Destination::At(&nowhere, &how);
    let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
    assert_eq!(said, "cannot write s3://nobodys/x: nothing is there (404 NoSuchBucket)");
    how.s3.signer = Signer::Given(Credentials::new(&store.id, "hunter2", None).unwrap());
    let to = Destination::At(&place, &how);
    let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
    assert!(said.contains("403 SignatureDoesNotMatch") && !said.contains("hunter2"), "{said}");
}

#[test]
fn a_presigned_url_takes_a_model() {
    let (store, tensors) = (Store::start(), large());
    let how = store.how();
    let url = located(&store.ask(PRESIGN, "given.tensors"));
    assert_eq!(url.extension(), Some("tensors"));
    let to = Destination::At(&url, &how);
    write(to, &borrowed(&tensors), plain(Layout::Aligned))
        .unwrap_or_else(|e| panic!("{}", told(&e)));
    let model: Model = open("s3://models/given.tensors", &how).unwrap();
    holds(&model, &tensors);
}
