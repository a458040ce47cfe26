//! What must hold for any text and any file.

use proptest::prelude::*;
use qkv_text::{Kind, Shape, SpmModel, StreamDecoder, Tokenizer, TrainSpec, train};
use std::path::PathBuf;
use std::sync::LazyLock;

fn dir(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn trained(kind: Kind, shape: Shape) -> Tokenizer {
    let lines =
        (0..200).map(|i| format!("il gatto è {} sul tetto, the cat सोता है {}", ["nero", "bianco"][i % 2], i % 13));
    let spec = TrainSpec { shape, vocab_size: 380, ..TrainSpec::new(kind) };
    train(lines, &spec, &mut |_| {}).unwrap().tokenizer
}

static BYTES: LazyLock<Tokenizer> = LazyLock::new(|| trained(Kind::Bpe, Shape::Gpt2));

/// Byte-level, byte fallback, Metaspace, WordPiece, characters, Marian.
static ALL: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let load = |name: &str| Tokenizer::load(dir(name)).unwrap();
    vec![
        trained(Kind::Bpe, Shape::Gpt2),
        load("llama"),
        trained(Kind::Unigram, Shape::T5 { sentinels: 3 }),
        load("t5"),
        trained(Kind::WordPiece, Shape::Bert),
        load("bert"),
        trained(Kind::Char, Shape::Marian),
        load("marian"),
    ]
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Nothing is lost: any text comes back from its bytes.
    #[test]
    fn byte_level_round_trip(text in any::<String>()) {
        let ids = BYTES.encode(&text, true).unwrap().ids;
        // A text may itself contain the special token, which skipping would drop.
        prop_assert_eq!(BYTES.decode(&ids, false).unwrap(), text);
    }

    /// A stream says in parts what `decode` says at once, whatever the ids.
    #[test]
    fn fault_42_a_stream_equals_decode(which in 0usize..8, picks in prop::collection::vec(any::<u32>(), 0..40), skip in any::<bool>()) {
        let tokenizer = &ALL[which];
        // Half of the ids from the first pieces, where bytes and special tokens are.
        let size = tokenizer.vocab_size() as u32;
        let ids: Vec<u32> = picks.iter().map(|n| if n % 2 == 0 { n % size } else { n % size.min(262) }).collect();
        let ids: Vec<u32> = ids.into_iter().filter(|id| tokenizer.piece(*id).is_some()).collect();
        let mut stream = StreamDecoder::new(tokenizer, skip);
        let mut text: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        text.push_str(&stream.finish().unwrap());
        prop_assert_eq!(text, tokenizer.decode(&ids, skip).unwrap(), "{:?} {:?}", tokenizer, ids);
    }

    /// Places are within the text and between characters, in bytes and in characters alike.
    #[test]
    fn places_fit_the_text(which in 0usize..8, text in "([a-z]{1,6}|è|घर|😀|ﬁ| |\t|\\PC){0,12}") {
        let encoding = ALL[which].encode(&text, true).unwrap();
        for (bytes, chars) in encoding.bytes.iter().zip(&encoding.chars) {
            let part = text.get(bytes.0..bytes.1);
            prop_assert!(part.is_some(), "{bytes:?} of {text:?}");
            prop_assert_eq!(part.unwrap_or("").chars().count(), chars.1 - chars.0);
        }
    }

    /// A damaged file is an error or a tokenizer; never a crash.
    #[test]
    fn damaged_json_is_no_panic(at in 0.0f64..1.0, byte in any::<u8>(), kind in 0usize..4) {
        let kind = [Kind::Bpe, Kind::WordPiece, Kind::Unigram, Kind::Char][kind];
        static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
            let kinds = [Kind::Bpe, Kind::WordPiece, Kind::Unigram, Kind::Char];
            kinds.map(|kind| trained(kind, Shape::Bert).to_json().unwrap()).to_vec()
        });
        let mut file = FILES[kind as usize].clone().into_bytes();
        // The head of the file, where the structure is, three times out of four.
        let span = if byte % 4 == 0 { file.len() } else { file.len().min(6000) };
        file[(at * span as f64) as usize] = byte;
        if let Ok(json) = serde_json::from_slice(&file)
            && let Ok(tokenizer) = Tokenizer::from_json("damaged", &json)
        {
            let _ = tokenizer.encode("il gatto 😀 è [CLS] here", true);
        }
    }

    #[test]
    fn a_damaged_spm_is_no_panic(which in 0usize..2, at in 0.0f64..1.0, byte in any::<u8>(), cut in any::<bool>()) {
        static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
            ["t5/spiece.model", "llama/tokenizer.model"].map(|name| std::fs::read(dir(name)).unwrap()).to_vec()
        });
        let mut file = FILES[which].clone();
        let at = (at * file.len() as f64) as usize;
        if cut { file.truncate(at) } else { file[at] = byte }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spiece.model");
        std::fs::write(&path, &file).unwrap();
        let _ = SpmModel::parse("damaged", &file);
        if let Ok(tokenizer) = Tokenizer::load(&path) {
            let _ = tokenizer.encode("il gatto 😀 ﬁ è\there", true);
        }
    }
}

#[test]
fn a_batch_keeps_its_order() {
    let lines: Vec<String> = (0..100).map(|i| format!("gatto {i}")).collect();
    let batch = BYTES.encode_batch(&lines, true).unwrap();
    assert!(lines.iter().zip(&batch).all(|(line, encoding)| *encoding == BYTES.encode(line, true).unwrap()));
}

#[test]
fn ids_that_do_not_exist_are_refused() {
    let error = BYTES.decode(&[999_999], true).unwrap_err();
    assert!(error.what.starts_with("id 999999 is not in the vocabulary"));
    assert!(StreamDecoder::new(&*BYTES, true).push(999_999).is_err());
}
