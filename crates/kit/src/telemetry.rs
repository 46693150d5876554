//! Log lines on standard error: one event, one line, `key=value` throughout.
//!
//! ```text
//! 2026-01-02T03:04:05.000006Z level=info target=apiserver::serve msg="listening" address=127.0.0.1:6443
//! ```
//!
//! Values with blanks, quotes or control characters are quoted and escaped, so no input can forge a
//! second line. Our own crates speak from `info` up, everyone else's from `warn`; the environment
//! variable [`FILTER_VARIABLE`] replaces that, in tracing's directive syntax.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::clock::{Clock, rfc3339_micros};

/// The environment variable that says what is logged, for example `debug` or `warn,apiserver=trace`.
pub const FILTER_VARIABLE: &str = "SEATRIAL_LOG";

/// Libraries report trouble only; what changes in the world is for our own crates to tell.
const DEFAULT_FILTER: &str = "warn,apiserver=info,kit=info,seatrial=info,store=info";

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter is not valid directive syntax.
    #[error("parse the log filter in {FILTER_VARIABLE}, {filter:?}")]
    ParseFilter {
        /// What the variable held.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The process already logs somewhere.
    #[error("install the log subscriber")]
    Install(#[source] TryInitError),
}

/// Starts logging for the whole process; `clock` stamps the lines.
pub fn init(clock: Clock) -> Result<(), InitError> {
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(filter) if !filter.trim().is_empty() => filter,
        _ => DEFAULT_FILTER.to_owned(),
    };
    let filter = EnvFilter::builder()
        .parse(&filter)
        .map_err(|source| InitError::ParseFilter { filter, source })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .fmt_fields(Logfmt { clock: clock.clone() })
        .event_format(Logfmt { clock })
        .finish()
        .try_init()
        .map_err(InitError::Install)
}

/// The line format.
struct Logfmt {
    clock: Clock,
}

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warn",
            tracing::Level::INFO => "info",
            tracing::Level::DEBUG => "debug",
            tracing::Level::TRACE => "trace",
        };
        let time = rfc3339_micros(self.clock.now());
        write!(out, "{time} level={level} target={}", metadata.target())?;
        write_fields(&mut out, event)?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>() {
                out.write_str(fields)?;
            }
        }
        out.write_char('\n')
    }
}

impl FormatFields<'_> for Logfmt {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'_>, fields: R) -> fmt::Result {
        write_fields(&mut out, fields)
    }
}

/// Writes every field as ` key=value`, the message under `msg`.
fn write_fields(out: &mut Writer<'_>, fields: impl RecordFields) -> fmt::Result {
    struct Fields<'a, 'w> {
        out: &'a mut Writer<'w>,
        result: fmt::Result,
    }

    impl Visit for Fields<'_, '_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.record_debug(field, &format_args!("{value}"));
        }

        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            let key = if field.name() == "message" { "msg" } else { field.name() };
            self.result = self.result.and_then(|()| write!(self.out, " {key}="));
            self.result = self.result.and_then(|()| write_value(self.out, &format!("{value:?}")));
        }
    }

    let mut fields_out = Fields { out, result: Ok(()) };
    fields.record(&mut fields_out);
    fields_out.result
}

/// Bare when that is unambiguous, else quoted and escaped.
fn write_value(out: &mut Writer<'_>, value: &str) -> fmt::Result {
    let bare = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\');
    if !value.is_empty() && value.chars().all(bare) {
        out.write_str(value)
    } else {
        write!(out, "{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Captured {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// What `log` writes, without the time at the start.
    fn logged(filter: &str, log: impl FnOnce()) -> String {
        let captured = Captured::default();
        let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::builder().parse(filter).unwrap())
            .with_writer(captured.clone())
            .fmt_fields(Logfmt { clock: clock.clone() })
            .event_format(Logfmt { clock })
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned() + "\n").collect()
    }

    #[test]
    fn one_event_is_one_line() {
        let log = || {
            let span = tracing::info_span!("request", user = "alice");
            let _entered = span.enter();
            tracing::info!(target: "apiserver", code = 200, path = "/api v1", "served\nlevel=error");
        };
        assert_eq!(
            logged("info", log),
            "level=info target=apiserver msg=\"served\\nlevel=error\" code=200 path=\"/api v1\" \
             user=alice\n"
        );
    }

    #[test]
    fn values_are_quoted_only_when_they_must_be() {
        let check = |value: &str, expect: &str| {
            let line = logged("info", || tracing::info!(target: "t", value));
            assert_eq!(line, format!("level=info target=t value={expect}\n"));
        };
        check("plain", "plain");
        check("10.0.0.1:6443", "10.0.0.1:6443");
        check("", "\"\"");
        check("a b", "\"a b\"");
        check("a\"b", "\"a\\\"b\"");
        check("a=b", "\"a=b\"");
        check("\u{1b}[31m", "\"\\u{1b}[31m\"");
    }

    #[test]
    fn by_default_libraries_warn_and_we_inform() {
        let log = || {
            tracing::info!(target: "hyper::proto", "chatter");
            tracing::warn!(target: "hyper::proto", "trouble");
            tracing::info!(target: "apiserver::serve", "listening");
            tracing::debug!(target: "apiserver::serve", "detail");
        };
        assert_eq!(
            logged(DEFAULT_FILTER, log),
            "level=warn target=hyper::proto msg=trouble\n\
             level=info target=apiserver::serve msg=listening\n"
        );
    }
}
