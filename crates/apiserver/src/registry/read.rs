//! Get and list, and the selection that lists and watches share.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use http::StatusCode;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Entry, Revision};

use super::{Call, by_node, keys, read_failed};
use crate::decode;
use crate::request::{ListOptions, Verb, VersionMatch, oldest_version};
use crate::resource::Selectable;
use crate::sabotage::Sabotage;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::ApiError;
use crate::stored::Stored;
use crate::wire::negotiate::{self, Asked, Kinds, View};
use crate::wire::{Answer, Include, List, Presenter};

/// How many entries are looked at between two checks of the limit, when a selector drops some.
const CHUNK: usize = 1_000;

impl Call<'_> {
    /// Writes this call's answers in the form that the client accepts.
    pub(crate) fn presenter(&self, verb: Verb) -> Result<Presenter, ApiError> {
        let asked = match verb {
            Verb::List | Verb::DeleteCollection => Asked::List,
            Verb::Watch => Asked::Watch,
            _ => Asked::Object,
        };
        if !self.resource.is_custom() {
            negotiate::check_route(&self.headers, asked)?;
        }
        let kinds = if self.resource.is_custom() { Kinds::Custom } else { Kinds::BuiltIn };
        let form = negotiate::accept(&self.headers, asked, kinds)?;
        let include = match (form.view, self.query.get("includeObject")) {
            (View::Table(_), Some(text)) => Include::parse(text).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {text:?}: must be 'Metadata', 'Object', 'None', or empty"
                ))
            })?,
            _ => Include::default(),
        };
        let now = self.server.timestamp();
        Ok(Presenter::new(Arc::clone(&self.resource), self.version, form, include, now))
    }

    pub(super) fn get(&mut self) -> Result<Answer, ApiError> {
        if self.subresource.as_deref() == Some("scale") {
            return self.get_scale();
        }
        let (oldest, current) = (oldest_version(&self.query)?, self.server.store().revision().0);
        if oldest > current {
            return Err(ApiError::future_revision(oldest, current));
        }
        let stored = self.load(self.name())?.ok_or_else(|| self.not_found())?;
        Ok(Answer::Stored { code: StatusCode::OK, stored })
    }

    pub(super) fn list(&mut self) -> Result<Answer, ApiError> {
        let options = ListOptions::parse(&self.query, false)?;
        let selection = self.selection(&options)?;
        self.collect(&options, &selection).map(Answer::List)
    }

    /// One page of a list.
    pub(super) fn collect(
        &self,
        options: &ListOptions,
        selection: &Selection,
    ) -> Result<List, ApiError> {
        let store = self.server.store();
        let start = options.continue_token.as_deref().map(ContinueToken::decode).transpose()?;
        let at = match &start {
            Some(token) if token.rv > 0 => Some(Revision(token.rv.unsigned_abs())),
            Some(_) => None,
            None => match options.version {
                VersionMatch::Newest | VersionMatch::Any => None,
                VersionMatch::Exact(revision) => Some(Revision(revision)),
                VersionMatch::NotOlderThan(revision) => {
                    let current = store.revision().0;
                    if revision > current {
                        return Err(ApiError::future_revision(revision, current));
                    }
                    None
                }
            },
        };
        let prefix = keys::prefix(&self.resource, self.namespace.as_deref());
        let mut range = keys::range(&self.resource, self.namespace.as_deref());
        if let Some(token) = &start
            && !Sabotage::FirstPageAlways.is_planted()
        {
            range = range.from_key(format!("{prefix}{}", token.start));
        }
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        let chunk = if selection.is_everything() { limit } else { limit.max(CHUNK) };
        let mut list = List::default();
        if at.is_none()
            && start.is_none()
            && let Some(few) = by_node::range(&self.resource, self.namespace.as_deref(), selection)
        {
            let page = store.list_aliased(&few);
            if page.count <= limit {
                list.revision = page.revision.0;
                for entry in &page.entries {
                    list.items.extend(self.select(entry, selection)?);
                }
                return Ok(list);
            }
        }
        let mut at = at;
        loop {
            let ask = (chunk != usize::MAX).then_some(chunk);
            let page =
                store.list(&range, at, ask).map_err(|e| self.list_failed(e, start.as_ref()))?;
            // Every further page is of the same revision as the first.
            at = Some(page.revision);
            list.revision = page.revision.0;
            let mut entries = page.entries.iter();
            while list.items.len() < limit
                && let Some(entry) = entries.next()
            {
                if let Some(stored) = self.select(entry, selection)? {
                    list.items.push(stored);
                }
                range = range.after(&entry.key);
            }
            let left = entries.len() + page.count - page.entries.len();
            if list.items.len() >= limit && left > 0 {
                let last = range.start();
                let start = last.get(prefix.len()..).unwrap_or_default();
                let start = String::from_utf8_lossy(start).into_owned();
                let rv = i64::try_from(list.revision).unwrap_or(i64::MAX);
                list.continue_token = Some(ContinueToken::new(rv, start).encode());
                list.remaining = selection.is_everything().then_some(left);
            }
            if !page.more || list.items.len() >= limit {
                return Ok(list);
            }
        }
    }

    /// A list at a compacted revision can go on inconsistently, or start anew.
    fn list_failed(&self, error: store::Error, token: Option<&ContinueToken>) -> ApiError {
        match (&error, token) {
            (store::Error::Compacted { .. }, Some(token)) => {
                let inconsistent = ContinueToken::new(-1, token.start.clone()).encode();
                ApiError::expired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
                    .with_continue(inconsistent)
            }
            (store::Error::Compacted { .. }, None) => {
                ApiError::expired("The resourceVersion for the provided list is too old.")
            }
            _ => read_failed(error),
        }
    }

    fn select(&self, entry: &Entry, selection: &Selection) -> Result<Option<Stored>, ApiError> {
        let stored = Stored::from_entry(entry).map_err(ApiError::internal)?;
        Ok(self.selects(&entry.key, &stored, selection)?.then_some(stored))
    }

    /// Whether a selection holds for an object.
    pub(super) fn selects(
        &self,
        key: &[u8],
        stored: &Stored,
        selection: &Selection,
    ) -> Result<bool, ApiError> {
        Selector::new(&self.resource, self.version, selection).selects(key, stored)
    }

    /// The complaint of this kind about a field that no selector may name; each has its own words.
    fn unknown_field(&self, field: &str) -> String {
        let kind = self.resource.kind.as_str();
        match (self.resource.group.as_str(), kind) {
            ("batch", "Job") => format!("field label {field:?} not supported for Job"),
            ("resource.k8s.io", "ResourceSlice") => {
                let group_version = self.api_version();
                format!("field label not supported for {group_version}, Kind={kind}: {field}")
            }
            _ if self.resource.is_custom() || !self.version().selectable.is_empty() => {
                format!("field label not supported: {field}")
            }
            _ => format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ),
        }
    }

    /// The selectors of a list or watch, checked against what the kind offers.
    pub(super) fn selection(&self, options: &ListOptions) -> Result<Selection, ApiError> {
        let labels = LabelSelector::parse(&options.label_selector)
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(&options.field_selector)
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let selectable = &self.version().selectable;
        let known = |field: &str| match field {
            "metadata.name" => true,
            "metadata.namespace" => self.resource.namespaced || !self.resource.is_custom(),
            field => selectable.contains_key(field),
        };
        if let Some(term) = fields.terms().iter().find(|term| !known(&term.field)) {
            return Err(ApiError::bad_request(self.unknown_field(&term.field)));
        }
        let exact = fields.terms().iter().filter(|term| term.equal);
        let exact = exact
            .filter_map(|term| Some(Exact::new(selectable.get(&term.field)?, &term.value)))
            .collect();
        Ok(Selection { labels, fields, exact })
    }
}

/// The label and field selectors of one request.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    exact: Vec<Exact>,
}

/// A value that a field must have, as the bytes of an index show it.
///
/// Of many thousand objects a selector often wants a few: the pods of one node. Those that it does
/// not want are told by looking for bytes in the index, which is some twenty times quicker than
/// reading it.
#[derive(Debug, Clone)]
struct Exact {
    field: memmem::Finder<'static>,
    pair: memmem::Finder<'static>,
}

impl Exact {
    fn new(field: &Selectable, value: &str) -> Self {
        // Quotes in keys and values are escaped, so that neither can look like what is sought.
        let key = format!("{}:", Value::from(field.path.to_string()));
        let pair = format!("{key}{}", Value::from(value));
        Self {
            field: memmem::Finder::new(&key).into_owned(),
            pair: memmem::Finder::new(&pair).into_owned(),
        }
    }

    /// Whether the index says that the field has another value; an index may lack it.
    fn rejects(&self, index: &[u8]) -> bool {
        self.pair.find(index).is_none() && self.field.find(index).is_some()
    }
}

impl Selection {
    /// The only value that a field may have, if that is selected.
    pub(super) fn exact(&self, field: &str) -> Option<&str> {
        self.fields.exact(field)
    }

    #[cfg(test)]
    pub(super) fn of_fields(selector: &str) -> Self {
        let fields = FieldSelector::parse(selector).expect("a selector");
        Self { fields, ..Self::default() }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

/// A selection, bound to the resource that it selects from.
pub(super) struct Selector<'a> {
    resource: &'a crate::resource::Resource,
    version: usize,
    selection: &'a Selection,
}

impl<'a> Selector<'a> {
    pub(super) fn new(
        resource: &'a crate::resource::Resource,
        version: usize,
        selection: &'a Selection,
    ) -> Self {
        Self { resource, version, selection }
    }

    /// Reads the index alone where it can, the whole object only for fields that it lacks.
    pub(super) fn selects(&self, key: &[u8], stored: &Stored) -> Result<bool, ApiError> {
        let Selection { labels, fields, exact } = self.selection;
        if self.selection.is_everything() {
            return Ok(true);
        }
        if exact.iter().any(|exact| exact.rejects(stored.index_bytes())) {
            return Ok(false);
        }
        let (namespace, name) = keys::names(self.resource, key);
        let mut index = stored.index().map_err(ApiError::internal)?;
        if !labels.matches(&index.labels) {
            return Ok(false);
        }
        let paths = self.complete(&mut index.fields, stored)?;
        Ok(fields.matches(|field| match field {
            "metadata.name" => Some(name),
            "metadata.namespace" => Some(namespace),
            field => {
                let path = paths.iter().find(|(name, _)| *name == field).map(|(_, path)| path)?;
                index.fields.get(path).map(String::as_str)
            }
        }))
    }

    /// Adds the fields that were not indexed when the object was written: the CRD has changed since,
    /// or the request is for another version. Returns the paths of the fields that are asked for.
    fn complete(
        &self,
        index: &mut BTreeMap<String, String>,
        stored: &Stored,
    ) -> Result<Vec<(&'a str, String)>, ApiError> {
        let selectable = &self.resource.versions[self.version].selectable;
        let terms = self.selection.fields.terms().iter();
        let asked: Vec<_> = terms
            .filter_map(|term| Some((term.field.as_str(), selectable.get(&term.field)?)))
            .map(|(name, field)| (name, field, field.path.to_string()))
            .collect();
        let missing = |(_, _, path): &&(_, _, String)| !index.contains_key(path);
        let missing: Vec<_> = asked.iter().filter(missing).collect();
        if !missing.is_empty() {
            let value = stored.to_value().map_err(ApiError::internal)?;
            for (_, field, path) in missing {
                if let Some(text) = value.as_object().and_then(|object| field.text(object)) {
                    index.insert(path.clone(), text);
                }
            }
        }
        Ok(asked.into_iter().map(|(name, _, path)| (name, path)).collect())
    }
}

/// Where the next page of a list starts; opaque to clients.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ContinueToken {
    v: String,
    /// The revision of the list; -1 goes on at whatever is newest.
    rv: i64,
    start: String,
}

impl ContinueToken {
    fn new(rv: i64, start: String) -> Self {
        Self { v: "meta.k8s.io/v1".to_owned(), rv, start }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let invalid = |why: &str| {
            ApiError::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| {
            let at = match error {
                DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
            };
            invalid(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value = decode::json(&bytes).map_err(|error| invalid(&error.to_string()))?.value;
        let token: Self =
            serde_json::from_value(value).map_err(|error| invalid(&error.to_string()))?;
        if token.v != "meta.k8s.io/v1" {
            return Err(invalid(&format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            return Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        // A start outside the list would read what the client did not ask for.
        let key = token.start.strip_prefix('/').unwrap_or(&token.start);
        if key.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(invalid(&token.start));
        }
        Ok(Self { start: key.to_owned(), ..token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_come_back_and_forgeries_do_not() {
        let token = ContinueToken::new(7, "ns/name\0".to_owned());
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        let absolute = ContinueToken::new(7, "/ns/name\0".to_owned());
        assert_eq!(ContinueToken::decode(&absolute.encode()).unwrap(), token);
        let forged = ContinueToken::new(7, "../../secrets".to_owned());
        assert_eq!(ContinueToken::decode(&forged.encode()).unwrap_err().code, 400);
        for (text, want) in [
            ("%%%", "illegal base64 data at input byte 0"),
            ("abc", "invalid character 'i' looking for beginning of value"),
        ] {
            let message = ContinueToken::decode(text).unwrap_err().message;
            assert_eq!(message.rsplit("not valid: ").next(), Some(want), "{text}");
        }
    }
}
