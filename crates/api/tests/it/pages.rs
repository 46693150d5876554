//! Every condition has a page, every reason a section, and nothing is explained that is not there.

use std::path::Path;

#[test]
fn every_reason_is_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conditions");
    let mut wrong = Vec::new();
    let mut known = vec!["README.md".to_owned()];
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for condition in api::condition::documented() {
        let file = format!("{}.md", condition.name);
        let page = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        let setter = match condition.setter {
            api::condition::Setter::Anybody => "Set by anybody".to_owned(),
            api::condition::Setter::Manager(name) => format!("Set by `{name}`."),
        };
        if !index.contains(&format!("({file})")) {
            wrong.push(format!("README.md does not name {file}"));
        }
        for needed in [condition.meaning.trim(), &setter] {
            if !page.contains(needed) {
                wrong.push(format!("docs/conditions/{file} does not say {needed:?}"));
            }
        }
        for (reason, meaning) in &condition.reasons {
            let section = format!("\n## {reason}\n\n{}\n", meaning.trim());
            let explained = page.split_once(&section).map(|(_, rest)| rest);
            if explained
                .is_none_or(|rest| rest.trim_start().starts_with('#') || rest.trim().is_empty())
            {
                wrong.push(format!("docs/conditions/{file} lacks the section and advice{section}"));
            }
        }
        let sections = page.lines().filter_map(|line| line.strip_prefix("## "));
        for section in sections.filter(|s| condition.reasons.iter().all(|(reason, _)| reason != s))
        {
            wrong.push(format!("docs/conditions/{file} explains {section}, which is no reason"));
        }
        known.push(file);
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !known.contains(&name) {
            wrong.push(format!("docs/conditions/{name} is about no condition"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
