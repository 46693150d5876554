//! Documents that were made, kept compressed until what they are about changes.
//!
//! A document is made under a lock, so one at a time, when it is first asked for; the index asks for
//! all, since it holds their hashes. What is kept is bounded: beyond that, only the hash is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha512};

use super::document::{self, Page};
use crate::resource::{Resource, Table};

/// What bounds the documents, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most that is kept, compressed; those of the built-in kinds take about one mebibyte.
    pub(super) kept: usize,
    /// From which length on a document leaves the schemas of custom resources out.
    pub(super) text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { kept: 16 * 1024 * 1024, text: 32 * 1024 * 1024 }
    }
}

/// The documents of a server.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    limits: Limits,
    /// Version 3, by path.
    pages: BTreeMap<String, Cached>,
    v2: Option<Cached>,
}

/// A document and what it was made from.
#[derive(Debug)]
struct Cached {
    of: Vec<Arc<Resource>>,
    document: Document,
    /// Whether `document` has its bytes.
    kept: bool,
}

impl Cached {
    fn is_of(&self, resources: &[Arc<Resource>]) -> bool {
        self.of.len() == resources.len()
            && self.of.iter().zip(resources).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// A finished document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// The hash of its JSON.
    pub(super) etag: String,
    pub(super) made: Timestamp,
    pub(super) json: Compressed,
    /// Empty in version 3.
    pub(super) protobuf: Compressed,
}

impl Document {
    fn new(json: &str, protobuf: &[u8], made: Timestamp) -> Self {
        let digest = Sha512::digest(json);
        let mut etag = String::with_capacity(2 * digest.len());
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(etag, "{byte:02X}");
        }
        let [json, protobuf] = [json.as_bytes(), protobuf].map(Compressed::of);
        Self { etag, made, json, protobuf }
    }

    /// The entity tag as headers have it.
    pub(super) fn tag(&self) -> String {
        format!("\"{}\"", self.etag)
    }

    /// The path under which this very text is found.
    pub(super) fn url(&self, page: &str) -> String {
        format!("/openapi/v3/{page}?hash={}", self.etag)
    }

    fn size(&self) -> usize {
        self.json.0.len() + self.protobuf.0.len()
    }

    fn hollow(&self) -> Self {
        let nothing = || Compressed(Bytes::new());
        Self { json: nothing(), protobuf: nothing(), ..self.clone() }
    }
}

/// Bytes that lie compressed.
#[derive(Debug, Clone)]
pub(super) struct Compressed(Bytes);

impl Compressed {
    fn of(bytes: &[u8]) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory cannot fail.
        let _ = encoder.write_all(bytes);
        Self(encoder.finish().unwrap_or_default().into())
    }

    /// As gzip.
    pub(super) fn gzip(&self) -> Bytes {
        self.0.clone()
    }

    /// As it was.
    pub(super) fn plain(&self) -> Bytes {
        let mut out = Vec::new();
        // What this type holds was compressed by it.
        let _ = GzDecoder::new(&self.0[..]).read_to_end(&mut out);
        out.into()
    }
}

impl Documents {
    /// The index of version 3, and when the youngest document in it was made.
    pub(super) fn index(&self, table: &Table, now: Timestamp) -> (String, Timestamp) {
        let mut cache = self.lock();
        let pages = Page::all(table);
        cache.pages.retain(|path, _| pages.contains_key(path));
        let mut paths = serde_json::Map::new();
        let mut made = Timestamp::MIN;
        for (path, page) in &pages {
            let document = cache.page(table, path, page, now, false);
            made = made.max(document.made);
            paths.insert(path.clone(), json!({"serverRelativeURL": document.url(path)}));
        }
        (json!({"paths": paths}).to_string(), made)
    }

    /// A document of version 3; `None` if there is no such page.
    pub(super) fn v3(&self, table: &Table, path: &str, now: Timestamp) -> Option<Document> {
        let page = Page::all(table).remove(path)?;
        Some(self.lock().page(table, path, &page, now, true))
    }

    /// The document of version 2.
    pub(super) fn v2(&self, table: &Table, now: Timestamp) -> Document {
        let resources: Vec<Arc<Resource>> = table.iter().cloned().collect();
        let mut cache = self.lock();
        if let Some(cached) = cache.v2.as_ref().filter(|c| c.kept && c.is_of(&resources)) {
            return cached.document.clone();
        }
        cache.v2 = None;
        let (json, protobuf) = document::everything(table, cache.limits.text);
        let document = Document::new(&json, &protobuf, now);
        if cache.size() + document.size() <= cache.limits.kept {
            cache.v2 = Some(Cached { of: resources, document: document.clone(), kept: true });
        }
        document
    }

    /// Documents under other limits.
    #[cfg(test)]
    pub(super) fn within(limits: Limits) -> Self {
        Self(Mutex::new(Cache { limits, ..Cache::default() }))
    }

    /// How many bytes are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.lock().size()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn size(&self) -> usize {
        self.pages.values().chain(&self.v2).map(|c| c.document.size()).sum()
    }

    /// A page that is there and still right, or a new one. Without `whole`, its hash is enough.
    fn page(
        &mut self,
        table: &Table,
        path: &str,
        page: &Page,
        now: Timestamp,
        whole: bool,
    ) -> Document {
        let resources = page.resources(table);
        if let Some(cached) = self.pages.get(path)
            && cached.is_of(&resources)
            && (cached.kept || !whole)
        {
            return cached.document.clone();
        }
        let before = self.pages.remove(path);
        let mut document = Document::new(&document::page(table, page, self.limits.text), &[], now);
        // The same text is as old as it was.
        if let Some(before) = before.filter(|b| b.document.etag == document.etag) {
            document.made = before.document.made;
        }
        let kept = self.size() + document.size() <= self.limits.kept;
        let stored = if kept { document.clone() } else { document.hollow() };
        let cached = Cached { of: resources, document: stored, kept };
        self.pages.insert(path.to_owned(), cached);
        document
    }
}
