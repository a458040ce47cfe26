//! LLaMA (Touvron et al. 2023): a pre-normed decoder with RMSNorm, rotary positions, grouped key heads and a gated
//! feed-forward, without biases. Mistral is the same with a window, Qwen2 the same with biases on queries, keys and
//! values; SmolLM, Yi, Vicuna and many others call themselves `llama` already.
//!
//! Quirks: Mistral has a window unless it is null. In GGUF, queries and keys lie with rotary pairs as neighbours.

use super::gguf::{self, Dialect, Keys, Writer};
use super::{Config, Files, HeadKind, Sheet, config, rope};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, HeadWidth, InitScheme, Input, Output, Pool, Shape, Spec, Stack, Window};
use qkv_kernels::Activation;
use qkv_nn::{Biased, Ffn, NormKind};
use qkv_weights::{Layout, Names};
use serde_json::Value;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "llama",
    model_types: &["llama", "mistral", "qwen2"],
    architectures: &[
        ("LlamaForCausalLM", HeadKind::Language),
        ("LlamaModel", HeadKind::Base),
        ("MistralForCausalLM", HeadKind::Language),
        ("MistralModel", HeadKind::Base),
        ("Qwen2ForCausalLM", HeadKind::Language),
        ("Qwen2Model", HeadKind::Base),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Bos,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::Begun }),
    linear: LinearLayout::OutIn,
    gguf: Some(GGUF),
};

/// The kind of network: what differs is which options it has, and what is meant when they are left out.
fn kind(config: &Config) -> &str {
    config.word("model_type").ok().flatten().unwrap_or("llama")
}

fn read(config: &Config, _: &Files) -> Result<Spec> {
    let defaults = Defaults { inner: 11_008, positions: 2048, vocabulary: 32_000, head_width: None };
    let mut spec = read_decoder(config, SHEET.task(config)?, defaults)?;
    if let Shape::Decoder(stack) = &mut spec.shape {
        stack.window = window(config)?;
        if kind(config) == "mistral" {
            stack.kv_heads = config.count_or("num_key_value_heads", 8)?;
        }
    }
    let attention_bias = match (kind(config), config.switch_or("attention_bias", false)?) {
        ("qwen2", _) => Biased::Qkv,
        (_, true) => Biased::All,
        (_, false) => Biased::None,
    };
    Ok(Spec { attention_bias, ffn_bias: config.switch_or("mlp_bias", false)?, ..spec })
}

/// What is meant where a configuration of this family leaves a size out.
pub(super) struct Defaults {
    pub(super) inner: usize,
    pub(super) positions: usize,
    pub(super) vocabulary: usize,
    pub(super) head_width: Option<usize>,
}

/// What LLaMA's descendants have in common: a decoder without biases, in LLaMA's words.
pub(super) fn read_decoder(config: &Config, task: HeadKind, defaults: Defaults) -> Result<Spec> {
    let width = config.count_or("hidden_size", 4096)?;
    let heads = config.count_or("num_attention_heads", 32)?;
    let kv_heads = config.count_or("num_key_value_heads", heads)?;
    let act = config.activation_or("hidden_act", "silu")?;
    let head_width = match config.maybe_count("head_dim")?.or(defaults.head_width) {
        Some(dim) if dim.checked_mul(heads) != Some(width) => HeadWidth::Of(dim),
        _ => HeadWidth::Share,
    };
    let stack = Stack {
        kv_heads,
        head_width,
        ffn: Ffn::Gated { inner: config.count_or("intermediate_size", defaults.inner)?, act },
        ..Stack::new(config.count_or("num_hidden_layers", 32)?, heads, 1, act)
    };
    let tied = config.switch_or("tie_word_embeddings", false)?;
    Ok(Spec {
        norm: NormKind::Rms { eps: config.number_or("rms_norm_eps", 1e-6)? },
        position: rope::rotary(config, &stack, width, defaults.positions)?,
        head: match task {
            HeadKind::Base => Head::None,
            _ => Head::Language { output: if tied { Output::Tied } else { Output::Own }, bias: false },
        },
        dropout: Dropout { attention: config.number_or("attention_dropout", 0.0)?, ..Dropout::default() },
        init: InitScheme::Normal { std: config.number_or("initializer_range", 0.02)? },
        shape: Shape::Decoder(stack),
        input: Input::Tokens {
            vocabulary: config.count_or("vocab_size", defaults.vocabulary)?,
            table_width: None,
            token_types: 0,
            scaled: false,
            normed: false,
            pad: config.id("pad_token_id"),
        },
        ..presets::llama(1, width, 1, 1, 1, 1, 1)
    })
}

/// Mistral has a window unless it is null; Qwen2 has one if it says so.
fn window(config: &Config) -> Result<Window> {
    match kind(config) {
        "mistral" => Ok(config.maybe_count("sliding_window")?.map_or(Window::None, Window::Every)),
        "qwen2" => {
            config.only("use_sliding_window", false)?;
            Ok(Window::None)
        }
        _ => Ok(Window::None),
    }
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    write_decoder(spec, config);
    match spec.decoder().map(|stack| stack.window) {
        Some(Window::Every(window)) => {
            config.set("model_type", "mistral");
            config.set("architectures", vec!["MistralForCausalLM"]);
            config.set("sliding_window", window);
        }
        _ if kind(config) == "mistral" => config.set("sliding_window", Value::Null),
        _ => {}
    }
    match spec.attention_bias {
        Biased::Qkv => {
            config.set("model_type", "qwen2");
            config.set("architectures", vec!["Qwen2ForCausalLM"]);
        }
        bias => config.set("attention_bias", bias == Biased::All),
    }
    config.set("mlp_bias", spec.ffn_bias);
    Ok(())
}

/// What LLaMA's descendants have in common.
pub(super) fn write_decoder(spec: &Spec, config: &mut Config) {
    config.set("hidden_size", spec.width);
    if let Input::Tokens { vocabulary, pad, .. } = spec.input {
        config.pad(pad);
        config.set("vocab_size", vocabulary);
    }
    if let Some(stack) = spec.decoder() {
        let heads = stack.heads(spec.width);
        config.set("num_hidden_layers", stack.layers);
        config.set("num_attention_heads", heads.heads);
        config.set("num_key_value_heads", heads.kv_heads);
        config.set("head_dim", heads.dim);
        config.set("intermediate_size", stack.ffn.inner());
        if let Ffn::Gated { act, .. } = stack.ffn {
            config.set("hidden_act", config::activation_name(act));
        }
    }
    rope::write(spec, config);
    if let NormKind::Rms { eps } = spec.norm {
        config.set("rms_norm_eps", eps);
    }
    if let Head::Language { output, .. } = spec.head {
        config.set("tie_word_embeddings", output != Output::Own);
    }
    config.set("attention_dropout", spec.dropout.attention);
    if let InitScheme::Normal { std } = spec.init {
        config.set("initializer_range", std);
    }
}

pub(super) fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    let bare = config.architecture().is_some_and(|name| !name.ends_with("ForCausalLM"));
    let names = attention_and_ffn()
        .under("model.", bare)
        .module("decoder.layers.*.norm_self", &layer("input_layernorm"))
        .module("decoder.layers.*.norm_ffn", &layer("post_attention_layernorm"))
        .module("decoder.norm", "model.norm")
        .module("head.out", "lm_head")
        .ignore("*rotary_emb.inv_freq", "frequencies, which are computed");
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("lm_head.weight", "tied to the token embeddings"),
    }
}

/// The rows of tokens, attention and feed-forward, which all of LLaMA's descendants have.
pub(super) fn attention_and_ffn() -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    Names::new()
        .module("tokens", "model.embed_tokens")
        .module("decoder.layers.*.attention.q", &layer("self_attn.q_proj"))
        .module("decoder.layers.*.attention.k", &layer("self_attn.k_proj"))
        .module("decoder.layers.*.attention.v", &layer("self_attn.v_proj"))
        .module("decoder.layers.*.attention.out", &layer("self_attn.o_proj"))
        .module("decoder.layers.*.ffn.gate", &layer("mlp.gate_proj"))
        .module("decoder.layers.*.ffn.up", &layer("mlp.up_proj"))
        .module("decoder.layers.*.ffn.down", &layer("mlp.down_proj"))
}

/// A new LLaMA. It has dropout of attention weights alone.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    Ok(decoder(sizes))
}

/// What new LLaMAs and their descendants have in common.
pub(super) fn decoder(sizes: &Sizes) -> Spec {
    let Sizes { vocabulary, width, layers, heads, positions, dropout, .. } = *sizes;
    let kv_heads = sizes.kv_heads.unwrap_or(heads);
    let spec = presets::llama(vocabulary, width, layers, heads, kv_heads, sizes.inner(), positions);
    let dropout = Dropout { attention: dropout, ..Dropout::default() };
    sizes.padded(Spec { dropout, init: sizes.normal(), ..spec })
}

const GGUF: Dialect = Dialect { name: "llama", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["LlamaForCausalLM"]);
    read_gguf(keys, config)
}

/// What LLaMA's descendants have in common.
pub(super) fn read_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    let heads = keys.count("attention.head_count")?;
    config.set("hidden_size", keys.count("embedding_length")?);
    config.set("intermediate_size", keys.count("feed_forward_length")?);
    config.set("num_hidden_layers", keys.count("block_count")?);
    config.set("num_attention_heads", heads);
    config.set("num_key_value_heads", keys.maybe_count("attention.head_count_kv")?.unwrap_or(heads));
    config.set("max_position_embeddings", keys.count("context_length")?);
    config.set("rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")?);
    config.set("rope_theta", keys.maybe_number("rope.freq_base")?.unwrap_or(10_000.0));
    config.set("tie_word_embeddings", keys.tied);
    if let Some(dim) = keys.maybe_count("attention.key_length")? {
        config.set("head_dim", dim);
    }
    keys.rope_scaling(config)
}

fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    let windowed = spec.decoder().is_some_and(|stack| stack.window != Window::None);
    if windowed || spec.attention_bias != Biased::None {
        return to.refuse("a window or biases in attention");
    }
    to.rotary(spec)
}

fn gguf_names(spec: &Spec) -> Names {
    let heads = spec.decoder().map(|s| s.heads(spec.width));
    let (h, g) = heads.map_or((1, 1), |h| (h.heads, h.kv_heads));
    gguf_layers(Layout::Pairs { heads: h }, Layout::Pairs { heads: g })
}

/// The tensors that LLaMA and Qwen3 have in common, with queries and keys laid like this.
pub(super) fn gguf_layers(queries: Layout, keys: Layout) -> Names {
    gguf_attention_and_ffn(queries, keys)
        .module("decoder.layers.*.norm_self", "blk.*.attn_norm")
        .module("decoder.layers.*.norm_ffn", "blk.*.ffn_norm")
        .module("decoder.norm", "output_norm")
        .module("head.out", "output")
}

/// The tensors that LLaMA's descendants have in common, norms and output aside.
pub(super) fn gguf_attention_and_ffn(queries: Layout, keys: Layout) -> Names {
    gguf::layers("decoder")
        .module("decoder.layers.*.attention.q", "blk.*.attn_q")
        .laid(queries)
        .module("decoder.layers.*.attention.k", "blk.*.attn_k")
        .laid(keys)
        .module("decoder.layers.*.attention.v", "blk.*.attn_v")
        .module("decoder.layers.*.ffn.gate", "blk.*.ffn_gate")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Position;
    use qkv_kernels::Pairing;
    use qkv_nn::position::RopeScaling;

    fn spec(more: &str) -> Spec {
        let sizes = r#""hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4"#;
        let text = format!(r#"{{"model_type": "llama", "vocab_size": 9, {sizes}, {more}}}"#);
        read(&Config::parse("c", text.as_bytes()).unwrap(), &Files::default()).unwrap()
    }

    #[test]
    fn old_and_new_ways_to_say_rope_are_the_same() {
        let llama3 =
            r#""factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64"#;
        let old = spec(&format!(r#""rope_theta": 5e5, "rope_scaling": {{"rope_type": "llama3", {llama3}}}"#));
        let new = spec(&format!(r#""rope_parameters": {{"rope_theta": 5e5, "rope_type": "llama3", {llama3}}}"#));
        assert_eq!(old, new);
        let older = spec(r#""rope_scaling": {"type": "linear", "factor": 2}"#);
        assert!(matches!(
            older.position,
            Position::Rotary { scaling: RopeScaling::Linear { factor: 2.0 }, theta: 1e4, .. }
        ));
    }

    #[test]
    fn every_scaling_is_written_and_read_back() {
        let sheet = &SHEET;
        for scaling in [
            RopeScaling::None,
            RopeScaling::Linear { factor: 2.0 },
            RopeScaling::Dynamic { factor: 4.0, original: 64, length: 64 },
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 64 },
            RopeScaling::Yarn { factor: 8.0, original: 64, beta_fast: 32.0, beta_slow: 1.0 },
        ] {
            let mut s = spec(r#""head_dim": 16, "tie_word_embeddings": true"#);
            s.position = Position::Rotary {
                max: 128,
                theta: 1e6,
                features: Some(8),
                scaling,
                pairing: Pairing::Halves,
                window_theta: None,
            };
            let config = sheet.config(&s, None, &Files::default()).unwrap();
            assert_eq!(read(&config, &Files::default()), Ok(s));
        }
    }

    #[test]
    fn relatives_are_recognised_by_what_they_have() {
        let mut windowed = spec(r#""tie_word_embeddings": true"#);
        if let Shape::Decoder(stack) = &mut windowed.shape {
            stack.window = Window::Every(16);
        }
        let config = SHEET.config(&windowed, None, &Files::default()).unwrap();
        assert_eq!(config.word("model_type"), Ok(Some("mistral")));
        let biased = Spec { attention_bias: Biased::Qkv, ..spec(r#""tie_word_embeddings": true"#) };
        let config = SHEET.config(&biased, None, &Files::default()).unwrap();
        assert_eq!(config.architecture(), Some("Qwen2ForCausalLM"));
    }
}
