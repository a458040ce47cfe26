//! What a run leaves behind: a directory that Hugging Face transformers loads, and a page to look at.

use crate::journal;
use crate::plan::Plan;
use crate::run_dir::RunDir;
use qkv_base::Result;
use qkv_data::Objective;
use qkv_model::spec::Input;
use qkv_model::{Pretrained, Transformer};
use qkv_report::{Chart, Report, Sample, Series, Table};
use qkv_tasks::{Judged, Scores, locate};
use qkv_train::adapter;
use qkv_weights::{Dtype, write_atomically};
use serde_json::{Map, Value};
use std::path::Path;

/// Leaves `model` in the directory of its run: as `model/`, and its adapters as `adapter/` where it has some.
pub fn leave(run_dir: &RunDir, plan: &Plan, model: &Transformer) -> Result<()> {
    run_dir.replace("model", |dir| save_model(plan, model.clone(), dir))?;
    let lora = &plan.recipe.lora;
    if lora.rank == 0 {
        return Ok(());
    }
    let (rank, alpha, dropout) = (lora.rank, lora.alpha, lora.dropout);
    let about = adapter::About { base: plan.recipe.model.from.clone(), rank, alpha, dropout };
    run_dir.replace("adapter", |dir| adapter::save(&plan.pretrained, model, &about, dir))
}

/// Writes `model` as a Hugging Face directory: configuration, weights, tokenizer, generation defaults.
pub fn save_model(plan: &Plan, model: Transformer, dir: &Path) -> Result<()> {
    // Adapters go into the weights: what is written is an ordinary network.
    let merged = Pretrained { model: model.merge_lora(), ..plan.pretrained.clone() };
    merged.save(dir, Dtype::F32, u64::MAX)?;
    if let Some(tokenizer) = &plan.tokenizer {
        tokenizer.save(dir)?;
        keep_tokenizer_config(plan, &merged, dir)?;
    }
    if merged.spec().decoder().is_some() {
        let text = format!("{:#}\n", Value::Object(generation(plan, &merged)));
        write_atomically(&dir.join("generation_config.json"), text.as_bytes())?;
    }
    if let (Objective::Pictures(pictures), Input::Patches { image, .. }) = (&plan.objective, &merged.spec().input) {
        let text = format!("{:#}\n", pictures.scale.config(*image));
        write_atomically(&dir.join("preprocessor_config.json"), text.as_bytes())?;
    }
    Ok(())
}

/// `tokenizer_config.json` as others expect it: what the checkpoint that was started from says (its class, whether it lowers
/// case, its length) stays; what a new one needs for `pipeline()`, the longest row, is there.
fn keep_tokenizer_config(plan: &Plan, network: &Pretrained, dir: &Path) -> Result<()> {
    let place = dir.join("tokenizer_config.json");
    let read = |path: &Path| -> Option<Map<String, Value>> {
        serde_json::from_slice(&qkv_base::read_file(path, qkv_base::MOST_TEXT, "").ok()?).ok()
    };
    let Some(mut config) = read(&place) else { return Ok(()) };
    let from = Path::new(&plan.recipe.model.from);
    // Another tokenizer than the checkpoint's own has nothing to do with what stands beside that.
    let theirs = if plan.recipe.tokenizer.path.is_empty() && !plan.recipe.model.from.is_empty() {
        read(&locate::model_of(&locate::run_of(from)).join("tokenizer_config.json")).unwrap_or_default()
    } else {
        Map::new()
    };
    config.extend(theirs);
    if let Some(most) = network.spec().position.max() {
        config.entry("model_max_length").or_insert_with(|| most.into());
    }
    write_atomically(&place, format!("{:#}\n", Value::Object(config)).as_bytes())
}

/// What a model that writes says about writing: `generation_config.json`.
pub fn generation(plan: &Plan, network: &Pretrained) -> Map<String, Value> {
    let keys = ["bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id", "forced_eos_token_id"];
    let known = keys.iter().filter_map(|key| Some((key.to_string(), network.config.get(key)?.clone())));
    known.chain([("max_length".to_string(), plan.recipe.data.length.into())]).collect()
}

/// What stands at the top of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top {
    /// one sentence
    pub summary: String,
    /// the few numbers that matter most, with their names
    pub facts: Vec<(String, String)>,
}

/// Writes `report.html`: curves from the journal, scores, samples, the recipe.
pub fn save_report(
    run_dir: &RunDir,
    top: Top,
    recipe: &str,
    splits: &[(&str, &Scores)],
    samples: &[Judged],
) -> Result<()> {
    let journal = journal::read(run_dir.dir())?;
    let chart = |title: &str, keys: &[(&str, &str)]| Chart {
        title: title.into(),
        series: keys
            .iter()
            .map(|(name, key)| Series { name: (*name).into(), points: journal.points("step", key) })
            .collect(),
        ..Chart::default()
    };
    let mut table =
        Table { title: "On examples that were never learnt from".into(), head: vec!["".into()], rows: vec![] };
    let keys: Vec<&String> = splits.first().map(|(_, s)| s.values.keys().collect()).unwrap_or_default();
    table.head.extend(keys.iter().map(|k| k.to_string()));
    for (name, scores) in splits {
        let cells = keys.iter().map(|k| scores.values.get(*k).map_or(String::new(), |v| format!("{v:.3}")));
        table.rows.push(std::iter::once(name.to_string()).chain(cells).collect());
    }
    let sample =
        |j: &Judged| Sample { source: j.source.clone(), expected: Some(j.expected.clone()), got: j.got.clone() };
    let report = Report {
        kind: "qkv train".into(),
        title: run_dir.dir().display().to_string(),
        summary: top.summary,
        facts: top.facts,
        charts: vec![
            chart("Loss", &[("training", "loss"), ("validation", "valid_loss")]),
            chart("Learning rate", &[("rate", "rate")]),
            chart("Gradient norm", &[("norm", "norm")]),
            chart("Tokens per second", &[("speed", "tokens_per_s")]),
        ],
        tables: vec![table],
        samples: samples.iter().map(sample).collect(),
        recipe: recipe.into(),
    };
    run_dir.write("report.html", report.html().as_bytes())
}
