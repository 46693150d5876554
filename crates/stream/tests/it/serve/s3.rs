//! A cache in front of S3, as moto understands it.

use std::process::Command;

use stream::{Credentials, Remote, Signer};

use super::{cached, caching, count, origin_bytes};
use crate::remote::s3::{Moto, SETUP, asking, environment};
use crate::remote::{hasty, load, open, right, striped, told};

#[test]
fn s3_is_read_once_and_signed() {
    let environment = environment();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model");
    std::fs::write(&path, &striped().file).unwrap();
    let (_moto, endpoint) = Moto::start(&environment);
    let mut python = Command::new(environment.join("bin/python"));
    let keys = python.args(["-c", SETUP, &endpoint]).arg(&path).output().unwrap();
    assert!(keys.status.success(), "{}", String::from_utf8_lossy(&keys.stderr));
    let keys = String::from_utf8(keys.stdout).unwrap();
    let (id, secret) = keys.trim().split_once(' ').unwrap();
    let signer = Signer::Given(Credentials::new(id, secret, None).unwrap());
    let cached = cached("s3://models/a folder", &directory.path().join("cache"));
    let s3 = asking(signer, &endpoint).s3;
    let remote = Remote { s3, ..cached.remote };
    let server = caching(stream::Cached { remote, ..cached });
    let url = |name| format!("http://{}/{name}", server.address());
    let all = stream::Load { verify: true, ..stream::Load::default() };
    let model = open(&url("mödel+1.tensors"), &hasty()).unwrap();
    model.load(&all).unwrap();
    assert_eq!(origin_bytes(&server), striped().file.len() as u64);
    let reads = count(&server, "seatrial_tensors_origin_reads_total");
    right(&load(&open(&url("mödel+1.tensors"), &hasty()).unwrap()).unwrap());
    assert_eq!(count(&server, "seatrial_tensors_origin_reads_total"), reads);
    let missing = told(&open(&url("none"), &hasty()).unwrap_err());
    assert!(missing.ends_with("nothing is there (404)"), "{missing}");
}
