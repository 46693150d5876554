//! Label and field selectors: parsed at the door, matched against a stored object's index.
//!
//! Messages are those of the API server, since people read them in `kubectl`'s output. Nothing
//! here knows which fields a kind offers.

use std::collections::BTreeMap;

use crate::sabotage::Sabotage;
use crate::schema::names;

/// A parsed `labelSelector`; the empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    GreaterThan(i64),
    LessThan(i64),
}

/// A selector that does not parse, in the API server's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Parser { tokens: lex(text), at: 0 }.selector().map(Self)
    }

    /// Whether labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|r| r.matches(labels.get(&r.key)))
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn matches(&self, value: Option<&String>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(_) if value.is_none() => !Sabotage::NotInNeedsLabel.is_planted(),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::GreaterThan(bound) => number().is_some_and(|n| n > *bound),
            Operator::LessThan(bound) => number().is_some_and(|n| n < *bound),
        }
    }
}

/// A lexed piece of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(s) => s,
            Self::Symbol(s) => s,
            Self::End => "",
        }
    }
}

fn lex(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || "=!(),><".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn fail<T>(message: String) -> Result<T, SelectorError> {
        Err(SelectorError(format!("unable to parse requirement: {message}")))
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Symbol("!") => requirements.push(self.requirement()?),
                token => {
                    let found = token.text();
                    return Err(SelectorError(format!(
                        "found '{found}', expected: !, identifier, or 'end of string'"
                    )));
                }
            }
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    token => {
                        let found = token.text();
                        return Err(SelectorError(format!(
                            "found '{found}', expected: identifier after ','"
                        )));
                    }
                },
                token => {
                    let found = token.text();
                    return Err(SelectorError(format!(
                        "found '{found}', expected: ',' or 'end of string'"
                    )));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = *self.peek() == Token::Symbol("!");
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            token => return Self::fail(format!("found '{}', expected: identifier", token.text())),
        };
        if let Some(why) = wrong(&names::qualified(&key)) {
            // Upstream does not know here where the key came from.
            return Self::fail(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::Absent });
        }
        let operator = match self.peek().clone() {
            Token::End | Token::Symbol(",") => Operator::Exists,
            Token::Symbol(symbol @ ("=" | "==" | "!=" | ">" | "<")) => {
                self.at += 1;
                self.comparison(symbol)?
            }
            Token::Word(word) if word == "in" || word == "notin" => {
                self.at += 1;
                let values = self.values()?;
                if word == "in" { Operator::In(values) } else { Operator::NotIn(values) }
            }
            token => {
                return Self::fail(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    token.text()
                ));
            }
        };
        if let Operator::In(values) | Operator::NotIn(values) = &operator {
            for (n, value) in values.iter().enumerate() {
                if let Some(why) = wrong(&names::label_value(value)) {
                    return Self::fail(format!(
                        "values[{n}][{key}]: Invalid value: {value:?}: {why}"
                    ));
                }
            }
        }
        Ok(Requirement { key, operator })
    }

    fn comparison(&mut self, symbol: &str) -> Result<Operator, SelectorError> {
        let value = match self.peek() {
            Token::End | Token::Symbol(",") => String::new(),
            Token::Word(word) => {
                let word = word.clone();
                self.at += 1;
                word
            }
            token => return Self::fail(format!("found '{}', expected: identifier", token.text())),
        };
        let number = || {
            value.parse::<i64>().map_err(|_| {
                SelectorError(format!(
                    "unable to parse requirement: values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            })
        };
        Ok(match symbol {
            "!=" => Operator::NotIn(vec![value]),
            ">" => Operator::GreaterThan(number()?),
            "<" => Operator::LessThan(number()?),
            _ => Operator::In(vec![value]),
        })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        let token = self.next();
        if token != Token::Symbol("(") {
            return Self::fail(format!("found '{}' expected: '('", token.text()));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => values.push(word),
                Token::Symbol(",") => {
                    values.push(String::new());
                    continue;
                }
                Token::Symbol(")") => {
                    values.push(String::new());
                    break;
                }
                token => {
                    return Self::fail(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        token.text()
                    ));
                }
            }
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => break,
                token => {
                    return Self::fail(format!("found '{}', expected: ',' or ')'", token.text()));
                }
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

/// What is wrong with a name, in one line.
fn wrong(problems: &[String]) -> Option<String> {
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// A parsed `fieldSelector`: terms that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTerm>);

/// One `field=value` or `field!=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub equal: bool,
}

impl FieldSelector {
    /// Parses `a=b,c!=d`, with `\,`, `\=` and `\\` as escapes in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value)
                .map_err(|why| SelectorError(format!("invalid field selector: {why}")))?;
            terms.push(FieldTerm { field: field.to_owned(), value, equal });
        }
        Ok(Self(terms))
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The terms.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.0
    }

    /// The only value that a field may have, if the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }

    /// Whether the fields satisfy every term; an absent field is the empty string.
    pub fn matches<'a>(&self, mut field: impl FnMut(&str) -> Option<&'a str>) -> bool {
        let mut holds = |t: &FieldTerm| {
            (field(&t.field).unwrap_or_default() == t.value) == t.equal
                || !t.equal && Sabotage::UnequalSelectsAll.is_planted()
        };
        self.0.iter().all(&mut holds)
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        Some((field, false, value))
    } else {
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
        Some((field, true, value))
    }
}

/// A value without its escapes; what is wrong with it otherwise.
fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid escape sequence: \\{c}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    #[track_caller]
    fn check(selector: &str, on: &str, want: bool) {
        let selector = LabelSelector::parse(selector).unwrap();
        assert_eq!(selector.matches(&labels(on)), want, "{selector:?} on {on}");
    }

    #[test]
    fn label_selectors_match() {
        check("", "", true);
        check("a=b", "a=b", true);
        check("a==b,c!=d", "a=b", true);
        check("a==b,c!=d", "a=b,c=d", false);
        check("a in (x, y)", "a=y", true);
        check("a notin (x,y)", "", true);
        check("a notin (x,y)", "a=x", false);
        check("a", "a=", true);
        check("!a", "a=", false);
        check("a=", "a=", true);
        check("a>3", "a=10", true);
        check("a>3", "a=x", false);
        check("a<3", "a=2", true);
        check("example.com/a in (,x)", "example.com/a=", true);
    }

    #[test]
    fn bad_label_selectors_say_why() {
        for (text, want) in [
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), want, "{text}");
        }
    }

    #[test]
    fn field_selectors_match_and_escape() {
        let selector = FieldSelector::parse(r"metadata.name=a,spec.x!=b\,c").unwrap();
        let fields = labels("metadata.name=a,spec.x=q");
        assert!(selector.matches(|f| fields.get(f).map(String::as_str)));
        assert_eq!(selector.terms()[1].value, "b,c");
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert!(FieldSelector::parse("nope").is_err());
    }
}
