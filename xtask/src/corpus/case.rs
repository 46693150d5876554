//! The written form of the cases: YAML files of scripted HTTP exchanges.
//!
//! ```yaml
//! let: {cms: "/api/v1/namespaces/<ns>/configmaps"}
//! cases:
//! - name: update-stale
//!   steps:
//!   - do: POST <cms>                # or PUT, DELETE, JSONPATCH, MERGE, STRATEGIC, APPLY ...
//!     body: {metadata: {name: a}}
//!     save: {rv: /metadata/resourceVersion}
//!   - do: GET <cms>?watch=1&resourceVersion=<rv>
//!     as: alice                     # admin if not said; also bob and anonymous
//!     stream: w
//!   - {collect: w, events: 1}
//!   - do: PUT <cms>/a
//!     protobuf: {apiVersion: v1, kind: ConfigMap}   # sent as a typed client encodes it
//!   - do: PUT <cms>/a
//!     base64: azhzAA==              # these bytes, as protobuf
//! ```
//!
//! Every case knows `<ns>` (a namespace of its own), `<id>` (a unique name), `<own>` (an API group
//! of its own), `<group>` (the file's), `<run>` and `<fill:N>` (N letters).
//!
//! Guarantees that what `load` returns is well formed: known fields only, every step of one kind,
//! names unique. Deliberately holds no expected answers: the reference server gives those.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Values by name, written `<name>` where they are used.
pub(crate) type Vars = BTreeMap<String, Value>;

/// One file: cases that share values and preparation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(skip)]
    pub(crate) name: String,
    /// Values for all cases of the file.
    #[serde(default, rename = "let")]
    pub(crate) vars: Vars,
    /// Run once before the file's cases; not compared.
    #[serde(default)]
    pub(crate) once: Vec<Step>,
    /// Run before each case; not compared.
    #[serde(default)]
    pub(crate) before: Vec<Step>,
    pub(crate) cases: Vec<Case>,
}

/// A script whose answers must all agree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Values for this case; they hide the file's.
    #[serde(default, rename = "let")]
    pub(crate) vars: Vars,
    pub(crate) steps: Vec<Step>,
}

/// One exchange, or the collection of a stream's events.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct Step {
    pub(crate) action: Action,
    /// Values for later steps: a JSON pointer into the answer's body, or `header:<name>`.
    pub(crate) save: BTreeMap<String, String>,
    /// Compare only these parts of the body (JSON pointers; `field=value` is the item that is so).
    pub(crate) pick: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Request(Request),
    /// Bytes sent as they are, for requests that no client library would send.
    Raw(String),
    /// Reads events of a stream until there are that many, it ends, or patience does.
    Collect {
        stream: String,
        events: usize,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) user: String,
    /// `None` removes a header that would be sent otherwise.
    pub(crate) headers: BTreeMap<String, Option<String>>,
    pub(crate) body: Body,
    /// Leave the answer open under this name.
    pub(crate) stream: Option<String>,
    /// Ask again until the answer is like this, or patience ends.
    pub(crate) until: Option<Until>,
}

/// What a request carries.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Nothing,
    /// A string is sent as it is, all else as JSON.
    Plain(Value),
    /// An object, sent as protobuf.
    Protobuf(Value),
    Bytes(Vec<u8>),
}

/// What an answer must have, for steps that wait for a server's own later work.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Until {
    Status(u16),
    /// A JSON pointer to something in the body.
    Has(String),
}

/// A step as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "do")]
    request: Option<String>,
    #[serde(rename = "as")]
    user: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    body: Option<Value>,
    protobuf: Option<Value>,
    base64: Option<String>,
    stream: Option<String>,
    until: Option<Until>,
    raw: Option<String>,
    collect: Option<String>,
    events: Option<usize>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    #[serde(default)]
    pick: Vec<String>,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Words that may stand for PATCH, with the media type that each implies.
const PATCHES: [(&str, &str); 4] = [
    ("JSONPATCH", "application/json-patch+json"),
    ("MERGE", "application/merge-patch+json"),
    ("STRATEGIC", "application/strategic-merge-patch+json"),
    ("APPLY", "application/apply-patch+yaml"),
];

impl TryFrom<Written> for Step {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let kinds = [&written.request, &written.raw, &written.collect];
        if kinds.iter().filter(|kind| kind.is_some()).count() != 1 {
            return Err("a step has one of `do`, `raw` and `collect`".into());
        }
        let bodies = [written.body.is_some(), written.protobuf.is_some(), written.base64.is_some()];
        if bodies.iter().filter(|there| **there).count() > 1 {
            return Err("a step has one of `body`, `protobuf` and `base64`".into());
        }
        let media = if written.body.is_some() { "application/json" } else { PROTOBUF };
        let body = match (written.body, written.protobuf, written.base64) {
            (Some(body), ..) => Body::Plain(body),
            (_, Some(object), _) => Body::Protobuf(object),
            (.., Some(text)) => {
                Body::Bytes(STANDARD.decode(text).map_err(|error| error.to_string())?)
            }
            _ => Body::Nothing,
        };
        let action = if let Some(line) = written.request {
            let (word, path) = line.split_once(' ').ok_or("`do` is a method and a path")?;
            let mut headers = BTreeMap::new();
            let patch = PATCHES.iter().find(|(name, _)| *name == word);
            if let Some((_, media)) = patch {
                headers.insert("content-type".to_owned(), Some((*media).to_owned()));
            } else if !matches!(body, Body::Nothing) {
                headers.insert("content-type".to_owned(), Some(media.to_owned()));
            }
            headers.insert("accept".to_owned(), Some("application/json".to_owned()));
            let given = written.headers.into_iter().map(|(k, v)| (k.to_ascii_lowercase(), v));
            headers.extend(given);
            Action::Request(Request {
                method: if patch.is_some() { "PATCH" } else { word }.to_owned(),
                path: path.trim().to_owned(),
                user: written.user.unwrap_or_else(|| "admin".to_owned()),
                headers,
                body,
                stream: written.stream,
                until: written.until,
            })
        } else if let Some(bytes) = written.raw {
            Action::Raw(bytes)
        } else {
            let events = written.events.ok_or("`collect` needs `events`")?;
            Action::Collect { stream: written.collect.unwrap_or_default(), events }
        };
        Ok(Self { action, save: written.save, pick: written.pick })
    }
}

/// A difference that we accept, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deviation {
    /// `file/case`, where a final `*` stands for any rest.
    pub(crate) case: String,
    pub(crate) reason: String,
}

impl Deviation {
    pub(crate) fn covers(&self, name: &str) -> bool {
        match self.case.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.case,
        }
    }
}

const DEVIATIONS: &str = "deviations.yaml";

/// Reads every file of the corpus, in order of name.
pub(crate) fn load(dir: &Path) -> Result<Vec<File>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension().is_some_and(|end| end == "yaml") && !path.ends_with(DEVIATIONS)
    });
    paths.sort();
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> Result<File> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?;
    let mut file: File = parse(&text).with_context(|| format!("cannot parse {path:?}"))?;
    file.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut seen = HashSet::new();
    for case in &file.cases {
        ensure!(seen.insert(&case.name), "{path:?}: two cases are named {}", case.name);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(case.name.chars().all(plain), "{path:?}: {} is no DNS label", case.name);
        if case.steps.is_empty() {
            bail!("{path:?}: case {} has no steps", case.name);
        }
    }
    Ok(file)
}

/// Reads the accepted deviations; none if there is no such file.
pub(crate) fn deviations(dir: &Path) -> Result<Vec<Deviation>> {
    let path = dir.join(DEVIATIONS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
    parse(&text).with_context(|| format!("cannot parse {path:?}"))
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    // YAML 1.2: `on` and `no` are words, as they are to JSON's readers.
    let options = serde_saphyr::options! { strict_booleans: true };
    Ok(serde_saphyr::from_str_with_options(text, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<Step> {
        parse(text)
    }

    #[test]
    fn patch_words_imply_their_media_type() {
        let step = step("do: MERGE /x\nbody: {a: 1}").unwrap();
        let Action::Request(request) = step.action else { panic!("a request") };
        assert_eq!(request.method, "PATCH");
        let media = request.headers["content-type"].as_deref();
        assert_eq!(media, Some("application/merge-patch+json"));
    }

    #[test]
    fn steps_of_no_or_two_kinds_are_refused() {
        for text in [
            "as: bob",
            "do: POST /x\nbody: {}\nprotobuf: {}",
            "do: GET /x\ncollect: w",
            "collect: w",
            "do: GET",
            "what: 1",
        ] {
            assert!(step(text).is_err(), "{text}");
        }
    }

    #[test]
    fn deviations_cover_names_and_prefixes() {
        let check = |case: &str, name: &str, expect: bool| {
            let deviation = Deviation { case: case.into(), reason: String::new() };
            assert_eq!(deviation.covers(name), expect, "{case} on {name}");
        };
        check("crud/a", "crud/a", true);
        check("crud/a", "crud/ab", false);
        check("crud/*", "crud/ab", true);
    }
}
