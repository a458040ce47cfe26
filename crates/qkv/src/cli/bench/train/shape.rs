//! The two networks of the PyTorch benchmark, and random data for them.
//!
//! `gpt`: pre-norm, GELU-tanh, learned positions, an output matrix of its own. `pair`: post-norm encoder and decoder,
//! ReLU, sinusoidal positions, one table for everything. Dropout off.

use clap::ValueEnum;
use qkv_data::Batch;
use qkv_kernels::{Activation, Key};
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
    /// Attention heads
    #[arg(long, default_value_t = 6)]
    pub(super) heads: usize,
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
}

impl Args {
    /// The same wiring as the PyTorch side.
    pub(super) fn spec(&self) -> Spec {
        let inner = 4 * self.width;
        match self.shape {
            Kind::Gpt => Spec {
                head: Head::Language { output: Output::Own, bias: false },
                dropout: Dropout::default(),
                init: InitScheme::Torch,
                ..presets::gpt2(self.vocab, self.width, self.layers, self.heads, self.context)
            },
            Kind::Pair => {
                let stack = Stack::new(self.layers, self.heads, inner, Activation::Relu);
                Spec {
                    shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
                    position: Position::Sinusoidal { max: self.context, waves: Waves::Halves },
                    dropout: Dropout::default(),
                    ..presets::paper(self.vocab, self.width, self.layers, self.heads, inner)
                }
            }
        }
    }

    /// A batch as a loader would make it: random ids, every position a target.
    pub(super) fn data(&self) -> Batch {
        let (rows, length) = (self.batch, self.context);
        let pair = self.shape == Kind::Pair;
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
