//! GGUF's words: a file's metadata is turned into the `config.json` that the family's sheet reads, and back, and its
//! tensors have a name table of their own. What all families share is here; each one's own keys and names are the
//! [`Dialect`] of its sheet.
//!
//! A tied output is simply left out of a file.

use super::{ALL, Config, Sheet};
use crate::spec::{Position, Spec};
use crate::{Error, Result};
use qkv_nn::NormKind;
use qkv_nn::position::RopeScaling;
use qkv_weights::{Metadata, Names, Value};

/// A family in GGUF's words.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// `general.architecture`
    pub name: &'static str,
    /// what the file's keys mean in the family's own words
    pub read: fn(&Keys, &mut Config) -> Result<()>,
    /// the family's own keys; a network that they cannot say is refused
    pub write: fn(&Spec, &mut Writer) -> Result<()>,
    /// where every parameter is
    pub names: fn(&Spec) -> Names,
}

/// The dialect of a family; a family that GGUF does not know is refused.
pub fn dialect(sheet: &'static Sheet) -> Result<&'static Dialect> {
    sheet.gguf.as_ref().ok_or_else(|| unsupported(sheet.name))
}

fn unsupported(name: &str) -> Error {
    let known: Vec<&str> = ALL.iter().filter_map(|sheet| Some(sheet.gguf.as_ref()?.name)).collect();
    let what = format!("`{name}` is not supported");
    Error::new("general.architecture", what, format!("supported in GGUF: {}", known.join(", ")))
}

/// The keys of a file that begin with the name of its architecture.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    metadata: &'a Metadata,
    kind: &'a str,
    /// the file has no output matrix
    pub tied: bool,
}

impl Keys<'_> {
    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.kind)
    }

    /// A count that must be there.
    pub(super) fn count(&self, key: &str) -> Result<usize> {
        self.metadata.uint(&self.full(key))
    }

    /// A count, if it is there.
    pub(super) fn maybe_count(&self, key: &str) -> Result<Option<usize>> {
        self.metadata.optional(&self.full(key), Metadata::uint)
    }

    /// A number that must be there.
    pub(super) fn number(&self, key: &str) -> Result<f64> {
        Ok(tidy(self.metadata.float(&self.full(key))?))
    }

    /// A number, if it is there.
    pub(super) fn maybe_number(&self, key: &str) -> Result<Option<f64>> {
        Ok(self.metadata.optional(&self.full(key), Metadata::float)?.map(tidy))
    }

    /// A word, if it is there.
    pub(super) fn word(&self, key: &str) -> Result<Option<&str>> {
        self.metadata.optional(&self.full(key), Metadata::text)
    }

    /// A key that does not begin with the architecture, if it is there.
    pub(super) fn general(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// An error at a key.
    pub(super) fn error(&self, key: &str, what: String, hint: &str) -> Error {
        Error::new(self.full(key), what, hint)
    }

    /// The configuration's `rope_scaling`, where frequencies are scaled.
    pub(super) fn rope_scaling(&self, config: &mut Config) -> Result<()> {
        match self.word("rope.scaling.type")? {
            None | Some("none") => Ok(()),
            Some("linear") => {
                let factor = self.number("rope.scaling.factor")?;
                config.set("rope_scaling", serde_json::json!({"rope_type": "linear", "factor": factor}));
                Ok(())
            }
            Some(other) => {
                let what = format!("`{other}` is not supported");
                Err(self.error("rope.scaling.type", what, "supported: none, linear"))
            }
        }
    }
}

/// The metadata of a file that is made.
#[derive(Debug)]
pub struct Writer {
    metadata: Metadata,
    place: String,
    kind: &'static str,
}

impl Writer {
    /// A count under the architecture's name.
    pub(super) fn count(&mut self, key: &str, n: usize) {
        self.metadata.set(format!("{}.{key}", self.kind), Value::U32(n as u32));
    }

    /// A number under the architecture's name.
    pub(super) fn number(&mut self, key: &str, x: f64) {
        self.metadata.set(format!("{}.{key}", self.kind), Value::F32(x as f32));
    }

    /// Any value under any key.
    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.metadata.set(key, value);
    }

    /// A network that this dialect cannot say.
    pub(super) fn refuse<T>(&self, what: &str) -> Result<T> {
        let what = format!("GGUF's `{}` cannot say {what}", self.kind);
        Err(Error::new(&self.place, what, "write it as Hugging Face does"))
    }

    /// Rotary positions, all features turned.
    pub(super) fn rotary(&mut self, spec: &Spec) -> Result<()> {
        let Position::Rotary { theta, features: None, scaling, .. } = spec.position else {
            return self.refuse("these positions");
        };
        let dim = spec.decoder().map_or(0, |s| s.heads(spec.width).dim);
        self.count("rope.dimension_count", dim);
        self.number("rope.freq_base", theta);
        self.count("attention.key_length", dim);
        self.count("attention.value_length", dim);
        match scaling {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => {
                self.set(&format!("{}.rope.scaling.type", self.kind), Value::String("linear".into()));
                self.number("rope.scaling.factor", factor);
                Ok(())
            }
            _ => self.refuse("this scaling of rotary positions"),
        }
    }
}

/// The configuration that a file's metadata says, and its family. `tied`: the file has no output matrix.
pub fn config_of(metadata: &Metadata, tied: bool) -> Result<(Config, &'static Sheet, &'static Dialect)> {
    let kind = metadata.text("general.architecture")?;
    let spoken = |sheet: &&'static Sheet| Some((*sheet, sheet.gguf.as_ref().filter(|d| d.name == kind)?));
    let (sheet, dialect) = ALL.iter().find_map(spoken).ok_or_else(|| unsupported(kind))?;
    let keys = Keys { metadata, kind, tied };
    let vocabulary = match keys.maybe_count("vocab_size")? {
        Some(n) => n,
        None => metadata.texts("tokenizer.ggml.tokens")?.len(),
    };
    let mut config = Config::new(sheet.name);
    config.set("vocab_size", vocabulary);
    (dialect.read)(&keys, &mut config)?;
    for (theirs, ours) in TOKENS {
        // Some writers mean "none" by the largest number there is.
        let id = metadata.get(&format!("tokenizer.ggml.{theirs}")).and_then(Value::as_i64);
        if let Some(id) = id.filter(|id| *id != i64::from(u32::MAX)) {
            config.set(ours, id);
        }
    }
    Ok((config, sheet, dialect))
}

/// Special tokens, there and here.
const TOKENS: &[(&str, &str)] = &[
    ("bos_token_id", "bos_token_id"),
    ("eos_token_id", "eos_token_id"),
    ("padding_token_id", "pad_token_id"),
    ("unknown_token_id", "unk_token_id"),
];

/// A number that was rounded to f32 on its way, as it was meant: 1e-5, not 9.999999747378752e-6.
fn tidy(x: f64) -> f64 {
    format!("{}", x as f32).parse().unwrap_or(x)
}

/// The metadata of a network, for a file to be written; the vocabulary is added by who knows it.
pub fn metadata_of(place: &str, spec: &Spec, config: &Config, dialect: &Dialect) -> Result<Metadata> {
    let mut to = Writer { metadata: Metadata::new(place), place: place.into(), kind: dialect.name };
    to.set("general.architecture", Value::String(dialect.name.into()));
    let name = config.word("_name_or_path")?.filter(|n| !n.is_empty()).unwrap_or("qkv");
    to.set("general.name", Value::String(name.into()));
    let Some(stack) = spec.decoder().or(spec.encoder()) else { return to.refuse("a network without layers") };
    let heads = stack.heads(spec.width);
    to.count("vocab_size", spec.vocabulary().unwrap_or(0));
    to.count("context_length", spec.position.max().unwrap_or(0));
    to.count("embedding_length", spec.width);
    to.count("block_count", stack.layers);
    to.count("feed_forward_length", stack.ffn.inner());
    to.count("attention.head_count", heads.heads);
    to.count("attention.head_count_kv", heads.kv_heads);
    match spec.norm {
        NormKind::Layer { eps } => to.number("attention.layer_norm_epsilon", eps),
        NormKind::Rms { eps } | NormKind::RmsOnePlus { eps } => to.number("attention.layer_norm_rms_epsilon", eps),
        NormKind::None => to.refuse("a network without norms")?,
    }
    (dialect.write)(spec, &mut to)?;
    for (theirs, ours) in TOKENS {
        if let Some(id) = config.id(ours) {
            to.set(&format!("tokenizer.ggml.{theirs}"), Value::U32(id));
        }
    }
    Ok(to.metadata)
}

/// The tensors that every family's blocks have, norms aside.
pub(super) fn layers(stack: &str) -> Names {
    let ours = |rest: &str| format!("{stack}.layers.*.{rest}");
    Names::new()
        .module("tokens", "token_embd")
        .module(&ours("attention.out"), "blk.*.attn_output")
        .module(&ours("ffn.up"), "blk.*.ffn_up")
        .module(&ours("ffn.down"), "blk.*.ffn_down")
}
