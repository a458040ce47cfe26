//! A tokenizer in GGUF's words, for a file to be written: byte-level BPE and WordPiece can be said in them.

use crate::{GgufVocab, Tokenizer};
use qkv_base::{Error, Result};
use serde_json::Value;

/// A cut of words that llama.cpp has a name for: what `tokenizer.json` says, and the name.
const SPLITS: &[(&str, &str)] = &[(r"\p{N}{1,3}", "llama-bpe"), (r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*", "qwen2")];

impl GgufVocab {
    /// What a GGUF file must say so that llama.cpp cuts text as `tokenizer` does; one that cannot be said is refused.
    pub fn of(tokenizer: &Tokenizer, place: &str) -> Result<Self> {
        let refuse = |what: String| Error::new(place, what, "GGUF can carry byte-level BPE and WordPiece");
        let json: Value = serde_json::from_str(&tokenizer.to_json()?).map_err(|e| refuse(e.to_string()))?;
        let kind = json.pointer("/model/type").and_then(Value::as_str).unwrap_or_default();
        let tokens: Option<Vec<String>> = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.piece(id)).collect();
        let tokens = tokens.ok_or_else(|| refuse("the vocabulary has holes".into()))?;
        let special = tokenizer.special();
        let vocab = Self {
            types: (0..tokens.len() as u32).map(|id| token_type(&json, id, tokenizer)).collect(),
            bos: special.bos,
            eos: special.eos,
            unk: special.unk,
            pad: special.pad,
            chat_template: tokenizer.chat_template(None).map(str::to_string),
            ..Self::default()
        };
        match kind {
            "BPE" => Ok(Self {
                model: "gpt2".into(),
                pre: Some(
                    rule(&json).ok_or_else(|| refuse("llama.cpp has no name for the way words are cut".into()))?.into(),
                ),
                merges: merges(&json).ok_or_else(|| refuse("the merges cannot be read".into()))?,
                add_bos: Some(false),
                tokens,
                ..vocab
            }),
            "WordPiece" => {
                Ok(Self { model: "bert".into(), tokens: tokens.iter().map(|t| marked(t)).collect(), ..vocab })
            }
            other => Err(refuse(format!("a tokenizer of kind {other} cannot be said in GGUF"))),
        }
    }
}

/// 3 for control tokens, 4 for those of the user, 1 for the others.
fn token_type(json: &Value, id: u32, tokenizer: &Tokenizer) -> i32 {
    let added = json["added_tokens"].as_array().into_iter().flatten().any(|t| t["id"].as_u64() == Some(id.into()));
    match (tokenizer.is_special(id), added) {
        (true, _) => 3,
        (false, true) => 4,
        (false, false) => 1,
    }
}

/// `##ing` → `ing`, `word` → `▁word`, `[CLS]` as it is.
fn marked(piece: &str) -> String {
    match piece.strip_prefix("##") {
        Some(inside) => inside.to_string(),
        None if piece.starts_with('[') && piece.ends_with(']') => piece.to_string(),
        None => format!("▁{piece}"),
    }
}

fn merges(json: &Value) -> Option<Vec<String>> {
    let one = |m: &Value| match m {
        Value::String(pair) => Some(pair.clone()),
        Value::Array(pair) => Some(format!("{} {}", pair.first()?.as_str()?, pair.get(1)?.as_str()?)),
        _ => None,
    };
    json.pointer("/model/merges")?.as_array()?.iter().map(one).collect()
}

/// llama.cpp's name for the way a byte-level tokenizer cuts words.
fn rule(json: &Value) -> Option<&'static str> {
    let pre = &json["pre_tokenizer"];
    let parts: Vec<&Value> = match pre["type"].as_str()? {
        "Sequence" => pre["pretokenizers"].as_array()?.iter().collect(),
        _ => vec![pre],
    };
    let kinds: Vec<&str> = parts.iter().filter_map(|p| p["type"].as_str()).collect();
    let last = parts.last()?;
    if last["type"] != "ByteLevel" || last["add_prefix_space"] == true {
        return None;
    }
    let whole = last["use_regex"] != false;
    match kinds[..] {
        ["ByteLevel"] if whole => Some("gpt-2"),
        ["Digits", "ByteLevel"] if whole && parts[0]["individual_digits"] == true => Some("smollm"),
        ["Split", "Split", "ByteLevel"] if !whole && pattern(parts[0]) == Some(r"\p{N}") => Some("smollm"),
        ["Split", "ByteLevel"] if !whole => {
            let pattern = pattern(parts[0])?;
            let known = SPLITS.iter().find(|(mark, _)| pattern.contains(mark)).map(|(_, name)| *name);
            known.or_else(|| pattern.starts_with("'s|'t|'re").then_some("gpt-2"))
        }
        _ => None,
    }
}

fn pattern(part: &Value) -> Option<&str> {
    part.pointer("/pattern/Regex").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, TrainSpec, train};

    #[test]
    fn a_tokenizer_goes_out_and_comes_back() {
        let lines = ["the cat sat on the mat", "a cat, the mat; 1234 mats"].map(String::from);
        let text = "the cat sat, 1234 times on the mat";
        for kind in [Kind::Bpe, Kind::WordPiece] {
            let spec = TrainSpec { vocab_size: 300, ..TrainSpec::new(kind) };
            let tokenizer = train(lines.clone(), &spec, &mut |_| {}).unwrap().tokenizer;
            let back = GgufVocab::of(&tokenizer, "t").unwrap().tokenizer("t").unwrap();
            let ids = |t: &Tokenizer| t.encode(text, false).unwrap().ids;
            assert_eq!(ids(&back), ids(&tokenizer), "{}", tokenizer.model_name());
        }
        let unigram =
            train(lines, &TrainSpec { vocab_size: 200, ..TrainSpec::new(Kind::Unigram) }, &mut |_| {}).unwrap();
        assert!(GgufVocab::of(&unigram.tokenizer, "t").unwrap_err().what.contains("Unigram"));
    }
}
