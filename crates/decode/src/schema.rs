//! A JSON schema as a pattern: the texts that it matches are JSON that the schema holds for, written without line breaks.
//!
//! | schema | pattern |
//! |---|---|
//! | `{"type": "integer"}` | `-?(0\|[1-9][0-9]*)`, up to 18 digits |
//! | `{"enum": ["a", 5]}` | `"a"\|5` |
//! | `{"type": "array", "items": S}` | `\[` S, S, … `\]` |
//! | `{"type": "object", "properties": {"a": S}}` | `\{"a": S … \}` in the order in which they are read; properties that are not required may be left out |
//! | `anyOf`, `oneOf`, `const`, `$ref` into `$defs` | their alternatives; recursion is refused |
//!
//! A word that would change which texts are right and is not done (`minimum`, `format`, `not`, …) is an error that names it.

use qkv_base::{Error, Result};
use serde_json::{Map, Value};

/// Words that say nothing about which texts are right.
const SILENT: &[&str] =
    &["title", "description", "default", "examples", "$schema", "$id", "$defs", "definitions", "$comment"];

/// How deeply schemas may stand within schemas.
const DEPTH: usize = 24;

/// The most bytes of a pattern.
const MOST: usize = 1 << 18;

const SPACE: &str = "[ ]?";
const CHARACTER: &str = r#"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})"#;
const INTEGER: &str = "-?(?:0|[1-9][0-9]{0,17})";
const NUMBER: &str = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?";

/// The pattern of a schema.
///
/// ```
/// use qkv_decode::schema::pattern;
/// let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]});
/// assert_eq!(pattern(&schema)?, r#"[ ]?\{[ ]?"n"[ ]?:[ ]?(?:true|false)[ ]?\}"#);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn pattern(schema: &Value) -> Result<String> {
    let found = Reader { root: schema }.schema(schema, 0)?;
    // The first token of many vocabularies brings a space of its own.
    Ok(format!("{SPACE}{found}"))
}

/// The pattern of any JSON object, nested up to three deep.
pub fn any_object() -> String {
    let leaf = format!(r#"(?:"{CHARACTER}*"|{NUMBER}|true|false|null)"#);
    let mut value = leaf.clone();
    for _ in 0..2 {
        value = format!("(?:{leaf}|{}|{})", object_of(&value), list(&value, 0, None));
    }
    format!("{SPACE}{}", object_of(&value))
}

fn object_of(value: &str) -> String {
    let member = format!(r#""{CHARACTER}*"{SPACE}:{SPACE}{value}"#);
    format!(r"\{{{SPACE}(?:{member}(?:{SPACE},{SPACE}{member})*)?{SPACE}\}}")
}

fn list(item: &str, least: usize, most: Option<usize>) -> String {
    let more = |least: usize, most: Option<usize>| match most {
        Some(most) => format!("(?:{SPACE},{SPACE}{item}){{{least},{most}}}"),
        None => format!("(?:{SPACE},{SPACE}{item}){{{least},}}"),
    };
    match (least, most) {
        (_, Some(0)) => format!(r"\[{SPACE}\]"),
        (0, most) => format!(r"\[{SPACE}(?:{item}{})?{SPACE}\]", more(0, most.map(|m| m - 1))),
        (least, most) => format!(r"\[{SPACE}{item}{}{SPACE}\]", more(least - 1, most.map(|m| m.max(least) - 1))),
    }
}

struct Reader<'a> {
    root: &'a Value,
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(
        "schema",
        what,
        "leave it out, or say it with what is supported: types, enum, const, anyOf, lists, objects",
    )
}

impl Reader<'_> {
    fn schema(&self, schema: &Value, depth: usize) -> Result<String> {
        if depth > DEPTH {
            return Err(wrong(format!("is nested more than {DEPTH} deep, or within itself")));
        }
        let found = match schema {
            Value::Bool(true) => any_value(),
            Value::Object(map) => self.object(map, depth)?,
            _ => return Err(wrong("is neither an object nor true")),
        };
        match found.len() > MOST {
            true => Err(wrong(format!("comes to a pattern of more than {MOST} bytes"))),
            false => Ok(found),
        }
    }

    fn object(&self, map: &Map<String, Value>, depth: usize) -> Result<String> {
        let only =
            |known: &[&str]| match map.keys().find(|k| !known.contains(&k.as_str()) && !SILENT.contains(&k.as_str())) {
                Some(key) => Err(wrong(format!("says `{key}`, which is not supported here"))),
                None => Ok(()),
            };
        if let Some(place) = map.get("$ref") {
            only(&["$ref"])?;
            let place =
                place.as_str().and_then(|p| p.strip_prefix('#')).ok_or_else(|| wrong("refers to another document"))?;
            let found =
                self.root.pointer(place).ok_or_else(|| wrong(format!("refers to `{place}`, which is not there")))?;
            return self.schema(found, depth + 1);
        }
        if let Some(value) = map.get("const") {
            only(&["const", "type"])?;
            return Ok(escape(&value.to_string()));
        }
        if let Some(values) = map.get("enum") {
            only(&["enum", "type"])?;
            let values = values.as_array().filter(|v| !v.is_empty()).ok_or_else(|| wrong("has an empty `enum`"))?;
            return Ok(either(values.iter().map(|v| escape(&v.to_string()))));
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(all) = map.get(word) {
                only(&[word])?;
                let all =
                    all.as_array().filter(|v| !v.is_empty()).ok_or_else(|| wrong(format!("has an empty `{word}`")))?;
                return Ok(either(all.iter().map(|s| self.schema(s, depth + 1)).collect::<Result<Vec<_>>>()?));
            }
        }
        match map.get("type") {
            Some(Value::String(name)) => self.typed(name, map, depth, &only),
            Some(Value::Array(names)) => {
                let one = |name: &Value| {
                    let name = name.as_str().ok_or_else(|| wrong("has a `type` that is no name"))?;
                    let mut own = map.clone();
                    own.insert("type".into(), name.into());
                    // Each type has the words that belong to it.
                    own.retain(|k, _| k == "type" || words(name).contains(&k.as_str()));
                    self.object(&own, depth + 1)
                };
                Ok(either(names.iter().map(one).collect::<Result<Vec<_>>>()?))
            }
            Some(_) => Err(wrong("has a `type` that is neither a name nor a list of names")),
            None if map.contains_key("properties") => self.typed("object", map, depth, &only),
            None => {
                only(&[])?;
                Ok(any_value())
            }
        }
    }

    fn typed(
        &self,
        name: &str,
        map: &Map<String, Value>,
        depth: usize,
        only: &dyn Fn(&[&str]) -> Result<()>,
    ) -> Result<String> {
        only(words(name))?;
        let count = |key: &str| match map.get(key) {
            None => Ok(None),
            Some(v) => match v.as_u64().filter(|n| *n <= 1000) {
                Some(n) => Ok(Some(n as usize)),
                None => Err(wrong(format!("has a `{key}` that is not a whole number up to 1000"))),
            },
        };
        match name {
            "null" => Ok("null".into()),
            "boolean" => Ok("(?:true|false)".into()),
            "integer" => Ok(INTEGER.into()),
            "number" => Ok(NUMBER.into()),
            "string" => match map.get("pattern") {
                Some(Value::String(own)) if !map.contains_key("minLength") && !map.contains_key("maxLength") => {
                    let (begins, ends) = (own.starts_with('^'), own.ends_with('$') && !own.ends_with("\\$"));
                    let inner = own.strip_prefix('^').unwrap_or(own);
                    let inner = if ends { inner.strip_suffix('$').unwrap_or(inner) } else { inner };
                    if inner.contains('"') {
                        return Err(wrong("has a `pattern` with quotation marks"));
                    }
                    let before = if begins { String::new() } else { format!("{CHARACTER}*") };
                    let after = if ends { String::new() } else { format!("{CHARACTER}*") };
                    Ok(format!(r#""{before}(?:{inner}){after}""#))
                }
                Some(_) => Err(wrong("has a `pattern` beside a length, or one that is no text")),
                None => {
                    let (least, most) = (count("minLength")?.unwrap_or(0), count("maxLength")?);
                    let most = most.map_or(String::new(), |n| n.to_string());
                    Ok(format!(r#""{CHARACTER}{{{least},{most}}}""#))
                }
            },
            "array" => {
                let item = map.get("items").map_or_else(|| Ok(any_value()), |items| self.schema(items, depth + 1))?;
                Ok(list(&item, count("minItems")?.unwrap_or(0), count("maxItems")?))
            }
            "object" => self.members(map, depth),
            other => Err(wrong(format!("has the type `{other}`, which there is not"))),
        }
    }

    /// The properties in their order; those that are not required may be left out.
    fn members(&self, map: &Map<String, Value>, depth: usize) -> Result<String> {
        let Some(properties) = map.get("properties").and_then(Value::as_object) else {
            return Ok(object_of(&any_value()));
        };
        let required: Vec<&str> =
            map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(wrong(format!("requires `{name}`, which is none of its properties")));
        }
        let mut members = vec![];
        for (name, schema) in properties {
            let value = self.schema(schema, depth + 1)?;
            let key = escape(&Value::from(name.as_str()).to_string());
            members.push((format!("{key}{SPACE}:{SPACE}{value}"), required.contains(&name.as_str())));
        }
        // From the last to the first: what may follow if something stands before it, and if nothing does.
        let comma = format!("{SPACE},{SPACE}");
        let (mut after, mut first) = (String::new(), String::new());
        for (member, is_required) in members.into_iter().rev() {
            let (then, alone) = (format!("{comma}{member}{after}"), format!("{member}{after}"));
            (after, first) = match is_required {
                true => (then, alone),
                false => {
                    let rest = after.clone();
                    (format!("(?:{comma}{member})?{rest}"), either([alone, first]))
                }
            };
            if after.len().max(first.len()) > MOST {
                return Err(wrong(format!("comes to a pattern of more than {MOST} bytes")));
            }
        }
        Ok(format!(r"\{{{SPACE}{first}{SPACE}\}}"))
    }
}

/// The words that belong to a type.
fn words(name: &str) -> &'static [&'static str] {
    match name {
        "string" => &["type", "minLength", "maxLength", "pattern"],
        "array" => &["type", "items", "minItems", "maxItems"],
        "object" => &["type", "properties", "required", "additionalProperties"],
        _ => &["type"],
    }
}

fn any_value() -> String {
    format!(r#"(?:"{CHARACTER}*"|{NUMBER}|true|false|null)"#)
}

fn either(all: impl IntoIterator<Item = String>) -> String {
    format!("(?:{})", all.into_iter().collect::<Vec<_>>().join("|"))
}

/// A text that stands for itself.
fn escape(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$#&-~".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::row::Row;
    use crate::transform::{History, Transform};
    use serde_json::json;

    /// Whether a text, letter by letter, is let through and may end there.
    fn takes(schema: &Value, text: &str) -> bool {
        let letters: Vec<char> = (' '..='~').collect();
        let bytes = |c: &char| -> Box<[u8]> { c.to_string().into_bytes().into_boxed_slice() };
        let mut tokens: Vec<Box<[u8]>> = vec![Box::default()];
        tokens.extend(letters.iter().map(bytes));
        let pattern = Pattern::new(&pattern(schema).unwrap(), tokens.into()).unwrap();
        let mut said = vec![];
        for c in text.chars().map(Some).chain([None]) {
            let id = c.map_or(0, |c| c as u32 - 31);
            let mut row = Row::of(&vec![0.0; letters.len() + 1]).unwrap();
            pattern.apply(&mut row, &History { generated: &said, ends: &[0], ..History::default() });
            if !row.alive().contains(&id) {
                return false;
            }
            said.push(id);
        }
        true
    }

    #[test]
    fn what_the_schema_holds_for_is_let_through_and_nothing_else() {
        let person = json!({"type": "object", "required": ["name"], "properties": {
            "id": {"type": "integer"}, "name": {"type": "string", "maxLength": 3}, "tags": {"type": "array", "items": {"enum": ["a", 5]}, "maxItems": 2}}});
        for good in [r#"{"name": "Ada"}"#, r#"{"id": -7, "name": "", "tags": ["a", 5]}"#, r#" {"name":"x","tags":[]}"#]
        {
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
            takes(&either, "-1.5e3")
                && takes(&either, "null")
                && takes(&either, r#""x.y""#)
                && !takes(&either, r#""xzy""#)
        );
    }

    #[test]
    fn what_is_not_done_is_named() {
        let no = |schema: Value| pattern(&schema).unwrap_err().what;
        assert!(no(json!({"type": "integer", "minimum": 3})).contains("`minimum`"));
        assert!(no(json!({"not": {}})).contains("`not`"));
        assert!(no(json!({"type": "strange"})).contains("`strange`"));
        assert!(no(json!({"$ref": "#"})).contains("within itself"));
        assert!(no(json!({"type": "object", "properties": {}, "required": ["a"]})).contains("`a`"));
        assert!(pattern(&json!({"type": "array", "items": {"type": "string"}, "minItems": 2000})).is_err());
        assert!(any_object().len() < MOST);
    }
}
