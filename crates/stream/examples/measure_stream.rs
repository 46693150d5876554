//! The figures of SPECIFICATION.md: loads beside the limits of the machine, in one interleaved run.
//!
//! `cargo run --release -p stream --example measure_stream DIR [GB] [ROUNDS]` writes a Llama-shaped
//! bf16 model into DIR, and for every round does each thing once. With ROUNDS 0 it only writes the
//! models, for measuring other programs with them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use memmap2::{Advice, MmapMut};
use rustix::fs::{Advice as Cache, OFlags, fadvise};
use stream::{Convert, Dtype, Form, Kind, Layout, Load, Model, Name, Secret, Spec, write};

const PIECE: usize = 8 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("the first argument is a directory");
    let gigabytes: f64 = arguments.next().map_or(1.0, |text| text.parse().unwrap());
    let rounds: usize = arguments.next().map_or(5, |text| text.parse().unwrap());
    let directory = Path::new(&directory);
    let [aligned, legacy, sealed, flat] =
        ["aligned.tensors", "legacy.tensors", "sealed.tensors", "model.safetensors"]
            .map(|name| directory.join(name));
    let key = Secret::key([7; 32]);
    make(&aligned, gigabytes);
    let model = Model::open(&aligned).unwrap();
    for (path, form) in [
        (&legacy, Form::Tensorizer { layout: Layout::Legacy, secret: None }),
        (&sealed, Form::Tensorizer { layout: Layout::Aligned, secret: Some(&key) }),
        (&flat, Form::Safetensors),
    ] {
        let how = Convert { secret: None, form, drop_meta: false, progress: &|_| {} };
        model.convert(path, &how).unwrap();
    }
    let bytes = model.data_len();
    println!("{:.2} GB in {} tensors", bytes as f64 / 1e9, model.tensors().len());
    let load = |path: &Path, how: &Load<'_>| drop(black_box(Model::open(path).unwrap().load(how)));
    let whole = Load { verify: true, ..Load::default() };
    let opened = Load { secret: Some(&key), ..Load::default() };
    type Deed<'a> = (&'static str, &'static str, Option<&'a Path>, Box<dyn Fn() + 'a>);
    let deeds: Vec<Deed<'_>> = vec![
        ("limit: page cache to fresh huge pages", "", None, Box::new(|| fresh(&aligned, false))),
        (
            "load",
            "limit: page cache to fresh huge pages",
            None,
            Box::new(|| load(&aligned, &Load::default())),
        ),
        (
            "load, official layout",
            "limit: page cache to fresh huge pages",
            None,
            Box::new(|| load(&legacy, &Load::default())),
        ),
        (
            "load, safetensors",
            "limit: page cache to fresh huge pages",
            None,
            Box::new(|| load(&flat, &Load::default())),
        ),
        ("load and compare every hash", "", None, Box::new(|| load(&aligned, &whole))),
        ("load, decrypted", "", None, Box::new(|| load(&sealed, &opened))),
        ("limit: disk, O_DIRECT", "", Some(&aligned), Box::new(|| fresh(&aligned, true))),
        (
            "load, cold",
            "limit: disk, O_DIRECT",
            Some(&aligned),
            Box::new(|| load(&aligned, &Load::default())),
        ),
        (
            "load, official layout, cold",
            "limit: disk, O_DIRECT",
            Some(&legacy),
            Box::new(|| load(&legacy, &Load::default())),
        ),
    ];
    let mut seconds = vec![Vec::new(); deeds.len()];
    for _ in 0..rounds {
        for ((_, _, cold, deed), seconds) in deeds.iter().zip(&mut seconds) {
            match cold {
                Some(path) => forget(path),
                // Whatever ran before, this finds the files cached.
                None => [&aligned, &legacy, &sealed, &flat].iter().for_each(|path| warm(path)),
            }
            let start = Instant::now();
            deed();
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    if rounds == 0 {
        return;
    }
    seconds.iter_mut().for_each(|seconds| seconds.sort_by(f64::total_cmp));
    println!("| what | s best / median | GB/s best | of its limit, best / median |");
    println!("|---|---|---|---|");
    for ((what, limit, _, _), taken) in deeds.iter().zip(&seconds) {
        let (best, median) = (taken[0], taken[rounds / 2]);
        let of = deeds.iter().position(|(other, ..)| other == limit).map(|nth| &seconds[nth]);
        let share = of.map(|of| {
            format!("{:.0} % / {:.0} %", of[0] / best * 100.0, of[rounds / 2] / median * 100.0)
        });
        let speed = bytes as f64 / best / 1e9;
        println!(
            "| {what} | {best:.3} / {median:.3} | {speed:.2} | {} |",
            share.unwrap_or_default()
        );
    }
}

/// A model of Llama's shapes, as many layers as fit.
fn make(path: &Path, gigabytes: f64) {
    let spec = |name: String, shape: &[u64]| Spec {
        name: Name::plain(name),
        kind: Kind::Parameter,
        module: 0,
        dtype: Dtype::named("bfloat16").unwrap(),
        shape: shape.to_vec(),
        meta: false,
    };
    let mut specs = vec![spec("model.embed_tokens.weight".to_owned(), &[32_064, 3072])];
    let total = |specs: &[Spec]| specs.iter().map(|s| s.data_len().unwrap()).sum::<u64>() as f64;
    for layer in 0.. {
        if total(&specs) >= gigabytes * 1e9 {
            break;
        }
        for (part, shape) in [
            ("input_layernorm", &[3072][..]),
            ("self_attn.q_proj", &[3072, 3072]),
            ("self_attn.k_proj", &[1024, 3072]),
            ("self_attn.v_proj", &[1024, 3072]),
            ("self_attn.o_proj", &[3072, 3072]),
            ("post_attention_layernorm", &[3072]),
            ("mlp.gate_proj", &[8192, 3072]),
            ("mlp.up_proj", &[8192, 3072]),
            ("mlp.down_proj", &[3072, 8192]),
        ] {
            specs.push(spec(format!("model.layers.{layer}.{part}.weight"), shape));
        }
    }
    let longest = specs.iter().map(|spec| spec.data_len().unwrap()).max().unwrap() as usize;
    let noise = |nth: usize| (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    let bytes: Vec<u8> = (0..longest).map(noise).collect();
    let slice = |spec: Spec| {
        let len = spec.data_len().unwrap() as usize;
        (spec, &bytes[..len])
    };
    let tensors: Vec<(Spec, &[u8])> = specs.into_iter().map(slice).collect();
    write(path, &tensors, Form::Tensorizer { layout: Layout::Aligned, secret: None }).unwrap();
}

/// The file into fresh memory in huge pages, by as many threads as a load has, and nothing else.
fn fresh(path: &Path, direct: bool) {
    let flag = if direct { OFlags::DIRECT.bits() as i32 } else { 0 };
    let file = OpenOptions::new().read(true).custom_flags(flag).open(path).unwrap();
    let len = file.metadata().unwrap().len() as usize / PIECE * PIECE;
    let mut map = MmapMut::map_anon(len).unwrap();
    map.advise(Advice::HugePage).unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    let jobs = std::sync::Mutex::new(map.chunks_mut(PIECE).enumerate());
    std::thread::scope(|scope| {
        for _ in 0..if direct { cores.max(8) } else { cores } {
            scope.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap().next();
                    let Some((nth, piece)) = job else { return };
                    file.read_exact_at(piece, (nth * PIECE) as u64).unwrap();
                }
            });
        }
    });
    black_box(&map);
}

fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Cache::DontNeed).unwrap();
}

fn warm(path: &Path) {
    let file = File::open(path).unwrap();
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    loop {
        match file.read_at(&mut buffer, at).unwrap() {
            0 => return,
            got => at += got as u64,
        }
    }
}
