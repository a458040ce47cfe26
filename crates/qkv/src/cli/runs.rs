//! `qkv runs`: what was trained here.

use super::fail::Fail;
use super::terminal::{say, say_json};
use qkv::inspect::numbers::bytes;
use qkv_metric::human_duration;
use qkv_runs::list::{self, RunSummary};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv runs                                 a table, the newest first
  qkv runs --json                          the same for a program
  qkv runs --rename sentiment first-try    another name
  qkv runs --remove translate,typos        take runs away, with their checkpoints and models")]
pub(crate) struct Args {
    /// The directory that holds the runs
    #[arg(default_value = "runs")]
    dir: PathBuf,
    /// Take these runs away
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "rename")]
    remove: Vec<String>,
    /// Give a run another name
    #[arg(long, num_args = 2, value_names = ["NAME", "NEW"])]
    rename: Vec<String>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    // All names are looked for before the first goes.
    args.remove.iter().try_for_each(|name| list::find(&args.dir, name).map(drop))?;
    for name in &args.remove {
        say(format!("removed {}", list::remove(&args.dir, name)?.display()))?;
    }
    if let [name, new] = args.rename.as_slice() {
        return say(format!("{name} is now {}", list::rename(&args.dir, name, new)?.display()));
    }
    if !args.remove.is_empty() {
        return Ok(());
    }
    let all = list::list(&args.dir);
    if args.json {
        return say_json(&all);
    }
    table(&all, &args.dir)
}

fn table(all: &[RunSummary], dir: &Path) -> Result<(), Fail> {
    if all.is_empty() {
        let hint = "train one: qkv train";
        return Err(Fail::usage(format!("{}: there are no runs", dir.display()), hint));
    }
    let head = ["name", "task", "network", "data", "score", "steps", "size", "age"].map(String::from);
    let row = |run: &RunSummary| {
        let score = run.score.map_or("–".to_string(), |score| format!("{} {score:.2}", run.metric));
        let age = human_duration(run.age);
        [
            run.name.clone(),
            run.task.clone(),
            run.family.clone(),
            run.data.clone(),
            score,
            run.step.to_string(),
            bytes(run.bytes),
            age,
        ]
    };
    let rows: Vec<[String; 8]> = std::iter::once(head).chain(all.iter().map(row)).collect();
    let wide = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(wide).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        say(cells.join("  ").trim_end())?;
    }
    Ok(())
}
