//! `qkv embed`: one vector for each text, pooled and normalised as the sentence-transformers files in the directory say.

use crate::fail::Fail;
use crate::model::{self, Model, in_batches};
use crate::say;
use qkv_model::Encoder;
use qkv_nn::Cx;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pooling {
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

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv embed MODEL \"a sentence\" \"another one\"       a vector each, and how similar they are
  qkv embed MODEL --file sentences.txt --json      one line of JSON for each line
  qkv embed MODEL --file corpus.txt --near \"query\"  the nearest lines to a query")]
pub(crate) struct Args {
    /// A model, then the texts; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show the texts nearest to this one
    #[arg(long, value_name = "TEXT")]
    near: Option<String>,
    /// How many of the nearest
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// How tokens become one vector; left out, as 1_Pooling/config.json says, else the mean
    #[arg(long)]
    pooling: Option<Pooling>,
    /// Vectors of length 1, also where modules.json does not ask for it
    #[arg(long)]
    normalize: bool,
    /// Texts in a batch
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// One line of JSON for each text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, given) = model::resolve(&args.words)?;
    let model = Model::open(&path)?;
    model.needs(
        model.it.spec().encoder().is_some() && model.it.spec().vocabulary().is_some(),
        "embed",
        "an encoder of text",
    )?;
    let mut texts = model::texts(given, args.file.as_deref())?;
    texts.extend(args.near.clone());
    let how = Recipe::of(&model, args)?;
    let mut vectors = embed(&model, &texts, &how, args.batch)?;
    match &args.near {
        Some(_) => {
            let query = vectors.pop().unwrap_or_default();
            texts.pop();
            nearest(&texts, &vectors, &query, args)
        }
        None => print(&texts, &vectors, args.json),
    }
}

/// What the directory says.
struct Recipe {
    pooling: Pooling,
    normalize: bool,
    longest: usize,
}

impl Recipe {
    fn of(model: &Model, args: &Args) -> Result<Self, Fail> {
        let dir = if model.path.is_dir() { model.path.as_path() } else { model.path.parent().unwrap_or(&model.path) };
        let modules = read(&dir.join("modules.json"))?;
        let listed = |what: &str| {
            let all = modules.as_ref().and_then(Value::as_array);
            all.into_iter().flatten().any(|m| m["type"].as_str().is_some_and(|t| t.ends_with(what)))
        };
        if listed(".Dense") {
            let what = format!("{}: a Dense module is not supported", dir.join("modules.json").display());
            return Err(Fail::usage(what, "supported: Transformer, Pooling, Normalize"));
        }
        let said = match read(&dir.join("1_Pooling/config.json"))? {
            Some(config) => Some(pooling(&config, &dir.join("1_Pooling/config.json"))?),
            None => None,
        };
        let most = read(&dir.join("sentence_bert_config.json"))?.and_then(|c| c["max_seq_length"].as_u64());
        Ok(Self {
            pooling: args.pooling.or(said).unwrap_or(Pooling::Mean),
            normalize: args.normalize || listed(".Normalize"),
            longest: most.map_or(usize::MAX, |n| n as usize).min(model.longest()),
        })
    }
}

fn read(path: &Path) -> Result<Option<Value>, Fail> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
    let fail = |e| Fail::usage(format!("{}: is not JSON: {e}", path.display()), "is the file whole?");
    serde_json::from_slice(&bytes).map(Some).map_err(fail)
}

/// The one mode that is switched on.
fn pooling(config: &Value, path: &Path) -> Result<Pooling, Fail> {
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
        _ => Err(Fail::usage(
            format!("{}: {} modes of pooling are switched on", path.display(), on.len()),
            "supported: one of cls, mean, max, mean_sqrt_len, weightedmean, lasttoken; or say --pooling",
        )),
    }
}

fn embed(model: &Model, texts: &[String], how: &Recipe, rows: usize) -> Result<Vec<Vec<f32>>, Fail> {
    let encodings = model::encode(&model.tokenizer()?, texts, how.longest)?;
    if let Some(i) = encodings.iter().position(|e| e.is_empty()) {
        return Err(Fail::usage(format!("text {} has no tokens", i + 1), "leave empty lines out"));
    }
    let bar = model::progress(texts.len(), "embedding");
    in_batches(&encodings, rows, &bar, |batch, tokens| {
        let hidden = model.it.model.hidden(&tokens, &mut Cx::eval())?;
        let [_, t, c] = hidden.dims();
        let values: Vec<f32> = hidden.into_data().try_to_vec().unwrap_or_default();
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

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
}

fn print(texts: &[String], vectors: &[Vec<f32>], as_json: bool) -> Result<(), Fail> {
    if as_json {
        return texts.iter().zip(vectors).try_for_each(|(text, v)| say(json!({"text": text, "embedding": v})));
    }
    for (text, v) in texts.iter().zip(vectors) {
        let first: Vec<String> = v.iter().take(6).map(|x| format!("{x:.4}")).collect();
        say(format!("{text}\n  [{}, … {} numbers]", first.join(", "), v.len()))?;
    }
    if (2..=12).contains(&vectors.len()) {
        say("\ncosine of each pair:")?;
        for a in vectors {
            say(vectors.iter().map(|b| format!("{:>7.4}", cosine(a, b))).collect::<Vec<_>>().join(" "))?;
        }
    }
    Ok(())
}

fn nearest(texts: &[String], vectors: &[Vec<f32>], query: &[f32], args: &Args) -> Result<(), Fail> {
    let scores: Vec<f64> = vectors.iter().map(|v| cosine(v, query)).collect();
    for i in model::largest(&scores, args.top) {
        match args.json {
            true => say(json!({"text": texts[i], "line": i + 1, "cosine": scores[i]}))?,
            false => say(format!("{:>7.4}  {}", scores[i], texts[i]))?,
        }
    }
    Ok(())
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
