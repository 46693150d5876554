//! `/healthz`, `/livez` and `/readyz`.
//!
//! A server that answers is well: all that it needs is in its own process. The checks are named so
//! that probes written for a kube-apiserver find theirs.

use http::Response;

use crate::request::Query;
use crate::wire;
use crate::wire::body::ResponseBody;

const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// Answers for all checks, or for the one that the path names.
pub(super) fn answer(which: &str, part: &[&str], query: Option<&str>) -> Response<ResponseBody> {
    match part {
        [] => wire::guarded(wire::text(summary(which, &Query::parse(query)))),
        [check] if CHECKS.contains(check) => wire::text("ok"),
        _ => wire::no_page(),
    }
}

fn summary(which: &str, query: &Query) -> String {
    if query.all("verbose").next().is_none() {
        return "ok".to_owned();
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    for check in CHECKS {
        let result = if excluded.contains(&check) { "excluded: ok" } else { "ok" };
        lines.push_str(&format!("[+]{check} {result}\n"));
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|e| !CHECKS.contains(e)).map(|e| format!("{e:?}")).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {unknown}\n"
        ));
    }
    lines + which + " check passed\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_as_long_as_asked() {
        for (query, want) in [
            ("", "ok"),
            ("exclude=ping", "ok"),
            ("verbose", "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"),
            (
                "verbose=1&exclude=log&exclude=x",
                "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nlivez check passed\n",
            ),
        ] {
            assert_eq!(summary("livez", &Query::parse(Some(query))), want, "{query}");
        }
    }
}
