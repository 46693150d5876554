//! A simulated site: hardware behind Redfish, what runs on it, and its people, on any cluster.
//!
//! What is real: the API, the controllers, the protocols between them and the hardware. What is
//! simulated says so. The hardware's state lies in a file of its own, so that killing the process is a
//! crash of the control plane and not a power cut.

mod boots;
pub(crate) mod control;
pub(crate) mod display;
mod elsewhere;
mod hall;
pub(crate) mod hold;
mod inhabitants;
mod objects;
mod play;
mod progress;
pub(crate) mod run;
mod source;
mod story;
mod watch;

pub(crate) use boots::Boots;
pub(crate) use elsewhere::BootUrl;
pub(crate) use hall::{Hall, Settings};
pub(crate) use inhabitants::{Inhabitants, Simulator};
pub(crate) use source::{Asked, Remembered, SiteError, Source};
pub(crate) use story::Story;
