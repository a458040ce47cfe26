//! Randomness as a function: Philox4x32-10 (Salmon et al. 2011) turns `(key, counter)` into 128 random bits.
//!
//! Nothing is drawn from a stream, so nothing depends on who drew before: the number at `(seed, step, place, index)` is
//! the same at any thread count, in any order, and after a resume.

/// Names one stream of random numbers: which run, which step, which place in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u32; 2]);

impl Key {
    /// The stream of `seed` at `step` and `place`.
    pub fn new(seed: u64, step: u64, place: u64) -> Self {
        Self([seed as u32, (seed >> 32) as u32]).child(step).child(place)
    }

    /// A stream of its own for the `index`-th child: layers of a model, rows of a batch.
    pub fn child(self, index: u64) -> Self {
        // The counter block u32::MAX is never reached by draws (they count from zero), so children do not collide.
        let [a, b, ..] = philox([index as u32, (index >> 32) as u32, u32::MAX, u32::MAX], self.0);
        Self([a, b])
    }

    /// A stream of its own for a name, such as the path of a parameter.
    pub fn named(self, name: &str) -> Self {
        name.bytes().fold(self, |key, byte| key.child(byte as u64))
    }

    /// Four random words at position `block` of this stream.
    #[inline]
    pub fn block(self, block: u64) -> [u32; 4] {
        philox([block as u32, (block >> 32) as u32, 0, 0], self.0)
    }

    /// The random word at `index`.
    #[inline]
    pub fn word(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// Uniform in [0, 1) at `index`, in steps of 2⁻²⁴.
    #[inline]
    pub fn uniform(self, index: u64) -> f32 {
        unit(self.word(index))
    }

    /// `n` standard normal numbers, by Box and Muller from pairs of uniforms.
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
    pub fn uniforms(self, n: usize, low: f32, high: f32) -> Vec<f32> {
        (0..n.div_ceil(4) as u64)
            .flat_map(|block| self.block(block))
            .take(n)
            .map(|w| low + (high - low) * unit(w))
            .collect()
    }
}

/// The top 24 bits of a word as a fraction.
#[inline]
pub fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

#[inline]
fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = c[0] as u64 * 0xD251_1F53;
        let b = c[2] as u64 * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
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
