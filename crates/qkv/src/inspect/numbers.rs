//! Sizes for people, in powers of a thousand.

pub use qkv_base::format::grouped;
use qkv_base::format::scaled;

/// A count: `124.4 M`, `175.2 B`
pub fn short(n: u64) -> String {
    scaled(n as f64, 1000.0, &["", " k", " M", " B", " T"])
}

/// Bytes: `497.8 MB`
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1000.0, &[" B", " kB", " MB", " GB", " TB"])
}

/// Floating-point operations: `349.8 GFLOP`
pub fn flops(n: f64) -> String {
    scaled(n, 1000.0, &[" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_leaves_at_most_three_digits() {
        let said = [0, 97, 999, 999_949, 999_950, 124_439_808, 174_604_000_000].map(short);
        assert_eq!(said, ["0", "97", "999", "999.9 k", "1.0 M", "124.4 M", "174.6 B"]);
        assert_eq!((bytes(1500), flops(3.5e11)), ("1.5 kB".into(), "350.0 GFLOP".into()));
        assert_eq!(bytes(5_000_000_000_000_000), "5000.0 TB"); // there is no larger unit
    }
}
