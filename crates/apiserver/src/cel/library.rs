//! The functions that rules may call: names, overloads, prices and implementations, as one table.
//!
//! These are CEL's standard functions and the extensions that Kubernetes 1.35 enables for custom
//! resources: strings (version 2), lists (3), sets, optionals, regular expressions, URLs,
//! quantities, IPs, CIDRs, formats and semantic versions. Anything else is an undeclared reference:
//! `cel.bind`, `math.*` and `string.reverse` are absent there as here. Questions about rights are
//! declared for all; only admission has the authorizer that they begin with.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::format::Format;
use super::meter::Meter;
use super::types::Ty;
use super::value::{Out, Val};
use super::{authority, format, quantity, url};
use super::{lists, net, numbers, operators, optionals, semver, strings, time};

/// How a function is run.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// By itself.
    Plain(for<'a> fn(&mut Meter, &[Val<'a>]) -> Out<'a>),
    /// With the regular expression that is its second argument.
    Regex(for<'a> fn(&Regex, &[Val<'a>]) -> Out<'a>),
    /// Not at all: it stands for a format.
    Format(&'static Format),
}

/// What a call costs, given its arguments (a receiver first).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Price {
    Unit,
    /// A tenth of the characters of the first argument, so many times.
    Scan(f64),
    /// As much as walking the first argument as a tree.
    Walk,
    /// The text times the pattern.
    Regex,
    /// The text times the text sought.
    Contains,
    /// The smaller argument, if strings.
    Compare,
    Equal,
    /// Both arguments, if strings.
    Add,
    /// The list searched.
    In,
    /// The argument, if strings become bytes or the other way round.
    Convert,
    ContainsIp,
    ContainsCidr,
    Validate,
    /// Twice the text that results.
    Join,
    /// The list that results.
    ListResult,
    Flatten,
    /// The square of the list at this argument.
    Square(usize),
    /// Each item of one against each of the other, so many times.
    Sets(u64),
    /// A question about rights, of which one evaluation may ask two.
    Authorize,
}

/// A named function.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) price: Price,
    pub(super) run: Run,
    pub(super) overloads: Vec<Overload>,
}

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    pub(super) member: bool,
    /// The result, then the arguments, a receiver first.
    pub(super) signature: Vec<Ty>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The function of this name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    static INDEX: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
        let row = |(name, price, run, overloads): &Row| {
            let overloads = overloads.iter().map(|(id, text)| Overload::read(id, text)).collect();
            (*name, Function { name, price: *price, run: *run, overloads })
        };
        let formats = format::FORMATS.iter().map(|f| {
            let overload = Overload::read(f.function, "() -> kubernetes.NamedFormat");
            let run = Run::Format(f);
            let function =
                Function { name: f.function, price: Price::Unit, run, overloads: vec![overload] };
            (f.function, function)
        });
        TABLE.iter().map(row).chain(formats).collect()
    });
    INDEX.get(name)
}

impl Overload {
    /// Reads `receiver.(arg, ...) -> result`.
    fn read(id: &'static str, text: &'static str) -> Self {
        let (head, result) = text.split_once(" -> ").unwrap_or((text, "dyn"));
        let open = match head.starts_with('(') {
            true => 0,
            false => head.find(".(").map_or(0, |i| i + 1),
        };
        let mut signature = vec![read_type(result)];
        if open > 0 {
            signature.push(read_type(&head[..open - 1]));
        }
        let args = head[open..].trim_start_matches('(');
        let args = args.strip_suffix(')').unwrap_or(args);
        signature.extend(split_args(args).into_iter().map(read_type));
        Self { id, member: open > 0, signature }
    }
}

fn split_args(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        out.push(text[start..].trim());
    }
    out
}

fn read_type(text: &'static str) -> Ty {
    let inner = |prefix: &str| text.strip_prefix(prefix).and_then(|t| t.strip_suffix(')'));
    if let Some(of) = inner("list(") {
        return Ty::list(read_type(of));
    }
    if let Some(of) = inner("optional(") {
        return Ty::optional(read_type(of));
    }
    if let Some(of) = inner("type(") {
        return Ty::Type(std::sync::Arc::new(read_type(of)));
    }
    if let Some(kv) = inner("map(") {
        let kv = split_args(kv);
        return match kv[..] {
            [k, v] => Ty::map(read_type(k), read_type(v)),
            _ => Ty::Dyn,
        };
    }
    match text {
        "A" => Ty::Param(0),
        "B" => Ty::Param(1),
        "bool" => Ty::Bool,
        "int" => Ty::Int,
        "uint" => Ty::Uint,
        "double" => Ty::Double,
        "string" => Ty::String,
        "bytes" => Ty::Bytes,
        "timestamp" => Ty::Timestamp,
        "duration" => Ty::Duration,
        "dyn" => Ty::Dyn,
        other => Ty::Abstract(other),
    }
}

type Row = (&'static str, Price, Run, &'static [(&'static str, &'static str)]);

/// The operators whose overloads pair every number with every number.
macro_rules! ordering {
    ($name:literal, $run:path, $id:literal) => {
        (
            $name,
            Price::Compare,
            Run::Plain($run),
            &[
                (concat!($id, "_bool"), "(bool, bool) -> bool"),
                (concat!($id, "_int64"), "(int, int) -> bool"),
                (concat!($id, "_int64_double"), "(int, double) -> bool"),
                (concat!($id, "_int64_uint64"), "(int, uint) -> bool"),
                (concat!($id, "_uint64"), "(uint, uint) -> bool"),
                (concat!($id, "_uint64_double"), "(uint, double) -> bool"),
                (concat!($id, "_uint64_int64"), "(uint, int) -> bool"),
                (concat!($id, "_double"), "(double, double) -> bool"),
                (concat!($id, "_double_int64"), "(double, int) -> bool"),
                (concat!($id, "_double_uint64"), "(double, uint) -> bool"),
                (concat!($id, "_string"), "(string, string) -> bool"),
                (concat!($id, "_bytes"), "(bytes, bytes) -> bool"),
                (concat!($id, "_timestamp"), "(timestamp, timestamp) -> bool"),
                (concat!($id, "_duration"), "(duration, duration) -> bool"),
            ],
        )
    };
}

/// Accessors of timestamps, with or without a time zone, and of durations.
macro_rules! calendar {
    ($name:literal, $run:path) => {
        (
            $name,
            Price::Unit,
            Run::Plain($run),
            &[("timestamp", "timestamp.() -> int"), ("timestamp_tz", "timestamp.(string) -> int")],
        )
    };
    ($name:literal, $run:path, duration) => {
        (
            $name,
            Price::Unit,
            Run::Plain($run),
            &[
                ("timestamp", "timestamp.() -> int"),
                ("timestamp_tz", "timestamp.(string) -> int"),
                ("duration", "duration.() -> int"),
            ],
        )
    };
}

/// A function with one overload.
macro_rules! one {
    ($name:literal, $price:expr, $run:path, $text:literal) => {
        ($name, $price, Run::Plain($run), &[($name, $text)])
    };
}

const COMPARABLE_SUM: &[(&str, &str)] = &[
    ("int", "list(int).() -> int"),
    ("uint", "list(uint).() -> uint"),
    ("double", "list(double).() -> double"),
    ("duration", "list(duration).() -> duration"),
];

const COMPARABLE_SELF: &[(&str, &str)] = &[
    ("int", "list(int).() -> int"),
    ("uint", "list(uint).() -> uint"),
    ("double", "list(double).() -> double"),
    ("bool", "list(bool).() -> bool"),
    ("duration", "list(duration).() -> duration"),
    ("timestamp", "list(timestamp).() -> timestamp"),
    ("string", "list(string).() -> string"),
    ("bytes", "list(bytes).() -> bytes"),
];

const COMPARABLE_SORTED: &[(&str, &str)] = &[
    ("int", "list(int).() -> bool"),
    ("uint", "list(uint).() -> bool"),
    ("double", "list(double).() -> bool"),
    ("bool", "list(bool).() -> bool"),
    ("duration", "list(duration).() -> bool"),
    ("timestamp", "list(timestamp).() -> bool"),
    ("string", "list(string).() -> bool"),
    ("bytes", "list(bytes).() -> bool"),
];

const COMPARABLE_SORT: &[(&str, &str)] = &[
    ("int", "list(int).() -> list(int)"),
    ("uint", "list(uint).() -> list(uint)"),
    ("double", "list(double).() -> list(double)"),
    ("bool", "list(bool).() -> list(bool)"),
    ("duration", "list(duration).() -> list(duration)"),
    ("timestamp", "list(timestamp).() -> list(timestamp)"),
    ("string", "list(string).() -> list(string)"),
    ("bytes", "list(bytes).() -> list(bytes)"),
];

const COMPARABLE_KEYS: &[(&str, &str)] = &[
    ("int", "list(A).(list(int)) -> list(A)"),
    ("uint", "list(A).(list(uint)) -> list(A)"),
    ("double", "list(A).(list(double)) -> list(A)"),
    ("bool", "list(A).(list(bool)) -> list(A)"),
    ("duration", "list(A).(list(duration)) -> list(A)"),
    ("timestamp", "list(A).(list(timestamp)) -> list(A)"),
    ("string", "list(A).(list(string)) -> list(A)"),
    ("bytes", "list(A).(list(bytes)) -> list(A)"),
];

use Price::{Convert, Scan, Unit};
use Run::{Plain, Regex as Pattern};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Operators; `&&`, `||` and `?:` are nodes of their own.
    one!("!_", Unit, operators::not, "(bool) -> bool"),
    ("-_", Unit, Plain(operators::negate), &[("negate_double", "(double) -> double"), ("negate_int64", "(int) -> int")]),
    ("_==_", Price::Equal, Plain(operators::equal), &[("equals", "(A, A) -> bool")]),
    ("_!=_", Price::Equal, Plain(operators::not_equal), &[("not_equals", "(A, A) -> bool")]),
    ordering!("_<_", operators::less, "less"),
    ordering!("_<=_", operators::less_equal, "less_equals"),
    ordering!("_>_", operators::greater, "greater"),
    ordering!("_>=_", operators::greater_equal, "greater_equals"),
    ("_+_", Price::Add, Plain(operators::add), &[
        ("add_bytes", "(bytes, bytes) -> bytes"), ("add_double", "(double, double) -> double"),
        ("add_duration_duration", "(duration, duration) -> duration"),
        ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
        ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("add_int64", "(int, int) -> int"), ("add_list", "(list(A), list(A)) -> list(A)"),
        ("add_string", "(string, string) -> string"), ("add_uint64", "(uint, uint) -> uint")]),
    ("_-_", Unit, Plain(operators::subtract), &[
        ("subtract_double", "(double, double) -> double"),
        ("subtract_duration_duration", "(duration, duration) -> duration"), ("subtract_int64", "(int, int) -> int"),
        ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"), ("subtract_uint64", "(uint, uint) -> uint")]),
    ("_*_", Unit, Plain(operators::multiply), &[("multiply_double", "(double, double) -> double"), ("multiply_int64", "(int, int) -> int"), ("multiply_uint64", "(uint, uint) -> uint")]),
    ("_/_", Unit, Plain(operators::divide), &[("divide_double", "(double, double) -> double"), ("divide_int64", "(int, int) -> int"), ("divide_uint64", "(uint, uint) -> uint")]),
    ("_%_", Unit, Plain(operators::modulo), &[("modulo_int64", "(int, int) -> int"), ("modulo_uint64", "(uint, uint) -> uint")]),
    ("@in", Price::In, Plain(operators::contained), &[("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")]),
    ("_[_]", Unit, Plain(operators::index), &[
        ("index_list", "(list(A), int) -> A"), ("index_map", "(map(A, B), A) -> B"),
        ("optional_list_index_int", "(optional(list(A)), int) -> optional(A)"),
        ("optional_map_index_value", "(optional(map(A, B)), A) -> optional(B)")]),
    ("_[?_]", Unit, Plain(operators::optional_index), &[
        ("list_optindex_optional_int", "(list(A), int) -> optional(A)"),
        ("optional_list_optindex_optional_int", "(optional(list(A)), int) -> optional(A)"),
        ("map_optindex_optional_value", "(map(A, B), A) -> optional(B)"),
        ("optional_map_optindex_optional_value", "(optional(map(A, B)), A) -> optional(B)")]),
    // The standard functions.
    ("size", Unit, Plain(operators::size), &[
        ("size_bytes", "(bytes) -> int"), ("bytes_size", "bytes.() -> int"), ("size_list", "(list(A)) -> int"), ("list_size", "list(A).() -> int"),
        ("size_map", "(map(A, B)) -> int"), ("map_size", "map(A, B).() -> int"), ("size_string", "(string) -> int"), ("string_size", "string.() -> int")]),
    ("type", Unit, Plain(operators::type_of), &[("type", "(A) -> type(A)")]),
    ("dyn", Unit, Plain(operators::dynamic), &[("to_dyn", "(A) -> dyn")]),
    ("bool", Unit, Plain(numbers::to_bool), &[("bool_to_bool", "(bool) -> bool"), ("string_to_bool", "(string) -> bool")]),
    ("bytes", Convert, Plain(strings::to_bytes), &[("bytes_to_bytes", "(bytes) -> bytes"), ("string_to_bytes", "(string) -> bytes")]),
    ("double", Unit, Plain(numbers::to_double), &[("double_to_double", "(double) -> double"), ("int64_to_double", "(int) -> double"), ("string_to_double", "(string) -> double"), ("uint64_to_double", "(uint) -> double")]),
    ("duration", Unit, Plain(time::to_duration), &[("duration_to_duration", "(duration) -> duration"), ("int64_to_duration", "(int) -> duration"), ("string_to_duration", "(string) -> duration")]),
    ("int", Unit, Plain(numbers::to_int), &[
        ("int64_to_int64", "(int) -> int"), ("double_to_int64", "(double) -> int"), ("duration_to_int64", "(duration) -> int"),
        ("string_to_int64", "(string) -> int"), ("timestamp_to_int64", "(timestamp) -> int"), ("uint64_to_int64", "(uint) -> int")]),
    ("uint", Unit, Plain(numbers::to_uint), &[("uint64_to_uint64", "(uint) -> uint"), ("double_to_uint64", "(double) -> uint"), ("int64_to_uint64", "(int) -> uint"), ("string_to_uint64", "(string) -> uint")]),
    ("string", Convert, Plain(strings::to_string), &[
        ("string_to_string", "(string) -> string"), ("bool_to_string", "(bool) -> string"), ("bytes_to_string", "(bytes) -> string"),
        ("double_to_string", "(double) -> string"), ("duration_to_string", "(duration) -> string"), ("int64_to_string", "(int) -> string"),
        ("timestamp_to_string", "(timestamp) -> string"), ("uint64_to_string", "(uint) -> string"),
        ("ip_to_string", "(net.IP) -> string"), ("cidr_to_string", "(net.CIDR) -> string")]),
    ("timestamp", Unit, Plain(time::to_timestamp), &[("timestamp_to_timestamp", "(timestamp) -> timestamp"), ("int64_to_timestamp", "(int) -> timestamp"), ("string_to_timestamp", "(string) -> timestamp")]),
    ("contains", Price::Contains, Plain(strings::contains), &[("contains_string", "string.(string) -> bool")]),
    ("endsWith", Scan(1.0), Plain(strings::ends_with), &[("ends_with_string", "string.(string) -> bool")]),
    ("startsWith", Scan(1.0), Plain(strings::starts_with), &[("starts_with_string", "string.(string) -> bool")]),
    ("matches", Price::Regex, Pattern(strings::matches), &[("matches", "(string, string) -> bool"), ("matches_string", "string.(string) -> bool")]),
    calendar!("getFullYear", time::full_year),
    calendar!("getMonth", time::month),
    calendar!("getDayOfYear", time::day_of_year),
    calendar!("getDayOfMonth", time::day_of_month),
    calendar!("getDate", time::date),
    calendar!("getDayOfWeek", time::day_of_week),
    calendar!("getHours", time::hours, duration),
    calendar!("getMinutes", time::minutes, duration),
    calendar!("getSeconds", time::seconds, duration),
    calendar!("getMilliseconds", time::milliseconds, duration),
    // Strings.
    one!("charAt", Unit, strings::char_at, "string.(int) -> string"),
    ("indexOf", Price::Walk, Plain(lists::index_of), &[("string_index_of_string", "string.(string) -> int"), ("string_index_of_string_int", "string.(string, int) -> int"), ("list_a_index_of_int", "list(A).(A) -> int")]),
    ("lastIndexOf", Price::Walk, Plain(lists::last_index_of), &[("string_last_index_of_string", "string.(string) -> int"), ("string_last_index_of_string_int", "string.(string, int) -> int"), ("list_a_last_index_of_int", "list(A).(A) -> int")]),
    one!("lowerAscii", Scan(1.0), strings::lower_ascii, "string.() -> string"),
    one!("upperAscii", Scan(1.0), strings::upper_ascii, "string.() -> string"),
    one!("trim", Scan(1.0), strings::trim, "string.() -> string"),
    ("replace", Scan(2.0), Plain(strings::replace), &[("string_replace_string_string", "string.(string, string) -> string"), ("string_replace_string_string_int", "string.(string, string, int) -> string")]),
    ("split", Scan(2.0), Plain(strings::split), &[("string_split_string", "string.(string) -> list(string)"), ("string_split_string_int", "string.(string, int) -> list(string)")]),
    ("substring", Scan(1.0), Plain(strings::substring), &[("string_substring_int", "string.(int) -> string"), ("string_substring_int_int", "string.(int, int) -> string")]),
    ("format", Scan(1.0), Plain(strings::format), &[("string_format", "string.(list(dyn)) -> string")]),
    ("strings.quote", Scan(1.0), Plain(strings::quote), &[("strings_quote", "(string) -> string")]),
    ("join", Price::Join, Plain(strings::join), &[("list_join", "list(string).() -> string"), ("list_join_string", "list(string).(string) -> string")]),
    // Regular expressions.
    ("find", Price::Regex, Pattern(strings::find), &[("string_find_string", "string.(string) -> string")]),
    ("findAll", Price::Regex, Pattern(strings::find_all), &[("string_find_all_string", "string.(string) -> list(string)"), ("string_find_all_string_int", "string.(string, int) -> list(string)")]),
    // Lists.
    ("isSorted", Price::Walk, Plain(lists::is_sorted), COMPARABLE_SORTED),
    ("sum", Price::Walk, Plain(lists::sum), COMPARABLE_SUM),
    ("max", Price::Walk, Plain(lists::max), COMPARABLE_SELF),
    ("min", Price::Walk, Plain(lists::min), COMPARABLE_SELF),
    ("slice", Price::ListResult, Plain(lists::slice), &[("list_slice", "list(A).(int, int) -> list(A)")]),
    ("flatten", Price::Flatten, Plain(lists::flatten), &[("list_flatten", "list(list(A)).() -> list(A)"), ("list_flatten_int", "list(dyn).(int) -> list(dyn)")]),
    ("sort", Price::Square(0), Plain(lists::sort), COMPARABLE_SORT),
    ("@sortByAssociatedKeys", Price::Square(1), Plain(lists::sort_by_keys), COMPARABLE_KEYS),
    ("lists.range", Price::ListResult, Plain(lists::range), &[("lists_range", "(int) -> list(int)")]),
    ("reverse", Price::ListResult, Plain(lists::reverse), &[("list_reverse", "list(A).() -> list(A)")]),
    ("distinct", Price::Square(0), Plain(lists::distinct), &[("list_distinct", "list(A).() -> list(A)")]),
    ("first", Unit, Plain(lists::first), &[("list_first", "list(A).() -> optional(A)")]),
    ("last", Unit, Plain(lists::last), &[("list_last", "list(A).() -> optional(A)")]),
    ("sets.contains", Price::Sets(1), Plain(lists::set_contains), &[("list_sets_contains_list", "(list(A), list(A)) -> bool")]),
    ("sets.equivalent", Price::Sets(2), Plain(lists::set_equivalent), &[("list_sets_equivalent_list", "(list(A), list(A)) -> bool")]),
    ("sets.intersects", Price::Sets(1), Plain(lists::set_intersects), &[("list_sets_intersects_list", "(list(A), list(A)) -> bool")]),
    // Optionals.
    one!("optional.of", Unit, optionals::of, "(A) -> optional(A)"),
    one!("optional.ofNonZeroValue", Unit, optionals::of_non_zero, "(A) -> optional(A)"),
    one!("optional.none", Unit, optionals::none, "() -> optional(A)"),
    ("optional.unwrap", Unit, Plain(optionals::unwrap), &[("optional_unwrap", "(list(optional(A))) -> list(A)")]),
    ("unwrapOpt", Unit, Plain(optionals::unwrap), &[("optional_unwrapOpt", "list(optional(A)).() -> list(A)")]),
    one!("value", Unit, optionals::value, "optional(A).() -> A"),
    one!("hasValue", Unit, optionals::has_value, "optional(A).() -> bool"),
    one!("or", Unit, optionals::or, "optional(A).(optional(A)) -> optional(A)"),
    one!("orValue", Unit, optionals::or_value, "optional(A).(A) -> A"),
    // URLs.
    one!("url", Scan(1.0), url::parse, "(string) -> kubernetes.URL"),
    one!("isURL", Unit, url::is_url, "(string) -> bool"),
    one!("getScheme", Unit, url::scheme, "kubernetes.URL.() -> string"),
    one!("getHost", Unit, url::host, "kubernetes.URL.() -> string"),
    one!("getHostname", Unit, url::hostname, "kubernetes.URL.() -> string"),
    one!("getPort", Unit, url::port, "kubernetes.URL.() -> string"),
    one!("getEscapedPath", Unit, url::escaped_path, "kubernetes.URL.() -> string"),
    one!("getQuery", Unit, url::query, "kubernetes.URL.() -> map(string, list(string))"),
    // Quantities.
    one!("quantity", Scan(1.0), quantity::parse, "(string) -> kubernetes.Quantity"),
    one!("isQuantity", Scan(1.0), quantity::is_quantity, "(string) -> bool"),
    // Declared by the reference as a global function, although its documentation shows a member.
    one!("sign", Unit, quantity::sign, "(kubernetes.Quantity) -> int"),
    one!("asApproximateFloat", Unit, quantity::as_float, "kubernetes.Quantity.() -> double"),
    one!("asInteger", Unit, quantity::as_integer, "kubernetes.Quantity.() -> int"),
    one!("isInteger", Unit, quantity::is_integer, "kubernetes.Quantity.() -> bool"),
    ("add", Unit, Plain(quantity::add), &[("quantity_add", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"), ("quantity_add_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity")]),
    ("sub", Unit, Plain(quantity::sub), &[("quantity_sub", "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity"), ("quantity_sub_int", "kubernetes.Quantity.(int) -> kubernetes.Quantity")]),
    ("isGreaterThan", Unit, Plain(operators::is_greater), &[("quantity_is_greater_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool"), ("semver_is_greater_than", "kubernetes.Semver.(kubernetes.Semver) -> bool")]),
    ("isLessThan", Unit, Plain(operators::is_less), &[("quantity_is_less_than", "kubernetes.Quantity.(kubernetes.Quantity) -> bool"), ("semver_is_less_than", "kubernetes.Semver.(kubernetes.Semver) -> bool")]),
    ("compareTo", Unit, Plain(operators::compare_to), &[("quantity_compare_to", "kubernetes.Quantity.(kubernetes.Quantity) -> int"), ("semver_compare_to", "kubernetes.Semver.(kubernetes.Semver) -> int")]),
    // Addresses.
    ("ip", Scan(1.0), Plain(net::ip), &[("string_to_ip", "(string) -> net.IP"), ("cidr_ip", "net.CIDR.() -> net.IP")]),
    one!("isIP", Scan(1.0), net::is_ip, "(string) -> bool"),
    one!("ip.isCanonical", Scan(2.0), net::is_canonical, "(string) -> bool"),
    one!("family", Unit, net::family, "net.IP.() -> int"),
    one!("isUnspecified", Unit, net::is_unspecified, "net.IP.() -> bool"),
    one!("isLoopback", Unit, net::is_loopback, "net.IP.() -> bool"),
    one!("isLinkLocalMulticast", Unit, net::is_link_local_multicast, "net.IP.() -> bool"),
    one!("isLinkLocalUnicast", Unit, net::is_link_local_unicast, "net.IP.() -> bool"),
    one!("isGlobalUnicast", Unit, net::is_global_unicast, "net.IP.() -> bool"),
    one!("cidr", Scan(1.0), net::cidr, "(string) -> net.CIDR"),
    one!("isCIDR", Scan(1.0), net::is_cidr, "(string) -> bool"),
    ("containsIP", Price::ContainsIp, Plain(net::contains_ip), &[("cidr_contains_ip_string", "net.CIDR.(string) -> bool"), ("cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool")]),
    ("containsCIDR", Price::ContainsCidr, Plain(net::contains_cidr), &[("cidr_contains_cidr_string", "net.CIDR.(string) -> bool"), ("cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool")]),
    one!("prefixLength", Unit, net::prefix_length, "net.CIDR.() -> int"),
    one!("masked", Unit, net::masked, "net.CIDR.() -> net.CIDR"),
    // Formats.
    one!("format.named", Unit, format::named, "(string) -> optional(kubernetes.NamedFormat)"),
    one!("validate", Price::Validate, format::validate, "kubernetes.NamedFormat.(string) -> optional(list(string))"),
    // Rights.
    one!("path", Unit, authority::path, "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck"),
    one!("group", Unit, authority::group, "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck"),
    one!("serviceAccount", Unit, authority::service_account, "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer"),
    one!("resource", Unit, authority::resource, "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    one!("subresource", Unit, authority::subresource, "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    one!("namespace", Unit, authority::namespace, "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    one!("name", Unit, authority::name, "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    one!("fieldSelector", Unit, authority::field_selector, "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    one!("labelSelector", Unit, authority::label_selector, "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck"),
    ("check", Price::Authorize, Plain(authority::check), &[("pathcheck_check", "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision"), ("resourcecheck_check", "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision")]),
    one!("allowed", Unit, authority::allowed, "kubernetes.authorization.Decision.() -> bool"),
    one!("reason", Unit, authority::reason, "kubernetes.authorization.Decision.() -> string"),
    one!("errored", Unit, authority::errored, "kubernetes.authorization.Decision.() -> bool"),
    one!("error", Unit, authority::error, "kubernetes.authorization.Decision.() -> string"),
    // Semantic versions.
    ("semver", Scan(1.0), Plain(semver::parse), &[("string_to_semver", "(string) -> kubernetes.Semver"), ("string_bool_to_semver", "(string, bool) -> kubernetes.Semver")]),
    ("isSemver", Scan(1.0), Plain(semver::is_semver), &[("is_semver_string", "(string) -> bool"), ("is_semver_string_bool", "(string, bool) -> bool")]),
    one!("major", Unit, semver::major, "kubernetes.Semver.() -> int"),
    one!("minor", Unit, semver::minor, "kubernetes.Semver.() -> int"),
    one!("patch", Unit, semver::patch, "kubernetes.Semver.() -> int"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_read_as_written() {
        let o = Overload::read("x", "net.CIDR.(list(A), map(string, list(B))) -> optional(A)");
        assert!(o.member);
        let shown: Vec<String> = o.signature.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["optional_type(_var0)", "net.CIDR", "list(_var0)", "map(string, list(_var1))"]
        );
        assert_eq!(Overload::read("x", "() -> int").signature, [Ty::Int]);
    }

    #[test]
    fn names_are_unique() {
        for (name, ..) in TABLE {
            assert_eq!(TABLE.iter().filter(|(n, ..)| n == name).count(), 1, "{name}");
        }
    }
}
