//! Every parser that reads a stranger's bytes, fed with damaged ones: whatever a file says, reading it ends in values or in
//! an error, soon, and within a bounded memory; never in a panic, a hang or the end of the process.
//!
//! `cargo test --release -p qkv --test fuzz -- --ignored` runs each kind for some seconds; `QKV_FUZZ_SECONDS=60` for
//! longer, `QKV_FUZZ_SEED=7` with other damages. Seeds are our own fixtures. Damages know a little of what they damage:
//! bytes are flipped, cut, doubled; numbers become those that programs get wrong; JSON values become others; two seeds
//! become one. A case that fails is written beside the message, so that it can be read again. `fuzz/` at the root feeds the
//! same parsers by coverage, for who has a nightly toolchain.
#![cfg(unix)]

mod damage;
mod parsers;

use damage::{Draw, damaged};
use parsers::{Parser, parsers};
use qkv_base::Key;
use qkv_base::budget::{self, Budget};
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

// It counts what a case takes.
#[global_allocator]
static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();

/// Cases that one thread takes.
const TOGETHER: u64 = 32;

/// What they may take, at one time and together. Pictures are decoded into at most 256 MiB and resized from there.
const BUDGET: Budget = Budget { memory: 640 << 20, stack: 8 << 20, time: Duration::from_secs(20) };

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Feeds one parser for so long; returns how many cases there were.
fn feed(parser: &Parser, time: Duration, seed: u64) -> u64 {
    let place = parsers::place();
    let (read, seeds) = (parser.read, Arc::new(parser.seeds.clone()));
    let (since, dir) = (Instant::now(), Arc::new(place.path().to_path_buf()));
    let mut cases = 0;
    while since.elapsed() < time {
        // A thread takes some cases, one after the other; where it breaks off, the file of the last one is still there.
        parser.write(place.path(), &[]);
        let (dir, seeds, name, file) = (dir.clone(), seeds.clone(), parser.name, parser.file);
        let some = move || {
            for case in cases..cases + TOGETHER {
                let mut draw = Draw { key: Key::new(seed, case, 0).named(name), at: 0 };
                std::fs::write(dir.join(file), damaged(&seeds, &mut draw)).expect("written");
                read(&dir);
            }
        };
        if let Err(e) = budget::run(parser.name, BUDGET, some) {
            let kept = std::env::temp_dir().join(format!("fuzz-{seed}-{cases}"));
            std::fs::copy(place.path().join(parser.file), &kept).expect("copied");
            panic!("{}: {}; a case from {cases} on of seed {seed}, in {}", parser.name, e.what, kept.display());
        }
        cases += TOGETHER;
    }
    cases
}

#[test]
#[ignore = "slow: some seconds for every parser"]
fn fuzz_every_parser() {
    let (seconds, seed) = (number("QKV_FUZZ_SECONDS", 2), number("QKV_FUZZ_SEED", 1));
    let only = std::env::var("QKV_FUZZ_ONLY").unwrap_or_default();
    let mut all = 0;
    for parser in parsers().iter().filter(|p| p.name.contains(&only)) {
        let cases = feed(parser, Duration::from_secs(seconds), seed);
        println!("{:>9} {}", cases, parser.name);
        all += cases;
    }
    println!("{all:>9} cases");
    assert!(all > 0);
}

/// The damages reach what they are made for: some cases of each kind are refused, and some are still read.
#[test]
fn fuzz_damages_do_something() {
    let seed = vec![br#"{"a": [1, 2, {"b": "c"}], "d": 7}"#.to_vec()];
    let cases: Vec<Vec<u8>> = (0..300).map(|i| damaged(&seed, &mut Draw { key: Key::new(1, i, 0), at: 0 })).collect();
    let sound = cases.iter().filter(|c| serde_json::from_slice::<Value>(c).is_ok()).count();
    assert!((60..290).contains(&sound), "{sound} of 300 are still JSON");
    assert!(cases.iter().filter(|c| **c == seed[0]).count() < 10);
    let again = damaged(&seed, &mut Draw { key: Key::new(1, 7, 0), at: 0 });
    assert_eq!(again, cases[7], "a case can be made again");
}
