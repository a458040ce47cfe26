//! The fields of a JSON request, taken out one by one with their ranges. What nobody has taken in the end is either a field that
//! means something we do not do (an error that names it), a mistyped one (an error with the nearest name), or one that clients
//! send and that changes no answer (accepted, and listed in `x-qkv-ignored`).

use crate::error::{ApiError, ApiResult};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Fields that clients send and that change no answer.
const HARMLESS: &[&str] = &[
    "user",
    "store",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    "prediction",
    "reasoning_effort",
    "verbosity",
    "keep_alive",
    "use_cache",
    "wait_for_model",
];

/// Fields that mean something, which is not done: better refused than passed over.
const UNSUPPORTED: &[&str] = &[
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "suffix",
    "audio",
    "modalities",
    "web_search_options",
    "images",
    "template",
    "context",
];

/// The fields of a request.
pub struct Fields {
    map: RefCell<Map<String, Value>>,
    asked: RefCell<BTreeSet<String>>,
}

impl Fields {
    /// Those of a JSON object; null is as good as absent.
    pub fn of(value: Value) -> ApiResult<Self> {
        let Value::Object(map) = value else {
            return Err(ApiError::bad("the body must be a JSON object"));
        };
        let map = map.into_iter().filter(|(_, v)| !v.is_null()).collect();
        Ok(Self { map: RefCell::new(map), asked: RefCell::default() })
    }

    /// Takes a field as it is.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.asked.borrow_mut().insert(name.to_string());
        self.map.borrow_mut().remove(name)
    }

    /// Whether a field is there, without taking it.
    pub fn has(&self, name: &str) -> bool {
        self.map.borrow().contains_key(name)
    }

    /// A field in the place of one that is not there.
    pub fn default(&self, name: &str, value: impl Into<Value>) {
        self.map.borrow_mut().entry(name).or_insert_with(|| value.into());
    }

    /// The first of these that is there, with the name that it goes by.
    pub fn any(&self, names: &[&'static str]) -> ApiResult<(&'static str, Value)> {
        let found: Vec<(&'static str, Value)> = names.iter().filter_map(|n| Some((*n, self.value(n)?))).collect();
        match found.len() {
            0 => Err(missing(names.first().copied().unwrap_or_default())),
            1 => Ok(found.into_iter().next().unwrap_or_default()),
            _ => Err(ApiError::field(found[1].0, format!("and `{}` say the same; give one of them", found[0].0))),
        }
    }

    /// One text or a list of them, under the first of these names that is there; and whether it was one.
    pub fn inputs(&self, names: &[&'static str], most: usize) -> ApiResult<(Vec<String>, bool)> {
        let (name, value) = self.any(names)?;
        let one = value.is_string();
        self.default(name, value);
        let texts = self.texts(name, most)?.unwrap_or_default();
        match texts.is_empty() {
            true => Err(ApiError::field(name, "is an empty list")),
            false => Ok((texts, one)),
        }
    }

    /// A text.
    pub fn text(&self, name: &str) -> ApiResult<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ApiError::field(name, "must be a string")),
        }
    }

    /// A text that must be there.
    pub fn needed_text(&self, name: &str) -> ApiResult<String> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// Yes or no.
    pub fn flag(&self, name: &str) -> ApiResult<Option<bool>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(ApiError::field(name, "must be true or false")),
        }
    }

    /// A number within a range.
    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> ApiResult<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = value.as_f64().ok_or_else(|| ApiError::field(name, "must be a number"))?;
        if !range.contains(&number) {
            let what = format!("is {number}, but must be between {} and {}", range.start(), range.end());
            return Err(ApiError::field(name, what));
        }
        Ok(Some(number))
    }

    /// A whole number within a range.
    pub fn count(&self, name: &str, range: RangeInclusive<usize>) -> ApiResult<Option<usize>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let shown = value.to_string();
        let whole = value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0 && *n <= 9e15).map(|n| n as usize);
        match whole {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let shown: String = shown.chars().take(40).collect();
                let what = format!("is {shown}, but must be a whole number from {} to {}", range.start(), range.end());
                Err(ApiError::field(name, what))
            }
        }
    }

    /// A seed: any whole number of 64 bits, signed or not.
    pub fn seed(&self, name: &str) -> ApiResult<Option<u64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let seed = value.as_u64().or_else(|| value.as_i64().map(|n| n as u64));
        seed.map(Some).ok_or_else(|| ApiError::field(name, "must be a whole number of 64 bits"))
    }

    /// One text or a list of up to `most`.
    pub fn texts(&self, name: &str, most: usize) -> ApiResult<Option<Vec<String>>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(vec![text])),
            Some(Value::Array(list)) if list.len() > most => Err(too_many(name, list.len(), most)),
            Some(Value::Array(list)) => {
                let text = |v: Value| match v {
                    Value::String(text) => Ok(text),
                    _ => Err(ApiError::field(name, "must be a string or a list of strings")),
                };
                list.into_iter().map(text).collect::<ApiResult<_>>().map(Some)
            }
            Some(_) => Err(ApiError::field(name, "must be a string or a list of strings")),
        }
    }

    /// An object within.
    pub fn object(&self, name: &str) -> ApiResult<Option<Fields>> {
        match self.value(name) {
            None => Ok(None),
            Some(value @ Value::Object(_)) => Fields::of(value).map(Some),
            Some(_) => Err(ApiError::field(name, "must be an object")),
        }
    }

    /// What is left over: an error, or the names of what was passed over.
    pub fn finish(self, strict: bool) -> ApiResult<Vec<String>> {
        let (left, asked) = (self.map.into_inner(), self.asked.into_inner());
        let mut ignored = vec![];
        for (name, value) in left {
            let shown: String = name.chars().take(60).collect();
            let empty =
                matches!(&value, Value::Array(a) if a.is_empty()) || matches!(&value, Value::Object(o) if o.is_empty());
            if UNSUPPORTED.contains(&name.as_str()) && !empty && value != Value::Bool(false) && value != "" {
                return Err(ApiError::field(&shown, "is not supported here").code("unsupported_parameter"));
            }
            let near = qkv_base::nearest(&name, asked.iter().map(String::as_str)).filter(|near| resembles(near, &name));
            if let Some(near) = near.filter(|_| !HARMLESS.contains(&name.as_str())) {
                return Err(ApiError::field(&shown, format!("is unknown; did you mean `{near}`?")));
            }
            if strict {
                return Err(ApiError::field(&shown, "is not known to this server").code("unknown_parameter"));
            }
            ignored.push(shown);
        }
        Ok(ignored)
    }
}

/// A field that must be there.
pub fn missing(name: &str) -> ApiError {
    ApiError::field(name, "is missing").code("missing_required_parameter")
}

/// A list that is too long.
pub fn too_many(name: &str, n: usize, most: usize) -> ApiError {
    ApiError::field(name, format!("has {n} items, but at most {most} are taken"))
}

/// Whether one name is the other, mistyped: as long within two letters, with the same letters but for two.
fn resembles(a: &str, b: &str) -> bool {
    if a.len() < 4 || a.len().abs_diff(b.len()) > 2 || b.len() > 60 {
        return false;
    }
    let count = |text: &str, c: char| text.chars().filter(|x| *x == c).count();
    let letters: BTreeSet<char> = a.chars().chain(b.chars()).collect();
    letters.into_iter().map(|c| count(a, c).abs_diff(count(b, c))).sum::<usize>() <= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        Fields::of(value).unwrap()
    }

    #[test]
    fn what_is_left_over_is_refused_or_listed() {
        let left = |value: Value, strict: bool| {
            let f = fields(value);
            f.number("temperature", 0.0..=2.0).unwrap();
            f.finish(strict).map_err(|e| e.message)
        };
        assert_eq!(left(json!({"temperature": 1, "user": "x", "nobody": 1}), false).unwrap(), ["nobody", "user"]);
        assert_eq!(left(json!({"tools": [{}]}), false).unwrap_err(), "`tools` is not supported here");
        assert_eq!(left(json!({"tools": []}), false).unwrap(), ["tools"]);
        assert!(left(json!({"temprature": 1}), false).unwrap_err().contains("did you mean `temperature`"));
        assert!(left(json!({"user": "x"}), true).is_err());
        assert!(left(json!({"user": null}), true).unwrap().is_empty());
    }

    #[test]
    fn fault_41_numbers_keep_their_ranges() {
        let f = fields(json!({"n": 1e6, "t": -1, "k": 1.5, "s": -1, "x": "1"}));
        assert!(f.count("n", 1..=64).unwrap_err().message.contains("from 1 to 64"));
        assert!(f.number("t", 0.0..=2.0).unwrap_err().message.contains("-1"));
        assert!(f.count("k", 0..=9).is_err() && f.number("x", 0.0..=2.0).is_err());
        assert_eq!(f.seed("s").unwrap(), Some(u64::MAX));
    }
}
