//! A run that is broken off and taken up again is the unbroken run, byte for byte: weights, optimiser, data, schedule,
//! dropout and the lines of the journal. At another number of threads, too.

use qkv_runs::observe::{Event, Journal, Observer};
use qkv_runs::run_dir::{Expect, RunDir};
use qkv_runs::{Ended, Plan, PlanHooks, Recipe, Run};
use qkv_testkit::journal;
use qkv_train::on_threads;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks the run to stop after a step, as Ctrl-C does.
struct StopAt<'a>(u64, &'a AtomicBool);

impl Observer for StopAt<'_> {
    fn see(&mut self, event: &Event) -> qkv_base::Result<()> {
        if let Event::Step(told) = event
            && told.step == self.0
        {
            self.1.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn go(recipe: &Recipe, dir: &Path, threads: usize, stop_at: Option<u64>) -> Ended {
    let expect = if dir.join("recipe.toml").exists() { Expect::Run } else { Expect::Nothing };
    let run_dir = RunDir::open(dir, expect).unwrap();
    run_dir.write("recipe.toml", b"").unwrap();
    let stop = AtomicBool::new(false);
    on_threads(threads, || {
        let mut plan = Plan::new(recipe, None).unwrap();
        let job = plan.job().unwrap();
        let hooks = PlanHooks { plan: &plan, run_dir: &run_dir };
        let (mut run, _) = Run::new(job, &hooks, &run_dir.at("checkpoints"), false).unwrap();
        let mut journal = Journal::open(dir, run.state.step).unwrap();
        let mut stopper = StopAt(stop_at.unwrap_or(u64::MAX), &stop);
        run.go(&mut [&mut journal, &mut stopper], &stop).unwrap()
    })
    .unwrap()
}

fn recipe(train: &str, more: &str) -> Recipe {
    let text = format!(
        "[train]\nsteps = 20\nrows = 4\nlog = 1\n{train}\n[schedule]\nwarmup = 3\n[checkpoint]\nevery = 6\n[eval]\nevery = 5\nsamples = 0\nbatches = 2\n{more}"
    );
    Recipe::parse("test", &text).unwrap()
}

fn resumes(name: &str, train: &str, more: &str) {
    let recipe = recipe(train, more);
    let dir = tempfile::tempdir().unwrap();
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    assert_eq!(go(&recipe, &whole, 2, None), Ended::Done);
    assert_eq!(go(&recipe, &broken, 2, Some(7)), Ended::Asked);
    assert_eq!(go(&recipe, &broken, 1, None), Ended::Done);
    let read = |dir: &Path, file: &str| std::fs::read(dir.join("checkpoints/ckpt-000020").join(file)).unwrap();
    for file in ["model.safetensors", "optimizer.safetensors"] {
        assert!(read(&whole, file) == read(&broken, file), "{name}: {file} differs");
    }
    assert_eq!(journal(&whole), journal(&broken), "{name}");
    assert!(journal(&whole).len() >= 24, "{name}: every step and four validations");
}

const SMALL: &str = "width = 32\nlayers = 1\nheads = 2\ndropout = 0.1";

#[test]
fn a_translation_resumes() {
    resumes(
        "translate",
        "smoothing = 0.1",
        &format!(
            "[data]\ncorpus = \"builtin:en-it\"\nexamples = 200\nvalid = 20\ntest = 5\nlength = 40\n[tokenizer]\nvocab = 300\n[model]\nfamily = \"marian\"\n{SMALL}"
        ),
    );
}

#[test]
fn a_language_model_with_an_average_and_micro_batches_resumes() {
    let more = format!(
        "[data]\ncorpus = \"builtin:stories\"\nobjective = \"next-token\"\nexamples = 40\nvalid = 5\ntest = 5\nlength = 32\n[tokenizer]\nkind = \"bpe\"\nvocab = 400\n[model]\nfamily = \"gpt2\"\n{SMALL}"
    );
    resumes(
        "gpt2",
        "accumulate = 2\naverage = 0.9",
        &more.replace("[data]", "[optim]\nname = \"lion\"\nrate = 1e-4\n[data]"),
    );
}

#[test]
fn a_masked_model_resumes() {
    resumes(
        "bert",
        "",
        &format!(
            "[data]\ncorpus = \"builtin:stories\"\nobjective = \"masked\"\nexamples = 40\nvalid = 5\ntest = 5\nlength = 32\n[tokenizer]\nkind = \"wordpiece\"\nvocab = 400\n[model]\nfamily = \"bert\"\n{SMALL}"
        ),
    );
}
