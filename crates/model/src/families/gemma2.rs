//! Gemma 2 (Gemma Team 2024): a decoder in LLaMA's words with a norm on either side of each sub-layer, layers that see
//! through a window and to the beginning in turn, and soft caps on scores and logits.
//!
//! Quirks: token vectors are multiplied by √C, and the output is the same table, unscaled. Norms count their gain from
//! one: the file holds what is added to it (GGUF holds the sum). Scores are divided by √`query_pre_attn_scalar`, whatever
//! the width of a head is. Of two consecutive layers the first has the window.

use super::gguf::{Dialect, Keys, Writer};
use super::{
    Config, Files, Framing, HeadKind, LinearLayout, Pieces, Sheet, Sizes, TextStart, TokenizerShape, Tokenizing,
};
use super::{config, llama, rope};
use crate::Result;
use crate::spec::{Head, Input, Output, Pool, Shape, SoftCap, Spec, Window};
use qkv_kernels::Activation;
use qkv_nn::{Biased, Ffn, NormKind, Scale, Wiring};
use qkv_weights::{Layout, Names};
use serde_json::Value;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "gemma2",
    model_types: &["gemma2"],
    architectures: &[("Gemma2ForCausalLM", HeadKind::Language), ("Gemma2Model", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Bos,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Unigram, shape: TokenizerShape::Begun }),
    linear: LinearLayout::OutIn,
    gguf: Some(GGUF),
};

/// Of so many layers in a row the last sees to the beginning.
const FULL_EVERY: usize = 2;

fn read(config: &Config, _: &Files) -> Result<Spec> {
    let cap = |key: &str, default: f64| match config.map().get(key) {
        Some(Value::Null) => Ok(None),
        _ => config.number_or(key, default).map(Some),
    };
    let soft_cap =
        SoftCap { attention: cap("attn_logit_softcapping", 50.0)?, logits: cap("final_logit_softcapping", 30.0)? };
    let mut spec = read_decoder(config, SHEET.task(config)?, FULL_EVERY, 8192)?;
    if let Some(stack) = spec.decoder() {
        spec.position = rope::rotary(config, stack, spec.width, 8192)?;
    }
    Ok(Spec { soft_cap, ..spec })
}

/// What Gemma 2 and 3 have in common; positions are LLaMA's.
pub(super) fn read_decoder(config: &Config, task: HeadKind, full_every: usize, positions: usize) -> Result<Spec> {
    config.only("attention_bias", false)?;
    config.only("use_bidirectional_attention", false)?;
    config.only("tie_word_embeddings", true)?;
    // LLaMA's reader knows the sizes; what Gemma calls otherwise is said in its words.
    let mut words = config.clone();
    words.remove("rope_parameters");
    words.remove("rope_scaling");
    words.set("hidden_act", config.word("hidden_activation")?.unwrap_or("gelu_pytorch_tanh"));
    for (key, default) in [("hidden_size", 2304), ("num_hidden_layers", 26), ("num_attention_heads", 8)] {
        words.set(key, config.count_or(key, default)?);
    }
    words.set("num_key_value_heads", config.count_or("num_key_value_heads", 4)?);
    let defaults = llama::Defaults { inner: 9216, positions, vocabulary: 256_000, head_width: Some(256) };
    let spec = llama::read_decoder(&words, task, defaults)?;
    let layers = spec.decoder().map_or(0, |s| s.layers);
    let window = window(config, layers, full_every)?;
    let scalar = config.count_or("query_pre_attn_scalar", 256)?;
    let own = spec.decoder().map(|s| s.heads(spec.width).dim) == Some(scalar);
    let attention_scale = if own { Scale::InverseRoot } else { Scale::InverseRootOf(scalar) };
    Ok(Spec { attention_scale, ..gemma(spec, window) })
}

/// LLaMA's network as Gemma wires it.
pub(super) fn gemma(mut spec: Spec, window: Window) -> Spec {
    if let Shape::Decoder(stack) = &mut spec.shape {
        stack.window = window;
    }
    if let Input::Tokens { scaled, .. } = &mut spec.input {
        *scaled = true;
    }
    if let Head::Language { output, .. } = &mut spec.head {
        *output = Output::Tied;
    }
    if let NormKind::Rms { eps } = spec.norm {
        spec.norm = NormKind::RmsOnePlus { eps };
    }
    Spec { wiring: Wiring::Sandwich, ..spec }
}

/// Which layers see through a window: `layer_types` says it, or the family's habit. A pattern that is not a repetition
/// is refused.
fn window(config: &Config, layers: usize, full_every: usize) -> Result<Window> {
    let window = config.count_or("sliding_window", 4096)?;
    let Some(types) = config.get("layer_types").and_then(Value::as_array) else {
        return Ok(Window::Alternating { window, full_every });
    };
    let sliding: Vec<bool> = types.iter().map(|t| t.as_str() == Some("sliding_attention")).collect();
    let first_full = sliding.iter().position(|s| !s);
    let read = match first_full {
        None => Window::Every(window),
        Some(0) => Window::None,
        // A network that ends before its first full layer cannot be told from one without any.
        Some(at) => Window::Alternating { window, full_every: at + 1 },
    };
    let fits = sliding.len() == layers && (0..layers).all(|i| read.of_layer(i).is_some() == sliding[i]);
    match fits {
        true => Ok(read),
        false => Err(config.error(
            "layer_types",
            "is not a repetition of layers with a window and one without",
            "supported: n sliding_attention, then one full_attention, and so on",
        )),
    }
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    write_decoder(spec, config);
    for (key, cap) in
        [("attn_logit_softcapping", spec.soft_cap.attention), ("final_logit_softcapping", spec.soft_cap.logits)]
    {
        config.set(key, cap.map_or(Value::Null, Value::from));
    }
    Ok(())
}

/// What Gemma 2 and 3 have in common; positions are LLaMA's.
pub(super) fn write_decoder(spec: &Spec, config: &mut Config) {
    let plain = Spec { norm: plain(spec.norm), ..spec.clone() };
    llama::write_decoder(&plain, config);
    config.remove("hidden_act");
    config.set("attention_bias", spec.attention_bias == Biased::All);
    let Some(stack) = spec.decoder() else { return };
    if let Ffn::Gated { act, .. } = stack.ffn {
        let word = if act == Activation::GeluTanh { "gelu_pytorch_tanh" } else { config::activation_name(act) };
        config.set("hidden_activation", word);
    }
    let kind = |i| if stack.window.of_layer(i).is_some() { "sliding_attention" } else { "full_attention" };
    config.set("layer_types", (0..stack.layers).map(kind).collect::<Vec<_>>());
    if let Some(window) = stack.window.size() {
        config.set("sliding_window", window);
    }
    let scalar = match spec.attention_scale {
        Scale::InverseRootOf(n) => n,
        _ => stack.heads(spec.width).dim,
    };
    config.set("query_pre_attn_scalar", scalar);
}

fn plain(norm: NormKind) -> NormKind {
    match norm {
        NormKind::RmsOnePlus { eps } => NormKind::Rms { eps },
        other => other,
    }
}

pub(super) fn names(_: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    let bare = config.architecture().is_some_and(|name| !name.ends_with("ForCausalLM"));
    llama::attention_and_ffn()
        .under("model.", bare)
        .module("decoder.layers.*.norm_self", &layer("input_layernorm"))
        .module("decoder.layers.*.norm_self_after", &layer("post_attention_layernorm"))
        .module("decoder.layers.*.norm_ffn", &layer("pre_feedforward_layernorm"))
        .module("decoder.layers.*.norm_ffn_after", &layer("post_feedforward_layernorm"))
        .module("decoder.norm", "model.norm")
        .ignore("lm_head.weight", "tied to the token embeddings")
        .ignore("*rotary_emb.inv_freq", "frequencies, which are computed")
}

/// A new Gemma 2. Its window is half of its positions.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    let window = alternating(sizes, sizes.positions / 2, FULL_EVERY);
    let soft_cap = SoftCap { attention: Some(50.0), logits: Some(30.0) };
    Ok(Spec { soft_cap, ..new(sizes, window) })
}

/// The family's pattern of windows, or a shorter one where there are not enough layers for it.
pub(super) fn alternating(sizes: &Sizes, window: usize, full_every: usize) -> Window {
    match sizes.layers {
        0 | 1 => Window::None,
        layers => Window::Alternating { window: window.max(1), full_every: full_every.min(layers) },
    }
}

/// A new network of either.
pub(super) fn new(sizes: &Sizes, window: Window) -> Spec {
    let mut spec = gemma(llama::decoder(sizes), window);
    if let Shape::Decoder(stack) = &mut spec.shape {
        stack.ffn = Ffn::Gated { inner: stack.ffn.inner(), act: Activation::GeluTanh };
    }
    spec
}

const GGUF: Dialect = Dialect { name: "gemma2", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["Gemma2ForCausalLM"]);
    read_gguf(keys, config)?;
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        config.set(key, keys.maybe_number(key)?.map_or(Value::Null, Value::from));
    }
    Ok(())
}

/// What Gemma 2 and 3 have in common.
pub(super) fn read_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    llama::read_gguf(keys, config)?;
    config.set("tie_word_embeddings", true);
    config.set("sliding_window", keys.count("attention.sliding_window")?);
    // The file does not say what scores are divided by. Of the published sizes, the largest (46 layers of Gemma 2, 62 of
    // Gemma 3) share the width among the heads for it; the others take the width of a head.
    let (width, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
    let scalar = match keys.count("block_count")? {
        46 | 62 if heads > 0 => width / heads,
        _ => keys.maybe_count("attention.key_length")?.unwrap_or(256),
    };
    config.set("query_pre_attn_scalar", scalar);
    Ok(())
}

fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    write_gguf(spec, to, FULL_EVERY)?;
    for (key, cap) in
        [("attn_logit_softcapping", spec.soft_cap.attention), ("final_logit_softcapping", spec.soft_cap.logits)]
    {
        if let Some(cap) = cap {
            to.number(key, cap);
        }
    }
    Ok(())
}

/// What Gemma 2 and 3 have in common: what the file does not say must be what its readers assume.
pub(super) fn write_gguf(spec: &Spec, to: &mut Writer, every: usize) -> Result<()> {
    let Some(stack) = spec.decoder() else { return to.refuse("a network without layers") };
    match stack.window {
        Window::Alternating { window, full_every } if full_every == every => {
            to.count("attention.sliding_window", window)
        }
        _ => return to.refuse("this pattern of windows"),
    }
    let dim = stack.heads(spec.width).dim;
    let assumed = if matches!(stack.layers, 46 | 62) { spec.width / stack.heads.max(1) } else { dim };
    let scalar = if let Scale::InverseRootOf(n) = spec.attention_scale { n } else { dim };
    if scalar != assumed {
        return to.refuse(&format!("scores divided by √{scalar}, where readers assume √{assumed}"));
    }
    to.rotary(spec)
}

/// Norms hold their whole gain there.
pub(super) fn gguf_names(_: &Spec) -> Names {
    let more = || Layout::OneMore;
    llama::gguf_attention_and_ffn(Layout::Same, Layout::Same)
        .module("decoder.layers.*.norm_self", "blk.*.attn_norm")
        .laid(more())
        .module("decoder.layers.*.norm_self_after", "blk.*.post_attention_norm")
        .laid(more())
        .module("decoder.layers.*.norm_ffn", "blk.*.ffn_norm")
        .laid(more())
        .module("decoder.layers.*.norm_ffn_after", "blk.*.post_ffw_norm")
        .laid(more())
        .module("decoder.norm", "output_norm")
        .laid(more())
        .ignore("output.weight", "tied to the token embeddings")
}
