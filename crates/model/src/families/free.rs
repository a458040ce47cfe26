//! What no family has a word for: a Transformer whose `config.json` holds its whole spec (`model_type: "qkv-transformer"`).
//! It began as some family (`base_family`), whose way with text it keeps: tokenizer, framing, start tokens. Tensors have the
//! paths that they have here, with PyTorch's words for their ends: `decoder.layers.0.attention.q.weight`.
//!
//! ```
//! use qkv_model::families::{self, Files};
//! use qkv_model::{presets, spec::Position};
//! let sheet = families::named("gpt2").unwrap();
//! let mut spec = presets::find("tiny-decoder").unwrap().spec();
//! spec.position = Position::Alibi;
//! assert!(sheet.config(&spec, None, &Files::default()).is_err()); // GPT-2's words cannot say it
//! let free = families::free(sheet).unwrap();
//! let config = free.config(&spec, None, &Files::default()).unwrap();
//! assert_eq!((free.read)(&config, &Files::default()).unwrap(), spec);
//! ```

use super::{Config, HeadKind, LinearLayout, Sheet, name_labels};
use super::{bart, bert, distilbert, electra, gemma2, gemma3, gpt2, llama, marian, qwen3, roberta, t5, vit};
use crate::Result;
use crate::spec::{Head, Spec};
use qkv_weights::Names;

/// What `model_type` is.
pub(super) const NAME: &str = "qkv-transformer";
/// Which family it began as.
const BASE: &str = "base_family";

/// The sheet of networks that began as `$family`.
macro_rules! began_as {
    ($family:ident) => {
        (
            &$family::SHEET,
            &Sheet {
                name: NAME,
                model_types: &[NAME],
                read: |config, _| read(&$family::SHEET, config),
                write: |spec, config| write($family::SHEET.name, spec, config),
                names,
                linear: LinearLayout::OutIn,
                gguf: None,
                ..$family::SHEET
            },
        )
    };
}

/// Families of Transformers, each with the sheet of what it can become.
const ALL: &[(&Sheet, &Sheet)] = &[
    began_as!(bert),
    began_as!(roberta),
    began_as!(distilbert),
    began_as!(electra),
    began_as!(gpt2),
    began_as!(llama),
    began_as!(qwen3),
    began_as!(gemma2),
    began_as!(gemma3),
    began_as!(t5),
    began_as!(bart),
    began_as!(marian),
    began_as!(vit),
];

/// The sheet of networks that began as one of `sheet`'s and are none any more; recurrent families have none.
pub fn free(sheet: &Sheet) -> Option<&'static Sheet> {
    ALL.iter().find(|(base, _)| base.name == sheet.name).map(|(_, free)| *free)
}

/// The sheet of a configuration of this kind.
pub(super) fn of(config: &Config) -> Result<&'static Sheet> {
    let names = || ALL.iter().map(|(base, _)| base.name);
    let list = || format!("supported: {}", names().collect::<Vec<_>>().join(", "));
    let Some(base) = config.word(BASE)? else { return Err(config.error(BASE, "is missing", list())) };
    ALL.iter()
        .find(|(sheet, _)| sheet.name == base)
        .map(|(_, free)| *free)
        .ok_or_else(|| config.error(BASE, format!("`{base}` is not supported"), list()))
}

/// The family that a network of this kind began as.
pub fn base_family(config: &Config) -> Option<&str> {
    config.word(BASE).ok().flatten().filter(|_| config.word("model_type").ok().flatten() == Some(NAME))
}

fn read(base: &Sheet, config: &Config) -> Result<Spec> {
    let Some(value) = config.get("spec") else {
        return Err(config.error("spec", "is missing", "the network's description stands there"));
    };
    let spec: Spec = serde_json::from_value(value.clone())
        .map_err(|e| config.error("spec", e.to_string(), "was the file edited? qkv writes it"))?;
    let (says, is) = (base.task(config)?, HeadKind::of(&spec.head));
    if says != is {
        let what = format!("says {says:?}, but the spec's head is for {is:?}");
        return Err(config.error("architectures", what, "make them agree"));
    }
    Ok(spec)
}

fn write(base: &str, spec: &Spec, config: &mut Config) -> Result<()> {
    let value = serde_json::to_value(spec)
        .map_err(|e| crate::Error::new("spec", e.to_string(), "a number in it is not finite"))?;
    config.set("model_type", NAME);
    config.set(BASE, base);
    config.set("spec", value);
    config.set("vocab_size", spec.vocabulary().unwrap_or(0));
    if spec.encoder().is_some() && spec.decoder().is_some() {
        config.set("is_encoder_decoder", true);
    }
    if let Head::Classify { labels, .. } | Head::Tag { labels } = spec.head {
        name_labels(config, labels);
    }
    Ok(())
}

/// Everything has its own path.
fn names(_: &Spec, _: &Config) -> Names {
    const BLOCK: &[&str] = &[
        "attention.q",
        "attention.k",
        "attention.v",
        "attention.out",
        "attention.q_norm",
        "attention.k_norm",
        "norm_self",
        "norm_self_after",
        "cross.q",
        "cross.k",
        "cross.v",
        "cross.out",
        "norm_cross",
        "norm_cross_after",
        "ffn.up",
        "ffn.gate",
        "ffn.down",
        "norm_ffn",
        "norm_ffn_after",
    ];
    const STACK: &[&str] =
        &["token_types", "positions.table", "norm_input", "project", "each.*.table", "relative.table", "norm"];
    const REST: &[&str] = &["tokens", "patches.embed.project", "head.dense", "head.norm", "head.out", "head"];
    let mut paths: Vec<String> = REST.iter().map(|path| path.to_string()).collect();
    for stack in ["encoder", "decoder"] {
        paths.extend(STACK.iter().map(|path| format!("{stack}.{path}")));
        paths.extend(BLOCK.iter().map(|path| format!("{stack}.layers.*.{path}")));
    }
    let names = Names::new().exact("patches.class", "patches.class");
    paths.iter().fold(names, |names, path| names.module(path, path))
}

#[cfg(test)]
mod tests {
    use super::super::Files;
    use super::super::choices::*;
    use super::super::sizes::tests::sizes_of;
    use super::*;
    use crate::{Pretrained, Transformer, count};
    use burn::tensor::Device;
    use qkv_weights::Dtype;

    /// Every choice that there is, one at a time.
    fn all() -> Vec<(&'static str, Choices)> {
        use {PositionChoice as P, WiringChoice as W};
        let none = Choices::default;
        let mut all: Vec<(&'static str, Choices)> = [
            P::None,
            P::Sinusoidal,
            P::Interleaved,
            P::Learned,
            P::EachLayer,
            P::Offset,
            P::Buckets,
            P::Rope,
            P::Alibi,
        ]
        .into_iter()
        .map(|position| ("position", Choices { position, ..none() }))
        .collect();
        all.extend(
            [NormChoice::Layer, NormChoice::Rms, NormChoice::None].map(|norm| ("norm", Choices { norm, ..none() })),
        );
        all.extend([W::Pre, W::Post, W::Sandwich].map(|wiring| ("wiring", Choices { wiring, ..none() })));
        all.push(("activation", Choices { activation: "tanh".into(), ..none() }));
        for on in [Switch::On, Switch::Off] {
            all.push(("gated", Choices { gated: on, ..none() }));
            all.push(("bias", Choices { bias: on, ..none() }));
            all.push(("tie", Choices { tie: on, ..none() }));
        }
        all.extend([ScaleChoice::Root, ScaleChoice::One].map(|scale| ("scale", Choices { scale, ..none() })));
        let masks = [MaskChoice::Causal, MaskChoice::None, MaskChoice::Window(8)];
        all.extend(masks.map(|mask| ("mask", Choices { mask, ..none() })));
        all.push(("kv_heads", Choices { kv_heads: 2, ..none() }));
        all.push(("head_dim", Choices { head_dim: 16, ..none() }));
        all
    }

    /// Each choice is honoured or refused under its key in every family; what is honoured can be built, named and written,
    /// by the family or by its free sheet, and read back as it was.
    #[test]
    fn every_choice_is_honoured_or_refused_in_every_family() {
        for sheet in super::super::ALL {
            let sizes = sizes_of(sheet);
            let plain = (sheet.sizes)(&sizes).expect("a spec");
            for (key, choices) in all() {
                assert_eq!(choices.chosen(), [key]);
                let spec = match choices.apply(sheet, plain.clone(), sizes.positions) {
                    Ok(spec) => spec,
                    Err(error) => {
                        assert_eq!(error.place, format!("model.{key}"), "{}", sheet.name);
                        assert!(!error.hint.is_empty());
                        continue;
                    }
                };
                let Some(free) = free(sheet) else { panic!("a recurrent {} took {key}", sheet.name) };
                // T5's heads share less than they seem to; what cannot be is said by the check.
                if let Err(error) = spec.check() {
                    panic!("{} with {choices:?}: {error}", sheet.name);
                }
                let config = free.config(&spec, None, &Files::default()).expect("its own words");
                let text = config.text();
                let back = Config::parse("config.json", text.as_bytes()).expect("JSON");
                let found = super::super::of(&back).expect("a family");
                assert_eq!((found.read)(&back, &Files::default()).expect("a spec"), spec, "{}: {key}", sheet.name);
                let model = Transformer::new(&spec, 1, &Device::flex()).expect("a network");
                let slots = (free.names)(&spec, &config).slots(&count::parameters(&model));
                slots.unwrap_or_else(|e| panic!("{} with {choices:?}: {e}", sheet.name));
            }
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let sheet = &gpt2::SHEET;
        let sizes = sizes_of(sheet);
        let choices = Choices { position: PositionChoice::Alibi, norm: NormChoice::None, ..Choices::default() };
        let spec = choices.apply(sheet, (sheet.sizes)(&sizes).expect("a spec"), 64).expect("a spec");
        let made = Pretrained::new(free(sheet).expect("free"), &spec, None, 3, &Device::flex()).expect("a network");
        let dir = tempfile::tempdir().expect("a directory");
        made.save(dir.path(), Dtype::F32, u64::MAX).expect("saved");
        let back = Pretrained::load(dir.path(), &Device::flex()).expect("loaded");
        assert_eq!(back.spec(), &spec);
        assert_eq!((back.sheet.name, base_family(&back.config)), (NAME, Some("gpt2")));
        let say = |it: &Pretrained| {
            use crate::{CausalLm, Tokens};
            let tokens = Tokens::new(qkv_kernels::Ids::one([5, 6, 7]));
            qkv_testkit::values(it.model.logits(&tokens, &mut qkv_nn::Cx::eval()).expect("logits"))
        };
        assert_eq!(say(&back), say(&made));
    }

    #[test]
    fn a_damaged_description_is_refused() {
        let say = |text: &str| {
            let config = Config::parse("config.json", text.as_bytes())?;
            (super::super::of(&config)?.read)(&config, &Files::default())
        };
        let kind = r#""model_type": "qkv-transformer""#;
        assert!(say(&format!("{{{kind}}}")).unwrap_err().place.ends_with("base_family"));
        assert!(say(&format!(r#"{{{kind}, "base_family": "lstm"}}"#)).unwrap_err().hint.contains("gpt2"));
        let gpt2 = format!(r#"{kind}, "base_family": "gpt2""#);
        assert!(say(&format!("{{{gpt2}}}")).unwrap_err().place.ends_with("spec"));
        assert!(say(&format!(r#"{{{gpt2}, "spec": {{"width": 3}}}}"#)).unwrap_err().what.contains("missing field"));
    }
}
