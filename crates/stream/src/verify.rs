//! Every tensor against its hashes, without holding the model in memory.

use std::sync::Mutex;

use crate::error::Error;
use crate::format::record::HashKind;
use crate::model::{Check, Checker, Model};
use crate::pool;
use crate::seal::Secret;

/// What a tensor came to.
#[derive(Debug)]
pub struct Verdict {
    /// Its place among the tensors of its model.
    pub tensor: usize,
    /// The hashes that were compared, or what is wrong with it.
    pub outcome: Result<Vec<HashKind>, Error>,
}

impl Model {
    /// Whether bytes from elsewhere are those that a tensor was written with, by every hash it carries;
    /// `None` if it carries none. Its data is not read.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn matches(&self, nth: usize, bytes: &[u8]) -> Result<Option<bool>, Error> {
        let Some(record) = self.record(nth)?.filter(|record| !record.hashes().is_empty()) else {
            return Ok(None);
        };
        let mut checker = Checker::new(&record, Check::All);
        checker.update(bytes);
        Ok(Some(checker.finish().is_ok()))
    }

    /// Compares every hash of every tensor, and says of each what came of it, in the order of the
    /// file. A tensor that is damaged does not keep others from being looked at.
    ///
    /// # Errors
    /// If the file is encrypted and there is no key, or the other way round; if it lies behind a URL
    /// and cannot be had, which says nothing of any tensor.
    pub fn verify(
        &self,
        secret: Option<&Secret>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Vec<Verdict>, Error> {
        let keys = self.keys(secret)?;
        let mut jobs: Vec<usize> = (0..self.tensors().len()).collect();
        jobs.sort_by_key(|nth| std::cmp::Reverse(self.tensors()[*nth].data_len()));
        self.expect_records(0..self.tensors().len())?;
        let verdicts = Mutex::new(Vec::with_capacity(jobs.len()));
        pool::each(
            self.source.streams(),
            jobs,
            || Ok(()),
            |(), tensor| {
                let looked = self.pieces(tensor, keys.as_ref(), Check::All, &mut |piece| {
                    progress(piece.len() as u64);
                    Ok(())
                });
                let outcome = match looked.and_then(|()| self.hashes(tensor)) {
                    Err(unreached @ Error::Fetch { .. }) => return Err(unreached),
                    outcome => outcome,
                };
                let verdict = Verdict { tensor, outcome };
                verdicts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(verdict);
                Ok(())
            },
        )?;
        let mut verdicts = verdicts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        verdicts.sort_by_key(|verdict| verdict.tensor);
        Ok(verdicts)
    }
}
