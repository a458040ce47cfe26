//! Whatever the format, a tokenizer enters as `tokenizer.json` and is checked here before it is believed.
//!
//! The engine indexes and slices by what the file says, so a crafted file can make it panic. Everything known to do so
//! is refused with a sentence; what is not known yet is caught by `catch_unwind` and becomes an error too.

use crate::{charsmap, growth};
use qkv_base::{Error, Result, read_file};
use serde_json::Value;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The largest file read: four times the largest vocabulary in use (Gemma's, 33 MB).
pub const MAX_FILE: u64 = 128 << 20;
/// The most pieces a vocabulary may have.
pub const MAX_PIECES: usize = 4 << 20;

/// What the engine answers.
pub(crate) type Answer<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Calls the engine; a panic becomes an error.
pub(crate) fn guard<T>(place: &str, call: impl FnOnce() -> Answer<T>) -> Result<T> {
    let hint = "the file is damaged or not a tokenizer; take it again from where it came";
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Error::new(place, error.to_string(), hint)),
        Err(_) => Err(Error::new(place, "the tokenizer contradicts itself and cannot be run", hint)),
    }
}

/// The bytes of a file of at most [`MAX_FILE`] bytes, without a byte-order mark.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    if size > MAX_FILE {
        let what = format!("{} MB are too much for a tokenizer (at most {} MB)", size >> 20, MAX_FILE >> 20);
        return Err(Error::new(path.display().to_string(), what, "is this a file of weights?"));
    }
    read_file(path, MAX_FILE, "check the path; a tokenizer is a file or a model directory")
}

/// A file as text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|error| {
        let what = format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to());
        Error::new(path.display().to_string(), what, "save the file as UTF-8")
    })
}

/// A file as JSON.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    parse(&path.display().to_string(), &read(path)?)
}

/// Bytes as JSON; the error names line and column.
pub(crate) fn parse(place: &str, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|e| Error::new(place, e.to_string(), "the file is not whole JSON"))
}

/// Checks a `tokenizer.json` and builds the engine from it. `limit` is the model's vocabulary size, if it is known.
pub(crate) fn open(place: &str, json: &Value, limit: Option<usize>) -> Result<tokenizers::Tokenizer> {
    check(place, json, limit)?;
    let text = json.to_string();
    // From text, not from the value: the engine's readers borrow strings.
    let mut engine: tokenizers::Tokenizer =
        guard(place, || text.parse::<tokenizers::Tokenizer>().map_err(|e| e.to_string().into()))?;
    // Cutting and padding are the batch's work; a file must not shorten a text in silence.
    guard(place, || {
        engine.with_truncation(None)?;
        engine.with_padding(None);
        Ok(())
    })?;
    Ok(engine)
}

/// Everything in the file that the engine would trust blindly.
pub(crate) fn check(place: &str, json: &Value, limit: Option<usize>) -> Result<()> {
    let bad = |what: String, hint: &str| Err(Error::new(place, what, hint));
    let Some(model) = json.get("model").filter(|m| m.is_object()) else {
        return bad("no `model` in it".into(), "this is not a tokenizer.json");
    };
    let vocab = vocabulary(place, model)?;
    if vocab.is_empty() || vocab.len() > MAX_PIECES {
        let what = format!("a vocabulary of {} pieces", vocab.len());
        return bad(what, "between one and four million pieces are believed");
    }
    check_ids(place, &vocab, json, limit)?;
    check_merges(place, model, &vocab)?;
    check_lengths(place, json)?;
    check_template(place, json.get("post_processor").unwrap_or(&Value::Null), 0)?;
    check_parts(place, json.get("pre_tokenizer").unwrap_or(&Value::Null), 0)?;
    check_parts(place, json.get("normalizer").unwrap_or(&Value::Null), 0)?;
    check_parts(place, json.get("decoder").unwrap_or(&Value::Null), 0)?;
    growth::check(place, json)
}

/// Piece → id, of a map (BPE, WordPiece, WordLevel) or a list with scores (Unigram).
fn vocabulary<'a>(place: &str, model: &'a Value) -> Result<HashMap<&'a str, u64>> {
    let bad = |what: String| Error::new(place, what, "the vocabulary maps pieces to ids, or lists [piece, score]");
    match model.get("vocab") {
        Some(Value::Object(map)) => map
            .iter()
            .map(|(piece, id)| {
                let id = id.as_u64().ok_or_else(|| bad(format!("piece `{piece}` has the id {id}")))?;
                Ok((piece.as_str(), id))
            })
            .collect(),
        Some(Value::Array(list)) => {
            let pairs = list.iter().enumerate().map(|(i, row)| {
                let piece = row.get(0).and_then(Value::as_str);
                let score = row.get(1).and_then(Value::as_f64).filter(|s| s.is_finite());
                let (Some(piece), Some(_)) = (piece, score) else {
                    return Err(bad(format!("row {i} of the vocabulary is {row}")));
                };
                Ok((piece, i as u64))
            });
            pairs.collect()
        }
        _ => Err(bad("the model has no vocabulary".into())),
    }
}

/// Ids must fit the embedding table: below the model's size if it is known, and without a gulf in any case.
fn check_ids(place: &str, vocab: &HashMap<&str, u64>, json: &Value, limit: Option<usize>) -> Result<()> {
    let added = json.get("added_tokens").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ids = added.iter().filter_map(|t| Some((t.get("content")?.as_str()?, t.get("id")?.as_u64()?)));
    let size = vocab.len() + added.len();
    // Published files do have holes, but not more holes than pieces.
    let bound = limit.map_or(2 * size as u64 + 1024, |n| n as u64);
    let worst = vocab.iter().map(|(p, i)| (*p, *i)).chain(ids).max_by_key(|(piece, id)| (*id, *piece));
    match worst {
        Some((piece, id)) if id >= bound => Err(Error::new(
            place,
            format!("piece `{piece}` has the id {id}, but the vocabulary has {}", limit.unwrap_or(size)),
            "tokenizer and model do not belong together, or the file is damaged",
        )),
        _ => Ok(()),
    }
}

/// Both parts of a merge and their union are pieces; a part is no shorter than the prefix that is cut from it.
fn check_merges(place: &str, model: &Value, vocab: &HashMap<&str, u64>) -> Result<()> {
    let hint = "the merges and the vocabulary come from different tokenizers";
    let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or("");
    let merges = model.get("merges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (i, merge) in merges.iter().enumerate() {
        let pair = match merge {
            Value::String(line) => line.split_once(' '),
            _ => merge.get(0).and_then(Value::as_str).zip(merge.get(1).and_then(Value::as_str)),
        };
        let Some((a, b)) = pair else {
            return Err(Error::new(place, format!("merge {i} is {merge}"), "a merge joins two pieces"));
        };
        let absent = [a, b].into_iter().find(|part| !vocab.contains_key(part));
        if let Some(part) = absent {
            return Err(Error::new(place, format!("merge {i} joins `{part}`, which is not a piece"), hint));
        }
        let whole = b.get(prefix.len()..).map(|rest| format!("{a}{rest}"));
        if !whole.is_some_and(|whole| vocab.contains_key(whole.as_str())) {
            return Err(Error::new(place, format!("merge {i} joins `{a}` and `{b}` to what is not a piece"), hint));
        }
    }
    Ok(())
}

/// Truncation and padding that could never be met.
fn check_lengths(place: &str, json: &Value) -> Result<()> {
    let number = |part: &str, key: &str| json.get(part).and_then(|p| p.get(key)).and_then(Value::as_u64);
    if let Some(max) = number("truncation", "max_length") {
        let stride = number("truncation", "stride").unwrap_or(0);
        if stride >= max {
            let what = format!("truncation to {max} tokens with a stride of {stride} never ends");
            return Err(Error::new(place, what, "the stride must be smaller than max_length"));
        }
    }
    let fixed = json.pointer("/padding/strategy/Fixed").and_then(Value::as_u64);
    if fixed == Some(0) || number("padding", "pad_to_multiple_of") == Some(0) {
        return Err(Error::new(place, "padding to a length of 0", "give a length, or no padding"));
    }
    Ok(())
}

/// How deep parts may be nested in each other.
const MAX_DEPTH: usize = 16;

/// Every token that a template names must be among the template's special tokens, with ids.
fn check_template(place: &str, part: &Value, depth: usize) -> Result<()> {
    too_deep(place, depth)?;
    for inner in part.get("processors").and_then(Value::as_array).into_iter().flatten() {
        check_template(place, inner, depth + 1)?;
    }
    if part.get("type").and_then(Value::as_str) != Some("TemplateProcessing") {
        return Ok(());
    }
    for side in ["single", "pair"] {
        for slot in part.get(side).and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = slot.pointer("/SpecialToken/id").and_then(Value::as_str) else { continue };
            let known = part.get("special_tokens").and_then(|t| t.get(name)).and_then(|t| t.get("ids"));
            if known.and_then(Value::as_array).is_none_or(Vec::is_empty) {
                let what = format!("the template `{side}` names `{name}`, which has no id");
                return Err(Error::new(place, what, "add it to the template's special_tokens"));
            }
        }
    }
    Ok(())
}

/// Normalisers, pre-tokenizers and decoders with numbers or tables inside.
fn check_parts(place: &str, part: &Value, depth: usize) -> Result<()> {
    too_deep(place, depth)?;
    let inner = ["pretokenizers", "normalizers", "decoders"].iter().filter_map(|k| part.get(k)?.as_array());
    for inner in inner.flatten() {
        check_parts(place, inner, depth + 1)?;
    }
    match part.get("type").and_then(Value::as_str) {
        Some("FixedLength") if part.get("length").and_then(Value::as_u64) == Some(0) => {
            Err(Error::new(place, "a pre-tokenizer cuts words of length 0", "FixedLength needs a length above 0"))
        }
        Some("Precompiled") => {
            let map = part.get("precompiled_charsmap").and_then(Value::as_str);
            let map = map.ok_or_else(|| Error::new(place, "Precompiled without its map", "the file is damaged"))?;
            charsmap::check(place, &charsmap::from_base64(place, map)?)
        }
        _ => Ok(()),
    }
}

fn too_deep(place: &str, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::new(place, "parts nested too deeply", "no tokenizer needs this; the file is damaged"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sound() -> Value {
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
        })
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut json = sound();
        change(&mut json);
        open("t.json", &json, None).unwrap_err().to_string()
    }

    #[test]
    fn a_sound_file_opens() {
        assert_eq!(open("t.json", &sound(), None).unwrap().encode("ab", false).unwrap().get_ids(), [2]);
    }

    /// Fault 13, one line each.
    #[test]
    fn fault_13_crooked_tokenizers_are_named() {
        let long = |j: &mut Value| j["model"]["merges"] = json!([["abababab", "b"]]);
        assert_eq!(refused(long), "t.json: merge 0 joins `abababab`, which is not a piece");
        let union = |j: &mut Value| j["model"]["merges"] = json!([["ab", "ab"]]);
        assert_eq!(refused(union), "t.json: merge 0 joins `ab` and `ab` to what is not a piece");
        let prefix = |j: &mut Value| j["model"]["continuing_subword_prefix"] = json!("####");
        assert_eq!(refused(prefix), "t.json: merge 0 joins `a` and `b` to what is not a piece");
        let template = |j: &mut Value| {
            let single =
                json!([{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]);
            j["post_processor"] =
                json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {}});
        };
        assert_eq!(refused(template), "t.json: the template `single` names `[CLS]`, which has no id");
        let stride = |j: &mut Value| {
            j["truncation"] = json!({"max_length": 8, "stride": 8, "strategy": "LongestFirst", "direction": "Right"});
        };
        assert_eq!(refused(stride), "t.json: truncation to 8 tokens with a stride of 8 never ends");
        let fixed = |j: &mut Value| j["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0});
        assert_eq!(refused(fixed), "t.json: a pre-tokenizer cuts words of length 0");
        let ids = |j: &mut Value| j["model"]["vocab"]["ab"] = json!(1_000_000_000);
        assert_eq!(refused(ids), "t.json: piece `ab` has the id 1000000000, but the vocabulary has 3");
        let map = |j: &mut Value| j["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
        assert_eq!(refused(map), "t.json: the character map is cut: its table wants 4294967295 bytes, 0 are there");
        let model = |j: &mut Value| j["model"] = json!(7);
        assert_eq!(refused(model), "t.json: no `model` in it");
    }

    #[test]
    fn ids_beyond_the_model_are_refused() {
        assert!(open("t.json", &sound(), Some(3)).is_ok());
        let error = open("t.json", &sound(), Some(2)).unwrap_err();
        assert_eq!(error.what, "piece `ab` has the id 2, but the vocabulary has 2");
    }

    #[test]
    fn a_huge_file_is_refused_unread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokenizer.json");
        std::fs::File::create(&path).unwrap().set_len(300 << 20).unwrap(); // sparse: nothing is written
        assert!(read(&path).unwrap_err().what.starts_with("300 MB are too much"));
    }
}
