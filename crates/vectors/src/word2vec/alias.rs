//! Drawing by weight in constant time (Walker's alias method): every place is shared by two rows at most.

/// Rows with weights, ready to be drawn.
pub(super) struct Alias {
    /// below which part of its place a row keeps it, in 2³²
    keeps: Vec<u32>,
    /// who has the rest
    other: Vec<u32>,
}

impl Alias {
    /// For positive weights.
    pub(super) fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let mean = weights.iter().sum::<f64>() / n as f64;
        let mut left: Vec<f64> = weights.iter().map(|w| w / mean).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|i| left[*i] < 1.0);
        let (mut keeps, mut other) = (vec![u32::MAX; n], (0..n as u32).collect::<Vec<_>>());
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            keeps[poor] = (left[poor] * 4_294_967_296.0).min(4_294_967_295.0) as u32;
            other[poor] = rich as u32;
            left[rich] -= 1.0 - left[poor];
            if left[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { keeps, other }
    }

    /// The row that a random word draws: its high part chooses the place, its low part who of the two.
    #[inline(always)]
    pub(super) fn at(&self, word: u32) -> u32 {
        let product = u64::from(word) * self.keeps.len() as u64;
        let (place, rest) = ((product >> 32) as usize, product as u32);
        if rest < self.keeps[place] { place as u32 } else { self.other[place] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_drawn_by_their_weight() {
        let weights = [1.0, 7.0, 0.5, 1.5];
        let alias = Alias::new(&weights);
        let mut counts = [0f64; 4];
        for i in 0..1u32 << 16 {
            counts[alias.at(i << 16) as usize] += 1.0;
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((count / 65536.0 - weight / 10.0).abs() < 1e-3, "{counts:?}");
        }
        assert_eq!(Alias::new(&[3.0]).at(u32::MAX), 0);
    }
}
