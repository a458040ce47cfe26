//! The sizes of a new network, as a recipe may set them. Each sheet makes its own spec of them; a size that a family
//! does not have is refused under the name of its key, never ignored.

use crate::spec::{Dropout, InitScheme, Input, Shape, Spec};
use crate::{Error, Result};
use qkv_nn::Ffn;

/// What a recipe may say about a new network.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// V
    pub vocabulary: usize,
    /// the token of padding
    pub pad: Option<u32>,
    /// C
    pub width: usize,
    /// blocks of each stack
    pub layers: usize,
    /// H
    pub heads: usize,
    /// G; `None`: as many as heads
    pub kv_heads: Option<usize>,
    /// F; `None`: four times the width
    pub inner: Option<usize>,
    /// the longest sequence
    pub positions: usize,
    /// probability of dropping
    pub dropout: f64,
    /// standard deviation of the weights at the start; `None`: what suits the width
    pub std: Option<f64>,
    /// what pictures are like, where pictures come in
    pub pictures: Option<Pictures>,
    /// classes, where there are any
    pub labels: usize,
    /// how many tokens are seen at once, where that is all that is seen; `None`: what the family is used to
    pub window: Option<usize>,
}

/// What pictures are like.
#[derive(Clone, Copy, Debug)]
pub struct Pictures {
    /// height and width
    pub image: usize,
    /// height and width of a patch
    pub patch: usize,
    /// colours
    pub channels: usize,
}

impl Sizes {
    /// A network that reads tokens, without dropout and labels, all else as the family is used to.
    pub fn of_tokens(vocabulary: usize, width: usize, layers: usize, heads: usize, positions: usize) -> Self {
        Self {
            vocabulary,
            pad: None,
            width,
            layers,
            heads,
            kv_heads: None,
            inner: None,
            positions,
            dropout: 0.0,
            std: None,
            pictures: None,
            labels: 0,
            window: None,
        }
    }

    /// F, the width of the feed-forward.
    pub(super) fn inner(&self) -> usize {
        self.inner.unwrap_or(4 * self.width)
    }

    /// A family that reads text.
    pub(super) fn of_text(&self, family: &str) -> Result<()> {
        self.no_window(family)?;
        match self.pictures {
            None => Ok(()),
            Some(_) => {
                let what = format!("a {family} reads text, but the corpus is pictures");
                Err(Error::new("model.family", what, "choose a family that looks at pictures"))
            }
        }
    }

    /// A family that sees more than the last few tokens.
    pub(super) fn no_window(&self, family: &str) -> Result<()> {
        match self.window {
            None => Ok(()),
            Some(n) => {
                let what = format!("a {family} sees more than the last {n} tokens");
                Err(Error::new("model.window", what, "leave it at 0; a mask with a window is model.mask"))
            }
        }
    }

    /// A family in which every head has keys and values of its own.
    pub(super) fn no_kv_heads(&self, family: &str) -> Result<()> {
        match self.kv_heads {
            Some(n) if n != self.heads => {
                let what = format!("in a {family} each of the {} heads has keys of its own, not {n}", self.heads);
                Err(Error::new("model.kv_heads", what, "leave it at 0, or choose a family whose heads share keys"))
            }
            _ => Ok(()),
        }
    }

    /// The deviation of the weights at the start: as asked for, or half of 1/√C.
    ///
    /// The papers' 0.02 is that for their widths (0.018 at 768); a narrow network learns slowly from it: a BERT of 256
    /// foretold 57 % of the hidden pieces after 1,500 steps, and 67 % from 0.031. Glorot's start of the 2017 paper is too
    /// loud for a residual stream behind norms: after 700 steps on Tatoeba, 256 wide, the validation loss was 3.23 from
    /// it, 2.90 from 0.02, 2.70 from 0.031.
    pub(super) fn std(&self) -> f64 {
        self.std.unwrap_or(0.5 / (self.width as f64).sqrt())
    }

    /// Gaussian weights of that deviation.
    pub(super) fn normal(&self) -> InitScheme {
        InitScheme::Normal { std: self.std() }
    }

    /// Dropout of embeddings, sub-layers, heads and attention weights.
    pub(super) fn everywhere(&self) -> Dropout {
        Dropout { attention: self.dropout, ..Dropout::residual(self.dropout) }
    }

    /// Names the token of padding, whose vector then is not learnt.
    pub(super) fn padded(&self, mut spec: Spec) -> Spec {
        if let Input::Tokens { pad, .. } = &mut spec.input {
            *pad = self.pad;
        }
        spec
    }

    /// Gives every stack its feed-forward width.
    pub(super) fn widened(&self, mut spec: Spec) -> Spec {
        let set = |ffn: &mut Ffn| {
            let (Ffn::Dense { inner, .. } | Ffn::Gated { inner, .. }) = ffn;
            *inner = self.inner();
        };
        match &mut spec.shape {
            Shape::Encoder(stack) | Shape::Decoder(stack) => set(&mut stack.ffn),
            Shape::Pair { encoder, decoder } => [encoder, decoder].into_iter().for_each(|s| set(&mut s.ffn)),
        }
        spec
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::families::{self, HeadKind};

    pub(crate) const SMALL: Sizes = Sizes {
        vocabulary: 97,
        pad: Some(0),
        width: 32,
        layers: 2,
        heads: 4,
        kv_heads: None,
        inner: None,
        positions: 64,
        dropout: 0.1,
        std: None,
        pictures: None,
        labels: 3,
        window: None,
    };

    /// Sizes that the family accepts, of text or pictures.
    pub(crate) fn sizes_of(sheet: &families::Sheet) -> Sizes {
        let sizes = match sheet.architectures[0].1 {
            HeadKind::Classify => Sizes { pictures: Some(Pictures { image: 12, patch: 4, channels: 3 }), ..SMALL },
            _ => SMALL,
        };
        match (sheet.sizes)(&sizes) {
            Err(error) if error.place == "model.heads" => {
                let one = Sizes { heads: 1, ..sizes }; // there is no attention
                if (sheet.sizes)(&one).is_err() { Sizes { layers: 1, ..one } } else { one }
            }
            _ => sizes,
        }
    }

    /// Every size does what it says or is refused: none is ignored.
    #[test]
    fn every_size_is_honoured_or_refused() {
        for sheet in families::ALL {
            let name = sheet.name;
            let make = |sizes: Sizes| (sheet.sizes)(&sizes);
            let sizes = sizes_of(sheet);
            let plain = make(sizes).unwrap_or_else(|e| panic!("{name}: {e}"));
            plain.check().unwrap_or_else(|e| panic!("{name}: {e}"));
            let changes: [(&str, Sizes); 8] = [
                ("model.window", Sizes { window: Some(5), ..sizes }),
                ("model.width", Sizes { width: 64, ..sizes }),
                ("model.layers", Sizes { layers: 3, ..sizes }),
                ("model.heads", Sizes { heads: 2, ..sizes }),
                ("model.kv_heads", Sizes { kv_heads: Some(2), ..sizes }),
                ("model.inner", Sizes { inner: Some(48), ..sizes }),
                ("model.dropout", Sizes { dropout: 0.3, ..sizes }),
                ("model.start", Sizes { std: Some(0.5), ..sizes }),
            ];
            for (key, changed) in changes {
                match make(changed) {
                    Ok(spec) => assert_ne!(spec, plain, "{name} ignores {key}"),
                    Err(error) => {
                        assert_eq!(error.place, key, "{name}: {error}");
                        assert!(!error.hint.is_empty(), "{name}: {key}");
                    }
                }
            }
        }
    }

    /// What is made from sizes is a network of the family: its words can say it.
    #[test]
    fn what_is_made_can_be_written() {
        for sheet in families::ALL {
            let spec = (sheet.sizes)(&sizes_of(sheet)).unwrap_or_else(|e| panic!("{}: {e}", sheet.name));
            let own = matches!(spec.head, crate::spec::Head::Language { output: crate::spec::Output::Own, .. });
            let files = families::Files::new(own.then_some("lm_head.weight"));
            sheet.config(&spec, None, &files).unwrap_or_else(|e| panic!("{}: {e}", sheet.name));
        }
    }
}
