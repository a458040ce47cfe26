//! Checkpoints of a run by name, wherever a model can be named: `runs/x@1200`, `runs/x@last`, `runs/x@best`.
//!
//! A checkpoint holds weights by our own paths, the optimiser and the state; everything else that a model needs stands in the
//! run's `model/`. The two are put together in memory: whoever only asks a checkpoint something writes nothing.

use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_model::pretrained::{Values, fill};
use qkv_model::{Pretrained, count};
use qkv_nn::{LoraSize, device};
use qkv_weights::{Checkpoint, Finiteness};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which checkpoint of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Best,
    Last,
    Step(u64),
    /// something else behind the `@`
    Unknown(String),
}

/// `RUN@NAME` taken apart; none where it is an ordinary path. A place whose own name holds an `@` is one.
fn parse(path: &Path) -> Option<(PathBuf, Which)> {
    if path.exists() {
        return None;
    }
    let text = path.to_str()?;
    let (run, name) = text.rsplit_once('@')?;
    if name.contains('/') || !Path::new(run).join("recipe.toml").exists() {
        return None;
    }
    let which = match name {
        "best" => Which::Best,
        "last" | "latest" => Which::Last,
        other => other.parse().map_or_else(|_| Which::Unknown(other.into()), Which::Step),
    };
    Some((run.into(), which))
}

/// The run that `path` names a checkpoint of; any other path as it is.
pub(crate) fn run_of(path: &Path) -> PathBuf {
    parse(path).map_or_else(|| path.to_path_buf(), |(run, _)| run)
}

/// A checkpoint of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCheckpoint {
    run: PathBuf,
    step: u64,
    /// the name of its directory
    dir: String,
}

/// The checkpoint that `path` names; none where it names none.
pub(crate) fn open(path: &Path) -> Result<Option<NamedCheckpoint>> {
    let Some((run, which)) = parse(path) else { return Ok(None) };
    let (step, dir) = find(path, &run.join("checkpoints"), &which)?;
    if !run.join("model/config.json").exists() {
        let hint = "it appears with the first look at the validation side (eval.every)";
        return Err(Error::new(run.display().to_string(), "the run holds no model/ yet", hint));
    }
    Ok(Some(NamedCheckpoint { run, step, dir }))
}

/// The directory of a checkpoint; one that is not there is answered with those that are.
fn find(path: &Path, checkpoints: &Path, which: &Which) -> Result<(u64, String)> {
    let fail = |what: String, hint: String| Error::new(path.display().to_string(), what, hint);
    let there = steps(checkpoints);
    if there.is_empty() {
        return Err(fail("the run has no checkpoints yet".into(), "let it learn first: qkv train --resume".into()));
    }
    let file = |name: &str| {
        let text = read_file(&checkpoints.join(name), MOST_TEXT, "name a step instead")?;
        Ok(String::from_utf8_lossy(&text).trim().to_string())
    };
    let name = match which {
        Which::Best => file("best")?,
        Which::Last => file("latest")?,
        Which::Step(step) => format!("ckpt-{step:06}"),
        Which::Unknown(_) => String::new(),
    };
    // What the file `best` says is a name among those that there are, never a path.
    if let Some(found) = there.iter().find(|(_, known)| *known == name) {
        return Ok(found.clone());
    }
    let listed: Vec<String> = there.iter().map(|(step, _)| format!("@{step}")).collect();
    let what = match which {
        Which::Unknown(word) => format!("`{word}` names no checkpoint"),
        Which::Step(step) => format!("there is no checkpoint of step {step}"),
        _ => format!("the checkpoint `{name}` is not there"),
    };
    Err(fail(what, format!("there are {}, and @best and @last; checkpoint.keep keeps more", listed.join(", "))))
}

/// The checkpoints of a run by step.
fn steps(checkpoints: &Path) -> BTreeSet<(u64, String)> {
    let entries = std::fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().to_string());
    names.filter_map(|name| Some((name.strip_prefix("ckpt-")?.parse().ok()?, name))).collect()
}

/// The steps that a run has checkpoints of, in order.
pub(crate) fn steps_of(run: &Path) -> Vec<u64> {
    steps(&run.join("checkpoints")).into_iter().map(|(step, _)| step).collect()
}

impl NamedCheckpoint {
    /// The name that means this checkpoint for as long as it is there: `RUN@1200`.
    pub(crate) fn name(&self) -> PathBuf {
        format!("{}@{}", self.run.display(), self.step).into()
    }

    /// The directory that says what the network is, with its tokenizer and everything else beside it.
    pub(crate) fn model(&self) -> PathBuf {
        self.run.join("model")
    }

    /// The file of its weights, by our own paths.
    pub(crate) fn weights(&self) -> PathBuf {
        self.file("model.safetensors")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.run.join("checkpoints").join(&self.dir).join(name)
    }

    /// `network`, which was loaded from the run's `model/`, with the weights of the checkpoint instead; parameters that are new
    /// (of another head) stay as they were drawn.
    pub(crate) fn fill(&self, mut network: Pretrained) -> Result<Pretrained> {
        let held = Held::open(self)?;
        let adapted = held.adapted();
        let merged = if adapted.is_empty() { None } else { Some(Values::of(&self.merged(&held, &adapted)?)) };
        let fresh: BTreeSet<&String> = network.report.fresh.iter().collect();
        let (mut values, mut finite) = (BTreeMap::new(), Finiteness::default());
        for p in count::parameters(&network.model).into_iter().filter(|p| !fresh.contains(&p.path)) {
            let read = match &merged {
                Some(merged) => merged.read(&p.path),
                None => held.read(&p.path)?,
            };
            finite.scan(&p.path, &read);
            values.insert(p.path.clone(), self.fitting(&p, read)?);
        }
        network.model = fill(network.model, values);
        let report = &mut network.report;
        let before = report.finite.to_string();
        report.warnings.retain(|warning| *warning != before);
        if !finite.is_clean() {
            report.warnings.push(finite.to_string());
        }
        report.finite = finite;
        Ok(network)
    }

    /// The run's network with the weights of the checkpoint, and its adapters added in.
    fn merged(&self, held: &Held, adapted: &[String]) -> Result<qkv_model::Transformer> {
        let first = format!("{}.lora.a", adapted[0]);
        let rank = held.weights.get(&first).and_then(|e| e.shape.first().copied()).unwrap_or(0);
        let size = LoraSize { rank, alpha: alpha(&self.run.join("adapter"))?, dropout: 0.0 };
        let targets: Vec<&str> = adapted.iter().map(String::as_str).collect();
        let model = Pretrained::load(&self.model(), &device::default())?.model.with_lora(&targets, size, 0)?;
        let mut values = BTreeMap::new();
        for p in count::parameters(&model) {
            values.insert(p.path.clone(), self.fitting(&p, held.read(&p.path)?)?);
        }
        Ok(fill(model, values).merge_lora())
    }

    /// The numbers of a parameter, if they are as many as it has.
    fn fitting(&self, p: &count::Parameter, read: Vec<f32>) -> Result<Vec<f32>> {
        if read.len() as u64 == p.elements() {
            return Ok(read);
        }
        let what = format!("`{}` has {} numbers, but {} are wanted", p.path, read.len(), p.elements());
        Err(Error::new(self.name().display().to_string(), what, "was the run's model/ changed?"))
    }
}

/// The files of a checkpoint.
struct Held {
    weights: Checkpoint,
    beside: Checkpoint,
}

impl Held {
    fn open(checkpoint: &NamedCheckpoint) -> Result<Self> {
        let open = |name: &str| Checkpoint::open(checkpoint.file(name));
        Ok(Self { weights: open("model.safetensors")?, beside: open("optimizer.safetensors")? })
    }

    /// The layers that have adapters.
    fn adapted(&self) -> Vec<String> {
        let entries = self.weights.entries().iter();
        entries.filter_map(|entry| Some(entry.name.strip_suffix(".lora.a")?.to_string())).collect()
    }

    /// A parameter. Where a running average is kept, it is what is judged and handed out.
    fn read(&self, path: &str) -> Result<Vec<f32>> {
        let mean = format!("{path}.mean");
        match self.beside.get(&mean) {
            Some(_) => self.beside.read_f32(&mean),
            None => self.weights.read_f32(path),
        }
    }
}

/// The strength of a run's adapters.
fn alpha(adapter: &Path) -> Result<f64> {
    let file = adapter.join("adapter_config.json");
    let fail = |what: &str| Error::new(file.display().to_string(), what, "is the run whole?");
    let bytes = read_file(&file, MOST_TEXT, "it stands beside the model of a run with adapters")?;
    let config: serde_json::Value = serde_json::from_slice(&bytes).map_err(|e| fail(&format!("is not JSON: {e}")))?;
    config["lora_alpha"].as_f64().ok_or_else(|| fail("`lora_alpha` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_path_is_none_and_a_wrong_name_lists_what_there_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("x");
        let named = |name: &str| PathBuf::from(format!("{}@{name}", run.display()));
        assert_eq!(open(&named("last")).expect("no run, no name"), None);
        std::fs::create_dir_all(run.join("checkpoints")).expect("made");
        std::fs::write(run.join("recipe.toml"), "").expect("written");
        assert!(open(&named("last")).expect_err("nothing there").what.contains("no checkpoints"));
        for step in ["000100", "000250"] {
            std::fs::create_dir_all(run.join(format!("checkpoints/ckpt-{step}"))).expect("made");
        }
        std::fs::create_dir_all(run.join("checkpoints/ckpt-000300.tmp-7")).expect("made");
        let error = open(&named("200")).expect_err("not there");
        assert_eq!(error.what, "there is no checkpoint of step 200");
        assert!(error.hint.starts_with("there are @100, @250, and"), "{}", error.hint);
        assert!(open(&named("bset")).expect_err("no name").what.contains("`bset`"));
        std::fs::write(run.join("checkpoints/best"), "../../../etc").expect("written");
        assert!(open(&named("best")).expect_err("a path").what.contains("not there"));
        assert!(open(&named("100")).expect_err("no model").what.contains("no model/ yet"));
        std::fs::create_dir_all(run.join("model")).expect("made");
        std::fs::write(run.join("model/config.json"), "{}").expect("written");
        std::fs::write(run.join("checkpoints/latest"), "ckpt-000250\n").expect("written");
        assert_eq!(open(&named("last")).expect("there").map(|c| c.name()), Some(named("250")));
        assert_eq!(run_of(&named("100")), run);
        std::fs::create_dir_all(dir.path().join("a@b")).expect("made");
        assert_eq!(open(&dir.path().join("a@b")).expect("a path"), None);
        assert_eq!(open(Path::new("someone@example/model")).expect("a path"), None);
    }
}
