//! Media types: what a client accepts, and what it sent.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status::ApiError;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

impl Encoding {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The same of a watch.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            other => other.content_type(),
        }
    }
}

/// What is written: the objects themselves, or a view of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    /// `Table` of `meta.k8s.io`, in this version.
    Table(&'static str),
    /// `PartialObjectMetadata`, in this version.
    Metadata(&'static str),
    /// `PartialObjectMetadataList`, in this version.
    MetadataList(&'static str),
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

/// What is asked of a path, as far as that bounds the forms of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A document that has no views.
    Document,
    /// An object, or what became of it.
    Object,
    /// A list.
    List,
    /// A watch, which comes event by event.
    Watch,
}

/// Whose kinds are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    /// Upstream's, which have protobuf messages.
    BuiltIn,
    /// Those of definitions, which have none.
    Custom,
}

impl Kinds {
    /// The media types of documents and objects.
    const fn accepted(self) -> &'static str {
        match self {
            Self::BuiltIn => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            }
            Self::Custom => "application/json, application/yaml",
        }
    }

    /// The media types of watches.
    const fn streamed(self) -> &'static str {
        match self {
            Self::BuiltIn => {
                "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
            }
            Self::Custom => "application/json;stream=watch",
        }
    }
}

/// The media type of protobuf, which only built-in kinds have.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Chooses the first form in `Accept` that this server can write; JSON before protobuf where the client
/// likes both as well, since objects lie as JSON.
pub(crate) fn accept(headers: &HeaderMap, asked: Asked, kinds: Kinds) -> Result<Form, ApiError> {
    let header = accept_header(headers);
    if header.trim().is_empty() {
        return Ok(Form::JSON);
    }
    let mut clauses: Vec<(f32, Clause<'_>)> = header.split(',').map(Clause::parse).collect();
    // Stable: clauses of equal weight keep the client's order.
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let forms = clauses.iter().filter_map(|(q, clause)| Some((*q, clause.form(asked, kinds)?)));
    let mut forms = forms.peekable();
    let Some((best, first)) = forms.peek().copied() else {
        return Err(ApiError::not_acceptable(match asked {
            Asked::Watch => kinds.streamed(),
            _ => kinds.accepted(),
        }));
    };
    if first.encoding != Encoding::Protobuf {
        return Ok(first);
    }
    let mut as_good = forms.take_while(|(q, _)| *q >= best).map(|(_, form)| form);
    let same_view = |form: &Form| form.encoding == Encoding::Json && form.view == first.view;
    Ok(as_good.find(same_view).unwrap_or(first))
}

/// The refusal of an `Accept` that names none of the media types of a built-in resource's path, not
/// even with parameters that are nonsense. Upstream's routes are that strict: no case is folded and
/// no `application/*` understood.
pub(crate) fn check_route(headers: &HeaderMap, asked: Asked) -> Result<(), ApiError> {
    let header = accept_header(headers);
    let media_type = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
    let mut types = header.split(',').map(media_type);
    let known = |t: String| {
        matches!(t.as_str(), "*/*" | "application/json" | "application/yaml" | PROTOBUF)
    };
    if header.is_empty() || types.any(known) {
        return Ok(());
    }
    let streams = matches!(asked, Asked::List | Asked::Watch);
    let kinds = Kinds::BuiltIn;
    Err(ApiError::no_representation(&if streams {
        format!("{}, {}", kinds.accepted(), kinds.streamed())
    } else {
        kinds.accepted().to_owned()
    }))
}

fn accept_header(headers: &HeaderMap) -> String {
    let header: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    header.join(",")
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

    fn form(&self, asked: Asked, kinds: Kinds) -> Option<Form> {
        let encoding = match self.media_type {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            PROTOBUF if kinds == Kinds::BuiltIn => Encoding::Protobuf,
            "application/yaml" if asked != Asked::Watch => Encoding::Yaml,
            _ => return None,
        };
        let version = match self.parameter("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let view = match self.parameter("as") {
            "" => View::Object,
            _ if asked == Asked::Document
                || self.parameter("g") != "meta.k8s.io"
                || version.is_empty() =>
            {
                return None;
            }
            // Tables have no message.
            "Table" if encoding == Encoding::Protobuf => return None,
            "Table" => View::Table(version),
            "PartialObjectMetadata" => View::Metadata(version),
            "PartialObjectMetadataList" => View::MetadataList(version),
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
        let got = accept(&headers, Asked::List, Kinds::BuiltIn).ok().map(|f| (f.encoding, f.view));
        assert_eq!(got, want, "{header}");
    }

    #[test]
    fn the_first_possible_form_wins() {
        let object = Some((Encoding::Json, View::Object));
        check("application/json", object);
        check("*/*", object);
        check("application/vnd.kubernetes.protobuf,application/json", object);
        let protobuf = Some((Encoding::Protobuf, View::Object));
        check("application/vnd.kubernetes.protobuf", protobuf);
        check("application/vnd.kubernetes.protobuf,application/json;q=0.9", protobuf);
        check("application/yaml", Some((Encoding::Yaml, View::Object)));
        check("application/json;q=0.5,application/yaml", Some((Encoding::Yaml, View::Object)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some((Encoding::Json, View::Table("v1"))),
        );
        check(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Some((Encoding::Json, View::MetadataList("v1"))),
        );
        check("application/json;as=Table;v=v7;g=meta.k8s.io,application/json", object);
        check("text/html", None);
    }

    #[test]
    fn a_watch_is_json_and_routes_take_media_types_literally() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, http::HeaderValue::from_static(value));
            headers
        };
        assert_eq!(
            accept(&with("application/yaml"), Asked::Watch, Kinds::BuiltIn).unwrap_err().code,
            406
        );
        assert!(
            accept(
                &with("application/json;as=Table;v=v1;g=meta.k8s.io"),
                Asked::Document,
                Kinds::BuiltIn
            )
            .is_err()
        );
        for (value, fine) in [
            ("application/json;as=Nonsense", true),
            ("text/html, */*;q=0.1", true),
            ("application/*", false),
            ("APPLICATION/JSON", false),
        ] {
            assert_eq!(check_route(&with(value), Asked::Object).is_ok(), fine, "{value}");
        }
    }
}
