//! How each kind of parameter starts under each named scheme.

use crate::spec::{InitScheme, Spec, Stack};
use qkv_nn::Init;

impl InitScheme {
    /// Token, token type and class vectors, and learned positions.
    pub(crate) fn embedding(self, width: usize) -> Init {
        match self {
            Self::Normal { std } | Self::Gpt2 { std } => Init::Normal { std },
            Self::Xavier => Init::Normal { std: (width as f64).powf(-0.5) },
            Self::T5 | Self::Torch => Init::Normal { std: 1.0 },
        }
    }

    /// Queries, keys, values and the output of attention.
    pub(crate) fn attention(self, spec: &Spec, stack: &Stack) -> [Init; 4] {
        let heads = stack.heads(spec.width);
        let by = |fan: usize| Init::Normal { std: (fan as f64).powf(-0.5) };
        match self {
            Self::T5 => {
                let (c, d) = (spec.width, heads.dim);
                [by(c * d), by(c), by(c), by(heads.heads * d)]
            }
            _ => [self.linear(), self.linear(), self.linear(), self.residual(stack)],
        }
    }

    /// The inner and the outer layer of the feed-forward.
    pub(crate) fn ffn(self, spec: &Spec, stack: &Stack) -> [Init; 2] {
        match self {
            Self::T5 => [spec.width, stack.ffn.inner()].map(|fan| Init::Normal { std: (fan as f64).powf(-0.5) }),
            _ => [self.linear(), self.residual(stack)],
        }
    }

    /// Any other linear layer.
    pub(crate) fn linear(self) -> Init {
        match self {
            Self::Normal { std } | Self::Gpt2 { std } => Init::Normal { std },
            Self::Xavier => Init::Xavier,
            Self::T5 => Init::Normal { std: 0.05 },
            Self::Torch => Init::FanIn,
        }
    }

    /// A layer that writes into the residual stream.
    fn residual(self, stack: &Stack) -> Init {
        match self {
            Self::Gpt2 { std } => Init::Normal { std: std / (2.0 * stack.layers as f64).sqrt() },
            _ => self.linear(),
        }
    }
}
