//! Watches that break, forget and lie; and that there is one for all.

use std::time::Duration;

use kube::api::DeleteParams;
use store::Store;

use crate::support::{Log, Teller, World, told};

async fn start(world: &World) -> (kit::controller::Running, Log) {
    let log = Log::default();
    let mut manager = world.manager();
    manager.add_with::<Teller>(world.client(), log.clone());
    let running = manager.start();
    running.until_idle().await.unwrap();
    (running, log)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_ended() {
    let world = World::new().await;
    world.put("a", &[("x", "1")]).await;
    let (running, log) = start(&world).await;
    told(&log);
    for round in 2..5 {
        world.network.cut();
        world.put("a", &[("x", &round.to_string())]).await;
        running.until_idle().await.unwrap();
        let lines = told(&log);
        let last = format!("a x={round}");
        assert!(lines.len() == 1 && lines[0].ends_with(&last), "{lines:?}");
    }
    assert_eq!(world.network.count("sendInitialEvents"), 1, "it never lists again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_leads_to_a_list_that_finds_the_deleted() {
    let world = World::new().await;
    world.put("a", &[("x", "1")]).await;
    world.put("b", &[("x", "1")]).await;
    let (running, log) = start(&world).await;
    told(&log);
    // Out of reach while the server forgets.
    *world.network.rule.lock().unwrap() =
        Some(Box::new(|_, uri| uri.contains("watch=true").then_some(503)));
    world.network.cut();
    world.maps().delete("a", &DeleteParams::default()).await.unwrap();
    world.put("b", &[("x", "2")]).await;
    world.store.compact(world.store.revision()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(told(&log), [""; 0]);
    *world.network.rule.lock().unwrap() = None;
    running.until_idle().await.unwrap();
    let mut lines: Vec<String> =
        told(&log).iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    lines.sort();
    assert_eq!(lines, ["a gone", "b x=2"]);
    let text = running.metrics().text();
    assert!(text.contains("reason=\"expired\"} 1"), "{text}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_page_by_page() {
    let world = World::new().await;
    for n in 0..510 {
        world.put(&format!("m{n:04}"), &[]).await;
    }
    *world.network.rule.lock().unwrap() =
        Some(Box::new(|_, uri| uri.contains("sendInitialEvents").then_some(422)));
    let (running, log) = start(&world).await;
    assert_eq!(told(&log).len(), 510);
    assert!(world.network.count("&continue=") >= 1);
    world.put("more", &[]).await;
    running.until_idle().await.unwrap();
    assert_eq!(told(&log), ["0 more"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_share_one_watch() {
    let world = World::new().await;
    let mut manager = world.manager();
    let logs = [Log::default(), Log::default(), Log::default()];
    for log in &logs {
        manager.add_with::<Teller>(world.client(), log.clone());
    }
    let running = manager.start();
    world.put("a", &[]).await;
    running.until_idle().await.unwrap();
    for log in &logs {
        assert_eq!(told(log), ["0 a"]);
    }
    assert_eq!(world.network.count("watch=true"), 1);
    running.stop().await;
}
