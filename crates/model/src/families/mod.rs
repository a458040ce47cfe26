//! Families: BERT, GPT-2, LLaMA and the others are one assembly and a difference sheet each. A sheet is whole: how a
//! `config.json` is a [`Spec`] and back, which spec the sizes of a recipe make, where every parameter is in the family's
//! files and in GGUF's, how it meets text, and its quirks in prose. Nothing else knows a family by its name.
//!
//! ```
//! use qkv_model::families::{self, Config, Files};
//! let text = br#"{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 97}"#;
//! let config = Config::parse("config.json", text).unwrap();
//! let sheet = families::of(&config).unwrap();
//! let spec = (sheet.read)(&config, &Files::default()).unwrap();
//! assert_eq!((sheet.name, spec.width), ("gpt2", 32));
//! ```

pub mod bahdanau;
pub mod bart;
pub mod bert;
mod choices;
pub mod config;
pub mod distilbert;
pub mod electra;
mod framing;
mod free;
pub mod gemma2;
pub mod gemma3;
mod gguf;
pub mod gpt2;
pub mod gru;
pub mod llama;
pub mod lstm;
pub mod marian;
pub mod nplm;
pub mod qwen3;
mod recognise;
mod recurrent;
mod recurrent_pair;
pub mod rnn;
pub mod roberta;
mod rope;
pub mod seq2seq;
mod sizes;
pub mod t5;
pub mod vit;

pub use choices::{Choices, MaskChoice, NormChoice, PositionChoice, ScaleChoice, Switch, WiringChoice};
pub use config::Config;
pub use framing::{Framing, LinearLayout, Pieces, TargetStart, TextStart, TokenizerShape, Tokenizing};
pub use free::{base_family, free};
pub use gguf::{Dialect, Keys as GgufKeys, Writer as GgufWriter};
pub use gguf::{config_of as gguf_config, dialect as gguf_dialect, metadata_of as gguf_metadata};
pub use recognise::recognised;
pub use sizes::{Pictures, Sizes};

use crate::spec::{Head, Pool, Spec};
use crate::{Error, Result};
use qkv_weights::Names;

/// One family.
#[derive(Debug)]
pub struct Sheet {
    /// its name, the first of its model types
    pub name: &'static str,
    /// what `model_type` may be
    pub model_types: &'static [&'static str],
    /// what `architectures` may be, and what they are for; the first is assumed where none is named
    pub architectures: &'static [(&'static str, HeadKind)],
    /// what `config.json` says
    pub read: fn(&Config, &Files) -> Result<Spec>,
    /// what `config.json` must say
    pub write: fn(&Spec, &mut Config) -> Result<()>,
    /// where every parameter is
    pub names: fn(&Spec, &Config) -> Names,
    /// a new network of these sizes, with the head it is pre-trained with; a size it does not have is refused
    pub sizes: fn(&Sizes) -> Result<Spec>,
    /// what stands between the first position and a classifier
    pub pool: Pool,
    /// the special tokens around one and two texts
    pub framing: Framing,
    /// what a row of running text begins with
    pub text_start: TextStart,
    /// what the decoder of a pair begins with; `None`: there is no pair
    pub target_start: Option<TargetStart>,
    /// what its tokenizer is like; `None`: it reads no text
    pub tokenizer: Option<Tokenizing>,
    /// how linear layers lie in its files
    pub linear: LinearLayout,
    /// its words in GGUF; `None`: GGUF does not know it
    pub gguf: Option<Dialect>,
}

/// Every family.
pub const ALL: &[&Sheet] = &[
    &bert::SHEET,
    &roberta::SHEET,
    &distilbert::SHEET,
    &electra::SHEET,
    &gpt2::SHEET,
    &llama::SHEET,
    &qwen3::SHEET,
    &gemma2::SHEET,
    &gemma3::SHEET,
    &t5::SHEET,
    &bart::SHEET,
    &marian::SHEET,
    &vit::SHEET,
    &nplm::SHEET,
    &rnn::SHEET,
    &gru::SHEET,
    &lstm::SHEET,
    &seq2seq::SHEET,
    &bahdanau::SHEET,
];

/// What a checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// hidden states, and one vector for the sequence where there is a pooler
    Base,
    /// the next token
    Language,
    /// the masked tokens
    Masked,
    /// one class
    Classify,
    /// one class for each token
    Tag,
    /// where an answer begins and ends
    Answer,
    /// which tokens were replaced
    Detect,
}

impl HeadKind {
    /// The task of a network with this head.
    pub fn of(head: &Head) -> Self {
        match head {
            Head::None | Head::Pool => Self::Base,
            Head::Language { .. } => Self::Language,
            Head::Masked { .. } => Self::Masked,
            Head::Classify { .. } => Self::Classify,
            Head::Tag { .. } => Self::Tag,
            Head::Span => Self::Answer,
            Head::Detect { .. } => Self::Detect,
        }
    }
}

/// The names of the tensors beside the configuration: some configurations do not say what only the file knows.
#[derive(Clone, Debug, Default)]
pub struct Files {
    names: Vec<String>,
}

impl Files {
    /// The file has tensors of these names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }

    /// Whether there is a tensor whose name ends in `end`.
    pub fn has(&self, end: &str) -> bool {
        self.names.iter().any(|name| name.ends_with(end))
    }
}

/// The family of a configuration; an unknown one is refused with the list of those we know.
pub fn of(config: &Config) -> Result<&'static Sheet> {
    let known = || ALL.iter().flat_map(|s| s.model_types.iter().copied());
    let list = || known().collect::<Vec<_>>().join(", ");
    let Some(kind) = config.word("model_type")? else {
        return Err(config.error("model_type", "is missing", format!("supported: {}", list())));
    };
    if kind == free::NAME {
        return free::of(config);
    }
    ALL.iter().copied().find(|s| s.model_types.contains(&kind)).ok_or_else(|| {
        let near = qkv_base::nearest(kind, known()).unwrap_or("bert");
        let what = format!("`{kind}` is not supported (did you mean `{near}`?)");
        config.error("model_type", what, format!("supported: {}", list()))
    })
}

/// The family of this name.
pub fn named(name: &str) -> Result<&'static Sheet> {
    ALL.iter().copied().find(|s| s.model_types.contains(&name)).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|s| s.name).collect();
        let near = qkv_base::nearest(name, names.iter().copied()).unwrap_or("bert");
        Error::new(
            "family",
            format!("there is no family `{name}`"),
            format!("did you mean `{near}`? there are {}", names.join(", ")),
        )
    })
}

impl Sheet {
    /// What the checkpoint is for, by its first architecture; an unknown one is refused.
    pub fn task(&self, config: &Config) -> Result<HeadKind> {
        let Some(name) = config.architecture() else { return Ok(self.architectures[0].1) };
        self.architectures.iter().find(|(n, _)| *n == name).map(|(_, task)| *task).ok_or_else(|| {
            let known: Vec<&str> = self.architectures.iter().map(|(n, _)| *n).collect();
            let near = qkv_base::nearest(name, known.iter().copied()).unwrap_or("");
            let what = format!("`{name}` is not supported (nearest: `{near}`)");
            config.error("architectures", what, format!("supported: {}", known.join(", ")))
        })
    }

    /// The configuration of a network of this family. `known` gives what the spec does not say: special tokens, labels,
    /// and keys we do not know. A network that is not of this family is refused.
    pub fn config(&self, spec: &Spec, known: Option<&Config>, files: &Files) -> Result<Config> {
        if let Some(known) = known
            && (self.read)(known, files).is_ok_and(|read| read == *spec)
        {
            return Ok(known.clone());
        }
        let mut config = known.cloned().unwrap_or_else(|| Config::new(self.name));
        let task = HeadKind::of(&spec.head);
        if !self.task(&config).is_ok_and(|t| t == task && config.architecture().is_some()) {
            let Some((name, _)) = self.architectures.iter().find(|(_, t)| *t == task) else {
                let what = format!("a {} network has no head for {task:?}", self.name);
                return Err(Error::new("head", what, "choose another family"));
            };
            config.set("architectures", vec![*name]);
        }
        (self.write)(spec, &mut config)?;
        let back = (self.read)(&config, files)?;
        if back != *spec {
            let what = format!("the network differs from what a {} can be: {}", self.name, difference(spec, &back));
            return Err(Error::new("spec", what, "choose another family"));
        }
        Ok(config)
    }
}

/// The first field in which two specs differ.
fn difference(a: &Spec, b: &Spec) -> String {
    let (a, b) = (format!("{a:#?}"), format!("{b:#?}"));
    let line = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    line.map_or("in its size".into(), |(a, b)| format!("{} instead of {}", a.trim(), b.trim()))
}

/// Labels for a head that classifies or tags, unless enough are there.
fn name_labels(config: &mut Config, n: usize) {
    if !config.labels().is_ok_and(|l| l.is_some_and(|l| l.len() == n)) {
        config.set_labels(&(0..n).map(|i| format!("LABEL_{i}")).collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Transformer, count, presets};
    use burn::tensor::Device;

    /// Every preset that is of a family, in that family's words and back.
    #[test]
    fn presets_are_written_and_read_back() {
        for (preset, family) in [
            ("tiny-encoder", "bert"),
            ("bert-large", "bert"),
            ("gpt2-xl", "gpt2"),
            ("tiny-decoder", "gpt2"),
            ("llama-7b", "llama"),
            ("llama3-8b", "llama"),
            ("tiny-qwen3", "qwen3"),
            ("qwen3-0.6b", "qwen3"),
            ("tiny-t5", "t5"),
            ("t5-base", "t5"),
            ("bart-base", "bart"),
            ("tiny-electra", "electra"),
            ("electra-small", "electra"),
            ("tiny-gemma2", "gemma2"),
            ("gemma2-2b", "gemma2"),
            ("tiny-gemma3", "gemma3_text"),
            ("gemma3-1b", "gemma3_text"),
            ("tiny-pair", "marian"),
            ("transformer-big", "marian"),
            ("vit-base", "vit"),
        ] {
            let Ok(preset) = presets::find(preset) else { panic!("no preset {preset}") };
            let sheet = named(family).expect("a family");
            let mut spec = preset.spec();
            // Every Marian checkpoint has an output bias; the paper's network has none.
            if family == "marian" {
                spec.head = Head::Language { output: crate::spec::Output::Tied, bias: true };
            }
            let config =
                sheet.config(&spec, None, &Files::default()).unwrap_or_else(|e| panic!("{}: {e}", preset.name));
            assert_eq!((sheet.read)(&config, &Files::default()).as_ref(), Ok(&spec), "{}", preset.name);
        }
    }

    /// Each table is complete (every parameter has a tensor) and bijective (every tensor has its own name).
    #[test]
    fn name_tables_are_complete_and_bijective() {
        let heads = |family: &str, task| match task {
            // Where there is a pooler.
            HeadKind::Base if ["bert", "roberta", "vit"].contains(&family) => Head::Pool,
            HeadKind::Base => Head::None,
            HeadKind::Language => Head::Language { output: crate::spec::Output::Own, bias: false },
            HeadKind::Masked => Head::Masked { act: qkv_kernels::Activation::Gelu },
            HeadKind::Classify => {
                Head::Classify { labels: 3, pool: crate::spec::Pool::Dense(qkv_kernels::Activation::Tanh) }
            }
            HeadKind::Tag => Head::Tag { labels: 5 },
            HeadKind::Answer => Head::Span,
            HeadKind::Detect => Head::Detect { act: qkv_kernels::Activation::Gelu },
        };
        for sheet in ALL {
            let family = sheet.name;
            for (architecture, task) in sheet.architectures {
                let mut spec = (sheet.sizes)(&sizes::tests::sizes_of(sheet)).expect("a network");
                if *task != HeadKind::of(&spec.head) {
                    spec.head = heads(family, *task);
                }
                let mut config = Config::new(sheet.name);
                config.set("architectures", vec![*architecture]);
                let model = Transformer::new(&spec, 0, &Device::flex()).expect("a valid spec");
                let parameters = count::parameters(&model);
                let slots = (sheet.names)(&spec, &config)
                    .slots(&parameters)
                    .unwrap_or_else(|e| panic!("{family} {architecture}: {e}"));
                let mut theirs: Vec<&str> = slots.iter().map(|s| s.theirs.as_str()).collect();
                theirs.sort_unstable();
                assert!(theirs.windows(2).all(|w| w[0] != w[1]), "{family}: {theirs:?}");
                let mut ours: Vec<&str> = slots.iter().flat_map(|s| s.ours()).map(|p| p.path.as_str()).collect();
                assert_eq!(ours.len(), parameters.len(), "{family} {architecture}");
                ours.sort_unstable();
                assert!(ours.windows(2).all(|w| w[0] != w[1]));
            }
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let read = |text: &str| {
            let config = Config::parse("config.json", text.as_bytes())?;
            (of(&config)?.read)(&config, &Files::default())
        };
        let say = |text: &str| read(text).unwrap_err();
        let e = say(r#"{"model_type": "brt"}"#);
        assert_eq!(e.to_string(), "config.json: model_type: `brt` is not supported (did you mean `bert`?)");
        assert!(e.hint.contains("gpt2") && e.hint.contains("marian"));
        assert!(say("{}").to_string().contains("model_type: is missing"));
        let bert = |more: &str| format!(r#"{{"model_type": "bert", {more}}}"#);
        assert!(say(&bert(r#""is_decoder": true"#)).to_string().contains("is_decoder: true is not supported"));
        assert!(say(&bert(r#""hidden_act": "quick_gelu""#)).to_string().contains("`quick_gelu`"));
        assert!(
            say(&bert(r#""architectures": ["BertForMultipleChoice"]"#)).to_string().contains("BertForMultipleChoice")
        );
        let llama = |more: &str| {
            let sizes = r#""hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2"#;
            format!(r#"{{"model_type": "llama", "vocab_size": 9, {sizes}, {more}}}"#)
        };
        let rope = say(&llama(r#""rope_scaling": {"type": "longrope", "factor": 2.0}"#));
        assert!(rope.to_string().contains("`longrope`") && rope.hint.contains("yarn"), "{rope}");
    }
}
