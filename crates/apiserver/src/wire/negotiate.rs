//! Media types: what a client accepts, and what it sent.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status::ApiError;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

impl Encoding {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// What is written: the objects themselves, or a view of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    /// `Table` of `meta.k8s.io`, in this version.
    Table(&'static str),
    /// `PartialObjectMetadata` or its list, in this version.
    Metadata(&'static str),
}

/// A negotiated answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    pub(crate) view: View,
}

impl Form {
    /// Objects as JSON: what everybody gets who does not ask.
    pub(crate) const JSON: Self = Self { encoding: Encoding::Json, view: View::Object };
}

/// The media types that a resource can answer in.
const ACCEPTED: &str = "application/json, application/yaml";

/// Chooses the first form in `Accept` that this server can write.
pub(crate) fn accept(headers: &HeaderMap, views: bool) -> Result<Form, ApiError> {
    let header: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    let header = header.join(",");
    if header.trim().is_empty() {
        return Ok(Form::JSON);
    }
    let mut clauses: Vec<(f32, Clause<'_>)> = header.split(',').map(Clause::parse).collect();
    // Stable: clauses of equal weight keep the client's order.
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    clauses
        .into_iter()
        .find_map(|(_, clause)| clause.form(views))
        .ok_or_else(|| ApiError::not_acceptable(ACCEPTED))
}

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> (f32, Self) {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|p| p.split_once('=')).collect();
        let weight = parameters
            .iter()
            .find(|(name, _)| *name == "q")
            .map_or(Some(1.0), |(_, q)| q.parse().ok());
        (weight.unwrap_or(0.0), Self { media_type, parameters })
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value)
    }

    fn form(&self, views: bool) -> Option<Form> {
        let encoding = match self.media_type {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => return None,
        };
        let version = match self.parameter("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let view = match self.parameter("as") {
            "" => View::Object,
            _ if !views || self.parameter("g") != "meta.k8s.io" || version.is_empty() => {
                return None;
            }
            "Table" => View::Table(version),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => View::Metadata(version),
            _ => return None,
        };
        Some(Form { encoding, view })
    }
}

/// The media type of a request body, without parameters; JSON where none is given.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .map(|v| v.split(';').next().unwrap_or_default().trim())
        .filter(|v| !v.is_empty())
        .unwrap_or("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, want: Option<(Encoding, View)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, header.parse().unwrap());
        let got = accept(&headers, true).ok().map(|f| (f.encoding, f.view));
        assert_eq!(got, want, "{header}");
    }

    #[test]
    fn the_first_possible_form_wins() {
        let object = Some((Encoding::Json, View::Object));
        check("application/json", object);
        check("*/*", object);
        check("application/vnd.kubernetes.protobuf,application/json", object);
        check("application/yaml", Some((Encoding::Yaml, View::Object)));
        check("application/json;q=0.5,application/yaml", Some((Encoding::Yaml, View::Object)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some((Encoding::Json, View::Table("v1"))),
        );
        check(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Some((Encoding::Json, View::Metadata("v1"))),
        );
        check("application/json;as=Table;v=v7;g=meta.k8s.io,application/json", object);
        check("text/html", None);
    }
}
