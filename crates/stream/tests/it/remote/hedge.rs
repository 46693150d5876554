//! The slowest range is asked for again beside itself, and whichever is first counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::server::{Act, Server, object};
use super::{hasty, load, open, right, striped};

#[test]
fn a_range_that_hangs_is_overtaken() {
    for some in [0, 120_000] {
        let (hung, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (hangs, tries) = (Arc::clone(&hung), Arc::clone(&tried));
        let server = Server::start(object(striped().file.clone()), move |asked| {
            // The tenth range hangs when it is asked for first; nothing ever comes of it.
            let long = asked.range.1 - asked.range.0 > 150_000 && asked.nth > 0;
            if long && tries.fetch_add(1, Ordering::SeqCst) == 9 {
                hangs.store(true, Ordering::SeqCst);
                return Act::Stall(some);
            }
            Act::Serve
        });
        let mut how = hasty();
        how.patience.hedge = Duration::from_millis(1);
        // A stall would not be noticed before the test is over.
        how.patience.stall = Duration::from_secs(600);
        let model = open(&server.url(), &how).unwrap();
        right(&load(&model).unwrap());
        assert!(hung.load(Ordering::SeqCst));
        let traffic = model.traffic().unwrap();
        assert!(traffic.hedges >= 1 && traffic.retries == 0, "{traffic:?}");
    }
}

#[test]
fn what_goes_wrong_with_the_second_try_is_no_failure() {
    let waits = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let tried = AtomicUsize::new(0);
    let held = std::sync::Mutex::new(None);
    let server = Server::start(object(striped().file.clone()), move |asked| {
        if asked.nth == 0 || asked.range.1 - asked.range.0 < 150_000 {
            return Act::Serve;
        }
        let (first, bell) = (tried.fetch_add(1, Ordering::SeqCst) == 9, &waits.1);
        if first {
            *held.lock().unwrap() = Some(asked.range);
            let mut failed = waits.0.lock().unwrap();
            while !*failed {
                failed = bell.wait(failed).unwrap();
            }
            return Act::Serve;
        }
        if *held.lock().unwrap() == Some(asked.range) {
            *waits.0.lock().unwrap() = true;
            bell.notify_all();
            return Act::Say("403 No", String::new(), Vec::new());
        }
        Act::Serve
    });
    let mut how = hasty();
    how.patience.hedge = Duration::from_millis(1);
    let model = open(&server.url(), &how).unwrap();
    right(&load(&model).unwrap());
    assert!(model.traffic().unwrap().hedges >= 1);
}
