//! Several ranks learn one network: whatever their number, the run that they leave has the same bytes. Here they are
//! threads of one process; tests/mpi/run does the same over MPI with processes that are killed.

use qkv::{Collective, Error, Event, Recipe, Run, local};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A translator of 20 steps: batches of two micro-batches, dropout, clipping, a running average, two looks, label smoothing.
fn translator() -> Recipe {
    let text = r#"
        [data]
        corpus = "builtin:en-it"
        examples = 200
        valid = 20
        test = 10
        length = 40
        [tokenizer]
        vocab = 300
        [model]
        width = 16
        layers = 1
        heads = 2
        [train]
        steps = 20
        rows = 6
        accumulate = 2
        smoothing = 0.1
        average = 0.9
        leap = 6.0
        log = 5
        [schedule]
        warmup = 4
        [checkpoint]
        every = 10
        [eval]
        every = 10
        samples = 1
    "#;
    Recipe::parse("ranks", text).expect("a recipe")
}

/// What each of `n` ranks makes of `f`.
fn each<T: Send>(n: usize, f: impl Fn(&dyn Collective) -> T + Sync) -> Vec<T> {
    let f = &f;
    std::thread::scope(|scope| {
        let work = |rank: local::Local| scope.spawn(move || f(&rank));
        let ranks: Vec<_> = local::ranks(n).into_iter().map(work).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

/// Runs a recipe among so many ranks; rank 0 hands out the run, and nobody else does.
fn run(recipe: &Recipe, dir: &Path, ranks: usize) -> Run {
    let recipe = recipe.clone().out(dir).threads(1);
    let mut done = each(ranks, |rank| recipe.run_among(rank, &AtomicBool::new(false), &mut ()).expect("a run"));
    assert!(done[1..].iter().all(Option::is_none));
    done.remove(0).expect("rank 0 has the run")
}

/// Everything that a run leaves and that does not tell the time: weights, optimiser, state, journal, scores.
fn left(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = std::fs::read(dir.join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        (name, bytes)
    };
    let without_time = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).expect("a file");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json["seconds"] = 0.into();
        json["baseline"]["seconds"] = 0.into();
        (name.to_string(), json.to_string().into_bytes())
    };
    let journal =
        |name: &str| (name.to_string(), serde_json::json!(qkv_testkit::journal(dir)).to_string().into_bytes());
    let last = std::fs::read_to_string(dir.join("checkpoints/latest")).expect("a checkpoint");
    let at = |file: &str| format!("checkpoints/{last}/{file}");
    vec![
        read(at("model.safetensors")),
        read(at("optimizer.safetensors")),
        read("model/model.safetensors".into()),
        without_time("scores.json"),
        read("tokenizer/tokenizer.json".into()),
        without_time(&at("state.json")),
        journal("metrics.jsonl"),
    ]
}

fn same(a: &Path, b: &Path) {
    for ((name, a), (_, b)) in left(a).into_iter().zip(left(b)) {
        assert!(a == b, "{name} differs");
    }
}

#[test]
fn any_number_of_ranks_leaves_the_same_bytes() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |n: usize| place.path().join(n.to_string());
    run(&translator(), &at(1), 1);
    for ranks in [2, 3, 4] {
        run(&translator(), &at(ranks), ranks);
        same(&at(1), &at(ranks));
    }
    // A person who has one machine gets the same by naming the pieces.
    let alone = place.path().join("alone");
    let recipe = translator().set("dist.shards", 8).expect("a key").out(&alone).threads(2);
    recipe.run(&mut ()).expect("a run");
    same(&at(1), &alone);
}

/// A run that is stopped on two ranks goes on with three, then alone.
#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let place = tempfile::tempdir().expect("a directory");
    let (whole, parts) = (place.path().join("whole"), place.path().join("parts"));
    run(&translator(), &whole, 1);
    let recipe = translator().out(&parts).threads(1);
    // Only one of the ranks is asked to stop; all do.
    let stops = [AtomicBool::new(false), AtomicBool::new(true)];
    let ended = each(2, |rank| recipe.run_among(rank, &stops[rank.rank()], &mut ()).expect("a run"));
    assert_eq!(ended[0].as_ref().expect("a run").outcome.step, 1);
    let go_on = |ranks: usize, until: u64| {
        let held = Recipe::parse("held", &std::fs::read_to_string(parts.join("recipe.toml")).expect("a recipe"));
        let (held, stop) = (held.expect("a recipe").threads(1), AtomicBool::new(false));
        each(ranks, |rank| {
            let mut watch = |event: &Event| {
                if let Event::Step(step) = event {
                    stop.fetch_or(step.step == until, Ordering::Relaxed);
                }
                Ok(())
            };
            held.resume_among(rank, &parts, false, &stop, &mut watch).expect("a run").map(|run| run.outcome.step)
        })
    };
    assert_eq!(go_on(3, 13), [Some(13), None, None]);
    Run::resume(&parts, &mut ()).expect("alone");
    same(&whole, &parts);
}

/// A recipe that starts from another, judged by a score at every look: rank 0 tells the others.
#[test]
fn recipes_that_come_first_and_scores_are_shared() {
    let first = "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"masked\"\nexamples = 60\nvalid = 8\ntest = 8\nlength = 24\n\
        [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfamily = \"bert\"\nwidth = 16\nlayers = 1\nheads = 2\n\
        [train]\nsteps = 4\nrows = 4\n[schedule]\nwarmup = 1\n[eval]\nevery = 2";
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("first.toml");
    std::fs::write(&file, first).expect("written");
    let text = format!(
        "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\nexamples = 60\nvalid = 12\ntest = 12\nlength = 24\n\
         [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfrom = \"recipe:{}\"\n[train]\nsteps = 6\nrows = 4\n\
         [schedule]\nwarmup = 1\n[eval]\nevery = 2\npatience = 2\nmetric = \"accuracy\"\n[checkpoint]\nevery = 3",
        file.display()
    );
    let recipe = Recipe::parse("second", &text).expect("a recipe");
    let at = |n: usize| place.path().join(n.to_string());
    run(&recipe, &at(1), 1);
    run(&recipe, &at(2), 2);
    same(&at(1), &at(2));
}

/// Ranks that meet every five steps: another number of them learns something else, but a run that is taken up again is to
/// the bit what it would have been.
#[test]
fn ranks_that_meet_seldom_resume_to_the_bit() {
    let recipe = || {
        let meeting = translator().set("train.average", 0.0).and_then(|r| r.set("dist.every", 5));
        meeting.and_then(|r| r.set("checkpoint.every", 5)).expect("keys")
    };
    let place = tempfile::tempdir().expect("a directory");
    let (whole, parts) = (place.path().join("whole"), place.path().join("parts"));
    run(&recipe(), &whole, 2);
    let stop = AtomicBool::new(false);
    let cut = recipe().out(&parts).threads(1);
    let mut watch = |event: &Event| {
        if let Event::Step(step) = event {
            stop.fetch_or(step.step == 7, Ordering::Relaxed);
        }
        Ok(())
    };
    let watch = std::sync::Mutex::new(&mut watch);
    let ended = each(2, |rank| match rank.rank() {
        0 => cut.run_among(rank, &stop, *watch.lock().expect("one")).expect("a run"),
        _ => cut.run_among(rank, &stop, &mut ()).expect("a run"),
    });
    assert_eq!(ended[0].as_ref().expect("a run").outcome.step, 10, "they go on until they meet");
    let held = Recipe::parse("held", &std::fs::read_to_string(parts.join("recipe.toml")).expect("a recipe"));
    let held = held.expect("a recipe").threads(1);
    each(2, |rank| held.resume_among(rank, &parts, false, &AtomicBool::new(false), &mut ()).expect("a run"));
    same(&whole, &parts);
}

/// A step that has no number on one rank is skipped by all of them, with the same words.
#[test]
fn what_is_no_number_on_one_rank_is_skipped_by_all() {
    let place = tempfile::tempdir().expect("a directory");
    // A rate that no network survives: losses become infinite after a few steps.
    let wild = translator().set("optim.rate", 1e30).and_then(|r| r.set("optim.clip", 0.0)).expect("keys");
    let told = |ranks: usize| -> String {
        let recipe = wild.clone().out(place.path().join(ranks.to_string())).threads(1);
        let errors = each(ranks, |rank| recipe.run_among(rank, &AtomicBool::new(false), &mut ()).map(|_| ()));
        let errors: Vec<Error> = errors.into_iter().map(|e| e.expect_err("no number")).collect();
        assert!(errors.iter().all(|e| e.to_string() == errors[0].to_string()), "{errors:?}");
        errors[0].to_string()
    };
    let alone = told(1);
    assert!(alone.contains("three steps in a row without a number"), "{alone}");
    assert_eq!(told(2), alone);
}

#[test]
fn more_ranks_than_pieces_and_ranks_that_differ_are_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let few = translator().set("dist.shards", 2).expect("a key").out(place.path().join("a")).threads(1);
    let errors =
        each(3, |rank| few.run_among(rank, &AtomicBool::new(false), &mut ()).map(|_| ()).expect_err("refused"));
    assert_eq!(errors[0].to_string(), "dist.shards: 2 pieces of a step cannot be shared by 3 ranks");
    assert!(errors[0].hint.contains("dist.shards=4"), "{}", errors[0].hint);
    assert!(errors[1].what.contains("another rank has ended"), "{}", errors[1]);
    assert!(!place.path().join("a").exists(), "a refused run leaves nothing");
}
