//! What a request asks for, to a path that stays where it is asked from.
//!
//! Pure. A path here is names with a slash between: none is empty, `.` or `..`, none is hidden or has
//! the ending of a temporary file. What a name leads to (a symbolic link) is
//! [`folder`](super::folder)'s to see.

use super::refusal::Refusal;

/// Endings of files that somebody is writing or has left behind.
const TEMPORARY: [&str; 5] = [".tmp", ".temp", ".part", ".partial", "~"];

/// Reads a request's target: its query is left out, `%XX` decoded.
pub(super) fn parse(target: &str) -> Result<String, Refusal> {
    // The absolute form, which whoever asks a proxy uses (RFC 9112, 3.2.2).
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map(|at| &rest[at..]),
        _ => Some(target),
    };
    let path = path.and_then(|path| path.split(['?', '#']).next()?.strip_prefix('/'));
    let path = path.ok_or_else(|| Refusal::new(400, "the path begins with no slash"))?;
    let mut names = Vec::new();
    for name in path.split('/') {
        let name = decoded(name)?;
        let odd = name.contains('/') || name.chars().any(char::is_control);
        let temporary = TEMPORARY.iter().any(|ending| name.ends_with(ending));
        // `.` and `..` begin with a dot too.
        if name.is_empty() || name.starts_with('.') || odd || temporary {
            return Err(Refusal::missing());
        }
        names.push(name);
    }
    Ok(names.join("/"))
}

fn decoded(name: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::new(400, "the path has a % without two hexadecimal digits");
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (high, low) = digit(0).zip(digit(1)).ok_or_else(wrong)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| Refusal::missing())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(target: &str) -> Result<String, u16> {
        parse(target).map_err(|refusal| refusal.status)
    }

    #[test]
    fn a_path_is_names() {
        assert_eq!(told("/a%20b/c.tensors?x=/../y"), Ok("a b/c.tensors".to_owned()));
        assert_eq!(told("http://host:80/m%C3%B6del"), Ok("mödel".to_owned()));
        assert_eq!(told("/a:b://c"), Err(404));
    }

    #[test]
    fn no_path_leads_elsewhere() {
        for target in [
            "/",
            "//a",
            "/a/",
            "/.",
            "/..",
            "/a/../b",
            "/%2e%2e/x",
            "/%2E./x",
            "/..%2fx",
            "/a%2fb",
            "/.hidden",
            "/a/.git/config",
            "/a%00",
            "/a%0a",
            "/a.tmp",
            "/a~",
            "/%ff",
            "/a.part",
        ] {
            assert_eq!(told(target), Err(404), "{target}");
        }
        for target in ["", "*", "a", "/%", "/%2", "/%zz", "/%+1", "http://host"] {
            assert_eq!(told(target), Err(400), "{target}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_the_path_stays_below(target in "/?([a./%~\\\\]|%2e|%2f|%00|ä){0,20}") {
            if let Ok(path) = parse(&target) {
                prop_assert!(path.split('/').all(|name| !name.is_empty() && !name.starts_with('.')));
                prop_assert!(!path.contains('\0'));
            }
        }
    }
}
