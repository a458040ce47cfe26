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
