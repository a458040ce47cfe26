//! ALiBi (Press et al. 2022): no positions at all, but each head subtracts its own slope times the distance from the
//! scores. Slopes fall geometrically from head to head, so some heads look near and some far. Nothing is learned.
//!
//! ```
//! use qkv_nn::position::alibi::slopes;
//! assert_eq!(slopes(4), [0.25, 0.0625, 0.015625, 0.00390625]); // 2^(−8/4), its square, …
//! ```

use burn::tensor::{Device, Tensor, TensorData};

/// The slope of each head. For a number that is not a power of two, every second slope of the next power fills the gap, as
/// the authors do.
pub fn slopes(heads: usize) -> Vec<f32> {
    let power = |n: usize| (1..=n).map(move |i| 2f64.powf(-8.0 * i as f64 / n as f64) as f32);
    let below = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    power(below).chain(power(2 * below).step_by(2)).take(heads).collect()
}

/// The bias `[1, H, Tq, Tk]`: `−slope·|distance|`, queries aligned with the end of the keys.
pub fn alibi(heads: usize, tq: usize, tk: usize, device: &Device) -> Tensor<4> {
    let slopes = slopes(heads);
    let data: Vec<f32> = (0..heads * tq * tk)
        .map(|i| {
            let (h, q, k) = (i / (tq * tk), (tk + i / tk % tq) as f32 - tq as f32, (i % tk) as f32);
            -slopes[h] * (q - k).abs()
        })
        .collect();
    Tensor::from_data(TensorData::new(data, [1, heads, tq, tk]), device)
}

/// The same for queries at any positions, `[1, H, N, keys]`: rows of unequal length, one behind the other.
pub fn alibi_at(heads: usize, positions: &[usize], keys: usize, device: &Device) -> Tensor<4> {
    let slopes = slopes(heads);
    crate::row_cache::by_distance(heads, positions, keys, device, |h, distance| -slopes[h] * distance.abs() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_heads_take_every_second_slope_of_the_next_power() {
        let (six, four, eight) = (slopes(6), slopes(4), slopes(8));
        assert_eq!(six[..4], four[..]);
        assert_eq!(six[4..], [eight[0], eight[2]]);
    }

    #[test]
    fn at_the_end_of_the_keys_both_are_the_same() {
        let device = Device::flex();
        assert_eq!(alibi_at(3, &[2, 3], 4, &device).into_data(), alibi(3, 2, 4, &device).into_data());
    }

    #[test]
    fn nearer_is_less_negative() {
        let bias = alibi(2, 1, 3, &Device::flex()).into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(bias[..3], [-2.0 * slopes(2)[0], -slopes(2)[0], 0.0]);
    }
}
