//! `qkv fill`: the words that a masked language model would put in a gap.

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
  qkv fill MODEL \"The capital of [MASK] is Rome.\"    five candidates for each gap
  qkv fill MODEL --file gaps.txt --top 1 --json      one line of JSON for each line")]
pub(crate) struct Args {
    /// A model, then texts with the model's mask token (`[MASK]` is understood for every model)
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many candidates
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
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
    model.needs(matches!(model.it.spec().head, Head::Masked { .. }), "fill", "a masked-language head")?;
    let tokenizer = model.tokenizer()?;
    let Some(mask) = tokenizer.special().mask else {
        return Err(Fail::usage(format!("{}: the tokenizer has no mask token", path.display()), "use another model"));
    };
    let word = tokenizer.piece(mask).unwrap_or_default();
    let texts: Vec<String> =
        model::texts(given, args.file.as_deref())?.iter().map(|t| t.replace("[MASK]", &word)).collect();
    let encodings = model::encode(&tokenizer, &texts, model.longest())?;
    if let Some(i) = encodings.iter().position(|e| !e.ids.contains(&mask)) {
        let what = format!("text {} has no gap: `{}`", i + 1, texts[i]);
        return Err(Fail::usage(what, format!("write {word} where a word is missing")));
    }
    let bar = model::progress(texts.len(), "filling");
    let filled = in_batches(&encodings, args.batch, &bar, |batch, tokens| {
        let logits = model.it.model.answer(&tokens, &mut Cx::eval())?;
        let [_, t, v] = logits.dims();
        let values: Vec<f32> = logits.into_data().try_to_vec().unwrap_or_default();
        let row = |(b, i): (usize, &usize)| {
            let gaps = encodings[*i].ids.iter().enumerate().filter(|(_, id)| **id == mask);
            gaps.map(|(at, _)| {
                let p = softmax(&values[(b * t + at) * v..][..v]);
                // A table is often padded beyond the tokenizer: what has no name is not a candidate.
                let named = largest(&p, v).into_iter().filter(|id| tokenizer.piece(*id as u32).is_some());
                named.take(args.top).map(|id| (id as u32, p[id])).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })?;
    for (text, gaps) in texts.iter().zip(filled) {
        let named = |(id, p): &(u32, f64)| -> Result<(String, u32, f64), Fail> {
            let shown = tokenizer.decode(&[*id], false)?;
            Ok((if shown.is_empty() { tokenizer.piece(*id).unwrap_or_default() } else { shown }, *id, *p))
        };
        let gaps = gaps
            .iter()
            .map(|g| g.iter().map(named).collect::<Result<Vec<_>, Fail>>())
            .collect::<Result<Vec<_>, Fail>>()?;
        if args.json {
            let gaps: Vec<Vec<_>> = gaps
                .iter()
                .map(|g| g.iter().map(|(text, id, p)| json!({"text": text, "id": id, "probability": p})).collect())
                .collect();
            say(json!({"text": text, "gaps": gaps}))?;
            continue;
        }
        say(text)?;
        for (i, gap) in gaps.iter().enumerate() {
            if gaps.len() > 1 {
                say(format!("  gap {}", i + 1))?;
            }
            for (word, _, p) in gap {
                say(format!("  {:>6.2} %  {}", 100.0 * p, word.trim()))?;
            }
        }
    }
    Ok(())
}
