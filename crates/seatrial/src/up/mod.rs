//! A whole site in one process: API server, controllers, simulated hardware and what runs on it.

pub(crate) mod detach;
pub(crate) mod run;
