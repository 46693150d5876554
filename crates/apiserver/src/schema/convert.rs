//! Objects on their way into the store and out of it: each takes the form of a version's schema.
//!
//! Versions differ in nothing but `apiVersion` and what their schemas know and fill in, which is
//! conversion strategy `None`. An object read back follows the schemas of today, not those of the
//! day on which it was written; what is malformed in its metadata is dropped, never refused.

use serde_json::Value;

use super::field::FieldPath;
use super::{Schema, coerce, default, prune};

/// Gives an object the form in which it is stored, and in which the storage version shows it.
pub fn to_storage(storage: &Schema, object: &mut Value) {
    fit(storage, object);
    default::fill(storage, object);
}

/// Gives a stored object the form in which another version shows it.
pub fn from_storage(storage: &Schema, shown: &Schema, object: &mut Value) {
    to_storage(storage, object);
    fit(shown, object);
}

/// Drops what a schema does not admit.
fn fit(schema: &Schema, object: &mut Value) {
    coerce::own_leniently(object);
    prune::prune(schema, object);
    prune::drop_nulls(schema, object);
    // Nothing is refused where malformed fields are dropped.
    let _dropped = coerce::embedded(schema, object, true, &FieldPath::root());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(properties: Value) -> Schema {
        let spec = json!({"type": "object", "properties": properties});
        let whole = json!({"type": "object", "properties": {"spec": spec}});
        serde_json::from_value(whole).expect("a schema")
    }

    #[test]
    fn versions_show_what_both_know_and_the_stored_one_fills_in() {
        let v1 =
            schema(json!({"a": {"type": "string"}, "old": {"type": "string", "default": "y"}}));
        let v2 =
            schema(json!({"a": {"type": "string"}, "new": {"type": "string", "default": "n"}}));
        let mut object =
            json!({"metadata": {"name": "x", "zz": 1}, "spec": {"a": "b", "new": "n"}});
        to_storage(&v1, &mut object);
        assert_eq!(object, json!({"metadata": {"name": "x"}, "spec": {"a": "b", "old": "y"}}));
        from_storage(&v1, &v2, &mut object);
        assert_eq!(object, json!({"metadata": {"name": "x"}, "spec": {"a": "b"}}));
    }
}
