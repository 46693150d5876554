use std::collections::BTreeSet;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use metal::boot::{BootSource, Booting, Join, JoinToken, Manifest, Unavailable, answer};
use proptest::prelude::*;
use serde_json::{Value, json};

const MAC: &str = "02:00:00:00:00:01";

/// One machine, known by one address.
struct Source {
    booting: Booting,
    spent: Mutex<BTreeSet<String>>,
    down: bool,
}

impl Source {
    fn new() -> Self {
        let manifest = Manifest {
            machine: "r1-s01".to_owned(),
            image: "gpu-2026.1".to_owned(),
            kernel: "http://boot.example/gpu-2026.1/vmlinuz".to_owned(),
            initrd: "http://boot.example/gpu-2026.1/initrd".to_owned(),
            arguments: vec!["console=ttyS0,115200".to_owned(), "quiet".to_owned()],
            service: "http://boot.example/".to_owned(),
            api: "https://api.example:6443".to_owned(),
        };
        let booting = Booting { manifest, production: true, boot: Some("b1".to_owned()) };
        Self { booting, spent: Mutex::default(), down: false }
    }
}

impl BootSource for Source {
    async fn machine(&self, mac: &str) -> Result<Option<Booting>, Unavailable> {
        if self.down {
            return Err(Unavailable("the API does not answer".to_owned()));
        }
        Ok((mac == MAC).then(|| self.booting.clone()))
    }

    async fn join(&self, machine: &str, boot: &str) -> Result<Join, Unavailable> {
        let first = self.spent.lock().unwrap().insert(format!("{machine}/{boot}"));
        let token = JoinToken {
            token: "abcdef.0123456789abcdef".to_owned(),
            expires: "2026-01-01T00:10:00Z".parse().unwrap(),
        };
        Ok(if first { Join::Token(token) } else { Join::Spent })
    }
}

async fn ask(source: &Source, method: Method, path: &str, body: &str) -> Response<Bytes> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let request = Request::builder().method(method).uri(path).body(body).unwrap();
    answer(source, &request).await
}

async fn get(source: &Source, path: &str) -> (StatusCode, String) {
    let response = ask(source, Method::GET, path, "").await;
    (response.status(), String::from_utf8(response.body().to_vec()).unwrap())
}

#[tokio::test]
async fn a_script_loads_what_the_manifest_says() {
    let (status, script) = get(&Source::new(), &format!("/boot/v1/script?mac={MAC}")).await;
    assert_eq!(status, StatusCode::OK);
    let expected = "\
#!ipxe
echo Seatrial: r1-s01 boots gpu-2026.1
kernel --name kernel http://boot.example/gpu-2026.1/vmlinuz initrd=initrd console=ttyS0,115200 quiet \
seatrial.machine=r1-s01 \
seatrial.manifest=http://boot.example/boot/v1/manifest?mac=02:00:00:00:00:01 || goto failed
initrd --name initrd http://boot.example/gpu-2026.1/initrd || goto failed
boot || goto failed
:failed
echo Seatrial: r1-s01 could not boot gpu-2026.1, asks again in 10 s
sleep 10
chain --replace http://boot.example/boot/v1/script?mac=02:00:00:00:00:01 || reboot
";
    assert_eq!(script, expected);
}

#[tokio::test]
async fn a_manifest_is_json_and_every_form_of_an_address_finds_it() {
    let source = Source::new();
    for path in [
        "/boot/v1/manifest?mac=02:00:00:00:00:01",
        "//boot//v1/manifest/?mac=02-00-00-00-00-01",
        "/boot/v1/manifest?x=y&mac=02%3A00%3A00%3A00%3A00%3A01",
        "/boot/v1/manifest?mac=01-02-00-00-00-00-01",
    ] {
        let (status, body) = get(&source, path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let manifest: Manifest = serde_json::from_str(&body).unwrap();
        assert_eq!(manifest, source.booting.manifest);
    }
    let head = ask(&source, Method::HEAD, "/boot/v1/script?mac=02:00:00:00:00:01", "").await;
    assert_eq!((head.status(), head.body().len()), (StatusCode::OK, 0));
    assert_ne!(head.headers()["content-length"], "0");
    assert_eq!(head.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn what_cannot_be_answered_is_said() {
    let mut source = Source::new();
    for (path, status, says) in [
        ("/boot/v1/script", 400, "02:00:00:00:00:01"),
        ("/boot/v1/script?mac=nonsense", 400, "hardware address"),
        ("/boot/v1/script?mac=02:00:00:00:00:02", 404, "no Machine has 02:00:00:00:00:02"),
        ("/boot/v1/join", 405, "GET is not taken"),
        ("/boot/v2/script?mac=02:00:00:00:00:01", 404, "/boot/v1/script"),
        ("/", 404, "/boot/v1/manifest"),
    ] {
        let (found, body) = get(&source, path).await;
        assert_eq!(found.as_u16(), status, "{path}: {body}");
        assert!(body.contains(says), "{path}: {body}");
    }
    source.down = true;
    let down = ask(&source, Method::GET, "/boot/v1/script?mac=02:00:00:00:00:01", "").await;
    assert_eq!(down.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(down.headers()["retry-after"], "5");
}

#[tokio::test]
async fn a_boot_gets_one_token_and_only_in_production() {
    let mut source = Source::new();
    let join = async |source: &Source, boot: &str| {
        let body = json!({"mac": MAC, "boot": boot}).to_string();
        let answer = ask(source, Method::POST, "/boot/v1/join", &body).await;
        (answer.status().as_u16(), String::from_utf8(answer.body().to_vec()).unwrap())
    };
    source.booting.production = false;
    let (status, why) = join(&source, "b1").await;
    assert!(status == 403 && why.contains("r1-s01 is not in Production"), "{why}");
    source.booting.production = true;
    for boot in ["b0", ""] {
        let (status, why) = join(&source, boot).await;
        assert!(status == 403 && why.contains("does not run this boot"), "{why}");
    }
    source.booting.boot = None;
    assert_eq!(join(&source, "b1").await.0, 403, "its agent has not spoken");
    source.booting.boot = Some("b1".to_owned());
    let (status, body) = join(&source, "b1").await;
    let token: JoinToken = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &*token.token), (200, "abcdef.0123456789abcdef"));
    assert!(!format!("{token:?}").contains("abcdef"));
    let (status, why) = join(&source, "b1").await;
    assert!(status == 409 && why.contains("a new boot gets another"), "{why}");
    source.booting.boot = Some("b2".to_owned());
    assert_eq!(join(&source, "b2").await.0, 200);
    for (body, status) in [("", 400), ("[]", 400), ("{\"mac\": \"x\", \"boot\": \"b\"}", 400)] {
        let answer = ask(&source, Method::POST, "/boot/v1/join", body).await;
        assert_eq!(answer.status().as_u16(), status, "{body}");
    }
    let long = ask(&source, Method::POST, "/boot/v1/join", &"x".repeat(5000)).await;
    assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in a manifest, a script has these lines and no other, or there is none.
    #[test]
    fn no_word_escapes_its_line(word in "\\PC{0,12}|[a-z\\n\\r|&;#${} ]{0,12}", field in 0..6_usize) {
        let mut source = Source::new();
        let manifest = &mut source.booting.manifest;
        match field {
            0 => manifest.machine = word,
            1 => manifest.image = word,
            2 => manifest.kernel = word,
            3 => manifest.initrd = word,
            4 => manifest.service = word,
            _ => manifest.arguments.push(word),
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let path = format!("/boot/v1/script?mac={MAC}");
        let (status, script) = runtime.block_on(get(&source, &path));
        if status == StatusCode::OK {
            prop_assert_eq!(script.lines().count(), 9);
            prop_assert_eq!(script.matches("||").count(), 4);
            let expanded = script.contains("${") || script.contains(';');
            prop_assert!(!expanded && script.matches('#').count() == 1);
        } else {
            prop_assert_eq!(status, StatusCode::CONFLICT);
            prop_assert!(script.contains("cannot be booted"));
        }
    }

    /// Whatever is asked, there is an answer.
    #[test]
    fn no_request_makes_it_panic(path in "/[!-~]{0,60}", body in prop::collection::vec(any::<u8>(), 0..200)) {
        let Ok(uri) = path.parse::<http::Uri>() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let request = Request::builder().method(method).uri(uri.clone())
                .body(Bytes::from(body.clone())).unwrap();
            runtime.block_on(answer(&Source::new(), &request));
        }
    }
}

#[tokio::test]
async fn an_image_that_does_not_fit_is_named() {
    let mut source = Source::new();
    source.booting.manifest.image = "a b".to_owned();
    let (status, why) = get(&source, &format!("/boot/v1/script?mac={MAC}")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(why.contains("the image's name cannot be booted: \"a b\""), "{why}");
    let (status, manifest) = get(&source, &format!("/boot/v1/manifest?mac={MAC}")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Value>(&manifest).unwrap()["image"], "a b");
}
