//! Errors of `stream` as Python knows them: each with its whole cause in one line.

use std::io;

use pyo3::exceptions::{
    PyConnectionError, PyException, PyKeyError, PyMemoryError, PyRuntimeError, PyValueError,
};
use pyo3::{PyErr, create_exception};
use stream::{Error, Flaw};

create_exception!(
    seatrial_tensors,
    CryptographyError,
    PyException,
    "A key is missing, is another, or was given for what is not encrypted."
);
create_exception!(
    seatrial_tensors,
    HashMismatchError,
    PyException,
    "A tensor's bytes are not those that were written."
);

/// The exception that Python code would expect.
pub(crate) fn raised(error: Error) -> PyErr {
    let told = told(&error);
    match error {
        Error::Read { source, .. } | Error::Write { source, .. } => system(&source, told),
        Error::Fetch { .. } | Error::Send { .. } => PyConnectionError::new_err(told),
        Error::Place(_) | Error::Malformed { .. } | Error::Unwritable(_) => {
            PyValueError::new_err(told)
        }
        Error::Memory { .. } => PyMemoryError::new_err(told),
        Error::NoTensor { .. } => PyKeyError::new_err(told),
        Error::Locked { .. }
        | Error::NotLocked { .. }
        | Error::Twice { .. }
        | Error::Key { .. }
        | Error::Tensor { source: Flaw::Sealed, .. } => CryptographyError::new_err(told),
        Error::Tensor { source: Flaw::Hash(_), .. } => HashMismatchError::new_err(told),
        Error::Tensor { source: Flaw::Read(source), .. } => system(&source, told),
        Error::Tensor { source: Flaw::Record(_) | Flaw::Length { .. } | Flaw::Changed, .. } => {
            PyValueError::new_err(told)
        }
    }
}

/// `FileNotFoundError` and its like by what the system said, in our words.
fn system(source: &io::Error, told: String) -> PyErr {
    io::Error::new(source.kind(), told).into()
}

/// Something that only a fault of ours brings about.
pub(crate) fn misused(what: &'static str) -> PyErr {
    PyRuntimeError::new_err(what)
}

/// An error and its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        told = format!("{told}: {inner}");
        cause = inner.source();
    }
    told
}
