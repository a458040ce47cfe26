//! Marian's tokenizer: a SentencePiece model for each language, and one `vocab.json` that says what the ids are.
//!
//! `>>ita<<` at the start chooses the target language and is a piece of its own; `</s>` ends every text; a piece that
//! the vocabulary lacks is `<unk>`.

use crate::spm::SpmModel;
use crate::tokenizer::Encoding;
use crate::validate::{self, guard};
use qkv_base::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Two languages, one table of ids (or one for each).
#[derive(Clone)]
pub(crate) struct Marian {
    source: tokenizers::Tokenizer,
    target: tokenizers::Tokenizer,
    source_ids: HashMap<String, u32>,
    target_ids: Option<HashMap<String, u32>>,
    pieces: BTreeMap<u32, String>,
    unk: u32,
    eos: (String, u32),
    pad: Option<u32>,
    /// the files as they were read, for saving
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
}

impl Marian {
    /// Reads `source.spm`, `target.spm`, `vocab.json` and, with separate vocabularies, `target_vocab.json`.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut side = |name: &'static str| -> Result<tokenizers::Tokenizer> {
            let place = dir.join(name).display().to_string();
            let bytes = validate::read(&dir.join(name))?;
            let json = SpmModel::parse(&place, &bytes)?.to_tokenizer_json();
            files.push((name, bytes));
            validate::open(&place, &json.into_value(), None)
        };
        let (source, target) = (side("source.spm")?, side("target.spm")?);
        let mut table = |name: &'static str| -> Result<HashMap<String, u32>> {
            let bytes = validate::read(&dir.join(name))?;
            let ids = ids(&dir.join(name).display().to_string(), &bytes)?;
            files.push((name, bytes));
            Ok(ids)
        };
        let source_ids = table("vocab.json")?;
        let target_ids = if dir.join("target_vocab.json").is_file() { Some(table("target_vocab.json")?) } else { None };
        let place = dir.join("vocab.json").display().to_string();
        let need = |piece: &str| {
            let hint = "Marian's vocab.json has `</s>`, `<unk>` and `<pad>`";
            source_ids.get(piece).copied().ok_or_else(|| Error::new(&place, format!("no `{piece}` in it"), hint))
        };
        let (unk, eos) = (need("<unk>")?, ("</s>".to_string(), need("</s>")?));
        let decoded = target_ids.as_ref().unwrap_or(&source_ids);
        let pieces = decoded.iter().map(|(piece, id)| (*id, piece.clone())).collect();
        let pad = source_ids.get("<pad>").copied();
        Ok(Self { source, target, source_ids, target_ids, pieces, unk, eos, pad, files })
    }

    /// The source language's pieces, and the text without the code of the target language before it.
    pub(crate) fn source_and_text<'a>(&self, text: &'a str) -> (&tokenizers::Tokenizer, &'a str) {
        (&self.source, &text[code(text)..])
    }

    pub(crate) fn encode(&self, place: &str, text: &str, add_special: bool, target: bool) -> Result<Encoding> {
        let engine = if target { &self.target } else { &self.source };
        let ids = if target { self.target_ids.as_ref().unwrap_or(&self.source_ids) } else { &self.source_ids };
        let (code, rest) = text.split_at(code(text));
        let mut encoding = Encoding::of(&guard(place, || engine.encode(rest, false))?, &[rest]);
        let shift = |(from, to): &mut (usize, usize), by| (*from, *to) = (*from + by, *to + by);
        encoding.bytes.iter_mut().for_each(|span| shift(span, code.len()));
        encoding.chars.iter_mut().for_each(|span| shift(span, code.chars().count()));
        if !code.is_empty() {
            encoding.put(0, code, (0, code.len()), (0, code.chars().count()), false);
        }
        if add_special {
            encoding.put(encoding.len(), &self.eos.0, (0, 0), (0, 0), true);
        }
        encoding.ids = encoding.pieces.iter().map(|piece| ids.get(piece).copied().unwrap_or(self.unk)).collect();
        Ok(encoding)
    }

    pub(crate) fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut text = String::new();
        let mut begins = true; // the first space of a run of pieces was never in the text
        for id in ids {
            if self.is_special(*id) {
                if !skip_special {
                    text.push_str(self.piece(*id).unwrap_or_default());
                    text.push(' ');
                    begins = true;
                }
            } else {
                let piece = self.piece(*id).unwrap_or_default().replace('▁', " ");
                text.push_str(if begins { piece.strip_prefix(' ').unwrap_or(&piece) } else { &piece });
                begins = false;
            }
        }
        text.trim().to_string()
    }

    pub(crate) fn piece(&self, id: u32) -> Option<&str> {
        self.pieces.get(&id).map(String::as_str)
    }

    pub(crate) fn id(&self, piece: &str) -> Option<u32> {
        self.source_ids.get(piece).copied()
    }

    pub(crate) fn is_special(&self, id: u32) -> bool {
        id == self.eos.1 || id == self.unk || Some(id) == self.pad
    }

    pub(crate) fn size(&self) -> usize {
        let targets = self.target_ids.iter().flat_map(|ids| ids.values());
        self.source_ids.values().chain(targets).max().map_or(0, |id| *id as usize + 1)
    }
}

impl Encoding {
    /// One more piece, `at` a place; its id is filled in by the caller.
    fn put(&mut self, at: usize, piece: &str, bytes: (usize, usize), chars: (usize, usize), special: bool) {
        self.ids.insert(at, 0);
        self.pieces.insert(at, piece.to_string());
        self.bytes.insert(at, bytes);
        self.chars.insert(at, chars);
        self.type_ids.insert(at, 0);
        self.special_mask.insert(at, special);
        self.word_ids.insert(at, None);
        self.sequence_ids.insert(at, if special { None } else { Some(0) });
    }
}

/// A `vocab.json`: piece → id, without a gulf.
pub(crate) fn ids(place: &str, bytes: &[u8]) -> Result<HashMap<String, u32>> {
    let ids = all_ids(place, bytes)?;
    let worst = ids.iter().max_by_key(|(_, id)| **id).filter(|(_, id)| **id as usize >= 2 * ids.len() + 1024);
    match worst {
        Some((piece, id)) => {
            let what = format!("piece `{piece}` has the id {id}, but the vocabulary has {}", ids.len());
            Err(Error::new(place, what, "the file is damaged"))
        }
        None => Ok(ids),
    }
}

/// Piece → id, as they are.
pub(crate) fn all_ids(place: &str, bytes: &[u8]) -> Result<HashMap<String, u32>> {
    let json = validate::parse(place, bytes)?;
    let bad = |what: String| Error::new(place, what, "the file maps pieces to ids");
    let map = json.as_object().ok_or_else(|| bad("not an object".into()))?;
    let row = |(piece, id): (&String, &Value)| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        Ok((piece.clone(), id.ok_or_else(|| bad(format!("piece `{piece}` has no id that fits")))?))
    };
    map.iter().map(row).collect()
}

/// How many bytes of a text are the code of the target language: `>>ita<<`.
fn code(text: &str) -> usize {
    if text.starts_with(">>") { text.find("<<").map_or(0, |at| at + 2) } else { 0 }
}
