//! Model weights into memory, as fast as the machine allows: from files, over HTTP and from S3.
//!
//! Reads and writes the file format of coreweave/tensorizer, versions 1 to 5, and safetensors. A
//! [`Model`] is an opened file or object; [`Model::load`] brings it into memory, [`Model::read`] one
//! tensor of it, [`Model::verify`] compares its hashes, [`Model::convert`] and [`write()`] make others,
//! and a [`Writer`] one that comes in parts.
//! A [`Location`] says where it lies, a [`Remote`] how what lies elsewhere is reached. A [`Server`] gives
//! models to others, from a directory or from a cache in front of where they lie.
//!
//! What is read is never trusted: whatever its bytes are, the outcome is an error that names the place
//! or the tensor, not a panic, nor more memory than the file is large. (Deriving a key takes what the
//! file asks for, 1 GiB at most.) Keys and credentials are wiped when dropped and never shown.
//!
//! The crate knows nothing of Kubernetes or of devices, and converts no element.

mod arena;
mod error;
mod format;
mod load;
mod local;
mod location;
mod model;
mod plan;
mod pool;
mod reader;
mod remote;
mod s3;
mod seal;
mod serve;
mod source;
mod verify;
mod write;

pub use error::{Error, Flaw};
pub use format::crypt::Derivation;
pub use format::dtype::Dtype;
pub use format::layout::{Layout, Spec, Unwritable};
pub use format::name::{Name, Segment};
pub use format::record::HashKind;
pub use format::{Kind, Malformed};
pub use load::{Load, Loaded};
pub use local::Access;
pub use location::Location;
pub use model::{Format, Model, Tensor};
pub use reader::Reader;
pub use remote::url::BadUrl;
pub use remote::{Fault, Patience, Remote, Traffic};
pub use s3::{Addressing, Credentials, CredentialsError, S3, Signer, presign};
pub use seal::{KeyError, Secret};
pub use serve::{Cached, Limits, Origin, Peers, ServeError, Served, Server};
pub use verify::Verdict;
pub use write::{Convert, Destination, Form, Writer, Written, write};
