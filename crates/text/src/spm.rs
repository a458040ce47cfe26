//! SentencePiece's `.model`: a protobuf of pieces, how they were trained, and how text is normalised.
//!
//! Read by hand, since four messages need no protobuf library; then written as a `tokenizer.json`:
//! unigram scores stay scores; BPE scores become ranks of merges, best score first.

use crate::tokenizer_json::{self, TokenizerJson};
use crate::{charsmap, validate};
use qkv_base::{Error, Result};
use serde_json::{Value, json};
use std::collections::HashMap;

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// learnt from text
    Normal,
    /// stands for what is not known
    Unknown,
    /// begins, ends, pads: never found in a text
    Control,
    /// always kept whole
    UserDefined,
    /// never used
    Unused,
    /// one byte
    Byte,
}

/// How the pieces cut a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpmAlgorithm {
    /// the likeliest cut
    Unigram,
    /// pairs joined, best score first
    Bpe,
}

/// A SentencePiece model.
#[derive(Clone, Debug)]
pub struct SpmModel {
    /// piece, score, kind; the id is the place
    pub pieces: Vec<(String, f32, PieceKind)>,
    /// how words are cut
    pub algorithm: SpmAlgorithm,
    /// unknown characters become their bytes
    pub byte_fallback: bool,
    /// the table that rewrites characters, empty for none
    pub charsmap: Vec<u8>,
    /// a space is put before the text
    pub add_dummy_prefix: bool,
    /// spaces at both ends go, runs of them become one
    pub remove_extra_whitespaces: bool,
}

impl SpmModel {
    /// Reads the bytes of a `.model` file.
    pub fn parse(place: &str, bytes: &[u8]) -> Result<Self> {
        let mut model = Self {
            pieces: Vec::new(),
            algorithm: SpmAlgorithm::Unigram,
            byte_fallback: false,
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
        };
        let mut message = Wire { place, bytes };
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (1, Item::Bytes(piece)) => model.pieces.push(read_piece(place, piece)?),
                (2, Item::Bytes(trainer)) => model.read_trainer(place, trainer)?,
                (3, Item::Bytes(normalizer)) => model.read_normalizer(place, normalizer)?,
                _ => {}
            }
        }
        if model.pieces.is_empty() || model.pieces.len() > validate::MAX_PIECES {
            return Err(bad(place, format!("{} pieces", model.pieces.len())));
        }
        if !model.charsmap.is_empty() {
            charsmap::check(place, &model.charsmap)?;
        }
        Ok(model)
    }

    fn read_trainer(&mut self, place: &str, bytes: &[u8]) -> Result<()> {
        let mut message = Wire { place, bytes };
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (3, Item::Number(1)) => self.algorithm = SpmAlgorithm::Unigram,
                (3, Item::Number(2)) => self.algorithm = SpmAlgorithm::Bpe,
                (3, Item::Number(n)) => {
                    let what = format!("SentencePiece's model type {n} (word or char)");
                    return Err(Error::new(place, what, "unigram and bpe models can be read"));
                }
                (24, Item::Number(n)) if n != 0 => {
                    let what = "SentencePiece with spaces at the end of words";
                    return Err(Error::new(place, what, "train it without treat_whitespace_as_suffix"));
                }
                (35, Item::Number(n)) => self.byte_fallback = n != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, place: &str, bytes: &[u8]) -> Result<()> {
        let mut message = Wire { place, bytes };
        while let Some((field, value)) = message.next()? {
            match (field, value) {
                (2, Item::Bytes(map)) => self.charsmap = map.to_vec(),
                (3, Item::Number(n)) => self.add_dummy_prefix = n != 0,
                (4, Item::Number(n)) => self.remove_extra_whitespaces = n != 0,
                _ => {}
            }
        }
        Ok(())
    }

    /// The id of the unknown piece.
    pub(crate) fn unknown(&self) -> Option<usize> {
        self.pieces.iter().position(|(_, _, kind)| *kind == PieceKind::Unknown)
    }

    /// As the parts of a `tokenizer.json`; the post-processor is left to the family.
    pub(crate) fn to_tokenizer_json(&self) -> TokenizerJson {
        let found = |kind| matches!(kind, PieceKind::Control | PieceKind::UserDefined | PieceKind::Unknown);
        let rows = self.pieces.iter().enumerate().filter(|(_, (_, _, kind))| found(*kind));
        TokenizerJson {
            normalizer: self.normalizer(),
            pre_tokenizer: self.pre_tokenizer(),
            model: self.model(),
            post_processor: Value::Null,
            decoder: self.decoder(),
            added: rows.map(|(i, (p, _, kind))| (i as u32, p.clone(), *kind != PieceKind::UserDefined)).collect(),
        }
    }

    fn normalizer(&self) -> Value {
        let mut parts = Vec::new();
        if !self.charsmap.is_empty() {
            let map = charsmap::to_base64(&self.charsmap);
            parts.push(json!({"type": "Precompiled", "precompiled_charsmap": map}));
        }
        if self.remove_extra_whitespaces {
            // Spaces only: a tab at the end stays. One at the start does the work of the one that would be put there;
            // taking it away would hide from Metaspace that the text begins here.
            if !self.add_dummy_prefix {
                parts.push(json!({"type": "Replace", "pattern": {"Regex": "\\A +"}, "content": ""}));
            }
            parts.push(json!({"type": "Replace", "pattern": {"Regex": " +\\z"}, "content": ""}));
            parts.push(json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}));
        } else {
            // Metaspace adds no second space before a space, SentencePiece does: so it is written out here.
            if self.add_dummy_prefix {
                parts.push(json!({"type": "Prepend", "prepend": "▁"}));
            }
            parts.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}));
        }
        tokenizer_json::sequence("normalizers", parts)
    }

    /// Words are cut one by one (and remembered) unless some piece reaches over a space.
    fn pre_tokenizer(&self) -> Value {
        if !self.remove_extra_whitespaces {
            return Value::Null;
        }
        let over =
            |(p, _, kind): &(String, f32, PieceKind)| *kind == PieceKind::Normal && p.chars().skip(1).any(|c| c == '▁');
        let split = !self.pieces.iter().any(over);
        let scheme = if self.add_dummy_prefix { "first" } else { "never" };
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
    }

    fn decoder(&self) -> Value {
        let scheme = if self.add_dummy_prefix { "first" } else { "never" };
        if !self.byte_fallback && self.remove_extra_whitespaces {
            return json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        }
        let mut parts = vec![
            json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
            json!({"type": "ByteFallback"}),
            json!({"type": "Fuse"}),
        ];
        if self.add_dummy_prefix {
            parts.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
        }
        tokenizer_json::sequence("decoders", parts)
    }

    fn model(&self) -> Value {
        let unknown = self.unknown();
        match self.algorithm {
            SpmAlgorithm::Unigram => {
                let vocab: Vec<Value> = self.pieces.iter().map(|(p, score, _)| json!([p, *score as f64])).collect();
                json!({"type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": self.byte_fallback})
            }
            SpmAlgorithm::Bpe => {
                let pieces: Vec<(&str, f32, bool)> =
                    self.pieces.iter().map(|(p, s, kind)| (p.as_str(), *s, *kind == PieceKind::Normal)).collect();
                let name = unknown.and_then(|i| self.pieces.get(i)).map(|(p, _, _)| p.as_str());
                bpe_by_score(&pieces, name, self.byte_fallback)
            }
        }
    }
}

/// A BPE model whose merges are ordered by the score of what they make; every cut of a piece in two pieces is a merge.
pub(crate) fn bpe_by_score(pieces: &[(&str, f32, bool)], unknown: Option<&str>, byte_fallback: bool) -> Value {
    let ids: HashMap<&str, usize> = pieces.iter().enumerate().map(|(i, (p, _, _))| (*p, i)).collect();
    let mut merges: Vec<(f32, &str, &str)> = Vec::new();
    for (piece, score, normal) in pieces {
        if !normal {
            continue;
        }
        let cuts = piece.char_indices().skip(1).map(|(at, _)| piece.split_at(at));
        let known = |(a, b): &(&str, &str)| ids.contains_key(a) && ids.contains_key(b);
        let mut cuts: Vec<(&str, &str)> = cuts.filter(known).collect();
        cuts.sort_by_key(|(a, b)| (ids[a], ids[b]));
        merges.extend(cuts.into_iter().map(|(a, b)| (*score, a, b)));
    }
    let length = |piece: &str| piece.chars().count();
    merges.sort_by(|x, y| y.0.total_cmp(&x.0).then(length(y.1).cmp(&length(x.1))).then(length(y.2).cmp(&length(x.2))));
    let vocab: serde_json::Map<String, Value> =
        pieces.iter().enumerate().map(|(i, (p, _, _))| (p.to_string(), i.into())).collect();
    let merges: Vec<Value> = merges.into_iter().map(|(_, a, b)| json!([a, b])).collect();
    json!({"type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
           "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": byte_fallback, "ignore_merges": false,
           "vocab": vocab, "merges": merges})
}

fn read_piece(place: &str, bytes: &[u8]) -> Result<(String, f32, PieceKind)> {
    let (mut piece, mut score, mut kind) = (String::new(), 0.0, PieceKind::Normal);
    let mut message = Wire { place, bytes };
    while let Some((field, value)) = message.next()? {
        match (field, value) {
            (1, Item::Bytes(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| bad(place, "a piece that is not UTF-8".into()))?;
                piece = text.to_string();
            }
            (2, Item::Four(word)) => score = f32::from_bits(word),
            (3, Item::Number(n)) => {
                kind = match n {
                    1 => PieceKind::Normal,
                    2 => PieceKind::Unknown,
                    3 => PieceKind::Control,
                    4 => PieceKind::UserDefined,
                    5 => PieceKind::Unused,
                    6 => PieceKind::Byte,
                    _ => return Err(bad(place, format!("a piece of kind {n}"))),
                }
            }
            _ => {}
        }
    }
    if !score.is_finite() {
        return Err(bad(place, format!("the piece `{piece}` has the score {score}")));
    }
    Ok((piece, score, kind))
}

fn bad(place: &str, what: String) -> Error {
    Error::new(place, what, "this is not a whole SentencePiece model")
}

/// Protobuf's wire format: a key (field · 8 + type), then a value of that type.
struct Wire<'a> {
    place: &'a str,
    bytes: &'a [u8],
}

enum Item<'a> {
    Number(u64),
    Four(u32),
    Eight,
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn next(&mut self) -> Result<Option<(u64, Item<'a>)>> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let item = match key & 7 {
            0 => Item::Number(self.varint()?),
            1 => self.take(8).map(|_| Item::Eight)?,
            2 => {
                let length = self.varint()?;
                Item::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => {
                let four: [u8; 4] = self.take(4)?.try_into().unwrap_or_default();
                Item::Four(u32::from_le_bytes(four))
            }
            n => return Err(bad(self.place, format!("a field of wire type {n}"))),
        };
        Ok(Some((key >> 3, item)))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(bad(self.place, "a number of more than ten bytes".into()))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let Some((head, rest)) = self.bytes.split_at_checked(n) else {
            return Err(bad(self.place, format!("cut off: {n} bytes wanted, {} are left", self.bytes.len())));
        };
        self.bytes = rest;
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_by_hand() {
        // field 1 (bytes) holding { 1: "▁a", 2: -1.5, 3: Normal }, then field 2 holding { 3: bpe }
        let mut piece = vec![0x0A, 4];
        piece.extend("▁a".bytes());
        piece.push(0x15);
        piece.extend((-1.5f32).to_le_bytes());
        piece.extend([0x18, 1]);
        let mut file = vec![0x0A, piece.len() as u8];
        file.extend(&piece);
        file.extend([0x12, 2, 0x18, 2]);
        let model = SpmModel::parse("t", &file).unwrap();
        assert_eq!(model.pieces, [("▁a".to_string(), -1.5, PieceKind::Normal)]);
        assert_eq!((model.algorithm, model.add_dummy_prefix), (SpmAlgorithm::Bpe, true));
        for cut in 1..piece.len() + 2 {
            assert!(SpmModel::parse("t", &file[..cut]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn merges_come_best_score_first() {
        let pieces =
            [("a", -9.0, true), ("b", -9.0, true), ("ab", -2.0, true), ("ba", -1.0, true), ("aba", -3.0, true)];
        let model = bpe_by_score(&pieces, None, false);
        assert_eq!(model["merges"], json!([["b", "a"], ["a", "b"], ["ab", "a"], ["a", "ba"]]));
    }
}
