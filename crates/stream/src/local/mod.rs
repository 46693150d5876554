//! Local files: memory to read into, a plan of what is read where, and threads that carry it out.

pub(crate) mod arena;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod read;
