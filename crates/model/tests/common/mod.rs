//! What the tests of whole models share: every tiny preset with parameters that are all at work, something to give it,
//! its natural loss, and its gradients by path.
#![allow(dead_code)] // each test file uses its part

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use qkv_kernels::{CrossEntropy, IGNORED, Ids, Key, cross_entropy};
use qkv_model::spec::{Head, Input, Shape, Spec};
use qkv_model::{CausalLm, Encoder, Seq2Seq, Tokens, Transformer, presets};
use qkv_nn::{Cx, walk};
use qkv_testkit::{max_diff, tolerance, values};
use std::collections::BTreeMap;

/// The architecture of every preset made for tests.
pub(crate) fn tiny() -> impl Iterator<Item = (&'static str, Spec)> {
    presets::ALL.iter().filter(|p| p.name.starts_with("tiny-")).map(|p| (p.name, p.spec()))
}

/// Those among them that are decoders alone.
pub(crate) fn decoders() -> impl Iterator<Item = (&'static str, Spec)> {
    tiny().filter(|(_, spec)| matches!(spec.shape, Shape::Decoder(_)))
}

/// Those among them that are pairs.
pub(crate) fn pairs() -> impl Iterator<Item = (&'static str, Spec)> {
    tiny().filter(|(_, spec)| matches!(spec.shape, Shape::Pair { .. }))
}

/// Those among them whose encoder reads tokens: encoders and pairs.
pub(crate) fn readers() -> impl Iterator<Item = (&'static str, Spec)> {
    tiny().filter(|(_, spec)| spec.encoder().is_some() && spec.vocabulary().is_some())
}

/// The architecture of one preset.
pub(crate) fn spec(name: &str) -> Spec {
    presets::find(name).expect("a preset").spec()
}

/// The network of `spec` with noise on every parameter. As drawn, biases are 0, gains are 1 and attention is nearly
/// even: an error in any of them would not show.
pub(crate) fn lively(spec: &Spec, device: &Device) -> Transformer {
    struct Noise(u64);
    impl ModuleMapper for Noise {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            let key = Key::new(7, 0, self.0);
            param.map(|x| {
                let noise: Vec<f32> = key.normals(x.shape().num_elements()).into_iter().map(|n| 0.1 * n).collect();
                let moved = x.clone() + Tensor::from_data(TensorData::new(noise, x.shape()), &x.device());
                moved.detach().set_require_grad(x.is_require_grad())
            })
        }
    }
    Transformer::new(spec, 1, device).expect("a valid spec").map(&mut Noise(0))
}

/// A lively network that only answers.
pub(crate) fn answering(spec: &Spec) -> Transformer {
    lively(spec, &Device::flex())
}

/// `n` random ids of the tiny vocabulary; others for another `place`.
pub(crate) fn ids(n: usize, place: u64) -> Vec<u32> {
    (0..n as u64).map(|i| Key::new(3, 0, place).word(i) % 97).collect()
}

/// `b` rows of `t` random tokens.
pub(crate) fn tokens(b: usize, t: usize, place: u64) -> Tokens {
    Tokens::new(Ids::new(ids(b * t, place), b))
}

/// What a network is given.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// to an encoder
    Read(Tokens),
    /// to a decoder
    Continue(Tokens),
    /// to a pair: source and target
    Translate(Tokens, Tokens),
    /// to an encoder of images `[B, channels, height, width]`
    Look(Tensor<4>),
}

impl Given {
    /// `b` random rows for the network of `spec`, of `t` tokens where it takes tokens.
    pub(crate) fn random(spec: &Spec, b: usize, t: usize) -> Self {
        let source = || tokens(b, t, 1);
        match (&spec.input, &spec.shape) {
            (Input::Patches { image, channels, .. }, _) => {
                let shape = [b, *channels, *image, *image];
                let pixels = Key::new(3, 0, 9).normals(shape.iter().product());
                Self::Look(Tensor::from_data(TensorData::new(pixels, shape), &Device::flex()))
            }
            (Input::Tokens { token_types: 0, .. }, Shape::Encoder(_)) => Self::Read(source()),
            (Input::Tokens { token_types, .. }, Shape::Encoder(_)) => {
                let kind = |i: usize| (i % t * token_types / t) as u32; // the first part of a row is of the first type
                Self::Read(source().with_token_types(Ids::new((0..b * t).map(kind).collect::<Vec<_>>(), b)))
            }
            (_, Shape::Decoder(_)) => Self::Continue(source()),
            (_, Shape::Pair { .. }) => Self::Translate(source(), tokens(b, t + 2, 2)),
        }
    }

    /// Row `b` alone.
    pub(crate) fn row(&self, b: usize) -> Self {
        let one = |tokens: &Tokens| Tokens {
            token_types: tokens.token_types.as_ref().map(|k| Ids::one(k.row(b))),
            ..Tokens::new(Ids::one(tokens.ids.row(b)))
        };
        match self {
            Self::Read(tokens) => Self::Read(one(tokens)),
            Self::Continue(tokens) => Self::Continue(one(tokens)),
            Self::Translate(source, target) => Self::Translate(one(source), one(target)),
            Self::Look(pixels) => Self::Look(pixels.clone().narrow(0, b, 1)),
        }
    }
}

/// The network's answer.
pub(crate) fn run(model: &Transformer, given: &Given, cx: &mut Cx) -> Tensor<3> {
    let answer = match given {
        Given::Read(tokens) => model.answer(tokens, cx),
        Given::Continue(tokens) => model.logits(tokens, cx),
        Given::Translate(source, target) => model.encode(source, cx).and_then(|m| model.decode(target, &m, cx)),
        Given::Look(pixels) if model.patches.as_ref().is_some_and(|p| p.class.val().is_autodiff()) => {
            model.answer_image(Tensor::from_inner(pixels.clone()), cx)
        }
        Given::Look(pixels) => model.answer_image(pixels.clone(), cx),
    };
    answer.expect("an input that fits")
}

/// The cross-entropy that the network's head is made for, with random labels. Every third label of a masked-language
/// model counts, as only masked words do.
pub(crate) fn loss(model: &Transformer, given: &Given, cx: &mut Cx) -> Tensor<1> {
    let answer = run(model, given, cx);
    let [b, t, n] = answer.dims();
    let label = |i: usize, of: usize| i64::from(Key::new(5, 0, 0).word(i as u64)) % of as i64;
    let (logits, targets): (Tensor<2>, Vec<i64>) = match &model.spec().head {
        Head::Masked { .. } => {
            let target = |i| if i % 3 == 0 { label(i, n) } else { IGNORED };
            (answer.reshape([b * t, n]), (0..b * t).map(target).collect())
        }
        // One score: yes, against the zero of no.
        Head::Detect { .. } => {
            let no = answer.zeros_like();
            let both = Tensor::cat(vec![no, answer], 2).reshape([b * t, 2]);
            (both, (0..b * t).map(|i| label(i, 2)).collect())
        }
        // A start and an end: two choices among the positions.
        Head::Span => (answer.swap_dims(1, 2).reshape([b * n, t]), (0..b * n).map(|i| label(i, t)).collect()),
        _ => (answer.reshape([b * t, n]), (0..b * t).map(|i| label(i, n)).collect()),
    };
    cross_entropy(logits, &CrossEntropy::mean(targets))
}

/// The gradient of every parameter that has one, by path.
pub(crate) fn gradients<M: Module>(model: &M, grads: &Gradients) -> BTreeMap<String, Vec<f32>> {
    let mut found = BTreeMap::new();
    walk(model, |p| found.extend(p.grad(grads).map(|g| (p.path().to_string(), values(g)))));
    found
}

/// The values of every parameter, by path.
pub(crate) fn parameters<M: Module>(model: &M) -> BTreeMap<String, Vec<f32>> {
    let mut found = BTreeMap::new();
    walk(model, |p| drop(found.insert(p.path().to_string(), values(p.values()))));
    found
}

/// The Euclidean norm.
pub(crate) fn norm(x: &[f32]) -> f64 {
    x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
}

/// Whether the gradient at this path is zero by mathematics, so that only rounding is left in it: the softmax does not
/// change when all its inputs are shifted by the same number. A key bias shifts all scores of a query alike (q·b), and
/// the bias of a span head shifts the scores of all positions alike.
pub(crate) fn shifts_a_softmax(path: &str, spec: &Spec) -> bool {
    path.ends_with(".k.bias") || (spec.head == Head::Span && path == "head.out.bias")
}

/// How far `got` is from `want`, as a share of the largest of `want`.
pub(crate) fn off(got: &[f32], want: &[f32]) -> f64 {
    let size = want.iter().fold(0f32, |m, v| m.max(v.abs()));
    f64::from(max_diff(got, want)) / f64::from(size)
}

/// The same up to rounding.
#[track_caller]
pub(crate) fn assert_close(got: &[f32], want: &[f32], what: &str) {
    let off = off(got, want);
    assert!(off <= tolerance::F32, "{what}: off by {off:.1e} of the largest");
}

/// Row `b`, places `from..from + len` of x `[B, T, N]`.
pub(crate) fn part(x: &Tensor<3>, b: usize, from: usize, len: usize) -> Vec<f32> {
    values(x.clone().narrow(0, b, 1).narrow(1, from, len))
}
