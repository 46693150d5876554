//! Queue, wakes, failures, panics and the end, as a controller meets them.

use std::time::Duration;

use kube::api::DeleteParams;

use crate::support::{Log, Teller, World, told};

#[tokio::test(start_paused = true)]
async fn changes_are_reconciled_and_what_does_not_matter_is_not() {
    let world = World::new().await;
    world.put("a", &[("x", "1")]).await;
    let log = Log::default();
    let mut manager = world.manager();
    manager.add_with::<Teller>(world.client(), log.clone());
    let running = manager.start();
    running.until_idle().await.unwrap();
    assert_eq!(told(&log), ["0 a x=1"]);

    let label = serde_json::json!({"metadata": {"labels": {"l": "1"}}});
    let merge = kube::api::Patch::Merge(label);
    world.maps().patch("a", &Default::default(), &merge).await.unwrap();
    world.put("b", &[]).await;
    running.until_idle().await.unwrap();
    assert_eq!(told(&log), ["0 b"], "a label is not data");

    world.maps().delete("a", &DeleteParams::default()).await.unwrap();
    running.until_idle().await.unwrap();
    assert_eq!(told(&log), ["0 a gone"]);
    assert_eq!(running.metrics().reconciles("teller", "success"), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_met_and_nothing_else_wakes_in_a_year() {
    let world = World::new().await;
    world.put("later", &[("wake", "86400")]).await;
    let log = Log::default();
    let mut manager = world.manager();
    manager.add_with::<Teller>(world.client(), log.clone());
    let running = manager.start();
    running.until_idle().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3 * 86_400 + 5)).await;
    let expect = ["0", "86400", "172800", "259200"].map(|at| format!("{at} later wake=86400"));
    assert_eq!(told(&log), expect);

    world.put("later", &[]).await;
    running.until_idle().await.unwrap();
    told(&log);
    let requests = world.network.count("");
    tokio::time::sleep(Duration::from_secs(30 * 86_400)).await;
    assert_eq!(told(&log), [""; 0]);
    // One watch, which the server ends once a day.
    let since = world.network.count("") - requests;
    assert!(since <= 31, "{since} requests in 30 quiet days");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_failure_are_one_keys_affair() {
    let world = World::new().await;
    for (name, what) in [("bad", "panic"), ("late", "fail"), ("good", "x")] {
        world.put(name, &[(what, "1")]).await;
    }
    let log = Log::default();
    let mut manager = world.manager();
    manager.add_with::<Teller>(world.client(), log.clone());
    let metrics = manager.metrics();
    let running = manager.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let lines = told(&log);
    let times = |name: &str| lines.iter().filter(|line| line.contains(name)).count();
    assert_eq!(times("good"), 1);
    assert!((4..=8).contains(&times("bad")), "{lines:?}");
    assert!((8..=20).contains(&times("late")), "{lines:?}");
    assert_eq!(metrics.panics("teller"), times("bad") as u64);

    for name in ["bad", "late"] {
        world.put(name, &[]).await;
    }
    running.until_idle().await.unwrap();
    let text = metrics.text();
    assert!(text.contains("seatrial_controller_retries_total{controller=\"teller\"}"), "{text}");
    assert!(text.contains("seatrial_controller_queue_depth{controller=\"teller\"} 0"), "{text}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_at_once_never_one_twice_and_the_end_waits_for_both() {
    let world = World::new().await;
    let log = Log::default();
    let mut manager = world.manager();
    manager.add_with::<Teller>(world.client(), log.clone());
    let running = manager.start();
    for name in ["a", "b", "c"] {
        world.put(name, &[("work", "10")]).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Comes again when the work on it is done, not before.
    world.put("a", &[("work", "11")]).await;
    tokio::time::sleep(Duration::from_secs(16)).await;
    let expect = ["0 a work=10", "0 b work=10", "10 a work=11", "10 c work=10"];
    let mut lines = told(&log);
    lines.sort();
    assert_eq!(lines, expect);

    world.put("d", &[("work", "100")]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    running.stop().await;
    assert_eq!(began.elapsed().as_secs(), 99, "what runs is finished");
}

#[test]
fn a_seed_decides_every_step() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            let log = Log::default();
            let mut manager = world.manager();
            manager.add_with::<Teller>(world.client(), log.clone());
            let running = manager.start();
            for n in 0..30_u64 {
                let what = ["wake", "fail", "work", "x"][n as usize % 4];
                world.put(&format!("m{n:02}"), &[(what, &format!("{}", n * 7 % 50 + 1))]).await;
                tokio::time::sleep(Duration::from_millis(n * 37 % 300)).await;
            }
            tokio::time::sleep(Duration::from_secs(600)).await;
            running.stop().await;
            (told(&log), world.network.log.lock().unwrap().clone())
        })
    };
    let one = run();
    assert!(one.0.len() > 200, "{}", one.0.len());
    assert_eq!(one, run());
}
