//! Bahdanau's decoder (Bahdanau et al. 2015): before each step the state asks which part of the source matters now.
//!
//! ```text
//! s₀ = tanh(W·←h₁)                                ←h₁: the encoder's run from the end, where it has read everything
//! cₜ = attend(sₜ₋₁, h)                            additive attention over the memory
//! sₜ = GRU([yₜ₋₁ ; cₜ], sₜ₋₁)                     further layers read the states of the one below
//! outₜ = tanh(Wₒ·[sₜ ; cₜ])
//! ```
//! x `[B, T, C]`, memory `[B, Tm, C]` → `[B, T, C]`. What the words add to the gates is projected for all steps at once; the keys
//! of the memory once for a source. The rest must go step by step: where to look depends on what was said.

use super::{AdditiveAttention, Cell, Gru, GruCell, Ways, steps};
use crate::{Adapting, Build, Cx, Init, Linear};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::Activation;

/// A decoder that looks at a memory before each step.
#[derive(Module, Debug)]
pub struct AttendingDecoder {
    /// from the encoder's state to the first one `[C, C/2]`
    pub start: Linear,
    /// where to look
    pub attention: AdditiveAttention,
    /// the first layer
    pub cell: GruCell,
    /// what the context adds to its gates `[3C, C]`
    pub context: Linear,
    /// the layers above
    pub upper: Option<Gru>,
    /// from state and context to the output `[C, 2C]`
    pub readout: Linear,
    /// probability of dropping an output, and between layers
    #[module(skip)]
    dropout: f64,
}

/// What is known of a memory before the first step.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// `[B, Tm, C]`
    pub memory: Tensor<3>,
    /// its keys `[B, Tm, C]`
    pub keys: Tensor<3>,
    /// `[B·Tm]`, false at padding
    pub real: Option<Vec<bool>>,
}

/// What comes out of some steps.
pub struct Attended {
    /// `[B, T, C]`
    pub output: Tensor<3>,
    /// how much each step looked at each place, `[B, T, Tm]`
    pub weights: Tensor<3>,
    /// the states behind the last step, of all layers `[layers, B, C]`
    pub state: Tensor<3>,
}

impl AttendingDecoder {
    /// `layers` layers of width C over a memory of width C, the second half of which is the run from the end.
    pub fn new(build: &Build, width: usize, layers: usize, init: Init) -> Self {
        let linear = |name: &str, from, to, bias| Linear::new(&build.at(name), from, to, bias, init);
        let cell = build.at("cell");
        let gates = |name: &str| Linear::new(&cell.at(name), width, GruCell::GATES * width, true, init);
        let upper = || Gru::with(&build.at("upper"), width, width, layers - 1, Ways::Forward, init);
        Self {
            start: linear("start", width / 2, width, true),
            attention: AdditiveAttention::new(&build.at("attention"), width, width, width, init),
            cell: GruCell::of(gates("input"), gates("state")),
            context: linear("context", width, GruCell::GATES * width, false),
            upper: (layers > 1).then(upper),
            readout: linear("readout", 2 * width, width, true),
            dropout: 0.0,
        }
    }

    /// The same with dropout of the output and between layers.
    pub fn with_dropout(self, dropout: f64) -> Self {
        Self { upper: self.upper.map(|upper| upper.with_dropout(dropout)), dropout, ..self }
    }

    /// The keys of a memory: once for a source.
    pub fn keys(&self, memory: Tensor<3>) -> Tensor<3> {
        self.attention.keys(memory)
    }

    /// The states that a text begins with, `[layers, B, C]`.
    pub fn begin(&self, memory: &Tensor<3>) -> Tensor<3> {
        let [b, _, c] = memory.dims();
        let first = memory.clone().narrow(1, 0, 1).narrow(2, c / 2, c - c / 2).reshape([b, c - c / 2]);
        let first: Tensor<3> =
            self.start.activated(first, Some(Activation::Tanh), Adapting::default()).unsqueeze_dim(0);
        match &self.upper {
            Some(upper) => {
                let zeros = Tensor::zeros([upper.layers.len(), b, c], (&memory.device(), memory.dtype()));
                Tensor::cat(vec![first, zeros], 0)
            }
            None => first,
        }
    }

    /// The steps of x `[B, T, C]` from `state` on.
    pub fn forward(&self, x: Tensor<3>, seen: &Prepared, state: Tensor<3>, cx: &mut Cx) -> Attended {
        let ([b, t, c], [layers, _, _]) = (x.dims(), state.dims());
        let gates = steps(self.cell.input().forward(x).swap_dims(0, 1)); // T times [B, 3C]
        let mut s: Tensor<2> = state.clone().narrow(0, 0, 1).reshape([b, c]);
        let (mut states, mut contexts, mut looked) = (vec![], vec![], vec![]);
        for gx in gates {
            let (context, weights) =
                self.attention.look(s.clone().unsqueeze_dim(1), &seen.keys, &seen.memory, seen.real.as_deref());
            let context: Tensor<2> = context.reshape([b, c]);
            s = self.cell.step(gx + self.context.forward(context.clone()), s);
            states.push(s.clone());
            contexts.push(context);
            looked.push(weights);
        }
        let weights = Tensor::cat(looked, 1); // [B, T, Tm]
        let (mut top, contexts) = (Tensor::stack::<3>(states, 1), Tensor::stack::<3>(contexts, 1)); // [B, T, C]
        let mut ends = vec![s.unsqueeze_dim::<3>(0)];
        cx.within(0, |cx| cx.tap("hidden", &top));
        if let Some(upper) = &self.upper {
            let (y, end) = upper.forward_above(1, top, None, Some(state.narrow(0, 1, layers - 1)), cx);
            top = y;
            ends.push(end);
        }
        let both = Tensor::cat(vec![top, contexts], 2); // [B, T, 2C]
        let output = self.readout.activated(both, Some(Activation::Tanh), Adapting::default());
        let output = cx.dropout("readout", output, self.dropout);
        debug_assert_eq!(output.dims(), [b, t, c]);
        Attended { output, weights, state: Tensor::cat(ends, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::from_lengths;
    use crate::recurrent::tests::{cosines, reached};
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    fn decoder(layers: usize, device: &Device) -> AttendingDecoder {
        AttendingDecoder::new(&Build::new(device, 5), 4, layers, Init::Normal { std: 0.6 })
    }

    fn prepared(decoder: &AttendingDecoder, memory: Tensor<3>, real: Option<Vec<bool>>) -> Prepared {
        Prepared { keys: decoder.keys(memory.clone()), memory, real }
    }

    #[test]
    fn step_by_step_equals_the_whole() {
        for layers in [1, 3] {
            let decoder = decoder(layers, &Device::flex());
            let seen = prepared(&decoder, cosines([2, 3, 4]) * 0.7, Some(from_lengths(&[3, 2], 3).to_vec()));
            let x = cosines([2, 5, 4]);
            let whole = decoder.forward(x.clone(), &seen, decoder.begin(&seen.memory), &mut Cx::eval());
            let (mut state, mut parts) = (decoder.begin(&seen.memory), vec![]);
            for t in 0..5 {
                let one = decoder.forward(x.clone().narrow(1, t, 1), &seen, state, &mut Cx::eval());
                state = one.state;
                parts.push(one.output);
            }
            assert!(max_diff(&values(Tensor::cat(parts, 1)), &values(whole.output)) < 1e-6);
            assert!(max_diff(&values(state), &values(whole.state)) < 1e-6);
            let weights = values(whole.weights);
            assert!(weights.chunks(3).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
            assert!(weights[15..].chunks(3).all(|row| row[2] == 0.0), "padding is not looked at");
        }
    }

    #[test]
    fn the_gradient_reaches_every_parameter() {
        let device = Device::flex().autodiff();
        let decoder = decoder(2, &device);
        let (x, memory) =
            (Tensor::from_inner(cosines([2, 3, 4])), Tensor::from_inner(cosines([2, 4, 4])).require_grad());
        let seen = prepared(&decoder, memory.clone(), None);
        let out = decoder.forward(x, &seen, decoder.begin(&seen.memory), &mut Cx::eval());
        let grads = out.output.square().sum().backward();
        assert!(reached(&decoder, &grads).iter().all(|r| *r));
        assert!(values(memory.grad(&grads).expect("tracked")).iter().all(|g| *g != 0.0));
    }
}
