//! What a spec must be before it is built: every refusal names the place and a way out. Behind this everything trusts
//! the spec, and nothing fails.

use crate::spec::*;
use crate::{Error, Result};
use qkv_kernels::RecurrentCell;
use qkv_nn::Scale;
use qkv_nn::position::Buckets;
use qkv_nn::recurrent::Ways;

/// The most elements one axis may have, and the most parameters a network may have: what is beyond is a typing error.
pub(crate) const AXIS: usize = 1 << 28;
/// The most layers: each has a place in memory before any weight is there.
const LAYERS: usize = 10_000;
/// The widest head: each layer holds numbers for it before any weight is there.
const HEAD: usize = 1 << 16;
const PARAMETERS: u128 = 10_000_000_000_000;

impl Spec {
    /// Refuses a network that cannot be, before anything is allocated.
    pub fn check(&self) -> Result<()> {
        size("width", self.width)?;
        self.check_input()?;
        for (name, stack) in [("encoder", self.encoder()), ("decoder", self.decoder())] {
            if let Some(stack) = stack {
                self.check_stack(name, stack)?;
            }
        }
        self.check_position()?;
        self.check_scores()?;
        self.check_head()?;
        self.check_dropout()?;
        self.check_total()
    }

    fn check_input(&self) -> Result<()> {
        match self.input {
            Input::Tokens { vocabulary, table_width, .. } => {
                size("input.vocabulary", vocabulary)?;
                let Some(e) = table_width else { return Ok(()) };
                size("input.table_width", e)?;
                let (reads, place) = (matches!(self.shape, Shape::Encoder(_)), "input.table_width");
                ensure(reads && !matches!(self.head, Head::Language { .. }), place, || {
                    (
                        format!("tables of {e} in a network of {}: only an encoder can have them", self.width),
                        "leave it out".into(),
                    )
                })
            }
            Input::Patches { image, patch, channels } => {
                size("input.image", image)?;
                size("input.patch", patch)?;
                size("input.channels", channels)?;
                ensure(image.is_multiple_of(patch), "input.patch", || {
                    let what = format!("an image of {image} pixels cannot be cut into patches of {patch}");
                    (what, format!("choose a patch that divides {image}"))
                })?;
                ensure(matches!(self.shape, Shape::Encoder(_)), "input", || {
                    ("images can only be read by an encoder".into(), "use the shape `Encoder`".into())
                })
            }
        }
    }

    fn check_stack(&self, name: &str, stack: &Stack) -> Result<()> {
        let at = |key: &str| format!("{name}.{key}");
        size(&at("layers"), stack.layers)?;
        ensure(stack.layers <= LAYERS, at("layers"), || {
            (format!("{} is absurdly many", stack.layers), format!("use at most {LAYERS}"))
        })?;
        if let Some(cells) = stack.recurrent {
            self.check_recurrence(name, cells)?;
        }
        size(&at("heads"), stack.heads)?;
        size(&at("kv_heads"), stack.kv_heads)?;
        size(&at("ffn.inner"), stack.ffn.inner())?;
        let (heads, width) = (stack.heads, self.width);
        match stack.head_width {
            HeadWidth::Of(dim) => size(&at("head_width"), dim)?,
            HeadWidth::Share => ensure(width.is_multiple_of(heads), at("heads"), || {
                let what = format!("{heads} heads cannot share a width of {width} equally");
                let near = (1..=heads).rev().find(|h| width.is_multiple_of(*h)).unwrap_or(1);
                (what, format!("use {near} heads, or a width of {}", width.next_multiple_of(heads)))
            })?,
        }
        let dim = stack.heads(width).dim;
        ensure(dim <= HEAD, at("head_width"), || {
            (format!("heads of {dim} are absurdly wide"), format!("use at most {HEAD}, or more heads"))
        })?;
        ensure(heads.is_multiple_of(stack.kv_heads), at("kv_heads"), || {
            let what = format!("{} key heads cannot serve {heads} query heads equally", stack.kv_heads);
            (what, format!("choose a number that divides {heads}"))
        })?;
        ensure(stack.window.size() != Some(0), at("window"), || {
            ("a window of 0 sees nothing, not even itself".into(), "use 1 or more, or leave it out".into())
        })?;
        let often = if let Window::Alternating { full_every, .. } = stack.window { full_every } else { 2 };
        ensure(often >= 2, at("window"), || {
            (format!("a window in all layers but every {often}th means nothing"), "use 2 or more".into())
        })?;
        ensure(stack.window == Window::None || name == "decoder", at("window"), || {
            ("only a decoder can have a window".into(), "leave it out".into())
        })
    }

    fn check_recurrence(&self, name: &str, cells: Recurrence) -> Result<()> {
        let at = || format!("{name}.recurrent");
        let both = cells.ways == Ways::Both;
        let pair = match &self.shape {
            Shape::Pair { encoder, decoder } => {
                let like = |s: &Stack| s.recurrent.map(|r| (r.cell, r.handover, s.layers));
                ensure(like(encoder) == like(decoder), at(), || {
                    let what = "both sides of a recurrent pair have the same cells, as many layers and one handover";
                    (what.into(), "make them alike".into())
                })?;
                true
            }
            _ => false,
        };
        ensure(pair == cells.handover.is_some(), at(), || {
            ("something is handed over in a pair, and only there".into(), "say what, or leave it out".into())
        })?;
        ensure(both == (name == "encoder" && cells.handover != Some(Handover::State)), at(), || {
            (
                "an encoder reads both ways unless its state is handed over, a decoder forward".into(),
                "turn it around".into(),
            )
        })?;
        ensure(cells.handover != Some(Handover::Attention) || cells.cell == RecurrentCell::Gru, at(), || {
            ("only gated units look at a memory".into(), "use the GRU".into())
        })?;
        ensure(!both || self.width.is_multiple_of(2), "width", || {
            (format!("two directions cannot share a width of {}", self.width), "use an even width".into())
        })?;
        if let Some(window) = cells.window {
            size(&at(), window)?;
            let one = matches!(&self.shape, Shape::Decoder(stack) if stack.layers == 1);
            ensure(one && window <= LAYERS, at(), || {
                let what =
                    format!("a window of {window} tokens is for one layer that writes, and for {LAYERS} at most");
                (what, "use one layer, and a smaller window".into())
            })?;
        }
        ensure(self.position == Position::None, "position", || {
            ("recurrent layers are told the order by reading".into(), "use no positions".into())
        })
    }

    fn check_position(&self) -> Result<()> {
        if let Some(max) = self.position.max() {
            size("position.max", max)?;
            let patches = self.patches().unwrap_or(0);
            ensure(patches <= max, "position.max", || {
                (format!("an image becomes {patches} tokens, but there are {max} positions"), format!("use {patches}"))
            })?;
        }
        match &self.position {
            Position::Learned { padding_id: Some(id), offset: 0, .. } => Err(Error::new(
                "position.offset",
                format!("tokens of id {id} are not counted, but there is no row for them before the first"),
                "use an offset of at least 1",
            )),
            Position::Rotary { theta, features, window_theta, .. } => {
                for theta in std::iter::once(theta).chain(window_theta) {
                    ensure(theta.is_finite() && *theta > 0.0, "position.theta", || {
                        (
                            format!("{theta} is not a base for frequencies"),
                            "use a positive number, usually 10000".into(),
                        )
                    })?;
                }
                for stack in [self.encoder(), self.decoder()].into_iter().flatten() {
                    let dim = stack.heads(self.width).dim;
                    let turned = features.unwrap_or(dim);
                    ensure(turned.is_multiple_of(2) && turned > 0 && turned <= dim, "position.features", || {
                        let what = format!("{turned} features cannot be turned in pairs in heads of {dim}");
                        (what, format!("use an even number up to {dim}"))
                    })?;
                }
                Ok(())
            }
            Position::Relative(Buckets::Logarithmic { buckets, max_distance, .. }) => {
                ensure(*buckets >= 4 && max_distance * 4 > *buckets, "position.buckets", || {
                    let what = format!("{buckets} buckets cannot cover distances up to {max_distance}");
                    (what, "use at least 4 buckets, and a distance beyond the exact ones".into())
                })
            }
            Position::Relative(Buckets::Each { max }) => size("position.max", *max),
            _ => Ok(()),
        }
    }

    fn check_scores(&self) -> Result<()> {
        let SoftCap { attention, logits } = self.soft_cap;
        for (key, cap) in [("attention", attention), ("logits", logits)] {
            ensure(cap.is_none_or(|c| c.is_finite() && c > 0.0), format!("soft_cap.{key}"), || {
                (format!("{} is not a cap", cap.unwrap_or(0.0)), "use a positive number, or leave it out".into())
            })?;
        }
        ensure(logits.is_none() || matches!(self.head, Head::Language { .. } | Head::None), "soft_cap.logits", || {
            ("only a language head's logits can be capped".into(), "leave it out".into())
        })?;
        ensure(self.qk_norm.is_none() || !matches!(self.shape, Shape::Pair { .. }), "qk_norm", || {
            ("attention to a memory has no norms on queries and keys".into(), "leave it out".into())
        })?;
        ensure(self.attention_scale != Scale::InverseRootOf(0), "attention_scale", || {
            ("1/√0 is infinite".into(), "use 1 or more".into())
        })
    }

    fn check_head(&self) -> Result<()> {
        match &self.head {
            Head::Classify { labels, .. } | Head::Tag { labels } => size("head.labels", *labels),
            Head::Language { .. } | Head::Masked { .. } if self.vocabulary().is_none() => Err(Error::new(
                "head",
                "a language head needs a vocabulary, but images come in",
                "use `Classify`, `Pool` or `None`",
            )),
            Head::Masked { .. } if self.decoder().is_some() => {
                Err(Error::new("head", "a masked-language head needs an encoder alone", "use `Language`"))
            }
            Head::Detect { .. } if self.vocabulary().is_none() => {
                Err(Error::new("head", "images have no tokens that could be replaced", "use `Classify`"))
            }
            _ => Ok(()),
        }
    }

    fn check_dropout(&self) -> Result<()> {
        let Dropout { input, hidden, attention, inner, head } = self.dropout;
        let all = [("input", input), ("hidden", hidden), ("attention", attention), ("inner", inner), ("head", head)];
        for (key, p) in all {
            ensure((0.0..1.0).contains(&p), format!("dropout.{key}"), || {
                (
                    format!("{p} is not a probability of dropping"),
                    "use a number from 0 up to, but not including, 1".into(),
                )
            })?;
        }
        Ok(())
    }

    fn check_total(&self) -> Result<()> {
        let [c, v] = [self.width, self.vocabulary().unwrap_or(0)].map(|n| n as u128);
        let of = |stack: &Stack| {
            let heads = stack.heads(self.width);
            let (hd, f) = ((heads.heads * heads.dim) as u128, stack.ffn.inner() as u128);
            stack.layers as u128 * (4 * c * hd + 3 * c * f)
        };
        let stacks: u128 = [self.encoder(), self.decoder()].into_iter().flatten().map(of).sum();
        let total = stacks + 2 * c * v;
        ensure(total <= PARAMETERS, "spec", || {
            let what = format!("about {:.1e} parameters is more than any network has", total as f64);
            (what, "look for a size with too many digits".into())
        })
    }
}

/// An axis must have a length, and one that can be meant.
fn size(place: &str, n: usize) -> Result<()> {
    ensure(n > 0, place, || ("must not be 0".into(), "use 1 or more".into()))?;
    ensure(n <= AXIS, place, || (format!("{n} is absurdly large"), format!("use at most {AXIS}")))
}

fn ensure(ok: bool, place: impl Into<String>, why: impl FnOnce() -> (String, String)) -> Result<()> {
    if ok {
        return Ok(());
    }
    let (what, hint) = why();
    Err(Error::new(place, what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn broken(name: &str, change: impl FnOnce(&mut Spec)) -> String {
        let mut spec = presets::find(name).expect("a preset").spec();
        change(&mut spec);
        let error = spec.check().expect_err("a spec that cannot be");
        assert!(!error.hint.is_empty());
        error.to_string()
    }

    fn decoder(spec: &mut Spec) -> &mut Stack {
        match &mut spec.shape {
            Shape::Encoder(stack) | Shape::Decoder(stack) | Shape::Pair { decoder: stack, .. } => stack,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let d = "tiny-decoder";
        assert_eq!(broken(d, |s| decoder(s).layers = 0), "decoder.layers: must not be 0");
        assert_eq!(broken(d, |s| s.width = 0), "width: must not be 0");
        assert_eq!(
            broken("tiny-llama", |s| decoder(s).kv_heads = 3),
            "decoder.kv_heads: 3 key heads cannot serve 4 query heads equally"
        );
        let vocabulary = |n| {
            move |s: &mut Spec| {
                s.input = Input::Tokens {
                    vocabulary: n,
                    table_width: None,
                    token_types: 0,
                    scaled: false,
                    normed: false,
                    pad: None,
                }
            }
        };
        assert_eq!(broken(d, vocabulary(0)), "input.vocabulary: must not be 0");
        assert_eq!(broken(d, vocabulary(usize::MAX)), format!("input.vocabulary: {} is absurdly large", usize::MAX));
        assert!(
            broken(d, |s| {
                s.width = 1 << 27;
                decoder(s).layers = 1 << 13;
                (decoder(s).heads, decoder(s).kv_heads) = (1 << 13, 1 << 13);
            })
            .contains("more than any network")
        );
        // Held in memory by every layer before any weight is: refused at once.
        assert!(broken(d, |s| decoder(s).head_width = HeadWidth::Of(270_000_000)).contains("absurdly"));
        assert!(broken(d, |s| decoder(s).head_width = HeadWidth::Of(100_000)).contains("absurdly wide"));
        assert_eq!(broken(d, |s| s.dropout.hidden = 1.0), "dropout.hidden: 1 is not a probability of dropping");
        assert_eq!(broken(d, |s| s.dropout.inner = f64::NAN), "dropout.inner: NaN is not a probability of dropping");
        assert!(
            broken("tiny-vit", |s| s.input = Input::Patches { image: 10, patch: 4, channels: 3 })
                .contains("cannot be cut")
        );
        assert!(broken(d, |s| decoder(s).window = Window::Every(0)).contains("sees nothing"));
        let alternating = |n| Window::Alternating { window: 4, full_every: n };
        assert!(broken(d, |s| decoder(s).window = alternating(1)).contains("means nothing"));
        assert!(broken(d, |s| s.soft_cap.attention = Some(0.0)).contains("is not a cap"));
        assert!(broken("tiny-t5", |s| s.qk_norm = Some(s.norm)).contains("no norms on queries"));
        assert!(
            broken(d, |s| match &mut s.input {
                Input::Tokens { table_width, .. } => *table_width = Some(16),
                Input::Patches { .. } => unreachable!(),
            })
            .contains("only an encoder")
        );
        assert!(broken("tiny-llama", |s| s.width = 12).contains("cannot be turned in pairs"));
    }

    #[test]
    fn every_preset_can_be() {
        for preset in presets::ALL {
            assert_eq!(preset.spec().check(), Ok(()), "{}", preset.name);
        }
    }
}
