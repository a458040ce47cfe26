//! Finds out what kind of tokenizer a path holds, and brings it to `validate` as a `tokenizer.json`.
//!
//! In a directory, in this order: `tokenizer.json`; Marian's `source.spm` + `target.spm` + `vocab.json`; GPT-2's
//! `vocab.json` + `merges.txt`; BERT's `vocab.txt`; SentencePiece's `spiece.model` or any `*.model`.

use crate::chat;
use crate::marian::{self, Marian};
use crate::special::{Said, Special};
use crate::spm::SpmModel;
use crate::tokenizer::{Tokenizer, TokenizerEngine};
use crate::tokenizer_json::{self, TokenizerJson};
use crate::validate;
use qkv_base::{Error, Result};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

impl Tokenizer {
    /// Loads a tokenizer from a file or from a model directory.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (dir, file) = if path.is_dir() {
            (path.to_path_buf(), choose(path)?)
        } else {
            (path.parent().unwrap_or(Path::new("")).to_path_buf(), path.to_path_buf())
        };
        let said = Said::read(&dir)?;
        let chats = chat::read(&dir, &said)?;
        let place = file.display().to_string();
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if name == "source.spm" || name == "target.spm" {
            return marian(&dir, &said, chats);
        }
        let json = match name {
            "vocab.txt" => word_piece(&place, &validate::read_text(&file)?, &said)?,
            "merges.txt" | "vocab.json" => byte_pairs(&dir, &said)?,
            _ if name.ends_with(".model") || name.ends_with(".spm") => {
                sentence_piece(&place, &validate::read(&file)?, &said)?
            }
            _ => validate::read_json(&file)?,
        };
        Self::from_parts(&place, &json, &said, chats)
    }
}

/// The files of a directory that can hold a tokenizer, those that say most first.
pub const FILES: &[&str] =
    &["tokenizer.json", "source.spm", "merges.txt", "vocab.txt", "spiece.model", "tokenizer.model"];

/// What is said of a directory that holds none of them.
pub const NO_TOKENIZER: &str = "no tokenizer in this directory";

/// The file of a directory that says most.
fn choose(dir: &Path) -> Result<PathBuf> {
    let has = |name: &str| dir.join(name).is_file();
    if let Some(name) = FILES.iter().find(|name| has(name)) {
        return Ok(dir.join(name));
    }
    let entries = std::fs::read_dir(dir).map_err(|e| Error::read(dir.display().to_string(), &e, "check the path"))?;
    let mut models: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    models.retain(|path| path.extension().is_some_and(|e| e == "model"));
    models.sort();
    models.into_iter().next().ok_or_else(|| {
        let hint = "one of tokenizer.json, vocab.json with merges.txt, vocab.txt, a SentencePiece .model, or Marian's \
                    source.spm, target.spm and vocab.json is needed";
        Error::new(dir.display().to_string(), NO_TOKENIZER, hint)
    })
}

fn marian(dir: &Path, said: &Said, chats: Vec<(String, String)>) -> Result<Tokenizer> {
    let marian = Marian::load(dir)?;
    let (size, place) = (marian.size(), dir.display().to_string());
    let special = Special::find(said, |piece| marian.id(piece), size);
    Ok(Tokenizer { engine: TokenizerEngine::Marian(Box::new(marian)), special, chats, size, place })
}

/// GPT-2's two files, and RoBERTa's and BART's, which put `<s> … </s>` around.
fn byte_pairs(dir: &Path, said: &Said) -> Result<Value> {
    if matches!(said.class(), "CLIPTokenizer" | "XLMTokenizer" | "FSMTTokenizer" | "OpenAIGPTTokenizer") {
        let what = format!("{} marks the end of words in its own way", said.class());
        return Err(Error::new(dir.display().to_string(), what, "save it as tokenizer.json and load that"));
    }
    let path = dir.join("vocab.json");
    let vocab = marian::ids(&path.display().to_string(), &validate::read(&path)?)?;
    let merges = validate::read_text(&dir.join("merges.txt"))?;
    let lines = merges.lines().enumerate().filter(|(i, l)| !(l.is_empty() || *i == 0 && l.starts_with("#version")));
    let merges: Vec<Value> = lines.map(|(_, line)| line.into()).collect();
    let id = |piece: &str| vocab.get(piece).copied();
    let framed = matches!(said.class(), "RobertaTokenizer" | "BartTokenizer" | "LongformerTokenizer" | "LEDTokenizer");
    let prefix = said.flag("add_prefix_space").unwrap_or(false);
    let cls = said.token("cls").or(said.token("bos")).unwrap_or("<s>");
    let sep = said.token("sep").or(said.token("eos")).unwrap_or("</s>");
    let post = match (framed, id(cls), id(sep)) {
        (true, Some(c), Some(s)) => json!({"type": "RobertaProcessing", "sep": [sep, s], "cls": [cls, c],
                                           "trim_offsets": true, "add_prefix_space": prefix}),
        _ => json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}),
    };
    let names = if framed { &["<s>", "</s>", "<unk>", "<pad>", "<mask>"][..] } else { &["<|endoftext|>"] };
    let added = added(said, names, id, Some(dir))?;
    let vocab: Map<String, Value> = vocab.into_iter().map(|(piece, id)| (piece, id.into())).collect();
    let model = json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                       "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                       "vocab": vocab, "merges": merges});
    let byte_level = tokenizer_json::byte_level(prefix, true);
    let decoder = tokenizer_json::byte_level(true, true);
    Ok(TokenizerJson {
        normalizer: Value::Null,
        pre_tokenizer: byte_level,
        model,
        post_processor: post,
        decoder,
        added,
    }
    .into_value())
}

/// BERT's list of pieces, one a line.
fn word_piece(place: &str, text: &str, said: &Said) -> Result<Value> {
    let vocab: Map<String, Value> =
        text.lines().enumerate().map(|(i, piece)| (piece.trim_end_matches('\r').to_string(), i.into())).collect();
    let id = |piece: &str| vocab.get(piece).and_then(Value::as_u64).map(|id| id as u32);
    let names = [("unk", "[UNK]"), ("sep", "[SEP]"), ("pad", "[PAD]"), ("cls", "[CLS]"), ("mask", "[MASK]")];
    let names = names.map(|(role, usual)| said.token(role).unwrap_or(usual));
    let need = |piece: &str| {
        let hint = "a WordPiece vocabulary has its special tokens in it; tokenizer_config.json may name others";
        id(piece).ok_or_else(|| Error::new(place, format!("no `{piece}` among {} pieces", vocab.len()), hint))
    };
    let [unk, sep, _, cls, _] = names;
    need(unk)?;
    let post_processor = tokenizer_json::bert((cls, need(cls)?), (sep, need(sep)?));
    let lower = said.flag("do_lower_case").unwrap_or(true);
    let normalizer = json!({"type": "BertNormalizer", "clean_text": true, "lowercase": lower,
        "handle_chinese_chars": said.flag("tokenize_chinese_chars").unwrap_or(true),
        "strip_accents": said.flag("strip_accents")});
    let model = json!({"type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##",
                       "max_input_chars_per_word": 100, "vocab": vocab});
    let decoder = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    let pre_tokenizer = json!({"type": "BertPreTokenizer"});
    let added = added(said, &names, id, None)?;
    Ok(TokenizerJson { normalizer, pre_tokenizer, model, post_processor, decoder, added }.into_value())
}

/// SentencePiece, with what the family puts around a text and after the vocabulary.
fn sentence_piece(place: &str, bytes: &[u8], said: &Said) -> Result<Value> {
    let mut spm = SpmModel::parse(place, bytes)?;
    let class = said.class();
    if matches!(
        class,
        "XLMRobertaTokenizer" | "CamembertTokenizer" | "MBartTokenizer" | "BarthezTokenizer" | "M2M100Tokenizer"
    ) {
        let what = format!("{class} numbers its pieces otherwise than its SentencePiece file");
        return Err(Error::new(place, what, "save it as tokenizer.json and load that"));
    }
    if class == "T5Tokenizer" {
        let extra = said.tokenizer.get("extra_ids").and_then(Value::as_u64).unwrap_or(100).min(10_000);
        let sentinels = (0..extra).rev().map(|i| (format!("<extra_id_{i}>"), 0.0, crate::PieceKind::Control));
        let known: std::collections::HashSet<String> = spm.pieces.iter().map(|(p, _, _)| p.clone()).collect();
        spm.pieces.extend(sentinels.filter(|(p, _, _)| !known.contains(p)));
    }
    let id = |piece: &str| spm.pieces.iter().position(|(p, _, _)| p == piece).map(|i| i as u32);
    let named = |role: &str, usual: &'static str| {
        let name = said.token(role).unwrap_or(usual);
        id(name).map(|id| (name.to_string(), id))
    };
    let (bos, eos) = (named("bos", "<s>"), named("eos", "</s>"));
    let wanted = match class {
        "T5Tokenizer" | "PegasusTokenizer" => (false, true),
        "LlamaTokenizer" | "GemmaTokenizer" => (true, false),
        _ => (false, false),
    };
    let wanted = (said.flag("add_bos_token").unwrap_or(wanted.0), said.flag("add_eos_token").unwrap_or(wanted.1));
    let (bos, eos) = (bos.filter(|_| wanted.0), eos.filter(|_| wanted.1));
    let mut json = spm.to_tokenizer_json();
    json.post_processor = tokenizer_json::around(
        bos.as_ref().map(|(t, i)| (t.as_str(), *i)),
        eos.as_ref().map(|(t, i)| (t.as_str(), *i)),
    );
    json.added.extend(said.added());
    Ok(json.into_value())
}

/// The tokens to find whole in a text: the customary ones that exist, and what the files beside add.
fn added(
    said: &Said,
    names: &[&str],
    id: impl Fn(&str) -> Option<u32>,
    dir: Option<&Path>,
) -> Result<Vec<(u32, String, bool)>> {
    let roles = ["bos", "eos", "pad", "unk", "mask", "cls", "sep"].into_iter().filter_map(|role| said.token(role));
    let all = names.iter().copied().chain(roles);
    let mut added: Vec<(u32, String, bool)> = all.filter_map(|t| Some((id(t)?, t.to_string(), true))).collect();
    added.extend(said.added());
    if let Some(path) = dir.map(|dir| dir.join("added_tokens.json")).filter(|path| path.is_file()) {
        let extra = marian::all_ids(&path.display().to_string(), &validate::read(&path)?)?;
        added.extend(extra.into_iter().map(|(piece, id)| (id, piece, false)));
    }
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[(&str, &str)]) -> Result<Tokenizer> {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(dir.path().join(name), text).unwrap());
        Tokenizer::load(dir.path())
    }

    #[test]
    fn what_cannot_be_loaded_says_why() {
        assert_eq!(with(&[]).unwrap_err().what, "no tokenizer in this directory");
        let clip = [
            ("vocab.json", "{}"),
            ("merges.txt", ""),
            ("tokenizer_config.json", r#"{"tokenizer_class": "CLIPTokenizerFast"}"#),
        ];
        assert_eq!(with(&clip).unwrap_err().what, "CLIPTokenizer marks the end of words in its own way");
        assert_eq!(with(&[("vocab.txt", "[UNK]\na\n")]).unwrap_err().what, "no `[CLS]` among 2 pieces");
        assert!(with(&[("tokenizer.json", "{\"model\"")]).unwrap_err().what.contains("line 1 column 8"));
        let missing = Tokenizer::load("nowhere/tokenizer.json").unwrap_err();
        assert!(missing.place.ends_with("tokenizer.json") && !missing.hint.is_empty());
    }

    #[test]
    fn roberta_puts_its_frame_around() {
        let vocab = r#"{"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "<mask>": 5}"#;
        let config = r#"{"tokenizer_class": "RobertaTokenizer"}"#;
        let files = [("vocab.json", vocab), ("merges.txt", "#version: 0.2\na b\n"), ("tokenizer_config.json", config)];
        let tokenizer = with(&files).unwrap();
        assert_eq!(tokenizer.encode("ab", true).unwrap().ids, [0, 4, 1]);
        assert_eq!(tokenizer.encode_pair("ab", "a", true).unwrap().ids, [0, 4, 1, 1, 2, 1]);
        assert_eq!(tokenizer.special().mask, Some(5));
    }

    #[test]
    fn a_smaller_model_refuses_the_tokenizer() {
        let vocab = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n";
        assert!(with(&[("vocab.txt", vocab), ("config.json", r#"{"vocab_size": 6}"#)]).is_ok());
        let error = with(&[("vocab.txt", vocab), ("config.json", r#"{"vocab_size": 5}"#)]).unwrap_err();
        assert_eq!(error.what, "piece `a` has the id 5, but the vocabulary has 5");
    }
}
