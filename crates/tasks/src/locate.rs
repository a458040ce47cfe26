//! Where models are: a run wherever a model can be named, and the newest run where none is. One rule for every verb.

use crate::named_checkpoint::{self, NamedCheckpoint};
use burn::tensor::Device;
use qkv_base::{Error, Result};
use qkv_model::families::{self, Config, Files, Sheet};
use qkv_model::spec::Spec;
use qkv_model::{Precision, Pretrained, precision};
use qkv_weights::{Checkpoint, Format};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The model of a run; any other place as it is, so that a run can be named wherever a model can.
pub fn model_of(path: &Path) -> PathBuf {
    let model = path.join("model");
    if model.join("config.json").exists() { model } else { path.to_path_buf() }
}

/// What a name stands for: a checkpoint of a run (`RUN@1200`, `RUN@last`, `RUN@best`), the model of a run, or any other place as it
/// is. An error says which checkpoints there are.
pub fn model(name: &Path) -> Result<Located> {
    let checkpoint = named_checkpoint::open(name)?;
    let place = checkpoint.as_ref().map_or_else(|| model_of(name), NamedCheckpoint::model);
    Ok(Located { place, checkpoint })
}

/// The checkpoints of a run by name, `RUN@200`, `RUN@400`, …, each with its step: all of them, or those of these steps.
pub fn checkpoints(run: &Path, steps: &[u64]) -> Result<Vec<(u64, PathBuf)>> {
    let there = named_checkpoint::steps_of(run);
    if there.is_empty() {
        let what = "is no run with checkpoints";
        return Err(Error::new(run.display().to_string(), what, "name a run, such as runs/gpt; `qkv runs` lists them"));
    }
    let wanted = if steps.is_empty() { &there } else { steps };
    let named = |step: &u64| {
        let name = PathBuf::from(format!("{}@{step}", run.display()));
        named_checkpoint::open(&name)?; // one that is not there is answered with those that are
        Ok((*step, name))
    };
    wanted.iter().map(named).collect()
}

/// A model that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    place: PathBuf,
    /// whose weights are taken instead of those in `place`
    checkpoint: Option<NamedCheckpoint>,
}

impl Located {
    /// The directory or file that says what the network is; tokenizer and all else stand in it or beside it.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What it is called: its place, or the checkpoint (`RUN@1200`), which means the same model whenever it is looked for.
    pub fn name(&self) -> PathBuf {
        self.checkpoint.as_ref().map_or_else(|| self.place.clone(), NamedCheckpoint::name)
    }

    /// Where its weights are: its place, or the file of a checkpoint, which holds them by our own paths.
    pub fn weights(&self) -> PathBuf {
        self.checkpoint.as_ref().map_or_else(|| self.place.clone(), NamedCheckpoint::weights)
    }

    /// What it is, by its configuration and the names in its file; nothing is loaded.
    pub fn describe(&self) -> Result<(Config, &'static Sheet, Spec)> {
        let file = Checkpoint::open(&self.place)?;
        let names = || file.entries().iter().map(|e| e.name.as_str());
        let (config, sheet) = match file.format() {
            Format::Gguf { .. } => {
                let tied = !names().any(|n| n == "output.weight");
                let (config, sheet, _) = families::gguf_config(file.metadata(), tied)?;
                (config, sheet)
            }
            _ => {
                let config = Config::load(&self.dir().join("config.json"))?;
                let config = families::recognised(config, names())?;
                let sheet = families::of(&config)?;
                (config, sheet)
            }
        };
        let spec = (sheet.read)(&config, &Files::new(names()))?;
        spec.check()?;
        Ok((config, sheet, spec))
    }

    /// The directory of what stands beside the weights.
    pub fn dir(&self) -> &Path {
        if self.place.is_dir() { &self.place } else { self.place.parent().unwrap_or(Path::new("")) }
    }

    /// The network to answer with, its matrices packed.
    pub fn load_packed(&self, device: &Device, precision: Precision) -> Result<Pretrained> {
        if self.checkpoint.is_none() {
            return Pretrained::load_packed(&self.place, device, precision);
        }
        let network = self.load(device)?;
        Ok(Pretrained { model: precision::pack(network.model, precision)?, ..network })
    }

    /// The network, every parameter as f32.
    pub fn load(&self, device: &Device) -> Result<Pretrained> {
        self.load_with(device, 0, |_, _| Ok(()))
    }

    /// The network with a change of its spec, as [`Pretrained::load_with`].
    pub fn load_with(
        &self,
        device: &Device,
        seed: u64,
        change: impl FnOnce(&mut Spec, &mut Config) -> Result<()>,
    ) -> Result<Pretrained> {
        let network = Pretrained::load_with(&self.place, device, seed, change)?;
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.fill(network),
            None => Ok(network),
        }
    }
}

/// The run that a name stands for: that of a checkpoint, or the place itself.
pub fn run_of(name: &Path) -> PathBuf {
    named_checkpoint::run_of(name)
}

/// Whether there is a model or a run of this name.
pub fn exists(name: &Path) -> bool {
    name.exists() || run_of(name) != name
}

/// The run under `runs/` that was worked on last and holds a model.
pub fn newest_with_model() -> Result<PathBuf> {
    let held = |run: &PathBuf| run.join("model/config.json").exists();
    let (with, without): (Vec<PathBuf>, Vec<PathBuf>) = runs(Path::new("runs")).into_iter().partition(held);
    with.into_iter().next().ok_or_else(|| match without.first() {
        Some(run) => {
            let what = format!("{} holds no model yet, and no other run does", run.display());
            Error::new("runs", what, format!("let it learn: qkv train --resume --out {}", run.display()))
        }
        None => Error::new("runs", "there is no run", "train one: qkv train; or name a model directory"),
    })
}

/// The run under `runs/` that was worked on last, with or without a model: what `--resume` goes on with.
pub fn newest() -> Result<PathBuf> {
    let none = || Error::new("runs", "there is no run", "train one: qkv train; or name a directory");
    runs(Path::new("runs")).into_iter().next().ok_or_else(none)
}

/// Every run in a directory, the one that was worked on last first.
pub fn runs(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dated: Vec<(SystemTime, PathBuf)> = entries.filter_map(|run| Some((worked_on(&run)?, run))).collect();
    dated.sort_by(|a, b| b.cmp(a));
    dated.into_iter().map(|(_, run)| run).collect()
}

/// When a run was worked on last; nothing where it is none.
fn worked_on(run: &Path) -> Option<SystemTime> {
    let changed = |name: &str| std::fs::metadata(run.join(name)).and_then(|m| m.modified()).ok();
    let began = changed("recipe.toml")?;
    Some(changed("metrics.jsonl").unwrap_or(began))
}

/// The first of `runs/name`, `runs/name-2`, … that is free.
pub fn free(name: &str) -> PathBuf {
    let place = |n: usize| Path::new("runs").join(if n == 1 { name.to_string() } else { format!("{name}-{n}") });
    (1..).map(place).find(|p| !p.exists()).unwrap_or_else(|| place(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_run_that_was_worked_on_last_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
        let put = |name: &str, time: u64| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(at(time)).unwrap();
        };
        put("old/recipe.toml", 1);
        put("old/metrics.jsonl", 9);
        put("new/recipe.toml", 5);
        put("new/model/config.json", 5);
        put("no-run/notes.txt", 99);
        let names: Vec<_> = runs(dir.path()).iter().map(|p| p.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["old", "new"]);
        assert!(model_of(&dir.path().join("new")).ends_with("new/model"));
        assert!(model_of(&dir.path().join("old")).ends_with("old"));
    }
}
