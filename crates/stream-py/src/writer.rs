//! A model that is written tensor by tensor, from memory that Python lends.

use std::fs::OpenOptions;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use stream::{Dtype, Kind, Layout, Name, Segment, Spec};

use crate::buffer::Lent;
use crate::error::{misused, raised};
use crate::place::Place;
use crate::secret::Secret;

/// A tensor that is to be written: its path, kind, module, type as a file says it, shape, and its bytes,
/// or nothing if it has a shape and no data.
type Row<'py> = (Vec<Step>, u8, u16, String, Vec<u64>, Option<Bound<'py, PyAny>>);

/// A step of a path.
#[derive(FromPyObject)]
enum Step {
    Place(u64),
    Key(String),
}

/// A file in the making. Dropped unfinished, one that was to appear does not.
#[pyclass(module = "seatrial_tensors._native")]
pub(crate) struct Writer(Option<stream::Writer>);

#[pymethods]
impl Writer {
    /// Writes to a place, where it appears when it is whole; with `open`, over the file that is there.
    #[new]
    #[pyo3(signature = (place, *, secret = None, open = false))]
    fn new(py: Python<'_>, place: &Place, secret: Option<&Secret>, open: bool) -> PyResult<Self> {
        let secret = secret.map(|secret| &secret.0);
        let make = || match place.path().filter(|_| open) {
            None => stream::Writer::create(place.destination(), Layout::Aligned, secret),
            Some(path) => {
                let file = OpenOptions::new().read(true).write(true).open(path);
                let failed = |source| stream::Error::Write { path: path.to_owned(), source };
                stream::Writer::over(file.map_err(failed)?, path, Layout::Aligned, secret)
            }
        };
        Ok(Self(Some(py.detach(make).map_err(raised)?)))
    }

    /// Writes these behind what is there.
    fn add(&mut self, py: Python<'_>, rows: Vec<Row<'_>>) -> PyResult<()> {
        let writer = self.0.as_mut().ok_or_else(|| misused("this file is finished"))?;
        let mut specs = Vec::with_capacity(rows.len());
        let mut lent = Vec::with_capacity(rows.len());
        for (path, kind, module, dtype, shape, bytes) in rows {
            let dtype = Dtype::parse(dtype.as_bytes()).map_err(PyValueError::new_err)?;
            let meta = bytes.is_none();
            specs.push(Spec {
                name: name(path)?,
                kind: self::kind(kind)?,
                module,
                dtype,
                shape,
                meta,
            });
            lent.push(bytes.as_ref().map(Lent::of).transpose()?);
        }
        let tensors: Vec<(Spec, &[u8])> = specs.into_iter().zip(lent.iter().map(bytes)).collect();
        py.detach(|| writer.add(&tensors)).map_err(raised)
    }

    /// Gives the file its index and its name; its length in bytes.
    fn finish(&mut self, py: Python<'_>) -> PyResult<u64> {
        let writer = self.0.take().ok_or_else(|| misused("this file is finished"))?;
        Ok(py.detach(|| writer.finish()).map_err(raised)?.file_len)
    }
}

impl Drop for Writer {
    /// What is dropped half-way is taken back, which may be another machine's work: others run meanwhile.
    fn drop(&mut self) {
        let Some(writer) = self.0.take() else { return };
        Python::try_attach(|py| py.detach(|| drop(writer)));
    }
}

/// What was lent; nothing of a tensor without data.
fn bytes(lent: &Option<Lent>) -> &[u8] {
    lent.as_ref().map_or(&[], Lent::bytes)
}

fn kind(byte: u8) -> PyResult<Kind> {
    match byte {
        0 => Ok(Kind::Parameter),
        1 => Ok(Kind::Buffer),
        2 => Ok(Kind::StateDict),
        _ => Err(PyValueError::new_err("a tensor is a parameter, a buffer or of a state dict")),
    }
}

fn name(path: Vec<Step>) -> PyResult<Name> {
    let step = |step| match step {
        Step::Place(place) => Segment::Place(place),
        Step::Key(key) => Segment::Key(key),
    };
    Name::path(path.into_iter().map(step).collect())
        .ok_or_else(|| PyValueError::new_err("a tensor needs a name"))
}
