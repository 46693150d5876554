//! torch from PyPI on a machine without a GPU and without 3 GB of CUDA's libraries.
//!
//! The wheel for x86-64 exists with CUDA only. Its libraries must be there to be linked, and nothing in
//! them is called where no GPU is found. So each that is absent is made: every symbol that torch asks of
//! it, as a function that returns zero. Where torch needs none, as on arm64, nothing is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What the names of CUDA's libraries begin with.
const CUDA: [&str; 3] = ["libcu", "libnccl", "libnv"];

/// What those of their symbols begin with that are asked for without a version.
const SYMBOLS: [&str; 3] = ["cu", "nccl", "nv"];

/// Symbols by the library and the version that they are asked for in.
type Asked = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Makes what is absent beside torch's own libraries.
pub(crate) fn fill(torch: &Path) -> Result<()> {
    let lib = torch.join("lib");
    let own = objects(&lib)?.into_iter().chain(objects(torch)?).collect::<Vec<_>>();
    let asked = asked(&own)?;
    let made = workshop(torch)?;
    for (name, versions) in &asked {
        let (mut source, mut script) = (String::new(), String::new());
        for (version, symbols) in versions {
            for symbol in symbols {
                writeln!(source, "long {symbol}(void) {{ return 0; }}")?;
            }
            if !version.is_empty() {
                writeln!(script, "{version} {{ global: {}; }};", join(symbols))?;
            }
        }
        fs::write(made.join("hollow.c"), source)?;
        fs::write(made.join("hollow.map"), &script)?;
        let mut cc = Command::new("cc");
        cc.args(["-w", "-shared", "-fPIC", "hollow.c", "-o"]).arg(lib.join(name));
        cc.arg(format!("-Wl,-soname,{name}")).current_dir(&made);
        if !script.is_empty() {
            cc.arg("-Wl,--version-script=hollow.map");
        }
        let compiled = cc.output().context("cc is absent: install a C compiler")?;
        if !compiled.status.success() {
            bail!("cc cannot make {name}: {}", String::from_utf8_lossy(&compiled.stderr));
        }
    }
    fs::remove_dir_all(made).context("cannot remove what was compiled")
}

fn workshop(torch: &Path) -> Result<PathBuf> {
    let dir = torch.join("hollow");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn join(symbols: &BTreeSet<String>) -> String {
    symbols.iter().map(String::as_str).collect::<Vec<_>>().join("; ")
}

/// The shared objects in a folder.
fn objects(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = entries.collect::<Result<_>>()?;
    let shared = |path: &PathBuf| path.is_file() && path.to_string_lossy().contains(".so");
    Ok(paths.into_iter().filter(shared).collect())
}

/// What these objects ask of CUDA's libraries and of none of each other.
fn asked(objects: &[PathBuf]) -> Result<Asked> {
    let mut asked = Asked::new();
    let (mut files, mut undefined) = (BTreeMap::new(), BTreeSet::new());
    let mut defined = BTreeSet::new();
    for object in objects {
        for name in said("readelf", &["-dW"], object)?.lines().filter(|l| l.contains("(NEEDED)")) {
            let name = name.split(['[', ']']).nth(1).unwrap_or_default();
            let there = objects.iter().any(|object| object.ends_with(name));
            if CUDA.iter().any(|prefix| name.starts_with(prefix)) && !there {
                asked.entry(name.to_owned()).or_default();
            }
        }
        let versions = said("readelf", &["-VW"], object)?;
        let mut file = String::new();
        for words in versions.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            let after =
                |word| words.iter().skip_while(|w| **w != word).nth(1).map(|w| w.to_string());
            file = after("File:").unwrap_or(file);
            files.extend(after("Name:").map(|version| (version, file.clone())));
        }
        for line in said("nm", &["-D"], object)?.lines() {
            let mut words = line.split_whitespace().rev();
            let (Some(symbol), Some(kind)) = (words.next(), words.next()) else { continue };
            let (name, version) = symbol.split_once('@').unwrap_or((symbol, ""));
            match kind {
                "U" => drop(undefined.insert((name.to_owned(), version.to_owned()))),
                "w" | "v" => {}
                _ => drop(defined.insert(name.to_owned())),
            }
        }
    }
    // Which library a symbol without a version is in is not said: all that have no versions get it.
    let versioned: BTreeSet<&String> = files.values().collect();
    let plain: BTreeSet<String> =
        asked.keys().filter(|name| !versioned.contains(name)).cloned().collect();
    for (name, version) in undefined {
        let foreign = version.is_empty() && !SYMBOLS.iter().any(|prefix| name.starts_with(prefix));
        if foreign || defined.contains(&name) {
            continue;
        }
        let named = files.get(&version).filter(|_| !version.is_empty());
        for (_, library) in asked.iter_mut().filter(|(file, _)| match named {
            Some(named) => *file == named,
            None => version.is_empty() && plain.contains(*file),
        }) {
            library.entry(version.clone()).or_default().insert(name.clone());
        }
    }
    Ok(asked)
}

fn said(program: &str, words: &[&str], object: &Path) -> Result<String> {
    let output = Command::new(program).args(words).arg(object).output();
    let output = output.with_context(|| format!("{program} is absent: install binutils"))?;
    if !output.status.success() {
        bail!("{program} cannot read {}", object.display());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
