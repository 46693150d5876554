//! Worlds without hardware.
//!
//! [`explore`] drives the shipped decisions through many orders of events and holds what happens
//! against a hidden truth.

pub mod explore;
