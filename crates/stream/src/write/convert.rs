//! One model's file into another's: other format, other layout, encrypted, decrypted.

use std::collections::BTreeMap;

use super::{Data, Destination, Form, Written, write_from};
use crate::error::Error;
use crate::format::layout::Spec;
use crate::model::{Check, Model};
use crate::seal::{Keys, Secret};

/// How to convert.
#[derive(Clone, Copy)]
pub struct Convert<'a> {
    /// What opens the file that is read, if it is encrypted.
    pub secret: Option<&'a Secret>,
    /// What is written.
    pub form: Form<'a>,
    /// Whether tensors without data are left out, which safetensors cannot hold.
    pub drop_meta: bool,
    /// Called with the bytes of every piece that is written.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// The tensors of another file, by their places there.
struct Chosen<'a> {
    model: &'a Model,
    keys: Option<Keys<'a>>,
    places: Vec<usize>,
}

impl Data for Chosen<'_> {
    fn streams(&self) -> usize {
        self.model.source.streams()
    }

    fn pieces(
        &self,
        nth: usize,
        take: &mut dyn FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // New hashes must not vouch for bytes that the old ones contradict.
        self.model.pieces(self.places[nth], self.keys.as_ref(), Check::Cheapest, take)
    }
}

impl Model {
    /// Writes this model to another file or to where a URL says; the same place is fine. What is read
    /// is checked against its hashes or tags on the way.
    ///
    /// # Errors
    /// If this file is damaged or cannot be opened with the secret, a tensor does not fit the other
    /// format, or the other file cannot be written; nothing of it is left then.
    pub fn convert<'a>(
        &self,
        to: impl Into<Destination<'a>>,
        how: &Convert<'_>,
    ) -> Result<Written, Error> {
        let sealed = matches!(how.form, Form::Tensorizer { secret: Some(_), .. });
        if self.is_encrypted() && sealed {
            return Err(Error::Twice { place: self.place.clone() });
        }
        let keys = self.keys(how.secret)?;
        let keep = |nth: &usize| !(how.drop_meta && self.tensors()[*nth].is_meta());
        let places: Vec<usize> = (0..self.tensors().len()).filter(keep).collect();
        self.expect_records(places.iter().copied())?;
        let specs: Vec<Spec> =
            places.iter().map(|nth| self.spec(*nth)).collect::<Result<_, _>>()?;
        let mut metadata: BTreeMap<String, String> = self.metadata().clone();
        // Loaders of safetensors want to be told who made it.
        metadata.entry("format".to_owned()).or_insert_with(|| "pt".to_owned());
        let chosen = Chosen { model: self, keys, places };
        write_from(to.into(), &specs, &chosen, how.form, &metadata, how.progress)
    }
}
