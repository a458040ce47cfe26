//! Checkpoints that survive being killed at any instant.
//!
//! Everything is written into `ckpt-000123.tmp-<pid>/` and synced: `model.safetensors` and `optimizer.safetensors` by our
//! own paths, `state.json`, and `MANIFEST.json` with the size and BLAKE3 hash of each. Then the directory is renamed to
//! `ckpt-000123`, its parent synced, and `latest` (and `best`) names it. A reader verifies the manifest and falls back to
//! the one before, saying so.

use crate::average::Average;
use crate::loss_mean::LossMean;
use burn::module::Module;
use burn::tensor::{Tensor as Numbers, TensorData};
use qkv_base::{Error, Kind, Result};
use qkv_model::count;
use qkv_model::pretrained::{Values, fill};
use qkv_nn::walk;
use qkv_optim::{Optimizer, numbers};
use qkv_train::guard::Guard;
use qkv_weights::{Checkpoint as Weights, Dtype, Tensor, save_safetensors, write_atomically};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where a run stands: with the weights and the optimiser, all that is needed to go on as if nothing had happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// of qkv
    pub version: String,
    /// steps done
    pub step: u64,
    /// micro-batches taken; with the seed, the whole position in the data
    pub batches: u64,
    /// updates of the optimiser: fewer than steps where some were skipped
    pub updates: u32,
    /// tokens read
    pub tokens: u64,
    /// seconds spent
    pub seconds: f64,
    /// bad steps in a row
    pub bad: u32,
    /// the best validation so far, less is better (the loss, or what the score of the run's metric costs), and its step
    pub best: Option<(f32, u64)>,
    /// the validation loss of the best: of equal scores the one with the lower loss is the better
    #[serde(default)]
    pub best_loss: Option<f32>,
    /// validations since
    pub stale: u64,
    /// a hash of what is learnt from
    pub data: String,
    /// the recipe as it was written; empty where there is none
    #[serde(default)]
    pub recipe: String,
    /// a hash of the tokenizer's files; empty where there is none
    #[serde(default)]
    pub tokenizer: String,
    /// what spikes are measured against
    #[serde(default)]
    pub guard: Guard,
    /// losses since the last line of the log
    #[serde(default)]
    pub since_line: LossMean,
}

/// What a checkpoint holds besides the network and its optimiser, where there is any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// a running average of the weights
    pub average: Option<&'a Average>,
    /// the outer momentum of ranks that meet seldom, flat
    pub velocity: Option<&'a [f32]>,
}

/// The outer momentum among the numbers of the optimiser.
const VELOCITY: &str = "dist.velocity";

/// A checkpoint in memory.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// its directory
    pub path: PathBuf,
    /// where the run stood
    pub state: State,
    /// those that could not be used, and why
    pub passed_over: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<String, (u64, String)>,
}

const FILES: [&str; 3] = ["model.safetensors", "optimizer.safetensors", "state.json"];

/// The checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
    regular: Regular,
}

/// Which checkpoints a mean is made of. Those that an interruption or a good validation left in between do not count: a
/// run that was broken off has the same mean as one that was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regular {
    /// so many of the last
    pub last: usize,
    /// that were written at every so many steps
    pub every: u64,
    /// or after the last
    pub steps: u64,
}

impl Checkpoints {
    /// Those under `dir`, of which the newest `keep` and the best stay. What a killed writer left behind is removed.
    pub fn open(dir: &Path, keep: usize) -> Self {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(".tmp-") {
                // A torn checkpoint is a directory, a torn `latest` a file: only bytes too many.
                let _ = std::fs::remove_dir_all(entry.path()).or_else(|_| std::fs::remove_file(entry.path()));
            }
        }
        Self { dir: dir.to_path_buf(), keep: keep.max(2), regular: Regular::default() }
    }

    /// The same, of which those for a mean stay, too.
    pub fn with(self, regular: Regular) -> Self {
        Self { regular, ..self }
    }

    /// Those for a mean, oldest first.
    pub fn regular(&self) -> Result<Vec<Loaded>> {
        let load = |name: String| {
            let path = self.dir.join(name);
            Ok(Loaded { state: verified(&path)?, path, passed_over: vec![] })
        };
        self.regular_names().into_iter().map(load).collect()
    }

    fn regular_names(&self) -> Vec<String> {
        let Regular { last, every, steps } = self.regular;
        let counts = |step: u64| step == steps || (every > 0 && step.is_multiple_of(every));
        let mut names = self.names();
        names.retain(|n| n.strip_prefix("ckpt-").and_then(|d| d.parse().ok()).is_some_and(counts));
        names.sort_unstable();
        names.split_off(names.len().saturating_sub(last))
    }

    /// Writes a checkpoint; `best` names it as such.
    pub fn save<M: Module>(
        &self,
        model: &M,
        optimizer: &Optimizer,
        beside: Beside,
        state: &State,
        best: bool,
    ) -> Result<PathBuf> {
        let name = format!("ckpt-{:06}", state.step);
        let (temporary, place) = (self.dir.join(format!("{name}.tmp-{}", std::process::id())), self.dir.join(&name));
        self.ensure_room(model, optimizer, beside)?;
        let written = self.write(&temporary, model, optimizer, beside, state).and_then(|()| settle(&temporary, &place));
        if let Err(e) = written {
            let _ = std::fs::remove_dir_all(&temporary); // the reason is on its way up
            return Err(e);
        }
        write_atomically(&self.dir.join("latest"), name.as_bytes())?;
        if best {
            write_atomically(&self.dir.join("best"), name.as_bytes())?;
        }
        self.prune();
        Ok(place)
    }

    fn write<M: Module>(
        &self,
        dir: &Path,
        model: &M,
        optimizer: &Optimizer,
        beside: Beside,
        state: &State,
    ) -> Result<()> {
        let values = Values::of(model);
        let parameters = count::parameters(model);
        let weights: Vec<Tensor> = parameters
            .iter()
            .map(|p| Tensor::made(p.path.clone(), p.shape.clone(), || Ok(values.read(&p.path))))
            .collect();
        save_safetensors(dir, &weights, Dtype::F32, u64::MAX)?;
        let mean = beside.average.into_iter().flat_map(|a| &a.values).map(|(path, v)| (format!("{path}.mean"), v));
        // Read from their device one by one, when they are written.
        let made = |(name, v): (String, &'_ Numbers<1>)| {
            let v = v.clone();
            Tensor::made(name, v.dims().to_vec(), move || Ok(numbers(&v)))
        };
        let outer = beside.velocity.map(|v| Tensor::made(VELOCITY, vec![v.len()], || Ok(v.to_vec())));
        let held: Vec<Tensor> = optimizer.memory().chain(mean).map(made).chain(outer).collect();
        let beside = dir.join("held");
        save_safetensors(&beside, &held, Dtype::F32, u64::MAX)?;
        let fail = |e: std::io::Error| Error::write(dir.display().to_string(), &e, "is the disk full?");
        std::fs::rename(beside.join(FILES[0]), dir.join(FILES[1])).map_err(fail)?;
        std::fs::remove_dir(beside).map_err(fail)?;
        let json = serde_json::to_vec_pretty(state).map_err(|e| Error::internal("state.json", e.to_string()))?;
        write_atomically(&dir.join(FILES[2]), &json)?;
        let files = FILES.iter().map(|name| Ok((name.to_string(), hashed(&dir.join(name))?))).collect::<Result<_>>()?;
        let json = serde_json::to_vec_pretty(&Manifest { files })
            .map_err(|e| Error::internal("MANIFEST.json", e.to_string()))?;
        write_atomically(&dir.join("MANIFEST.json"), &json)
    }

    /// Refuses to begin what the disk has no room for.
    fn ensure_room<M: Module>(&self, model: &M, optimizer: &Optimizer, beside: Beside) -> Result<()> {
        let weights: u64 = count::parameters(model).iter().map(count::Parameter::elements).sum();
        let held = optimizer.memory().map(|(_, v)| v.dims()[0] as u64).sum::<u64>();
        let mean: u64 = beside.average.map_or(0, |a| a.values.values().map(|v| v.dims()[0] as u64).sum());
        let outer = beside.velocity.map_or(0, |v| v.len() as u64);
        let need = (weights + held + mean + outer) * 4 / 10 * 11 + (1 << 16);
        match rustix::fs::statvfs(&self.dir) {
            Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < need => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                let human = qkv_metric::human_bytes;
                let what = format!("a checkpoint needs {}, but {} are free", human(need), human(free));
                let hint = "make room and go on with --resume: the checkpoints before are whole";
                Err(Error::new(self.dir.display().to_string(), what, hint))
            }
            _ => Ok(()),
        }
    }

    /// The newest checkpoint that is whole.
    pub fn latest(&self) -> Result<Option<Loaded>> {
        let first = std::fs::read_to_string(self.dir.join("latest")).ok();
        let mut names = self.names();
        names.sort_by_key(|name| (Some(name) != first.as_ref(), std::cmp::Reverse(name.clone())));
        let mut passed_over = vec![];
        for name in names {
            match verified(&self.dir.join(&name)) {
                Ok(state) => return Ok(Some(Loaded { path: self.dir.join(name), state, passed_over })),
                Err(e) => passed_over.push(e.to_string()),
            }
        }
        match passed_over.is_empty() {
            true => Ok(None),
            false => Err(Error::new(
                self.dir.display().to_string(),
                format!("no checkpoint is whole: {}", passed_over.join("; ")),
                "start anew in another place",
            )),
        }
    }

    /// The best checkpoint, where one was named and is whole.
    pub fn best(&self) -> Option<Loaded> {
        let name = std::fs::read_to_string(self.dir.join("best")).ok()?;
        let path = self.dir.join(name.trim());
        let state = verified(&path).ok()?;
        Some(Loaded { path, state, passed_over: vec![] })
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.map(|e| e.file_name().to_string_lossy().to_string());
        names.filter(|n| n.strip_prefix("ckpt-").is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()))).collect()
    }

    fn prune(&self) {
        let best = std::fs::read_to_string(self.dir.join("best")).unwrap_or_default();
        let mut names = self.names();
        names.sort_unstable();
        let surplus = names.len().saturating_sub(self.keep);
        let regular = self.regular_names();
        for name in names.iter().take(surplus).filter(|n| **n != best && !regular.contains(n)) {
            let _ = std::fs::remove_dir_all(self.dir.join(name)); // at worst a checkpoint too many
        }
    }
}

impl Loaded {
    /// The network with the weights of this checkpoint.
    pub fn model<M: Module>(&self, model: M) -> Result<M> {
        let values = self.weights(&model)?;
        Ok(fill(model, values))
    }

    /// The weights of this checkpoint by path: those that `model` asks for.
    pub fn weights<M: Module>(&self, model: &M) -> Result<BTreeMap<String, Vec<f32>>> {
        let file = Weights::open(self.path.join(FILES[0]))?;
        let mut values = BTreeMap::new();
        for p in count::parameters(model) {
            let read = file.read_f32(&p.path)?;
            if read.len() as u64 != p.elements() {
                let what = format!("`{}` has {} numbers, but {} are wanted", p.path, read.len(), p.elements());
                return Err(Error::new(self.path.display().to_string(), what, "was the model changed?"));
            }
            values.insert(p.path, read);
        }
        Ok(values)
    }

    /// The optimiser as it was.
    pub fn optimizer<M: Module>(&self, mut optimizer: Optimizer, model: &M) -> Result<Optimizer> {
        let file = Weights::open(self.path.join(FILES[1]))?;
        optimizer.restore(self.state.updates, model, |name| match file.get(name) {
            Some(_) => file.read_f32(name).map(Some),
            None => Ok(None),
        })?;
        Ok(optimizer)
    }

    /// The outer momentum as it was, where there is one.
    pub fn velocity(&self) -> Result<Option<Vec<f32>>> {
        let file = Weights::open(self.path.join(FILES[1]))?;
        file.get(VELOCITY).is_some().then(|| file.read_f32(VELOCITY)).transpose()
    }

    /// The running average of the parameters of `model` as it was.
    pub fn average<M: Module>(&self, keep: f32, model: &M) -> Result<Average> {
        let file = Weights::open(self.path.join(FILES[1]))?;
        let mut average = Average::new(keep);
        let mut params = vec![];
        walk(model, |p| params.push((p.path().to_string(), p.values())));
        for (path, param) in params {
            let name = format!("{path}.mean");
            if file.get(&name).is_some() {
                let values = file.read_f32(&name)?;
                if values.len() != param.dims()[0] {
                    let what = format!("`{name}` has {} numbers, but {} are wanted", values.len(), param.dims()[0]);
                    return Err(Error::new(self.path.display().to_string(), what, "was the model changed?"));
                }
                let data = TensorData::new(values, param.shape());
                average.values.insert(path, Numbers::from_data(data, (&param.device(), param.dtype())));
            }
        }
        Ok(average)
    }
}

/// Renames a whole checkpoint into its place and makes sure that the disk knows.
fn settle(temporary: &Path, place: &Path) -> Result<()> {
    let fail = |e: std::io::Error| Error::write(place.display().to_string(), &e, "is the disk full?");
    let sync = |dir: &Path| File::open(dir).and_then(|d| d.sync_all()).map_err(fail);
    sync(temporary)?;
    if place.exists() {
        std::fs::remove_dir_all(place).map_err(fail)?; // this step was saved before: the new one says the same
    }
    std::fs::rename(temporary, place).map_err(fail)?;
    place.parent().map_or(Ok(()), sync)
}

fn hashed(path: &Path) -> Result<(u64, String)> {
    let fail = |e: std::io::Error| Error::read(path.display().to_string(), &e, "is the disk readable?");
    let mut hash = blake3::Hasher::new();
    let size = std::io::copy(&mut File::open(path).map_err(fail)?, &mut hash).map_err(fail)?;
    Ok((size, hash.finalize().to_hex().to_string()))
}

/// The state of a checkpoint, if every file is what the manifest says.
fn verified(dir: &Path) -> Result<State> {
    let fail = |what: String| Error::new(dir.display().to_string(), what, "");
    let read =
        |name: &str| std::fs::read(dir.join(name)).map_err(|e| fail(format!("{name}: {e}")).of_kind(Kind::of_read(&e)));
    let manifest: Manifest =
        serde_json::from_slice(&read("MANIFEST.json")?).map_err(|e| fail(format!("MANIFEST.json: {e}")))?;
    for name in FILES {
        let said = manifest.files.get(name).ok_or_else(|| fail(format!("the manifest does not name {name}")))?;
        if hashed(&dir.join(name))? != *said {
            return Err(fail(format!("{name} is not what the manifest says")));
        }
    }
    serde_json::from_slice(&read(FILES[2])?).map_err(|e| fail(format!("state.json: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_model::{Transformer, presets};

    fn parts(seed: u64) -> (Transformer, Optimizer, Average) {
        let spec = presets::find("tiny-decoder").unwrap().spec();
        let model = Transformer::new(&spec, seed, &Device::flex().autodiff()).unwrap();
        let mut average = Average::new(0.9);
        average.take(&model, 1);
        (model, Optimizer::default(), average)
    }

    fn at(step: u64) -> State {
        State { step, batches: step * 2, best: Some((0.25, 3)), data: "abc".into(), ..State::default() }
    }

    #[test]
    fn what_is_saved_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let all = Checkpoints::open(dir.path(), 2);
        assert!(all.latest().unwrap().is_none());
        let (model, optimizer, average) = parts(1);
        all.save(&model, &optimizer, Beside { average: Some(&average), velocity: Some(&[1.0, -2.0]) }, &at(5), true)
            .unwrap();
        let loaded = all.latest().unwrap().unwrap();
        assert_eq!(loaded.state, at(5));
        let again = loaded.model(parts(2).0).unwrap();
        assert_eq!(Values::of(&again).read("tokens.weight"), Values::of(&model).read("tokens.weight"));
        let read = |a: &Average| -> Vec<_> { a.values.iter().map(|(path, v)| (path.clone(), numbers(v))).collect() };
        assert_eq!(read(&loaded.average(0.9, &model).unwrap()), read(&average));
        assert_eq!(read(&average).len(), count::parameters(&model).len());
        assert_eq!(loaded.velocity().unwrap(), Some(vec![1.0, -2.0]));
    }

    #[test]
    fn the_newest_two_and_the_best_stay() {
        let dir = tempfile::tempdir().unwrap();
        let all = Checkpoints::open(dir.path(), 2);
        let (model, optimizer, _) = parts(1);
        for step in 1..=5 {
            all.save(&model, &optimizer, Beside::default(), &at(step), step == 2).unwrap();
        }
        let mut names = all.names();
        names.sort();
        assert_eq!(names, ["ckpt-000002", "ckpt-000004", "ckpt-000005"]);
        assert_eq!(all.best().unwrap().state.step, 2);
    }

    #[test]
    fn a_mean_is_of_the_regular_ones() {
        let dir = tempfile::tempdir().unwrap();
        let all = Checkpoints::open(dir.path(), 2).with(Regular { last: 3, every: 2, steps: 9 });
        let (mut members, mut model) = (vec![], parts(1).0);
        for step in 1..=9 {
            model = parts(step).0;
            all.save(&model, &Optimizer::default(), Beside::default(), &at(step), false).unwrap();
            members.push(Values::of(&model).read("tokens.weight"));
        }
        let regular = all.regular().unwrap();
        assert_eq!(regular.iter().map(|m| m.state.step).collect::<Vec<_>>(), [6, 8, 9]);
        let mean = Values::of(&crate::average::mean(model, &regular).unwrap()).read("tokens.weight");
        for (i, mean) in mean.iter().enumerate() {
            let want = [6, 8, 9].map(|step| members[step - 1][i] as f64).iter().sum::<f64>() / 3.0;
            assert_eq!(*mean, want as f32);
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_passed_over_and_a_torn_one_removed() {
        let dir = tempfile::tempdir().unwrap();
        let all = Checkpoints::open(dir.path(), 2);
        let (model, optimizer, _) = parts(1);
        all.save(&model, &optimizer, Beside::default(), &at(1), false).unwrap();
        let newest = all.save(&model, &optimizer, Beside::default(), &at(2), false).unwrap();
        let file = newest.join("optimizer.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let loaded = all.latest().unwrap().unwrap();
        assert_eq!(loaded.state.step, 1);
        assert!(loaded.passed_over[0].contains("optimizer.safetensors is not what the manifest says"));
        std::fs::remove_file(dir.path().join("ckpt-000001/MANIFEST.json")).unwrap();
        assert!(all.latest().unwrap_err().what.starts_with("no checkpoint is whole"));
        std::fs::create_dir(dir.path().join("ckpt-000009.tmp-1")).unwrap();
        std::fs::write(dir.path().join(".latest.tmp-1"), "ckpt").unwrap();
        Checkpoints::open(dir.path(), 2);
        assert!(!dir.path().join("ckpt-000009.tmp-1").exists() && !dir.path().join(".latest.tmp-1").exists());
    }
}
