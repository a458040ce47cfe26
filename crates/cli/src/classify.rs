//! `qkv classify`: which class a text belongs to.

use crate::fail::Fail;
use crate::model::{self, Model, in_batches, largest, softmax};
use crate::say;
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv classify MODEL \"what a wonderful film\"     every class with its probability
  qkv classify MODEL --file reviews.txt --top 1   one answer for each line
  qkv classify MODEL --pair premise hypothesis    two texts at once")]
pub(crate) struct Args {
    /// A model, then the texts; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The texts are pairs: first and second in turn, or parted by a tab in a file
    #[arg(long)]
    pair: bool,
    /// How many classes are shown, most probable first; left out, all
    #[arg(long, value_name = "N")]
    top: Option<usize>,
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
    let Head::Classify { labels, .. } = model.it.spec().head else {
        return model.needs(false, "classify", "a head that classifies");
    };
    model.needs(
        model.it.spec().vocabulary().is_some(),
        "classify",
        "a model that reads text (for images: `qkv image`)",
    )?;
    let names = model.labels(labels)?;
    let tokenizer = model.tokenizer()?;
    let from_file = args.file.is_some();
    let mut texts = model::texts(given, args.file.as_deref())?;
    let encodings = if args.pair {
        let pairs = pairs(&texts, from_file)?;
        texts = pairs.iter().map(|(a, b)| format!("{a}\t{b}")).collect();
        let encode = |(a, b): &(String, String)| Ok(tokenizer.encode_pair(a, b, true)?);
        let encodings = pairs.iter().map(encode).collect::<Result<Vec<_>, Fail>>()?;
        if let Some(long) = encodings.iter().find(|e| e.len() > model.longest()) {
            let what = format!("a pair has {} tokens, but the model reads {}", long.len(), model.longest());
            return Err(Fail::usage(what, "shorten the texts"));
        }
        encodings
    } else {
        model::encode(&tokenizer, &texts, model.longest())?
    };
    let bar = model::progress(texts.len(), "classifying");
    let answers = in_batches(&encodings, args.batch, &bar, |batch, tokens| {
        let logits: Vec<f32> =
            model.it.model.answer(&tokens, &mut Cx::eval())?.into_data().try_to_vec().unwrap_or_default();
        Ok(logits.chunks(labels).take(batch.len()).map(softmax).collect())
    })?;
    for (text, p) in texts.iter().zip(answers) {
        report(text, &p, &names, args.top, args.json)?;
    }
    Ok(())
}

/// One answer, for people or for programs.
pub(crate) fn report(what: &str, p: &[f64], names: &[String], top: Option<usize>, as_json: bool) -> Result<(), Fail> {
    let order = largest(p, top.unwrap_or(p.len()));
    if as_json {
        let labels: Vec<_> = order.iter().map(|i| json!({"label": names[*i], "score": p[*i]})).collect();
        return say(json!({"text": what, "labels": labels}));
    }
    let shown: Vec<String> = order.iter().map(|i| format!("{} {:.2} %", names[*i], 100.0 * p[*i])).collect();
    say(format!("{what}\n  {}", shown.join("   ")))
}

/// Two by two, or parted by a tab.
fn pairs(texts: &[String], from_file: bool) -> Result<Vec<(String, String)>, Fail> {
    if from_file || texts.iter().all(|t| t.contains('\t')) {
        let split = |(i, line): (usize, &String)| match line.split_once('\t') {
            Some((a, b)) => Ok((a.to_string(), b.to_string())),
            None => Err(Fail::usage(format!("line {} has no tab", i + 1), "write first<TAB>second")),
        };
        return texts.iter().enumerate().map(split).collect();
    }
    if texts.len() % 2 == 1 {
        return Err(Fail::usage(format!("{} texts are not pairs", texts.len()), "give first and second in turn"));
    }
    Ok(texts.chunks(2).map(|p| (p[0].clone(), p[1].clone())).collect())
}
