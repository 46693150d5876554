//! The JSONPath of printer columns and of the scale subresource, in client-go's dialect.
//!
//! It knows fields (`.a.b`, `['a.b']`, escaped dots), wildcards, indices and slices (`[0]`, `[-1]`,
//! `[1:3]`, `[*]`), unions of these, filters (`[?(@.type=="Ready")]`) and recursive descent (`..a`).
//! It has no `range` and no text around the path: a CRD's paths are never templates.

use std::cmp::Ordering;

use serde_json::Value;

use super::print;

/// How many values one path may select, and how many steps it may have.
const LIMIT: usize = 10_000;
/// How deep filters may nest.
const MAX_NESTING: usize = 8;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

/// Why a text is no path, or why a path leads nowhere in a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text cannot be parsed.
    #[error("{0}")]
    Parse(String),
    /// The value has another shape than the path takes it to have.
    #[error("{0}")]
    Evaluate(String),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    /// Every value below, and the value itself.
    Descend,
    Slice {
        from: Option<i64>,
        to: To,
        by: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Exists(JsonPath),
    Compare(Operand, Operator, Operand),
}

/// Where a slice ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum To {
    /// It is a single index: just behind its start.
    Next,
    End,
    Before(i64),
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > LIMIT {
            return Err(PathError::Parse("the path is too long".to_owned()));
        }
        Parser { rest: text, nesting: 0 }.path()
    }

    /// The fields with which the path begins: all that it leads to is below them.
    pub(crate) fn head(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// All that the path leads to; missing fields lead to nothing.
    pub fn find<'a>(&self, value: &'a Value) -> Result<Vec<&'a Value>, PathError> {
        let mut found = vec![value];
        for step in &self.0 {
            found = step.apply(&found)?;
            if found.len() > LIMIT {
                return Err(PathError::Evaluate("the path selects too much".to_owned()));
            }
        }
        Ok(found)
    }

    /// The first value that the path leads to; errors lead nowhere.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).ok()?.first().copied()
    }

    /// The cell of a printer column of the given type, but for dates, which show an age that the
    /// caller knows: they come as they stand.
    pub fn cell(&self, kind: &str, object: &Value) -> Value {
        let Some(value) = self.first(object) else {
            return Value::Null;
        };
        match (kind, value) {
            ("string", value) => text(value).into(),
            ("date", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("integer", Value::Number(number)) => match number.as_i64() {
                Some(whole) => whole.into(),
                None => number.as_f64().map_or(Value::Null, |float| (float as i64).into()),
            },
            ("number", Value::Number(_)) => value.clone(),
            _ => Value::Null,
        }
    }
}

/// A value as a column of strings shows it.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        Value::Number(number) if number.is_f64() => {
            print::float(number.as_f64().unwrap_or_default())
        }
        other => print::json(other),
    }
}

impl Step {
    fn apply<'a>(&self, values: &[&'a Value]) -> Result<Vec<&'a Value>, PathError> {
        let mut out = Vec::new();
        for value in values {
            match self {
                Self::Field(name) => out.extend(value.get(name)),
                Self::Wildcard => out.extend(children(value)),
                Self::Descend => descend(value, &mut out)?,
                Self::Slice { from, to, by } => slice(value, *from, *to, *by, &mut out)?,
                Self::Union(paths) => {
                    for path in paths {
                        out.extend(path.find(value)?);
                    }
                }
                Self::Exists(path) => {
                    let holds = |item: &&Value| path.find(item).is_ok_and(|it| !it.is_empty());
                    out.extend(items(value)?.iter().filter(holds));
                }
                Self::Compare(left, operator, right) => {
                    for item in items(value)? {
                        if let (Some(left), Some(right)) = (left.of(item)?, right.of(item)?)
                            && operator.holds(left, right)?
                        {
                            out.push(item);
                        }
                    }
                }
            }
        }
        Ok(out)
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, out: &mut Vec<&'a Value>) -> Result<(), PathError> {
    if out.len() > LIMIT {
        return Err(PathError::Evaluate("the path selects too much".to_owned()));
    }
    out.push(value);
    children(value).into_iter().try_for_each(|child| descend(child, out))
}

fn items(value: &Value) -> Result<&[Value], PathError> {
    let Value::Array(items) = value else {
        let shown = print::json(value);
        let error = format!("{shown} is not array or slice and cannot be filtered");
        return Err(PathError::Evaluate(error));
    };
    Ok(items)
}

fn slice<'a>(
    value: &'a Value,
    from: Option<i64>,
    to: To,
    by: Option<i64>,
    out: &mut Vec<&'a Value>,
) -> Result<(), PathError> {
    let items = match value {
        Value::Null => return Ok(()),
        Value::Array(items) => items,
        _ => return Err(PathError::Evaluate("the value is not array or slice".to_owned())),
    };
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let from = from.unwrap_or(0);
    let end = match to {
        To::End => length,
        // The index before the first is the last.
        To::Next if from == -1 => length,
        To::Next => from.saturating_add(1),
        To::Before(end) => end,
    };
    let wrap = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (from, end) = (wrap(from), wrap(end));
    if from == end {
        return Ok(());
    }
    let outside = |index: i64| format!("array index out of bounds: index {index}, length {length}");
    if !(0..length).contains(&from) {
        return Err(PathError::Evaluate(outside(from)));
    }
    if !(0..=length).contains(&end) {
        return Err(PathError::Evaluate(outside(end - 1)));
    }
    if from > end {
        let error = format!("starting index {from} is greater than ending index {end}");
        return Err(PathError::Evaluate(error));
    }
    let by = by.unwrap_or(1);
    let Some(by) = usize::try_from(by).ok().filter(|by| *by > 0) else {
        return Err(PathError::Evaluate("step must be > 0".to_owned()));
    };
    let range = usize::try_from(from).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
    out.extend(items.get(range).unwrap_or_default().iter().step_by(by));
    Ok(())
}

impl Operand {
    fn of<'a>(&'a self, item: &'a Value) -> Result<Option<&'a Value>, PathError> {
        match self {
            Self::Literal(value) => Ok(Some(value)),
            Self::Path(path) => match path.find(item)?.as_slice() {
                [] => Ok(None),
                [one] => Ok(Some(one)),
                _ => {
                    let error = "can only compare one element at a time".to_owned();
                    Err(PathError::Evaluate(error))
                }
            },
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> Result<bool, PathError> {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    // Whole numbers and floats do not compare in Go.
                    _ if left.is_f64() != right.is_f64() => return Err(incomparable()),
                    _ => {
                        let float = |n: &serde_json::Number| n.as_f64().unwrap_or_default();
                        float(left).total_cmp(&float(right))
                    }
                }
            }
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => match (self, left == right) {
                (Self::Equal | Self::NotEqual, true) => Ordering::Equal,
                (Self::Equal | Self::NotEqual, false) => Ordering::Less,
                _ => return Err(incomparable()),
            },
            _ => return Err(incomparable()),
        };
        Ok(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

fn incomparable() -> PathError {
    PathError::Evaluate("incompatible types for comparison".to_owned())
}

struct Parser<'a> {
    rest: &'a str,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T, PathError> {
        Err(PathError::Parse(what.into()))
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn path(mut self) -> Result<JsonPath, PathError> {
        let mut steps = Vec::new();
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '@' | '$' => self.skip(1),
                '.' if self.rest.starts_with("..") => {
                    if steps.last() == Some(&Step::Descend) {
                        return self.fail("invalid multiple recursive descent");
                    }
                    self.skip(2);
                    steps.push(Step::Descend);
                    let named = |c: char| c == '_' || c.is_alphanumeric();
                    if self.rest.starts_with(named) {
                        steps.push(self.field());
                    }
                }
                '.' => {
                    self.skip(1);
                    steps.push(self.field());
                }
                '[' if self.rest.starts_with("[?(") => steps.push(self.filter()?),
                '[' => self.brackets(&mut steps)?,
                c => return self.fail(format!("unrecognized character in action: {c:?}")),
            }
        }
        Ok(JsonPath(steps))
    }

    /// A name up to the next sign that ends one; a backslash takes the sign after it as it is.
    fn field(&mut self) -> Step {
        let mut name = String::new();
        let mut chars = self.rest.chars();
        loop {
            let before = chars.as_str();
            match chars.next() {
                Some('\\') => name.extend(chars.next()),
                Some(c) if !" \t\r\n.,[]$@{}".contains(c) => name.push(c),
                _ => {
                    self.rest = before;
                    break;
                }
            }
        }
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    /// An index, a slice, a quoted name, or several of them.
    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<(), PathError> {
        let Some(end) =
            self.rest.find([']', '\n']).filter(|at| self.rest.as_bytes().get(*at) == Some(&b']'))
        else {
            return self.fail("unterminated array");
        };
        let text = self.rest.get(1..end).unwrap_or_default();
        self.skip(end + 1);
        if text.contains(',') {
            let mut union = Vec::new();
            for one in text.split(',') {
                let mut steps = Vec::new();
                self.bracket(one.trim_matches(' '), &mut steps)?;
                union.push(JsonPath(steps));
            }
            steps.push(Step::Union(union));
            return Ok(());
        }
        self.bracket(text, steps)
    }

    fn bracket(&self, text: &str, steps: &mut Vec<Step>) -> Result<(), PathError> {
        let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(name) = quoted.filter(|name| !name.contains('\'')) {
            // The name is read as if it followed a dot: unescaped dots divide it.
            let dotted = format!(".{name}");
            let inner = Parser { rest: &dotted, nesting: self.nesting + 1 }.path()?;
            steps.extend(inner.0);
            return Ok(());
        }
        let text = if text == "*" { ":" } else { text };
        let invalid = || PathError::Parse(format!("invalid array index {text}"));
        let mut parts = text.split(':');
        let mut number = || match parts.next() {
            None => Ok(None),
            Some("") => Ok(Some(None)),
            Some(digits) => {
                let plain = digits.strip_prefix('-').unwrap_or(digits);
                if !plain.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(invalid());
                }
                let number = digits.parse::<i64>().map_err(|_| {
                    PathError::Parse(format!("array index {digits} is not a number"))
                })?;
                Ok(Some(Some(number)))
            }
        };
        let (from, to, by) = (number()?.flatten(), number()?, number()?.flatten());
        if parts.next().is_some() {
            return Err(invalid());
        }
        let to = match to {
            None => To::Next,
            Some(None) => To::End,
            Some(Some(end)) => To::Before(end),
        };
        steps.push(Step::Slice { from, to, by });
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, PathError> {
        if self.nesting >= MAX_NESTING {
            return self.fail("filters nest too deeply");
        }
        self.skip(3);
        let mut quote = None;
        let mut escaped = false;
        let end = self.rest.char_indices().find_map(|(at, c)| {
            match (c, quote) {
                _ if escaped => escaped = false,
                ('\\', Some(_)) => escaped = true,
                (')', None) => return Some(at),
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                _ => {}
            }
            None
        });
        let Some(end) = end else {
            return self.fail("unterminated filter");
        };
        let text = self.rest.get(..end).unwrap_or_default();
        self.skip(end + 1);
        if !self.rest.starts_with(']') {
            return self.fail("unclosed array expect ]");
        }
        self.skip(1);
        let signs = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let Some(at) = text.find(signs).filter(|at| *at > 0) else {
            return Ok(Step::Exists(self.inner(text)?));
        };
        let (left, rest) = text.split_at(at);
        let sign_end = rest.find(|c| !signs(c)).unwrap_or(rest.len());
        let (sign, right) = rest.split_at(sign_end);
        let operator = match sign {
            "==" => Operator::Equal,
            "!=" => Operator::NotEqual,
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            other => return self.fail(format!("unrecognized filter operator {other}")),
        };
        Ok(Step::Compare(self.operand(left)?, operator, self.operand(right)?))
    }

    fn inner(&self, text: &'a str) -> Result<JsonPath, PathError> {
        Parser { rest: text, nesting: self.nesting + 1 }.path()
    }

    fn operand(&self, text: &'a str) -> Result<Operand, PathError> {
        let text = text.trim_matches(' ');
        let literal = match text {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => quoted(text).map(Value::String).or_else(|| {
                let text = text.strip_prefix('+').unwrap_or(text);
                let numeric = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let whole = text.parse::<i64>().ok().map(Value::from);
                whole.or_else(|| text.parse::<f64>().ok().map(Value::from)).filter(|_| numeric)
            }),
        };
        match literal {
            Some(value) => Ok(Operand::Literal(value)),
            None => Ok(Operand::Path(self.inner(text)?)),
        }
    }
}

/// A quoted string without its quotes and escapes.
fn quoted(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.get(1..)?.strip_suffix(mark)?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_where_client_go_goes() {
        let object = json!({
            "spec": {"a": 1, "b.c": "dotted", "list": [10, 20, 30], "f": 1.5, "n": null},
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 3},
                {"type": "Live", "status": "False", "n": 5}
            ]}
        });
        for (path, expect) in [
            (".spec.a", json!([1])),
            (".spec.missing", json!([])),
            (".spec.a.b", json!([])),
            (r".spec.b\.c", json!(["dotted"])),
            (r".metadata.labels.app\.kubernetes\.io/name", json!(["web"])),
            (r".metadata.labels['app\.kubernetes\.io/name']", json!(["web"])),
            (".spec['a']", json!([1])),
            (".spec['b.c']", json!([])),
            (".spec.list[0]", json!([10])),
            (".spec.list[-1]", json!([30])),
            (".spec.list[-2]", json!([20])),
            (".spec.list[*]", json!([10, 20, 30])),
            (".spec.list[1:]", json!([20, 30])),
            (".spec.list[:2]", json!([10, 20])),
            (".spec.list[0:3:2]", json!([10, 30])),
            (".spec.list[0,2]", json!([10, 30])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type=='Live')].status", json!(["False"])),
            (r#".status.conditions[?(@.type!="Ready")].n"#, json!([5])),
            (".status.conditions[?(@.n>3)].type", json!(["Live"])),
            (".status.conditions[?(@.n <= 3)].type", json!(["Ready"])),
            (".status.conditions[?(@.n)].type", json!(["Ready", "Live"])),
            (".status.conditions[?(@.zz)].type", json!([])),
            (".status.conditions[*].type", json!(["Ready", "Live"])),
            (".status.*[0].type", json!(["Ready"])),
            ("..type", json!(["Ready", "Live"])),
            (".spec.n", json!([null])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let found = parsed.find(&object).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(json!(found), expect, "{path}");
        }
        for (path, kind, expect) in [
            (".spec.a", "integer", json!(1)),
            (".spec.f", "integer", json!(1)),
            (".spec.f", "number", json!(1.5)),
            (".spec.a", "string", json!("1")),
            (".spec.list", "string", json!("[10,20,30]")),
            (".spec.n", "string", json!("<no value>")),
            (".spec.n", "integer", json!(null)),
            (".spec.a", "boolean", json!(null)),
            (".spec.list[9]", "string", json!(null)),
            (".spec.zz", "string", json!(null)),
            (".status.conditions[*].type", "string", json!("Ready")),
        ] {
            let parsed = JsonPath::parse(path).expect("parses");
            assert_eq!(parsed.cell(kind, &object), expect, "{path} as {kind}");
        }
    }

    #[test]
    fn broken_paths_are_refused() {
        for (path, expect) in [
            (".a[", "unterminated array"),
            (".a[x]", "invalid array index x"),
            (".a[1:2:3:4]", "invalid array index 1:2:3:4"),
            (".a[?(@.b", "unterminated filter"),
            (".a[?(@.b)", "unclosed array expect ]"),
            (".a[?(@.b===1)]", "unrecognized filter operator ==="),
            ("....a", "invalid multiple recursive descent"),
            ("}", "unrecognized character in action: '}'"),
        ] {
            let error = JsonPath::parse(path).expect_err(path);
            assert_eq!(error.to_string(), expect, "{path}");
        }
        let deep = format!("{}@{}", ".a[?(".repeat(1_000), ")]".repeat(1_000));
        assert!(JsonPath::parse(&deep).is_err());
        let object = json!({"a": [1]});
        let found = JsonPath::parse(".a[5]").expect("parses").find(&object);
        assert_eq!(
            found.expect_err("outside").to_string(),
            "array index out of bounds: index 5, length 1"
        );
    }
}
