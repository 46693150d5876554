//! A model as Python sees it: facts about its tensors, and loads of any of them.

use std::collections::HashSet;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use stream::{Kind, Load, Name, Segment};

use crate::buffer::{Lent, Memory};
use crate::error::raised;
use crate::place::Place;
use crate::secret::Secret;

/// An opened model. Tensors are named by their places in the file.
#[pyclass(frozen, module = "seatrial_tensors._native")]
pub(crate) struct Model(stream::Model);

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, place: &Place) -> PyResult<Self> {
        py.detach(|| place.model()).map(Self).map_err(raised)
    }

    /// Whether its data is encrypted.
    #[getter]
    fn encrypted(&self) -> bool {
        matches!(self.0.format(), stream::Format::Tensorizer { encrypted: true, .. })
    }

    /// Bytes of the file.
    #[getter]
    fn file_len(&self) -> u64 {
        self.0.file_len()
    }

    /// Of every tensor: its path, its kind (0 parameter, 1 buffer, 2 state dict), its type as the file
    /// says it, its shape, the bytes of its data, and whether it has a shape and no data.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let row = |tensor: &stream::Tensor| -> PyResult<_> {
            let shape = PyTuple::new(py, tensor.shape())?;
            let facts = (path(py, tensor.name())?, kind(tensor.kind()), tensor.dtype().text());
            (facts.0, facts.1, facts.2, shape, tensor.data_len(), tensor.is_meta())
                .into_pyobject(py)
        };
        let rows: Vec<_> = self.0.tensors().iter().map(row).collect::<PyResult<_>>()?;
        PyList::new(py, rows)
    }

    /// Loads these tensors into one piece of memory: the memory, where in it each begins (in the order
    /// of the file), and the bytes that were read for it.
    #[pyo3(signature = (wanted, *, secret = None, verify = false))]
    fn load(
        &self,
        py: Python<'_>,
        wanted: Vec<usize>,
        secret: Option<&Secret>,
        verify: bool,
    ) -> PyResult<(Memory, Vec<usize>, u64)> {
        let names: HashSet<&Name> =
            wanted.iter().filter_map(|nth| self.0.tensors().get(*nth)).map(|t| t.name()).collect();
        let filter = |tensor: &stream::Tensor| names.contains(tensor.name());
        let secret = secret.map(|secret| &secret.0);
        let how = Load { filter: Some(&filter), secret, verify, ..Load::default() };
        let loaded = py.detach(|| self.0.load(&how)).map_err(raised)?;
        let places = loaded.places().map(|(_, range)| range.start).collect();
        let read = loaded.bytes_read();
        Ok((Memory::new(loaded), places, read))
    }

    /// The place of a tensor's module among the modules of what was written.
    fn module(&self, py: Python<'_>, nth: usize) -> PyResult<u16> {
        self.there(nth)?;
        py.detach(|| self.0.module(nth)).map_err(raised)
    }

    /// Whether these bytes are what a tensor was written with, by its hashes; `None` without hashes.
    fn matches(
        &self,
        py: Python<'_>,
        nth: usize,
        bytes: &Bound<'_, PyAny>,
    ) -> PyResult<Option<bool>> {
        self.there(nth)?;
        let lent = Lent::of(bytes)?;
        let bytes = lent.bytes();
        py.detach(|| self.0.matches(nth, bytes)).map_err(raised)
    }
}

impl Model {
    fn there(&self, nth: usize) -> PyResult<()> {
        let there = nth < self.0.tensors().len();
        there.then_some(()).ok_or_else(|| PyIndexError::new_err("there is no such tensor"))
    }
}

const fn kind(kind: Kind) -> u8 {
    match kind {
        Kind::Parameter => 0,
        Kind::Buffer => 1,
        Kind::StateDict => 2,
    }
}

/// A name as a tuple of strings and places.
fn path<'py>(py: Python<'py>, name: &Name) -> PyResult<Bound<'py, PyTuple>> {
    let step = |segment: &Segment| -> PyResult<Bound<'py, PyAny>> {
        Ok(match segment {
            Segment::Key(key) => key.into_pyobject(py)?.into_any(),
            Segment::Place(place) => place.into_pyobject(py)?.into_any(),
        })
    };
    let steps: Vec<_> = name.segments().iter().map(step).collect::<PyResult<_>>()?;
    PyTuple::new(py, steps)
}
