//! Residual wiring: `x + f(norm(x))` (pre-norm) or `norm(x + f(x))` (post-norm, the 2017 paper's "Add & Norm").
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Norm, NormKind, Wiring};
//! let norm = Norm::new(&Build::new(&Device::flex(), 0), 2, NormKind::Layer { eps: 0.0 });
//! let x = || Tensor::<2>::from_floats([[1.0, 3.0]], &Device::flex());
//! let add = |w: Wiring| w.around(x(), &norm, |h| h).into_data().try_to_vec::<f32>().unwrap();
//! assert_eq!(add(Wiring::Pre), [0.0, 4.0]); // [1, 3] + [−1, 1]
//! assert_eq!(add(Wiring::Post), [-1.0, 1.0]); // norm([2, 6])
//! ```

use crate::Norm;
use burn::tensor::Tensor;

/// Where the norm stands relative to the residual connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// before the sub-layer; a final norm closes the stack
    Pre,
    /// after the addition
    Post,
}

impl Wiring {
    /// Runs `f` with the residual connection and `norm` around it.
    pub fn around<const D: usize>(
        self,
        x: Tensor<D>,
        norm: &Norm,
        f: impl FnOnce(Tensor<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        match self {
            Self::Pre => x.clone() + f(norm.forward(x)),
            Self::Post => norm.forward(x.clone() + f(x)),
        }
    }
}
