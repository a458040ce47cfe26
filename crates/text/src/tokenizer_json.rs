//! The parts of a `tokenizer.json`, as small words: every loader and every trainer writes its tokenizer with them.
//!
//! text → normalizer → pre-tokenizer → model → post-processor → ids, and decoder → text.

use serde_json::{Map, Value, json};

/// A whole file from its parts.
pub(crate) struct TokenizerJson {
    pub(crate) normalizer: Value,
    pub(crate) pre_tokenizer: Value,
    pub(crate) model: Value,
    pub(crate) post_processor: Value,
    pub(crate) decoder: Value,
    /// tokens found in a text before it is cut: (id, content, whether decoding may skip it)
    pub(crate) added: Vec<(u32, String, bool)>,
}

impl TokenizerJson {
    /// The file.
    pub(crate) fn into_value(self) -> Value {
        let mut added = self.added;
        added.sort();
        added.dedup_by(|a, b| a.0 == b.0);
        let row = |(id, content, special): &(u32, String, bool)| {
            // BERT's and RoBERTa's mask stands for a word with the space before it.
            let lstrip = content == "<mask>";
            json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": false,
                   "normalized": false, "special": special})
        };
        json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": added.iter().map(row).collect::<Vec<_>>(),
            "normalizer": self.normalizer, "pre_tokenizer": self.pre_tokenizer,
            "post_processor": self.post_processor, "decoder": self.decoder, "model": self.model,
        })
    }
}

/// GPT-2's splitting into words, then bytes as visible characters.
pub(crate) fn byte_level(prefix_space: bool, use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": true, "use_regex": use_regex})
}

/// Cuts at each match of a pattern, which becomes a word of its own.
pub(crate) fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

/// One part after the other; nothing for none.
pub(crate) fn sequence(list: &str, parts: Vec<Value>) -> Value {
    match <[Value; 1]>::try_from(parts) {
        Ok([part]) => part,
        Err(parts) if parts.is_empty() => Value::Null,
        Err(parts) => {
            let mut map = Map::new();
            map.insert("type".into(), "Sequence".into());
            map.insert(list.into(), parts.into());
            map.into()
        }
    }
}

/// What a template is made of: the first text, the second, or a token; with its type id.
#[derive(Clone, Copy)]
pub(crate) enum Slot<'a> {
    A(u32),
    B(u32),
    Token(&'a str, u32, u32),
}

/// A template for one text and for two.
pub(crate) fn template(single: &[Slot<'_>], pair: &[Slot<'_>]) -> Value {
    let slots = |slots: &[Slot<'_>]| -> Value {
        let slot = |slot: &Slot<'_>| match slot {
            Slot::A(kind) => json!({"Sequence": {"id": "A", "type_id": kind}}),
            Slot::B(kind) => json!({"Sequence": {"id": "B", "type_id": kind}}),
            Slot::Token(token, _, kind) => json!({"SpecialToken": {"id": token, "type_id": kind}}),
        };
        slots.iter().map(slot).collect()
    };
    let mut special = Map::new();
    for slot in single.iter().chain(pair) {
        if let Slot::Token(token, id, _) = slot {
            special.insert(token.to_string(), json!({"id": token, "ids": [id], "tokens": [token]}));
        }
    }
    json!({"type": "TemplateProcessing", "single": slots(single), "pair": slots(pair), "special_tokens": special})
}

/// `bos a eos`, `bos a eos bos b eos`, with what is given of the two; nothing without either.
pub(crate) fn around(bos: Option<(&str, u32)>, eos: Option<(&str, u32)>) -> Value {
    if bos.is_none() && eos.is_none() {
        return Value::Null;
    }
    let token = |(name, id), kind| Slot::Token(name, id, kind);
    let side = |text, kind| -> Vec<Slot<'_>> {
        [bos.map(|t| token(t, kind)), Some(text), eos.map(|t| token(t, kind))].into_iter().flatten().collect()
    };
    let single = side(Slot::A(0), 0);
    let pair: Vec<_> = single.iter().copied().chain(side(Slot::B(1), 1)).collect();
    template(&single, &pair)
}

/// BERT's `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]`.
pub(crate) fn bert(cls: (&str, u32), sep: (&str, u32)) -> Value {
    let (cls, end, last) = (Slot::Token(cls.0, cls.1, 0), Slot::Token(sep.0, sep.1, 0), Slot::Token(sep.0, sep.1, 1));
    template(&[cls, Slot::A(0), end], &[cls, Slot::A(0), end, Slot::B(1), last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_one_or_a_sequence() {
        assert_eq!(sequence("normalizers", vec![]), Value::Null);
        assert_eq!(sequence("normalizers", vec![json!({"type": "NFC"})]), json!({"type": "NFC"}));
        let two = sequence("normalizers", vec![json!({"type": "NFC"}), json!({"type": "Lowercase"})]);
        assert_eq!(two, json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}));
    }

    #[test]
    fn a_template_lists_its_tokens() {
        let post = around(None, Some(("</s>", 1)));
        assert_eq!(post["special_tokens"]["</s>"]["ids"], json!([1]));
        assert_eq!(post["pair"].as_array().map(Vec::len), Some(4));
        assert_eq!(around(None, None), Value::Null);
    }
}
