//! The arithmetic of the lectures in plain loops over f64: what a person would do on paper, and what the pages print.
//!
//! The networks themselves compute in `qkv-kernels`; here nothing is fast and everything can be read. A test beside the
//! pages holds the two together.

/// Rows of numbers.
pub type Matrix = Vec<Vec<f64>>;

/// `a·b = Σ aᵢbᵢ`
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `|a| = √(a·a)`
pub fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// `a·b / (|a||b|)`
pub fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (norm(a) * norm(b))
}

/// `e^xᵢ / Σ e^xⱼ`; where a score is −∞ the weight is 0, and a row of nothing but −∞ is 0 everywhere.
///
/// ```
/// use qkv_insight::arithmetic::softmax;
/// assert_eq!(softmax(&[1.0, f64::NEG_INFINITY]), [1.0, 0.0]);
/// assert_eq!(softmax(&[3.0, 3.0]), [0.5, 0.5]);
/// ```
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let powers: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|p| p / sum).collect()
}

/// `a·b`, `[n, m] · [m, p] → [n, p]`
pub fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let columns = transpose(b);
    a.iter().map(|row| columns.iter().map(|column| dot(row, column)).collect()).collect()
}

/// Rows become columns.
pub fn transpose(a: &Matrix) -> Matrix {
    let width = a.first().map_or(0, Vec::len);
    (0..width).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Σ wᵢ·rowᵢ
pub fn mix(weights: &[f64], rows: &Matrix) -> Vec<f64> {
    let width = rows.first().map_or(0, Vec::len);
    (0..width).map(|j| weights.iter().zip(rows).map(|(w, row)| w * row[j]).sum()).collect()
}

/// Mean, and variance divided by n (not n − 1), as norms use it.
pub fn mean_variance(x: &[f64]) -> (f64, f64) {
    let n = x.len().max(1) as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

/// `(x − mean) / √(variance + ε)`
pub fn normalise(x: &[f64], epsilon: f64) -> Vec<f64> {
    let (mean, variance) = mean_variance(x);
    x.iter().map(|x| (x - mean) / (variance + epsilon).sqrt()).collect()
}

/// `x / √(mean of x² + ε)`
pub fn rms_normalise(x: &[f64], epsilon: f64) -> Vec<f64> {
    let square = x.iter().map(|x| x * x).sum::<f64>() / x.len().max(1) as f64;
    x.iter().map(|x| x / (square + epsilon).sqrt()).collect()
}

/// One row of sinusoids: `sin(pos / 10000^(2i/d))` in even places, the cosine in odd ones.
pub fn sinusoids(position: usize, d: usize) -> Vec<f64> {
    let wave = |j: usize| {
        let angle = position as f64 / 10_000f64.powf((j - j % 2) as f64 / d as f64);
        if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }
    };
    (0..d).map(wave).collect()
}

/// Attention, with what is computed on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// `q·kᵀ`
    pub dots: Matrix,
    /// divided by √d, and −∞ where hidden
    pub scores: Matrix,
    /// softmax of each row
    pub weights: Matrix,
    /// `weights·v`
    pub out: Matrix,
}

/// `softmax(q·kᵀ/√d)·v`; `sees(i, j)` says whether query i may look at key j.
///
/// ```
/// use qkv_insight::arithmetic::attend;
/// let x = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
/// let causal = attend(&x, &x, &x, |query, key| key <= query);
/// assert_eq!(causal.weights[0], [1.0, 0.0]);
/// ```
pub fn attend(q: &Matrix, k: &Matrix, v: &Matrix, sees: impl Fn(usize, usize) -> bool) -> Attended {
    let root = (q.first().map_or(1, Vec::len) as f64).sqrt();
    let dots = product(q, &transpose(k));
    let hide = |i: usize, j: usize, s: f64| if sees(i, j) { s / root } else { f64::NEG_INFINITY };
    let row = |(i, row): (usize, &Vec<f64>)| row.iter().enumerate().map(|(j, s)| hide(i, j, *s)).collect();
    let scores: Matrix = dots.iter().enumerate().map(row).collect();
    let weights: Matrix = scores.iter().map(|row| softmax(row)).collect();
    let out = weights.iter().map(|row| mix(row, v)).collect();
    Attended { dots, scores, weights, out }
}

/// `a·b` written out: `0.31·0.82 + 0.10·0.40 = 0.2942`.
pub fn dot_in_words(a: &[f64], b: &[f64], decimals: usize) -> String {
    let number = |x: &f64| crate::page::shown(*x, decimals);
    let terms: Vec<String> = a.iter().zip(b).map(|(a, b)| format!("{}·{}", number(a), number(b))).collect();
    terms.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tensor};
    use qkv_kernels::{Attend, Mask, Qkv, attention_with_weights};
    use qkv_testkit::values;

    #[test]
    fn softmax_does_not_see_a_shift() {
        let (a, b) = (softmax(&[1.0, 2.0, 4.0]), softmax(&[1001.0, 1002.0, 1004.0]));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(softmax(&[f64::NEG_INFINITY; 2]), [0.0, 0.0]);
    }

    /// What the pages do on paper is what the kernels do.
    #[test]
    fn attention_on_paper_is_the_attention_of_the_networks() {
        let numbers: Vec<f64> = qkv_base::Key::new(3, 0, 0).normals(36).iter().map(|x| f64::from(*x)).collect();
        let rows: Matrix = numbers.chunks(4).map(<[f64]>::to_vec).collect(); // 3 tokens of q, k and v, 4 wide
        let part = |n: usize| -> Matrix { rows[3 * n..3 * n + 3].to_vec() };
        let paper = attend(&part(0), &part(1), &part(2), |query, key| key <= query);
        let packed: Vec<f32> = (0..3)
            .flat_map(|t| (0..3).flat_map(move |n| 4 * (3 * n + t)..4 * (3 * n + t) + 4))
            .map(|i| numbers[i] as f32)
            .collect();
        let x = Tensor::<1>::from_floats(packed.as_slice(), &Device::flex()).reshape([1, 3, 12]);
        let how = Attend { heads: 1, kv_heads: 1, scale: 0.5, soft_cap: None, mask: Mask::causal(), dropout: None };
        let (out, weights) = attention_with_weights(Qkv::Packed(x), None, &how);
        let near = |got: Vec<f32>, want: Matrix| {
            let want: Vec<f64> = want.concat();
            assert!(got.iter().zip(&want).all(|(g, w)| (f64::from(*g) - w).abs() < 1e-5), "{got:?} {want:?}");
        };
        near(values(out), paper.out);
        near(values(weights), paper.weights);
    }
}
