//! Embedding: one vector for each text, pooled and normalised as the sentence-transformers files in the directory say.

use crate::TextModel;
pub use crate::batches::largest;
use crate::batches::{Listener, encode, finite, in_batches};
use crate::sentence_files::SentenceFiles;
use qkv_base::{Error, Result};
use qkv_model::Encoder;
use qkv_nn::Cx;

/// How the vectors of the tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// the mean of all tokens
    Mean,
    /// the first token
    Cls,
    /// the largest of each feature
    Max,
    /// the sum of all tokens over the root of their number
    MeanSqrtLen,
    /// the mean, later tokens counting more
    WeightedMean,
    /// the last token
    Last,
}

impl Pooling {
    /// Every way, by the name a person types.
    pub const ALL: [(&'static str, Pooling); 6] = [
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("max", Pooling::Max),
        ("mean-sqrt-len", Pooling::MeanSqrtLen),
        ("weighted-mean", Pooling::WeightedMean),
        ("last", Pooling::Last),
    ];
}

/// How to embed; what is left out is as the directory says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbedOptions {
    /// how tokens become one vector; left out, as `1_Pooling/config.json` says, else the mean
    pub pooling: Option<Pooling>,
    /// vectors of length 1, also where `modules.json` does not ask for it
    pub normalize: bool,
}

/// A vector for each text.
pub fn embed<S: AsRef<str> + Sync>(
    model: &TextModel,
    texts: &[S],
    ask: EmbedOptions,
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<f32>>> {
    let reads = model.spec().encoder().is_some() && model.spec().vocabulary().is_some();
    model.needs(reads, "embed", "an encoder of text")?;
    let said = SentenceFiles::read_with(model.dir(), ask.pooling)?;
    let pooling = said.pooling.unwrap_or(Pooling::Mean);
    let normalize = ask.normalize || said.normalize;
    let longest = said.longest.unwrap_or(usize::MAX).min(model.longest());
    let texts: Vec<String> = texts.iter().map(|text| said.prepared(text.as_ref())).collect();
    let encodings = encode(model.tokenizer()?, &texts, longest, listener)?;
    if let Some(i) = encodings.iter().position(|e| e.is_empty()) {
        return Err(Error::new(format!("text {}", i + 1), "has no tokens", "leave empty lines out"));
    }
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let hidden = model.network.model.hidden(&tokens, &mut Cx::eval())?;
        let [_, t, c] = hidden.dims();
        let values = finite(hidden, "embed", model)?;
        let row = |(b, i): (usize, &usize)| {
            let real = &values[b * t * c..][..encodings[*i].len() * c];
            let mut vector = pool(real, c, pooling);
            if normalize {
                let length = dot(&vector, &vector).sqrt().max(1e-12);
                vector.iter_mut().for_each(|v| *v = (*v as f64 / length) as f32);
            }
            vector
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })
}

/// Real tokens `[T, C]` → `[C]`.
fn pool(real: &[f32], c: usize, mode: Pooling) -> Vec<f32> {
    let t = real.len() / c;
    let sum = |weight: &dyn Fn(usize) -> f64, over: f64| {
        let at = |j: usize| (0..t).map(|i| weight(i) * real[i * c + j] as f64).sum::<f64>() / over;
        (0..c).map(|j| at(j) as f32).collect()
    };
    match mode {
        Pooling::Cls => real[..c].to_vec(),
        Pooling::Last => real[(t - 1) * c..].to_vec(),
        Pooling::Mean => sum(&|_| 1.0, t as f64),
        Pooling::MeanSqrtLen => sum(&|_| 1.0, (t as f64).sqrt()),
        Pooling::WeightedMean => sum(&|i| (i + 1) as f64, (t * (t + 1)) as f64 / 2.0),
        Pooling::Max => (0..c).map(|j| (0..t).map(|i| real[i * c + j]).fold(f32::NEG_INFINITY, f32::max)).collect(),
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| *a as f64 * *b as f64).sum()
}

/// `a·b / (|a||b|)`: 1 where two vectors point the same way.
///
/// ```
/// assert!((qkv_tasks::embed::cosine(&[1.0, 0.0], &[1.0, 1.0]) - 0.5f64.sqrt()).abs() < 1e-9);
/// ```
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_pool() {
        let x = [1.0, 10.0, 3.0, -20.0]; // two tokens of two features
        assert_eq!(pool(&x, 2, Pooling::Mean), [2.0, -5.0]);
        assert_eq!(pool(&x, 2, Pooling::Cls), [1.0, 10.0]);
        assert_eq!(pool(&x, 2, Pooling::Last), [3.0, -20.0]);
        assert_eq!(pool(&x, 2, Pooling::Max), [3.0, 10.0]);
        assert_eq!(pool(&x, 2, Pooling::MeanSqrtLen), [4.0 / 2f32.sqrt(), -10.0 / 2f32.sqrt()]);
        assert_eq!(pool(&x, 2, Pooling::WeightedMean), [7.0 / 3.0, -10.0]);
    }
}
