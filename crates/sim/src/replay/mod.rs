//! Last year's faults, again: what the fleet would have done about them.
//!
//! [`trace`] reads a recorded trace, [`show`] says what each fault looks like from outside, and
//! [`ettr`] measures what jobs would have had of their time.

pub mod ettr;
pub mod show;
pub mod trace;
