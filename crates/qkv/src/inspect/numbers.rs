//! Numbers for people: thousands apart, and a unit that leaves one to three digits before the point.

/// `1234567` → `1,234,567`
pub fn grouped(n: impl TryInto<u64>) -> String {
    let digits = n.try_into().unwrap_or(u64::MAX).to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count: `124.4 M`, `175.2 B`
pub fn short(n: u64) -> String {
    scaled(n as f64, ["", "k", "M", "B", "T"])
}

/// Bytes in powers of a thousand: `497.8 MB`
pub fn bytes(n: u64) -> String {
    scaled(n as f64, ["B", "kB", "MB", "GB", "TB"])
}

/// Floating-point operations: `349.8 GFLOP`
pub fn flops(n: f64) -> String {
    scaled(n, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"])
}

fn scaled(mut n: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    // What would be printed as 1000.0 takes the next unit.
    while n >= 999.95 && unit < 4 {
        n /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 { 0 } else { 1 };
    format!("{n:.digits$} {}", units[unit]).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let said = [0, 7, 999, 1000, 123_456, 1_234_567].map(|n: u64| grouped(n));
        assert_eq!(said, ["0", "7", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn a_unit_leaves_at_most_three_digits() {
        let said = [0, 97, 999, 999_949, 999_950, 124_439_808, 174_604_000_000].map(short);
        assert_eq!(said, ["0", "97", "999", "999.9 k", "1.0 M", "124.4 M", "174.6 B"]);
        assert_eq!((bytes(1500), flops(3.5e11)), ("1.5 kB".into(), "350.0 GFLOP".into()));
        assert_eq!(bytes(5_000_000_000_000_000), "5000.0 TB"); // there is no larger unit
    }
}
