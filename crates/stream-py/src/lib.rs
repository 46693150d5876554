//! `seatrial_tensors._native`: what Python needs of `stream`, and no more.
//!
//! The names that people use are tensorizer's and live beside this, in `python/seatrial_tensors`; here
//! are models, the memory they are loaded into, secrets, places, and a writer. The interpreter's lock is
//! released wherever files, networks or hashes are waited for. `unsafe` is only in [`buffer`].

mod buffer;
mod error;
mod model;
mod place;
mod secret;
mod writer;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::error::{CryptographyError, HashMismatchError};
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::place::{Place, Reader};
    #[pymodule_export]
    use super::secret::Secret;
    #[pymodule_export]
    use super::writer::Writer;
}
