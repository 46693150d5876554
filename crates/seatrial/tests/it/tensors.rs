//! Models as files: what the guide says, done.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a small model in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let header = json!({
            "layers.0.weight": {"dtype": "BF16", "shape": [64, 32], "data_offsets": [0, 4096]},
            "layers.0.bias": {"dtype": "F32", "shape": [3], "data_offsets": [4096, 4108]},
        })
        .to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend((0..4108_u32).map(|n| (n * 7 % 251) as u8));
        fs::write(place.path("model.safetensors"), file).unwrap();
        fs::write(place.path("key"), [7; 32]).unwrap();
        fs::write(place.path("other"), "0f".repeat(32)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seatrial"));
        command.current_dir(self.0.path()).arg("tensors").args(line.split(' '));
        command.output().unwrap()
    }

    /// What is printed by what succeeds.
    fn out(&self, line: &str) -> String {
        let done = self.run(line);
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The exit code and the error of what fails.
    fn fails(&self, line: &str) -> (i32, String) {
        let done = self.run(line);
        let said = [done.stdout, done.stderr].concat();
        (done.status.code().unwrap(), String::from_utf8(said).unwrap())
    }
}

/// A server that gives these bytes by ranges, for as long as the test runs; its address.
fn serve(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = BufReader::new(socket.unwrap());
            let mut range = None;
            loop {
                let mut line = String::new();
                if socket.read_line(&mut line).unwrap() <= 2 {
                    break;
                }
                if let Some(said) = line.trim().strip_prefix("range: bytes=") {
                    let (first, last) = said.split_once('-').unwrap();
                    range = Some((first.parse().unwrap(), last.parse().unwrap()));
                }
            }
            let Some((first, last)): Option<(usize, usize)> = range else { continue };
            let last = last.min(bytes.len() - 1);
            let (body, whole) = (&bytes[first..=last], bytes.len());
            let head = format!(
                "HTTP/1.1 206 OK\r\nconnection: close\r\ncontent-length: {}\r\n\
                 content-range: bytes {first}-{last}/{whole}\r\n\r\n",
                body.len()
            );
            socket.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        }
    });
    format!("http://{address}")
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_model_is_converted_checked_and_brought_back() {
    let place = Place::new();
    place.out("convert model.safetensors model.tensors");
    let table = place.out("inspect model.tensors");
    let row = table.lines().find(|line| line.starts_with("layers.0.weight")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[1..], ["bfloat16", "64×32", "4096", "CRC-32", "SHA-256"]);
    let all: Value = serde_json::from_str(&place.out("inspect model.tensors -o json")).unwrap();
    assert_eq!(all["tensors"].as_array().unwrap().len(), 2);
    assert!(place.out("verify model.tensors").contains("nothing is damaged"));
    let loaded = place.out("load model.tensors --only layers.0.bias -o json");
    let loaded: Value = serde_json::from_str(&loaded).unwrap();
    assert_eq!((&loaded["tensors"], &loaded["bytes"]), (&json!(1), &json!(12)));

    place.out("convert model.tensors back.safetensors");
    // safetensors lays tensors in an order of its own.
    place.out("convert back.safetensors again.tensors");
    place.out("convert again.tensors again.safetensors");
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    assert_eq!(read("back.safetensors"), read("again.safetensors"));
    let data = |name: &str| {
        let loaded = place.out(&format!("load {name} --verify -o json"));
        serde_json::from_str::<Value>(&loaded).unwrap()["bytes"].clone()
    };
    assert_eq!((data("model.tensors"), data("again.tensors")), (json!(4108), json!(4108)));
}

#[test]
fn what_is_damaged_is_named() {
    let place = Place::new();
    place.out("convert model.safetensors model.tensors");
    let all: Value = serde_json::from_str(&place.out("inspect model.tensors -o json")).unwrap();
    let weight = all["tensors"].as_array().unwrap().iter();
    let weight = weight.clone().find(|tensor| tensor["name"] == "layers.0.weight").unwrap();
    let at = usize::try_from(weight["offset"].as_u64().unwrap()).unwrap() + 1000;
    flip(&place.path("model.tensors"), at);
    let (code, said) = place.fails("verify model.tensors");
    assert_eq!(code, 1);
    assert!(said.contains("1 of 2 tensors damaged: layers.0.weight"), "{said}");
    let (code, said) = place.fails("convert model.tensors out.safetensors");
    assert!(code == 1 && said.contains("layers.0.weight"), "{said}");
    assert!(!place.path("out.safetensors").exists());

    let whole = fs::read(place.path("model.safetensors")).unwrap();
    fs::write(place.path("cut.safetensors"), &whole[..whole.len() - 1]).unwrap();
    let (code, said) = place.fails("inspect cut.safetensors");
    assert!(code == 1 && said.contains("cut.safetensors"), "{said}");
    let (code, said) = place.fails("convert model.safetensors model.bin");
    assert!(code == 2 && said.contains("neither .tensors nor .safetensors"), "{said}");
}

#[test]
fn what_is_sealed_opens_with_its_key_only() {
    let place = Place::new();
    place.out("encrypt model.safetensors sealed.tensors --key-file key");
    assert!(place.out("inspect sealed.tensors").contains("encrypted"));
    let (_, said) = place.fails("verify sealed.tensors");
    assert!(said.contains("a key is needed"), "{said}");
    let (code, said) = place.fails("verify sealed.tensors --key-file other");
    assert_eq!(code, 1);
    assert!(said.contains("layers.0.weight"), "{said}");
    let key = "0f".repeat(32);
    assert!(!said.contains(&key), "a key is told");
    place.out("verify sealed.tensors --key-file key");
    place.out("decrypt sealed.tensors open.safetensors --key-file key");
    place.out("encrypt model.safetensors sealed2.tensors --passphrase-file other");
    place.out("decrypt sealed2.tensors open2.safetensors --passphrase-file other");
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    assert_eq!(read("open.safetensors"), read("open2.safetensors"));
}

#[test]
fn a_model_behind_a_url_is_used_like_a_file() {
    let place = Place::new();
    place.out("convert model.safetensors model.tensors");
    let url = serve(fs::read(place.path("model.tensors")).unwrap());
    let url = format!("{url}/model.tensors?X-Amz-Signature=5ec7e7");
    let told = |name: &str| {
        let all = place.out(&format!("inspect {name} -o json"));
        serde_json::from_str::<Value>(&all).unwrap()
    };
    let (there, here) = (told(&url), told("model.tensors"));
    assert_eq!(there["tensors"], here["tensors"]);
    assert!(!there.to_string().contains("5ec7e7"), "{there}");
    assert!(place.out(&format!("verify {url}")).contains("nothing is damaged"));
    place.out(&format!("convert {url} copy.safetensors"));
    place.out("convert model.tensors own.safetensors");
    let read = |name: &str| fs::read(place.path(name)).unwrap();
    assert_eq!(read("copy.safetensors"), read("own.safetensors"));
    let said = place.out(&format!("load {url} --bench 2 --verify"));
    assert!(said.contains("0 retries, 0 hedges on "), "{said}");
    let loaded: Value = serde_json::from_str(&place.out(&format!("load {url} -o json"))).unwrap();
    assert_eq!((&loaded["bytes"], &loaded["http"]["retries"]), (&json!(4108), &json!(0)));

    let (code, said) = place.fails(&format!("load {url} --cold"));
    assert!(code == 2 && said.contains("--cold is of files"), "{said}");
    let (code, said) = place.fails("convert model.tensors https://host/out?name=x.tensors");
    assert!(code == 2 && said.contains("https://host/out?... ends in neither"), "{said}");
    let nobody = "http://127.0.0.1:1/out.tensors?X-Amz-Signature=5ec7e7";
    let (code, said) = place.fails(&format!("convert model.tensors {nobody}"));
    assert!(
        code == 1 && said.contains("cannot write http://127.0.0.1:1/out.tensors?..."),
        "{said}"
    );
    assert!(said.contains("no connection to 127.0.0.1:1") && !said.contains("5ec7e7"), "{said}");
    let (code, said) = place.fails("inspect ftp://host/model.tensors");
    assert!(code == 2 && said.contains("ftp:// is not read"), "{said}");
    let (code, said) = place.fails("inspect https://user:hunter2@host/model.tensors");
    assert!(code == 2 && said.contains("holds credentials") && !said.contains("hunter2"), "{said}");
    let secure = url.replace("http://", "https://");
    let (code, said) = place.fails(&format!("inspect {secure} --ca-file nowhere.pem"));
    assert!(code == 1 && said.contains("nowhere.pem") && !said.contains("5ec7e7"), "{said}");
}

/// As a presigned URL takes it.
#[test]
fn a_model_is_written_to_a_url() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/out.tensors?secret", listener.local_addr().unwrap());
    let store = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let (mut stream, mut length) = (BufReader::new(socket), 0);
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some(("content-length", said)) => length = said.parse().unwrap(),
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 201 Here\r\ncontent-length: 0\r\n\r\n").unwrap();
        body
    });
    let said = place.out(&format!("convert model.safetensors {url}"));
    assert!(said.contains("/out.tensors?...: 2 tensors") && !said.contains("secret"), "{said}");
    fs::write(place.path("taken.tensors"), store.join().unwrap()).unwrap();
    assert!(place.out("verify taken.tensors").contains("nothing is damaged"));
}

#[test]
fn a_directory_is_served_until_it_is_told_to_stop() {
    let place = Place::new();
    place.out("convert model.safetensors model.tensors");
    let mut server = Command::new(env!("CARGO_BIN_EXE_seatrial"))
        .current_dir(place.0.path())
        .args(["tensors", "serve", ".", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let (url, what) = said.split_once(' ').unwrap();
    assert_eq!(what, "serves the files of .\n");
    let verified = place.out(&format!("verify {url}/model.tensors"));
    assert!(verified.contains("nothing is damaged"), "{verified}");
    let taken = url.strip_prefix("http://").unwrap();
    let (code, said) = place.fails(&format!("serve . --listen {taken}"));
    assert!(code == 2 && said.contains(&format!("cannot listen on {taken}")), "{said}");
    let told = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(told.success() && server.wait().unwrap().success());
}

#[test]
fn what_cannot_be_served_says_what_to_do() {
    let place = Place::new();
    for (line, want) in [
        ("serve", "DIR"),
        ("serve none", "is it a directory that may be read?"),
        ("serve . --origin s3://bucket", "cannot be used with"),
        ("serve --origin s3://bucket", "--cache-dir"),
        ("serve --origin s3:// --cache-dir c --cache-bytes 1GB", "s3://BUCKET"),
        ("serve --origin s3://bucket --cache-dir c --cache-bytes 1MB", "is too small: give it"),
        (
            "serve --origin s3://bucket --cache-dir key --cache-bytes 1GB",
            "cannot keep a cache in key",
        ),
    ] {
        let (code, said) = place.fails(line);
        assert!(code == 2 && said.contains(want), "{line}: {code} {said}");
    }
}
