//! Where models and other bytes lie, and how they are reached, as Python says it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stream::{Credentials, Destination, Location, Remote, Signer};

use crate::error::{raised, told};

/// A file or a URL. With `local`, what looks like a URL is a path all the same.
///
/// Of S3, an empty access key asks as nobody; without one the environment and the shared files say who.
#[pyclass(frozen, module = "seatrial_tensors._native")]
pub(crate) struct Place {
    location: Location,
    remote: Remote,
}

#[pymethods]
impl Place {
    #[new]
    #[pyo3(signature = (text, *, local = false, access_key = None, secret_key = None, endpoint = None, region = None, ca_file = None))]
    fn new(
        text: OsString,
        local: bool,
        access_key: Option<&str>,
        secret_key: Option<&str>,
        endpoint: Option<String>,
        region: Option<String>,
        ca_file: Option<PathBuf>,
    ) -> PyResult<Self> {
        let location = if local {
            Location::file(text)
        } else {
            Location::parse(&text).map_err(|bad| raised(bad.into()))?
        };
        let mut remote = Remote { ca_file, ..Remote::default() };
        remote.s3.endpoint = endpoint;
        remote.s3.region = region;
        remote.s3.signer = match (access_key, secret_key) {
            (None, None) => Signer::Found,
            (None | Some(""), None | Some("")) => Signer::Nobody,
            (id, secret) => {
                let (id, secret) = (id.unwrap_or_default(), secret.unwrap_or_default());
                let given = Credentials::new(id, secret, None);
                Signer::Given(given.map_err(|wrong| PyValueError::new_err(told(&wrong)))?)
            }
        };
        Ok(Self { location, remote })
    }

    /// Whether it is a file of this machine.
    #[getter]
    fn is_file(&self) -> bool {
        self.location.as_path().is_some()
    }

    fn __repr__(&self) -> String {
        self.location.to_string()
    }
}

impl Place {
    /// The path, of a file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.location.as_path()
    }

    pub(crate) fn destination(&self) -> Destination<'_> {
        Destination::At(&self.location, &self.remote)
    }

    pub(crate) fn model(&self) -> Result<stream::Model, stream::Error> {
        stream::Model::open_at(&self.location, &self.remote)
    }
}

/// Bytes that need not be a model.
#[pyclass(frozen, module = "seatrial_tensors._native")]
pub(crate) struct Reader(stream::Reader);

#[pymethods]
impl Reader {
    #[new]
    fn new(py: Python<'_>, place: &Place) -> PyResult<Self> {
        let open = || stream::Reader::open_at(&place.location, &place.remote);
        py.detach(open).map(Self).map_err(raised)
    }

    /// Its bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.byte_len()
    }

    /// Bytes from an offset on, fewer at the end.
    fn read_at<'py>(&self, py: Python<'py>, at: u64, len: usize) -> PyResult<Bound<'py, PyBytes>> {
        let left = usize::try_from(self.0.byte_len().saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        py.detach(|| self.0.read_at(&mut bytes, at)).map_err(raised)?;
        Ok(PyBytes::new(py, &bytes))
    }
}
