//! What holds for all objects and all schemas.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::super::compare::{self, Comparison};
use super::*;
use crate::schema::{Additional, ListType, MapType, Type};

/// A configuration that the schema of the stories admits. Lists hold each item once, and at least
/// one: an empty list is nobody's, and comes and goes with its surroundings.
fn fields() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["1", "2", "3"]);
    let texts = move || btree_map("[k-n]", text(), 0..3);
    let set = || prop::collection::btree_set(text(), 1..3);
    let pair = move || btree_map(prop::sample::select(vec!["x", "y"]), text(), 0..3);
    let item = move || (prop::option::of(text()), set());
    let items = move || btree_map(prop::sample::select(vec!["n", "m", "o"]), item(), 1..3);
    let maybe = |value: BoxedStrategy<Value>| prop::option::weighted(0.6, value);
    (
        maybe(text().prop_map(Value::from).boxed()),
        maybe((0..3).prop_map(Value::from).boxed()),
        maybe(texts().prop_map(|m| json!(m)).boxed()),
        maybe(pair().prop_map(|m| json!(m)).boxed()),
        maybe(pair().prop_map(|m| json!(m)).boxed()),
        maybe(set().prop_map(|s| json!(s)).boxed()),
        maybe(vec(text(), 0..3).prop_map(|v| json!(v)).boxed()),
        maybe(
            items()
                .prop_map(|items| {
                    let item = |(name, (v, tags)): (&str, (Option<&str>, _))| match v {
                        Some(v) => json!({"name": name, "v": v, "tags": tags}),
                        None => json!({"name": name}),
                    };
                    items.into_iter().map(item).collect()
                })
                .boxed(),
        ),
    )
        .prop_map(|(a, b, labels, obj, atom, set, list, items)| {
            let names = ["a", "b", "labels", "obj", "atom", "set", "list", "items"];
            let values = [a, b, labels, obj, atom, set, list, items];
            let some = names.into_iter().zip(values).filter_map(|(n, v)| Some((n.to_owned(), v?)));
            Value::Object(some.collect())
        })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3i64).prop_map(Value::from),
        (-3..3i32).prop_map(|n| Value::from(f64::from(n) / 2.0)),
        "[a-c]{0,1}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[a-d]|metadata|apiVersion", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Schema> {
    let type_ = prop::option::of(prop::sample::select(vec![
        Type::Object,
        Type::Array,
        Type::String,
        Type::Integer,
        Type::Boolean,
    ]));
    let leaf = type_.clone().prop_map(|type_| Schema { type_, ..Schema::default() });
    leaf.prop_recursive(4, 30, 4, move |inner| {
        let additional = prop_oneof![
            any::<bool>().prop_map(Additional::Any),
            inner.clone().prop_map(|s| Additional::Schema(Box::new(s))),
        ];
        let lists = [ListType::Atomic, ListType::Set, ListType::Map].to_vec();
        let maps = [MapType::Atomic, MapType::Granular].to_vec();
        (
            type_.clone(),
            btree_map("[a-d]", inner.clone(), 0..3),
            prop::option::of(additional),
            prop::option::of(inner),
            prop::option::of(prop::sample::select(lists)),
            vec("[a-d]", 0..2),
            prop::option::of(prop::sample::select(maps)),
            (any::<bool>(), any::<bool>(), prop::option::of(any_value())),
        )
            .prop_map(|(type_, properties, additional, items, list, keys, map, rest)| {
                Schema {
                    type_,
                    properties,
                    additional_properties: additional,
                    items: items.map(Box::new),
                    list_type: list,
                    list_map_keys: keys,
                    map_type: map,
                    preserve_unknown: rest.0,
                    embedded_resource: rest.1,
                    default: rest.2,
                    ..Schema::default()
                }
            })
    })
}

/// The paths that an applier of the story's object owns.
fn owned(story: &Story, applier: &str) -> FieldSet {
    story.decode().owned.into_iter().fold(FieldSet::default(), |set, (id, owned)| {
        if id.name == applier { set.union(&owned.set) } else { set }
    })
}

/// The object without the order of sets and of items, which tells who applied last.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(unordered).collect();
            items.sort_by(value::compare);
            Value::Array(items)
        }
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), unordered(value))).collect()
        }
        scalar => scalar.clone(),
    }
}

proptest! {
    #[test]
    fn applying_again_changes_nothing(one in fields(), two in fields()) {
        let mut w = Story::new();
        w.apply(by("a"), spec(one));
        w.apply(by("b").force(), spec(two.clone()));
        let once = w.object.clone();
        w.apply(by("b"), spec(two));
        prop_assert_eq!(w.object, once);
    }

    #[test]
    fn disjoint_managers_commute(one in fields(), two in fields()) {
        let mut two = two;
        for name in one.as_object().unwrap().keys() {
            two.as_object_mut().unwrap().remove(name);
        }
        let (mut ab, mut ba) = (Story::new(), Story::new());
        ab.apply(by("a"), spec(one.clone()));
        ab.apply(by("b"), spec(two.clone()));
        ba.apply(by("b"), spec(two));
        ba.apply(by("a"), spec(one));
        prop_assert_eq!(ab.spec(), ba.spec());
        for manager in ["a", "b"] {
            prop_assert_eq!(owned(&ab, manager), owned(&ba, manager));
        }
    }

    #[test]
    fn agreeing_managers_commute(one in fields(), two in fields()) {
        let (mut ab, mut ba) = (Story::new(), Story::new());
        ab.apply(by("a"), spec(one.clone()));
        let agreed = ab.try_apply(by("b"), spec(two.clone())).is_ok();
        ba.apply(by("b"), spec(two));
        prop_assert_eq!(ba.try_apply(by("a"), spec(one)).is_ok(), agreed);
        if agreed {
            prop_assert_eq!(unordered(ab.spec()), unordered(ba.spec()));
        }
    }

    #[test]
    fn leaving_removes_exactly_what_was_ones_own(one in fields(), two in fields()) {
        let mut w = Story::new();
        w.apply(by("a"), spec(one));
        w.apply(by("b").force(), spec(two));
        let present = |w: &Story| {
            let mut object = w.object.clone().unwrap();
            managers::strip(&mut object);
            compare::fields_of(Shape::object(Some(&w.schema)), &object)
        };
        let others = |w: &Story| owned(w, "a").union(&owned(w, BEFORE_FIRST_APPLY));
        let (before, mine, theirs) = (present(&w), owned(&w, "b"), others(&w));
        w.apply(by("b"), json!({}));
        prop_assert!(owned(&w, "b").is_empty());
        prop_assert_eq!(others(&w), theirs.clone());
        let (own, after) = (mine.difference(&theirs), present(&w));
        prop_assert!(own.intersection(&after).is_empty());
        prop_assert!(before.difference(&own).difference(&after).is_empty());
    }

    #[test]
    fn fields_v1_reads_back(value in any_value(), schema in any_schema()) {
        let set = compare::fields_of(Shape::object(Some(&schema)), &value);
        let fields = set.to_fields_v1();
        prop_assert_eq!(FieldSet::from_fields_v1(&fields, 20).unwrap(), set);
    }

    #[test]
    fn comparison_is_equality(schema in any_schema(), old in any_value(), new in any_value()) {
        let shape = Shape::object(Some(&schema));
        let same = Comparison::of(shape, &old, &old);
        prop_assert!(same.removed.union(&same.modified).union(&same.added).is_empty());
        let reverse = Comparison::of(shape, &new, &old);
        let forward = Comparison::of(shape, &old, &new);
        prop_assert_eq!(forward.removed, reverse.added);
    }

    #[test]
    fn nothing_panics(
        schema in prop::option::of(any_schema()),
        live in prop::option::of(any_value()),
        new in any_value(),
        fields in any_value(),
        force in any::<bool>(),
    ) {
        let mut applied = new.clone();
        if let Some(object) = applied.as_object_mut() {
            object.insert("apiVersion".to_owned(), "v1".into());
            object.insert("kind".to_owned(), "K".into());
            object.remove("metadata");
        }
        let mut live = live;
        if let Some(metadata) = live.as_mut().and_then(|l| l.get_mut("metadata"))
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.insert("managedFields".to_owned(), json!([{
                "manager": "kubectl", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            }]));
        }
        let cx = Context {
            api_version: "v1", kind: "K", schema: schema.as_ref(), other_versions: &[],
            empty: None, reset_fields: &FieldSet::default(), manager: "kubectl",
            subresource: "", now: Timestamp::UNIX_EPOCH,
        };
        let mut updated = update(&cx, live.as_ref(), new);
        keep_times(&applied, &mut updated);
        if let Ok(mut object) = apply(&cx, live.as_ref(), &applied, force)
            && let Ok(mut again) = apply(&cx, Some(&object), &applied, force)
        {
            // An object that nobody owned until now gets its first managers the second time.
            // Metadata that held nothing else may be there and empty, or not at all.
            for object in [&mut object, &mut again] {
                managers::strip(object);
                if let Some(object) = object.as_object_mut()
                    && object.get("metadata") == Some(&json!({}))
                {
                    object.remove("metadata");
                }
            }
            prop_assert_eq!(again, object);
        }
    }
}
