//! Embedding: one vector for each text, pooled and normalised as the sentence-transformers files in the directory say.

use crate::TextModel;
pub use crate::batches::largest;
use crate::batches::{Listener, encode, finite, in_batches};
use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_model::Encoder;
use qkv_nn::Cx;
use serde_json::Value;
use std::path::Path;

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
    let how = Modules::of(model, ask)?;
    let encodings = encode(model.tokenizer()?, texts, how.longest, listener)?;
    if let Some(i) = encodings.iter().position(|e| e.is_empty()) {
        return Err(Error::new(format!("text {}", i + 1), "has no tokens", "leave empty lines out"));
    }
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let hidden = model.network.model.hidden(&tokens, &mut Cx::eval())?;
        let [_, t, c] = hidden.dims();
        let values = finite(hidden, "embed", model)?;
        let row = |(b, i): (usize, &usize)| {
            let real = &values[b * t * c..][..encodings[*i].len() * c];
            let mut vector = pool(real, c, how.pooling);
            if how.normalize {
                let length = dot(&vector, &vector).sqrt().max(1e-12);
                vector.iter_mut().for_each(|v| *v = (*v as f64 / length) as f32);
            }
            vector
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })
}

/// What the directory says.
struct Modules {
    pooling: Pooling,
    normalize: bool,
    longest: usize,
}

impl Modules {
    fn of(model: &TextModel, ask: EmbedOptions) -> Result<Self> {
        let dir = model.dir();
        let modules = read(&dir.join("modules.json"))?;
        let listed = |what: &str| {
            let all = modules.as_ref().and_then(Value::as_array);
            all.into_iter().flatten().any(|m| m["type"].as_str().is_some_and(|t| t.ends_with(what)))
        };
        if listed(".Dense") {
            let place = dir.join("modules.json").display().to_string();
            let hint = "supported: Transformer, Pooling, Normalize";
            return Err(Error::new(place, "a Dense module is not supported", hint));
        }
        let said = match read(&dir.join("1_Pooling/config.json"))? {
            Some(config) => Some(pooling(&config, &dir.join("1_Pooling/config.json"))?),
            None => None,
        };
        let most = read(&dir.join("sentence_bert_config.json"))?.and_then(|c| c["max_seq_length"].as_u64());
        Ok(Self {
            pooling: ask.pooling.or(said).unwrap_or(Pooling::Mean),
            normalize: ask.normalize || listed(".Normalize"),
            longest: most.map_or(usize::MAX, |n| n as usize).min(model.longest()),
        })
    }
}

fn read(path: &Path) -> Result<Option<Value>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_file(path, MOST_TEXT, "may it be read?")?;
    let fail = |e| Error::new(path.display().to_string(), format!("is not JSON: {e}"), "is the file whole?");
    serde_json::from_slice(&bytes).map(Some).map_err(fail)
}

/// The one mode that is switched on.
fn pooling(config: &Value, path: &Path) -> Result<Pooling> {
    let modes = [
        ("cls_token", "cls", Pooling::Cls),
        ("mean_tokens", "mean", Pooling::Mean),
        ("max_tokens", "max", Pooling::Max),
        ("mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
        ("weightedmean_tokens", "weightedmean", Pooling::WeightedMean),
        ("lasttoken", "lasttoken", Pooling::Last),
    ];
    let on: Vec<Pooling> = modes
        .iter()
        .filter(|(key, word, _)| config[format!("pooling_mode_{key}")] == true || config["pooling_mode"] == *word)
        .map(|(_, _, mode)| *mode)
        .collect();
    match on[..] {
        [one] => Ok(one),
        _ => Err(Error::new(
            path.display().to_string(),
            format!("{} modes of pooling are switched on", on.len()),
            "supported: one of cls, mean, max, mean_sqrt_len, weightedmean, lasttoken; or say --pooling",
        )),
    }
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
    use serde_json::json;

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

    #[test]
    fn both_ways_to_say_a_mode_are_read() {
        let say = |v: Value| pooling(&v, Path::new("c"));
        assert_eq!(
            say(json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})).ok(),
            Some(Pooling::Cls)
        );
        assert_eq!(say(json!({"pooling_mode": "lasttoken"})).ok(), Some(Pooling::Last));
        assert!(say(json!({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})).is_err());
        assert!(say(json!({})).is_err());
    }
}
