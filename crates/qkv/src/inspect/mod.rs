//! What a network is made of. It is put together from its spec with lazy parameters and walked, so the numbers are those of
//! the real thing and nothing is allocated: GPT-3 takes as long as a tiny model.
//!
//! ```
//! let gpt3 = qkv::inspect::preset("gpt3", None, 2)?;
//! assert!(gpt3.parameters > 170_000_000_000);
//! assert!(qkv::inspect::preset("gtp2", None, 2).unwrap_err().hint.contains("`gpt2`"));
//! # Ok::<(), qkv::Error>(())
//! ```

mod file;
pub mod numbers;
mod training;
mod tree;
mod words;

pub use file::{OnDisk, file};
pub use training::Training;

use numbers::{bytes, flops, grouped, short};
use qkv_base::{Error, Result};
use qkv_model::count::Count;
use qkv_model::presets::{self, Preset};
use qkv_model::spec::{self, Shape, Spec};
use serde::Serialize;
use std::path::Path;
use tree::Part;

/// A preset and its size.
#[derive(Clone, Debug, Serialize)]
pub struct PresetSize {
    /// what it is called
    pub name: &'static str,
    /// how many parameters it has
    pub parameters: u64,
    /// what it is
    pub about: &'static str,
}

/// Every preset with its size.
pub fn presets() -> Result<Vec<PresetSize>> {
    let row =
        |p: &Preset| Ok(PresetSize { name: p.name, parameters: Count::of(&p.spec(), 1)?.total(), about: p.about });
    presets::ALL.iter().map(row).collect()
}

/// The presets as a table for a person.
pub fn table(rows: &[PresetSize]) -> String {
    let mut table = format!("{:<18} {:>10}  about", "preset", "parameters");
    for row in rows {
        table += &format!("\n{:<18} {:>10}  {}", row.name, short(row.parameters), row.about);
    }
    table
}

/// What a preset is made of, `depth` levels of its tree deep, for sequences of `length` tokens.
pub fn preset(name: &str, length: Option<usize>, depth: usize) -> Result<Summary> {
    let preset = find(name)?;
    let spec = preset.spec();
    let length = of_length(length, preset.name, &spec)?;
    Summary::of(preset.name, preset.about, &spec, length, depth)
}

fn find(name: &str) -> Result<&'static Preset> {
    presets::find(name).map_err(|nearest| {
        let hint = format!("did you mean `{nearest}`? `qkv inspect` lists all presets");
        Error::new("preset", format!("there is no preset `{name}`"), hint)
    })
}

/// A choice that two networks make, side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// which choice
    pub what: &'static str,
    /// what the first does
    pub one: String,
    /// what the second does
    pub other: String,
    /// whether that is the same
    pub same: bool,
}

/// Two networks (paths or presets) side by side: every choice.
pub fn differences(one: &str, other: &str) -> Result<Vec<Difference>> {
    let spec = |name: &str| match Path::new(name).exists() {
        true => file::spec(Path::new(name)),
        false => Ok(find(name)?.spec()),
    };
    let (a, b) = (spec(one)?, spec(other)?);
    let size = |s: &Spec| Ok::<_, Error>(words::Fact { what: "parameters", words: grouped(Count::of(s, 1)?.total()) });
    let facts = |s: &Spec| Ok::<_, Error>(std::iter::once(size(s)?).chain(words::facts(s)).collect::<Vec<_>>());
    let (a, b) = (facts(&a)?, facts(&b)?);
    // A pair has lines that others have not: put them side by side by name.
    let mut names: Vec<&'static str> = a.iter().map(|f| f.what).collect();
    names.extend(b.iter().map(|f| f.what).filter(|n| !a.iter().any(|f| f.what == *n)));
    names.dedup();
    let all = |facts: &[words::Fact], name: &str| {
        facts.iter().filter(|f| f.what == name).map(|f| f.words.clone()).collect::<Vec<_>>().join("; ")
    };
    let row = |what: &&'static str| {
        let (one, other) = (all(&a, what), all(&b, what));
        Difference { what, same: one == other, one, other }
    };
    Ok(names.iter().map(row).collect())
}

/// Differences as lines for a person, marked where the networks differ.
pub fn side_by_side(one: &str, other: &str, rows: &[Difference]) -> String {
    let mut page = format!("  {:<14} {one}  |  {other}", "");
    for Difference { what, one, other, same } in rows {
        page += &match same {
            true => format!("\n  {what:<14} {one}"),
            false => format!("\n≠ {what:<14} {one}\n  {:<14} {other}", ""),
        };
    }
    page
}

/// A part of all the arithmetic of a token, where there are blocks that have such parts.
fn share(count: &Count, part: f64) -> Option<f64> {
    (count.ffn_flops > 0.0).then(|| part / (count.encode_flops + count.decode_flops))
}

/// The length asked for, if the network can read it. Left out: an image's own, or 512, or as many as there are positions.
fn of_length(asked: Option<usize>, name: &str, spec: &Spec) -> Result<usize> {
    let refuse = |what: String, hint: String| Err(Error::new("--length", what, hint));
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
#[derive(Debug, Serialize)]
pub struct Summary {
    /// what it is called
    pub preset: String,
    /// what it is
    pub about: String,
    /// how many parameters it has
    pub parameters: u64,
    /// C
    pub width: usize,
    /// V, of a network that reads text
    pub vocabulary: Option<usize>,
    /// the longest sequence, if there is a limit
    pub positions: Option<usize>,
    /// the size of the reader
    encoder: Option<StackSize>,
    /// the size of the writer
    decoder: Option<StackSize>,
    /// the spec in words
    facts: Vec<words::Fact>,
    /// its parts
    tree: Vec<Part>,
    /// in bytes
    memory: Memory,
    /// arithmetic of a token
    flops_per_token: Flops,
}

#[derive(Debug, Serialize)]
struct StackSize {
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    inner: usize,
    window: Option<usize>,
}

/// In bytes.
#[derive(Debug, Serialize)]
struct Memory {
    weights_f32: u64,
    weights_bf16: u64,
    training_adamw: u64,
    cache: Option<Cache>,
    /// of recurrent layers, however long the text
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<u64>,
}

/// Keys and values that a decoder keeps, in f32.
#[derive(Debug, Serialize)]
struct Cache {
    per_token: u64,
    /// a pair keeps the projected source too
    per_source_token: u64,
    tokens: usize,
    total: u64,
}

#[derive(Debug, Serialize)]
struct Flops {
    length: usize,
    read: Option<Work>,
    write: Option<Work>,
    /// the share of the feed-forwards; none without any
    feed_forward_share: Option<f64>,
    /// the share of scores and mixtures, which grows with the length
    square_share: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Work {
    forward: f64,
    training: f64,
}

impl Summary {
    fn of(name: &str, about: &str, spec: &Spec, length: usize, depth: usize) -> Result<Self> {
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
        let cache = spec.decoder().filter(|stack| stack.recurrent.is_none()).map(|_| {
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
                state: spec.recurrence().map(|_| count.state_bytes),
            },
            flops_per_token: Flops {
                length,
                read: spec.encoder().map(|_| work(count.encode_flops)),
                write: spec.decoder().map(|_| work(count.decode_flops)),
                feed_forward_share: share(&count, count.ffn_flops),
                square_share: share(&count, count.square_flops),
            },
        })
    }

    /// The whole page for a person.
    pub fn page(&self) -> String {
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
        if let Some(state) = self.state {
            lines +=
                &format!("  {:<14} {} in f32, however long the text: all that is remembered\n", "state", bytes(state));
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
        if let (Some(ffn), Some(square)) = (self.feed_forward_share, self.square_share) {
            let [ffn, square] = [ffn, square].map(|share| 100.0 * share);
            lines += &format!(
                "  {:<14} {ffn:.1} % feed-forward, {square:.1} % scores and mixtures: N² of a text\n",
                "of it"
            );
        }
        lines
    }
}
