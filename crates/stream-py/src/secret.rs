//! Keys and passphrases. Wiped when dropped; a key is shown only to who asks for it by name.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stream::Derivation;

use crate::error::told;

/// What opens or seals a model.
#[pyclass(frozen, module = "seatrial_tensors._native")]
pub(crate) struct Secret(pub(crate) stream::Secret);

#[pymethods]
impl Secret {
    /// A key of 32 bytes.
    #[staticmethod]
    fn key(key: [u8; 32]) -> Self {
        Self(stream::Secret::key(key))
    }

    /// A passphrase, from which the key is derived as each file says.
    #[staticmethod]
    fn passphrase(passphrase: &[u8]) -> Self {
        Self(stream::Secret::passphrase(passphrase))
    }

    /// The key of a passphrase under libsodium's limits and a salt of 16 bytes.
    #[staticmethod]
    fn derived(
        py: Python<'_>,
        passphrase: &[u8],
        opslimit: u64,
        memlimit: u64,
        salt: [u8; 16],
    ) -> PyResult<Self> {
        let derivation = Derivation { passes: opslimit, memory: memlimit, salt };
        let derive = || stream::Secret::derived(passphrase, derivation);
        py.detach(derive).map(Self).map_err(|wrong| PyValueError::new_err(told(&wrong)))
    }

    /// The key itself, if it is known without a file.
    fn expose<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.expose().map(|key| PyBytes::new(py, key))
    }

    fn __repr__(&self) -> &'static str {
        "Secret(..)"
    }
}
