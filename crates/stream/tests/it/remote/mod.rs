//! Models behind URLs: servers that behave, and servers that do not.

mod changes;
mod hedge;
pub(crate) mod nginx;
mod parts;
mod passing;
mod redirect;
mod refused;
pub(crate) mod s3;
pub(crate) mod server;
mod tls;
mod whole;

use std::ffi::OsStr;
use std::num::NonZero;
use std::sync::OnceLock;
use std::time::Duration;

use stream::{Error, Layout, Load, Loaded, Location, Model, Patience, Remote, Spec, Tensor, write};

use crate::support::{borrowed, plain, spec};

/// Tensors of a model that is read in many ranges: every second one, with the others between.
const STRIPES: usize = 48;

/// A model of many tensors, and its file.
pub(crate) struct Striped {
    pub(crate) tensors: Vec<(Spec, Vec<u8>)>,
    pub(crate) file: Vec<u8>,
}

pub(crate) fn striped() -> &'static Striped {
    static MADE: OnceLock<Striped> = OnceLock::new();
    MADE.get_or_init(|| {
        let tensor = |nth: usize| {
            let bytes = (0..200_000 + nth)
                .map(|at| ((at + nth * 200_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8);
            (spec(&format!("t{nth}"), "uint8", &[200_000 + nth as u64]), bytes.collect())
        };
        let tensors: Vec<_> = (0..STRIPES).map(tensor).collect();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("model");
        write(&path, &borrowed(&tensors), plain(Layout::Aligned)).unwrap();
        Striped { tensors, file: std::fs::read(&path).unwrap() }
    })
}

/// Patience for tests: failures come fast, and nothing is asked for twice unless a test wants it.
pub(crate) fn hasty() -> Remote {
    let patience = Patience {
        connect: Duration::from_secs(5),
        stall: Duration::from_secs(5),
        tries: NonZero::new(6).unwrap(),
        backoff: Duration::from_millis(1),
        longest: Duration::from_secs(30),
        hedge: Duration::from_secs(3600),
    };
    Remote { patience, ..Remote::default() }
}

pub(crate) fn located(url: &str) -> Location {
    Location::parse(OsStr::new(url)).unwrap()
}

pub(crate) fn open(url: &str, how: &Remote) -> Result<Model, Error> {
    Model::open_at(&located(url), how)
}

/// Every second tensor.
pub(crate) fn second(tensor: &Tensor) -> bool {
    tensor.name().to_string()[1..].parse::<usize>().unwrap().is_multiple_of(2)
}

pub(crate) fn load(model: &Model) -> Result<Loaded, Error> {
    model.load(&Load { filter: Some(&second), verify: true, ..Load::default() })
}

/// That what was loaded is what was written, byte for byte.
#[track_caller]
pub(crate) fn right(loaded: &Loaded) {
    assert_eq!(loaded.iter().count(), STRIPES / 2);
    for (tensor, bytes) in loaded.iter() {
        let nth: usize = tensor.name().to_string()[1..].parse().unwrap();
        assert!(bytes == striped().tensors[nth].1, "{}", tensor.name());
    }
}

/// An error and its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
