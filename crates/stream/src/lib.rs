//! Model weights from files into memory, as fast as the machine allows.
//!
//! Reads and writes the file format of coreweave/tensorizer, versions 1 to 5, and safetensors. A
//! [`Model`] is an opened file; [`Model::load`] brings it into memory, [`Model::read`] one tensor of
//! it, [`Model::verify`] compares its hashes, [`Model::convert`] and [`write()`] make others.
//!
//! What is read from a file is never trusted: whatever its bytes are, the outcome is an error that
//! names the place or the tensor, not a panic, nor more memory than the file is large. (Deriving a
//! key takes what the file asks for, 1 GiB at most.) Keys are wiped when dropped and never shown.
//!
//! The crate knows nothing of Kubernetes, of networks or of devices, and converts no element.

mod error;
mod format;
mod load;
mod local;
mod model;
mod seal;
mod verify;
mod write;

pub use error::{Error, Flaw};
pub use format::dtype::Dtype;
pub use format::layout::{Layout, Spec, Unwritable};
pub use format::name::{Name, Segment};
pub use format::record::HashKind;
pub use format::{Kind, Malformed};
pub use load::{Load, Loaded};
pub use local::read::Access;
pub use model::{Format, Model, Tensor};
pub use seal::{KeyError, Secret};
pub use verify::Verdict;
pub use write::{Convert, Form, Written, write};
