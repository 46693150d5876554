//! Memory that crosses the border, uncopied: what was loaded goes out, what is to be written comes in.
//!
//! Both ways go by Python's buffer protocol, which numpy and torch speak. Nothing is copied, and who
//! looks at the memory keeps it alive.
#![expect(unsafe_code, reason = "the buffer protocol is one of raw pointers")]

use std::ffi::c_int;
use std::ptr::NonNull;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::{ffi, types::PyAny};
use stream::Loaded;

/// The memory of one load. All its tensors share it; it is freed with the last that looks at it.
#[pyclass(frozen, module = "seatrial_tensors._native")]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
    /// Owns what the pointer leads to, and is not touched again.
    _loaded: Loaded,
}

// SAFETY: the memory is a mapping of its own that stays where it is for as long as `_loaded` lives, and
// nothing in Rust reads or writes it after `new`. Python's threads see it under Python's rules.
unsafe impl Send for Memory {}
// SAFETY: as above; the pointer itself never changes.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(mut loaded: Loaded) -> Self {
        let bytes = loaded.memory_mut();
        let len = bytes.len();
        let start = NonNull::from(bytes).cast();
        Self { start, len, _loaded: loaded }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.len
    }

    /// Writable, since it is private memory and torch warns of what is not.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let memory = slf.get();
        let len = ffi::Py_ssize_t::try_from(memory.len)
            .map_err(|_| PyBufferError::new_err("the memory is too large for a view"))?;
        let start = memory.start.as_ptr().cast();
        // SAFETY: the view is Python's and not null; it takes a reference to the object, which keeps
        // the memory where it is.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Bytes of a Python object, for as long as this lives.
pub(crate) struct Lent(PyBuffer<u8>);

impl Lent {
    /// Fails if the object does not lend bytes that lie one after the other.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::get(object)?;
        if buffer.as_slice_ptr().is_none() {
            return Err(PyValueError::new_err("these bytes do not lie one after the other"));
        }
        Ok(Self(buffer))
    }

    /// The bytes. Whoever changes them at the same time, in another thread, changes what is written.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self.0.as_slice_ptr().filter(|bytes| !bytes.is_empty()) {
            // SAFETY: the buffer is contiguous, not empty, and held as long as `self`. That nobody
            // writes to it meanwhile is asked of the caller, as by every writer of the kind.
            Some(bytes) => unsafe { bytes.as_ref() },
            None => &[],
        }
    }
}
