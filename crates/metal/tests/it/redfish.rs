use std::time::Duration;

use api::machine::Bmc;
use api::request::Power;
use metal::redfish::{Credential, Failure, Status};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fake::{Habits, Odd, Service};

fn bmc(prefix: &str) -> Bmc {
    Bmc { address: format!("http://bmc{prefix}"), credential: "bmc".to_owned() }
}

fn credential(password: &str) -> Credential {
    Credential { username: "root".to_owned(), password: password.to_owned() }
}

async fn read(service: &Service) -> Result<Status, Failure> {
    service.bmcs().read(&bmc(""), &credential("secret")).await
}

async fn power(service: &Service, power: Power) -> Result<(), Failure> {
    service.bmcs().power(&bmc(""), &credential("secret"), power).await
}

fn error<T: std::fmt::Debug>(answer: Result<T, Failure>) -> String {
    match answer.unwrap_err() {
        Failure::Error(why) => why,
        Failure::Silence(why) => panic!("silence: {why}"),
    }
}

#[tokio::test(start_paused = true)]
async fn it_says_how_a_machine_stands() {
    let at = Some("2026-01-01T00:00:00+00:00".to_owned());
    let service = Service::new(true, Habits::default());
    assert_eq!(read(&service).await, Ok(Status { on: true, last_reset: at }));
    for none in [Value::Null, json!(""), json!(7), json!("1970-01-01T00:00:09Z")] {
        let service = Service::new(false, Habits { last_reset: none, ..Habits::default() });
        assert_eq!(read(&service).await, Ok(Status { on: false, last_reset: None }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_system_that_is_known_is_asked_at_once() {
    let service = Service::new(true, Habits::default());
    let (bmcs, bmc, credential) = (service.bmcs(), bmc(""), credential("secret"));
    bmcs.read(&bmc, &credential).await.unwrap();
    service.log();
    bmcs.clone().read(&bmc, &credential).await.unwrap();
    assert_eq!(service.log(), ["GET /redfish/v1/Systems/1"]);
}

#[tokio::test(start_paused = true)]
async fn the_host_is_found_beside_its_baseboard_and_behind_a_prefix() {
    for carried in [false, true] {
        let habits = Habits {
            members: vec!["HGX_Baseboard_0", "System_0"],
            prefix: ("/bmc/r1-s01", carried),
            ..Habits::default()
        };
        let service = Service::new(false, habits);
        let bmcs = service.bmcs();
        bmcs.power(&bmc("/bmc/r1-s01"), &credential("secret"), Power::On).await.unwrap();
        let boot = "PATCH UefiHttp Continuous /redfish/v1/Systems/System_0";
        assert_eq!(service.told(), [boot, "POST On"]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_power_is_one_reset_from_the_network() {
    let boot = "PATCH UefiHttp Continuous /redfish/v1/Systems/1";
    for (what, on, told) in [
        (Power::On, false, vec![boot, "POST On"]),
        (Power::On, true, vec![]),
        (Power::Off, true, vec!["POST ForceOff"]),
        (Power::Off, false, vec![]),
        (Power::GracefulRestart, true, vec![boot, "POST GracefulRestart"]),
        (Power::ForceRestart, true, vec![boot, "POST ForceRestart"]),
        (Power::Cycle, true, vec![boot, "POST PowerCycle"]),
        (Power::Cycle, false, vec![boot, "POST On"]),
    ] {
        let service = Service::new(on, Habits::default());
        power(&service, what).await.unwrap();
        assert_eq!(service.told(), told, "{what:?} while on: {on}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bmc_without_power_cycle_cuts_the_power_and_gives_it_back() {
    // With few values, with none stated, and with the values in a resource of its own.
    for allowed in [Some(vec!["On", "ForceOff"]), None] {
        let service = Service::new(true, Habits { allowed, ..Habits::default() });
        let began = Instant::now();
        power(&service, Power::Cycle).await.unwrap();
        assert_eq!(service.told()[1..], ["POST ForceOff", "POST On"]);
        assert!(began.elapsed() >= Duration::from_secs(10), "supplies drain");
    }
    let none = Habits { allowed: Some(vec!["Nmi"]), ..Habits::default() };
    let service = Service::new(true, none);
    assert!(error(power(&service, Power::Cycle).await).ends_with("it takes Nmi"));
    assert!(service.told().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_boot_source_that_is_refused_is_followed_by_the_next() {
    let patches = |service: &Service| {
        let mut told = service.told();
        assert_eq!(told.pop().unwrap(), "POST On");
        told
    };
    let service = Service::new(false, Habits { refuses: vec!["UefiHttp"], ..Habits::default() });
    power(&service, Power::On).await.unwrap();
    let tried = patches(&service);
    assert_eq!(tried.first().unwrap(), "PATCH UefiHttp Continuous /redfish/v1/Systems/1");
    assert!(tried.contains(&"PATCH UefiHttp Continuous /redfish/v1/Systems/1/SD".to_owned()));
    assert_eq!(tried.last().unwrap(), "PATCH Pxe Continuous /redfish/v1/Systems/1");

    let service = Service::new(false, Habits { sources: None, ..Habits::default() });
    power(&service, Power::On).await.unwrap();
    assert_eq!(patches(&service), ["PATCH Pxe Continuous /redfish/v1/Systems/1"]);

    // Where nothing is taken the firmware's own order decides.
    let service =
        Service::new(false, Habits { refuses: vec!["UefiHttp", "Pxe"], ..Habits::default() });
    power(&service, Power::On).await.unwrap();
    assert_eq!(patches(&service).len(), 8);

    let etag = Habits { etag: Some("\"7\""), ..Habits::default() };
    let service = Service::new(false, etag);
    power(&service, Power::On).await.unwrap();
    assert_eq!(patches(&service).len(), 1, "the ETag that was read");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_opened_where_needed_and_once_more_when_they_end() {
    let habits = Habits { sessions_only: true, ..Habits::default() };
    let service = Service::new(true, habits);
    let (bmcs, bmc, right) = (service.bmcs(), bmc(""), credential("secret"));
    let logins =
        |service: &Service| service.log().iter().filter(|line| *line == "POST login").count();
    bmcs.read(&bmc, &right).await.unwrap();
    bmcs.read(&bmc, &right).await.unwrap();
    assert_eq!(logins(&service), 1);
    service.end_sessions();
    bmcs.read(&bmc, &right).await.unwrap();
    assert_eq!(logins(&service), 1);
    let answer = bmcs.read(&bmc, &credential("wrong")).await;
    assert_eq!(error(answer), "the BMC refuses the password of user \"root\"");
    assert_eq!(logins(&service), 1, "no account is locked by our doing");
    assert!(!format!("{:?}", credential("hunter2")).contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_silence_and_comes_in_time() {
    for (status, wait) in [(0, 0), (200, 11), (200, 86_400)] {
        let odd: Odd = (status, "{}", Duration::from_secs(wait));
        let service = Service::new(true, Habits { odd: vec![("GET", odd)], ..Habits::default() });
        let began = Instant::now();
        let answer = read(&service).await;
        assert!(matches!(answer, Err(Failure::Silence(_))), "{answer:?}");
        assert!(began.elapsed() <= Duration::from_secs(20));
    }
    let slow: Odd = (200, "{\"PowerState\": \"Off\"}", Duration::from_secs(9));
    let service =
        Service::new(true, Habits { odd: vec![("Systems/1", slow)], ..Habits::default() });
    assert!(!read(&service).await.unwrap().on, "slow is not silent");
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_an_error_with_words() {
    let deep: &str = "[".repeat(100_000).leak();
    let long: &str = format!("\"{}\"", "x".repeat(2 << 20)).leak();
    let said = r#"{"error": {"message": "general", "@Message.ExtendedInfo":
        [{"Message": "The BMC is\nbeing updated"}]}}"#;
    for (status, body, says) in [
        (500, "", "500 Internal Server Error"),
        (503, said, "The BMC is being updated"),
        (200, "<html>", "no JSON"),
        (200, "{\"PowerState\": \"O", "no JSON"),
        (200, "{}", "PowerState"),
        (200, "null", "PowerState"),
        (200, "{\"PowerState\": {\"x\": []}}", "PowerState"),
        (200, deep, "no JSON"),
        (200, long, "bytes"),
        (301, "", "301"),
    ] {
        let odd: Odd = (status, body, Duration::ZERO);
        let habits = Habits { odd: vec![("GET /redfish/v1/Systems/1", odd)], ..Habits::default() };
        let service = Service::new(true, habits);
        let answer = error(read(&service).await);
        assert!(answer.contains(says) && answer.len() < 400, "{answer}");
        assert!(power(&service, Power::Cycle).await.is_err());
        assert!(service.told().is_empty(), "nothing is told to a machine that is not understood");
    }
    for body in ["{}", "[]", "{\"Members\": [null, {\"@odata.id\": \"http://evil/x\"}]}"] {
        let odd: Odd = (200, body, Duration::ZERO);
        let service =
            Service::new(true, Habits { odd: vec![("Systems", odd)], ..Habits::default() });
        error(read(&service).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_is_sent_once_whatever_comes_back() {
    for status in [0, 400, 500, 501, 503] {
        let odd: Odd = (status, "", Duration::ZERO);
        let service = Service::new(true, Habits { odd: vec![("POST", odd)], ..Habits::default() });
        power(&service, Power::ForceRestart).await.unwrap_err();
        let resets = service.told().iter().filter(|line| *line == "POST ForceRestart").count();
        assert_eq!(resets, 1, "{status}");
    }
    let late: Odd = (503, "", Duration::ZERO);
    let service = Service::new(true, Habits { odd: vec![("PATCH", late)], ..Habits::default() });
    power(&service, Power::ForceRestart).await.unwrap_err();
    assert_eq!(service.told().len(), 1, "no reset if the boot source is not known to be set");
}

mod garbage {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever a BMC answers, the client comes back.
        #[test]
        fn no_answer_makes_it_panic(status in 200_u16..600, body in "\\PC{0,80}|[\\[{\":,}\\]a-zO0-9@./#]{0,120}") {
            let body: &'static str = body.leak();
            let odd: Odd = (status, body, Duration::ZERO);
            let service = Service::new(true, Habits { odd: vec![("Systems", odd)], ..Habits::default() });
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let _ = read(&service).await;
                let _ = power(&service, Power::Cycle).await;
            });
        }
    }
}
