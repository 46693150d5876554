//! Which answer a request gets: its conditions held against what is there, in the order of RFC 9110,
//! 13.2.2.
//!
//! Pure. Entity tags here are strong, so that a condition that holds means the same bytes.

use std::ops::Range;

use jiff::Timestamp;

use super::range::{Span, resolve};
use super::request::Request;

/// What tells a version from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len: u64,
    /// With its quotes.
    pub(super) etag: String,
    /// To the second.
    pub(super) modified: Option<Timestamp>,
}

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    Part(Range<u64>),
    NotModified,
    Failed,
    Beyond,
}

/// What is answered to a request of something that is there.
pub(super) fn of(request: &Request, version: &Version) -> Verdict {
    let conditions = &request.conditions;
    let since = |field: &Option<String>| {
        let asked = field.as_deref().and_then(date)?;
        Some(version.modified? > asked)
    };
    let failed = match &conditions.matches {
        Some(tags) => !listed(tags, &version.etag, false),
        None => since(&conditions.unmodified_since) == Some(true),
    };
    if failed {
        return Verdict::Failed;
    }
    let known = match &conditions.none_match {
        Some(tags) => listed(tags, &version.etag, true),
        None => since(&conditions.modified_since) == Some(false),
    };
    if known {
        return Verdict::NotModified;
    }
    let current = conditions.range.as_ref().is_none_or(|range| {
        range.trim() == version.etag
            || version.modified.is_some() && date(range) == version.modified
    });
    match request.range.as_ref().filter(|_| current).map(|range| resolve(range, version.len)) {
        None | Some(Span::Whole) => Verdict::Whole,
        Some(Span::Part(range)) => Verdict::Part(range),
        Some(Span::Beyond) => Verdict::Beyond,
    }
}

/// Whether a tag is in a list of them, or the list is `*`. A weak tag is never the same bytes, and
/// good enough to know what one has.
fn listed(tags: &str, etag: &str, weak_too: bool) -> bool {
    let mut rest = tags.trim();
    if rest == "*" {
        return true;
    }
    // A tag may have a comma in it (RFC 9110, 8.8.3), so that they are not parted by commas alone.
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let weak = rest.strip_prefix("W/");
        let tag = weak.unwrap_or(rest);
        let Some(len) = tag.strip_prefix('"').and_then(|inner| inner.find('"')) else {
            return false;
        };
        let (tag, after) = tag.split_at(len + 2);
        if tag == etag && (weak.is_none() || weak_too) {
            return true;
        }
        rest = after;
    }
}

/// A date of HTTP. Anything else is as if it were not there.
pub(super) fn date(text: &str) -> Option<Timestamp> {
    Some(jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::super::request::Conditions;
    use super::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn said(conditions: Conditions) -> Verdict {
        let version = Version { len: 10, etag: "\"a\"".to_owned(), modified: date(THEN) };
        let range = Some("bytes=0-3".to_owned());
        of(&Request { range, conditions, ..Request::default() }, &version)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn conditions_are_held_against_what_is_there() {
        let none = Conditions::default;
        let part = || Verdict::Part(0..4);
        assert_eq!(said(none()), part());
        for (tags, want) in [
            ("\"a\"", part()),
            ("\"b\" , \"a\"", part()),
            ("*", part()),
            ("\"b\"", Verdict::Failed),
            ("W/\"a\"", Verdict::Failed),
        ] {
            assert_eq!(said(Conditions { matches: some(tags), ..none() }), want, "{tags}");
        }
        for (tags, want) in [
            ("\"a\"", Verdict::NotModified),
            ("W/\"a\"", Verdict::NotModified),
            ("*", Verdict::NotModified),
            ("\"b\"", part()),
        ] {
            assert_eq!(said(Conditions { none_match: some(tags), ..none() }), want, "{tags}");
        }
        for (when, want) in [(BEFORE, Verdict::Failed), (THEN, part()), ("soon", part())] {
            assert_eq!(said(Conditions { unmodified_since: some(when), ..none() }), want, "{when}");
        }
        for (when, want) in [(BEFORE, part()), (THEN, Verdict::NotModified), ("soon", part())] {
            assert_eq!(said(Conditions { modified_since: some(when), ..none() }), want, "{when}");
        }
        for (range, want) in [
            ("\"a\"", part()),
            ("\"b\"", Verdict::Whole),
            ("W/\"a\"", Verdict::Whole),
            (THEN, part()),
            (BEFORE, Verdict::Whole),
            ("soon", Verdict::Whole),
        ] {
            assert_eq!(said(Conditions { range: some(range), ..none() }), want, "{range}");
        }
    }

    #[test]
    fn a_tag_may_have_a_comma_in_it() {
        assert!(listed("\"x\",\"a,b\" , W/\"c\"", "\"a,b\"", false));
        assert!(!listed("\"x,\"a\"", "\"a\"", false), "what is no list ends it");
        for (tags, weak_too) in [("\"x\", W/\"a\"", false), ("\"", true), ("a", true), ("", true)] {
            assert!(!listed(tags, "\"a\"", weak_too), "{tags}");
        }
    }

    #[test]
    fn a_tag_goes_before_a_date() {
        let both = Conditions {
            matches: some("\"a\""),
            unmodified_since: some(BEFORE),
            none_match: some("\"b\""),
            modified_since: some(THEN),
            ..Conditions::default()
        };
        assert_eq!(said(both), Verdict::Part(0..4));
    }
}
