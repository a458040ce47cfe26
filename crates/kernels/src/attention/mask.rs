//! Who sees whom: causal, windowed and prefix sight, padding, and documents packed into one row.
//!
//! One rule, [`Mask::sees`], defines every mask; the plain twin turns it into a tensor, the kernel into loop bounds.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use std::sync::Arc;

/// How far a query sees, padding and documents aside. Positions are counted along the keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Sight {
    /// Everything: an encoder, or cross-attention.
    #[default]
    Both,
    /// Itself and the past: a decoder.
    Causal,
    /// Itself and the `n − 1` positions before it (n ≥ 1).
    Window(usize),
    /// Causal, but the first `n[b]` positions of row b are seen by all: a prefix language model.
    Prefix(Arc<[usize]>),
}

/// Sight together with what is real and what belongs together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Mask {
    /// how far a query sees
    pub sight: Sight,
    /// `[B·Tk]`, true where the key is a real token; `None`: all are
    pub padding: Option<Arc<[bool]>>,
    /// `[B·Tk]`, the document each key belongs to, where several are packed into a row; queries see their own only
    pub documents: Option<Arc<[u32]>>,
}

impl Mask {
    /// Nothing is hidden.
    ///
    /// ```
    /// assert!(qkv_kernels::Mask::none().sees(0, 0, 4, 5)); // even the last key from the first position
    /// ```
    pub fn none() -> Self {
        Self::default()
    }

    /// The future is hidden.
    ///
    /// ```
    /// let mask = qkv_kernels::Mask::causal();
    /// assert!(mask.sees(0, 2, 2, 5) && !mask.sees(0, 2, 3, 5));
    /// ```
    pub fn causal() -> Self {
        Self { sight: Sight::Causal, ..Self::default() }
    }

    /// Panics with a reason unless the mask is made for `b` rows of `tk` keys.
    pub(super) fn check(&self, b: usize, tk: usize) {
        let rows = if let Sight::Prefix(n) = &self.sight { n.len() } else { b };
        assert_eq!(rows, b, "attention: one prefix for each row");
        let keys = [self.padding.as_ref().map(|x| x.len()), self.documents.as_ref().map(|x| x.len())];
        assert!(
            keys.into_iter().flatten().all(|n| n == b * tk),
            "attention: padding and documents cover {b} × {tk} keys"
        );
    }

    /// Whether, in row `b`, the query at key position `p` sees the key at position `j`, of `tk` keys.
    ///
    /// ```
    /// use qkv_kernels::Mask;
    /// let padded = Mask { padding: Some([true, false].into()), ..Mask::none() };
    /// assert!(padded.sees(0, 1, 0, 2) && !padded.sees(0, 1, 1, 2));
    /// ```
    #[inline]
    pub fn sees(&self, b: usize, p: usize, j: usize, tk: usize) -> bool {
        let (from, to) = self.span(b, p, tk);
        (from..to).contains(&j)
            && self.padding.as_ref().is_none_or(|real| real[b * tk + j])
            && self.documents.as_ref().is_none_or(|doc| doc[b * tk + j] == doc[b * tk + p])
    }

    /// The keys within sight of the query at key position `p` of row `b`, padding and documents aside.
    ///
    /// ```
    /// use qkv_kernels::{Mask, Sight};
    /// let window = Mask { sight: Sight::Window(2), ..Mask::none() };
    /// assert_eq!(window.span(0, 3, 8), (2, 4)); // itself and the one before
    /// ```
    #[inline]
    pub fn span(&self, b: usize, p: usize, tk: usize) -> (usize, usize) {
        match &self.sight {
            Sight::Both => (0, tk),
            Sight::Causal => (0, p + 1),
            Sight::Window(n) => ((p + 1).saturating_sub(*n), p + 1),
            Sight::Prefix(n) => (0, (p + 1).max(n[b]).min(tk)),
        }
    }

    /// Whether keys within sight may still be hidden (by padding or document).
    ///
    /// ```
    /// use qkv_kernels::Mask;
    /// assert!(!Mask::causal().has_holes());
    /// assert!(Mask { documents: Some([0, 1].into()), ..Mask::causal() }.has_holes());
    /// ```
    pub fn has_holes(&self) -> bool {
        self.padding.is_some() || self.documents.is_some()
    }

    /// `[B, 1, Tq, Tk]`, true where hidden; `None` where nothing is.
    ///
    /// ```
    /// let hidden = qkv_kernels::Mask::causal().hidden(1, 2, 2, &burn::tensor::Device::flex()).unwrap();
    /// assert_eq!(hidden.into_data().iter::<bool>().collect::<Vec<_>>(), [false, true, false, false]);
    /// ```
    pub fn hidden(&self, b: usize, tq: usize, tk: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        if *self == Self::none() {
            return None;
        }
        let at = |i: usize| (i / (tq * tk), i / tk % tq, i % tk);
        let hidden: Vec<bool> = (0..b * tq * tk)
            .map(at)
            // With more queries than keys (cross-attention) the position does not matter; it must only not wrap.
            .map(|(b, i, j)| !self.sees(b, (tk + i).saturating_sub(tq), j, tk))
            .collect();
        Some(Tensor::from_data(TensorData::new(hidden, [b, 1, tq, tk]), device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mask of the lecture: five tokens, the upper triangle hidden.
    #[test]
    fn causal_is_the_lower_triangle() {
        let mask = Mask::causal();
        for i in 0..5 {
            for j in 0..5 {
                assert_eq!(mask.sees(0, i, j, 5), j <= i);
            }
        }
    }

    #[test]
    fn window_prefix_padding_documents() {
        let window = Mask { sight: Sight::Window(2), ..Mask::none() };
        assert_eq!((0..4).map(|j| window.sees(0, 2, j, 4)).collect::<Vec<_>>(), [false, true, true, false]);
        let prefix = Mask { sight: Sight::Prefix([3, 0].into()), ..Mask::none() };
        assert!(prefix.sees(0, 0, 2, 4) && !prefix.sees(0, 0, 3, 4) && !prefix.sees(1, 0, 2, 4));
        let padded = Mask { padding: Some([true, false].into()), ..Mask::none() };
        assert!(padded.sees(0, 1, 0, 2) && !padded.sees(0, 1, 1, 2));
        let packed = Mask { documents: Some([0, 0, 1].into()), ..Mask::causal() };
        assert!(packed.sees(0, 1, 0, 3) && !packed.sees(0, 2, 1, 3));
    }
}
