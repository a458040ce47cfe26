//! The networks of the PyTorch benchmarks, and random data for them.
//!
//! `gpt`: pre-norm, GELU-tanh, learned positions, an output matrix of its own. `pair`: post-norm encoder and decoder,
//! ReLU, sinusoidal positions, one table for everything. `lstm` and `gru`: table, recurrent layers, an output matrix of its
//! own. `bahdanau`: gated units that look at the source before each step. Dropout off.

use clap::ValueEnum;
use qkv_base::Result;
use qkv_data::Batch;
use qkv_kernels::{Activation, Key, ProductPrecision};
use qkv_model::families::{self, Sheet, Sizes};
use qkv_model::spec::{Dropout, Head, InitScheme, Output, Position, Shape, Stack};
use qkv_model::{Spec, presets};
use qkv_nn::position::Waves;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv bench train --shape gpt\n  qkv bench train --shape pair --layers 3 --width 256 --heads 8 --context 64 --batch 16 --vocab 8000 --json"
)]
pub(crate) struct Args {
    /// Which network
    #[arg(long, value_enum, default_value = "gpt")]
    pub(super) shape: Kind,
    /// Blocks (of each stack)
    #[arg(long, default_value_t = 6)]
    pub(super) layers: usize,
    /// Width of the residual stream
    #[arg(long, default_value_t = 384)]
    pub(super) width: usize,
    /// Attention heads, where there are any; left out, 6
    #[arg(long)]
    pub(super) heads: Option<usize>,
    /// Tokens of each row (on each side of a pair)
    #[arg(long, default_value_t = 256)]
    pub(super) context: usize,
    /// Rows
    #[arg(long, default_value_t = 8)]
    pub(super) batch: usize,
    /// Vocabulary
    #[arg(long, default_value_t = 4096)]
    pub(super) vocab: usize,
    /// Steps that are measured, after three that are not
    #[arg(long, default_value_t = 8)]
    pub(super) steps: usize,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    pub(super) threads: usize,
    /// What the factors of products are rounded to
    #[arg(long, default_value = "f32", value_parser = super::products(), conflicts_with = "plain")]
    pub(super) precision: ProductPrecision,
    /// Run burn's own operations (every kernel's plain twin) instead of the kernels
    #[arg(long)]
    pub(super) plain: bool,
    /// One line of JSON, with the fields of the PyTorch benchmark
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Kind {
    /// decoder only
    Gpt,
    /// encoder and decoder
    Pair,
    /// long short-term memory
    Lstm,
    /// gated recurrent units
    Gru,
    /// recurrent encoder and decoder with additive attention
    Bahdanau,
}

impl Kind {
    /// The sheet of a recurrent network.
    fn sheet(self) -> Option<&'static Sheet> {
        match self {
            Self::Gpt | Self::Pair => None,
            Self::Lstm => Some(&families::lstm::SHEET),
            Self::Gru => Some(&families::gru::SHEET),
            Self::Bahdanau => Some(&families::bahdanau::SHEET),
        }
    }

    /// Whether there is a source.
    pub(super) fn is_pair(self) -> bool {
        matches!(self, Self::Pair | Self::Bahdanau)
    }
}

impl Args {
    /// The same wiring as the PyTorch side.
    pub(super) fn spec(&self) -> Result<Spec> {
        if let Some(sheet) = self.shape.sheet() {
            // The sheet refuses heads, where somebody asks for some.
            let heads = self.heads.unwrap_or(1);
            return (sheet.sizes)(&Sizes::of_tokens(self.vocab, self.width, self.layers, heads, self.context));
        }
        let (inner, heads) = (4 * self.width, self.heads.unwrap_or(6));
        Ok(match self.shape {
            Kind::Gpt => Spec {
                head: Head::Language { output: Output::Own, bias: false },
                dropout: Dropout::default(),
                init: InitScheme::Torch,
                ..presets::gpt2(self.vocab, self.width, self.layers, heads, self.context)
            },
            _ => {
                let stack = Stack::new(self.layers, heads, inner, Activation::Relu);
                Spec {
                    shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
                    position: Position::Sinusoidal { max: self.context, waves: Waves::Halves },
                    dropout: Dropout::default(),
                    ..presets::paper(self.vocab, self.width, self.layers, heads, inner)
                }
            }
        })
    }

    /// A batch as a loader would make it: random ids, every position a target.
    pub(super) fn data(&self) -> Batch {
        let (rows, length) = (self.batch, self.context);
        let pair = self.shape.is_pair();
        Batch {
            rows,
            length,
            ids: self.ids(1),
            lengths: vec![length; rows],
            memory: if pair { self.ids(2) } else { vec![] },
            memory_length: if pair { length } else { 0 },
            memory_lengths: if pair { vec![length; rows] } else { vec![] },
            targets: self.ids(3).into_iter().map(i64::from).collect(),
            weights: vec![1.0; rows * length],
            ..Batch::default()
        }
    }

    /// Random ids, the same for the same seed.
    fn ids(&self, place: u64) -> Vec<u32> {
        let key = Key::new(0, 0, place);
        (0..(self.batch * self.context) as u64).map(|i| key.word(i) % self.vocab.max(1) as u32).collect()
    }
}
