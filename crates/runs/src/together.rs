//! A run among several ranks: what rank 0 tells the others before the first step, and what all of them must have in common.
//!
//! Rank 0 has the directory of the run. The others need no disk in common with it: recipe, tokenizer and checkpoint are sent
//! to them. What they learn from they read themselves, and its fingerprint must be the same.

use crate::checkpoint::Checkpoints;
use crate::recipe::Recipe;
use qkv_base::{Error, Result};
use qkv_metric::human_bytes;
use qkv_train::dist::{Team, Traffic};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rank 0 tells the recipe; a recipe that so many ranks cannot share is refused.
pub(crate) fn begin(team: &Team, text: &str, recipe: &Recipe) -> Result<()> {
    let each = recipe.dist.shards.div_ceil(recipe.train.accumulate);
    let (pieces, size) = (each * recipe.train.accumulate, team.size());
    if size > pieces {
        let what = format!("{pieces} pieces of a step cannot be shared by {size} ranks");
        let hint = format!("set dist.shards={} or more, from the start of a run", size.next_power_of_two());
        return Err(Error::new("dist.shards", what, hint));
    }
    team.from_root(text.as_bytes().to_vec()).map(drop)
}

/// The recipe that rank 0 tells.
pub(crate) fn recipe(team: &Team) -> Result<String> {
    let text = team.from_root(vec![])?;
    String::from_utf8(text).map_err(|_| Error::internal("ranks", "rank 0 sent a recipe that is no text"))
}

/// Refuses ranks that would not learn the same network.
pub(crate) fn ensure_same(team: &Team, data: &str) -> Result<()> {
    team.ensure_same("the version", env!("CARGO_PKG_VERSION"), "start the same qkv on every machine")?;
    let level = format!("{:?}", qkv_kernels::simd::Level::current()).to_lowercase();
    let hint =
        "set QKV_SIMD to one that all machines have: mpirun -x QKV_SIMD=avx2 (Open MPI), -genv QKV_SIMD avx2 (MPICH)";
    team.ensure_same("the level of vector instructions", &level, hint)?;
    let hint = "bring the same files to every machine, to the same place";
    team.ensure_same("the fingerprint of the data", data, hint)
}

/// Sends files and directories under `base` from rank 0 to the same places under the base of the others.
pub(crate) fn send(team: &Team, base: &Path, names: &[&str]) -> Result<()> {
    let mut files = vec![];
    if team.is_root() {
        names.iter().try_for_each(|name| list(base, Path::new(name), &mut files))?;
        files.sort();
    }
    let told = serde_json::to_vec(&files).map_err(|e| Error::internal("ranks", e.to_string()))?;
    let files: Vec<PathBuf> =
        serde_json::from_slice(&team.from_root(told)?).map_err(|e| Error::internal("ranks", e.to_string()))?;
    for file in files {
        let path = base.join(&file);
        let place = path.display().to_string();
        let held = match team.is_root() {
            true => std::fs::read(&path).map_err(|e| Error::read(place.clone(), &e, "may it be read?"))?,
            false => vec![],
        };
        let bytes = team.from_root(held)?;
        if !team.is_root() {
            let written =
                path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, bytes));
            written.map_err(|e| Error::write(place, &e, "is the disk full?"))?;
        }
    }
    Ok(())
}

/// The files at or under `base/name`, relative to `base`; none where there is nothing.
fn list(base: &Path, name: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let path = base.join(name);
    if path.is_file() {
        files.push(name.to_path_buf());
    } else if path.is_dir() {
        let fail = |e: std::io::Error| Error::read(path.display().to_string(), &e, "may it be read?");
        for entry in std::fs::read_dir(&path).map_err(fail)? {
            list(base, &name.join(entry.map_err(fail)?.file_name()), files)?;
        }
    }
    Ok(())
}

/// Sends the newest checkpoint that is whole.
pub(crate) fn send_checkpoint(team: &Team, dir: &Path, keep: usize) -> Result<()> {
    let newest = match team.is_root() {
        true => Checkpoints::open(dir, keep).latest()?,
        false => None,
    };
    let name = newest.and_then(|loaded| Some(loaded.path.file_name()?.to_string_lossy().to_string()));
    send(team, dir, &name.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What the ranks had to tell each other, in words.
pub(crate) fn told(team: &Team, steps: u64, took: Duration) -> String {
    let Traffic { bytes, seconds } = team.traffic();
    let share = 100.0 * seconds / took.as_secs_f64().max(1e-9);
    let each = human_bytes(bytes / steps.max(1));
    format!(
        "{} ranks: rank 0 sent {each} a step, and spent {share:.1} % of the time on sending and waiting",
        team.size()
    )
}
