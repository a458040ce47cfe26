//! Masks: who may look at whom. The rule itself is the kernel's ([`qkv_kernels::Mask`]); here are the usual ways to make
//! one.
//!
//! ```
//! use qkv_nn::mask;
//! let padding = mask::from_lengths(&[3, 1], 3); // two rows, three and one real token
//! assert_eq!(padding.as_ref(), [true, true, true, true, false, false]);
//! ```

pub use qkv_kernels::{Mask, Sight};
use std::sync::Arc;

/// Right padding: row b has `lengths[b]` real tokens of `width`.
pub fn from_lengths(lengths: &[usize], width: usize) -> Arc<[bool]> {
    lengths.iter().flat_map(|&n| (0..width).map(move |t| t < n)).collect()
}

/// Left padding: the last `lengths[b]` of `width` tokens are real.
pub fn from_lengths_left(lengths: &[usize], width: usize) -> Arc<[bool]> {
    lengths.iter().flat_map(|&n| (0..width).map(move |t| t + n >= width)).collect()
}

/// The position of each real token when padding is not counted; padding itself gets 0.
///
/// ```
/// let padding = qkv_nn::mask::from_lengths_left(&[2], 4);
/// assert_eq!(qkv_nn::mask::positions(&padding, 4), [0, 0, 0, 1]);
/// ```
pub fn positions(real: &[bool], width: usize) -> Vec<usize> {
    let row = |row: &[bool]| {
        let mut next = 0;
        let mut number = |&real: &bool| {
            let here = next;
            next += usize::from(real);
            if real { here } else { 0 }
        };
        row.iter().map(&mut number).collect::<Vec<_>>()
    };
    real.chunks(width.max(1)).flat_map(row).collect()
}
