//! `qkv embed`: one vector for each text, and the texts nearest to one.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::embed::{EmbedOptions, Pooling, cosine, embed, largest};
use serde_json::json;
use std::path::PathBuf;

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
    #[arg(long, value_parser = Pooling::ALL.map(|(name, _)| name))]
    pooling: Option<String>,
    /// Vectors of length 1, also where modules.json does not ask for it
    #[arg(long)]
    normalize: bool,
    /// Texts in a batch
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// One line of JSON for each text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, given) = input::resolve(&args.words)?;
    let model = input::open(&path, args.load)?;
    let mut texts = input::texts(given, args.file.as_deref())?;
    texts.extend(args.near.clone());
    let named = |name: &String| Pooling::ALL.into_iter().find(|(n, _)| n == name).map(|(_, pooling)| pooling);
    let ask = EmbedOptions { pooling: args.pooling.as_ref().and_then(named), normalize: args.normalize };
    let mut vectors = embed(&model, &texts, ask, args.batch, &mut Watch::new(texts.len(), "embedding"))?;
    match &args.near {
        Some(_) => {
            let query = vectors.pop().unwrap_or_default();
            texts.pop();
            nearest(&texts, &vectors, &query, args)
        }
        None => print(&texts, &vectors, args.json),
    }
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
    for i in largest(&scores, args.top) {
        match args.json {
            true => say(json!({"text": texts[i], "line": i + 1, "cosine": scores[i]}))?,
            false => say(format!("{:>7.4}  {}", scores[i], texts[i]))?,
        }
    }
    Ok(())
}
