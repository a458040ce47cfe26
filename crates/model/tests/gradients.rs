//! No gradient is lost: each network's natural objective reaches every trainable parameter, and a network in which one
//! cannot be reached is refused by name.

mod common;

use burn::tensor::Device;
use common::*;
use qkv_kernels::Activation;
use qkv_model::spec::{Head, Pool, Spec};
use qkv_model::{Encoder, Transformer};
use qkv_nn::{Build, Cx, Init, Linear};
use qkv_optim::reach::reached;
use qkv_optim::refuse_unreached;

/// The tiny presets, and BERT with the heads that it is fine-tuned with.
fn learners() -> impl Iterator<Item = (String, Spec)> {
    let heads = [
        Head::Classify { labels: 3, pool: Pool::Dense(Activation::Tanh) },
        Head::Classify { labels: 3, pool: Pool::First },
        Head::Tag { labels: 5 },
        Head::Span,
    ];
    let tuned = heads.map(|head| (format!("tiny-encoder with {head:?}"), Spec { head, ..spec("tiny-encoder") }));
    tiny().map(|(name, spec)| (name.to_string(), spec)).chain(tuned)
}

/// The norm of each gradient after one training step's backward, dropout on, as a share of the largest.
fn shares(name: &str, model: &Transformer) -> Vec<(String, f32)> {
    let given = Given::random(model.spec(), 4, 12);
    let grads = loss(model, &given, &mut Cx::train(1, 0)).backward();
    assert_eq!(refuse_unreached(model, &grads), Ok(()), "{name}");
    let found = reached(model, &grads);
    // The output bias of BART and Marian is in their files but is not learned.
    let fixed = usize::from(matches!(model.spec().head, Head::Language { bias: true, .. }));
    let all = qkv_model::count::parameters(model).len();
    assert_eq!(found.len(), all - fixed, "{name}: every other parameter is trainable");
    let most = found.iter().filter_map(|r| r.norm).fold(0.0, f32::max);
    found.into_iter().map(|r| (r.path, r.norm.expect("a gradient") / most)).collect()
}

/// What rounding leaves of a gradient that is zero by mathematics.
const ROUNDING: f32 = 1e-6;

#[test]
fn every_parameter_of_every_network_is_reached() {
    for (name, spec) in learners() {
        for (path, share) in shares(&name, &lively(&spec, &Device::flex().autodiff())) {
            let zero = shifts_a_softmax(&path, &spec);
            assert_eq!(share <= ROUNDING, zero, "{name}: {path} has {share:e} of the largest gradient");
        }
    }
}

/// As drawn, attention is nearly even, and what reaches queries and keys may be as small as rounding: but not zero.
#[test]
fn every_parameter_is_reached_from_its_start() {
    for (name, spec) in learners() {
        let model = Transformer::new(&spec, 1, &Device::flex().autodiff()).unwrap();
        for (path, share) in shares(&name, &model) {
            assert!(share > 0.0 || shifts_a_softmax(&path, &spec), "{name}: {path} has no gradient");
        }
    }
}

#[test]
fn a_head_that_the_loss_does_not_use_is_refused_by_name() {
    let spec = Spec { head: Head::Pool, ..spec("tiny-encoder") };
    let model = Transformer::new(&spec, 1, &Device::flex().autodiff()).unwrap();
    let hidden = model.hidden(&tokens(2, 5, 1), &mut Cx::eval()).unwrap();
    let error = refuse_unreached(&model, &hidden.powi_scalar(2).sum().backward()).unwrap_err();
    assert_eq!(error.to_string(), "no gradient reaches head.dense.weight, head.dense.bias");
    assert_eq!(error.hint(), "freeze what is not meant to learn, or use a head and an objective that depend on it");
    let pooled = model.answer(&tokens(2, 5, 1), &mut Cx::eval()).unwrap();
    assert_eq!(refuse_unreached(&model, &pooled.powi_scalar(2).sum().backward()), Ok(()));
}

/// A module beside the network that nothing calls.
#[derive(burn::module::Module, Debug)]
struct Wrapped {
    body: Transformer,
    extra: Linear,
}

#[test]
fn a_module_that_nothing_calls_is_refused_by_name_unless_frozen() {
    use burn::module::Module;
    let device = Device::flex().autodiff();
    let body = Transformer::new(&spec("tiny-decoder"), 1, &device).unwrap();
    let extra = Linear::new(&Build::new(&device, 1).at("extra"), 32, 4, false, Init::Xavier);
    let model = Wrapped { body, extra };
    let step = |model: &Wrapped| {
        let given = Given::random(model.body.spec(), 2, 6);
        refuse_unreached(model, &loss(&model.body, &given, &mut Cx::train(1, 0)).backward())
    };
    assert_eq!(step(&model).unwrap_err().to_string(), "no gradient reaches extra.weight");
    let frozen = Wrapped { extra: model.extra.no_grad(), body: model.body };
    assert_eq!(step(&frozen), Ok(()));
}
