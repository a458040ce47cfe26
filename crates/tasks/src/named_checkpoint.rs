//! Checkpoints of a run by name, wherever a model can be named: `runs/x@1200`, `runs/x@last`, `runs/x@best`.
//!
//! A checkpoint holds weights by our own paths, the optimiser and the state; everything else that a model needs stands in the
//! run's `model/`. The two are put together once, in `checkpoints/ckpt-001200.model/`, an ordinary model directory: every
//! reader of models can open it, and nobody else has to know about checkpoints.

use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_model::pretrained::{carry, fill};
use qkv_model::{Pretrained, count};
use qkv_nn::{LoraSize, device};
use qkv_weights::{Checkpoint, Dtype};
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

/// The model directory of the checkpoint that `path` names, made if it is not there yet; none where it names none.
pub(crate) fn open(path: &Path) -> Result<Option<PathBuf>> {
    let Some((run, which)) = parse(path) else { return Ok(None) };
    let checkpoints = run.join("checkpoints");
    let name = find(path, &checkpoints, &which)?;
    let place = checkpoints.join(format!("{name}.model"));
    if !place.join("config.json").exists() {
        write(&run, &checkpoints.join(&name), &place)?;
    }
    Ok(Some(place))
}

/// The directory of a checkpoint; one that is not there is answered with those that are.
fn find(path: &Path, checkpoints: &Path, which: &Which) -> Result<String> {
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
    if there.iter().any(|(_, known)| *known == name) {
        return Ok(name);
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

/// Puts the weights of a checkpoint into the network of its run, and everything else beside them.
fn write(run: &Path, checkpoint: &Path, place: &Path) -> Result<()> {
    let model = run.join("model");
    if !model.join("config.json").exists() {
        let hint = "it appears with the first look at the validation side (eval.every)";
        return Err(Error::new(run.display().to_string(), "the run holds no model/ yet", hint));
    }
    let mut network = Pretrained::load(&model, &device::default())?;
    let weights = Checkpoint::open(checkpoint.join("model.safetensors"))?;
    // Where a running average is kept, it is what is judged and handed out.
    let held = Checkpoint::open(checkpoint.join("optimizer.safetensors"))?;
    let adapted: Vec<String> =
        weights.entries().iter().filter_map(|entry| Some(entry.name.strip_suffix(".lora.a")?.to_string())).collect();
    if let Some(first) = adapted.first() {
        let rank = weights.get(&format!("{first}.lora.a")).and_then(|e| e.shape.first().copied()).unwrap_or(0);
        let size = LoraSize { rank, alpha: alpha(&run.join("adapter"))?, dropout: 0.0 };
        let targets: Vec<&str> = adapted.iter().map(String::as_str).collect();
        network.model = network.model.with_lora(&targets, size, 0)?;
    }
    let mut values = BTreeMap::new();
    for p in count::parameters(&network.model) {
        let mean = format!("{}.mean", p.path);
        let read = match held.get(&mean) {
            Some(_) => held.read_f32(&mean)?,
            None => weights.read_f32(&p.path)?,
        };
        if read.len() as u64 != p.elements() {
            let what = format!("`{}` has {} numbers, but {} are wanted", p.path, read.len(), p.elements());
            return Err(Error::new(checkpoint.display().to_string(), what, "was the run's model/ changed?"));
        }
        values.insert(p.path, read);
    }
    network.model = fill(network.model, values).merge_lora();
    let new = place.with_extension(format!("model.tmp-{}", std::process::id()));
    let written =
        network.save(&new, Dtype::F32, u64::MAX).and_then(|()| carry(&model, &new).map(drop)).and_then(|()| {
            let fail =
                |e: std::io::Error| Error::write(place.display().to_string(), &e, "is the run's directory writable?");
            std::fs::rename(&new, place).map_err(fail)
        });
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&new); // the reason is on its way up
    }
    // Somebody else may have put the same there at the same time.
    if place.join("config.json").exists() { Ok(()) } else { written }
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
        std::fs::create_dir_all(run.join("checkpoints/ckpt-000100.model")).expect("made");
        let error = open(&named("200")).expect_err("not there");
        assert_eq!(error.what, "there is no checkpoint of step 200");
        assert!(error.hint.starts_with("there are @100, @250, and"), "{}", error.hint);
        assert!(open(&named("bset")).expect_err("no name").what.contains("`bset`"));
        std::fs::write(run.join("checkpoints/best"), "../../../etc").expect("written");
        assert!(open(&named("best")).expect_err("a path").what.contains("not there"));
        assert_eq!(run_of(&named("100")), run);
        std::fs::create_dir_all(dir.path().join("a@b")).expect("made");
        assert_eq!(open(&dir.path().join("a@b")).expect("a path"), None);
        assert_eq!(open(Path::new("someone@example/model")).expect("a path"), None);
    }
}
