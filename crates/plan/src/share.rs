//! A number of pods that is given as such, or as a share of all.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The number, or the share of `all`, rounded as told; nothing is none.
pub(crate) fn share(value: Option<&IntOrString>, all: i32, up: bool) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => (*number).max(0),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|text| text.parse::<u32>().ok());
            let part = i64::from(all) * i64::from(percent.unwrap_or(0));
            let rounded = if up { (part + 99) / 100 } else { part / 100 };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}
