//! A JSON schema as a pattern: the texts that it matches are JSON that the schema holds for, written without line breaks.
//!
//! | schema | pattern |
//! |---|---|
//! | `{"type": "integer"}` | `-?(0\|[1-9][0-9]*)`, up to 18 digits |
//! | `{"enum": ["a", 5]}` | `"a"\|5` |
//! | `{"type": "array", "items": S}` | `\[` S, S, … `\]` |
//! | `{"type": "object", "properties": {"a": S}}` | `\{"a": S … \}` in the order in which they are read; properties that are not required may be left out |
//! | `anyOf`, `oneOf`, `const`, `$ref` into `$defs` | their alternatives |
//! | `$ref` to what stands around it | a rule that calls itself: the pattern becomes a grammar ([`crate::grammar`]) |
//!
//! A word that would change which texts are right and is not done (`minimum`, `format`, `not`, …) is an error that names it.

use crate::grammar::Grammar;
use crate::grammar::expr::{CALL, call};
use crate::pattern::{Pattern, TokenBytes, escape};
use crate::transform::Step;
use qkv_base::{Error, Result};
use serde_json::{Map, Value};
use std::cell::RefCell;

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
    let mut rules = rules(schema)?;
    match rules.len() {
        1 => Ok(rules.remove(0).1),
        _ => Err(wrong(format!("refers to itself at `#{}`, which a pattern alone cannot say", rules[1].0))),
    }
}

/// The step of a chain that holds answers to a schema: a pattern, or a grammar where the schema refers to itself.
pub fn step(schema: &Value, tokens: TokenBytes) -> Result<Step> {
    let rules = rules(schema)?;
    match &rules[..] {
        [(_, pattern)] => Ok(Pattern::new(pattern, tokens)?.into()),
        _ => Ok(Grammar::of_patterns(&rules, tokens)?.into()),
    }
}

/// The step of a chain that holds answers to JSON objects, whatever is in them, to any depth.
pub fn any_object(tokens: TokenBytes) -> Result<Step> {
    let value = call(1);
    let any = format!("(?:{}|{}|{})", any_value(), object_of(&value), list(&value, 0, None));
    let rules = [("".to_string(), format!("{SPACE}{}", object_of(&value))), ("value".to_string(), any)];
    Ok(Grammar::of_patterns(&rules, tokens)?.into())
}

/// The step of a chain that holds answers to one of several texts, each with JSON of a schema in its middle.
pub fn one_of(parts: &[(String, Value, String)], tokens: TokenBytes) -> Result<Step> {
    let rules = rules_of(parts)?;
    match &rules[..] {
        [(_, pattern)] => Ok(Pattern::new(pattern, tokens)?.into()),
        _ => Ok(Grammar::of_patterns(&rules, tokens)?.into()),
    }
}

/// The pattern of the whole, and of every part that refers to itself, each with its place in the schema.
fn rules(schema: &Value) -> Result<Vec<(String, String)>> {
    rules_of(&[(String::new(), schema.clone(), String::new())])
}

fn rules_of(parts: &[(String, Value, String)]) -> Result<Vec<(String, String)>> {
    let (mut ways, mut rules) = (vec![], vec![]);
    for (before, schema, after) in parts {
        let reader = Reader { root: schema, base: rules.len(), refs: RefCell::default() };
        let found = reader.referred("", schema, 0)?;
        rules.extend(reader.refs.into_inner().rules);
        ways.push(format!("{}{found}{}", escape(before), escape(after)));
    }
    let found = if ways.len() == 1 { ways.remove(0) } else { either(ways) };
    // The first token of many vocabularies brings a space of its own.
    let whole = ("".to_string(), format!("{SPACE}{found}"));
    Ok(std::iter::once(whole).chain(rules).collect())
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
    /// how many rules there are already
    base: usize,
    refs: RefCell<Refs>,
}

#[derive(Default)]
struct Refs {
    /// the places that are being read, the innermost last
    open: Vec<String>,
    /// the places that refer to themselves, each with its pattern; the first is the rule 1
    rules: Vec<(String, String)>,
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(
        "schema",
        what,
        "leave it out, or say it with what is supported: types, enum, const, anyOf, lists, objects",
    )
}

impl Reader<'_> {
    /// The pattern of what stands at a place; a call, where it is a rule of its own because it refers to itself.
    fn referred(&self, place: &str, schema: &Value, depth: usize) -> Result<String> {
        let rule = |refs: &Refs| refs.rules.iter().position(|(p, _)| p == place);
        {
            let mut refs = self.refs.borrow_mut();
            let known = rule(&refs);
            if let Some(rule) = known {
                return Ok(call(self.base + rule + 1));
            }
            if refs.open.iter().any(|open| open == place) {
                refs.rules.push((place.to_string(), String::new()));
                return Ok(call(self.base + refs.rules.len()));
            }
            refs.open.push(place.to_string());
        }
        let found = self.schema(schema, depth)?;
        let mut refs = self.refs.borrow_mut();
        refs.open.pop();
        let known = rule(&refs);
        Ok(match known {
            Some(rule) => {
                refs.rules[rule].1 = found;
                call(self.base + rule + 1)
            }
            None => found,
        })
    }

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
            return self.referred(place, found, depth + 1);
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
                    if inner.contains('"') || inner.contains(CALL) || inner.to_lowercase().contains("f0000") {
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

#[cfg(test)]
mod tests;
