//! Every format beside its reference: the files of `tests/data` are made by `make_goldens.py` with transformers,
//! tokenizers and sentencepiece, from text of its own.

use qkv_text::{StreamDecoder, Tokenizer};
use serde_json::Value;
use std::path::PathBuf;

fn dir(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn rows(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dir(name).join("expected.json")).unwrap();
    serde_json::from_str::<Vec<Value>>(&text).unwrap()
}

fn ids(row: &Value, key: &str) -> Vec<u32> {
    row[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Every difference at once: it is easier to see what kind of lines fail.
fn report(name: &str, differences: Vec<String>) {
    assert!(differences.is_empty(), "{name}: {} lines differ\n{}", differences.len(), differences.join("\n"));
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = StreamDecoder::new(tokenizer, true);
    let mut text: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
    text.push_str(&stream.finish().unwrap());
    text
}

/// Ids, places in the text and decoded text of the engine's own formats.
fn engine(name: &str) {
    let tokenizer = Tokenizer::load(dir(name)).unwrap();
    let mut differences = Vec::new();
    for row in rows(name) {
        let text = row["text"].as_str().unwrap();
        let encoding = tokenizer.encode(text, true).unwrap();
        let chars: Vec<(usize, usize)> = serde_json::from_value(row["chars"].clone()).unwrap();
        let decoded = tokenizer.decode(&encoding.ids, true).unwrap();
        if encoding.ids != ids(&row, "ids") || encoding.chars != chars || decoded != row["decoded"].as_str().unwrap() {
            differences
                .push(format!("{text:?}\n  ours {:?} {:?} {decoded:?}\n  want {row}", encoding.ids, encoding.chars));
        }
        assert_eq!(streamed(&tokenizer, &encoding.ids), decoded, "{text:?}");
    }
    report(name, differences);
}

#[test]
fn gpt2_vocab_and_merges() {
    engine("gpt2");
    let special = Tokenizer::load(dir("gpt2")).unwrap().special();
    assert_eq!((special.eos, special.pad), (Some(0), None));
}

#[test]
fn bert_vocab_txt() {
    engine("bert");
    let tokenizer = Tokenizer::load(dir("bert").join("vocab.txt")).unwrap();
    let want: Value = serde_json::from_str(&std::fs::read_to_string(dir("bert").join("pair.json")).unwrap()).unwrap();
    let pair = tokenizer.encode_pair("The cat", "la città", true).unwrap();
    assert_eq!((pair.ids, pair.type_ids), (ids(&want, "ids"), ids(&want, "type_ids")));
    let special = tokenizer.special();
    assert_eq!((special.pad, special.unk, special.cls, special.mask), (Some(0), Some(1), Some(2), Some(4)));
}

/// SentencePiece knows no special tokens in a text, the engine finds them: that line is left out.
fn sentence_piece(name: &str) {
    let tokenizer = Tokenizer::load(dir(name)).unwrap();
    let mut differences = Vec::new();
    for row in rows(name) {
        let text = row["text"].as_str().unwrap();
        if text.contains("<s>") {
            continue;
        }
        let encoding = tokenizer.encode(text, false).unwrap();
        let decoded = tokenizer.decode(&encoding.ids, true).unwrap();
        // An unknown piece is ` ⁇ ` there, nothing here.
        let knows = !row["decoded"].as_str().unwrap().contains('⁇');
        if encoding.ids != ids(&row, "ids") || knows && decoded != row["decoded"].as_str().unwrap() {
            differences.push(format!("{text:?}\n  ours {:?} {decoded:?}\n  want {row}", encoding.ids));
        }
        assert_eq!(streamed(&tokenizer, &encoding.ids), decoded, "{text:?}");
    }
    report(name, differences);
}

#[test]
fn t5_unigram_with_a_character_map() {
    sentence_piece("t5");
    let tokenizer = Tokenizer::load(dir("t5")).unwrap();
    let ids = tokenizer.encode("the cat", true).unwrap().ids;
    assert_eq!(ids.last(), tokenizer.special().eos.as_ref());
    assert_eq!(tokenizer.id("<extra_id_0>"), Some(tokenizer.vocab_size() as u32 - 1));
}

#[test]
fn llama_bpe_with_byte_fallback() {
    sentence_piece("llama");
    let tokenizer = Tokenizer::load(dir("llama")).unwrap();
    assert_eq!(tokenizer.encode("the cat", true).unwrap().ids[0], tokenizer.special().bos.unwrap());
}

#[test]
fn marian_source_and_target() {
    let tokenizer = Tokenizer::load(dir("marian")).unwrap();
    let mut differences = Vec::new();
    for row in rows("marian") {
        let text = row["text"].as_str().unwrap();
        let source = tokenizer.encode(text, true).unwrap().ids;
        let target = tokenizer.encode_target(text, true).unwrap().ids;
        let decoded = tokenizer.decode(&target, true).unwrap();
        if source != ids(&row, "ids") || target != ids(&row, "target") || decoded != row["decoded"].as_str().unwrap() {
            differences.push(format!("{text:?}\n  ours {source:?} {target:?} {decoded:?}\n  want {row}"));
        }
        assert_eq!(streamed(&tokenizer, &target), decoded, "{text:?}");
    }
    report("marian", differences);
}

/// What is saved is what was loaded, and the bytes repeat.
#[test]
fn saved_and_loaded_again() {
    for name in ["gpt2", "bert", "t5", "llama", "marian"] {
        let tokenizer = Tokenizer::load(dir(name)).unwrap();
        let out = tempfile::tempdir().unwrap();
        tokenizer.save(out.path()).unwrap();
        let again = Tokenizer::load(out.path()).unwrap();
        assert_eq!(again.special(), tokenizer.special(), "{name}");
        assert_eq!(again.files().unwrap(), tokenizer.files().unwrap(), "{name}");
        for row in rows(name) {
            let text = row["text"].as_str().unwrap();
            assert_eq!(again.encode(text, true).unwrap(), tokenizer.encode(text, true).unwrap(), "{name}: {text:?}");
        }
    }
}
