//! Leader election on a held clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kit::controller::lease::{Candidate, Election, Outcome, lead};
use kit::ids::Ids;
use kube::Api;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::support::{SILENCE, World};

fn candidate(world: &World, who: &str, seed: u64, distant: bool) -> Candidate {
    let client = if distant { world.distant_client() } else { world.client() };
    let election = Election::new("kube-system", "seatrial", who);
    Candidate::new(client, election, world.clock.clone(), Ids::seeded(seed))
}

async fn holder(world: &World) -> String {
    let leases: Api<Lease> = Api::namespaced(world.client(), "kube-system");
    let lease = leases.get("seatrial").await.unwrap();
    lease.spec.unwrap().holder_identity.unwrap()
}

/// Leads until it is stopped, and says what it does.
fn contend(
    tasks: &mut JoinSet<(&'static str, Outcome)>,
    candidate: Candidate,
    who: &'static str,
    leader: watch::Sender<&'static str>,
) -> watch::Sender<bool> {
    let (stop, stopping) = watch::channel(false);
    tasks.spawn(async move {
        let outcome = lead(candidate, stopping, |mut ending| async move {
            leader.send_replace(who);
            let _ = ending.wait_for(|ending| *ending).await;
        });
        (who, outcome.await)
    });
    stop
}

#[tokio::test(start_paused = true)]
async fn who_stops_hands_over_and_who_is_cut_off_loses() {
    let world = World::new().await;
    let mut tasks = JoinSet::new();
    let (leader, mut leading) = watch::channel("nobody");
    let stop_one = contend(&mut tasks, candidate(&world, "one", 1, false), "one", leader.clone());
    leading.wait_for(|who| *who == "one").await.unwrap();
    let _stop_two = contend(&mut tasks, candidate(&world, "two", 2, true), "two", leader.clone());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(holder(&world).await, "one", "an hour of renewals");

    stop_one.send_replace(true);
    let began = tokio::time::Instant::now();
    leading.wait_for(|who| *who == "two").await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ("one", Outcome::Stopped));

    // Cut off: it ends before another may begin.
    *world.network.rule.lock().unwrap() = Some(Box::new(|_, _| Some(503)));
    let began = tokio::time::Instant::now();
    let stop_three = contend(&mut tasks, candidate(&world, "three", 3, false), "three", leader);
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ("two", Outcome::Lost));
    let lost = began.elapsed();
    assert_eq!(*leading.borrow(), "two");
    leading.wait_for(|who| *who == "three").await.unwrap();
    assert!(lost < began.elapsed() && lost >= Duration::from_secs(10), "{lost:?}");
    stop_three.send_replace(true);
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ("three", Outcome::Stopped));
    assert_eq!(holder(&world).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_outlive_the_right_to_act() {
    let world = World::new().await;
    let mut tasks = JoinSet::new();
    let (leader, mut leading) = watch::channel("nobody");
    let _stop = contend(&mut tasks, candidate(&world, "one", 1, true), "one", leader);
    leading.wait_for(|who| *who == "one").await.unwrap();
    let began = tokio::time::Instant::now();
    // Refused at first, and then, when little time is left, not even that.
    let code = move || if began.elapsed() < Duration::from_secs(9) { 503 } else { SILENCE };
    *world.network.rule.lock().unwrap() = Some(Box::new(move |_, _| Some(code())));
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), ("one", Outcome::Lost));
    let election = Election::new("kube-system", "seatrial", "one");
    assert!(began.elapsed() < election.duration, "{:?}: others lead already", began.elapsed());
}
