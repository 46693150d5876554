//! A whole site in one process: API server, controllers, simulated hardware and what runs on it.
//!
//! What is real: the API, the controllers, the protocols between them and the hardware. What is
//! simulated says so. The hardware's state lies in a file of its own, so that killing the process is a
//! crash of the control plane and not a power cut.

pub(crate) mod control;
pub(crate) mod detach;
pub(crate) mod display;
pub(crate) mod hold;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod site;
pub(crate) mod watch;
