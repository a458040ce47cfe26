//! The runs of a directory: what each learnt, how well, how large and how old it is; and taking one away.

use crate::journal;
use crate::recipe::Recipe;
use crate::run_dir::{Expect, RunDir};
use qkv_base::{Error, MOST_TEXT, Result, nearest, read_text};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// its directory's name
    pub name: String,
    /// where it is
    pub path: PathBuf,
    /// what it learns
    pub task: String,
    /// the network
    pub family: String,
    /// what it learns from
    pub data: String,
    /// the metric that it is judged by
    pub metric: String,
    /// the score on the unseen test; none before the end
    pub score: Option<f64>,
    /// the last step that was written down
    pub step: u64,
    /// how many steps the recipe asks for; with epochs, what came of them is not known here
    pub steps: u64,
    /// bytes on disk
    pub bytes: u64,
    /// since something was written to it
    #[serde(serialize_with = "seconds")]
    pub age: Duration,
}

fn seconds<S: serde::Serializer>(age: &Duration, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_u64(age.as_secs())
}

/// The runs under `dir`, newest first. A directory that holds none has none.
pub fn list(dir: &Path) -> Vec<RunSummary> {
    let places = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<RunSummary> = places.filter_map(|path| summary(&path)).collect();
    all.sort_by(|a, b| a.age.cmp(&b.age).then(a.name.cmp(&b.name)));
    all
}

/// What a directory says of its run; none where there is no run that can be read.
fn summary(path: &Path) -> Option<RunSummary> {
    let text = read_text(&path.join("recipe.toml"), MOST_TEXT, "").ok()?;
    let recipe = Recipe::read("recipe.toml", &text).ok()?;
    let scores = std::fs::read(path.join("scores.json")).ok();
    let scores: serde_json::Value = scores.and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default();
    let written = [journal::FILE, "scores.json", "recipe.toml"];
    let written = written.iter().filter_map(|name| path.join(name).metadata().ok()?.modified().ok()).max();
    Some(RunSummary {
        name: path.file_name()?.to_string_lossy().to_string(),
        path: path.to_path_buf(),
        task: recipe.data.objective.name().to_string(),
        family: if recipe.model.from.is_empty() { recipe.model.family.clone() } else { recipe.model.from.clone() },
        data: recipe.data.name(),
        score: scores["test"][recipe.eval.metric.as_str()].as_f64(),
        metric: recipe.eval.metric,
        step: journal::last_step(path),
        steps: recipe.train.steps,
        bytes: bytes(path),
        age: written.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default(),
    })
}

fn bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes(&entry.path()),
        Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |m| m.len()),
        _ => 0, // what a link leads to is not the run's
    };
    entries.map(size).sum()
}

/// The run of this name, or an error with the nearest one.
pub fn find(dir: &Path, name: &str) -> Result<PathBuf> {
    let all = list(dir);
    let wanted = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    all.iter().find(|run| run.name == wanted).map(|run| run.path.clone()).ok_or_else(|| {
        let near = nearest(wanted, all.iter().map(|run| run.name.as_str()));
        let hint = near.map_or("there are no runs".to_string(), |near| format!("did you mean `{near}`?"));
        Error::new(name, format!("there is no such run in {}", dir.display()), hint)
    })
}

/// Takes a run away with all it holds. One that is in use is refused.
pub fn remove(dir: &Path, name: &str) -> Result<PathBuf> {
    let path = find(dir, name)?;
    let _lock = RunDir::open(&path, Expect::Run)?;
    std::fs::remove_dir_all(&path).map_err(|e| Error::write(path.display().to_string(), &e, "may it be removed?"))?;
    Ok(path)
}

/// Gives a run another name. One that is in use is refused, as is a name that is taken or leads elsewhere.
pub fn rename(dir: &Path, name: &str, new: &str) -> Result<PathBuf> {
    let path = find(dir, name)?;
    if new.is_empty() || new.contains(['/', '\\']) || new.starts_with('.') {
        return Err(Error::new(new, "is not a name for a run", "use letters, digits and -"));
    }
    let to = dir.join(new);
    if to.exists() {
        return Err(Error::new(to.display().to_string(), "exists already", "choose another name"));
    }
    let _lock = RunDir::open(&path, Expect::Run)?;
    std::fs::rename(&path, &to).map_err(|e| Error::write(to.display().to_string(), &e, "is the place writable?"))?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dir: &Path, name: &str, scores: Option<&str>) {
        let path = dir.join(name);
        std::fs::create_dir_all(&path).unwrap();
        let recipe = "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\n[train]\nsteps = 9\n[eval]\nmetric = \"accuracy\"\n";
        std::fs::write(path.join("recipe.toml"), recipe).unwrap();
        std::fs::write(path.join("metrics.jsonl"), "{\"step\":1}\n{\"step\":7,\"loss\":0.5}\n{\"st").unwrap();
        if let Some(scores) = scores {
            std::fs::write(path.join("scores.json"), scores).unwrap();
        }
    }

    #[test]
    fn runs_are_listed_renamed_and_removed() {
        let held = tempfile::tempdir().unwrap();
        let dir = held.path();
        assert!(list(&dir.join("nowhere")).is_empty());
        run(dir, "one", Some("{\"test\":{\"accuracy\":93.5}}"));
        run(dir, "two", None);
        std::fs::create_dir(dir.join("letters")).unwrap();
        let all = list(dir);
        let (one, two) = (all.iter().find(|r| r.name == "one").unwrap(), all.iter().find(|r| r.name == "two").unwrap());
        assert_eq!((all.len(), one.score, one.step, one.steps, two.score), (2, Some(93.5), 7, 9, None));
        assert_eq!((one.task.as_str(), one.data.as_str()), ("classify", "builtin:reviews"));
        assert!(one.bytes > 100);
        assert!(find(dir, "onee").unwrap_err().hint.contains("`one`"));
        assert!(rename(dir, "one", "../out").is_err() && rename(dir, "one", "two").is_err());
        rename(dir, "runs/one", "best").unwrap();
        let lock = RunDir::open(&dir.join("best"), Expect::Run).unwrap();
        assert!(remove(dir, "best").unwrap_err().what.contains("in use"));
        drop(lock);
        remove(dir, "best").unwrap();
        assert!(!dir.join("best").exists() && dir.join("two").exists() && dir.join("letters").exists());
    }
}
