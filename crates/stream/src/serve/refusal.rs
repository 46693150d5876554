//! An answer that gives nothing: a status, and one line that says why.

use std::io;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) line: String,
}

impl Refusal {
    pub(super) fn new(status: u16, line: impl Into<String>) -> Self {
        Self { status, line: line.into() }
    }

    /// Whatever the reason is that a name is not served: who asks learns no more of what is there.
    pub(super) fn missing() -> Self {
        Self::new(404, "nothing is there")
    }

    /// What the system said of a file that is there.
    pub(super) fn of_file(error: &io::Error) -> Self {
        Self::new(500, format!("the file cannot be read: {error}"))
    }
}

/// What stands behind a status in an answer's first line (RFC 9110, 15).
pub(super) const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
