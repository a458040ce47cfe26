//! What a weights file says beside its tensors: typed values in the order of the file.
//!
//! GGUF keeps its configuration, vocabulary and chat template here; safetensors has a few strings.

use qkv_base::{Error, Result, nearest};

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// Values of one type side by side: a vocabulary of 100,000 numbers takes no more memory than in the file.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl Value {
    /// The kind, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a truth value",
            Value::String(_) => "a text",
            Value::Array(array) => array.kind(),
            Value::F32(_) | Value::F64(_) => "a number",
            _ => "a whole number",
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// The whole number of any width, if it is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::U8(n) => Some(n.into()),
            Value::I8(n) => Some(n.into()),
            Value::U16(n) => Some(n.into()),
            Value::I16(n) => Some(n.into()),
            Value::U32(n) => Some(n.into()),
            Value::I32(n) => Some(n.into()),
            Value::U64(n) => i64::try_from(n).ok(),
            Value::I64(n) => Some(n),
            _ => None,
        }
    }

    /// The number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            _ => self.as_i64().map(|n| n as f64),
        }
    }
}

impl Array {
    /// The kind, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Array::Bool(_) => "a list of truth values",
            Array::String(_) => "a list of texts",
            Array::Array(_) => "a list of lists",
            Array::F32(_) | Array::F64(_) => "a list of numbers",
            _ => "a list of whole numbers",
        }
    }

    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Array(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole numbers of any width, if they are that and fit.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        match self {
            Array::U8(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::I8(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::U16(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::I16(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::U32(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::I32(v) => Some(v.iter().map(|&n| n.into()).collect()),
            Array::U64(v) => v.iter().map(|&n| i64::try_from(n).ok()).collect(),
            Array::I64(v) => Some(v.clone()),
            _ => None,
        }
    }

    /// The numbers, whole or not.
    pub fn to_f32s(&self) -> Option<Vec<f32>> {
        match self {
            Array::F32(v) => Some(v.clone()),
            Array::F64(v) => Some(v.iter().map(|&x| x as f32).collect()),
            _ => Some(self.to_i64s()?.into_iter().map(|n| n as f32).collect()),
        }
    }
}

/// Keys and values in order, each key once.
///
/// ```
/// use qkv_weights::{Metadata, Value};
/// let mut metadata = Metadata::new("model.gguf");
/// metadata.set("llama.block_count", Value::U32(30));
/// assert_eq!(metadata.uint("llama.block_count")?, 30);
/// assert_eq!(metadata.text("llama.blok_count").unwrap_err().hint, "the nearest key there is `llama.block_count`");
/// assert_eq!(metadata.optional("llama.rope.freq_base", Metadata::float)?, None);
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    place: String,
    pairs: Vec<(String, Value)>,
}

impl Metadata {
    /// Nothing yet; `place` names the file in errors.
    pub fn new(place: impl Into<String>) -> Self {
        Self { place: place.into(), pairs: Vec::new() }
    }

    /// For a reader that has checked that no key comes twice.
    pub(crate) fn from_pairs(place: impl Into<String>, pairs: Vec<(String, Value)>) -> Self {
        Self { place: place.into(), pairs }
    }

    /// Sets a key: in its old place if it is there, else at the end.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.pairs.iter_mut().find(|pair| pair.0 == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key, value)),
        }
    }

    /// The value of a key, if there is one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.pairs.iter().find(|pair| pair.0 == key).map(|pair| &pair.1)
    }

    /// All of it in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The text under `key`.
    pub fn text(&self, key: &str) -> Result<&str> {
        self.want(key, "a text", Value::as_str)
    }

    /// The truth value under `key`.
    pub fn flag(&self, key: &str) -> Result<bool> {
        self.want(key, "a truth value", Value::as_bool)
    }

    /// The size or count under `key`.
    pub fn uint(&self, key: &str) -> Result<usize> {
        self.want(key, "a whole number that is not negative", |v| usize::try_from(v.as_i64()?).ok())
    }

    /// The number under `key`.
    pub fn float(&self, key: &str) -> Result<f64> {
        self.want(key, "a number", Value::as_f64)
    }

    /// The texts under `key`.
    pub fn texts(&self, key: &str) -> Result<&[String]> {
        self.want(key, "a list of texts", |v| match v {
            Value::Array(Array::String(texts)) => Some(texts.as_slice()),
            _ => None,
        })
    }

    /// The whole numbers under `key`.
    pub fn ints(&self, key: &str) -> Result<Vec<i64>> {
        self.want(key, "a list of whole numbers", |v| match v {
            Value::Array(array) => array.to_i64s(),
            _ => None,
        })
    }

    /// The numbers under `key`.
    pub fn floats(&self, key: &str) -> Result<Vec<f32>> {
        self.want(key, "a list of numbers", |v| match v {
            Value::Array(array) => array.to_f32s(),
            _ => None,
        })
    }

    /// What `getter` gives, or nothing if the key is absent. A value of the wrong type stays an error.
    pub fn optional<'a, T>(&'a self, key: &str, getter: impl FnOnce(&'a Self, &str) -> Result<T>) -> Result<Option<T>> {
        if self.get(key).is_none() { Ok(None) } else { getter(self, key).map(Some) }
    }

    fn want<'a, T>(&'a self, key: &str, kind: &str, get: impl FnOnce(&'a Value) -> Option<T>) -> Result<T> {
        let Some(value) = self.get(key) else {
            let hint = match nearest(key, self.pairs.iter().map(|pair| pair.0.as_str())) {
                Some(near) => format!("the nearest key there is `{near}`"),
                None => "it has no metadata at all".to_owned(),
            };
            return Err(Error::new(&self.place, format!("has no metadata key `{key}`"), hint));
        };
        get(value).ok_or_else(|| {
            let what = format!("metadata key `{key}` must be {kind}, but is {}", value.kind());
            Error::new(&self.place, what, "the file was written by a tool that understands this key differently")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Metadata {
        let mut metadata = Metadata::new("f");
        metadata.set("n", Value::U64(u64::MAX));
        metadata.set("minus", Value::I8(-1));
        metadata.set("x", Value::F32(0.5));
        metadata.set("ids", Value::Array(Array::U16(vec![1, 2])));
        metadata.set("words", Value::Array(Array::String(vec!["a".into()])));
        metadata
    }

    #[test]
    fn getters_take_any_width_and_refuse_the_rest() {
        let metadata = sample();
        assert_eq!((metadata.float("x").unwrap(), metadata.float("minus").unwrap()), (0.5, -1.0));
        assert_eq!(metadata.ints("ids").unwrap(), [1, 2]);
        assert_eq!(metadata.floats("ids").unwrap(), [1.0, 2.0]);
        assert_eq!(metadata.texts("words").unwrap(), ["a"]);
        for error in [metadata.uint("n"), metadata.uint("minus"), metadata.uint("x"), metadata.uint("ids")] {
            assert!(error.unwrap_err().what.contains("must be a whole number that is not negative"));
        }
        let error = metadata.optional("words", Metadata::text).unwrap_err();
        assert_eq!(error.what, "metadata key `words` must be a text, but is a list of texts");
    }

    #[test]
    fn setting_twice_keeps_the_place() {
        let mut metadata = sample();
        metadata.set("n", Value::Bool(true));
        assert_eq!(metadata.iter().next(), Some(("n", &Value::Bool(true))));
        assert_eq!(metadata.iter().len(), 5);
    }
}
