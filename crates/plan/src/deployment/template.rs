//! Whether two templates of pods are the same, and what a template is called.

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::HASH_LABEL;

/// No vowels and no look-alikes, as in generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Whether they are the same but for the label that a Deployment adds.
pub fn same_template(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let plain = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        let meta = template.metadata.get_or_insert_default();
        let labels = meta.labels.get_or_insert_default();
        labels.remove(HASH_LABEL);
        if meta.annotations.as_ref().is_some_and(|all| all.is_empty()) {
            meta.annotations = None;
        }
        template
    };
    plain(a) == plain(b)
}

/// A short name for a template: FNV-1a in 32 bits of its JSON and of how often that name was taken.
pub fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let json = serde_json::to_vec(template).unwrap_or_default();
    let count = collisions.map(i32::to_le_bytes);
    let bytes = json.iter().chain(count.iter().flatten());
    let hash = bytes
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    hash.to_string().bytes().map(letter).collect()
}
