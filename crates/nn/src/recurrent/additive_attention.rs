//! Additive attention (Bahdanau et al. 2015), the first: a decoder in state s looks at every state h of the memory,
//! scores each, and reads their weighted mean.
//!
//! `score(s, h) = vᵀ·tanh(Wₛs + Wₕh)`, `weights = softmax(scores)` over the memory, `context = Σ weights·h`. No biases:
//! one on the score would not change a softmax. Shapes: queries `[B, Tq, S]`, memory `[B, Tm, E]` → context
//! `[B, Tq, E]`; between them `[B, Tq, Tm, A]`, which is what the dot product of the Transformer saves. The weights
//! `[B, Tq, Tm]`, the picture of the alignment, are tapped as `weights`.
//!
//! `Wₕh` does not depend on the decoder: [`AdditiveAttention::keys`] computes it once for all of its steps.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, Init, recurrent::AdditiveAttention};
//! let device = Device::flex();
//! let attention = AdditiveAttention::new(&Build::new(&device, 0), 1, 1, 4, Init::Zeros); // all scores 0
//! let (s, memory) = (Tensor::<3>::ones([1, 1, 1], &device), Tensor::<3>::from_floats([[[1.0], [3.0]]], &device));
//! let read = |real: &[bool]| {
//!     let keys = attention.keys(memory.clone());
//!     attention.attend(s.clone(), &keys, &memory, Some(real), &mut Cx::eval()).into_scalar::<f32>()
//! };
//! assert_eq!(read(&[true, true]), 2.0); // the mean of 1 and 3
//! assert_eq!(read(&[true, false]), 1.0); // 3 is padding
//! ```

use crate::{Build, Cx, Init, Linear};
use burn::module::Module;
use burn::tensor::{Bool, Tensor, TensorData};
use qkv_kernels::{Activation, activate, softmax};

/// `softmax(vᵀ·tanh(Wₛs + Wₕh))·h`
#[derive(Module, Debug)]
pub struct AdditiveAttention {
    /// Wₛ `[A, S]`
    pub query: Linear,
    /// Wₕ `[A, E]`
    pub key: Linear,
    /// v `[1, A]`
    pub score: Linear,
}

impl AdditiveAttention {
    /// Queries of width S and memory of width E meet in width A.
    pub fn new(build: &Build, query: usize, memory: usize, inner: usize, init: Init) -> Self {
        let linear = |name: &str, from, to| Linear::new(&build.at(name), from, to, false, init);
        Self {
            query: linear("query", query, inner),
            key: linear("key", memory, inner),
            score: linear("score", inner, 1),
        }
    }

    /// Wₕh, `[B, Tm, A]`: once per memory.
    pub fn keys(&self, memory: Tensor<3>) -> Tensor<3> {
        self.key.forward(memory)
    }

    /// The context `[B, Tq, E]` of queries `[B, Tq, S]`, given the memory `[B, Tm, E]` and its [`keys`](Self::keys).
    ///
    /// `real` `[B·Tm]` is false at padding, whose weight is exactly 0; a row that is padding throughout has context 0.
    /// The memory must be finite there too, as our encoders' is: 0·NaN is NaN.
    ///
    /// # Panics
    /// If `real` does not fit the memory: the model checks it at its door.
    pub fn attend(
        &self,
        queries: Tensor<3>,
        keys: &Tensor<3>,
        memory: &Tensor<3>,
        real: Option<&[bool]>,
        cx: &mut Cx,
    ) -> Tensor<3> {
        let (context, weights) = self.look(queries, keys, memory, real);
        cx.tap("weights", &weights);
        context
    }

    /// The context `[B, Tq, E]`, and how much each query looks at each place `[B, Tq, Tm]`.
    pub(super) fn look(
        &self,
        queries: Tensor<3>,
        keys: &Tensor<3>,
        memory: &Tensor<3>,
        real: Option<&[bool]>,
    ) -> (Tensor<3>, Tensor<3>) {
        let weights = softmax(hide(self.scores(queries, keys), real)); // [B, Tq, Tm]
        (weights.clone().matmul(memory.clone()), weights)
    }

    /// `vᵀ·tanh(Wₛs + Wₕh)` of every query with every key, `[B, Tq, Tm]`.
    fn scores(&self, queries: Tensor<3>, keys: &Tensor<3>) -> Tensor<3> {
        let s: Tensor<4> = self.query.forward(queries).unsqueeze_dim(2); // [B, Tq, 1, A]
        let met = s + keys.clone().unsqueeze_dim(1); // [B, Tq, Tm, A]
        self.score.forward(activate(met, Activation::Tanh)).squeeze_dim(3)
    }
}

/// Scores `[B, Tq, Tm]` with −∞ at padding.
fn hide(scores: Tensor<3>, real: Option<&[bool]>) -> Tensor<3> {
    let Some(real) = real else { return scores };
    let [b, tq, tm] = scores.dims();
    assert_eq!(real.len(), b * tm, "additive attention: the padding mask does not fit the memory");
    let hidden: Vec<bool> = real.iter().map(|real| !real).collect();
    let hidden = Tensor::<3, Bool>::from_data(TensorData::new(hidden, [b, 1, tm]), &scores.device());
    scores.mask_fill(hidden.expand([b, tq, tm]), f32::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Taps;
    use crate::mask::from_lengths;
    use crate::recurrent::tests::reached;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values, with_threads};

    fn block(device: Device) -> (AdditiveAttention, Tensor<3>, Tensor<3>) {
        let build = Build::new(&device, 11);
        let draw = |name, shape| build.param(name, shape, Init::Normal { std: 1.0 }).val();
        let (queries, memory) = (draw("queries", [2, 3, 5]), draw("memory", [2, 4, 7]));
        (AdditiveAttention::new(&build, 5, 7, 6, Init::Normal { std: 1.0 }), queries, memory)
    }

    fn read(
        block: &AdditiveAttention,
        q: Tensor<3>,
        memory: Tensor<3>,
        real: Option<&[bool]>,
    ) -> (Vec<f32>, Tensor<3>) {
        let mut taps = Taps::new(["weights"]);
        let keys = block.keys(memory.clone());
        let context = block.attend(q, &keys, &memory, real, &mut Cx::eval().with_taps(&mut taps));
        (values(context), taps.get("weights").expect("handed out"))
    }

    #[test]
    fn weights_sum_to_one_and_leave_padding_out() {
        let (block, queries, memory) = block(Device::flex());
        let (_, weights) = read(&block, queries, memory, Some(&from_lengths(&[4, 2], 4)));
        assert!(values(weights.clone().sum_dim(2)).iter().all(|s| (s - 1.0).abs() < 1e-6));
        assert!(values(weights.narrow(0, 1, 1).narrow(2, 2, 2)).iter().all(|w| *w == 0.0));
    }

    #[test]
    fn padding_changes_nothing() {
        let (block, queries, memory) = block(Device::flex());
        let (short, _) = read(&block, queries.clone(), memory.clone().narrow(1, 0, 2), None);
        let junk = Tensor::cat(vec![memory.clone().narrow(1, 0, 2), memory.narrow(1, 2, 2) * 1e3], 1);
        let (padded, _) = read(&block, queries, junk, Some(&from_lengths(&[2, 2], 4)));
        assert!(max_diff(&short, &padded) < 1e-6);
    }

    #[test]
    fn nothing_to_read_gives_zero() {
        let (block, queries, memory) = block(Device::flex());
        let (context, _) = read(&block, queries, memory, Some(&[false; 8]));
        assert_eq!(context, [0.0; 2 * 3 * 7]);
    }

    #[test]
    fn a_nan_at_padding_leaves_the_weights_alone_and_spoils_the_context() {
        let (block, queries, memory) = block(Device::flex());
        let real = from_lengths(&[4, 2], 4);
        let (_, clean) = read(&block, queries.clone(), memory.clone(), Some(&real));
        let junk = Tensor::full([1, 2, 7], f32::NAN, &Device::flex());
        let (context, weights) = read(&block, queries, memory.slice_assign([1..2, 2..4, 0..7], junk), Some(&real));
        assert_eq!(values(weights), values(clean));
        assert!(context[..3 * 7].iter().all(|v| v.is_finite()) && context[3 * 7..].iter().all(|v| v.is_nan()));
    }

    #[test]
    fn equals_the_formula_in_a_loop() {
        let (block, queries, memory) = block(Device::flex());
        let (context, _) = read(&block, queries.clone(), memory.clone(), None);
        let [ws, wh, v] = [&block.query, &block.key, &block.score].map(|l| values(l.weight.val()));
        let (s, h) = (values(queries), values(memory));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let mut want = vec![];
        for (b, q) in (0..2 * 3).map(|row| (row / 3, row)) {
            let h = |j: usize| &h[(b * 4 + j) * 7..][..7];
            let unit = |j, a: usize| (dot(&ws[a * 5..][..5], &s[q * 5..][..5]) + dot(&wh[a * 7..][..7], h(j))).tanh();
            let e: Vec<f32> = (0..4).map(|j| (0..6).map(|a| v[a] * unit(j, a)).sum::<f32>().exp()).collect();
            want.extend((0..7).map(|f| (0..4).map(|j| e[j] * h(j)[f]).sum::<f32>() / e.iter().sum::<f32>()));
        }
        assert!(max_diff(&context, &want) < 1e-5);
    }

    #[test]
    fn the_gradient_reaches_every_parameter() {
        let (block, queries, memory) = block(Device::flex().autodiff());
        let real = from_lengths(&[4, 2], 4);
        let keys = block.keys(memory.clone());
        let context = block.attend(queries.clone(), &keys, &memory, Some(&real), &mut Cx::eval());
        let grads = context.square().sum().backward();
        assert_eq!(reached(&block, &grads), [true; 3]);
        assert!(queries.grad(&grads).is_some());
        let hidden = memory.grad(&grads).expect("the memory is tracked").narrow(0, 1, 1).narrow(1, 2, 2);
        assert!(values(hidden).iter().all(|g| *g == 0.0)); // nothing flows to padding
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let run = || {
            let build = Build::new(&Device::flex().autodiff(), 11);
            let draw = |name, shape| build.param(name, shape, Init::Normal { std: 1.0 }).val();
            let (queries, memory) = (draw("queries", [3, 19, 53]), draw("memory", [3, 41, 61]));
            let block = AdditiveAttention::new(&build, 53, 61, 59, Init::FanIn);
            let context = block.attend(queries, &block.keys(memory.clone()), &memory, None, &mut Cx::eval());
            let grads = context.clone().square().sum().backward();
            let of = |layer: &Linear| values(layer.weight.val().grad(&grads).expect("tracked"));
            (values(context), of(&block.query), of(&block.key), of(&block.score))
        };
        let one = with_threads(1, run);
        for threads in [2, 3, 8] {
            assert!(with_threads(threads, run) == one, "{threads} threads");
        }
    }
}
