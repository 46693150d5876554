//! What comes from machines: a BMC's answers, and lines of a kernel's log.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use api::machine::Bmc;
use api::request::Power;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use metal::redfish::{Bmcs, Credential};
use metal::{Exchange, Unreachable};
use plan::catalogue::Catalogue;
use plan::detect::{Driver, Lines};
use tokio::runtime::Runtime;

/// What parts answers from each other.
const NEXT: &[u8] = b"\n--\n";

/// An answer of a BMC, with one header at most.
#[derive(Clone)]
struct Given {
    status: StatusCode,
    header: Option<(String, String)>,
    body: Bytes,
}

thread_local! {
    static RUNTIME: Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime starts");
    static LINES: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// A BMC gives one answer after the other, each `STATUS HEADER: VALUE` and a body, whatever it is asked;
/// then the last for ever.
pub(crate) fn redfish(data: &[u8]) {
    let answers: Vec<Given> = split(data).map(answer).collect();
    let mut next = answers.into_iter().cycle();
    let answers = Arc::new(Mutex::new(move || next.next()));
    let exchange = Exchange::new(tower::service_fn(move |request: Request<Bytes>| {
        // Whoever has the credential must be who was meant.
        assert_eq!(request.uri().host(), Some("bmc.example"), "asked {}", request.uri());
        let given = answers.lock().expect("one thread")();
        async move { respond(given) }
    }));
    let bmcs = Bmcs::through(exchange);
    let bmc = Bmc { address: "http://bmc.example/".to_owned(), credential: "c".to_owned() };
    let credential = Credential { username: "u".to_owned(), password: "p".to_owned() };
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let _ = bmcs.read(&bmc, &credential).await;
            for power in [Power::ForceRestart, Power::Cycle] {
                let _ = bmcs.power(&bmc, &credential, power).await;
            }
        });
    });
}

fn respond(given: Option<Given>) -> Result<Response<Bytes>, Unreachable> {
    let lost = || Unreachable { host: "bmc.example".to_owned(), why: "silence".to_owned() };
    let Given { status, header, body } = given.ok_or_else(lost)?;
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    // A header that HTTP cannot carry never arrives.
    response.body(body).map_err(|_| lost())
}

fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let now = rest?;
        let end = now.windows(NEXT.len()).position(|window| window == NEXT);
        rest = end.map(|end| &now[end + NEXT.len()..]);
        Some(&now[..end.unwrap_or(now.len())])
    })
    .take(16)
}

fn answer(data: &[u8]) -> Given {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (code, header) = head.split_once(' ').unwrap_or((&head, ""));
    let code = code.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
    let header = header.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let body = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    Given { status: code.unwrap_or(StatusCode::OK), header, body }
}

pub(crate) fn redfish_seeds() -> Vec<Vec<u8>> {
    let systems = "200 \n{\"Members\": [{\"@odata.id\": \"/redfish/v1/Systems/1\"}]}";
    let system = "200 ETag: \"1\"\n{\"PowerState\": \"On\", \"LastResetTime\": \"2026-01-01T00:00:00Z\",\
                  \"Boot\": {\"BootSourceOverrideTarget@Redfish.AllowableValues\": [\"Pxe\", \"UefiHttp\"]},\
                  \"@Redfish.Settings\": {\"SettingsObject\": {\"@odata.id\": \"/redfish/v1/Systems/1/Settings\"}},\
                  \"Actions\": {\"#ComputerSystem.Reset\": {\"target\": \"/redfish/v1/Systems/1/Actions/Reset\",\
                  \"@Redfish.ActionInfo\": \"/redfish/v1/Systems/1/ResetActionInfo\"}}}";
    let info = "200 \n{\"Parameters\": [{\"Name\": \"ResetType\", \"AllowableValues\": [\"On\", \"ForceRestart\"]}]}";
    let error =
        "400 Retry-After: 1\n{\"error\": {\"@Message.ExtendedInfo\": [{\"Message\": \"no\"}]}}";
    let session = "201 X-Auth-Token: t\n{}";
    [
        [systems, system, info, "204 \n", "204 \n", system].join("\n--\n"),
        ["401 \n", session, systems, system, error, "412 \n", system].join("\n--\n"),
    ]
    .map(String::into_bytes)
    .into()
}

/// Lines of a kernel's log.
pub(crate) fn log(data: &[u8]) {
    LINES.with_borrow_mut(|lines| {
        let lines = lines
            .get_or_insert_with(|| Lines::new(&Catalogue::built_in()).expect("the catalogue fits"));
        for driver in [Driver::UNKNOWN, Driver::version("570.1"), Driver::version("580.1")] {
            for line in data.split(|byte| *byte == b'\n') {
                for finding in lines.read(line, jiff::Timestamp::UNIX_EPOCH, driver) {
                    assert!(finding.evidence.len() <= 240, "{}", finding.evidence);
                    assert!(!finding.evidence.contains(char::is_control), "{}", finding.evidence);
                }
            }
        }
    });
}

pub(crate) fn log_seeds() -> Vec<Vec<u8>> {
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:18:00): 74, pid=1, NVLink: fatal error detected on link 3(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        "NVRM: Xid (PCI:0000:19:00): 145, RLW_REMAP Nonfatal XC1 i0 Link 04 (0x00000004 0x80000000 0x00000000 0x00000000)",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0\nmlx5_core 0000:9f:00.0: health poll failed",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}
