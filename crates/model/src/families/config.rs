//! `config.json`: an ordered map that is read with errors that name the key, and written back with everything in it that
//! we do not know.

use crate::{Error, Result};
use qkv_base::{MOST_TEXT, read_file};
use qkv_kernels::Activation;
use serde_json::{Map, Value};
use std::path::Path;

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    map: Map<String, Value>,
    place: String,
}

impl Config {
    /// A configuration with nothing in it but the kind of model.
    pub fn new(model_type: &str) -> Self {
        let mut config = Self { map: Map::new(), place: "config.json".into() };
        config.set("model_type", model_type);
        config
    }

    /// Reads a file. A byte-order mark is skipped; bytes that are not UTF-8 are named with their place.
    pub fn load(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        Self::parse(&place, &read_file(path, MOST_TEXT, "is the path right?")?)
    }

    /// Parses the bytes of a file.
    pub fn parse(place: &str, bytes: &[u8]) -> Result<Self> {
        let fail = |what: String, hint: &str| Err(Error::new(place, what, hint));
        let bytes = qkv_base::without_bom(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => {
                let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
                return fail(format!("line {line}, byte {} is not UTF-8", e.valid_up_to()), "save the file as UTF-8");
            }
        };
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self { map, place: place.into() }),
            Ok(_) => fail("is not an object".into(), "a configuration is `{ … }`"),
            Err(e) => fail(format!("is not JSON: {e}"), "is the file whole?"),
        }
    }

    /// The file, or where it would be.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Everything in it.
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// As the text of a file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.map).unwrap_or_default() + "\n"
    }

    /// Sets a key.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.map.insert(key.into(), value.into());
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.map.remove(key);
    }

    /// The value of a key, unless it is null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|v| !v.is_null())
    }

    /// An error at a key.
    pub fn error(&self, key: &str, what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(format!("{}: {key}", self.place), what, hint)
    }

    fn typed<T>(&self, key: &str, kind: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => {
                let shown: String = value.to_string().chars().take(60).collect();
                Err(self.error(key, format!("{shown} is not {kind}"), format!("give {kind}")))
            }
        }
    }

    /// A count, if it is there.
    pub fn maybe_count(&self, key: &str) -> Result<Option<usize>> {
        let n = self.typed(key, "a whole number", |v| v.as_u64().and_then(|n| usize::try_from(n).ok()))?;
        match n {
            Some(n) if n > crate::validate::AXIS => {
                Err(self.error(key, format!("{n} is absurdly large"), format!("use at most {}", crate::validate::AXIS)))
            }
            n => Ok(n),
        }
    }

    /// A count that must be there.
    pub fn count(&self, key: &str) -> Result<usize> {
        self.maybe_count(key)?.ok_or_else(|| {
            let near = qkv_base::nearest(key, self.map.keys().map(String::as_str)).unwrap_or("nothing");
            self.error(key, "is missing", format!("the nearest key there is `{near}`"))
        })
    }

    /// A count with a default.
    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        Ok(self.maybe_count(key)?.unwrap_or(default))
    }

    /// A number with a default.
    pub fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        Ok(self.typed(key, "a number", Value::as_f64)?.unwrap_or(default))
    }

    /// A switch with a default.
    pub fn switch_or(&self, key: &str, default: bool) -> Result<bool> {
        Ok(self.typed(key, "true or false", Value::as_bool)?.unwrap_or(default))
    }

    /// A word, if it is there.
    pub fn word(&self, key: &str) -> Result<Option<&str>> {
        if self.typed(key, "a word", |v| v.as_str().map(|_| ()))?.is_none() {
            return Ok(None);
        }
        Ok(self.map.get(key).and_then(Value::as_str))
    }

    /// An object inside, as a configuration of its own.
    pub fn inside(&self, key: &str) -> Result<Option<Self>> {
        let place = format!("{}: {key}", self.place);
        self.typed(key, "an object", |v| v.as_object().map(|map| Self { map: map.clone(), place }))
    }

    /// An option that we support with one value only.
    pub fn only(&self, key: &str, value: impl Into<Value>) -> Result<()> {
        let value = value.into();
        match self.get(key) {
            Some(got) if *got != value => {
                let what = format!("{got} is not supported");
                Err(self.error(key, what, format!("supported: {value}")))
            }
            _ => Ok(()),
        }
    }

    /// An activation with a default.
    pub fn activation_or(&self, key: &str, default: &str) -> Result<Activation> {
        let name = self.word(key)?.unwrap_or(default);
        activation(name).ok_or_else(|| {
            let names: Vec<&str> = ACTIVATIONS.iter().map(|(name, _)| *name).collect();
            let what = format!("the activation `{name}` is not supported");
            self.error(key, what, format!("supported: {}", names.join(", ")))
        })
    }

    /// Token ids under a key: one, several, or none.
    pub fn ids(&self, key: &str) -> Vec<u32> {
        let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        match self.get(key) {
            Some(Value::Array(all)) => all.iter().filter_map(id).collect(),
            Some(one) => id(one).into_iter().collect(),
            None => vec![],
        }
    }

    /// One token id, the first where there are several.
    pub fn id(&self, key: &str) -> Option<u32> {
        self.ids(key).first().copied()
    }

    /// Names the token of padding, or takes its name away.
    pub fn pad(&mut self, id: Option<u32>) {
        match id {
            Some(id) => self.set("pad_token_id", id),
            None => self.set("pad_token_id", Value::Null),
        }
    }

    /// The names of the labels, in the order of their numbers.
    pub fn labels(&self) -> Result<Option<Vec<String>>> {
        let Some(map) = self.inside("id2label")? else { return Ok(None) };
        let mut labels = vec![None; map.map.len()];
        for (key, name) in &map.map {
            let place = key.parse::<usize>().ok().and_then(|i| labels.get_mut(i));
            match (place, name.as_str()) {
                (Some(place @ None), Some(name)) => *place = Some(name.to_string()),
                _ => {
                    let what = format!("{} labels are not numbered 0 to {}", map.map.len(), map.map.len() - 1);
                    return Err(self.error("id2label", what, "number them from 0, each once"));
                }
            }
        }
        Ok(Some(labels.into_iter().flatten().collect()))
    }

    /// What the configuration says twice and not alike, and which of the two counts: as in transformers, `id2label`.
    pub fn contradictions(&self) -> Vec<String> {
        let Ok(Some(labels)) = self.labels() else { return vec![] };
        let mut found = vec![];
        let wrong = |(name, id): (&String, &Value)| match id.as_u64().and_then(|i| labels.get(i as usize)) {
            Some(said) if said == name => None,
            Some(said) => Some(format!("label2id says that {id} is `{name}`, id2label says `{said}`")),
            None => Some(format!("label2id says that {id} is `{name}`, id2label has no {id}")),
        };
        if let Some(back) = self.get("label2id").and_then(Value::as_object) {
            found.extend(back.iter().find_map(wrong));
        }
        if let Some(n) = self.get("num_labels").and_then(Value::as_u64)
            && n != labels.len() as u64
        {
            found.push(format!("num_labels is {n}, id2label names {}", labels.len()));
        }
        found.into_iter().map(|what| format!("{}: {what}; id2label counts", self.place)).collect()
    }

    /// How many labels there are: those that are named, or `num_labels`, or two.
    pub fn label_count(&self) -> Result<usize> {
        Ok(match self.labels()? {
            Some(labels) if !labels.is_empty() => labels.len(),
            _ => self.count_or("num_labels", 2)?,
        })
    }

    /// Names the labels.
    pub fn set_labels(&mut self, labels: &[String]) {
        let there: Map<_, _> =
            labels.iter().enumerate().map(|(i, l)| (i.to_string(), Value::from(l.as_str()))).collect();
        let back: Map<_, _> = labels.iter().enumerate().map(|(i, l)| (l.clone(), Value::from(i))).collect();
        self.set("id2label", Value::Object(there));
        self.set("label2id", Value::Object(back));
    }

    /// The first architecture that is named.
    pub fn architecture(&self) -> Option<&str> {
        self.get("architectures")?.as_array()?.first()?.as_str()
    }
}

/// Hugging Face's words for activations; the first of each kind is the one we write.
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("gelu", Activation::Gelu),
    ("gelu_python", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("tanh", Activation::Tanh),
];

/// The activation of this name.
pub fn activation(name: &str) -> Option<Activation> {
    ACTIVATIONS.iter().find(|(n, _)| *n == name).map(|(_, act)| *act)
}

/// Every name of an activation.
pub fn activation_names() -> Vec<&'static str> {
    ACTIVATIONS.iter().map(|(name, _)| *name).collect()
}

/// The name of this activation.
pub fn activation_name(act: Activation) -> &'static str {
    ACTIVATIONS.iter().find(|(_, a)| *a == act).map_or("gelu", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("config.json", text.as_bytes()).expect("an object")
    }

    #[test]
    fn errors_name_the_key() {
        let c = config(r#"{"layers": "two", "heads": -1, "act": "mish", "hiden": 3, "labels": null}"#);
        assert_eq!(c.count("layers").unwrap_err().to_string(), "config.json: layers: \"two\" is not a whole number");
        assert_eq!(c.count("heads").unwrap_err().to_string(), "config.json: heads: -1 is not a whole number");
        assert_eq!(c.count("hidden").unwrap_err().hint, "the nearest key there is `hiden`");
        assert!(c.activation_or("act", "gelu").unwrap_err().hint.starts_with("supported: gelu, "));
        assert_eq!(c.count_or("labels", 7), Ok(7)); // null is as good as missing
    }

    #[test]
    fn files_may_begin_with_a_mark_and_must_be_text() {
        assert!(Config::parse("c", b"\xef\xbb\xbf{\r\n\"a\": 1}\r\n").is_ok());
        let error = Config::parse("c", b"{\"a\":\n\"\xff\"}").unwrap_err();
        assert_eq!(error.to_string(), "c: line 2, byte 7 is not UTF-8");
        assert!(Config::parse("c", b"[1]").unwrap_err().to_string().contains("not an object"));
        assert!(Config::parse("c", b"{\"a\":").is_err());
    }

    #[test]
    fn labels_are_numbered() {
        let c = config(r#"{"id2label": {"1": "b", "0": "a"}}"#);
        assert_eq!(c.labels().unwrap().unwrap(), ["a", "b"]);
        assert!(config(r#"{"id2label": {"1": "b", "2": "a"}}"#).labels().is_err());
        assert!(config(r#"{"id2label": {"9999999999999": "b"}}"#).labels().is_err());
        let told = |json: &str| config(json).contradictions().join(" | ");
        assert_eq!(told(r#"{"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}, "num_labels": 2}"#), "");
        let twisted = told(r#"{"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}}"#);
        assert!(twisted.contains("label2id says that 1 is `a`, id2label says `b`; id2label counts"), "{twisted}");
        assert!(told(r#"{"id2label": {"0": "a"}, "num_labels": 3}"#).contains("num_labels is 3, id2label names 1"));
        let mut c = Config::new("bert");
        c.set_labels(&["x".into(), "y".into()]);
        assert_eq!(c.labels().unwrap().unwrap(), ["x", "y"]);
    }
}
