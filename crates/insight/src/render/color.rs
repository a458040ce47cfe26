//! Cividis (Nuñez, Anderton and Renslow 2018): dark blue to yellow, its lightness rises evenly, and people who see red and
//! green alike see the same picture. Eight stops, straight lines between them.

/// The stops, evenly spaced from 0 to 1.
const STOPS: [[u8; 3]; 9] = [
    [0, 32, 76],
    [0, 48, 110],
    [59, 73, 108],
    [90, 97, 112],
    [117, 121, 121],
    [149, 146, 117],
    [184, 173, 103],
    [220, 203, 80],
    [255, 234, 70],
];

/// The stops, for pages that colour by themselves.
pub fn stops() -> &'static [[u8; 3]] {
    &STOPS
}

/// The colour of a number from 0 to 1; outside it the end of the scale.
///
/// ```
/// use qkv_insight::render::color::cividis;
/// assert_eq!((cividis(0.0), cividis(1.0), cividis(7.0)), ([0, 32, 76], [255, 234, 70], [255, 234, 70]));
/// ```
pub fn cividis(x: f64) -> [u8; 3] {
    let x = if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) } * (STOPS.len() - 1) as f64;
    let at = (x as usize).min(STOPS.len() - 2);
    let part = x - at as f64;
    std::array::from_fn(|c| {
        let (from, to) = (f64::from(STOPS[at][c]), f64::from(STOPS[at + 1][c]));
        (from + part * (to - from)).round() as u8
    })
}

/// How light a colour is, 0 to 1: whether ink on it should be dark or light.
pub fn lightness([r, g, b]: [u8; 3]) -> f64 {
    (0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)) / 255.0
}

/// `#00204c`
pub fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_grows_lighter_all_the_way() {
        let light: Vec<f64> = (0..=100).map(|i| lightness(cividis(i as f64 / 100.0))).collect();
        assert!(light.windows(2).all(|w| w[1] >= w[0] - 1e-3), "{light:?}");
        assert!(light[100] - light[0] > 0.7);
        assert_eq!(hex(cividis(0.0)), "#00204c");
    }
}
