//! The tokenizer of a run: one that is there already, or one learnt from the texts of the corpus, of the kind and shape that the
//! family is used to.

use crate::corpus::Splits;
use crate::network::family;
use crate::recipe::Recipe;
use qkv_base::{Error, Result};
use qkv_data::{Corpus, Example};
use qkv_model::families::{self, Pieces, TokenizerShape};
use qkv_text::{Kind, Tokenizer, TrainSpec};
use std::path::Path;

/// The tokenizer of a run: that of `kept` (a run that is resumed), one that was named, that of the checkpoint, or a new one.
pub(crate) fn tokenizer(
    recipe: &Recipe,
    splits: &Splits,
    kept: Option<&Path>,
    from: Option<&Path>,
) -> Result<Tokenizer> {
    let there = Some(Path::new(&recipe.tokenizer.path)).filter(|p| !p.as_os_str().is_empty());
    if let Some(shards) = &splits.shards {
        return crate::shards::tokenizer(shards, kept.or(there).or(from));
    }
    match kept.or(there).or(from) {
        Some(path) => qkv_tasks::tokenizer(path),
        None => learn_tokenizer(recipe, &[splits]),
    }
}

/// The tokenizer of two recipes that are run one after the other: of the first one's kind, learnt from the texts of both,
/// so that the second finds its words whole.
pub fn shared_tokenizer(first: &Recipe, second: &Recipe) -> Result<Tokenizer> {
    let [a, b] = [first, second].map(|r| Splits::open(&r.data, r.train.seed));
    learn_tokenizer(first, &[&a?, &b?])
}

fn learn_tokenizer(recipe: &Recipe, splits: &[&Splits]) -> Result<Tokenizer> {
    let sheet = family(recipe)?;
    let Some(tokenizing) = sheet.tokenizer else {
        let what = format!("a {} reads no text", sheet.name);
        return Err(Error::new("model.family", what, "choose a family that reads text"));
    };
    // Left empty, it is the family's own.
    let kind = match recipe.tokenizer.kind.as_str() {
        "" => pieces(tokenizing.pieces),
        "unigram" => Kind::Unigram,
        "bpe" => Kind::Bpe,
        "wordpiece" => Kind::WordPiece,
        "char" => Kind::Char,
        "word" => Kind::Word,
        other => {
            let names = ["unigram", "bpe", "wordpiece", "char", "word"];
            let near = qkv_base::nearest(other, names).unwrap_or_default();
            let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
            return Err(Error::new("tokenizer.kind", format!("there is no kind `{other}`"), hint));
        }
    };
    let spec = spec(kind, tokenizing.shape, recipe.tokenizer.vocab);
    let lines =
        splits.iter().flat_map(|s| (&*s.train as &dyn Corpus).examples()).filter_map(Result::ok).flat_map(lines_of);
    Ok(qkv_text::train(lines, &spec, &mut |_| {})?.tokenizer)
}

/// What is learnt for a family.
fn spec(kind: Kind, shape: TokenizerShape, vocab_size: usize) -> TrainSpec {
    let (shape, special) = tokenizer_shape(shape);
    let special = special.iter().map(|token| token.to_string()).collect();
    // Some tens of thousands of lines know every word that is worth a piece.
    TrainSpec { shape, special, vocab_size, sample: Some(30_000), ..TrainSpec::new(kind) }
}

/// What a family is used to, in so many pieces; none for one that reads no text.
pub(crate) fn usual(sheet: &families::Sheet, vocab_size: usize) -> Option<TrainSpec> {
    sheet.tokenizer.map(|tokenizing| spec(pieces(tokenizing.pieces), tokenizing.shape, vocab_size))
}

fn pieces(pieces: Pieces) -> Kind {
    match pieces {
        Pieces::Bpe => Kind::Bpe,
        Pieces::WordPiece => Kind::WordPiece,
        Pieces::Unigram => Kind::Unigram,
    }
}

/// The shape of a new tokenizer, and special tokens besides those of the shape.
fn tokenizer_shape(shape: TokenizerShape) -> (qkv_text::Shape, &'static [&'static str]) {
    use qkv_text::Shape as S;
    match shape {
        TokenizerShape::EndOfText => (S::Gpt2, &[]),
        TokenizerShape::ClsSep => (S::Bert, &[]),
        TokenizerShape::Sentinels(sentinels) => (S::T5 { sentinels }, &[]),
        TokenizerShape::Ended => (S::Marian, &[]),
        TokenizerShape::Begun => (S::Llama, &[]),
        TokenizerShape::Listed(special) => (S::Plain, special),
    }
}

/// The lines that a tokenizer learns from. A long document gives its own lines, with their ends.
fn lines_of(example: Example) -> Vec<String> {
    match example {
        Example::Text(text) if text.len() > 10_000 => text.split_inclusive('\n').map(String::from).collect(),
        other => other.texts(),
    }
}
