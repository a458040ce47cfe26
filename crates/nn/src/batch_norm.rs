//! Batch normalisation (Ioffe and Szegedy 2015) over sequences: `(x − mean)/√(var + ε)·γ + β`, mean and variance of
//! each feature over all tokens of the batch. x `[B, T, C]`; when not training, the running mean and variance are used
//! instead.
//!
//! It is here to show why text is not normalised this way: what becomes of a token depends on who else is in the batch.
//! LayerNorm ([`crate::Norm`]) looks at the token alone. The token (1, 5), in training, with ε = 0:
//!
//! | the batch | BatchNorm | LayerNorm |
//! |---|---|---|
//! | one row: (1, 5), (3, 7) | (−1, −1) | (−1, 1) |
//! | the same row, two paddings (0, 0) behind it, no mask | (0, 0.65) | (−1, 1) |
//! | the same row, and another: (5, 9), (7, 11) | (−1.34, −1.34) | (−1, 1) |
//!
//! With the mask, padding changes nothing; against the second weakness there is no help but large batches.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{BatchNorm, Build, Cx, Norm, NormKind};
//! let (device, build) = (Device::flex(), Build::new(&Device::flex(), 0));
//! let (batch, layer) = (BatchNorm::new(&build, 2, 0.0), Norm::new(&build, 2, NormKind::Layer { eps: 0.0 }));
//! let token = |y: Tensor<3>| y.into_data().try_to_vec::<f32>().unwrap()[..2].to_vec(); // the first: (1, 5)
//! let row = || Tensor::<3>::from_floats([[[1.0, 5.0], [3.0, 7.0]]], &device);
//! let padded = Tensor::cat(vec![row(), Tensor::zeros([1, 2, 2], &device)], 1);
//! let two = Tensor::cat(vec![row(), row() + 4.0], 0);
//!
//! let train = |x: Tensor<3>, real| token(batch.forward(x, real, &Cx::train(0, 0)));
//! assert_eq!(train(row(), None), [-1.0, -1.0]); // feature by feature: mean 2 and 6, deviation 1
//! let y = train(padded.clone(), None); // mean 1 and 3, variance 1.5 and 9.5
//! assert!(y[0] == 0.0 && (y[1] - 2.0 / 9.5f32.sqrt()).abs() < 1e-6); // (0, 0.65)
//! assert_eq!(train(padded.clone(), Some(&[true, true, false, false])), [-1.0, -1.0]); // the mask helps
//! let y = train(two.clone(), None); // mean 4 and 8, variance 5
//! assert!((y[0] + 3.0 / 5f32.sqrt()).abs() < 1e-6 && (y[1] + 3.0 / 5f32.sqrt()).abs() < 1e-6); // (−1.34, −1.34)
//!
//! for x in [row(), padded, two] {
//!     assert_eq!(token(layer.forward(x)), [-1.0, 1.0]); // LayerNorm does not care
//! }
//! ```

use crate::{Build, Cx, Init, Mode};
use burn::module::{Module, Param, RunningState};
use burn::tensor::{Bool, Tensor, TensorData};

/// How far the running statistics move towards those of a batch.
const MOMENTUM: f64 = 0.1;

/// Normalises each feature over batch and time.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// γ `[C]`
    pub gain: Param<Tensor<1>>,
    /// β `[C]`
    pub shift: Param<Tensor<1>>,
    /// `[C]`, not trained: followed while training, used otherwise
    pub mean: RunningState<Tensor<1>>,
    /// `[C]`, not trained
    pub variance: RunningState<Tensor<1>>,
    #[module(skip)]
    eps: f64,
}

impl BatchNorm {
    /// γ = 1, β = 0, running mean 0 and variance 1.
    pub fn new(build: &Build, width: usize, eps: f64) -> Self {
        Self {
            gain: build.param("gain", [width], Init::Ones),
            shift: build.param("shift", [width], Init::Zeros),
            mean: RunningState::new(Tensor::zeros([width], build.device())),
            variance: RunningState::new(Tensor::ones([width], build.device())),
            eps,
        }
    }

    /// Normalises x `[B, T, C]`. `real` `[B·T]` is false at padding, which is then not counted and comes out as 0.
    ///
    /// Training follows the batch's mean and variance by a tenth, as PyTorch (the running variance is the unbiased
    /// one). A single token has variance 0 and comes out as β; a batch of nothing but padding teaches nothing.
    ///
    /// # Panics
    /// If `real` does not fit x: the model checks it at its door.
    pub fn forward(&self, x: Tensor<3>, real: Option<&[bool]>, cx: &Cx) -> Tensor<3> {
        let hidden = real.map(|real| hidden(real, &x));
        let cleared = |x: Tensor<3>| match &hidden {
            Some(hidden) => x.mask_fill(hidden.clone(), 0.0),
            None => x,
        };
        let [b, t, _] = x.dims();
        let tokens = real.map_or(b * t, |real| real.iter().filter(|real| **real).count());
        let x = cleared(x); // before anything is computed: a NaN at padding reaches neither sums nor gradients
        let [mean, variance] = match cx.mode {
            Mode::Train(_) if tokens > 0 => {
                let mean = average(x.clone(), tokens);
                let variance = average(cleared(x.clone() - mean.clone().unsqueeze()).square(), tokens);
                self.follow(mean.clone(), variance.clone(), tokens);
                [mean, variance]
            }
            _ => [self.mean.value_sync(), self.variance.value_sync()],
        };
        let scale = self.gain.val() / (variance + self.eps).sqrt();
        cleared((x - mean.unsqueeze()) * scale.unsqueeze() + self.shift.val().unsqueeze())
    }

    /// Moves the running statistics towards those of a batch of `tokens` tokens.
    fn follow(&self, mean: Tensor<1>, variance: Tensor<1>, tokens: usize) {
        let unbiased = variance * (tokens as f64 / tokens.saturating_sub(1).max(1) as f64);
        for (running, new) in [(&self.mean, mean), (&self.variance, unbiased)] {
            running.update(running.value_sync() * (1.0 - MOMENTUM) + new.detach() * MOMENTUM);
            // An update is pending until the next one on this thread: saved now, the module would be one step behind.
            running.value_sync();
        }
    }
}

/// True at padding, in the shape of x.
fn hidden(real: &[bool], x: &Tensor<3>) -> Tensor<3, Bool> {
    let [b, t, c] = x.dims();
    assert_eq!(real.len(), b * t, "batch norm: the padding mask does not fit [B, T]");
    let hidden: Vec<bool> = real.iter().map(|real| !real).collect();
    Tensor::<3, Bool>::from_data(TensorData::new(hidden, [b, t, 1]), &x.device()).expand([b, t, c])
}

/// The sum over batch and time, divided by `tokens`: `[C]`.
fn average(x: Tensor<3>, tokens: usize) -> Tensor<1> {
    let [b, t, c] = x.dims();
    x.reshape([b * t, c]).sum_dim(0).reshape([c]) / tokens as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::from_lengths;
    use crate::{Norm, NormKind};
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values, with_threads};

    fn block() -> (BatchNorm, Tensor<3>) {
        let build = Build::new(&Device::flex(), 6);
        (BatchNorm::new(&build, 2, 1e-5), build.param("x", [3, 4, 2], Init::Normal { std: 2.0 }).val())
    }

    /// `[2, 3, 2]` of cos 0, cos 1, cos 2, …
    fn cosines() -> Tensor<3> {
        let data: Vec<f32> = (0..12).map(|i| (i as f64).cos() as f32).collect();
        Tensor::from_data(TensorData::new(data, [2, 3, 2]), &Device::flex())
    }

    /// PyTorch's nn.BatchNorm1d gives these.
    #[test]
    fn equals_pytorch() {
        let (norm, _) = block();
        let y = norm.forward(cosines(), None, &Cx::train(0, 0));
        #[rustfmt::skip]
        let want = [
            1.380881, 0.879109, -0.544425, -1.387833, -0.867311, 0.498928,
            1.326731, 1.19553, -0.17647, -1.271008, -1.119407, 0.085274,
        ];
        assert!(max_diff(&values(y), &want) < 2e-6);
        assert!(max_diff(&values(norm.mean.value()), &[-0.00157, -0.005314]) < 2e-6);
        assert!(max_diff(&values(norm.variance.value()), &[0.964922, 0.954682]) < 2e-6);
    }

    #[test]
    fn unmasked_padding_changes_real_tokens_and_layer_norm_is_indifferent() {
        let (norm, x) = block();
        let layer = Norm::new(&Build::new(&Device::flex(), 6), 2, NormKind::Layer { eps: 1e-5 });
        let padded = Tensor::cat(vec![x.clone(), Tensor::zeros([3, 3, 2], &Device::flex())], 1);
        let train = |x, real: Option<&[bool]>| norm.forward(x, real, &Cx::train(0, 0));
        let short = values(train(x.clone(), None));
        let unmasked = values(train(padded.clone(), None).narrow(1, 0, 4));
        let masked = values(train(padded.clone(), Some(&from_lengths(&[4; 3], 7))).narrow(1, 0, 4));
        assert!(max_diff(&short, &unmasked) > 0.1);
        assert!(max_diff(&short, &masked) < 1e-6);
        assert_eq!(values(layer.forward(x)), values(layer.forward(padded).narrow(1, 0, 4)));
    }

    #[test]
    fn a_row_depends_on_its_batch_in_training_only_and_layer_norm_is_indifferent() {
        let (norm, x) = block();
        let layer = Norm::new(&Build::new(&Device::flex(), 6), 2, NormKind::Layer { eps: 1e-5 });
        let one = x.clone().narrow(0, 0, 1);
        let apart = |cx: &Cx| {
            let many = norm.forward(x.clone(), None, cx).narrow(0, 0, 1);
            max_diff(&values(norm.forward(one.clone(), None, cx)), &values(many))
        };
        assert!(apart(&Cx::train(0, 0)) > 0.1);
        assert_eq!(apart(&Cx::eval()), 0.0);
        assert_eq!(values(layer.forward(one.clone())), values(layer.forward(x.clone()).narrow(0, 0, 1)));
    }

    #[test]
    fn evaluation_uses_what_training_has_followed() {
        let (norm, x) = block();
        let before = values(norm.forward(x.clone(), None, &Cx::eval()));
        for _ in 0..200 {
            norm.forward(x.clone(), None, &Cx::train(0, 0));
        }
        let trained = values(norm.forward(x.clone(), None, &Cx::train(0, 0)));
        let after = values(norm.forward(x, None, &Cx::eval()));
        assert!(max_diff(&before, &trained) > 0.1);
        assert!(max_diff(&after, &trained) < 0.2); // the running variance is the unbiased one, 12/11 of the batch's
    }

    #[test]
    fn padding_may_hold_anything_and_comes_out_as_zero() {
        let (norm, x) = block();
        let real = from_lengths(&[4, 2, 0], 4);
        let junk = x.clone().mask_fill(hidden(&real, &x), f32::NAN);
        let y = values(norm.forward(junk, Some(&real), &Cx::train(0, 0)));
        assert!(y.chunks(2).zip(real.iter()).all(|(y, real)| y.iter().all(|v| v.is_finite() && (*real || *v == 0.0))));
        let mean = values(norm.mean.value());
        let nothing = values(norm.forward(x, Some(&[false; 12]), &Cx::train(0, 0)));
        assert_eq!((nothing, values(norm.mean.value())), (vec![0.0; 24], mean)); // nothing seen, nothing learned
    }

    #[test]
    fn one_token_comes_out_as_the_shift() {
        let (norm, x) = block();
        let y = norm.forward(x.narrow(0, 0, 1).narrow(1, 0, 1), None, &Cx::train(0, 0));
        assert_eq!(values(y), [0.0, 0.0]);
        assert!(values(norm.variance.value()).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn gain_and_shift_are_trained_and_the_running_statistics_are_not() {
        let build = Build::new(&Device::flex().autodiff(), 6);
        let norm = BatchNorm::new(&build, 2, 1e-5);
        let x = build.param("x", [3, 4, 2], Init::Normal { std: 2.0 });
        let y = norm.forward(x.val(), None, &Cx::train(0, 0));
        let grads = y.powi_scalar(3).sum().backward();
        assert!(norm.gain.val().grad(&grads).is_some() && norm.shift.val().grad(&grads).is_some());
        assert!(norm.mean.value().grad(&grads).is_none() && !norm.mean.value().is_require_grad());
        // Adding a constant to a feature changes nothing, so its gradients sum to 0.
        let sums = values(x.val().grad(&grads).expect("tracked").sum_dim(0).sum_dim(1));
        assert!(sums.iter().all(|s| s.abs() < 1e-4), "{sums:?}");
    }

    #[test]
    fn a_nan_at_padding_reaches_no_gradient() {
        let build = Build::new(&Device::flex().autodiff(), 6);
        let (norm, (_, x)) = (BatchNorm::new(&build, 2, 1e-5), block());
        let real = from_lengths(&[4, 2, 0], 4);
        let x = Tensor::from_inner(x.clone().mask_fill(hidden(&real, &x), f32::NAN)).require_grad();
        let grads = norm.forward(x.clone(), Some(&real), &Cx::train(0, 0)).powi_scalar(3).sum().backward();
        let gain = norm.gain.val().grad(&grads).expect("tracked");
        assert!(values(gain).iter().all(|g| g.is_finite() && *g != 0.0));
        let dx = values(x.grad(&grads).expect("tracked"));
        assert!(dx.chunks(2).zip(real.iter()).all(|(g, real)| g.iter().all(|g| g.is_finite() && (*real || *g == 0.0))));
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        let run = || {
            let build = Build::new(&Device::flex().autodiff(), 6);
            let norm = BatchNorm::new(&build, 131, 1e-5);
            let x = build.param("x", [17, 67, 131], Init::Normal { std: 2.0 });
            let y = norm.forward(x.val(), None, &Cx::train(0, 0));
            let grads = y.clone().powi_scalar(3).sum().backward();
            (values(y), values(x.val().grad(&grads).expect("tracked")), values(norm.variance.value()))
        };
        let one = with_threads(1, run);
        for threads in [2, 3, 8] {
            assert!(with_threads(threads, run) == one, "{threads} threads");
        }
    }
}
