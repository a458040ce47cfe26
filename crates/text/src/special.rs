//! Which ids open, close, pad, hide: the roles of special tokens.
//!
//! Said, in this order, by `tokenizer_config.json`, `special_tokens_map.json`, `config.json`, and at last by the
//! customary names in the vocabulary.

use crate::validate;
use qkv_base::Result;
use serde_json::{Map, Value};
use std::path::Path;

/// The id that plays each role, where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// begins a text
    pub bos: Option<u32>,
    /// ends a text
    pub eos: Option<u32>,
    /// fills a batch
    pub pad: Option<u32>,
    /// stands for what has no piece
    pub unk: Option<u32>,
    /// hides a token
    pub mask: Option<u32>,
    /// gathers the meaning of the whole
    pub cls: Option<u32>,
    /// parts two texts
    pub sep: Option<u32>,
}

/// Each role with the names it goes by.
const NAMES: [(&str, &[&str]); 7] = [
    ("bos", &["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"]),
    ("eos", &["</s>", "<eos>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>"]),
    ("pad", &["<pad>", "[PAD]", "<|pad|>"]),
    ("unk", &["<unk>", "[UNK]"]),
    ("mask", &["<mask>", "[MASK]"]),
    ("cls", &["[CLS]"]),
    ("sep", &["[SEP]"]),
];

impl Special {
    /// Every role by its name, in a fixed order.
    pub fn roles(&self) -> [(&'static str, Option<u32>); 7] {
        let ids = [self.bos, self.eos, self.pad, self.unk, self.mask, self.cls, self.sep];
        std::array::from_fn(|i| (NAMES[i].0, ids[i]))
    }

    fn slot(&mut self, role: &str) -> Option<&mut Option<u32>> {
        match role {
            "bos" => Some(&mut self.bos),
            "eos" => Some(&mut self.eos),
            "pad" => Some(&mut self.pad),
            "unk" => Some(&mut self.unk),
            "mask" => Some(&mut self.mask),
            "cls" => Some(&mut self.cls),
            "sep" => Some(&mut self.sep),
            _ => None,
        }
    }

    /// Asks every source in turn; `id` looks a piece up.
    pub(crate) fn find(said: &Said, id: impl Fn(&str) -> Option<u32>, size: usize) -> Self {
        let mut special = Self::default();
        for (role, names) in NAMES {
            let named = [&said.tokenizer, &said.map].into_iter().find_map(|json| id(token(json, role)?));
            let numbered = || number(&said.model, role).filter(|id| (*id as usize) < size);
            // A file that speaks of roles, and leaves this one out, means that nothing plays it.
            let silent = || said.tokenizer.get(&format!("{role}_token")) == Some(&Value::Null);
            let customary = || if silent() { None } else { names.iter().find_map(|name| id(name)) };
            if let Some(slot) = special.slot(role) {
                *slot = named.or_else(numbered).or_else(customary);
            }
        }
        special
    }
}

/// What the files beside the vocabulary say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// tokenizer_config.json
    pub(crate) tokenizer: Map<String, Value>,
    /// special_tokens_map.json
    pub(crate) map: Map<String, Value>,
    /// config.json
    pub(crate) model: Map<String, Value>,
}

impl Said {
    /// Reads those of the three files that are there.
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let object = |name: &str| -> Result<Map<String, Value>> {
            let path = dir.join(name);
            if !path.is_file() {
                return Ok(Map::new());
            }
            match validate::read_json(&path)? {
                Value::Object(map) => Ok(map),
                _ => Ok(Map::new()),
            }
        };
        Ok(Self {
            tokenizer: object("tokenizer_config.json")?,
            map: object("special_tokens_map.json")?,
            model: object("config.json")?,
        })
    }

    /// The class of tokenizer that the files ask for, without the `Fast` at its end.
    pub(crate) fn class(&self) -> &str {
        let class = self.tokenizer.get("tokenizer_class").and_then(Value::as_str).unwrap_or("");
        class.strip_suffix("Fast").unwrap_or(class)
    }

    /// The content of a role's token.
    pub(crate) fn token(&self, role: &str) -> Option<&str> {
        token(&self.tokenizer, role).or_else(|| token(&self.map, role))
    }

    /// A yes or no of tokenizer_config.json.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.tokenizer.get(key).and_then(Value::as_bool)
    }

    /// The rows of the embedding, if config.json knows them.
    pub(crate) fn vocab_size(&self) -> Option<usize> {
        let text = self.model.get("text_config").and_then(|t| t.get("vocab_size"));
        self.model.get("vocab_size").or(text).and_then(Value::as_u64).map(|n| n as usize)
    }

    /// Tokens that tokenizer_config.json adds: (id, content, special).
    pub(crate) fn added(&self) -> Vec<(u32, String, bool)> {
        let decoder = self.tokenizer.get("added_tokens_decoder").and_then(Value::as_object);
        let row = |(id, token): (&String, &Value)| {
            let content = token.get("content")?.as_str()?.to_string();
            Some((id.parse().ok()?, content, token.get("special").and_then(Value::as_bool).unwrap_or(false)))
        };
        decoder.into_iter().flatten().filter_map(row).collect()
    }
}

/// `"bos_token": "<s>"` or `"bos_token": {"content": "<s>", …}`.
fn token<'a>(json: &'a Map<String, Value>, role: &str) -> Option<&'a str> {
    let value = json.get(&format!("{role}_token"))?;
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// `"eos_token_id": 2`, or the first of a list.
fn number(json: &Map<String, Value>, role: &str) -> Option<u32> {
    let value = json.get(&format!("{role}_token_id"))?;
    u32::try_from(value.as_u64().or_else(|| value.get(0)?.as_u64())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(json: Value) -> Map<String, Value> {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn sources_are_asked_in_turn() {
        let pieces = ["<s>", "</s>", "<pad>", "<x>", "[MASK]"];
        let said = Said {
            tokenizer: object(json!({"eos_token": {"content": "<x>"}, "mask_token": null})),
            map: object(json!({"eos_token": "</s>", "sep_token": "</s>"})),
            model: object(json!({"unk_token_id": 2, "cls_token_id": 99, "eos_token_id": [1, 2]})),
        };
        let special = Special::find(&said, |p| pieces.iter().position(|q| *q == p).map(|i| i as u32), 5);
        let want =
            Special { bos: Some(0), eos: Some(3), pad: Some(2), unk: Some(2), sep: Some(1), ..Default::default() };
        assert_eq!(special, want);
    }
}
