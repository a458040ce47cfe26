//! How the numbers of a tensor are stored: plain, or in blocks that share a scale.
//!
//! Every type is a block of `n` elements in `b` bytes; plain types have `n = 1`. A tensor of shape `[d₁ … dᵣ]` takes
//! `d₁ ⋯ dᵣ / n · b` bytes, and its innermost axis must be whole blocks.

use std::fmt;

/// The type of a stored element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// a byte that is zero or one
    Bool,
    /// unsigned 8 bits
    U8,
    /// signed 8 bits
    I8,
    /// unsigned 16 bits
    U16,
    /// signed 16 bits
    I16,
    /// unsigned 32 bits
    U32,
    /// signed 32 bits
    I32,
    /// unsigned 64 bits
    U64,
    /// signed 64 bits
    I64,
    /// IEEE half
    F16,
    /// the upper half of an `f32`
    BF16,
    /// IEEE single
    F32,
    /// IEEE double
    F64,
    /// 4 bits, scale
    Q4_0,
    /// 4 bits, scale and minimum
    Q4_1,
    /// 5 bits, scale
    Q5_0,
    /// 5 bits, scale and minimum
    Q5_1,
    /// 8 bits, scale
    Q8_0,
    /// 2 bits in 16 groups of 16
    Q2K,
    /// 3 bits in 16 groups of 16
    Q3K,
    /// 4 bits in 8 groups of 32
    Q4K,
    /// 5 bits in 8 groups of 32
    Q5K,
    /// 6 bits in 16 groups of 16
    Q6K,
    /// 8 bits, one single-precision scale for 256
    Q8K,
}

/// type, its name, elements in a block, bytes of a block, its number in GGUF: the one table.
const TABLE: [(Dtype, &str, usize, usize, Option<u32>); 24] = [
    (Dtype::Bool, "BOOL", 1, 1, None),
    (Dtype::U8, "U8", 1, 1, None),
    (Dtype::I8, "I8", 1, 1, Some(24)),
    (Dtype::U16, "U16", 1, 2, None),
    (Dtype::I16, "I16", 1, 2, Some(25)),
    (Dtype::U32, "U32", 1, 4, None),
    (Dtype::I32, "I32", 1, 4, Some(26)),
    (Dtype::U64, "U64", 1, 8, None),
    (Dtype::I64, "I64", 1, 8, Some(27)),
    (Dtype::F16, "F16", 1, 2, Some(1)),
    (Dtype::BF16, "BF16", 1, 2, Some(30)),
    (Dtype::F32, "F32", 1, 4, Some(0)),
    (Dtype::F64, "F64", 1, 8, Some(28)),
    (Dtype::Q4_0, "Q4_0", 32, 18, Some(2)),
    (Dtype::Q4_1, "Q4_1", 32, 20, Some(3)),
    (Dtype::Q5_0, "Q5_0", 32, 22, Some(6)),
    (Dtype::Q5_1, "Q5_1", 32, 24, Some(7)),
    (Dtype::Q8_0, "Q8_0", 32, 34, Some(8)),
    (Dtype::Q2K, "Q2_K", 256, 84, Some(10)),
    (Dtype::Q3K, "Q3_K", 256, 110, Some(11)),
    (Dtype::Q4K, "Q4_K", 256, 144, Some(12)),
    (Dtype::Q5K, "Q5_K", 256, 176, Some(13)),
    (Dtype::Q6K, "Q6_K", 256, 210, Some(14)),
    (Dtype::Q8K, "Q8_K", 256, 292, Some(15)),
];

impl Dtype {
    fn row(self) -> &'static (Dtype, &'static str, usize, usize, Option<u32>) {
        // The table lists the variants in their order; `the_table_is_in_order` holds it to that.
        &TABLE[self as usize]
    }

    /// Every type.
    pub fn all() -> impl Iterator<Item = Dtype> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name that safetensors or ggml gives it.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Elements and bytes of one block.
    ///
    /// ```
    /// use qkv_weights::Dtype;
    /// assert_eq!(Dtype::F16.block(), (1, 2));
    /// assert_eq!(Dtype::Q8_0.block(), (32, 34)); // 32 bytes and a scale in half precision
    /// ```
    pub fn block(self) -> (usize, usize) {
        (self.row().2, self.row().3)
    }

    /// Whether elements share a scale.
    pub fn is_quantised(self) -> bool {
        self.block().0 > 1
    }

    /// Its number in a GGUF file, if GGUF has it.
    pub(crate) fn ggml(self) -> Option<u32> {
        self.row().4
    }

    /// The type with that number in a GGUF file.
    pub(crate) fn from_ggml(id: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.4 == Some(id)).map(|row| row.0)
    }

    /// Bytes of a tensor of this shape; `None` if the count overflows or the last axis is not whole blocks.
    pub(crate) fn bytes(self, shape: &[usize]) -> Option<usize> {
        let (elements, bytes) = self.block();
        if elements > 1 && !shape.last()?.is_multiple_of(elements) {
            return None;
        }
        (count(shape)? / elements).checked_mul(bytes)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of elements of a shape, if it fits.
pub(crate) fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, &d| product.checked_mul(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
            assert_eq!(Dtype::from_name(row.0.name()), Some(row.0));
            assert!(row.4.is_none() || Dtype::from_ggml(row.4.unwrap()) == Some(row.0));
        }
    }

    #[test]
    fn bytes_of_a_shape() {
        assert_eq!(Dtype::F32.bytes(&[]), Some(4));
        assert_eq!(Dtype::F32.bytes(&[3, 0, 5]), Some(0));
        assert_eq!(Dtype::Q4K.bytes(&[2, 512]), Some(4 * 144));
        assert_eq!(Dtype::Q4K.bytes(&[512, 2]), None);
        assert_eq!(Dtype::F32.bytes(&[1 << 32, 1 << 32]), None);
        assert_eq!(Dtype::F32.bytes(&[1 << 62]), None);
    }
}
