//! GGUF's words for LLaMA, GPT-2 and BERT: its metadata is turned into the `config.json` the family's sheet reads, and
//! back, and its tensors have a name table of their own.
//!
//! Quirks: LLaMA's queries and keys lie with rotary pairs as neighbours. GPT-2's layers lie like everybody else's here,
//! not transposed. BERT comes without its pooler. A tied output is simply left out.

use super::{Config, Sheet, named};
use crate::spec::{Head, Input, Output, Position, Spec};
use crate::{Error, Result};
use qkv_nn::NormKind;
use qkv_nn::position::RopeScaling;
use qkv_weights::{Layout, Metadata, Names, Value};

/// A family in GGUF's words.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// `general.architecture`
    pub name: &'static str,
    /// where every parameter is
    pub names: fn(&Spec) -> Names,
}

const DIALECTS: &[Dialect] = &[
    Dialect { name: "llama", names: llama },
    Dialect { name: "gpt2", names: gpt2 },
    Dialect { name: "bert", names: bert },
];

/// The dialect of a family; a family that GGUF does not know is refused.
pub fn dialect(name: &str) -> Result<&'static Dialect> {
    DIALECTS.iter().find(|d| d.name == name).ok_or_else(|| {
        let known: Vec<&str> = DIALECTS.iter().map(|d| d.name).collect();
        let what = format!("`{name}` is not supported");
        Error::new("general.architecture", what, format!("supported in GGUF: {}", known.join(", ")))
    })
}

/// The configuration that a file's metadata says, and its family. `tied`: the file has no output matrix.
pub fn config_of(metadata: &Metadata, tied: bool) -> Result<(Config, &'static Sheet, &'static Dialect)> {
    let kind = metadata.text("general.architecture")?;
    let dialect = dialect(kind)?;
    let count = |key: &str| metadata.uint(&format!("{kind}.{key}"));
    let number = |key: &str| metadata.float(&format!("{kind}.{key}"));
    let has = |key: &str| metadata.get(&format!("{kind}.{key}")).is_some();
    let vocabulary = match metadata.get(&format!("{kind}.vocab_size")) {
        Some(_) => count("vocab_size")?,
        None => metadata.texts("tokenizer.ggml.tokens")?.len(),
    };
    let mut config = Config::new(kind);
    config.set("vocab_size", vocabulary);
    match kind {
        "llama" => {
            let heads = count("attention.head_count")?;
            config.set("architectures", vec!["LlamaForCausalLM"]);
            config.set("hidden_size", count("embedding_length")?);
            config.set("intermediate_size", count("feed_forward_length")?);
            config.set("num_hidden_layers", count("block_count")?);
            config.set("num_attention_heads", heads);
            config.set(
                "num_key_value_heads",
                if has("attention.head_count_kv") { count("attention.head_count_kv")? } else { heads },
            );
            config.set("max_position_embeddings", count("context_length")?);
            config.set("rms_norm_eps", tidy(number("attention.layer_norm_rms_epsilon")?));
            config.set("rope_theta", if has("rope.freq_base") { tidy(number("rope.freq_base")?) } else { 10_000.0 });
            config.set("tie_word_embeddings", tied);
            if has("attention.key_length") {
                config.set("head_dim", count("attention.key_length")?);
            }
            if has("rope.scaling.type") {
                match metadata.text("llama.rope.scaling.type")? {
                    "none" => {}
                    "linear" => {
                        let factor = tidy(number("rope.scaling.factor")?);
                        config.set("rope_scaling", serde_json::json!({"rope_type": "linear", "factor": factor}));
                    }
                    other => {
                        let what = format!("`{other}` is not supported");
                        return Err(Error::new("llama.rope.scaling.type", what, "supported: none, linear"));
                    }
                }
            }
        }
        "gpt2" => {
            config.set("architectures", vec!["GPT2LMHeadModel"]);
            config.set("n_embd", count("embedding_length")?);
            config.set("n_inner", count("feed_forward_length")?);
            config.set("n_layer", count("block_count")?);
            config.set("n_head", count("attention.head_count")?);
            config.set("n_positions", count("context_length")?);
            config.set("layer_norm_epsilon", tidy(number("attention.layer_norm_epsilon")?));
            config.set("tie_word_embeddings", tied);
        }
        _ => {
            config.set("architectures", vec!["BertModel"]);
            config.set("hidden_size", count("embedding_length")?);
            config.set("intermediate_size", count("feed_forward_length")?);
            config.set("num_hidden_layers", count("block_count")?);
            config.set("num_attention_heads", count("attention.head_count")?);
            config.set("max_position_embeddings", count("context_length")?);
            config.set("layer_norm_eps", tidy(number("attention.layer_norm_epsilon")?));
            let token_types = metadata.get("tokenizer.ggml.token_type_count").and_then(Value::as_i64).unwrap_or(2);
            config.set("type_vocab_size", token_types);
        }
    }
    for (theirs, ours) in TOKENS {
        if let Some(id) = metadata.get(&format!("tokenizer.ggml.{theirs}")).and_then(Value::as_i64) {
            config.set(ours, id);
        }
    }
    Ok((config, named(kind)?, dialect))
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
    let kind = dialect.name;
    let refuse = |what: &str| {
        Err(Error::new(place, format!("GGUF's `{kind}` cannot say {what}"), "write it as Hugging Face does"))
    };
    let mut m = Metadata::new(place);
    m.set("general.architecture", Value::String(kind.into()));
    m.set(
        "general.name",
        Value::String(config.word("_name_or_path")?.filter(|n| !n.is_empty()).unwrap_or("qkv").into()),
    );
    let Some(stack) = spec.decoder().or(spec.encoder()) else { return refuse("a network without layers") };
    let mut count = |key: &str, n: usize| m.set(format!("{kind}.{key}"), Value::U32(n as u32));
    let heads = stack.heads(spec.width);
    count("vocab_size", spec.vocabulary().unwrap_or(0));
    count("context_length", spec.position.max().unwrap_or(0));
    count("embedding_length", spec.width);
    count("block_count", stack.layers);
    count("feed_forward_length", stack.ffn.inner());
    count("attention.head_count", heads.heads);
    count("attention.head_count_kv", heads.kv_heads);
    match spec.norm {
        NormKind::Layer { eps } => m.set(format!("{kind}.attention.layer_norm_epsilon"), Value::F32(eps as f32)),
        NormKind::Rms { eps } => m.set(format!("{kind}.attention.layer_norm_rms_epsilon"), Value::F32(eps as f32)),
    }
    match &spec.position {
        Position::Rotary { theta, features: None, scaling, .. } if kind == "llama" => {
            m.set("llama.rope.dimension_count", Value::U32(heads.dim as u32));
            m.set("llama.rope.freq_base", Value::F32(*theta as f32));
            m.set("llama.attention.key_length", Value::U32(heads.dim as u32));
            m.set("llama.attention.value_length", Value::U32(heads.dim as u32));
            match scaling {
                RopeScaling::None => {}
                RopeScaling::Linear { factor } => {
                    m.set("llama.rope.scaling.type", Value::String("linear".into()));
                    m.set("llama.rope.scaling.factor", Value::F32(*factor as f32));
                }
                _ => return refuse("this scaling of rotary positions"),
            }
        }
        Position::Learned { offset: 0, .. } if kind != "llama" => {}
        _ => return refuse("these positions"),
    }
    if stack.window.is_some() || (kind == "llama" && spec.attention_bias != qkv_nn::Biased::None) {
        return refuse("a window or biases in attention");
    }
    if kind == "bert" {
        m.set("bert.attention.causal", Value::Bool(false));
        if let Input::Tokens { token_types, .. } = spec.input {
            m.set("tokenizer.ggml.token_type_count", Value::U32(token_types as u32));
        }
        if !matches!(spec.head, Head::None | Head::Pool) {
            return refuse("a head");
        }
    }
    for (theirs, ours) in TOKENS {
        if let Some(id) = config.id(ours) {
            m.set(format!("tokenizer.ggml.{theirs}"), Value::U32(id));
        }
    }
    Ok(m)
}

fn llama(spec: &Spec) -> Names {
    let heads = spec.decoder().map(|s| s.heads(spec.width));
    let (h, g) = heads.map_or((1, 1), |h| (h.heads, h.kv_heads));
    layers("decoder", "attn_norm", "ffn_norm")
        .module("decoder.layers.*.attention.q", "blk.*.attn_q")
        .laid(Layout::Pairs { heads: h })
        .module("decoder.layers.*.attention.k", "blk.*.attn_k")
        .laid(Layout::Pairs { heads: g })
        .module("decoder.layers.*.attention.v", "blk.*.attn_v")
        .module("decoder.layers.*.ffn.gate", "blk.*.ffn_gate")
        .module("decoder.norm", "output_norm")
        .module("head.out", "output")
}

fn gpt2(spec: &Spec) -> Names {
    let qkv = ["q", "k", "v"].map(|n| format!("decoder.layers.*.attention.{n}"));
    let names = layers("decoder", "attn_norm", "ffn_norm")
        .module("decoder.positions.table", "position_embd")
        .stacked(&[&qkv[0], &qkv[1], &qkv[2]], "blk.*.attn_qkv")
        .module("decoder.norm", "output_norm")
        .module("head.out", "output");
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("output.weight", "tied to the token embeddings"),
    }
}

fn bert(_: &Spec) -> Names {
    layers("encoder", "attn_output_norm", "layer_output_norm")
        .module("encoder.token_types", "token_types")
        .module("encoder.positions.table", "position_embd")
        .module("encoder.norm_input", "token_embd_norm")
        .module("encoder.layers.*.attention.q", "blk.*.attn_q")
        .module("encoder.layers.*.attention.k", "blk.*.attn_k")
        .module("encoder.layers.*.attention.v", "blk.*.attn_v")
        .module("head.dense", "cls")
}

/// What all three have in common.
fn layers(stack: &str, norm_self: &str, norm_ffn: &str) -> Names {
    let ours = |rest: &str| format!("{stack}.layers.*.{rest}");
    Names::new()
        .module("tokens", "token_embd")
        .module(&ours("attention.out"), "blk.*.attn_output")
        .module(&ours("norm_self"), &format!("blk.*.{norm_self}"))
        .module(&ours("ffn.up"), "blk.*.ffn_up")
        .module(&ours("ffn.down"), "blk.*.ffn_down")
        .module(&ours("norm_ffn"), &format!("blk.*.{norm_ffn}"))
}
