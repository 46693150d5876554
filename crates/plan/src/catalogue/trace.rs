//! How the faults of a recorded trace show themselves: from the words of the trace to rows of the
//! catalogue, with what is recorded told from what we assume.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Catalogue;
use super::error::{CatalogueError, UnknownWord};
use super::fields::{Context, Fields};
use super::policy::Step;
use super::row::RowId;
use crate::words::words;

const FILE: (&str, &str) = ("trace.yaml", include_str!("../../catalogue/trace.yaml"));
const KNOWN: &[&str] = &["basis", "class", "cures", "desc", "level", "shows"];

words! {
    /// Does the trace itself name the symptom?
    pub enum Basis {
        /// The words of the trace name what was seen.
        Recorded = "recorded",
        /// We had to choose a symptom.
        Assumed = "assumed",
    }
}

/// The words with which a trace names a kind of fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceWords {
    /// Such as `Hardware Failure`.
    pub level: String,
    /// Such as `GPU`.
    pub class: String,
    /// Such as `GPU Lost`.
    pub desc: String,
}

/// What one kind of fault of a trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Is the symptom recorded or assumed?
    pub basis: Basis,
    /// The rows of the catalogue that it shows, one of them for each fault, and their shares.
    pub shows: Vec<(RowId, u32)>,
    /// Which step ends it, in percent that add up to 100. Always assumed.
    pub cures: Vec<(Step, u32)>,
}

/// The mapping for every kind of fault of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMap(BTreeMap<TraceWords, TraceRow>);

impl TraceMap {
    /// The built-in mapping with a site's files laid over it, row by row.
    ///
    /// # Errors
    /// Everything that is wrong with the site's files, up to a hundred faults.
    pub fn load(catalogue: &Catalogue, site: &[(&str, &str)]) -> Result<Self, Vec<CatalogueError>> {
        let errors = RefCell::new(Vec::new());
        let mut rows = BTreeMap::new();
        for (file, text) in std::iter::once(&FILE).chain(site) {
            let value = serde_saphyr::from_str::<Value>(text).unwrap_or(Value::Null);
            let Some(list) = value.get("rows").and_then(Value::as_array) else {
                errors.borrow_mut().push(CatalogueError {
                    file: (*file).to_owned(),
                    row: None,
                    field: Some("rows".to_owned()),
                    reason: "must be YAML with a list of rows".to_owned(),
                });
                continue;
            };
            for (index, row) in list.iter().enumerate() {
                let name = format!("{}", index + 1);
                let files = BTreeMap::new();
                let context = Context { row: &name, file, files: &files, errors: &errors };
                let none = Map::new();
                let map = row.as_object().unwrap_or(&none);
                rows.extend(read(&Fields::new(&context, map, KNOWN), map, catalogue));
            }
        }
        let errors = errors.into_inner();
        if errors.is_empty() { Ok(Self(rows)) } else { Err(errors) }
    }

    /// What a fault with these words shows; none when the words are not known.
    #[must_use]
    pub fn row(&self, words: &TraceWords) -> Option<&TraceRow> {
        self.0.get(words)
    }

    /// Every kind of fault.
    pub fn rows(&self) -> impl Iterator<Item = (&TraceWords, &TraceRow)> {
        self.0.iter()
    }

    /// The known words that are spelled most like these, for a warning.
    #[must_use]
    pub fn nearest(&self, words: &TraceWords) -> Option<&TraceWords> {
        let bounded = |text: &str| text.chars().take(64).collect::<String>();
        let [level, class, desc] = [&words.level, &words.class, &words.desc].map(|w| bounded(w));
        self.0.keys().min_by_key(|known| {
            strsim::damerau_levenshtein(&desc, &known.desc) * 2
                + strsim::damerau_levenshtein(&class, &known.class) * 2
                + strsim::damerau_levenshtein(&level, &known.level)
        })
    }
}

fn read(
    fields: &Fields<'_>,
    map: &Map<String, Value>,
    catalogue: &Catalogue,
) -> Option<(TraceWords, TraceRow)> {
    let words = TraceWords {
        level: fields.text("level")?,
        class: fields.text("class")?,
        desc: fields.text("desc")?,
    };
    let basis = fields.word("basis")?;
    let names = map.get("shows").and_then(Value::as_object).map(|shows| shows.keys());
    let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
    let shares = fields.map("shows", &names)?;
    let mut shows = Vec::new();
    for name in names {
        if catalogue.row(name).is_none() {
            let ids = catalogue.rows().map(|row| row.id.as_str());
            shares.wrong(name, format!("row {}", UnknownWord::new(name, ids)));
        }
        shows.push((RowId::from(name), share(&shares, name)?));
    }
    if shows.is_empty() {
        fields.wrong("shows", "must name at least one row");
    }
    let steps: Vec<&str> = Step::ALL.iter().map(|step| step.as_str()).collect();
    let percent = fields.map("cures", &steps)?;
    let mut cures = Vec::new();
    for step in Step::ALL.iter().filter(|step| percent.has(step.as_str())) {
        cures.push((*step, share(&percent, step.as_str())?));
    }
    let sum: u32 = cures.iter().map(|(_, percent)| percent).sum();
    if sum != 100 {
        fields.wrong("cures", format!("must add up to 100, not {sum}"));
    }
    Some((words, TraceRow { basis, shows, cures }))
}

fn share(fields: &Fields<'_>, name: &str) -> Option<u32> {
    u32::try_from(fields.number(name, 1, 100)?).ok()
}
