//! Rotary positions in the words of `config.json`.
//!
//! Quirks: base and scaling have been written in two ways (`rope_theta` and `rope_scaling`, or both within
//! `rope_parameters`); both are read, the newer one is written.

use super::Config;
use crate::Result;
use crate::spec::{HeadWidth, Position, Spec, Stack};
use qkv_kernels::Pairing;
use qkv_nn::position::RopeScaling;
use serde_json::{Value, json};

/// The positions that a configuration says, for heads of `stack` in a network of `width`.
pub(super) fn rotary(config: &Config, stack: &Stack, width: usize, max: usize) -> Result<Position> {
    let max = config.count_or("max_position_embeddings", max)?;
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
    let scaling = scaling(&inside, max)?;
    Ok(Position::Rotary { max, theta, features, scaling, pairing: Pairing::Halves, window_theta: None })
}

pub(super) fn scaling(inside: &Config, max: usize) -> Result<RopeScaling> {
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

/// Writes the positions of `spec`.
pub(super) fn write(spec: &Spec, config: &mut Config) {
    let Position::Rotary { max, theta, features, scaling, .. } = spec.position else { return };
    config.set("max_position_embeddings", max);
    config.remove("rope_scaling");
    config.remove("rope_theta");
    let mut rope = parameters(scaling);
    rope["rope_theta"] = theta.into();
    if let (Some(features), Some(stack)) = (features, spec.decoder()) {
        rope["partial_rotary_factor"] = (features as f64 / stack.heads(spec.width).dim as f64).into();
    }
    config.set("rope_parameters", rope);
}

/// A scaling, as `rope_parameters` says it.
pub(super) fn parameters(scaling: RopeScaling) -> Value {
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
