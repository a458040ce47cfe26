//! LLaMA (Touvron et al. 2023): a pre-normed decoder with RMSNorm, rotary positions, grouped key heads and a gated
//! feed-forward, without biases. Mistral is the same with a window, Qwen2 the same with biases on queries, keys and
//! values; SmolLM, Yi, Vicuna and many others call themselves `llama` already.
//!
//! Quirks: the base of the rotary positions and their scaling have been written in two ways (`rope_theta` and
//! `rope_scaling`, or both within `rope_parameters`); both are read, the newer one is written.

use super::{Config, Files, Sheet, Task, config};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, HeadWidth, InitScheme, Input, Output, Position, Shape, Spec, Stack};
use qkv_kernels::Pairing;
use qkv_nn::position::RopeScaling;
use qkv_nn::{Biased, Ffn, NormKind};
use qkv_weights::Names;
use serde_json::{Value, json};

pub(super) const SHEET: Sheet = Sheet {
    name: "llama",
    model_types: &["llama", "mistral", "qwen2"],
    architectures: &[
        ("LlamaForCausalLM", Task::Language),
        ("LlamaModel", Task::Base),
        ("MistralForCausalLM", Task::Language),
        ("MistralModel", Task::Base),
        ("Qwen2ForCausalLM", Task::Language),
        ("Qwen2Model", Task::Base),
    ],
    read,
    write,
    names,
};

/// The kind of network: what differs is which options it has, and what is meant when they are left out.
fn kind(config: &Config) -> &str {
    config.word("model_type").ok().flatten().unwrap_or("llama")
}

fn read(config: &Config, _: &Files) -> Result<Spec> {
    let width = config.count_or("hidden_size", 4096)?;
    let heads = config.count_or("num_attention_heads", 32)?;
    let kv_heads = config.count_or("num_key_value_heads", if kind(config) == "mistral" { 8 } else { heads })?;
    let act = config.activation_or("hidden_act", "silu")?;
    let head_width = match config.maybe_count("head_dim")? {
        Some(dim) if dim.checked_mul(heads) != Some(width) => HeadWidth::Of(dim),
        _ => HeadWidth::Share,
    };
    let stack = Stack {
        kv_heads,
        head_width,
        ffn: Ffn::Gated { inner: config.count_or("intermediate_size", 11_008)?, act },
        window: window(config)?,
        ..Stack::new(config.count_or("num_hidden_layers", 32)?, heads, 1, act)
    };
    let tied = config.switch_or("tie_word_embeddings", false)?;
    Ok(Spec {
        norm: NormKind::Rms { eps: config.number_or("rms_norm_eps", 1e-6)? },
        position: rotary(config, &stack, width)?,
        attention_bias: match (kind(config), config.switch_or("attention_bias", false)?) {
            ("qwen2", _) => Biased::Qkv,
            (_, true) => Biased::All,
            (_, false) => Biased::None,
        },
        ffn_bias: config.switch_or("mlp_bias", false)?,
        head: match SHEET.task(config)? {
            Task::Base => Head::None,
            _ => Head::Language { output: if tied { Output::Tied } else { Output::Own }, bias: false },
        },
        dropout: Dropout { attention: config.number_or("attention_dropout", 0.0)?, ..Dropout::default() },
        init: InitScheme::Normal { std: config.number_or("initializer_range", 0.02)? },
        shape: Shape::Decoder(stack),
        input: Input::Tokens {
            vocabulary: config.count_or("vocab_size", 32_000)?,
            token_types: 0,
            scaled: false,
            normed: false,
            pad: config.id("pad_token_id"),
        },
        ..presets::llama(1, width, 1, 1, 1, 1, 1)
    })
}

/// Mistral has a window unless it is null; Qwen2 has one if it says so.
fn window(config: &Config) -> Result<Option<usize>> {
    match kind(config) {
        "mistral" => config.maybe_count("sliding_window"),
        "qwen2" => {
            config.only("use_sliding_window", false)?;
            Ok(None)
        }
        _ => Ok(None),
    }
}

fn rotary(config: &Config, stack: &Stack, width: usize) -> Result<Position> {
    let max = config.count_or("max_position_embeddings", 2048)?;
    // Newer files say both within `rope_parameters`; older ones apart.
    let inside = match config.inside("rope_parameters")? {
        Some(inside) => Some(inside),
        None => config.inside("rope_scaling")?,
    };
    let inside = inside.unwrap_or_default();
    let theta = inside.number_or("rope_theta", config.number_or("rope_theta", 10_000.0)?)?;
    let part = inside.number_or("partial_rotary_factor", config.number_or("partial_rotary_factor", 1.0)?)?;
    let dim = match stack.head_width {
        HeadWidth::Of(dim) => dim,
        HeadWidth::Share => width / stack.heads.max(1),
    };
    let features = (part != 1.0).then_some((part * dim as f64) as usize);
    Ok(Position::Rotary { max, theta, features, scaling: scaling(&inside, max)?, pairing: Pairing::Halves })
}

fn scaling(inside: &Config, max: usize) -> Result<RopeScaling> {
    let word = match inside.word("rope_type")? {
        Some(word) => Some(word),
        None => inside.word("type")?,
    };
    let number = |key: &str| match inside.number_or(key, f64::NAN)? {
        n if n.is_finite() => Ok(n),
        _ => Err(inside.error(key, "is missing", "this kind of scaling needs it")),
    };
    let original = inside.count_or("original_max_position_embeddings", max)?;
    Ok(match word.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: number("factor")? },
        // Up to the trained length nothing is stretched, and we do not go further.
        "dynamic" => RopeScaling::Dynamic { factor: number("factor")?, original, length: original },
        "llama3" => RopeScaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original,
        },
        "yarn" => {
            for key in ["attention_factor", "mscale", "mscale_all_dim"] {
                if inside.get(key).is_some() {
                    return Err(inside.error(key, "is not supported", "leave it out: it then follows from the factor"));
                }
            }
            RopeScaling::Yarn {
                factor: number("factor")?,
                original,
                beta_fast: inside.number_or("beta_fast", 32.0)?,
                beta_slow: inside.number_or("beta_slow", 1.0)?,
            }
        }
        other => {
            let what = format!("`{other}` is not supported");
            return Err(inside.error("rope_type", what, "supported: default, linear, dynamic, llama3, yarn"));
        }
    })
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
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
        if let Some(window) = stack.window {
            config.set("model_type", "mistral");
            config.set("architectures", vec!["MistralForCausalLM"]);
            config.set("sliding_window", window);
        } else if kind(config) == "mistral" {
            config.set("sliding_window", Value::Null);
        }
    }
    match spec.attention_bias {
        Biased::Qkv => {
            config.set("model_type", "qwen2");
            config.set("architectures", vec!["Qwen2ForCausalLM"]);
        }
        bias => config.set("attention_bias", bias == Biased::All),
    }
    config.set("mlp_bias", spec.ffn_bias);
    if let Position::Rotary { max, theta, features, scaling, .. } = spec.position {
        config.set("max_position_embeddings", max);
        config.remove("rope_scaling");
        config.remove("rope_theta");
        let mut rope = rope_parameters(scaling);
        rope["rope_theta"] = theta.into();
        if let (Some(features), Some(stack)) = (features, spec.decoder()) {
            rope["partial_rotary_factor"] = (features as f64 / stack.heads(spec.width).dim as f64).into();
        }
        config.set("rope_parameters", rope);
    }
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
    Ok(())
}

fn rope_parameters(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::None => json!({"rope_type": "default"}),
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Dynamic { factor, original, .. } => {
            json!({"rope_type": "dynamic", "factor": factor, "original_max_position_embeddings": original})
        }
        RopeScaling::Llama3 { factor, low, high, original } => json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }),
        RopeScaling::Yarn { factor, original, beta_fast, beta_slow } => json!({
            "rope_type": "yarn", "factor": factor, "beta_fast": beta_fast, "beta_slow": beta_slow,
            "original_max_position_embeddings": original,
        }),
    }
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    let bare = config.architecture().is_some_and(|name| !name.ends_with("ForCausalLM"));
    let names = Names::new()
        .under("model.", bare)
        .module("tokens", "model.embed_tokens")
        .module("decoder.layers.*.attention.q", &layer("self_attn.q_proj"))
        .module("decoder.layers.*.attention.k", &layer("self_attn.k_proj"))
        .module("decoder.layers.*.attention.v", &layer("self_attn.v_proj"))
        .module("decoder.layers.*.attention.out", &layer("self_attn.o_proj"))
        .module("decoder.layers.*.norm_self", &layer("input_layernorm"))
        .module("decoder.layers.*.ffn.gate", &layer("mlp.gate_proj"))
        .module("decoder.layers.*.ffn.up", &layer("mlp.up_proj"))
        .module("decoder.layers.*.ffn.down", &layer("mlp.down_proj"))
        .module("decoder.layers.*.norm_ffn", &layer("post_attention_layernorm"))
        .module("decoder.norm", "model.norm")
        .module("head.out", "lm_head")
        .ignore("*rotary_emb.inv_freq", "frequencies, which are computed");
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("lm_head.weight", "tied to the token embeddings"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            s.position =
                Position::Rotary { max: 128, theta: 1e6, features: Some(8), scaling, pairing: Pairing::Halves };
            let config = sheet.config(&s, None, &Files::default()).unwrap();
            assert_eq!(read(&config, &Files::default()), Ok(s));
        }
    }

    #[test]
    fn relatives_are_recognised_by_what_they_have() {
        let mut windowed = spec(r#""tie_word_embeddings": true"#);
        if let Shape::Decoder(stack) = &mut windowed.shape {
            stack.window = Some(16);
        }
        let config = SHEET.config(&windowed, None, &Files::default()).unwrap();
        assert_eq!(config.word("model_type"), Ok(Some("mistral")));
        let biased = Spec { attention_bias: Biased::Qkv, ..spec(r#""tie_word_embeddings": true"#) };
        let config = SHEET.config(&biased, None, &Files::default()).unwrap();
        assert_eq!(config.architecture(), Some("Qwen2ForCausalLM"));
    }
}
