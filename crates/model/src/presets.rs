//! Known architectures by name: tiny ones for tests, the sizes of the papers for `qkv inspect`.

use crate::families;
use crate::spec::*;
use qkv_kernels::{Activation, Pairing};
use qkv_nn::position::{Buckets, RopeScaling, Waves};
use qkv_nn::{Biased, Ffn, NormKind, Scale, Wiring};

/// A named architecture.
pub struct Preset {
    /// its name
    pub name: &'static str,
    /// what it is, in a few words
    pub about: &'static str,
    make: fn() -> Spec,
}

impl Preset {
    /// The architecture.
    pub fn spec(&self) -> Spec {
        (self.make)()
    }
}

/// Every preset.
pub const ALL: &[Preset] = &[
    Preset { name: "tiny-encoder", about: "BERT in miniature", make: || bert(97, 32, 2, 4, 64) },
    Preset { name: "tiny-decoder", about: "GPT-2 in miniature", make: || gpt2(97, 32, 2, 4, 64) },
    Preset { name: "tiny-llama", about: "LLaMA in miniature", make: || llama(97, 32, 2, 4, 2, 96, 64) },
    Preset { name: "tiny-qwen3", about: "Qwen3 in miniature", make: tiny_qwen3 },
    Preset { name: "tiny-gemma2", about: "Gemma 2 in miniature", make: tiny_gemma2 },
    Preset { name: "tiny-gemma3", about: "Gemma 3 in miniature", make: tiny_gemma3 },
    Preset { name: "tiny-electra", about: "ELECTRA in miniature", make: || electra(97, 16, 32, 2, 4, 128, 64) },
    Preset { name: "tiny-detector", about: "ELECTRA's discriminator in miniature", make: tiny_detector },
    Preset { name: "tiny-pair", about: "the 2017 paper in miniature", make: || paper(97, 32, 2, 4, 128) },
    Preset { name: "tiny-t5", about: "T5 in miniature", make: || t5(97, 32, 2, 4, 96) },
    Preset { name: "tiny-bart", about: "BART in miniature", make: || bart(97, 32, 2, 4, 128, 64) },
    Preset { name: "tiny-vit", about: "ViT in miniature", make: || vit(12, 4, 32, 2, 4, 7) },
    Preset { name: "tiny-alibi", about: "a decoder with ALiBi and a window", make: tiny_alibi },
    Preset { name: "tiny-relative", about: "an encoder with a number per offset", make: tiny_relative },
    Preset { name: "tiny-layerwise", about: "a decoder with positions at each layer", make: tiny_layerwise },
    Preset { name: "transformer-base", about: "Vaswani et al. 2017, base", make: || paper(37_000, 512, 6, 8, 2048) },
    Preset { name: "transformer-big", about: "Vaswani et al. 2017, big", make: || paper(37_000, 1024, 6, 16, 4096) },
    Preset { name: "bert-base", about: "Devlin et al. 2018", make: || bert(30_522, 768, 12, 12, 512) },
    Preset { name: "bert-large", about: "Devlin et al. 2018", make: || bert(30_522, 1024, 24, 16, 512) },
    Preset {
        name: families::gpt2::SHEET.name,
        about: "Radford et al. 2019, small",
        make: || gpt2(50_257, 768, 12, 12, 1024),
    },
    Preset { name: "gpt2-medium", about: "Radford et al. 2019", make: || gpt2(50_257, 1024, 24, 16, 1024) },
    Preset { name: "gpt2-large", about: "Radford et al. 2019", make: || gpt2(50_257, 1280, 36, 20, 1024) },
    Preset { name: "gpt2-xl", about: "Radford et al. 2019", make: || gpt2(50_257, 1600, 48, 25, 1024) },
    Preset { name: "gpt3", about: "Brown et al. 2020, 175 billion", make: || gpt2(50_257, 12_288, 96, 96, 2048) },
    Preset { name: "t5-small", about: "Raffel et al. 2020", make: || t5(32_128, 512, 6, 8, 2048) },
    Preset { name: "t5-base", about: "Raffel et al. 2020", make: || t5(32_128, 768, 12, 12, 3072) },
    Preset { name: "bart-base", about: "Lewis et al. 2020", make: || bart(50_265, 768, 6, 12, 3072, 1024) },
    Preset { name: "llama-7b", about: "Touvron et al. 2023", make: || llama(32_000, 4096, 32, 32, 32, 11_008, 2048) },
    Preset { name: "llama3-8b", about: "LLaMA 3, grouped queries", make: llama3_8b },
    Preset { name: "qwen3-0.6b", about: "Qwen3, the smallest", make: qwen3_0_6b },
    Preset { name: "gemma2-2b", about: "Gemma Team 2024, the smallest", make: gemma2_2b },
    Preset { name: "gemma3-1b", about: "Gemma Team 2025, text alone", make: gemma3_1b },
    Preset {
        name: "electra-small",
        about: "Clark et al. 2020, the generator's head",
        make: || electra(30_522, 128, 256, 12, 4, 1024, 512),
    },
    Preset {
        name: "vit-base",
        about: "Dosovitskiy et al. 2021, 16 × 16 patches",
        make: || vit(224, 16, 768, 12, 12, 1000),
    },
];

/// The preset of this name, or the nearest name there is.
pub fn find(name: &str) -> Result<&'static Preset, &'static str> {
    let nearest = || qkv_base::nearest(name, ALL.iter().map(|p| p.name)).unwrap_or("");
    ALL.iter().find(|p| p.name == name).ok_or_else(nearest)
}

pub(crate) fn tokens(vocabulary: usize) -> Input {
    Input::Tokens { vocabulary, table_width: None, token_types: 0, scaled: false, normed: false, pad: None }
}

/// Post-norm encoder with token types and a masked-language head.
pub fn bert(vocabulary: usize, width: usize, layers: usize, heads: usize, max: usize) -> Spec {
    Spec {
        input: Input::Tokens { vocabulary, table_width: None, token_types: 2, scaled: false, normed: true, pad: None },
        width,
        shape: Shape::Encoder(Stack::new(layers, heads, 4 * width, Activation::Gelu)),
        wiring: Wiring::Post,
        norm: NormKind::Layer { eps: 1e-12 },
        position: Position::Learned { max, offset: 0, padding_id: None, place: Place::Input },
        attention_bias: Biased::All,
        attention_scale: Scale::InverseRoot,
        qk_norm: None,
        soft_cap: SoftCap::default(),
        ffn_bias: true,
        head: Head::Masked { act: Activation::Gelu },
        dropout: Dropout { attention: 0.1, ..Dropout::residual(0.1) },
        init: InitScheme::Normal { std: 0.02 },
    }
}

/// Pre-norm decoder with learned positions and tied output.
pub fn gpt2(vocabulary: usize, width: usize, layers: usize, heads: usize, max: usize) -> Spec {
    Spec {
        input: tokens(vocabulary),
        shape: Shape::Decoder(Stack::new(layers, heads, 4 * width, Activation::GeluTanh)),
        wiring: Wiring::Pre,
        norm: NormKind::Layer { eps: 1e-5 },
        head: Head::Language { output: Output::Tied, bias: false },
        init: InitScheme::Gpt2 { std: 0.02 },
        ..bert(vocabulary, width, layers, heads, max)
    }
}

/// Pre-norm decoder with rotary positions, grouped queries and a gated feed-forward, no biases.
pub fn llama(
    vocabulary: usize,
    width: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    inner: usize,
    max: usize,
) -> Spec {
    let ffn = Ffn::Gated { inner, act: Activation::Silu };
    let stack = Stack { kv_heads, ffn, ..Stack::new(layers, heads, inner, Activation::Silu) };
    let (scaling, pairing) = (RopeScaling::None, Pairing::Halves);
    Spec {
        shape: Shape::Decoder(stack),
        norm: NormKind::Rms { eps: 1e-6 },
        position: Position::Rotary { max, theta: 10_000.0, features: None, scaling, pairing, window_theta: None },
        attention_bias: Biased::None,
        ffn_bias: false,
        head: Head::Language { output: Output::Own, bias: false },
        dropout: Dropout::default(),
        init: InitScheme::Normal { std: 0.02 },
        ..gpt2(vocabulary, width, layers, heads, max)
    }
}

fn llama3_8b() -> Spec {
    let (scaling, pairing) = (RopeScaling::None, Pairing::Halves);
    Spec {
        norm: NormKind::Rms { eps: 1e-5 },
        position: Position::Rotary {
            max: 8192,
            theta: 500_000.0,
            features: None,
            scaling,
            pairing,
            window_theta: None,
        },
        ..llama(128_256, 4096, 32, 32, 8, 14_336, 8192)
    }
}

/// LLaMA with norms on queries and keys, and heads of a width of their own.
pub fn qwen3(from: Spec, head_width: usize) -> Spec {
    Spec { qk_norm: Some(from.norm), ..with_heads_of(from, head_width) }
}

fn tiny_qwen3() -> Spec {
    let tied = Head::Language { output: Output::Tied, bias: false };
    Spec { head: tied, ..qwen3(llama(97, 32, 2, 4, 2, 96, 64), 16) }
}

fn qwen3_0_6b() -> Spec {
    let (scaling, pairing) = (RopeScaling::None, Pairing::Halves);
    Spec {
        position: Position::Rotary { max: 40_960, theta: 1e6, features: None, scaling, pairing, window_theta: None },
        head: Head::Language { output: Output::Tied, bias: false },
        ..qwen3(llama(151_936, 1024, 28, 16, 8, 3072, 40_960), 128)
    }
}

fn with_heads_of(spec: Spec, head_width: usize) -> Spec {
    let shape = match spec.shape {
        Shape::Decoder(stack) => Shape::Decoder(Stack { head_width: HeadWidth::Of(head_width), ..stack }),
        other => other,
    };
    Spec { shape, ..spec }
}

/// LLaMA with norms on both sides, scaled token vectors, alternating windows and soft caps.
pub fn gemma2(from: Spec, head_width: usize, window: usize) -> Spec {
    let window = Window::Alternating { window, full_every: 2 };
    families::gemma2::of_llama(with_heads_of(from, head_width), window)
}

/// Gemma 2 with norms on queries and keys instead of caps, and layers with a window that turn by a base of their own.
pub fn gemma3(from: Spec, head_width: usize, window: usize, full_every: usize) -> Spec {
    let window = Window::Alternating { window, full_every };
    families::gemma3::of_llama(with_heads_of(from, head_width), window)
}

/// Caps and a window so narrow that a few tokens feel them.
fn tiny_gemma2() -> Spec {
    let soft_cap = SoftCap { attention: Some(2.0), logits: Some(3.0) };
    let attention_scale = Scale::InverseRootOf(20);
    Spec { soft_cap, attention_scale, ..gemma2(llama(97, 32, 2, 4, 2, 96, 64), 16, 4) }
}

fn tiny_gemma3() -> Spec {
    gemma3(llama(97, 32, 3, 4, 2, 96, 64), 16, 4, 3)
}

fn gemma2_2b() -> Spec {
    gemma2(llama(256_000, 2304, 26, 8, 4, 9216, 8192), 256, 4096)
}

fn gemma3_1b() -> Spec {
    gemma3(llama(262_144, 1152, 26, 4, 1, 6912, 32_768), 256, 512, 6)
}

/// BERT over tables of another width.
pub fn electra(
    vocabulary: usize,
    table: usize,
    width: usize,
    layers: usize,
    heads: usize,
    inner: usize,
    max: usize,
) -> Spec {
    Spec {
        input: Input::Tokens {
            vocabulary,
            table_width: Some(table),
            token_types: 2,
            scaled: false,
            normed: true,
            pad: None,
        },
        shape: Shape::Encoder(Stack::new(layers, heads, inner, Activation::Gelu)),
        ..bert(vocabulary, width, layers, heads, max)
    }
}

fn tiny_detector() -> Spec {
    Spec { head: Head::Detect { act: Activation::Gelu }, ..electra(97, 16, 32, 2, 4, 128, 64) }
}

/// The 2017 paper: post-norm, sinusoidal positions, ReLU, one table for source, target and output.
pub fn paper(vocabulary: usize, width: usize, layers: usize, heads: usize, inner: usize) -> Spec {
    let stack = Stack::new(layers, heads, inner, Activation::Relu);
    Spec {
        input: Input::Tokens { vocabulary, table_width: None, token_types: 0, scaled: true, normed: false, pad: None },
        width,
        shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
        wiring: Wiring::Post,
        norm: NormKind::Layer { eps: 1e-5 },
        position: Position::Sinusoidal { max: 5000, waves: Waves::Halves },
        attention_bias: Biased::All,
        attention_scale: Scale::InverseRoot,
        qk_norm: None,
        soft_cap: SoftCap::default(),
        ffn_bias: true,
        head: Head::Language { output: Output::Tied, bias: false },
        dropout: Dropout::residual(0.1),
        init: InitScheme::Xavier,
    }
}

/// BART: post-norm pair with learned positions, normed embeddings and an output bias.
pub fn bart(vocabulary: usize, width: usize, layers: usize, heads: usize, inner: usize, max: usize) -> Spec {
    let stack = Stack::new(layers, heads, inner, Activation::Gelu);
    Spec {
        input: Input::Tokens { vocabulary, table_width: None, token_types: 0, scaled: false, normed: true, pad: None },
        shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
        position: Position::Learned { max, offset: 2, padding_id: None, place: Place::Input },
        head: Head::Language { output: Output::Tied, bias: true },
        init: InitScheme::Normal { std: 0.02 },
        ..paper(vocabulary, width, layers, heads, inner)
    }
}

/// T5 v1.0: pre-norm pair with relative positions, no biases, unscaled scores.
pub fn t5(vocabulary: usize, width: usize, layers: usize, heads: usize, inner: usize) -> Spec {
    let stack = Stack::new(layers, heads, inner, Activation::Relu);
    Spec {
        input: tokens(vocabulary),
        shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
        wiring: Wiring::Pre,
        norm: NormKind::Rms { eps: 1e-6 },
        position: Position::Relative(Buckets::Logarithmic { buckets: 32, max_distance: 128, both_ways: true }),
        attention_bias: Biased::None,
        attention_scale: Scale::One,
        ffn_bias: false,
        head: Head::Language { output: Output::TiedScaled, bias: false },
        dropout: Dropout { attention: 0.1, inner: 0.1, ..Dropout::residual(0.1) },
        init: InitScheme::T5,
        ..paper(vocabulary, width, layers, heads, inner)
    }
}

/// ViT: pre-norm encoder over patches, classified from the class vector.
pub fn vit(image: usize, patch: usize, width: usize, layers: usize, heads: usize, labels: usize) -> Spec {
    let max = (image / patch).pow(2) + 1;
    Spec {
        input: Input::Patches { image, patch, channels: 3 },
        wiring: Wiring::Pre,
        head: Head::Classify { labels, pool: Pool::First },
        dropout: Dropout { attention: 0.1, head: 0.0, ..Dropout::residual(0.1) },
        ..bert(1, width, layers, heads, max)
    }
}

fn tiny_alibi() -> Spec {
    let stack = Stack { window: Window::Every(8), ..Stack::new(2, 4, 64, Activation::Silu) };
    Spec { shape: Shape::Decoder(stack), position: Position::Alibi, ..gpt2(97, 32, 2, 4, 64) }
}

fn tiny_relative() -> Spec {
    Spec { position: Position::Relative(Buckets::Each { max: 4 }), ..bert(97, 32, 2, 4, 64) }
}

fn tiny_layerwise() -> Spec {
    let position = Position::Learned { max: 64, offset: 0, padding_id: None, place: Place::EachLayer };
    Spec { position, ..gpt2(97, 32, 2, 4, 64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_typing_errors_find_the_nearest() {
        let mut names: Vec<_> = ALL.iter().map(|p| p.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(find("bert-larg").err(), Some("bert-large"));
        assert_eq!(find("gtp2").err(), Some("gpt2"));
    }
}
