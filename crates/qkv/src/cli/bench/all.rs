//! `qkv bench all`: the machine and everything that is measured on it, in one table or one JSON, to be kept or sent.
//!
//! Each benchmark is a process of its own, one after the other: none finds the memory or the threads of the one before it.

use crate::cli::fail::Fail;
use crate::cli::terminal::{say, say_json, talk};
use qkv_kernels::ProductPrecision;
use serde_json::{Map, Value, json};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv bench all                      some minutes: training, decoding, translating, encoding, in each precision
  qkv bench all --json               one JSON to keep or send, with what the machine is and what it can do
  qkv bench all --quick              small networks and one round: whether it all runs, not how fast")]
pub(crate) struct Args {
    /// Small networks, one round
    #[arg(long)]
    quick: bool,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// A benchmark: its name, how it is called, and the field of its report that a person looks at, with its unit.
struct Benchmark {
    name: String,
    args: Vec<&'static str>,
    rate: &'static str,
    unit: &'static str,
}

/// All of them. Training in bf16 is measured only where the processor has such products.
fn benchmarks(quick: bool) -> Vec<Benchmark> {
    let mut all = vec![];
    let mut add = |name: String, args: &[&'static str], small: &[&'static str], rate, unit| {
        let args = args.iter().chain(if quick { small } else { &[] }).copied().collect();
        all.push(Benchmark { name, args, rate, unit });
    };
    let shapes: [(&str, &[&'static str]); 3] = [
        ("gpt", &["train", "--shape", "gpt"]),
        ("pair", &["train", "--shape", "pair", "--layers", "3", "--width", "256", "--heads", "8", "--context", "64"]),
        ("gpt, bf16", &["train", "--shape", "gpt", "--precision", "bf16"]),
    ];
    for (name, args) in shapes.iter().take(if ProductPrecision::native_bf16() { 3 } else { 2 }) {
        add(
            format!("train {name}"),
            args,
            &["--steps", "1", "--batch", "1", "--vocab", "64"],
            "tokens_per_s",
            "tokens/s",
        );
    }
    for weights in ["f32", "bf16", "int8", "int4"] {
        let once = ["--rounds", "1", "--tokens", "2"];
        let name = |what: &str| format!("{what}, {weights}");
        add(name("decode gpt2-small"), &["decode", "--weights", weights], &once, "tokens_per_s", "tokens/s");
        let translate = ["translate", "--beam", "4", "--weights", weights];
        add(
            name("translate base, beam 4"),
            &translate,
            &[&once[..], &["--batch", "1"]].concat(),
            "tokens_per_s",
            "tokens/s",
        );
        let encode = ["encode", "--weights", weights];
        add(
            name("encode minilm, 64 sentences"),
            &encode,
            &["--rounds", "1", "--batch", "1"],
            "sentences_per_s",
            "sentences/s",
        );
        let one = ["encode", "--batch", "1", "--weights", weights];
        add(name("encode minilm, 1 sentence"), &one, &["--rounds", "1"], "sentences_per_s", "sentences/s");
    }
    all
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let threads = args.threads.to_string();
    talk("looking at the machine …");
    let machine = asked(&["doctor", "--threads", &threads])?;
    let mut results = Map::new();
    if !args.json {
        let quick = if args.quick { "; one row, one round: whether it runs, not how fast it is" } else { "" };
        say(format!("{}, {} threads{quick}", level(&machine), machine["threads"]))?;
    }
    for Benchmark { name, args: how, rate, unit } in benchmarks(args.quick) {
        talk(format!("{name} …"));
        let report = asked(&[&["bench"], &how[..], &["--threads", &threads]].concat())?;
        if !args.json {
            say(format!("  {name:<38}{:>10.1} {unit}", report[rate].as_f64().unwrap_or(f64::NAN)))?;
        }
        results.insert(name, report);
    }
    match args.json {
        true => say_json(&json!({"machine": machine, "quick": args.quick, "results": results})),
        false => Ok(()),
    }
}

/// The level of vector instructions that was measured with.
fn level(machine: &Value) -> String {
    let levels = machine["levels"].as_array().cloned().unwrap_or_default();
    let used = levels.iter().find(|level| level["used"] == true);
    used.and_then(|level| level["level"].as_str()).unwrap_or("an unknown level").to_string()
}

/// What this program answers, as JSON.
fn asked(args: &[&str]) -> Result<Value, Fail> {
    let failed = |why: String| Fail::failed(&format!("qkv {}", args.join(" ")), why, "run it alone to see more");
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(program);
    let out = command.args(args).arg("--json").stdin(Stdio::null()).stderr(Stdio::piped()).output();
    let out = out.map_err(|e| failed(e.to_string()))?;
    if !out.status.success() {
        return Err(failed(String::from_utf8_lossy(&out.stderr).trim().to_string()));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_has_a_name_of_its_own() {
        let all = benchmarks(false);
        let names: std::collections::BTreeSet<&String> = all.iter().map(|b| &b.name).collect();
        assert!(names.len() == all.len() && all.len() >= 18);
        assert!(benchmarks(true).iter().all(|b| b.args.contains(&"1")), "quick ones have one round");
    }
}
