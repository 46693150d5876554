//! A model as the body of one PUT, to nginx and to stores that take it in their own ways.

use stream::{Convert, Destination, Layout, Model, write};

use super::taker::{Act, Taker};
use super::{forms, holds, large};
use crate::remote::nginx::Nginx;
use crate::remote::{hasty, located, told};
use crate::support::{borrowed, key, plain};

#[test]
fn nginx_takes_every_form() {
    let (tensors, key, how) = (large(), key(), hasty());
    let directory = tempfile::tempdir().unwrap();
    let (_nginx, url) = Nginx::start(directory.path());
    for (name, form) in forms(&key) {
        let place = located(&format!("{url}/{name}"));
        let to = Destination::At(&place, &how);
        write(to, &borrowed(&tensors), form).unwrap_or_else(|e| panic!("{}", told(&e)));
        holds(&Model::open(&directory.path().join(name)).unwrap(), &tensors);
    }
    let place = located(&format!("{url}/copy"));
    let convert =
        Convert { secret: None, form: plain(Layout::Legacy), drop_meta: false, progress: &|_| {} };
    let model = Model::open(&directory.path().join("flat")).unwrap();
    model.convert(Destination::At(&place, &how), &convert).unwrap();
    holds(&Model::open(&directory.path().join("copy")).unwrap(), &tensors);
}

#[test]
fn a_store_that_never_asks_for_the_body_gets_it() {
    let (tensors, how) = (large(), hasty());
    let taker = Taker::start(|_| Act::Take);
    let place = located(&taker.url());
    write(Destination::At(&place, &how), &borrowed(&tensors), plain(Layout::Aligned)).unwrap();
    let seen = taker.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].fields["expect"], "100-continue");
    assert_eq!(seen[0].fields["content-length"], seen[0].body.len().to_string());
    let path = tempfile::tempdir().unwrap();
    let path = path.path().join("model");
    std::fs::write(&path, &seen[0].body).unwrap();
    holds(&Model::open(&path).unwrap(), &tensors);
}

#[test]
fn who_refuses_unseen_is_not_sent_the_body() {
    let (tensors, how) = (large(), hasty());
    for (answer, says) in [
        ("401 No", "the server refuses it (401)"),
        ("404 No", "nothing is there (404)"),
        ("405 No", "the server answers 405"),
        ("413 No", "the server answers 413"),
    ] {
        let taker = Taker::start(move |_| Act::Refuse(answer, String::new()));
        let place = located(&taker.url());
        let to = Destination::At(&place, &how);
        let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
        assert!(said.starts_with("cannot write http://") && said.contains(says), "{said}");
        assert_eq!(taker.seen().iter().map(|asked| asked.body.len()).sum::<usize>(), 0);
    }
}

#[test]
fn who_sends_it_elsewhere_is_followed() {
    let (tensors, how) = (large(), hasty());
    let there = Taker::start(|_| Act::Take);
    let to = there.url();
    let here = Taker::start(move |_| Act::Refuse("307 There", format!("location: {to}\r\n")));
    let place = located(&here.url());
    write(Destination::At(&place, &how), &borrowed(&tensors), plain(Layout::Aligned)).unwrap();
    assert_eq!((here.seen().len(), there.seen().len()), (1, 1));
    let round = Taker::start(|_| Act::Refuse("307 Here", "location: /again\r\n".to_owned()));
    let place = located(&round.url());
    let to = Destination::At(&place, &how);
    let said = told(&write(to, &borrowed(&tensors), plain(Layout::Aligned)).unwrap_err());
    assert!(said.contains("redirects more than 5 times"), "{said}");
}
