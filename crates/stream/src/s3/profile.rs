//! The shared files of the AWS tools: sections of `name = value`.

use std::collections::HashMap;

/// What one section says. Lines that are indented belong to the setting above them and are left out,
/// as is whatever is none of this.
pub(super) fn section(text: &str, wanted: &[&str]) -> Option<HashMap<String, String>> {
    let mut found: Option<HashMap<String, String>> = None;
    let mut inside = false;
    for line in text.lines() {
        if let Some(rest) = line.trim_start().strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            inside = wanted.contains(&name.as_str());
            if inside {
                found.get_or_insert_default();
            }
            continue;
        }
        if !inside || line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let (Some(found), Some((name, value))) = (&mut found, line.split_once('=')) {
            found.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read() {
        let text = "# first\n[default]\nregion = a\n[profile  two ]\n region = inner\nRegion=b\n\
            s3 =\n  addressing_style = path\nbroken\nempty =\n";
        let of = |wanted: &[&str], name: &str| section(text, wanted).map(|s| s.get(name).cloned());
        assert_eq!(of(&["default"], "region"), Some(Some("a".to_owned())));
        assert_eq!(of(&["profile two"], "region"), Some(Some("b".to_owned())));
        assert_eq!(of(&["profile two"], "addressing_style"), Some(None));
        assert_eq!(of(&["three"], "region"), None);
    }
}
