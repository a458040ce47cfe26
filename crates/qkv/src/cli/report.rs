//! What a run came to, told to a person or as one line of JSON.

use super::fail::Fail;
use super::flags::CostArgs;
use super::show::Show;
use super::signals::asked_to_stop;
use super::terminal::{say, talk};
use qkv::{Collective, Ended, Judged, Outcome, Recipe, Run, Task};
use qkv_metric::human_duration;
use qkv_runs::cost::links;
use qkv_runs::session;
use qkv_tasks::locate;
use qkv_tasks::sheet::{self, Given};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a verb that trains does with its recipe, and how it tells about it.
#[derive(clap::Args, Clone, Copy, Default)]
pub(crate) struct TellArgs {
    /// Print the recipe with all changes, every key with what it means, and do nothing
    #[arg(long)]
    print_recipe: bool,
    /// Read the data, build the network, take some steps: say what would be done, and what it would cost; write nothing
    #[arg(long, conflicts_with = "print_recipe")]
    dry_run: bool,
    /// Print the scores, or with --dry-run the cost, as one line of JSON
    #[arg(long)]
    json: bool,
    /// Tell nothing on the way but warnings
    #[arg(long)]
    quiet: bool,
    /// Share the steps among the ranks of an MPI job: mpirun -np 4 qkv train … --dist mpi
    #[arg(long, value_name = "HOW", value_enum)]
    dist: Option<Dist>,
    #[command(flatten)]
    cost: CostArgs,
}

/// How several processes share a run.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq)]
enum Dist {
    /// as ranks of MPI; the program must have been built with `--features mpi`
    Mpi,
}

/// Runs among the ranks of an MPI job. Rank 0 knows what is to be done, does it and tells what it came to; the others need
/// neither its files nor its disk. A rank that fails says which it is.
fn among(
    how: TellArgs,
    threads: usize,
    work: impl FnOnce(&dyn Collective, &AtomicBool, &mut Show) -> Result<Option<Run>, Fail> + Send,
) -> Result<(), Fail> {
    let stop = asked_to_stop().map_err(|e| Fail::failed("signals", e, ""))?;
    let work = |ranks: &dyn Collective| {
        if ranks.rank() > 0 {
            return Ok(Run::beside(ranks, threads, &stop)?);
        }
        let mut show = Show::new(how.quiet);
        let run = work(ranks, &stop, &mut show)?;
        run.map_or(Ok(()), |run| told(run, show, how.json))
    };
    qkv_mpi::with_world(work, |rank, fail: &Fail| {
        if rank > 0 {
            talk(format_args!("rank {rank}:"));
        }
        fail.tell().into()
    })
}

/// Runs a new recipe and tells what it came to, or only shows it.
pub(crate) fn start(
    make: impl FnOnce() -> Result<Recipe, Fail> + Send,
    threads: usize,
    how: TellArgs,
) -> Result<(), Fail> {
    let make = || Ok::<_, Fail>(how.cost.set(make()?));
    if how.print_recipe || how.dry_run {
        return shown(&make()?, how);
    }
    if how.dist == Some(Dist::Mpi) {
        return among(how, threads, |ranks, stop, show| Ok(make()?.run_among(ranks, stop, show)?));
    }
    let recipe = make()?;
    let (stop, mut show) = (asked_to_stop().map_err(|e| Fail::failed("signals", e, ""))?, Show::new(how.quiet));
    told(recipe.run_until(&stop, &mut show)?, show, how.json)
}

fn shown(recipe: &Recipe, how: TellArgs) -> Result<(), Fail> {
    if how.print_recipe {
        return say(recipe.full_text()?.trim_end());
    }
    let machines = how.cost.machines()?;
    let told = recipe.preview()?;
    // What is exchanged is a gradient of every number that learns.
    let exchanged = told.forecast.as_ref().map(|f| (4 * f.learning, f.measured.step));
    if how.json {
        let mut json = told.json();
        if let (Some((ranks, link)), Some((bytes, step))) = (machines, exchanged) {
            let [shared, own] = [step / ranks as f64, step].map(|step| links::efficiency(ranks, bytes, step, &link));
            json["ranks"] = serde_json::json!({"link": link, "one_batch_shared": shared, "a_batch_for_each": own});
        }
        return say(json);
    }
    told.lines().iter().try_for_each(say)?;
    if let (Some((ranks, link)), Some((bytes, step))) = (machines, exchanged) {
        links::lines(ranks, bytes, step, &link).iter().try_for_each(say)?;
    }
    say("nothing was written: --dry-run")
}

/// Goes on with the run in `dir`, or with the newest one. `named` gives the recipe that it should have been begun with, where
/// one was named; `change` brings the changes of the command line.
pub(crate) fn resume(
    dir: Option<&Path>,
    named: impl FnOnce() -> Result<Option<Recipe>, Fail> + Send,
    change: impl FnOnce(Recipe) -> Result<Recipe, Fail> + Send,
    force: bool,
    threads: usize,
    how: TellArgs,
) -> Result<(), Fail> {
    let held = || {
        let dir = dir.map_or_else(locate::newest, |dir| Ok(dir.to_path_buf()))?;
        let begun = match named()? {
            Some(recipe) => recipe,
            None => Recipe::parse(&dir.display().to_string(), &session::recipe_of(&dir)?)?,
        };
        Ok::<_, Fail>((change(begun)?, dir))
    };
    if how.print_recipe || how.dry_run {
        return shown(&held()?.0, how);
    }
    if how.dist == Some(Dist::Mpi) {
        return among(how, threads, |ranks, stop, show| {
            let (recipe, dir) = held()?;
            Ok(recipe.resume_among(ranks, &dir, force, stop, show)?)
        });
    }
    let (recipe, dir) = held()?;
    let (stop, mut show) = (asked_to_stop().map_err(|e| Fail::failed("signals", e, ""))?, Show::new(how.quiet));
    told(recipe.resume_in(&dir, force, &stop, &mut show)?, show, how.json)
}

/// Tells what a run came to; a goal that was missed is a failure.
pub(crate) fn told(run: Run, mut show: Show, json: bool) -> Result<(), Fail> {
    show.end();
    let outcome = run.outcome;
    if outcome.ended == Ended::Asked {
        let (place, step) = (outcome.dir.display(), outcome.step);
        show.line(&format!("stopped and saved after step {step}; go on: qkv train --resume --out {place}"));
        return Ok(());
    }
    if json {
        as_json(&outcome)?
    } else {
        as_text(&outcome)?
    }
    match &outcome.verdict {
        Some(verdict) if !verdict.pass => {
            Err(Fail::failed("goal", verdict, "the model is kept; train longer, or lower eval.goal"))
        }
        _ => Ok(()),
    }
}

fn as_json(outcome: &Outcome) -> Result<(), Fail> {
    let scores: serde_json::Map<String, serde_json::Value> =
        outcome.scores.iter().map(|(name, s)| (name.clone(), serde_json::json!(s.values))).collect();
    let (dir, (predicted, peak)) = (&outcome.dir, outcome.memory);
    say(serde_json::json!({
        "run": dir.display().to_string(), "model": dir.join("model").display().to_string(),
        "step": outcome.step, "seconds": outcome.seconds, "scores": scores,
        "baseline": outcome.baseline, "cost": outcome.cost,
        "pass": outcome.verdict.as_ref().map(|v| v.pass), "memory": {"predicted": predicted, "peak": peak},
    }))
}

fn as_text(outcome: &Outcome) -> Result<(), Fail> {
    for j in outcome.samples.iter().take(outcome.show) {
        // A language model goes on in its own way: there is no right or wrong.
        let (mark, judged) = match (outcome.task, j.got == j.expected) {
            (Task::NextToken, _) => (" ", true),
            (_, true) => ("✓", true),
            (_, false) => ("✗", false),
        };
        say(format!("{mark} {}\n  → {}", j.source, j.got))?;
        if !judged {
            say(format!("  = {}", j.expected))?;
        }
    }
    let took = human_duration(Duration::from_secs_f64(outcome.seconds.max(0.0)));
    say(format!("best at step {}, {took} of training", outcome.step))?;
    for (name, scores) in &outcome.scores {
        let values: Vec<String> = scores.values.iter().map(|(k, v)| format!("{k} {v:.2}")).collect();
        say(format!("{name}: {}", values.join(" · ")))?;
    }
    if let Some(signature) = outcome.scores.first().and_then(|(_, s)| s.signature.as_ref()) {
        say(format!("BLEU {signature}"))?;
    }
    if let Some(baseline) = &outcome.baseline {
        say(baseline)?;
    }
    if let Some(verdict) = &outcome.verdict {
        say(verdict)?;
    }
    outcome.cost.map_or(Ok(()), say)?;
    let dir = &outcome.dir;
    say(format!("model: {}   report: {}", dir.join("model").display(), dir.join("report.html").display()))?;
    next(outcome.task, dir, &outcome.samples).map_or(Ok(()), say)
}

/// The command that asks the new model something, where a verb is made for it.
fn next(task: Task, run: &Path, samples: &[Judged]) -> Option<String> {
    // What a shell would read as more than text is left to the person.
    let plain = |text: &&str| text.len() < 100 && !text.contains(['"', '\\', '$', '`', '!', '\n']);
    let sample = samples.first().map(|j| j.source.as_str()).filter(plain);
    let sample = sample.map_or("TEXT".into(), |text| format!("\"{text}\""));
    let (verb, given) = sheet::of(task).verb?;
    let what = match given {
        Given::Text => sample.as_str(),
        Given::Words(words) => words,
    };
    Some(format!("ask it: qkv {verb} {} {what}", run.display()))
}
