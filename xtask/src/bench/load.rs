//! Load from many clients at once, each a thread with a connection of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::side::Side;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a burst of requests took.
pub(crate) struct Burst {
    /// From the first to the last.
    pub(crate) wall: Duration,
    /// CPU of the server per request, in milliseconds.
    pub(crate) cpu: f64,
}

/// Sends `count` creates from `clients` connections; `body` makes the n-th.
pub(crate) fn create(
    side: &Side,
    path: &str,
    clients: usize,
    count: usize,
    body: impl Fn(usize) -> Value + Sync,
) -> Result<Burst> {
    let (next, before, began) = (AtomicUsize::new(0), side.cpu()?, Instant::now());
    let work = || -> Result<()> {
        let agent = side.server.agent()?;
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return Ok(());
            }
            post(&agent, side, path, &body(n))?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(joined)
    })?;
    let wall = began.elapsed();
    Ok(Burst { wall, cpu: (side.cpu()? - before) / count as f64 })
}

/// Creates one object.
pub(crate) fn post(agent: &ureq::Agent, side: &Side, path: &str, body: &Value) -> Result<()> {
    let url = format!("{}{path}", side.server.url);
    let request = agent.post(&url).header("authorization", format!("Bearer {}", side.token()));
    let mut answer = request.send_json(body).with_context(|| format!("POST {url}"))?;
    let text = answer.body_mut().read_to_string()?;
    ensure!(answer.status().is_success(), "POST {url}: {}: {text}", answer.status());
    Ok(())
}

/// Reads a path to its end; how many bytes that were, how long it took, and the server's CPU.
pub(crate) fn read(side: &Side, path: &str) -> Result<(usize, Duration, f64)> {
    let agent = side.server.agent()?;
    let (before, began) = (side.cpu()?, Instant::now());
    let url = format!("{}{path}", side.server.url);
    let request = agent.get(&url).header("authorization", format!("Bearer {}", side.token()));
    let mut answer = request.call().with_context(|| format!("GET {url}"))?;
    ensure!(answer.status().is_success(), "GET {url}: {}", answer.status());
    let body = answer.body_mut().with_config().limit(4 << 30).read_to_vec()?;
    Ok((body.len(), began.elapsed(), side.cpu()? - before))
}

/// What a fan-out took.
pub(crate) struct FanOut {
    /// CPU of the server per event and watcher, in milliseconds.
    pub(crate) cpu: f64,
    /// From before a write to its event at a watcher: half of them, and 99 of 100.
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Has `watchers` watch a collection, creates `events` objects in it one after another, and waits
/// until every watcher has seen every one.
pub(crate) fn fan_out(
    side: &Side,
    path: &str,
    watchers: usize,
    events: usize,
    body: impl Fn(usize) -> Value,
) -> Result<FanOut> {
    let written: Mutex<BTreeMap<String, Instant>> = Mutex::default();
    let (ready, readied) = mpsc::channel();
    let watch = format!("{path}?watch=true&resourceVersion={}", revision(side, path)?);
    thread::scope(|scope| {
        let spawn = |_| {
            let (ready, watch, written) = (ready.clone(), &watch, &written);
            // A thousand of them: small stacks.
            let builder = thread::Builder::new().stack_size(256 << 10);
            builder.spawn_scoped(scope, move || follow(side, watch, events, &ready, written))
        };
        let threads = (0..watchers).map(spawn).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..watchers {
            readied.recv_timeout(PATIENCE).context("a watch does not begin")?;
        }
        let (agent, before) = (side.server.agent()?, side.cpu()?);
        for n in 0..events {
            let object = body(n);
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            written.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Instant::now());
            post(&agent, side, path, &object)?;
        }
        let mut delays = Vec::new();
        for thread in threads {
            delays.extend(joined(thread)?);
        }
        delays.sort();
        let share = |part: usize| delays[(delays.len() - 1) * part / 100];
        let cpu = (side.cpu()? - before) / (events * watchers) as f64;
        Ok(FanOut { cpu, p50: share(50), p99: share(99) })
    })
}

/// One watcher: how long each event took to reach it.
fn follow(
    side: &Side,
    path: &str,
    events: usize,
    ready: &mpsc::Sender<()>,
    written: &Mutex<BTreeMap<String, Instant>>,
) -> Result<Vec<Duration>> {
    let headers = [("authorization".to_owned(), format!("Bearer {}", side.token()))];
    let mut stream = side.server.client.open("GET", path, &headers, None)?;
    ensure!(stream.answer.status == 200, "a watch is refused: {}", stream.answer.status);
    ready.send(())?;
    let mut delays = Vec::with_capacity(events);
    while delays.len() < events {
        let Some(line) = stream.line(Instant::now() + PATIENCE)? else {
            bail!("a watch ends after {} of {events} events", delays.len());
        };
        let now = Instant::now();
        let event: Value = serde_json::from_slice(&line)?;
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let written = written.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = written.get(name).with_context(|| format!("nobody wrote {name:?}"))?;
        delays.push(now - *sent);
    }
    Ok(delays)
}

fn revision(side: &Side, path: &str) -> Result<String> {
    let agent = side.server.agent()?;
    let url = format!("{}{path}?limit=1", side.server.url);
    let request = agent.get(&url).header("authorization", format!("Bearer {}", side.token()));
    let list: Value = request.call()?.body_mut().read_json()?;
    let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    Ok(revision.context("a list has no resourceVersion")?.to_owned())
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| bail!("a client panicked"))
}
