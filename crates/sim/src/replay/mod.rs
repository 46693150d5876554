//! Last year's faults, again: what the fleet would have done about them.
//!
//! [`trace`] reads a recorded trace and [`show`] says what each fault looks like from outside. What came
//! of it is in [`findings`], from which [`report`] makes `report.json`; the text for a terminal and
//! `report.html` come from there too. [`seats`] and [`ettr`] measure what jobs had of their time.

pub mod ettr;
pub mod findings;
mod html;
mod plot;
pub mod report;
pub mod run;
pub mod seats;
pub mod show;
pub mod text;
pub mod trace;
