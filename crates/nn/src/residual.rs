//! Residual wiring: `x + f(norm(x))` (pre-norm), `norm(x + f(x))` (post-norm, the 2017 paper's "Add & Norm"), or
//! `x + norm'(f(norm(x)))` (sandwich: a norm on either side of the sub-layer, none on the residual stream).
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Norm, NormKind, Wiring};
//! let norm = Norm::new(&Build::new(&Device::flex(), 0), 2, NormKind::Layer { eps: 0.0 });
//! let x = || Tensor::<2>::from_floats([[1.0, 3.0]], &Device::flex());
//! let add = |w: Wiring| w.around(x(), &norm, None, |h| h).into_data().try_to_vec::<f32>().unwrap();
//! assert_eq!(add(Wiring::Pre), [0.0, 4.0]); // [1, 3] + [−1, 1]
//! assert_eq!(add(Wiring::Post), [-1.0, 1.0]); // norm([2, 6])
//! ```

use crate::Norm;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Where the norm stands relative to the residual connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// before the sub-layer; a final norm closes the stack
    Pre,
    /// after the addition
    Post,
    /// before the sub-layer, and another behind it; a final norm closes the stack
    Sandwich,
}

impl Wiring {
    /// Whether a norm of its own closes the stack: the residual stream itself is never normalised.
    pub fn has_final_norm(self) -> bool {
        self != Self::Post
    }

    /// Runs `f` with the residual connection and `norm` around it; `behind` is the second norm of a sandwich.
    pub fn around<const D: usize>(
        self,
        x: Tensor<D>,
        norm: &Norm,
        behind: Option<&Norm>,
        f: impl FnOnce(Tensor<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        match self {
            Self::Pre => x.clone() + f(norm.forward(x)),
            Self::Post => norm.forward(x.clone() + f(x)),
            Self::Sandwich => {
                let y = f(norm.forward(x.clone()));
                x + behind.map_or(y.clone(), |behind| behind.forward(y))
            }
        }
    }
}
