//! What schemas let through, letter by letter.

use super::*;
use crate::row::Row;
use crate::transform::{History, Transform};
use serde_json::json;

/// Every printable character as a token of its own; 0 is the end.
fn letters() -> TokenBytes {
    let bytes = |c: char| -> Box<[u8]> { c.to_string().into_bytes().into_boxed_slice() };
    std::iter::once(Box::default()).chain((' '..='~').map(bytes)).collect()
}

/// Whether a text, letter by letter, is let through and may end there.
fn follows(step: &Step, text: &str) -> bool {
    let mut said = vec![];
    for c in text.chars().map(Some).chain([None]) {
        let id = c.map_or(0, |c| c as u32 - 31);
        let mut row = Row::of(&vec![0.0; letters().len()]).unwrap();
        step.apply(&mut row, &History { generated: &said, ends: &[0], ..History::default() });
        if !row.alive().contains(&id) {
            return false;
        }
        said.push(id);
    }
    true
}

fn takes(schema: &Value, text: &str) -> bool {
    follows(&step(schema, letters()).unwrap(), text)
}

#[test]
fn a_schema_that_refers_to_itself_goes_to_any_depth() {
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}});
    assert!(pattern(&tree).is_err() && matches!(step(&tree, letters()).unwrap(), Step::Grammar(_)));
    let mut deep = r#"{"n": 0}"#.to_string();
    for n in 1..40 {
        deep = format!(r#"{{"below": [{deep}, {{"n": -{n}}}], "n": {n}}}"#);
    }
    assert!(takes(&tree, &deep));
    assert!(!takes(&tree, &deep.replacen("\"n\": 0", "\"m\": 0", 1)) && !takes(&tree, &deep[..deep.len() - 1]));
    // The whole refers to itself, by way of a list.
    let list = json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}});
    assert!(takes(&list, "[[null, []], null]") && !takes(&list, "[[null, []], null") && !takes(&list, "[1]"));
    let object = any_object(letters()).unwrap();
    assert!(follows(&object, r#"{"a": {"b": [{"c": [[1]]}, true]}}"#) && !follows(&object, "[]"));
}

#[test]
fn what_the_schema_holds_for_is_let_through_and_nothing_else() {
    let person = json!({"type": "object", "required": ["name"], "properties": {
        "id": {"type": "integer"}, "name": {"type": "string", "maxLength": 3}, "tags": {"type": "array", "items": {"enum": ["a", 5]}, "maxItems": 2}}});
    for good in [r#"{"name": "Ada"}"#, r#"{"id": -7, "name": "", "tags": ["a", 5]}"#, r#" {"name":"x","tags":[]}"#] {
        assert!(takes(&person, good), "{good}");
        assert!(serde_json::from_str::<Value>(good).is_ok());
    }
    for bad in [
        r#"{}"#,
        r#"{"id": 1}"#,
        r#"{"name": "long!"}"#,
        r#"{"name": "a", "id": 1}"#,
        r#"{"id": 01, "name": "a"}"#,
        r#"{"name": "a",}"#,
    ] {
        assert!(!takes(&person, bad), "{bad}");
    }
    let optional = json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "boolean"}}});
    for good in ["{}", r#"{"a": null}"#, r#"{"b": true}"#, r#"{"a": null, "b": false}"#] {
        assert!(takes(&optional, good), "{good}");
    }
    assert!(!takes(&optional, r#"{, "b": true}"#));
    let either =
        json!({"anyOf": [{"$ref": "#/$defs/n"}, {"const": "x.y"}], "$defs": {"n": {"type": ["number", "null"]}}});
    assert!(
        takes(&either, "-1.5e3") && takes(&either, "null") && takes(&either, r#""x.y""#) && !takes(&either, r#""xzy""#)
    );
}

#[test]
fn what_is_not_done_is_named() {
    let no = |schema: Value| pattern(&schema).unwrap_err().what;
    assert!(no(json!({"type": "integer", "minimum": 3})).contains("`minimum`"));
    assert!(no(json!({"not": {}})).contains("`not`"));
    assert!(no(json!({"type": "strange"})).contains("`strange`"));
    assert!(no(json!({"$ref": "#"})).contains("refers to itself"));
    assert!(no(json!({"type": "object", "properties": {}, "required": ["a"]})).contains("`a`"));
    assert!(pattern(&json!({"type": "array", "items": {"type": "string"}, "minItems": 2000})).is_err());
    let never = step(&json!({"$ref": "#"}), letters()).unwrap_err();
    assert!(never.to_string().contains("never ends"), "{never}");
}
