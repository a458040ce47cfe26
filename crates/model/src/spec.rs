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

mod recurrence;
mod window;

pub use recurrence::{Handover, Recurrence};
pub use window::Window;

use qkv_kernels::{Activation, Pairing};
use qkv_nn::position::{Buckets, RopeScaling, Waves};
use qkv_nn::{Biased, Ffn, Heads, NormKind, Scale, Wiring};
use serde::{Deserialize, Serialize};

/// One architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// recurrent layers in place of blocks of attention and feed-forward
    #[serde(skip)]
    pub recurrent: Option<Recurrence>,
}

/// `cap·tanh(x/cap)` keeps x within `±cap` (Gemma 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftCap {
    /// of the scaled dot products of attention
    pub attention: Option<f64>,
    /// of the logits of a language head
    pub logits: Option<f64>,
}

/// D
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
        Self {
            layers,
            heads,
            kv_heads: heads,
            head_width: HeadWidth::Share,
            ffn,
            window: Window::None,
            recurrent: None,
        }
    }

    /// The heads of a checked spec of this width.
    pub fn heads(&self, width: usize) -> Heads {
        let dim = match self.head_width {
            // Families ask before the spec is checked: none of a network without heads, not a division by 0.
            HeadWidth::Share => width.checked_div(self.heads).unwrap_or(0),
            HeadWidth::Of(dim) => dim,
        };
        Heads { heads: self.heads, kv_heads: self.kv_heads, dim }
    }
}

/// How order is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Place {
    /// once, to the embeddings
    Input,
    /// before each layer, each with a table of its own
    EachLayer,
}

/// What comes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Output {
    /// a matrix of its own
    Own,
    /// the token embeddings
    Tied,
    /// the token embeddings, with hidden states multiplied by 1/√C (T5)
    TiedScaled,
}

/// What stands between the first position and the classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pool {
    /// nothing (ViT)
    First,
    /// a dense layer and an activation (BERT: tanh)
    Dense(Activation),
}

/// Probabilities of dropping, while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
}
