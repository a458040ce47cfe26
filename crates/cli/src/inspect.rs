//! `qkv inspect`: what a network is made of. The network is put together from its spec with lazy parameters and walked,
//! so the numbers are those of the real thing and nothing is allocated: GPT-3 takes as long as a tiny model.

mod file;
pub(crate) mod numbers;
mod tree;
mod words;

use crate::fail::Fail;
use crate::say;
use numbers::{bytes, flops, grouped, short};
use qkv_model::count::Count;
use qkv_model::presets::{self, Preset};
use qkv_model::spec::{self, Shape, Spec};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tree::Part;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv inspect                                  all presets with their sizes
  qkv inspect --preset gpt2                    tree, facts, memory and arithmetic
  qkv inspect --preset t5-base --depth 5       down to every matrix
  qkv inspect --preset llama3-8b --length 8192 the cache and the arithmetic of a long text
  qkv inspect --preset bert-large --json       the same for a program
  qkv inspect bert/                            a model on disk: the same, and its files, types and tokenizer
  qkv inspect model.gguf --tensors             every tensor with its shape and type
  qkv inspect bert/ --diff roberta-like        two networks side by side (paths or presets)")]
pub(crate) struct Args {
    /// A model on disk: a directory, or a safetensors, PyTorch or GGUF file
    #[arg(conflicts_with = "preset")]
    path: Option<PathBuf>,
    /// A known architecture, such as `gpt2` or `bert-large`; left out, all are listed
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Tokens of a sequence, for cache and arithmetic; left out, 512 or as many as the network can read
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// How many levels of the tree are shown; left out, 2
    #[arg(long, value_name = "D")]
    depth: Option<usize>,
    /// Every tensor of the file with its shape and type
    #[arg(long, requires = "path")]
    tensors: bool,
    /// Another model or preset, to see the two side by side
    #[arg(long, value_name = "OTHER")]
    diff: Option<String>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.depth == Some(0) {
        return Err(Fail::usage("--depth must not be 0", "use 1 or more"));
    }
    let one = match (&args.path, &args.preset) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(name)) => name.clone(),
        (None, None) if args.length.is_some() || args.depth.is_some() || args.diff.is_some() => {
            return Err(Fail::usage("nothing to look at was named", "give a path, or --preset NAME"));
        }
        (None, None) => return list(args.json),
    };
    if let Some(other) = &args.diff {
        return diff(&one, other, args.json);
    }
    if let Some(path) = &args.path {
        return file::run(path, args);
    }
    let preset = preset(&one)?;
    let spec = preset.spec();
    let length = length(args.length, preset.name, &spec)?;
    let report = Report::of(preset.name, preset.about, &spec, length, args.depth.unwrap_or(2))?;
    say(if args.json { json(&report)? } else { report.page() })
}

fn preset(name: &str) -> Result<&'static Preset, Fail> {
    presets::find(name).map_err(|nearest| {
        let hint = format!("did you mean `{nearest}`? `qkv inspect` lists all presets");
        Fail::usage(format!("there is no preset `{name}`"), hint)
    })
}

/// Two networks side by side: every choice, marked where they differ.
fn diff(one: &str, other: &str, as_json: bool) -> Result<(), Fail> {
    let spec = |name: &str| match Path::new(name).exists() {
        true => file::spec(Path::new(name)),
        false => Ok(preset(name)?.spec()),
    };
    let (a, b) = (spec(one)?, spec(other)?);
    let size = |s: &Spec| Ok::<_, Fail>(words::Fact { what: "parameters", words: grouped(Count::of(s, 1)?.total()) });
    let facts = |s: &Spec| Ok::<_, Fail>(std::iter::once(size(s)?).chain(words::facts(s)).collect::<Vec<_>>());
    let (a, b) = (facts(&a)?, facts(&b)?);
    // A pair has lines that others have not: put them side by side by name.
    let mut names: Vec<&str> = a.iter().map(|f| f.what).collect();
    names.extend(b.iter().map(|f| f.what).filter(|n| !a.iter().any(|f| f.what == *n)));
    names.dedup();
    let all = |facts: &[words::Fact], name: &str| {
        facts.iter().filter(|f| f.what == name).map(|f| f.words.clone()).collect::<Vec<_>>().join("; ")
    };
    let rows: Vec<(&str, String, String)> = names.iter().map(|n| (*n, all(&a, n), all(&b, n))).collect();
    if as_json {
        let row = |(what, a, b): &(&str, String, String)| serde_json::json!({"what": what, "one": a, "other": b, "same": a == b});
        return say(json(&rows.iter().map(row).collect::<Vec<_>>())?);
    }
    let mut page = format!("  {:<14} {one}  |  {other}", "");
    for (what, a, b) in &rows {
        page += &match a == b {
            true => format!("\n  {what:<14} {a}"),
            false => format!("\n≠ {what:<14} {a}\n  {:<14} {b}", ""),
        };
    }
    say(page)
}

/// Every preset with its size.
fn list(as_json: bool) -> Result<(), Fail> {
    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        parameters: u64,
        about: &'static str,
    }
    let row = |p: &Preset| Ok(Row { name: p.name, parameters: Count::of(&p.spec(), 1)?.total(), about: p.about });
    let rows = presets::ALL.iter().map(row).collect::<Result<Vec<_>, Fail>>()?;
    if as_json {
        return say(json(&rows)?);
    }
    let mut table = format!("{:<18} {:>10}  about", "preset", "parameters");
    for row in rows {
        let _ = write!(table, "\n{:<18} {:>10}  {}", row.name, short(row.parameters), row.about);
    }
    say(table)
}

fn json(value: &impl Serialize) -> Result<String, Fail> {
    serde_json::to_string(value).map_err(|e| Fail::failed("json", e, ""))
}

/// The length asked for, if the network can read it. Left out: an image's own, or 512, or as many as there are positions.
fn length(asked: Option<usize>, name: &str, spec: &Spec) -> Result<usize, Fail> {
    let refuse = |what: String, hint: String| Err(Fail::usage(format!("--length: {what}"), hint));
    match (asked, spec.patches(), spec.position.max()) {
        (None, Some(patches), _) => Ok(patches),
        (None, None, most) => Ok(most.unwrap_or(512).min(512)),
        (Some(0), ..) => refuse("a sequence has at least one token".into(), "use 1 or more".into()),
        (Some(n), Some(patches), _) if n != patches => {
            refuse(format!("an image is always {patches} tokens for `{name}`, not {n}"), "leave it out".into())
        }
        (Some(n), _, Some(most)) if n > most => {
            let what = format!("`{name}` has positions for {} tokens, not for {}", grouped(most), grouped(n));
            refuse(what, format!("use at most {most}"))
        }
        // Far beyond any text, and before the numbers of bytes overflow.
        (Some(n), ..) if n > 1 << 32 => refuse(format!("{n} is absurdly large"), "look for too many digits".into()),
        (Some(n), ..) => Ok(n),
    }
}

/// Everything that is said about a network.
#[derive(Serialize)]
struct Report {
    preset: String,
    about: String,
    parameters: u64,
    width: usize,
    vocabulary: Option<usize>,
    /// the longest sequence, if there is a limit
    positions: Option<usize>,
    encoder: Option<StackSize>,
    decoder: Option<StackSize>,
    /// the spec in words
    facts: Vec<words::Fact>,
    tree: Vec<Part>,
    memory: Memory,
    flops_per_token: Flops,
}

#[derive(Serialize)]
struct StackSize {
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    inner: usize,
    window: Option<usize>,
}

/// In bytes.
#[derive(Serialize)]
struct Memory {
    weights_f32: u64,
    weights_bf16: u64,
    training_adamw: u64,
    cache: Option<Cache>,
}

/// Keys and values that a decoder keeps, in f32.
#[derive(Serialize)]
struct Cache {
    per_token: u64,
    /// a pair keeps the projected source too
    per_source_token: u64,
    tokens: usize,
    total: u64,
}

#[derive(Serialize)]
struct Flops {
    length: usize,
    read: Option<Work>,
    write: Option<Work>,
}

#[derive(Serialize)]
struct Work {
    forward: f64,
    training: f64,
}

impl Report {
    fn of(name: &str, about: &str, spec: &Spec, length: usize, depth: usize) -> Result<Self, Fail> {
        let count = Count::of(spec, length)?;
        let size = |stack: &spec::Stack| {
            let heads = stack.heads(spec.width);
            StackSize {
                layers: stack.layers,
                heads: heads.heads,
                kv_heads: heads.kv_heads,
                head_width: heads.dim,
                inner: stack.ffn.inner(),
                window: stack.window.size(),
            }
        };
        // A gradient costs two products for each one of the forward pass: of the input and of the weight.
        let work = |forward: f64| Work { forward, training: 3.0 * forward };
        let cache = spec.decoder().map(|_| {
            let per_token = count.cache_bytes;
            let per_source_token = if matches!(spec.shape, Shape::Pair { .. }) { per_token } else { 0 };
            let total = (per_token + per_source_token) * length as u64;
            Cache { per_token, per_source_token, tokens: length, total }
        });
        Ok(Self {
            preset: name.into(),
            about: about.into(),
            parameters: count.total(),
            width: spec.width,
            vocabulary: spec.vocabulary(),
            positions: spec.position.max(),
            encoder: spec.encoder().map(size),
            decoder: spec.decoder().map(size),
            facts: words::facts(spec),
            tree: tree::of(&count.parameters, depth),
            memory: Memory {
                weights_f32: count.weight_bytes(),
                weights_bf16: count.weight_bytes() / 2,
                training_adamw: count.training_bytes(),
                cache,
            },
            flops_per_token: Flops {
                length,
                read: spec.encoder().map(|_| work(count.encode_flops)),
                write: spec.decoder().map(|_| work(count.decode_flops)),
            },
        })
    }

    /// The whole page for a person.
    fn page(&self) -> String {
        let mut page = format!("{}: {}\n", self.preset, self.about);
        for fact in &self.facts {
            page += &format!("  {:<14} {}\n", fact.what, fact.words);
        }
        page += &format!("\nparameters: {} ({})\n", short(self.parameters), grouped(self.parameters));
        page += &tree::table(&self.tree, self.parameters);
        page + "\n" + &self.memory.lines() + "\n" + self.flops_per_token.lines().trim_end()
    }
}

impl Memory {
    fn lines(&self) -> String {
        let mut lines = format!(
            "memory:\n  {:<14} {} in f32, {} in bf16\n  {:<14} {} with AdamW: weights, gradients, two moments in f32; activations come on top\n",
            "weights",
            bytes(self.weights_f32),
            bytes(self.weights_bf16),
            "training",
            bytes(self.training_adamw),
        );
        if let Some(cache) = &self.cache {
            let source = match cache.per_source_token {
                0 => String::new(),
                n => format!(" and {} a source token", bytes(n)),
            };
            let (each, total, n) = (bytes(cache.per_token), bytes(cache.total), grouped(cache.tokens));
            let of = if cache.per_source_token > 0 { format!("{n} of each") } else { n };
            lines += &format!("  {:<14} {each} a token{source}, {total} for {of}, in f32\n", "cache");
        }
        lines
    }
}

impl Flops {
    fn lines(&self) -> String {
        let mut lines = format!("arithmetic of a token, in sequences of {}:\n", grouped(self.length));
        for (name, work) in [("read", &self.read), ("write", &self.write)] {
            if let Some(work) = work {
                let (forward, training) = (flops(work.forward), flops(work.training));
                lines += &format!("  {name:<14} {forward} forward, about {training} in training\n");
            }
        }
        lines
    }
}
