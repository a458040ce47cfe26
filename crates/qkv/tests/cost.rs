//! What a run costs: told before it is begun, chosen by a time, checked when it has ended.

mod common;

use common::{done, place, qkv};
use serde_json::Value;
use std::path::Path;

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&done(dir, args)).expect("one line of JSON")
}

#[test]
fn a_dry_run_says_what_it_would_cost_and_leaves_nothing() {
    let dir = place("");
    let ranks = ["--ranks", "8", "--link", "100Mbit", "--latency", "0"];
    let told =
        json(dir.path(), &[&["train", "tiny.toml", "--steps", "600", "--dry-run", "--json"], &ranks[..]].concat());
    let parts = told["forecast"]["parts"].as_array().expect("parts");
    let sum: f64 = parts.iter().map(|p| p["times"].as_f64().unwrap_or(0.0) * p["each"].as_f64().unwrap_or(0.0)).sum();
    assert!((told["seconds"].as_f64().expect("seconds") - sum).abs() < 1e-9 && sum > 0.0, "{told}");
    assert!(told["parameters"].as_u64().expect("a number") > 1000, "{told}");
    assert!(told["forecast"]["memory"].as_u64().is_some_and(|n| n > 1 << 20), "{told}");
    assert!(told["forecast"]["operations"].as_f64().is_some_and(|n| n > 1e6), "{told}");
    assert_eq!((&parts[0]["times"], &parts[1]["times"]), (&600.into(), &200.into()), "a look at every third step");
    let (n, p) = (4.0 * told["forecast"]["learning"].as_f64().expect("a number"), 8.0);
    let expected = 2.0 * (p - 1.0) / p * n / (12.5e6 * 1448.0 / 1538.0);
    let got = told["ranks"]["one_batch_shared"]["f32"]["exchange"].as_f64().expect("seconds");
    assert!((got / expected - 1.0).abs() < 1e-9, "{got} {expected}");
    let out = done(dir.path(), &[&["train", "tiny.toml", "--dry-run"], &ranks[..]].concat());
    for part in ["memory: about", "time: about", "8 machines over 100.0 Mbit/s with a latency of 0 ms, on paper"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing is left behind");
    for (wrong, hint) in [
        (&["train", "tiny.toml", "--ranks", "8"][..], "--dry-run"),
        (&["train", "tiny.toml", "--dry-run", "--ranks", "0"], "1.."),
        (&["train", "tiny.toml", "--dry-run", "--ranks", "2", "--link", "fast"], "100Mbit"),
        (&["train", "tiny.toml", "--dry-run", "--ranks", "2", "--latency=-1"], "--latency"),
    ] {
        let (code, _, err) = qkv(dir.path(), wrong);
        assert!(code == 2 && err.contains(hint), "{wrong:?}: {err}");
    }
}

/// The steps that fit are in the run's recipe, its journal has forecast and check, and a run that is taken up again finds the same.
#[test]
fn a_budget_becomes_steps_that_a_run_keeps() {
    let dir = place("");
    let at = dir.path();
    let out = json(at, &["train", "tiny.toml", "--budget", "4s", "--json", "--quiet"]);
    let recipe = std::fs::read_to_string(at.join("runs/tiny/recipe.toml")).expect("a recipe");
    let steps: u64 = recipe
        .lines()
        .find_map(|line| line.strip_prefix("steps = "))
        .and_then(|n| n.split(' ').next()?.parse().ok())
        .expect("steps");
    assert!(steps > 20, "{recipe}");
    let cost = &out["cost"];
    let (forecast, took) = (cost["forecast"].as_f64().expect("a forecast"), cost["seconds"].as_f64().expect("seconds"));
    assert!(forecast > 0.0 && forecast < 4.0 && took > 0.0, "{out}");
    let journal = std::fs::read_to_string(at.join("runs/tiny/metrics.jsonl")).expect("a journal");
    assert!(journal.lines().any(|l| l.contains("\"forecast\"")), "{journal}");
    assert!(journal.lines().last().is_some_and(|l| l.contains("\"checked\"")), "{journal}");
    // It has come to its end: to go on is to judge it again, by the same recipe.
    done(at, &["train", "--resume", "--quiet"]);
    assert_eq!(std::fs::read_to_string(at.join("runs/tiny/recipe.toml")).expect("a recipe"), recipe);
    for (wrong, hint) in [
        (&["train", "tiny.toml", "--budget", "1"][..], "30m"),
        (&["train", "tiny.toml", "--budget", "4s", "--steps", "3"], "--steps"),
        (&["train", "--resume", "--budget", "4s"], "--resume"),
        (&["train", "tiny.toml", "--auto-size"], "--budget"),
        (&["train", "tiny.toml", "--out", "x", "--budget", "0.001s"], "a run of one step takes about"),
        (&["train", "summaries", "--budget", "4s", "--out", "x"], "qkv train bart"),
        (
            &[
                "finetune",
                "runs/tiny",
                "--task",
                "classify",
                "--data",
                "builtin:reviews",
                "--budget",
                "9s",
                "--auto-size",
            ],
            "size already",
        ),
    ] {
        let (code, _, err) = qkv(at, wrong);
        assert!(code == 2 && err.contains(hint), "{wrong:?}: {code} {err}");
    }
    assert!(!at.join("x").exists(), "what is refused leaves nothing");
}

/// A run that is measured before its first step learns the same, to the bit, as one that is not: of 19 steps there is no forecast.
#[test]
fn a_forecast_changes_no_weight() {
    let dir = place("");
    let at = dir.path();
    let weights =
        |run: &str| std::fs::read(at.join(run).join("checkpoints/ckpt-000006/model.safetensors")).expect("weights");
    let same =
        ["--set", "schedule.curve=constant", "--set", "checkpoint.every=6", "--set", "checkpoint.keep=99", "--quiet"];
    done(at, &[&["train", "tiny.toml", "--steps", "19", "--out", "short"], &same[..]].concat());
    done(at, &[&["train", "tiny.toml", "--steps", "40", "--out", "long"], &same[..]].concat());
    let journal = |run: &str| std::fs::read_to_string(at.join(run).join("metrics.jsonl")).expect("a journal");
    assert!(!journal("short").contains("forecast") && journal("long").contains("forecast"));
    assert!(weights("short") == weights("long"), "the first six steps are the same");
}
