//! Numbers for people.

/// A measured number with as many digits as mean something: `significant(537.6785, 4)` is `537.7`.
///
/// What is computed from f32 carries six or seven digits, and a sum over a text fewer; the rest differs from machine to
/// machine. Whole digits before the point are all written, up to a million; from there on it is `1.235e7`.
///
/// ```
/// use qkv_base::format::significant;
/// assert_eq!([537.6785, 37.9861, 1.000_04, 0.001_234_9, 0.0].map(|x| significant(x, 4)), ["537.7", "37.99", "1.000", "0.001235", "0"]);
/// assert_eq!([12_345.6, 12_345_678.0, -9.9999].map(|x| significant(x, 4)), ["12346", "1.235e7", "-10.00"]);
/// ```
pub fn significant(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    // Rounded first: 9.9999 is 10.00, whose point stands one place further.
    let rounded = format!("{x:.*e}", digits.saturating_sub(1));
    let power = rounded.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok()).unwrap_or(0);
    if power >= 6 {
        return rounded;
    }
    let decimals = (digits as i32 - 1 - power).max(0) as usize;
    format!("{x:.decimals$}")
}

/// A number in the largest unit that leaves at least 1, after rounding to the tenth that is shown.
///
/// ```
/// use qkv_base::format::scaled;
/// assert_eq!([97.0, 999_949.0, 999_950.0].map(|n| scaled(n, 1000.0, &["", " k", " M"])), ["97", "999.9 k", "1.0 M"]);
/// ```
pub fn scaled(mut n: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while (n.abs() * 10.0).round() / 10.0 >= base && unit + 1 < units.len() {
        n /= base;
        unit += 1;
    }
    format!("{n:.*}{}", usize::from(unit > 0), units.get(unit).unwrap_or(&""))
}

/// Thousands apart: `1234567` → `1,234,567`.
///
/// ```
/// use qkv_base::format::grouped;
/// assert_eq!([0u64, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
/// ```
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
