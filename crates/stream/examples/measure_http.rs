//! The figures of HTTP: loads from nginx and from our own server on this machine beside what loopback
//! can carry, in one interleaved run.
//!
//! `cargo run --release -p stream --example measure_http FILE [ROUNDS]` serves a model's file by nginx
//! (which must be installed) and by `stream::Server`, each in a process of its own, and loads it. The
//! cache is ours in front of nginx, which has been filled. The limit is `sendfile` of the same file over loopback TCP
//! by four threads into fresh memory in huge pages. Server and client share the machine's cores.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use memmap2::{Advice, MmapMut};
use rustix::fs::sendfile;
use stream::{Cached, Limits, Load, Location, Model, Origin, Remote, Served, Server};

const STREAMS: usize = 4;

fn main() {
    let mut arguments = std::env::args().skip(1);
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return ours(&arguments.skip(1).collect::<Vec<_>>());
    }
    let path = PathBuf::from(arguments.next().expect("the first argument is a model's file"));
    let path = path.canonicalize().unwrap();
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let (mut nginx, [port, secure]) = serve(path.parent().unwrap(), directory.path());
    let name = path.file_name().unwrap().to_str().unwrap();
    let parsed = |url: String| Location::parse(url.as_ref()).unwrap();
    let plain = parsed(format!("http://localhost:{port}/{name}"));
    let secure = parsed(format!("https://localhost:{secure}/{name}"));
    let served = |arguments: &[&std::ffi::OsStr]| {
        let (ours, port) = spawn(arguments);
        (ours, parsed(format!("http://127.0.0.1:{port}/{name}")))
    };
    let (mut files, own) = served(&[path.parent().unwrap().as_os_str()]);
    let origin = format!("http://localhost:{port}");
    let kept = tempfile::tempdir_in(path.parent().unwrap()).unwrap();
    let (mut cache, cached) = served(&[kept.path().as_os_str(), origin.as_ref()]);
    let how = Remote { ca_file: Some(directory.path().join("cert.pem")), ..Remote::default() };
    let len = path.metadata().unwrap().len();
    println!("{:.2} GB", len as f64 / 1e9);
    let load = |place, verify| {
        let model = Model::open_at(place, &how).unwrap();
        drop(black_box(model.load(&Load { verify, ..Load::default() }).unwrap()));
        println!("  {:?}", model.traffic().unwrap());
    };
    type Deed<'a> = (&'static str, Box<dyn Fn() + 'a>);
    let deeds: Vec<Deed<'_>> = vec![
        (
            "limit: sendfile over loopback, 4 streams, to fresh huge pages",
            Box::new(|| limit(&path)),
        ),
        ("load from nginx", Box::new(|| load(&plain, false))),
        ("load from our server", Box::new(|| load(&own, false))),
        ("load from our cache, filled", Box::new(|| load(&cached, false))),
        ("load from nginx over TLS", Box::new(|| load(&secure, false))),
        ("load from nginx and compare every hash", Box::new(|| load(&plain, true))),
    ];
    let mut taken = vec![Vec::new(); deeds.len()];
    println!("the cache is filled:");
    load(&cached, false);
    for _ in 0..rounds {
        for ((_, deed), taken) in deeds.iter().zip(&mut taken) {
            let (start, used) = (Instant::now(), cpu());
            deed();
            taken.push((start.elapsed().as_secs_f64(), cpu() - used));
        }
    }
    Command::new("kill").arg(nginx.id().to_string()).status().unwrap();
    nginx.wait().unwrap();
    for child in [&mut files, &mut cache] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("| what | s best / median | GB/s best | of the limit, best / median | CPU s/GB |");
    println!("|---|---|---|---|---|");
    let sorted = |taken: &[(f64, f64)]| {
        let mut seconds: Vec<f64> = taken.iter().map(|(seconds, _)| *seconds).collect();
        seconds.sort_by(f64::total_cmp);
        (seconds[0], seconds[seconds.len() / 2])
    };
    let (limit, usual) = sorted(&taken[0]);
    for ((what, _), taken) in deeds.iter().zip(&taken) {
        let (best, median) = sorted(taken);
        let (gb, mut used) = (len as f64 / 1e9, taken.iter().map(|t| t.1).collect::<Vec<_>>());
        used.sort_by(f64::total_cmp);
        println!(
            "| {what} | {best:.3} / {median:.3} | {:.2} | {:.0} % / {:.0} % | {:.2} |",
            gb / best,
            limit / best * 100.0,
            usual / median * 100.0,
            used[used.len() / 2] / gb
        );
    }
}

/// Seconds of all cores that this process used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = [fields[11], fields[12]].iter().map(|t| t.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// nginx, and its ports without and with TLS.
fn serve(root: &Path, scratch: &Path) -> (Child, [u16; 2]) {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    let [port, secure] = ports;
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(scratch.join("cert.pem"), signed.cert.pem()).unwrap();
    std::fs::write(scratch.join("key.pem"), signed.signing_key.serialize_pem()).unwrap();
    let config = scratch.join("nginx.conf");
    let text = format!(
        "daemon off;\nuser root root;\npid {0}/pid;\nerror_log stderr notice;\nworker_processes 2;\n\
         events {{}}\nhttp {{ access_log off; sendfile on; keepalive_requests 100000;\n\
         client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;\n\
         uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         ssl_certificate {0}/cert.pem; ssl_certificate_key {0}/key.pem;\n\
         server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{secure} ssl; root {1}; }} }}\n",
        scratch.display(),
        root.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut child = Command::new("nginx")
        .arg("-p")
        .arg(scratch)
        .arg("-c")
        .arg(&config)
        .args(["-e", "stderr"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("nginx must be installed");
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    while !all.contains("start worker process") {
        assert!(said.read_line(&mut all).unwrap() > 0, "nginx ended: {all}");
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    (child, ports)
}

/// Serves a directory, or caches in one what an origin has, until it is killed; prints its port.
fn ours(arguments: &[String]) {
    let dir = PathBuf::from(&arguments[0]);
    let served = match arguments.get(1) {
        Some(origin) => {
            let cached = Cached::new(Origin::parse(origin).unwrap(), dir, 20 << 30);
            Served::Cached(Box::new(cached))
        }
        None => Served::Folder(dir),
    };
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let server = Server::start(served, anywhere, None, Limits::default()).unwrap();
    println!("{}", server.address().port());
    // Until it is killed, or who started it is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

/// This program as a server, and its port.
fn spawn(arguments: &[&std::ffi::OsStr]) -> (Child, u16) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--serve").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().parse().unwrap())
}

/// The file over loopback, and nothing else.
fn limit(path: &Path) {
    let len = path.metadata().unwrap().len() as usize;
    let mut map = MmapMut::map_anon(len).unwrap();
    map.advise(Advice::HugePage).unwrap();
    let share = len.div_ceil(STREAMS).next_multiple_of(2 << 20);
    std::thread::scope(|scope| {
        for (nth, part) in map.chunks_mut(share).enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let size = part.len();
            scope.spawn(move || {
                let (socket, _) = listener.accept().unwrap();
                let file = File::open(path).unwrap();
                let mut at = (nth * share) as u64;
                let end = at + size as u64;
                while at < end {
                    let left = (end - at) as usize;
                    assert!(sendfile(&socket, &file, Some(&mut at), left).unwrap() > 0);
                }
            });
            scope.spawn(move || TcpStream::connect(address).unwrap().read_exact(part).unwrap());
        }
    });
    black_box(&map);
}
