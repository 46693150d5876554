//! What passes costs time and never a load.

use std::num::NonZero;
use std::time::Duration;

use stream::Patience;

use super::server::{Act, Server, object};
use super::{hasty, load, open, right, striped, told};

/// A load from a server that misbehaves; the server afterwards.
#[track_caller]
fn survives(behaviour: impl Fn(usize) -> Act + Send + Sync + 'static) -> (Server, stream::Traffic) {
    let file = striped().file.clone();
    let server = Server::start(object(file), move |asked| behaviour(asked.nth));
    let model = open(&server.url(), &hasty()).unwrap_or_else(|error| panic!("{}", told(&error)));
    right(&load(&model).unwrap_or_else(|error| panic!("{}", told(&error))));
    let traffic = model.traffic().unwrap();
    // A request may reach a server that ends a kept connection at that moment.
    assert!(traffic.requests <= server.seen().len() as u64);
    (server, traffic)
}

#[test]
fn a_server_that_behaves_is_asked_once_for_each_range() {
    let (server, traffic) = survives(|_| Act::Serve);
    assert_eq!((traffic.retries, traffic.hedges), (0, 0));
    assert_eq!(traffic.requests, server.seen().len() as u64);
    assert!(traffic.connections <= 32 && traffic.connections == server.connections() as u64);
    // The front, every second tensor that is not in it, and the records in front of these.
    let ranges = server.seen().len();
    assert!((25..=52).contains(&ranges), "{ranges}");
    let seen = server.seen();
    assert!(seen[1..].iter().all(|asked| asked.fields["if-match"] == "\"v1\""));
    assert!(seen.iter().all(|asked| asked.fields["accept-encoding"] == "identity"));
    assert!(seen.iter().all(|asked| !asked.fields.contains_key("authorization")));
}

#[test]
fn a_range_goes_on_where_it_broke() {
    let (server, traffic) =
        survives(|nth| if nth % 3 == 1 { Act::Cut(70_001) } else { Act::Serve });
    assert!(traffic.retries > 5, "{traffic:?}");
    let seen = server.seen();
    let resumed = seen.iter().filter(|asked| {
        seen.iter()
            .any(|other| other.range.1 == asked.range.1 && other.range.0 + 70_001 == asked.range.0)
    });
    assert!(resumed.count() > 5, "no byte is fetched twice");
}

#[test]
fn a_head_that_breaks_off_is_asked_for_again() {
    for some in [&b""[..], b"HTTP/1.1 2", b"HTTP/1.1 206 OK\r\netag: \"v1\"\r\n"] {
        let some = some.to_vec();
        survives(move |nth| if nth % 4 == 2 { Act::Raw(some.clone()) } else { Act::Serve });
    }
}

#[test]
fn a_stall_is_noticed() {
    let file = striped().file.clone();
    let server = Server::start(object(file), |asked| match asked.nth {
        0 | 5 | 9 => Act::Stall(0),
        7 => Act::Stall(100_000),
        _ => Act::Serve,
    });
    let mut how = hasty();
    how.patience = Patience { stall: Duration::from_millis(200), ..how.patience };
    let model = open(&server.url(), &how).unwrap();
    right(&load(&model).unwrap());
    assert!(model.traffic().unwrap().retries >= 4);
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    let say = |status, fields: &str| Act::Say(status, fields.to_owned(), b"busy".to_vec());
    let (server, traffic) = survives(move |nth| match nth {
        0 => say("503 Busy", "retry-after: 1\r\n"),
        4 => say("429 Slow down", "retry-after: 1\r\n"),
        6 | 7 => say("500 Oops", ""),
        9 => say("504 Late", "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        11 => say("408 Timeout", ""),
        _ => Act::Serve,
    });
    assert!(traffic.retries >= 6, "{traffic:?}");
    let seen = server.seen();
    for nth in [0, 4] {
        let again = seen[nth + 1..].iter().find(|asked| asked.range == seen[nth].range).unwrap();
        assert!(again.at - seen[nth].at >= Duration::from_secs(1));
    }
}

/// S3 says some of what passes with a status that does not.
#[test]
fn slow_down_by_any_other_status_is_waited_out() {
    let xml = "<Error><Code>RequestTimeout</Code><Message>x</Message></Error>";
    let (_, traffic) = survives(move |nth| match nth {
        3 => Act::Say("400 Bad Request", String::new(), xml.into()),
        _ => Act::Serve,
    });
    assert_eq!(traffic.retries, 1);
}

#[test]
fn connections_that_end_between_answers_are_no_failures() {
    let (server, traffic) = survives(|_| Act::ServeAndEnd);
    assert_eq!(traffic.retries, 0);
    assert!(server.connections() >= 25);
}

#[test]
fn a_server_may_give_less_than_it_was_asked_for() {
    let (_, traffic) = survives(|nth| if nth % 2 == 1 { Act::Short(50_000) } else { Act::Serve });
    assert_eq!(traffic.retries, 0, "that is no failure");
}

#[test]
fn what_only_announces_an_answer_is_passed_over() {
    let early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".to_vec();
    let file = striped().file.clone();
    let model = file.clone();
    let server = Server::start(object(file), move |asked| {
        let (first, last) = (asked.range.0, asked.range.1.min(model.len() - 1));
        let head = format!(
            "HTTP/1.1 206 OK\r\netag: \"v1\"\r\ncontent-range: bytes {first}-{last}/{}\r\n\r\n",
            model.len()
        );
        // Nor is a length needed, where the range tells it and the connection ends.
        Act::Raw([&early, head.as_bytes(), &model[first..=last]].concat())
    });
    let opened = open(&server.url(), &hasty()).unwrap();
    right(&load(&opened).unwrap());
    assert_eq!(opened.traffic().unwrap().retries, 0);
}

#[test]
fn what_never_passes_is_given_up_and_says_why() {
    let busy = || Act::Say("503 Busy", String::new(), b"<Code>SlowDown</Code>".to_vec());
    let file = striped().file.clone();
    let server =
        Server::start(object(file), move |asked| if asked.nth > 4 { busy() } else { Act::Serve });
    let model = open(&server.url(), &hasty()).unwrap();
    let said = told(&load(&model).err().unwrap());
    let want = format!(
        "cannot read http://localhost:{}/model: gave up after 6 tries in a row: the server answers 503 SlowDown",
        server.port
    );
    assert_eq!(said, want);
}

#[test]
fn a_host_that_never_answers_is_given_up_soon() {
    let server = Server::start(object(vec![1]), |_| Act::Serve);
    let url = server.url();
    drop(server);
    let mut how = hasty();
    how.patience.tries = NonZero::new(1000).unwrap();
    let said = told(&open(&url, &how).unwrap_err());
    assert!(said.contains("gave up after 3 tries in a row: no connection to localhost:"), "{said}");
}

#[test]
fn threads_bound_connections() {
    let server = Server::start(object(striped().file.clone()), |_| Act::Serve);
    let model = open(&server.url(), &hasty()).unwrap();
    let how = stream::Load { threads: NonZero::new(1), ..stream::Load::default() };
    model.load(&how).unwrap();
    assert_eq!(server.connections(), 1);
}
