//! A model as the body of one PUT, which has its bytes in their order.
//!
//! A record begins with what is known of its data last, its hashes. So every tensor is read twice: once
//! for its hashes, all beside each other, and once to be sent. Nothing is held but a piece. A tensor
//! that is another the second time is an error.

use std::sync::{Mutex, PoisonError};

use super::Batch;
use crate::error::{Error, Flaw};
use crate::location::Location;
use crate::pool;
use crate::remote::{Give, Sent, Store};

/// Bytes of zeros that are sent at a time.
const STEP: u64 = 4096;

/// Sends a file of so many bytes: what stands before the tensors, these, and zeros.
pub(super) fn put(
    store: &Store,
    place: &Location,
    batch: &Batch<'_>,
    front: &[u8],
    len: u64,
) -> Result<(), Error> {
    let failed = |fault| Error::Send { place: place.clone(), source: Box::new(fault) };
    let headers = headers(batch)?;
    let mut make = |give: Give<'_>| {
        let mut at = front.len() as u64;
        give(front).map_err(failed)?;
        for nth in batch.in_order() {
            let header = &headers[nth];
            give(header).map_err(failed)?;
            at += header.len() as u64;
            let again = batch.tensor(nth, batch.progress, &mut |piece, _| {
                at += piece.len() as u64;
                give(piece).map_err(failed)
            })?;
            if again.is_some_and(|(again, _)| again != *header) {
                return Err(Flaw::Changed.of(&batch.specs[nth].name));
            }
        }
        while at < len {
            let here = STEP.min(len - at);
            give(&[0; STEP as usize][..here as usize]).map_err(failed)?;
            at += here;
        }
        Ok(())
    };
    store.put(len, &mut make).map_err(|sent| match sent {
        Sent::Fault(fault) => failed(fault),
        Sent::Maker(error) => error,
    })
}

/// The header of every tensor; empty where the format has none.
fn headers(batch: &Batch<'_>) -> Result<Vec<Vec<u8>>, Error> {
    let count = batch.specs.len();
    if matches!(batch.places, super::Places::Flat(_)) {
        return Ok(vec![Vec::new(); count]);
    }
    let headers = Mutex::new(vec![Vec::new(); count]);
    let work = |(): &mut (), nth: usize| -> Result<(), Error> {
        if let Some((header, _)) = batch.tensor(nth, &|_| {}, &mut |_, _| Ok(()))? {
            headers.lock().unwrap_or_else(PoisonError::into_inner)[nth] = header;
        }
        Ok(())
    };
    pool::each(batch.data.streams(), (0..count).collect(), || Ok(()), work)?;
    Ok(headers.into_inner().unwrap_or_else(PoisonError::into_inner))
}
