//! A whole architecture, said in data. Choices are enums that carry what belongs to them; a [`Spec`] that passes
//! [`Spec::check`] can be built, and everything downstream trusts it.
//!
//! ```
//! use qkv_model::{Spec, presets};
//! let mut spec = presets::find("tiny-decoder").unwrap().spec();
//! assert!(spec.check().is_ok());
//! spec.width = 30; // four heads cannot share 30 features
//! let error = spec.check().unwrap_err();
//! assert_eq!(error.to_string(), "decoder.heads: 4 heads cannot share a width of 30 equally");
//! ```

use crate::{Error, Result};
use qkv_kernels::{Activation, Pairing};
use qkv_nn::position::{Buckets, RopeScaling, Waves};
use qkv_nn::{Biased, Ffn, Heads, NormKind, Scale, Wiring};

/// One architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// what comes in
    pub input: Input,
    /// C, the width of the residual stream
    pub width: usize,
    /// which stacks there are
    pub shape: Shape,
    /// where the norm stands; pre-norm stacks end in a norm of their own
    pub wiring: Wiring,
    /// which norm
    pub norm: NormKind,
    /// how order is told
    pub position: Position,
    /// which attention projections have a bias
    pub attention_bias: Biased,
    /// what the dot products are multiplied by
    pub attention_scale: Scale,
    /// the norm of each head of queries and keys, where there is one
    pub qk_norm: Option<NormKind>,
    /// what keeps scores and logits from growing
    pub soft_cap: SoftCap,
    /// whether the feed-forward layers have biases
    pub ffn_bias: bool,
    /// what comes out
    pub head: Head,
    /// what is dropped while training
    pub dropout: Dropout,
    /// how parameters start
    pub init: InitScheme,
}

/// What comes in.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// token ids
    Tokens {
        /// V
        vocabulary: usize,
        /// E, the width of the tables at the input where it is not C: a layer then leads from E to C
        table_width: Option<usize>,
        /// how many types of token (segments) have a vector of their own; 0: none
        token_types: usize,
        /// whether embeddings are multiplied by √C
        scaled: bool,
        /// whether embeddings are normalised
        normed: bool,
        /// the token whose vector is not learned from being read: padding
        pad: Option<u32>,
    },
    /// square images in patches, behind one learned class vector
    Patches {
        /// height and width
        image: usize,
        /// height and width of a patch
        patch: usize,
        /// colours
        channels: usize,
    },
}

/// Which stacks there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// reads (BERT, ViT)
    Encoder(Stack),
    /// continues (GPT, LLaMA)
    Decoder(Stack),
    /// reads one sequence and writes another (the 2017 paper, T5, BART, Marian)
    Pair {
        /// the reader
        encoder: Stack,
        /// the writer
        decoder: Stack,
    },
}

/// A stack of equal blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// how many blocks
    pub layers: usize,
    /// H
    pub heads: usize,
    /// G, divides H
    pub kv_heads: usize,
    /// D
    pub head_width: HeadWidth,
    /// the feed-forward
    pub ffn: Ffn,
    /// how far back a decoder sees
    pub window: Window,
}

/// How far back a decoder sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// to the beginning
    #[default]
    None,
    /// so many positions, itself included
    Every(usize),
    /// so many positions, but in every n-th layer to the beginning
    Alternating {
        /// how many positions, itself included
        window: usize,
        /// n
        full_every: usize,
    },
}

impl Window {
    /// The positions that layer i (from 0) sees, where it does not see to the beginning.
    ///
    /// ```
    /// use qkv_model::spec::Window;
    /// let gemma2 = Window::Alternating { window: 4096, full_every: 2 };
    /// assert_eq!([0, 1, 2].map(|i| gemma2.of_layer(i)), [Some(4096), None, Some(4096)]);
    /// ```
    pub fn of_layer(self, layer: usize) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Every(n) => Some(n),
            Self::Alternating { full_every, .. } if (layer + 1).is_multiple_of(full_every.max(1)) => None,
            Self::Alternating { window, .. } => Some(window),
        }
    }

    /// The positions that a layer with a window sees.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Every(window) | Self::Alternating { window, .. } => Some(window),
        }
    }
}

/// `cap·tanh(x/cap)` keeps x within `±cap` (Gemma 2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoftCap {
    /// of the scaled dot products of attention
    pub attention: Option<f64>,
    /// of the logits of a language head
    pub logits: Option<f64>,
}

/// D
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadWidth {
    /// C/H
    Share,
    /// this, whatever C is
    Of(usize),
}

impl Stack {
    /// Blocks with H heads that share the width, and a dense feed-forward.
    pub fn new(layers: usize, heads: usize, inner: usize, act: Activation) -> Self {
        let ffn = Ffn::Dense { inner, act };
        Self { layers, heads, kv_heads: heads, head_width: HeadWidth::Share, ffn, window: Window::None }
    }

    /// The heads of a checked spec of this width.
    pub fn heads(&self, width: usize) -> Heads {
        let dim = match self.head_width {
            HeadWidth::Share => width / self.heads,
            HeadWidth::Of(dim) => dim,
        };
        Heads { heads: self.heads, kv_heads: self.kv_heads, dim }
    }
}

/// How order is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Position {
    /// not at all
    None,
    /// fixed waves added to the input
    Sinusoidal {
        /// the longest sequence
        max: usize,
        /// their order in a row
        waves: Waves,
    },
    /// learned vectors
    Learned {
        /// the longest sequence
        max: usize,
        /// unused rows at the front of the table
        offset: usize,
        /// tokens of this id are not counted, and all take the row before the first (RoBERTa's padding)
        padding_id: Option<u32>,
        /// where they are added
        place: Place,
    },
    /// a learned number per head and distance, added to the scores of every layer
    ///
    /// Whether T5's buckets look both ways follows from the stack: an encoder does, a decoder does not.
    Relative(Buckets),
    /// queries and keys turned
    Rotary {
        /// the longest sequence
        max: usize,
        /// the base θ
        theta: f64,
        /// how many features of a head are turned; `None`: all
        features: Option<usize>,
        /// how frequencies are changed
        scaling: RopeScaling,
        /// which features make a pair
        pairing: Pairing,
        /// θ of the layers that see through a window, unscaled; `None`: as the others
        window_theta: Option<f64>,
    },
    /// a fixed slope per head
    Alibi,
}

impl Position {
    /// The longest sequence, if there is a limit.
    pub fn max(&self) -> Option<usize> {
        match self {
            Self::Sinusoidal { max, .. } | Self::Learned { max, .. } | Self::Rotary { max, .. } => Some(*max),
            Self::None | Self::Relative(_) | Self::Alibi => None,
        }
    }
}

/// Where learned positions are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// once, to the embeddings
    Input,
    /// before each layer, each with a table of its own
    EachLayer,
}

/// What comes out.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// hidden states `[B, T, C]`
    None,
    /// a score for each word of the vocabulary at each position
    Language {
        /// where the output weights come from
        output: Output,
        /// whether there is an output bias
        bias: bool,
    },
    /// BERT's: dense, activation and norm, then the tied vocabulary with a bias
    Masked {
        /// the activation
        act: Activation,
    },
    /// one answer for the sequence, from its first position
    Classify {
        /// how many classes
        labels: usize,
        /// what stands before the classifier
        pool: Pool,
    },
    /// one answer for each position
    Tag {
        /// how many tags
        labels: usize,
    },
    /// start and end scores for each position
    Span,
    /// ELECTRA's: one score for each position, above 0 where the token was replaced; dense and activation before it
    Detect {
        /// the activation
        act: Activation,
    },
    /// one vector for the sequence
    Pool,
}

/// Where the output weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// a matrix of its own
    Own,
    /// the token embeddings
    Tied,
    /// the token embeddings, with hidden states multiplied by 1/√C (T5)
    TiedScaled,
}

/// What stands between the first position and the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// nothing (ViT)
    First,
    /// a dense layer and an activation (BERT: tanh)
    Dense(Activation),
}

/// Probabilities of dropping, while training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// embeddings
    pub input: f64,
    /// the output of each sub-layer
    pub hidden: f64,
    /// attention weights
    pub attention: f64,
    /// inside the feed-forward
    pub inner: f64,
    /// before the last layer of a head that classifies, tags or answers
    pub head: f64,
}

impl Dropout {
    /// `p` for embeddings, sub-layers and heads; nothing else.
    pub fn residual(p: f64) -> Self {
        Self { input: p, hidden: p, head: p, ..Self::default() }
    }
}

/// How parameters start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InitScheme {
    /// Gaussian for all weights (BERT, BART, LLaMA: 0.02)
    Normal {
        /// standard deviation
        std: f64,
    },
    /// Gaussian, with the outputs of each sub-layer smaller by 1/√(2·layers), so that the residual stream keeps its size
    Gpt2 {
        /// standard deviation
        std: f64,
    },
    /// Glorot's uniform for weights, Gaussian of 1/√C for embeddings
    Xavier,
    /// T5's: Gaussian by fan-in, queries smaller by √D because its scores are not scaled
    T5,
    /// PyTorch's defaults: uniform by fan-in for weights, unit Gaussian for embeddings
    Torch,
}

/// The most elements one axis may have, and the most parameters a network may have: what is beyond is a typing error.
pub(crate) const AXIS: usize = 1 << 28;
/// The most layers: each has a place in memory before any weight is there.
const LAYERS: usize = 10_000;
const PARAMETERS: u128 = 10_000_000_000_000;

impl Spec {
    /// The encoder's stack, if there is one.
    pub fn encoder(&self) -> Option<&Stack> {
        match &self.shape {
            Shape::Encoder(stack) | Shape::Pair { encoder: stack, .. } => Some(stack),
            Shape::Decoder(_) => None,
        }
    }

    /// The decoder's stack, if there is one.
    pub fn decoder(&self) -> Option<&Stack> {
        match &self.shape {
            Shape::Decoder(stack) | Shape::Pair { decoder: stack, .. } => Some(stack),
            Shape::Encoder(_) => None,
        }
    }

    /// V, if tokens come in.
    pub fn vocabulary(&self) -> Option<usize> {
        match self.input {
            Input::Tokens { vocabulary, .. } => Some(vocabulary),
            Input::Patches { .. } => None,
        }
    }

    /// The width of the tables at the input: C, or E where they are of another width.
    pub fn table_width(&self) -> usize {
        match self.input {
            Input::Tokens { table_width: Some(e), .. } => e,
            _ => self.width,
        }
    }

    /// How many tokens an image becomes, class vector included.
    pub fn patches(&self) -> Option<usize> {
        match self.input {
            Input::Tokens { .. } => None,
            Input::Patches { image, patch, .. } => Some((image / patch.max(1)).pow(2) + 1),
        }
    }

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
                decoder(s).layers = 1 << 13
            })
            .contains("more than any network")
        );
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
