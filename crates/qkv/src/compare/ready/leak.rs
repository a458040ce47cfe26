//! The mask taken off: a decoder that sees the token it is to foretell can use it. Its loss in training is lower than that of the
//! same network with the mask (not nothing: to copy has to be learnt, too, and the budget is small), but when it has to write,
//! where nothing comes next yet, what it learnt to lean on is gone.
//!
//! Two losses are measured on the same unseen texts: of whole texts, as in training, and of each token after its beginning
//! alone, which is how a text is written.

use super::Asked;
use crate::compare::{Compared, Finished, run_all, variations};
use crate::{Result, raw};
use qkv_base::{Error, Task};
use qkv_data::builtin::{Corpus, Split};
use qkv_insight::page::{Cell, Page, Table};
use qkv_kernels::Ids;
use qkv_model::{CausalLm, Tokens};
use qkv_nn::Cx;
use qkv_report::{Chart, Sample, Series};

/// Texts, and tokens of each.
const TEXTS: u64 = 12;
const TOKENS: usize = 48;

/// The mean of −ln p of each token: (of whole texts, of each after its beginning alone).
fn losses(run: &Finished, corpus: &str) -> Result<(f64, f64)> {
    let model = raw::load(&run.dir)?;
    let network = &model.network.model;
    let corpus = Corpus::find(corpus)?;
    let (mut whole, mut written, mut count) = (0.0, 0.0, 0);
    for i in 0..TEXTS {
        let text = corpus.example(run.seed, Split::Test, i).texts().join(" ");
        let mut ids = model.encode(&text)?;
        ids.truncate(TOKENS.min(network.context().unwrap_or(TOKENS)));
        let logits = |ids: &[u32]| -> Result<Vec<f32>> {
            let scores = network.logits(&Tokens::new(Ids::one(ids.to_vec())), &mut Cx::eval())?;
            scores.into_data().try_to_vec().map_err(|e| Error::internal("leak", format!("{e:?}")))
        };
        let all = logits(&ids)?;
        let width = all.len() / ids.len().max(1);
        for t in 1..ids.len() {
            let target = ids[t] as usize;
            whole += surprise(&all[(t - 1) * width..t * width], target);
            let beginning = logits(&ids[..t])?;
            written += surprise(&beginning[(t - 1) * width..], target);
            count += 1;
        }
    }
    Ok((whole / f64::from(count), written / f64::from(count)))
}

/// −ln softmax(row)[target]
fn surprise(row: &[f32], target: usize) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|x| f64::from(x - most).exp()).sum();
    sum.ln() - f64::from(row[target] - most)
}

pub(super) fn run(asked: &mut Asked) -> Result<Compared> {
    let small = ["model.width=64", "model.layers=2", "data.examples=1000"];
    let recipe = asked.recipe("char-gpt", &small)?;
    let read = qkv_runs::recipe::Recipe::read("recipe", recipe.text())?;
    let corpus = read.data.corpus.clone();
    if !corpus.starts_with("builtin:") || read.data.objective != Task::NextToken {
        let what = "this comparison reads a text that qkv makes itself";
        return Err(Error::new("data.corpus", what, "use builtin:stories"));
    }
    let entries = variations(&recipe, &["model.mask=causal,none".into()])?;
    let all = run_all(&entries, &asked.setup, asked.stop, asked.observer)?;
    let runs: Vec<&Finished> = all.iter().filter_map(|runs| runs.first()).collect();
    let mut found = vec![];
    for run in &runs {
        found.push(losses(run, &corpus)?);
    }
    let names = ["with the mask", "without"];
    let row = |(name, (whole, written)): (&&str, &(f64, f64))| {
        (name.to_string(), vec![Cell::number(*whole, 3), Cell::number(*written, 3)])
    };
    let columns = ["of whole texts, as in training", "of each token after its beginning, as in writing"];
    let title = format!("Nats a letter on {TEXTS} unseen texts");
    let table = Table::of(&title, "", &columns, names.iter().zip(&found).map(row).collect());
    let idea =
        format!("The same network, once with the causal mask and once without; {}.", asked.setup.budget_in_words());
    let page = Page::new("leak", "The mask taken off", &idea).table(table);
    let [(a, b), (c, d)] = found[..] else {
        return Err(Error::internal("leak", "two networks were asked for"));
    };
    let finding = format!(
        "Without the mask the loss of whole texts is {c:.3} nats a letter instead of {a:.3}, but to write it must do without the \
         letters that it was shown: then it is {d:.2}, with the mask {b:.2}."
    );
    let mut series = vec![];
    for (name, run) in names.iter().zip(&runs) {
        series.push(Series { name: name.to_string(), points: run.losses("step")? });
    }
    let chart = Chart { title: "Training loss".into(), series, ..Chart::default() };
    let said = |run: &&Finished| run.samples.first().map(|[_, _, got]| got.clone()).unwrap_or_default();
    let samples = names.iter().zip(&runs).map(|(name, run)| Sample {
        source: format!("what it writes {name}"),
        expected: None,
        got: said(run),
    });
    Ok(Compared { samples: samples.collect(), ..Compared::new(page, finding).charts(vec![chart]) })
}
