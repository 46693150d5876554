//! What runs on every machine: says what it is, tests it, and notices what breaks.
