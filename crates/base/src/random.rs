//! Randomness as a function: Philox4x32-10 (Salmon et al. 2011) turns `(key, counter)` into 128 random bits.
//!
//! Nothing is drawn from a stream, so nothing depends on who drew before: the number at `(seed, step, place, index)` is
//! the same at any thread count, in any order, and after a resume.

/// Names one stream of random numbers: which run, which step, which place in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u32; 2]);

impl Key {
    /// The stream of `seed` at `step` and `place`.
    ///
    /// ```
    /// use qkv_base::Key;
    /// assert_eq!(Key::new(1, 2, 3).word(9), Key::new(1, 2, 3).word(9)); // nothing was drawn in between
    /// assert_ne!(Key::new(1, 2, 3).word(9), Key::new(1, 2, 4).word(9));
    /// ```
    pub fn new(seed: u64, step: u64, place: u64) -> Self {
        Self([seed as u32, (seed >> 32) as u32]).child(step).child(place)
    }

    /// A stream of its own for the `index`-th child: layers of a model, rows of a batch.
    ///
    /// ```
    /// use qkv_base::Key;
    /// let key = Key::new(1, 0, 0);
    /// assert_ne!(key.child(0), key.child(1));
    /// assert_eq!(key.child(1), key.child(1));
    /// ```
    pub fn child(self, index: u64) -> Self {
        // The counter block u32::MAX is never reached by draws (they count from zero), so children do not collide.
        let [a, b, ..] = philox([index as u32, (index >> 32) as u32, u32::MAX, u32::MAX], self.0);
        Self([a, b])
    }

    /// A stream of its own for a name, such as the path of a parameter.
    ///
    /// ```
    /// use qkv_base::Key;
    /// let key = Key::new(1, 0, 0);
    /// assert_eq!(key.named("layers.0.weight"), key.named("layers.0.weight"));
    /// assert_ne!(key.named("layers.0.weight"), key.named("layers.1.weight"));
    /// ```
    pub fn named(self, name: &str) -> Self {
        name.bytes().fold(self, |key, byte| key.child(byte as u64))
    }

    /// Four random words at position `block` of this stream.
    ///
    /// ```
    /// let key = qkv_base::Key::new(1, 0, 0);
    /// assert_eq!(key.block(2), [key.word(8), key.word(9), key.word(10), key.word(11)]);
    /// ```
    #[inline]
    pub fn block(self, block: u64) -> [u32; 4] {
        philox([block as u32, (block >> 32) as u32, 0, 0], self.0)
    }

    /// The random word at `index`.
    ///
    /// ```
    /// let key = qkv_base::Key::new(1, 0, 0);
    /// assert_eq!(key.word(6), key.block(1)[2]);
    /// ```
    #[inline]
    pub fn word(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// The two words of the key itself, for kernels that draw many blocks at a time.
    #[inline]
    pub fn raw(self) -> [u32; 2] {
        self.0
    }

    /// A whole number below `n` at `index`, every one as likely (n ≤ 2³²; the bias of the multiplication is below n·2⁻³²).
    ///
    /// ```
    /// let key = qkv_base::Key::new(1, 0, 0);
    /// assert!((0..100).all(|i| key.below(i, 6) < 6));
    /// ```
    #[inline]
    pub fn below(self, index: u64, n: usize) -> usize {
        ((self.word(index) as u64 * n as u64) >> 32) as usize
    }

    /// Uniform in [0, 1) at `index`, in steps of 2⁻²⁴.
    ///
    /// ```
    /// let key = qkv_base::Key::new(1, 0, 0);
    /// let mean = (0..1000).map(|i| key.uniform(i)).sum::<f32>() / 1000.0;
    /// assert!((mean - 0.5).abs() < 0.05);
    /// ```
    #[inline]
    pub fn uniform(self, index: u64) -> f32 {
        unit(self.word(index))
    }

    /// `n` standard normal numbers, by Box and Muller from pairs of uniforms.
    ///
    /// ```
    /// let x = qkv_base::Key::new(1, 0, 0).normals(1000);
    /// let inside = x.iter().filter(|x| x.abs() < 1.0).count();
    /// assert!((630..740).contains(&inside)); // 68 % lie within one deviation
    /// ```
    pub fn normals(self, n: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(n + 3);
        for block in 0..n.div_ceil(4) as u64 {
            let w = self.block(block);
            for pair in [[w[0], w[1]], [w[2], w[3]]] {
                let radius = (-2.0 * (1.0 - unit(pair[0]) as f64).ln()).sqrt();
                let (sin, cos) = (std::f64::consts::TAU * unit(pair[1]) as f64).sin_cos();
                out.extend([(radius * cos) as f32, (radius * sin) as f32]);
            }
        }
        out.truncate(n);
        out
    }

    /// `n` numbers uniform in `[low, high)`.
    ///
    /// ```
    /// let x = qkv_base::Key::new(1, 0, 0).uniforms(1000, -3.0, 5.0);
    /// assert!(x.iter().all(|x| (-3.0..5.0).contains(x)));
    /// let mean = x.iter().sum::<f32>() / 1000.0;
    /// assert!((mean - 1.0).abs() < 0.4);
    /// ```
    pub fn uniforms(self, n: usize, low: f32, high: f32) -> Vec<f32> {
        (0..n.div_ceil(4) as u64).flat_map(|block| self.block(block)).take(n).map(|w| between(low, high, w)).collect()
    }
}

/// The top 24 bits of a word as a fraction.
///
/// ```
/// use qkv_base::random::unit;
/// assert_eq!([unit(0), unit(1 << 31), unit(3 << 30)], [0.0, 0.5, 0.75]);
/// assert!(unit(u32::MAX) < 1.0);
/// ```
#[inline]
pub fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// A word as a number in `[low, high)`. The sum can round up to `high` (1 + (2 − 1)·(1 − 2⁻²⁴) does), hence the bound.
#[inline]
fn between(low: f32, high: f32, word: u32) -> f32 {
    (low + (high - low) * unit(word)).min(high.next_down()).max(low)
}

/// Philox's two multipliers.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key grows by each round.
pub const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

#[inline]
fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = c[0] as u64 * MULTIPLIERS[0] as u64;
        let b = c[2] as u64 * MULTIPLIERS[1] as u64;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with Random123.
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn the_upper_end_is_never_reached() {
        for (low, high) in [(0.0, 1.0), (1.0, 2.0), (-0.1, 0.1), (100.0, 100.5), (-2.0, -1.0)] {
            assert_eq!(between(low, high, 0), low);
            assert!((low..high).contains(&between(low, high, u32::MAX)), "[{low}, {high})");
        }
        assert_eq!(between(3.0, 3.0, 77), 3.0);
    }

    /// The correlation of n independent pairs is 0 ± 1/√n.
    #[test]
    fn children_are_uncorrelated() {
        let n = 1 << 14;
        let streams: Vec<Vec<f32>> =
            (0..12).map(|i| Key::new(11, 0, 0).child(i).uniforms(n, -(3f32.sqrt()), 3f32.sqrt())).collect();
        for (i, a) in streams.iter().enumerate() {
            for (j, b) in streams.iter().enumerate().skip(i) {
                // Side by side, and one step apart: a stream must not follow itself either.
                for lag in [0, 1] {
                    let products = a.iter().zip(&b[lag..]).map(|(a, b)| *a as f64 * *b as f64);
                    let correlation = products.sum::<f64>() / n as f64;
                    let want = if i == j && lag == 0 { 1.0 } else { 0.0 };
                    let allowed = 5.0 / (n as f64).sqrt();
                    assert!((correlation - want).abs() < allowed, "child {i}, child {j}, lag {lag}: {correlation}");
                }
            }
        }
    }

    #[test]
    fn streams_differ_and_repeat() {
        let key = Key::new(1, 2, 3);
        assert_eq!(key, Key::new(1, 2, 3));
        for other in [Key::new(0, 2, 3), Key::new(1, 1, 3), Key::new(1, 2, 4), key.child(0), key.named("w")] {
            assert_ne!(key.block(0), other.block(0));
        }
    }

    #[test]
    fn moments_are_right() {
        let x = Key::new(7, 0, 0).normals(40_001);
        let mean = x.iter().sum::<f32>() / x.len() as f32;
        let var = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / x.len() as f32;
        assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "mean {mean}, variance {var}");
        let u = Key::new(7, 0, 1).uniforms(40_001, -1.0, 1.0);
        assert!(u.iter().all(|v| (-1.0..1.0).contains(v)) && (u.iter().sum::<f32>() / u.len() as f32).abs() < 0.02);
    }
}
