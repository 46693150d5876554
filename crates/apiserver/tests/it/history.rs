//! What watches promise, held against what was written: nothing lost, doubled or out of order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::auth::authn::Authenticator;
use apiserver::{ApiServer, Options};
use futures::TryStreamExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::clock::Clock;
use kit::ids::Ids;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use store::{DiskOptions, DiskStore, Durability, MemoryStore, Store};
use tokio::sync::watch;

use crate::support::{Dice, config_map, soon};

/// The object that tells watchers that no more will come.
const END: &str = "zz-end";

async fn over(store: Arc<dyn Store>) -> (Api<ConfigMap>, watch::Sender<bool>) {
    let (keep, stopping) = watch::channel(false);
    let server = ApiServer::new(Options {
        store,
        clock: Clock::system(),
        ids: Ids::system(),
        authenticator: Authenticator::default(),
        token_key: None,
        without: Vec::new(),
        audit: None,
        inflight: apiserver::InFlight::default(),
        bookmark_every: None,
        stopping,
    })
    .await
    .unwrap();
    (Api::default_namespaced(Client::new(server.service_as_admin(), "default")), keep)
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// The writes that were acknowledged: which key was put at which version, and how often deleted.
#[derive(Default, Debug)]
struct Written {
    puts: BTreeMap<u64, String>,
    deletes: usize,
}

impl Written {
    fn merge(all: Vec<Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, part| {
            sum.puts.extend(part.puts);
            sum.deletes += part.deletes;
            sum
        })
    }
}

/// Creates, changes and deletes objects, on keys that other writers use as well.
async fn write(maps: Api<ConfigMap>, seed: u64, steps: usize, done: &AtomicUsize) -> Written {
    let (mut dice, mut written) = (Dice(seed), Written::default());
    for step in 0..steps {
        let name = format!("k{}", dice.below(6));
        let value = config_map(&name, &[("by", &format!("{seed} {step}"))]);
        let put = match maps.create(&PostParams::default(), &value).await {
            Err(kube::Error::Api(status)) if status.code == 409 && dice.below(3) == 0 => {
                match maps.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => written.deletes += 1,
                    Err(kube::Error::Api(status)) => assert_eq!(status.code, 404),
                    Err(error) => panic!("{error}"),
                }
                None
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                match maps.replace(&name, &PostParams::default(), &value).await {
                    Ok(map) => Some(map),
                    Err(kube::Error::Api(status)) => {
                        assert!([404, 409].contains(&status.code), "{status:?}");
                        None
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Ok(map) => Some(map),
            Err(error) => panic!("{error}"),
        };
        if let Some(map) = put {
            assert_eq!(written.puts.insert(version(&map), name), None);
        }
        done.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    written
}

/// What one client has been told, and that it made sense at every step.
#[derive(Default)]
struct Mirror {
    /// The version of the list that it began from, last time.
    listed: u64,
    last: u64,
    objects: BTreeMap<String, u64>,
    puts: BTreeMap<u64, String>,
    deletes: usize,
    /// Lists after which the history between them is unknown.
    gaps: usize,
    ended: bool,
}

impl Mirror {
    async fn list(&mut self, maps: &Api<ConfigMap>) {
        let list = maps.list(&ListParams::default()).await.unwrap();
        let at = list.metadata.resource_version.as_deref().unwrap().parse().unwrap();
        assert!(at >= self.last, "a list from the past: {at} after {}", self.last);
        (self.listed, self.last) = (at, at);
        self.objects = list.iter().map(|map| (map.name_any(), version(map))).collect();
        assert!(self.objects.values().all(|version| *version <= at));
        (self.puts, self.deletes) = Default::default();
        self.ended = self.objects.contains_key(END);
    }

    fn see(&mut self, event: WatchEvent<ConfigMap>) {
        let (map, deleted) = match event {
            WatchEvent::Added(map) => {
                assert!(!self.objects.contains_key(&map.name_any()), "added twice");
                (map, false)
            }
            WatchEvent::Modified(map) => {
                assert!(self.objects.contains_key(&map.name_any()), "changed before it was there");
                (map, false)
            }
            WatchEvent::Deleted(map) => (map, true),
            other => panic!("{other:?}"),
        };
        let (at, name) = (version(&map), map.name_any());
        assert!(at > self.last, "{name} at {at} after {}", self.last);
        self.last = at;
        if deleted {
            assert!(self.objects.remove(&name).is_some(), "deleted before it was there");
            self.deletes += 1;
        } else {
            self.ended |= name == END;
            self.objects.insert(name.clone(), at);
            self.puts.insert(at, name);
        }
    }

    /// Holds what was seen since the last list against what was written.
    fn check(&self, written: &Written) {
        let want: BTreeMap<u64, String> =
            written.puts.range(self.listed + 1..).map(|(k, v)| (*k, v.clone())).collect();
        assert_eq!(self.puts, want, "since {}", self.listed);
        if self.gaps == 0 && self.listed < *written.puts.first_key_value().unwrap().0 {
            assert_eq!(self.deletes, written.deletes);
        }
    }
}

/// Follows to the end: a watch is dropped after some events and taken up again where it was.
async fn follow(maps: Api<ConfigMap>, events_per_watch: usize, lazy: usize) -> Mirror {
    let mut mirror = Mirror::default();
    mirror.list(&maps).await;
    while !mirror.ended {
        let from = mirror.last.to_string();
        let stream = maps.watch(&WatchParams::default().disable_bookmarks(), &from).await.unwrap();
        let mut stream = Box::pin(stream);
        for _ in 0..events_per_watch {
            for _ in 0..lazy {
                tokio::task::yield_now().await;
            }
            match soon(stream.try_next()).await.unwrap() {
                Some(WatchEvent::Error(status)) => {
                    assert_eq!((status.code, &*status.reason), (410, "Expired"), "{status:?}");
                    mirror.gaps += 1;
                    mirror.list(&maps).await;
                    break;
                }
                Some(event) => mirror.see(event),
                None => break,
            }
            if mirror.ended {
                break;
            }
        }
    }
    mirror
}

async fn end(maps: &Api<ConfigMap>, written: &mut Written) {
    let map = maps.create(&PostParams::default(), &config_map(END, &[])).await.unwrap();
    written.puts.insert(version(&map), END.to_owned());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_sees_every_write_once_and_in_order() {
    let (maps, _keep) = over(Arc::new(MemoryStore::new())).await;
    let done = AtomicUsize::new(0);
    let watchers = [(usize::MAX, 0), (usize::MAX, 3), (7, 0), (1, 1), (3, 9)]
        .map(|(events, lazy)| tokio::spawn(follow(maps.clone(), events, lazy)));
    let writers = (0..4).map(|seed| write(maps.clone(), seed, 150, &done));
    let mut written = Written::merge(join_all(writers).await);
    end(&maps, &mut written).await;
    // One that comes late finds all of it in the list.
    let late = follow(maps.clone(), 1, 0).await;
    assert!(late.ended && late.puts.is_empty());
    for watcher in watchers {
        let mirror = soon(watcher).await.unwrap();
        mirror.check(&written);
        assert_eq!(mirror.gaps, 0);
        assert_eq!(mirror.objects, late.objects);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_falls_behind_compaction_is_told_and_begins_anew() {
    let store = Arc::new(MemoryStore::new());
    let (maps, _keep) = over(store.clone()).await;
    let done = Arc::new(AtomicUsize::new(0));
    let watchers = [(usize::MAX, 0), (4, 0), (usize::MAX, 200), (2, 50)]
        .map(|(events, lazy)| tokio::spawn(follow(maps.clone(), events, lazy)));
    let compactor = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move {
            while done.load(Ordering::Relaxed) < 600 {
                let now = store.revision();
                if now > store.compacted() {
                    store.compact(now).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let writers = (0..4).map(|seed| write(maps.clone(), seed, 150, &done));
    let mut written = Written::merge(join_all(writers).await);
    compactor.await.unwrap();
    end(&maps, &mut written).await;
    let late = follow(maps.clone(), 1, 0).await;
    for watcher in watchers {
        let mirror = soon(watcher).await.unwrap();
        mirror.check(&written);
        assert_eq!(mirror.objects, late.objects);
    }
}

#[tokio::test]
async fn a_watcher_that_slept_through_a_compaction_gets_410() {
    let store = Arc::new(MemoryStore::new());
    let (maps, _keep) = over(store.clone()).await;
    let mut mirror = Mirror::default();
    mirror.list(&maps).await;
    let from = mirror.last.to_string();
    let params = WatchParams::default();
    let mut open = Box::pin(maps.watch(&params, &from).await.unwrap());
    for n in 0..5 {
        maps.create(&PostParams::default(), &config_map(&format!("k{n}"), &[])).await.unwrap();
    }
    let now = store.revision();
    store.compact(now).await.unwrap();
    let mut late = Box::pin(maps.watch(&params, &from).await.unwrap());
    for stream in [&mut open, &mut late] {
        match soon(stream.try_next()).await.unwrap().unwrap() {
            WatchEvent::Error(status) => {
                assert_eq!((status.code, &*status.reason), (410, "Expired"));
                assert!(status.message.starts_with("too old resource version: "), "{status:?}");
            }
            other => panic!("{other:?}"),
        }
        assert!(soon(stream.try_next()).await.unwrap().is_none(), "nothing follows an error");
    }
    // Where history begins is still a good place to go on from.
    let mut stream = Box::pin(maps.watch(&params, &now.0.to_string()).await.unwrap());
    maps.create(&PostParams::default(), &config_map("next", &[])).await.unwrap();
    match soon(stream.try_next()).await.unwrap().unwrap() {
        WatchEvent::Added(map) => assert_eq!(map.name_any(), "next"),
        other => panic!("{other:?}"),
    }
}

/// Opens the store once the last holder has let go of it.
async fn open(directory: &std::path::Path) -> Arc<DiskStore> {
    let options = DiskOptions { durability: Durability::Relaxed, ..DiskOptions::default() };
    let opened = async {
        loop {
            match DiskStore::open(directory, options.clone()) {
                Err(store::Error::Locked { .. }) => tokio::task::yield_now().await,
                opened => break opened.unwrap(),
            }
        }
    };
    Arc::new(soon(opened).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_goes_on_after_a_restart_as_if_there_had_been_none() {
    let directory = tempfile::tempdir().unwrap();
    let mut mirror = Mirror::default();
    let mut all = Vec::new();
    for round in 0..4 {
        let store = open(directory.path()).await;
        let before = store.revision();
        let (maps, _keep) = over(store).await;
        if round == 0 {
            mirror.list(&maps).await;
        } else {
            let list = maps.list(&ListParams::default()).await.unwrap();
            let at: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
            assert_eq!(at, before.0, "a restart writes nothing that is there");
        }
        // Some of this round's writes are watched now, the rest after the restart.
        let from = mirror.last.to_string();
        let params = WatchParams::default().disable_bookmarks();
        let mut stream = Box::pin(maps.watch(&params, &from).await.unwrap());
        let done = AtomicUsize::new(0);
        let writers = (0..3).map(|seed| write(maps.clone(), round * 10 + seed, 40, &done));
        all.extend(join_all(writers).await);
        for _ in 0..20 {
            mirror.see(soon(stream.try_next()).await.unwrap().unwrap());
        }
    }
    let mut written = Written::merge(all);
    let (maps, _keep) = over(open(directory.path()).await).await;
    end(&maps, &mut written).await;
    let from = mirror.last.to_string();
    let params = WatchParams::default().disable_bookmarks();
    let mut stream = Box::pin(maps.watch(&params, &from).await.unwrap());
    while !mirror.ended {
        mirror.see(soon(stream.try_next()).await.unwrap().unwrap());
    }
    mirror.check(&written);
    let mut fresh = Mirror::default();
    fresh.list(&maps).await;
    assert_eq!(mirror.objects, fresh.objects);
}
