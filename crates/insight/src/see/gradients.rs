//! Which tokens the answer hangs on.
//!
//! Input × gradient: `xᵢ·∂F/∂xᵢ`, summed over the features of token i. Integrated gradients (Sundararajan et al. 2017):
//! `(xᵢ − b) · ∫₀¹ ∂F(b + α(x − b))/∂xᵢ dα`, from a baseline b to the tokens' own vectors, by Gauss–Legendre with so many
//! steps. Its sum should be `F(x) − F(b)` (completeness); how far it is off is printed with it. F is one score before
//! softmax: of the token (or class) that the model itself holds likeliest at one place.
//!
//! The baseline is the average of all tokens' vectors; of pictures it is 0, the middle of the scale that they are brought
//! to. Zeros will not do for text: behind a norm that divides by the length of a vector, nothing changes from 0.001·x to x,
//! everything from 0 to 0.001·x, and no number of steps sees that.

use super::given::Given;
use super::look::numbers;
use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use qkv_base::{Error, Result};
use qkv_kernels::Ids;
use qkv_model::spec::{Head, Input};
use qkv_model::{CausalLm, Encoder, Memory, Seq2Seq, Tokens, Transformer};
use qkv_nn::Cx;
use qkv_tasks::TextModel;
use serde::Serialize;

/// What each token did for one score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attribution {
    /// at which place of the answer
    pub place: usize,
    /// which token or class
    pub target: u32,
    /// F(x)
    pub score: f64,
    /// F(b)
    pub baseline: f64,
    /// how many steps the integral took
    pub steps: usize,
    /// input × gradient, one for each token (or patch)
    pub input_gradient: Vec<f64>,
    /// integrated gradients, one for each token (or patch)
    pub integrated: Vec<f64>,
    /// |Σ integrated − (F(x) − F(b))|
    pub error: f64,
    /// the same, relative to |F(x) − F(b)|
    pub relative_error: f64,
}

/// Attributes the score of `target` (or of the likeliest) at `place` (or the last one that the head answers for).
///
/// `model` must have been loaded with gradients ([`qkv_nn::device::trainable`]).
pub fn attribute(
    model: &TextModel,
    given: &Given,
    place: Option<usize>,
    target: Option<u32>,
    steps: usize,
) -> Result<Attribution> {
    if matches!(model.spec().head, Head::None | Head::Pool) {
        let hint = "choose a model that answers: a language model, a classifier, a tagger";
        return Err(Error::new(
            model.path.display().to_string(),
            "this model has no head, so there is no score to explain",
            hint,
        ));
    }
    let work = Work::new(model, given)?;
    let plain = work.answer(work.input.clone())?;
    let [_, places, width] = plain.dims();
    let scores = numbers(plain)?;
    let place = place.unwrap_or_else(|| work.usual(places));
    if place >= places {
        let what = format!("there are {places} places, counted from 0");
        return Err(Error::new(format!("--at {place}"), what, format!("give 0 to {}", places - 1)));
    }
    let row = &scores[place * width..(place + 1) * width];
    let best = (0..width).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap_or(0) as u32;
    let target = target.unwrap_or(best);
    if target as usize >= width {
        return Err(Error::new(
            format!("--target-id {target}"),
            format!("there are {width} scores"),
            format!("give 0 to {}", width - 1),
        ));
    }
    let at = (place, target as usize);
    let (score, gradient) = work.gradient(1.0, at)?;
    let baseline = f64::from(numbers(work.answer(work.baseline.clone())?)?[place * width + target as usize]);
    let mut mean = vec![0.0f64; gradient.len()];
    for (alpha, weight) in gauss_legendre(steps) {
        let (_, gradient) = work.gradient(alpha, at)?;
        mean.iter_mut().zip(&gradient).for_each(|(m, g)| *m += weight * f64::from(*g));
    }
    let input = numbers(work.input.clone())?;
    let single: Vec<f64> = gradient.iter().map(|g| f64::from(*g)).collect();
    let moved = numbers(work.input.clone() - work.baseline.clone())?;
    let integrated = work.by_token(&moved, &mean);
    let whole = score - baseline;
    let error = (integrated.iter().sum::<f64>() - whole).abs();
    Ok(Attribution {
        place,
        target,
        score,
        baseline,
        steps,
        input_gradient: work.by_token(&input, &single),
        integrated,
        error,
        relative_error: error / whole.abs().max(1e-12),
    })
}

/// A network that is asked again and again with other vectors in the place of its tokens'.
struct Work<'a> {
    given: &'a Given,
    network: Transformer,
    /// what is read, flat: `[1, T, E]`, or `[1, channels, size, size]` of a picture
    input: Tensor<1>,
    /// where the path to it begins
    baseline: Tensor<1>,
    dims: Vec<usize>,
    masked: Option<usize>,
}

impl<'a> Work<'a> {
    fn new(model: &TextModel, given: &'a Given) -> Result<Self> {
        // The weights stand still: only what is read is followed.
        let network = model.network.model.clone().no_grad();
        let device = network.device();
        let (dims, flat_input, start) = match given {
            Given::Picture { pixels: numbers, size, channels, .. } => {
                (vec![1, *channels, *size, *size], numbers.clone(), vec![0.0; numbers.len()])
            }
            _ => {
                let x = network.embed(&Ids::one(given.ids().to_vec()))?;
                let dims = x.dims().to_vec();
                (dims, numbers(x)?, average(&network)?.repeat(given.ids().len()))
            }
        };
        let flat = |values: Vec<f32>| Tensor::<1>::from_data(TensorData::new(values.clone(), [values.len()]), &device);
        let (input, baseline) = (flat(flat_input), flat(start));
        let mask = model.maybe_tokenizer().and_then(|t| t.special().mask);
        let masked = mask.and_then(|mask| given.ids().iter().position(|id| *id == mask));
        Ok(Self { given, network, input, baseline, dims, masked })
    }

    /// Where the answer is looked at, if nobody says: a gap to be filled, else the last place.
    fn usual(&self, places: usize) -> usize {
        self.masked.filter(|at| *at < places).unwrap_or(places.saturating_sub(1))
    }

    /// The answer `[1, places, scores]` to these numbers.
    fn answer(&self, x: Tensor<1>) -> Result<Tensor<3>> {
        let mut cx = Cx::eval();
        let vectors = |x: Tensor<1>| x.reshape([self.dims[0], self.dims[1], self.dims[2]]);
        match self.given {
            Given::Picture { size, channels, .. } => {
                self.network.answer_image(x.reshape([1, *channels, *size, *size]), &mut cx)
            }
            Given::Tokens { ids, types } => {
                let mut tokens = Tokens::new(Ids::one(ids.clone())).with_vectors(vectors(x));
                if let Some(types) = types {
                    tokens = tokens.with_token_types(Ids::one(types.clone()));
                }
                match self.network.decoder.is_some() {
                    true => self.network.logits(&tokens, &mut cx),
                    false => self.network.answer(&tokens, &mut cx),
                }
            }
            Given::Pair { source, input, .. } => {
                let source = Tokens::new(Ids::one(source.clone())).with_vectors(vectors(x));
                let memory: Memory = self.network.encode(&source, &mut cx)?;
                self.network.decode(&Tokens::new(Ids::one(input.clone())), &memory, &mut cx)
            }
        }
    }

    /// One score at `b + α(x − b)`, and its gradient with respect to what is read.
    fn gradient(&self, alpha: f64, (place, target): (usize, usize)) -> Result<(f64, Vec<f32>)> {
        let x = self.baseline.clone() + (self.input.clone() - self.baseline.clone()) * alpha;
        let x = x.detach().require_grad();
        let score = self.answer(x.clone())?.narrow(1, place, 1).narrow(2, target, 1).sum();
        let value = numbers(score.clone())?.first().copied().unwrap_or(f32::NAN);
        let grads = score.backward();
        let gradient = x.grad(&grads).ok_or_else(|| {
            Error::internal("gradients", "what was read has no gradient: was the model loaded with them?")
        })?;
        Ok((f64::from(value), numbers(gradient)?))
    }

    /// `Σ input·gradient` over the features of each token, or the pixels of each patch.
    fn by_token(&self, input: &[f32], gradient: &[f64]) -> Vec<f64> {
        let products: Vec<f64> = input.iter().zip(gradient).map(|(x, g)| f64::from(*x) * g).collect();
        match self.given {
            Given::Picture { size, patch, .. } => {
                let side = size / (*patch).max(1);
                let mut sums = vec![0.0; side * side];
                for (i, product) in products.iter().enumerate() {
                    let (y, x) = (i / size % size, i % size);
                    if let Some(sum) = sums.get_mut(y / patch * side + x / patch) {
                        *sum += product;
                    }
                }
                sums
            }
            _ => products.chunks(self.dims[2].max(1)).map(|c| c.iter().sum()).collect(),
        }
    }
}

/// The average of all tokens' vectors `[E]`, scaled as the family scales them.
fn average(network: &Transformer) -> Result<Vec<f32>> {
    let Some(table) = &network.tokens else {
        return Err(Error::internal("gradients", "a model that reads tokens has no table of them"));
    };
    let scale = match network.spec().input {
        Input::Tokens { scaled: true, .. } => (network.spec().width as f64).sqrt(),
        _ => 1.0,
    };
    numbers(table.weight.val().mean_dim(0) * scale)
}

/// Places and weights of Gauss–Legendre quadrature on 0 to 1: exact for polynomials of degree 2n − 1.
///
/// ```
/// let sum: f64 = qkv_insight::see::gradients::gauss_legendre(3).iter().map(|(x, w)| w * x.powi(5)).sum();
/// assert!((sum - 1.0 / 6.0).abs() < 1e-12);
/// ```
pub fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let n = n.max(1);
    let root = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            // Legendre's polynomials by their recurrence: p is Pₙ(x), before is Pₙ₋₁(x).
            let (mut before, mut p) = (1.0, x);
            for k in 2..=n {
                let k = k as f64;
                (before, p) = (p, ((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k);
            }
            slope = n as f64 * (x * p - before) / (x * x - 1.0);
            let step = p / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        ((1.0 - x) / 2.0, 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..n).map(root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_weights_sum_to_one() {
        for n in [1, 2, 5, 50, 64] {
            let rule = gauss_legendre(n);
            assert!((rule.iter().map(|r| r.1).sum::<f64>() - 1.0).abs() < 1e-12, "{n}");
            assert!(rule.windows(2).all(|w| w[0].0 < w[1].0));
            let sine: f64 = rule.iter().map(|(x, w)| w * (x * 2.0).sin()).sum();
            assert!(n < 5 || (sine - (1.0 - 2f64.cos()) / 2.0).abs() < 1e-9);
        }
    }
}
