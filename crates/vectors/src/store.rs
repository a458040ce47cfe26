//! A bag of words as a file of JSON, and one way to open whatever `qkv vectors train` has made.

use crate::bag::{Bag, Weighting};
use crate::format;
use crate::word_vectors::WordVectors;
use qkv_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a file holds.
#[derive(Clone, Debug)]
pub enum Stored {
    /// one-hot or TF-IDF
    Bag(Bag),
    /// word2vec's
    Vectors(WordVectors),
}

#[derive(Serialize, Deserialize)]
struct BagFile {
    kind: Weighting,
    words: Vec<String>,
    idf: Vec<f64>,
}

/// Writes a bag.
pub fn save_bag(bag: &Bag, path: &Path) -> Result<()> {
    let place = path.display().to_string();
    let file = BagFile { kind: bag.weighting(), words: bag.words().to_vec(), idf: bag.idf().to_vec() };
    let text = serde_json::to_string(&file).map_err(|e| Error::internal(&place, e.to_string()))?;
    qkv_weights::write_atomically(path, text.as_bytes())
}

/// Opens a bag or vectors.
pub fn load(path: &Path) -> Result<Stored> {
    let place = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| Error::read(&place, &e, "check the path"))?;
    if bytes.first() != Some(&b'{') {
        return Ok(Stored::Vectors(format::parse(&bytes, &place)?));
    }
    let file: BagFile = serde_json::from_slice(&bytes).map_err(|e| {
        Error::new(
            &place,
            e.to_string(),
            "make the file with `qkv vectors train --kind tfidf --data FILE --out bag.json`",
        )
    })?;
    let bag = Bag::from_parts(file.kind, file.words, file.idf).map_err(|e| Error { place, ..e })?;
    Ok(Stored::Bag(bag))
}

impl Stored {
    /// The vectors of words; a bag has none that could be near each other.
    pub fn into_vectors(self) -> Result<WordVectors> {
        match self {
            Self::Vectors(vectors) => Ok(vectors),
            Self::Bag(bag) => {
                let words = bag.words().len();
                let what = format!("holds a bag of {words} words: each has an axis of its own, all at right angles");
                let hint = "nothing is near anything there; learn vectors with --kind skipgram or cbow";
                Err(Error::new("vectors", what, hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bag_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag.json");
        let bag = Bag::learn(&["ein Haus", "ein Hund"], Weighting::TfIdf).unwrap();
        save_bag(&bag, &path).unwrap();
        let Stored::Bag(again) = load(&path).unwrap() else { panic!("a bag") };
        assert_eq!(again, bag);
        assert!(Stored::Bag(again).into_vectors().unwrap_err().what.contains("right angles"));
        std::fs::write(&path, "{\"kind\":\"tfidf\",\"words\":[\"a\"],\"idf\":[]}").unwrap();
        assert_eq!(load(&path).unwrap_err().what, "1 words and 0 weights");
    }
}
