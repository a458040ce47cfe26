//! Gradients must not stop silently: after a backward, every trainable parameter must have one. A network in which one
//! does not is refused by name, before a single step is taken.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
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
    struct Walk<'a> {
        grads: &'a Gradients,
        path: Vec<String>,
        found: Vec<Reached>,
    }
    impl ModuleVisitor for Walk<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let tensor = param.val();
            if tensor.is_require_grad() {
                let norm = tensor.grad(self.grads).map(|g| (g.clone() * g).sum().sqrt().into_scalar::<f32>());
                self.found.push(Reached { path: self.path.join("."), norm });
            }
        }
    }
    let mut walk = Walk { grads, path: vec![], found: vec![] };
    model.visit(&mut walk);
    walk.found
}
