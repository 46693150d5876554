use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use metal::Exchange;
use metal::boot::{
    BootSource, Booting, Claim, Enrol, Identity, Join, JoinToken, Manifest, NotGiven, Unavailable,
    answer,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const MAC: &str = "02:00:00:00:00:01";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// One machine, known by one address.
struct Source {
    booting: Booting,
    spent: Mutex<BTreeSet<String>>,
    /// When a boot may ask for another token.
    again: Option<Duration>,
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
        Self { booting, spent: Mutex::default(), again: None, down: false }
    }
}

impl BootSource for Source {
    async fn machine(&self, mac: &str) -> Result<Option<Booting>, Unavailable> {
        if self.down {
            return Err(Unavailable("the API does not answer".to_owned()));
        }
        Ok((mac == MAC).then(|| self.booting.clone()))
    }

    async fn enrol(&self, machine: &str, _: &str, secret: &str) -> Result<Enrol, Unavailable> {
        if secret != SECRET {
            return Ok(Enrol::Refused("another secret".to_owned()));
        }
        let (machine, token) = (machine.to_owned(), "header.claims.signature".to_owned());
        let expires = "2026-01-01T12:00:00Z".parse().unwrap();
        Ok(Enrol::Known(Identity { machine, token, expires }))
    }

    async fn join(&self, machine: &str, boot: &str, secret: &str) -> Result<Join, Unavailable> {
        if secret != SECRET {
            return Ok(Join::Refused("another secret".to_owned()));
        }
        let token = JoinToken {
            token: "abcdef.0123456789abcdef".to_owned(),
            expires: "2026-01-01T00:10:00Z".parse().unwrap(),
        };
        let mut spent = self.spent.lock().unwrap();
        Ok(match spent.insert(format!("{machine}/{boot}")) {
            true => Join::Token(token),
            false => Join::Spent { after: self.again },
        })
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
        let body = json!({"mac": MAC, "boot": boot, "secret": SECRET}).to_string();
        let answer = ask(source, Method::POST, "/boot/v1/join", &body).await;
        (answer.status().as_u16(), String::from_utf8(answer.body().to_vec()).unwrap())
    };
    source.booting.production = false;
    let (status, why) = join(&source, "b1").await;
    assert!(status == 403 && why.contains("r1-s01 is not in Production"), "{why}");
    source.booting.production = true;
    let (status, why) = join(&source, "b0").await;
    assert!(status == 403 && why.contains("does not run this boot"), "{why}");
    let (status, why) = join(&source, "").await;
    assert!(status == 400 && why.contains("boot must be the kernel's boot ID"), "{why}");
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
    let mac = json!({"mac": "x", "boot": "b", "secret": SECRET}).to_string();
    let short = json!({"mac": MAC, "boot": "b1", "secret": "short"}).to_string();
    for (body, status, says) in [
        ("", 400, "the body must be"),
        ("[]", 400, "the body must be"),
        (&mac, 400, "hardware address"),
        (&short, 400, "secret must be 32 to 256"),
    ] {
        let answer = ask(&source, Method::POST, "/boot/v1/join", body).await;
        assert_eq!(answer.status().as_u16(), status, "{body}");
        assert!(String::from_utf8_lossy(answer.body()).contains(says), "{body}");
    }
    let long = ask(&source, Method::POST, "/boot/v1/join", &"x".repeat(5000)).await;
    assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

fn claim(secret: &str) -> Claim {
    Claim { mac: MAC.to_owned(), boot: "b1".to_owned(), secret: secret.to_owned() }
}

/// Carries requests to a source within the process.
fn exchange(source: Source) -> Exchange {
    let source = std::sync::Arc::new(source);
    Exchange::new(tower::service_fn(move |request: Request<Bytes>| {
        let source = std::sync::Arc::clone(&source);
        async move { Ok(answer(&*source, &request).await) }
    }))
}

#[tokio::test]
async fn a_machine_asks_who_it_is_and_for_its_token() {
    let source = Source { again: Some(Duration::from_millis(90_001)), ..Source::new() };
    let (exchange, url) = (exchange(source), "http://boot.example/");
    let identity = metal::boot::enrol(&exchange, url, &claim(SECRET)).await.unwrap();
    assert_eq!((&*identity.machine, &*identity.token), ("r1-s01", "header.claims.signature"));
    let shown = format!("{identity:?} {:?}", claim(SECRET));
    assert!(!shown.contains("claims") && !shown.contains(SECRET), "{shown}");
    let other = SECRET.replace('0', "x");
    let refused = metal::boot::enrol(&exchange, url, &claim(&other)).await.unwrap_err();
    assert_eq!(refused.why, "403 Forbidden: another secret");
    let token = metal::boot::join(&exchange, url, &claim(SECRET)).await.unwrap();
    assert_eq!(token.token, "abcdef.0123456789abcdef");
    let NotGiven { why, after } =
        metal::boot::join(&exchange, url, &claim(SECRET)).await.unwrap_err();
    assert!(why.contains("may ask for another"), "{why}");
    assert_eq!(after, Some(Duration::from_secs(91)), "rounded up");
}

/// The same over sockets, with a peer beside it that sends garbage.
#[tokio::test]
async fn machines_are_answered_over_http() {
    use tokio::io::AsyncWriteExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(metal::serve(listener, exchange(Source::new())));
    let mut garbage = tokio::net::TcpStream::connect(address).await.unwrap();
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    let (http, url) = (metal::exchange::http(), format!("http://{address}"));
    assert_eq!(metal::boot::enrol(&http, &url, &claim(SECRET)).await.unwrap().machine, "r1-s01");
    server.abort();
    let _ = server.await;
    let gone = metal::boot::join(&http, &url, &claim(SECRET)).await.unwrap_err();
    assert_eq!(gone.after, None, "{gone}");
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
