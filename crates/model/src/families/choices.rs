//! Free architectures: what a recipe may choose besides sizes, whatever the family is used to. A choice changes the spec that
//! the family's sheet makes; one that means nothing in this network is refused under the name of its key, never ignored.
//!
//! ```
//! use qkv_model::families::{self, Choices, PositionChoice, Sizes};
//! let sheet = families::named("gpt2").unwrap();
//! let spec = (sheet.sizes)(&Sizes::of_tokens(97, 32, 2, 4, 64)).unwrap();
//! let choices = Choices { position: PositionChoice::Alibi, ..Choices::default() };
//! let changed = choices.apply(sheet, spec.clone(), 64).unwrap();
//! assert_eq!(changed.position, qkv_model::spec::Position::Alibi);
//! assert_eq!(Choices::default().apply(sheet, spec.clone(), 64).unwrap(), spec); // nothing chosen, nothing changed
//! ```

use super::{Sheet, config};
use crate::spec::{Head, HeadWidth, Input, Output, Place, Position, Shape, Spec, Stack, Window};
use crate::{Error, Result};
use qkv_kernels::Pairing;
use qkv_nn::position::{Buckets, RopeScaling, Waves};
use qkv_nn::{Biased, Ffn, NormKind, Scale, Wiring};
use serde::{Deserialize, Serialize};

/// Offsets that have a number of their own, where each has one.
const OFFSETS: usize = 32;

/// What a recipe may choose; by default everything is as the family has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// how order is told
    pub position: PositionChoice,
    /// which norm
    pub norm: NormChoice,
    /// where it stands
    pub wiring: WiringChoice,
    /// the non-linearity of the feed-forward, by its name in Hugging Face's configurations; empty: the family's
    pub activation: String,
    /// whether the feed-forward is gated
    pub gated: Switch,
    /// whether attention and feed-forward have biases
    pub bias: Switch,
    /// what the dot products are multiplied by
    pub scale: ScaleChoice,
    /// what a decoder sees
    pub mask: MaskChoice,
    /// whether the output is the table of tokens
    pub tie: Switch,
    /// G, key and value heads; 0: the family's
    pub kv_heads: usize,
    /// D, the width of a head; 0: the family's
    pub head_dim: usize,
}

/// How order is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PositionChoice {
    /// as the family does
    #[default]
    #[serde(rename = "")]
    Family,
    /// not at all
    None,
    /// waves added to the input, all sines first
    Sinusoidal,
    /// waves added to the input, sines and cosines in turn: the paper's order
    Interleaved,
    /// a learned vector for each position, added to the input
    Learned,
    /// the same before each layer, each with a table of its own
    EachLayer,
    /// a learned number for each offset, added to the scores
    Offset,
    /// a learned number for each of T5's buckets of distances, added to the scores
    Buckets,
    /// queries and keys turned
    Rope,
    /// a fixed slope for each head
    Alibi,
}

/// Which norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormChoice {
    /// as the family has it
    #[default]
    #[serde(rename = "")]
    Family,
    /// LayerNorm
    Layer,
    /// RMSNorm
    Rms,
    /// none at all
    None,
}

/// Where the norm stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WiringChoice {
    /// as in the family
    #[default]
    #[serde(rename = "")]
    Family,
    /// before each sub-layer
    Pre,
    /// behind each addition
    Post,
    /// before and behind each sub-layer
    Sandwich,
}

/// What the dot products are multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleChoice {
    /// as in the family
    #[default]
    #[serde(rename = "")]
    Family,
    /// 1/√D
    Root,
    /// 1
    One,
}

/// What a decoder sees: `causal`, `none` or `window N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MaskChoice {
    /// as in the family
    #[default]
    Family,
    /// itself and everything before
    Causal,
    /// what comes next as well
    None,
    /// itself and so many positions, itself included
    Window(usize),
}

impl TryFrom<String> for MaskChoice {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [] => Ok(Self::Family),
            ["causal"] => Ok(Self::Causal),
            ["none"] => Ok(Self::None),
            ["window", n] if n.parse::<usize>().is_ok_and(|n| n > 0) => Ok(Self::Window(n.parse().unwrap_or(1))),
            _ => Err(format!("there is no mask `{text}`: use causal, none or \"window 64\"")),
        }
    }
}

impl From<MaskChoice> for String {
    fn from(mask: MaskChoice) -> Self {
        match mask {
            MaskChoice::Family => String::new(),
            MaskChoice::Causal => "causal".into(),
            MaskChoice::None => "none".into(),
            MaskChoice::Window(n) => format!("window {n}"),
        }
    }
}

/// Yes, no, or as the family has it: `true`, `false` or `""`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Said", into = "Said")]
pub enum Switch {
    /// as in the family
    #[default]
    Family,
    /// yes
    On,
    /// no
    Off,
}

/// How a switch is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Said {
    Yes(bool),
    Word(Nothing),
}

#[derive(Serialize, Deserialize)]
enum Nothing {
    #[serde(rename = "")]
    Nothing,
}

impl From<Said> for Switch {
    fn from(said: Said) -> Self {
        match said {
            Said::Yes(true) => Self::On,
            Said::Yes(false) => Self::Off,
            Said::Word(_) => Self::Family,
        }
    }
}

impl From<Switch> for Said {
    fn from(switch: Switch) -> Self {
        match switch.said() {
            Some(yes) => Self::Yes(yes),
            None => Self::Word(Nothing::Nothing),
        }
    }
}

impl Switch {
    /// What was said, if anything.
    pub fn said(self) -> Option<bool> {
        match self {
            Self::Family => None,
            Self::On => Some(true),
            Self::Off => Some(false),
        }
    }
}

impl Choices {
    /// The keys that were chosen.
    pub fn chosen(&self) -> Vec<&'static str> {
        let all = [
            ("position", self.position != PositionChoice::Family),
            ("norm", self.norm != NormChoice::Family),
            ("wiring", self.wiring != WiringChoice::Family),
            ("activation", !self.activation.is_empty()),
            ("gated", self.gated != Switch::Family),
            ("bias", self.bias != Switch::Family),
            ("scale", self.scale != ScaleChoice::Family),
            ("mask", self.mask != MaskChoice::Family),
            ("tie", self.tie != Switch::Family),
            ("kv_heads", self.kv_heads > 0),
            ("head_dim", self.head_dim > 0),
        ];
        all.into_iter().filter(|(_, chosen)| *chosen).map(|(key, _)| key).collect()
    }

    /// The spec with everything that was chosen; `positions` is the longest sequence that it is to read.
    pub fn apply(&self, sheet: &Sheet, mut spec: Spec, positions: usize) -> Result<Spec> {
        if let (Some(key), true) = (self.chosen().first(), spec.recurrence().is_some()) {
            let what = format!("a {} has no blocks of attention and feed-forward", sheet.name);
            return Err(refuse(key, what, "leave it out, or choose a family of Transformers"));
        }
        self.place(&mut spec, positions);
        spec.norm = match self.norm {
            NormChoice::Family => spec.norm,
            NormChoice::Layer => NormKind::Layer { eps: 1e-5 },
            NormChoice::Rms => NormKind::Rms { eps: 1e-6 },
            NormChoice::None => NormKind::None,
        };
        spec.wiring = match self.wiring {
            WiringChoice::Family => spec.wiring,
            WiringChoice::Pre => Wiring::Pre,
            WiringChoice::Post => Wiring::Post,
            WiringChoice::Sandwich => Wiring::Sandwich,
        };
        spec.attention_scale = match self.scale {
            ScaleChoice::Family => spec.attention_scale,
            ScaleChoice::Root => Scale::InverseRoot,
            ScaleChoice::One => Scale::One,
        };
        if let Some(bias) = self.bias.said() {
            spec.attention_bias = if bias { Biased::All } else { Biased::None };
            spec.ffn_bias = bias;
        }
        self.blocks(&mut spec)?;
        self.see(sheet, &mut spec)?;
        self.output(sheet, &mut spec)?;
        Ok(spec)
    }

    fn place(&self, spec: &mut Spec, positions: usize) {
        // Waves and slopes cost nothing, so there are enough for texts longer than those it learns from.
        let far = positions.max(512);
        let max = spec.patches().unwrap_or(positions);
        let learned = |place| Position::Learned { max, offset: 0, padding_id: None, place };
        let waves = |waves| Position::Sinusoidal { max: far.max(max), waves };
        spec.position = match self.position {
            PositionChoice::Family => return,
            PositionChoice::None => Position::None,
            PositionChoice::Sinusoidal => waves(Waves::Halves),
            PositionChoice::Interleaved => waves(Waves::Interleaved),
            PositionChoice::Learned => learned(Place::Input),
            PositionChoice::EachLayer => learned(Place::EachLayer),
            PositionChoice::Offset => Position::Relative(Buckets::Each { max: OFFSETS }),
            PositionChoice::Buckets => {
                Position::Relative(Buckets::Logarithmic { buckets: 32, max_distance: 128, both_ways: true })
            }
            PositionChoice::Rope => Position::Rotary {
                max: far.max(max),
                theta: 10_000.0,
                features: None,
                scaling: RopeScaling::None,
                pairing: Pairing::Halves,
                window_theta: None,
            },
            PositionChoice::Alibi => Position::Alibi,
        };
        // A wave is as large as 1; token vectors start smaller by √C, and the paper multiplies them by it.
        if let (Position::Sinusoidal { .. }, Input::Tokens { scaled, normed: false, .. }) =
            (&spec.position, &mut spec.input)
        {
            *scaled = true;
        }
    }

    /// What every block of every stack is made of.
    fn blocks(&self, spec: &mut Spec) -> Result<()> {
        let act = match self.activation.as_str() {
            "" => None,
            name => Some(config::activation(name).ok_or_else(|| {
                let names = config::activation_names();
                let near = qkv_base::nearest(name, names.iter().copied()).unwrap_or_default();
                let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
                refuse("activation", format!("there is no activation `{name}`"), &hint)
            })?),
        };
        for stack in stacks(spec) {
            let (Ffn::Dense { inner, act: own } | Ffn::Gated { inner, act: own }) = stack.ffn;
            let gated = self.gated.said().unwrap_or(matches!(stack.ffn, Ffn::Gated { .. }));
            let act = act.unwrap_or(own);
            stack.ffn = if gated { Ffn::Gated { inner, act } } else { Ffn::Dense { inner, act } };
            if self.kv_heads > 0 {
                stack.kv_heads = self.kv_heads;
            }
            if self.head_dim > 0 {
                stack.head_width = HeadWidth::Of(self.head_dim);
            }
        }
        Ok(())
    }

    fn see(&self, sheet: &Sheet, spec: &mut Spec) -> Result<()> {
        let window = match self.mask {
            MaskChoice::Family => return Ok(()),
            MaskChoice::Causal => Window::None,
            MaskChoice::None => Window::Unmasked,
            MaskChoice::Window(n) => Window::Every(n),
        };
        match &mut spec.shape {
            Shape::Decoder(stack) | Shape::Pair { decoder: stack, .. } => stack.window = window,
            Shape::Encoder(_) => {
                let what = format!("a {} has no decoder: it reads both ways", sheet.name);
                return Err(refuse("mask", what, "leave it out, or choose a family that writes"));
            }
        }
        Ok(())
    }

    fn output(&self, sheet: &Sheet, spec: &mut Spec) -> Result<()> {
        let Some(tie) = self.tie.said() else { return Ok(()) };
        let Head::Language { output, .. } = &mut spec.head else {
            let what = format!("a {} does not write the next word", sheet.name);
            return Err(refuse("tie", what, "leave it out"));
        };
        *output = match (tie, *output) {
            (false, _) => Output::Own,
            (true, Output::Own) => Output::Tied,
            (true, own) => own,
        };
        Ok(())
    }
}

fn stacks(spec: &mut Spec) -> Vec<&mut Stack> {
    match &mut spec.shape {
        Shape::Encoder(stack) | Shape::Decoder(stack) => vec![stack],
        Shape::Pair { encoder, decoder } => vec![encoder, decoder],
    }
}

fn refuse(key: &str, what: String, hint: &str) -> Error {
    Error::new(format!("model.{key}"), what, hint)
}
