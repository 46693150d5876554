//! BMCs: by the book, by their habits, and against hostile requests.

use super::{booted, boots, site};
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use sim::datacentre::{Datacentre, Heal};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tower::ServiceExt;

const BASIC: &str = "Basic c2ltdWxhdGVkOnNpbXVsYXRlZA==";

async fn call(
    site: &Datacentre,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Response<Bytes> {
    let mut request = Request::builder().method(method).uri(format!("http://bmcs{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    site.redfish().oneshot(request).await.unwrap()
}

async fn get(site: &Datacentre, path: &str) -> (StatusCode, Value) {
    let answer = call(site, Method::GET, path, &[("authorization", BASIC)], &Value::Null).await;
    (answer.status(), serde_json::from_slice(answer.body()).unwrap_or_default())
}

#[test]
fn the_login_is_that_of_the_secret() {
    let objects = super::demo().objects("http://bmcs");
    let data = objects.credential.string_data.unwrap();
    let login = format!("{}:{}", data["username"], data["password"]);
    let basic = base64::engine::general_purpose::STANDARD.encode(login);
    assert_eq!(BASIC, format!("Basic {basic}"));
}

#[tokio::test(start_paused = true)]
async fn every_link_of_every_make_leads_somewhere() {
    let site = site();
    for (name, sessions) in
        [("r1-s01", false), ("r2-s01", false), ("r3-s01", true), ("r4-s01", false)]
    {
        let login = json!({"UserName": "simulated", "Password": "simulated"});
        let path = format!("/bmc/{name}/redfish/v1/SessionService/Sessions");
        let answer = call(&site, Method::POST, &path, &[], &login).await;
        assert_eq!(answer.status(), StatusCode::CREATED);
        let token = answer.headers()["x-auth-token"].to_str().unwrap().to_owned();
        let auth = [("x-auth-token", token.as_str())];
        let (status, _) = get(&site, &format!("/bmc/{name}/redfish/v1/Systems")).await;
        assert_eq!(status == StatusCode::UNAUTHORIZED, sessions, "{name}");

        let mut to_read = vec![format!("/bmc/{name}/redfish/v1")];
        let mut read = std::collections::BTreeSet::new();
        while let Some(path) = to_read.pop() {
            let path = path.trim_end_matches('/').to_owned();
            if !read.insert(path.clone()) {
                continue;
            }
            let answer = call(&site, Method::GET, &path, &auth, &Value::Null).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            links(&serde_json::from_slice(answer.body()).unwrap(), &mut to_read);
        }
        assert!(read.len() >= 16, "{read:?}");
    }
}

fn links(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(link) if key == "@odata.id" || key == "@Redfish.ActionInfo" => {
                        found.push(link.to_owned());
                    }
                    _ => links(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| links(value, found)),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_told_and_seen() {
    let site = site();
    let machine = site.machine("r1-s01").unwrap();
    let system = "/bmc/r1-s01/redfish/v1/Systems/1";
    let reset = format!("{system}/Actions/ComputerSystem.Reset");
    let (_, before) = get(&site, system).await;
    assert_eq!((before["PowerState"].as_str(), before.get("LastResetTime")), (Some("Off"), None));

    let auth = [("authorization", BASIC), ("seatrial-operation", "op-7")];
    let tell = async |kind: &str| {
        call(&site, Method::POST, &reset, &auth, &json!({"ResetType": kind})).await
    };
    assert_eq!(tell("ForceRestart").await.status(), StatusCode::CONFLICT);
    let refused = tell("Explode").await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(String::from_utf8_lossy(refused.body()).contains("GracefulRestart"));
    assert_eq!(tell("On").await.status(), StatusCode::NO_CONTENT);
    boots(&machine).await;
    let (_, after) = get(&site, system).await;
    assert_eq!(after["PowerState"], "On");
    assert!(after["LastResetTime"].as_str().unwrap().starts_with("2026-01-01T00:00:"));
    assert_eq!(machine.reset_log()[0].operation.as_deref(), Some("op-7"));
}

#[tokio::test(start_paused = true)]
async fn makes_have_their_habits() {
    let site = site();
    for machine in ["r1-s01", "r2-s01", "r4-s01"] {
        booted(&site, machine).await;
    }
    let (_, alder) = get(&site, "/bmc/r1-s01/redfish/v1/Systems/1").await;
    assert!(alder.to_string().contains("PowerCycle") && alder.get("LastResetTime").is_some());
    let (_, birch) = get(&site, "/bmc/r2-s01/redfish/v1/Systems/System.Embedded.1").await;
    assert!(!birch.to_string().contains("PowerCycle"));
    let before = Instant::now();
    let (_, dogwood) = get(&site, "/bmc/r4-s01/redfish/v1/Systems/system").await;
    assert_eq!(before.elapsed(), Duration::from_millis(2_500));
    assert!(dogwood.get("LastResetTime").is_none());

    let login = json!({"UserName": "simulated", "Password": "simulated"});
    let sessions = "/bmc/r3-s01/redfish/v1/SessionService/Sessions";
    let answer = call(&site, Method::POST, sessions, &[], &login).await;
    let token = answer.headers()["x-auth-token"].to_str().unwrap();
    let at = answer.headers()["location"].to_str().unwrap();
    let auth = [("x-auth-token", token)];
    let status =
        async |path: &str| call(&site, Method::GET, path, &auth, &Value::Null).await.status();
    let system = "/bmc/r3-s01/redfish/v1/Systems/Self";
    assert_eq!(status(system).await, StatusCode::NOT_FOUND);
    assert_eq!(status("/bmc/r3-s01/redfish/v1/Systems").await, StatusCode::OK);
    assert_eq!(status(system).await, StatusCode::OK);
    let answer = call(&site, Method::DELETE, at, &auth, &Value::Null).await;
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(status(system).await, StatusCode::UNAUTHORIZED);
    let wrong = json!({"UserName": "simulated", "Password": "guess"});
    let answer = call(&site, Method::POST, sessions, &[], &wrong).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn bmcs_go_wrong_as_often_as_said() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    let system = "/bmc/r1-s01/redfish/v1/Systems/1";
    let named = |word| site.faults().named(word).unwrap();

    machine.strike(named("bmc-errors"));
    for _ in 0..3 {
        assert_eq!(get(&site, system).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    }
    assert_eq!(get(&site, system).await.0, StatusCode::OK);

    machine.strike(named("bmc-lies"));
    for expected in ["Off", "Off", "Off", "On"] {
        assert_eq!(get(&site, system).await.1["PowerState"], expected);
    }

    machine.strike(named("no-last-reset"));
    assert!(get(&site, system).await.1.get("LastResetTime").is_none());
    machine.heal(&Heal::All);

    machine.strike(named("bmc-slow"));
    let before = Instant::now();
    get(&site, system).await;
    assert_eq!(before.elapsed(), Duration::from_millis(6_500));
    machine.heal(&Heal::All);

    machine.strike(named("bmc-silent"));
    let before = Instant::now();
    let request = Request::get(format!("http://bmcs{system}")).body(Bytes::new()).unwrap();
    let error = site.redfish().oneshot(request).await.unwrap_err();
    assert_eq!((error.host.as_str(), before.elapsed()), ("bmcs", Duration::from_secs(60)));
}

#[tokio::test(start_paused = true)]
async fn sensors_say_what_is_broken() {
    let site = site();
    let machine = booted(&site, "r1-s01").await;
    machine.strike(site.faults().named("fan").unwrap());
    machine.strike(site.faults().named("leak").unwrap());
    let health = |list: &Value, name: &str| {
        let found = list.as_array().unwrap().iter().find(|part| part["Name"] == name).cloned();
        found.map(|part| part["Status"]["Health"].as_str().unwrap().to_owned())
    };
    let (_, thermal) = get(&site, "/bmc/r1-s01/redfish/v1/Chassis/1/Thermal").await;
    assert_eq!(health(&thermal["Fans"], "FAN2").as_deref(), Some("Critical"));
    assert_eq!(health(&thermal["Fans"], "FAN1").as_deref(), Some("OK"));
    let (_, sensors) = get(&site, "/bmc/r1-s01/redfish/v1/Chassis/1/Sensors").await;
    assert_eq!(health(&sensors["Members"], "Leak1").as_deref(), Some("Warning"));
    let (_, chassis) = get(&site, "/bmc/r1-s01/redfish/v1/Chassis/1").await;
    assert_eq!(chassis["Status"]["Health"], "Critical");
}

#[tokio::test(start_paused = true)]
async fn a_boot_source_is_set_under_its_etag() {
    let site = site();
    let system = "/bmc/r1-s01/redfish/v1/Systems/1";
    let patch = async |etag: &str, target: &str| {
        let boot = json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": "Once"}});
        let headers = [("authorization", BASIC), ("if-match", etag)];
        call(&site, Method::PATCH, system, &headers, &boot).await.status()
    };
    let read = call(&site, Method::GET, system, &[("authorization", BASIC)], &Value::Null).await;
    let etag = read.headers()["etag"].to_str().unwrap();
    assert_eq!(patch(etag, "Floppy").await, StatusCode::BAD_REQUEST);
    assert_eq!(patch(etag, "Pxe").await, StatusCode::NO_CONTENT);
    assert_eq!(patch(etag, "Pxe").await, StatusCode::PRECONDITION_FAILED);
    assert_eq!(patch("*", "UefiHttp").await, StatusCode::NO_CONTENT);
    let (_, after) = get(&site, system).await;
    assert_eq!(after["Boot"]["BootSourceOverrideTarget"], "UefiHttp");
}

/// Sends bytes and reads what comes until the peer closes.
async fn raw(at: std::net::SocketAddr, bytes: &[u8], hang_up: bool) -> String {
    let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
    // A peer that has had enough may close before all is sent.
    let _ = stream.write_all(bytes).await;
    if hang_up {
        let _ = stream.shutdown().await;
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn over_tcp_garbage_ends_its_own_connection_only() {
    let mut settings = super::settings(1, None);
    settings.delays = settings.delays.divided_by(600.0).unwrap();
    settings.clock = kit::clock::Clock::system();
    let site = Datacentre::start(super::demo(), settings).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = tokio::spawn(site.clone().serve_redfish(listener));
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    let body = format!(
        "POST /bmc/r1-s01/redfish/v1/SessionService/Sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n{}",
        "a".repeat(200_000)
    );
    for garbage in
        [&b"\x16\x03\x01\x02\x00"[..], b"\r\n\r\n\r\n", b"GET", long.as_bytes(), body.as_bytes()]
    {
        let answer = raw(at, garbage, true).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let ask = format!(
        "GET /bmc/r1-s01/redfish/v1/Systems/1 HTTP/1.1\r\nhost: x\r\nauthorization: {BASIC}\r\nconnection: close\r\n\r\n"
    );
    let answer = raw(at, ask.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("ComputerSystem"), "{answer}");

    let body = "{\"ResetType\":\"On\"}";
    let reset = format!(
        "POST /bmc/r1-s01/redfish/v1/Systems/1/Actions/ComputerSystem.Reset HTTP/1.1\r\nhost: x\r\nauthorization: {BASIC}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = raw(at, reset.as_bytes(), false).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    boots(&site.machine("r1-s01").unwrap()).await;
    server.abort();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_request_panics_or_breaks_the_machine(
        method in prop::sample::select(vec!["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD"]),
        machine in prop::sample::select(vec!["r1-s01", "r2-s01", "r3-s01", "r4-s01", "x", ""]),
        path in prop::collection::vec(prop::sample::select(vec![
            "redfish", "v1", "Systems", "1", "Self", "system", "System.Embedded.1", "Actions",
            "ComputerSystem.Reset", "SessionService", "Sessions", "Chassis", "Thermal", "..", "",
            "UpdateService", "FirmwareInventory", "%00", "bmc", "ResetActionInfo", "$metadata",
        ]), 0..8),
        in_order in any::<bool>(),
        auth in prop::option::of("[ -~]{0,40}"),
        if_match in prop::option::of("[ -~]{0,20}"),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let site = site();
            let start = if in_order { "redfish/v1/" } else { "" };
            let uri = format!("http://h/bmc/{machine}/{start}{}", path.join("/"));
            let mut request = Request::builder().method(method).uri(uri);
            request = request.header("authorization", auth.as_deref().unwrap_or(BASIC));
            if let Some(etag) = &if_match {
                request = request.header("if-match", etag);
            }
            let answer = site.redfish().oneshot(request.body(Bytes::from(body)).unwrap()).await;
            if let Ok(answer) = answer {
                assert!(answer.body().len() < 1 << 20);
            }
            let resets: u64 = site.machines().map(|machine| machine.resets()).sum();
            assert_eq!(resets, 0);
        });
    }
}
