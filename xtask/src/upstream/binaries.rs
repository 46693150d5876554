//! The programs of the reference server: found where the user keeps them, or built from the pinned
//! Go modules into a cache that all checkouts share.
//!
//! Guarantees: a cached program belongs to exactly these go.mod and go.sum files; it appears under
//! its name only when it is complete; two runs never build it at once. Old folders of the cache are
//! not removed: they may serve another checkout, and the user may delete them at any time.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Contended, lock, workspace};

/// The Go that builds a correct server. Go 1.27 compiles this release into one whose OpenAPI is
/// broken (Go type names leak into it and kubectl refuses it); etcd does not build before 1.26.
const GO_MINOR: u32 = 26;
const GO_REMEDY: &str = "install Go 1.26, or run again with GOTOOLCHAIN=go1.26.8, which lets an \
                         installed Go fetch that version";

/// The programs of the reference server. The last two are missing in some prebuilt sets.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
    pub(crate) kube_controller_manager: Option<PathBuf>,
    pub(crate) kube_scheduler: Option<PathBuf>,
    /// Where they lie, with `kubectl` beside them.
    pub(crate) dir: PathBuf,
}

/// Finds the programs in `KUBEBUILDER_ASSETS`, or else in the parts cache, where it builds them
/// first if no earlier run has.
pub(crate) fn binaries() -> Result<Binaries> {
    match std::env::var_os("KUBEBUILDER_ASSETS") {
        Some(dir) => found(Path::new(&dir)).context("unset KUBEBUILDER_ASSETS, or complete it"),
        None => built(),
    }
}

fn found(dir: &Path) -> Result<Binaries> {
    let optional = |name: &str| Some(dir.join(name)).filter(|path| path.is_file());
    let required = |name: &str| {
        optional(name).with_context(|| format!("there is no {name} in {}", dir.display()))
    };
    Ok(Binaries {
        etcd: required("etcd")?,
        kube_apiserver: required("kube-apiserver")?,
        kube_controller_manager: optional("kube-controller-manager"),
        kube_scheduler: optional("kube-scheduler"),
        dir: dir.to_owned(),
    })
}

/// One Go module under `tools/` and the programs that we build from it.
struct Module {
    dir: PathBuf,
    ldflags: String,
    programs: Vec<(&'static str, &'static str)>,
}

fn modules() -> Result<[Module; 2]> {
    let tools = workspace().join("tools");
    let kubernetes = tools.join("upstream");
    let version = pinned(&kubernetes.join("go.mod"), "k8s.io/kubernetes")?;
    Ok([
        Module {
            dir: tools.join("etcd"),
            ldflags: "-s -w".into(),
            programs: vec![
                ("etcd", "go.etcd.io/etcd/server/v3"),
                ("etcdctl", "go.etcd.io/etcd/etcdctl/v3"),
            ],
        },
        Module {
            dir: kubernetes,
            ldflags: calling_itself(&version),
            programs: vec![
                ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
                ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
                ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
                ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
            ],
        },
    ])
}

/// The linker's flags for a program of Kubernetes. Without them it calls itself v0.0.0-master, and
/// clients misjudge the version skew.
fn calling_itself(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let at = "k8s.io/component-base/version";
    format!(
        "-s -w -X {at}.gitVersion={version} -X {at}.gitMajor={major} -X {at}.gitMinor={minor} \
         -X {at}.gitTreeState=clean"
    )
}

fn built() -> Result<Binaries> {
    found(&build("upstream", &modules()?)?)
}

/// A program that tests use beside the reference server, from a Go module of its own.
pub(crate) struct Part {
    /// Its folder under `tools/`.
    pub(crate) module: &'static str,
    /// What it is called.
    pub(crate) program: &'static str,
    /// The package that it is built from.
    pub(crate) package: &'static str,
}

/// promtool, which checks and tests alert rules.
pub(crate) fn promtool() -> Result<PathBuf> {
    part(&Part {
        module: "prometheus",
        program: "promtool",
        package: "github.com/prometheus/prometheus/cmd/promtool",
    })
}

/// kubectl of an older minor version than the reference server's.
pub(crate) fn older_kubectl() -> Result<PathBuf> {
    let dir = workspace().join("tools/kubectl");
    // Kubernetes 1.x publishes its libraries as 0.x.
    let library = pinned(&dir.join("go.mod"), "k8s.io/kubectl")?;
    let version = library.replacen("v0.", "v1.", 1);
    let programs = vec![("kubectl", "seatrial.dev/tools/kubectl")];
    let module = Module { dir, ldflags: calling_itself(&version), programs };
    Ok(build("kubectl", &[module])?.join("kubectl"))
}

/// Where a part lies: built from its Go module if no earlier run has.
pub(crate) fn part(part: &Part) -> Result<PathBuf> {
    let module = Module {
        dir: workspace().join("tools").join(part.module),
        ldflags: "-s -w".into(),
        programs: vec![(part.program, part.package)],
    };
    Ok(build(part.module, &[module])?.join(part.program))
}

/// Builds what is missing of some modules' programs; says where they lie.
fn build(prefix: &str, modules: &[Module]) -> Result<PathBuf> {
    let dir = parts_dir()?.join(format!("{prefix}-{:016x}", key(modules)?));
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    // Two runs at once must not compile the same thing twice on a small machine.
    let _lock = lock(&dir.join(".lock"), Contended::Wait)?;
    for module in modules {
        for (name, package) in &module.programs {
            let program = dir.join(name);
            if !program.is_file() {
                go_build(module, package, &program)?;
            }
        }
    }
    Ok(dir)
}

/// What the build depends on: another pin, another folder. A changed hash function of std costs
/// one rebuild and nothing else.
fn key(modules: &[Module]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for module in modules {
        module.ldflags.hash(&mut hasher);
        for path in inputs(&module.dir)? {
            let bytes = fs::read(&path);
            bytes.with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// The pins, and the sources of a program that is our own.
fn inputs(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot read {}", dir.display());
    let mut own = Vec::new();
    for entry in fs::read_dir(dir).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let pins = path.file_name().is_some_and(|name| name == "tools.go");
        if !pins && path.extension().is_some_and(|extension| extension == "go") {
            own.push(path);
        }
    }
    own.sort();
    Ok(["go.mod", "go.sum"].into_iter().map(|file| dir.join(file)).chain(own).collect())
}

fn go_build(module: &Module, package: &str, program: &Path) -> Result<()> {
    check_go(&module.dir)?;
    eprintln!("building {package}; the first time takes minutes");
    // A half-written program must never be found under its final name.
    let part = program.with_extension("part");
    let status = Command::new("go")
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(&module.ldflags)
        .arg("-o")
        .args([part.as_os_str(), package.as_ref()])
        .env("CGO_ENABLED", "0")
        .current_dir(&module.dir)
        .status()
        .context("cannot run go build")?;
    ensure!(status.success(), "go build {package} failed in {}: {status}", module.dir.display());
    fs::rename(&part, program).with_context(|| format!("cannot create {}", program.display()))
}

/// Runs inside the module: there Go has already picked the toolchain that it will build with.
pub(crate) fn check_go(dir: &Path) -> Result<()> {
    let output = Command::new("go").args(["env", "GOVERSION"]).current_dir(dir).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!(
            "there is no `go` in PATH, and the reference server is built from Go modules: install \
             Go 1.26, or set KUBEBUILDER_ASSETS to a folder that holds etcd and kube-apiserver"
        ),
        _ => anyhow::Error::new(error).context("cannot run go"),
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim();
    ensure!(
        output.status.success(),
        "go env failed in {}: {}; {GO_REMEDY}",
        dir.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    ensure!(
        go_minor(version) == Some(GO_MINOR),
        "the reference server needs Go 1.{GO_MINOR}, here is {version}: {GO_REMEDY}"
    );
    Ok(())
}

fn go_minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The version that a go.mod requires of a module.
fn pinned(go_mod: &Path, module: &str) -> Result<String> {
    let text =
        fs::read_to_string(go_mod).with_context(|| format!("cannot read {}", go_mod.display()))?;
    text.lines()
        .map(|line| line.trim().trim_start_matches("require "))
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' '))
        .and_then(|version| version.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("{} does not require {module}", go_mod.display()))
}

/// Where built programs are kept.
pub(crate) fn parts_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SEATRIAL_PARTS")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("seatrial/parts")))
        .or_else(|| Some(set("HOME")?.join(".cache/seatrial/parts")))
        .context("set SEATRIAL_PARTS to a folder where built programs may be kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions() {
        assert_eq!(go_minor("go1.26.8"), Some(26));
        assert_eq!(go_minor("go1.27rc1"), Some(27));
        assert_eq!(go_minor("go1.26-custom"), Some(26));
        assert_eq!(go_minor("devel go1.28"), None);
    }

    #[test]
    fn pins_are_read_from_go_mod() {
        let tools = workspace().join("tools");
        let kubernetes = pinned(&tools.join("upstream/go.mod"), "k8s.io/kubernetes").unwrap();
        assert!(kubernetes.starts_with("v1."), "{kubernetes}");
        assert!(pinned(&tools.join("etcd/go.mod"), "go.etcd.io/etcd/server/v3").is_ok());
        assert!(pinned(&tools.join("etcd/go.mod"), "go.etcd.io/nothing").is_err());
    }
}
