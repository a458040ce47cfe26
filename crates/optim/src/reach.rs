//! Gradients must not stop silently: after a backward, every trainable parameter must have one. A network in which one
//! does not is refused by name, before a single step is taken.

use burn::module::Module;
use burn::tensor::Gradients;
use qkv_nn::walk;
use thiserror::Error;

/// Trainable parameters that the loss does not depend on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no gradient reaches {}", names.join(", "))]
pub struct Unreached {
    /// their paths
    pub names: Vec<String>,
}

impl Unreached {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        "freeze what is not meant to learn, or use a head and an objective that depend on it"
    }
}

/// Refuses a network in which a trainable parameter got no gradient.
pub fn refuse_unreached<M: Module>(model: &M, grads: &Gradients) -> Result<(), Unreached> {
    let names: Vec<String> = reached(model, grads).into_iter().filter(|r| r.norm.is_none()).map(|r| r.path).collect();
    if names.is_empty() { Ok(()) } else { Err(Unreached { names }) }
}

/// What reached one trainable parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// where it is
    pub path: String,
    /// the norm of its gradient; `None`: there is none
    pub norm: Option<f32>,
}

/// The gradient norm of every trainable parameter, in order.
pub fn reached<M: Module>(model: &M, grads: &Gradients) -> Vec<Reached> {
    let mut found = vec![];
    walk(model, |p| {
        if p.learns() {
            let norm = p.grad(grads).map(|g| (g.clone() * g).sum().sqrt().into_scalar::<f32>());
            found.push(Reached { path: p.path().into(), norm });
        }
    });
    found
}
