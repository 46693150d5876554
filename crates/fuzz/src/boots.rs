//! Requests of machines that boot: the boot service, which anybody on the machines' network may ask.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Request, Uri};
use metal::boot::{
    BootSource, Booting, Enrol, Identity, Join, JoinToken, Manifest, Unavailable, answer,
};
use tokio::runtime::Runtime;

/// The machine that there is.
const MAC: &str = "02:00:00:00:00:01";
/// What its boot has drawn.
const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// What only that boot is told.
const TOKEN: &str = "token-of-the-one-machine";

thread_local! {
    static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
}

struct One;

impl BootSource for One {
    async fn machine(&self, mac: &str) -> Result<Option<Booting>, Unavailable> {
        assert!(
            mac.len() == MAC.len() && mac.is_ascii(),
            "an address is asked for as it is written"
        );
        let url = |path: &str| format!("http://boot.example/{path}");
        let manifest = Manifest {
            machine: "r1-s01".to_owned(),
            image: "gpu".to_owned(),
            kernel: url("vmlinuz"),
            initrd: url("initrd"),
            arguments: vec!["quiet".to_owned()],
            service: url(""),
            api: url("api"),
        };
        let booting = Booting { manifest, production: true, boot: Some("b".to_owned()) };
        Ok((mac == MAC).then_some(booting))
    }

    async fn enrol(&self, machine: &str, _: &str, secret: &str) -> Result<Enrol, Unavailable> {
        let expires = jiff::Timestamp::UNIX_EPOCH;
        let known = Identity { machine: machine.to_owned(), token: TOKEN.to_owned(), expires };
        Ok(if secret == SECRET { Enrol::Known(known) } else { Enrol::Refused("no".to_owned()) })
    }

    async fn join(&self, _: &str, _: &str, secret: &str) -> Result<Join, Unavailable> {
        let token = JoinToken { token: TOKEN.to_owned(), expires: jiff::Timestamp::UNIX_EPOCH };
        Ok(if secret == SECRET { Join::Token(token) } else { Join::Refused("no".to_owned()) })
    }
}

/// `METHOD URI`, and a body.
pub(crate) fn run(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let head = parts.next().unwrap_or_default();
    let Some(space) = head.iter().position(|byte| *byte == b' ') else { return };
    let Ok(uri) = Uri::try_from(&head[space + 1..]) else { return };
    let body = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let holds = |bytes: &[u8], word: &str| {
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    // Escapes of JSON may spell it otherwise.
    let knows = holds(&body, SECRET) || body.contains(&b'\\');
    let Ok(request) = Request::builder().method(&head[..space]).uri(uri).body(body) else { return };
    let answer = RUNTIME.with(|runtime| runtime.block_on(answer(&One, &request)));
    assert_ne!(answer.status().as_u16(), 500, "{:?}", answer.body());
    // A refusal may repeat what was asked, whatever that was.
    let told = answer.status().is_success() && holds(answer.body(), TOKEN);
    assert!(knows || !told, "a token for nobody: {:?}", answer.body());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let claim = BTreeMap::from([("mac", MAC), ("boot", "b"), ("secret", SECRET)]);
    let claim = serde_json::json!(claim);
    [
        format!("GET /boot/v1/script?mac={MAC}\n"),
        "GET /boot/v1/manifest?mac=02-00-00-00-00-01\n".to_owned(),
        "HEAD /boot/v1/script?mac=020000000001\n".to_owned(),
        format!("POST /boot/v1/enrol\n{claim}"),
        format!("POST /boot/v1/join\n{claim}"),
    ]
    .map(String::into_bytes)
    .into()
}
