//! Randomness as a function: Philox4x32-10 (Salmon et al. 2011) turns `(key, counter)` into 128 random bits.
//!
//! Nothing is drawn from a stream, so nothing depends on who drew before: the number at `(seed, step, place, index)` is
//! the same at any thread count, in any order, and after a resume.

use crate::simd::simd;
use pulp::{Simd, bytemuck};

/// Names one stream of random numbers: which run, which step, which place in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u32; 2]);

impl Key {
    /// The stream of `seed` at `step` and `place`.
    ///
    /// ```
    /// use qkv_kernels::Key;
    /// assert_eq!(Key::new(1, 2, 3).word(9), Key::new(1, 2, 3).word(9)); // nothing was drawn in between
    /// assert_ne!(Key::new(1, 2, 3).word(9), Key::new(1, 2, 4).word(9));
    /// ```
    pub fn new(seed: u64, step: u64, place: u64) -> Self {
        Self([seed as u32, (seed >> 32) as u32]).child(step).child(place)
    }

    /// A stream of its own for the `index`-th child: layers of a model, rows of a batch.
    ///
    /// ```
    /// use qkv_kernels::Key;
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
    /// use qkv_kernels::Key;
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
    /// let key = qkv_kernels::Key::new(1, 0, 0);
    /// assert_eq!(key.block(2), [key.word(8), key.word(9), key.word(10), key.word(11)]);
    /// ```
    #[inline]
    pub fn block(self, block: u64) -> [u32; 4] {
        philox([block as u32, (block >> 32) as u32, 0, 0], self.0)
    }

    /// The random word at `index`.
    ///
    /// ```
    /// let key = qkv_kernels::Key::new(1, 0, 0);
    /// assert_eq!(key.word(6), key.block(1)[2]);
    /// ```
    #[inline]
    pub fn word(self, index: u64) -> u32 {
        self.block(index / 4)[(index % 4) as usize]
    }

    /// The random words at `first`, `first + 1`, …: [`Key::word`] for a whole run, several blocks at a time.
    ///
    /// ```
    /// let key = qkv_kernels::Key::new(1, 2, 3);
    /// let mut words = [0; 7];
    /// key.words(10, &mut words);
    /// assert_eq!(words[6], key.word(16));
    /// ```
    pub fn words(self, first: u64, out: &mut [u32]) {
        // Up to the first whole block, one by one.
        let head = (first.wrapping_neg() % 4).min(out.len() as u64) as usize;
        let (head, blocks) = out.split_at_mut(head);
        head.iter_mut().enumerate().for_each(|(i, word)| *word = self.word(first + i as u64));
        fill(self, first.div_ceil(4), blocks);
    }

    /// Uniform in [0, 1) at `index`, in steps of 2⁻²⁴.
    ///
    /// ```
    /// let key = qkv_kernels::Key::new(1, 0, 0);
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
    /// let x = qkv_kernels::Key::new(1, 0, 0).normals(1000);
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
    /// let x = qkv_kernels::Key::new(1, 0, 0).uniforms(1000, -3.0, 5.0);
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
/// use qkv_kernels::random::unit;
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

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

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

// Below no closures: one that the compiler chooses not to inline is compiled without the vector instructions, and every
// operation in it becomes a call. It was sixty times slower.

/// [`philox`] in every lane, all with one key.
#[inline(always)]
fn philox_lanes<S: Simd>(simd: S, mut c: [S::u32s; 4], mut k: [u32; 2]) -> [S::u32s; 4] {
    let multipliers = [simd.splat_u32s(MULTIPLIERS[0]), simd.splat_u32s(MULTIPLIERS[1])];
    for _ in 0..10 {
        let (a_low, a_high) = simd.widening_mul_u32s(c[0], multipliers[0]);
        let (b_low, b_high) = simd.widening_mul_u32s(c[2], multipliers[1]);
        let first = simd.xor_u32s(simd.xor_u32s(b_high, c[1]), simd.splat_u32s(k[0]));
        let third = simd.xor_u32s(simd.xor_u32s(a_high, c[3]), simd.splat_u32s(k[1]));
        c = [first, b_low, third, a_low];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

simd! {
    /// The words of `key` from block `first` on.
    fn fill<'a, S>(simd, key: Key, first: u64, out: &'a mut [u32]) {
        fill_lanes(simd, key, first, out);
    }
}

/// One block per lane. Words must lie in memory block by block, lanes hold them word by word, and pulp's interleaving
/// takes the lanes in an order of its own. So the numbers of the blocks, as they shall lie in memory, are sent through
/// the same shuffle first: each lane then learns which block it is to compute, whatever the order.
#[inline(always)]
fn fill_lanes<S: Simd>(simd: S, key: Key, first: u64, out: &mut [u32]) {
    let mut order = [simd.splat_u32s(0); 4];
    for (i, lane) in bytemuck::cast_slice_mut::<_, u32>(&mut order).iter_mut().enumerate() {
        *lane = i as u32 / 4;
    }
    let lane = deinterleave(simd, order)[0];
    let mut block = first;
    let mut groups = out.chunks_exact_mut(4 * S::U32_LANES);
    for words in &mut groups {
        words.copy_from_slice(bytemuck::cast_slice(&group(simd, key, block, lane)));
        block += S::U32_LANES as u64;
    }
    let rest = groups.into_remainder();
    if !rest.is_empty() {
        let words = group(simd, key, block, lane);
        rest.copy_from_slice(&bytemuck::cast_slice(&words)[..rest.len()]);
    }
}

/// The words of as many blocks as there are lanes, as they lie in memory; `lane` says how far from `first` each lane is.
#[inline(always)]
fn group<S: Simd>(simd: S, key: Key, first: u64, lane: S::u32s) -> [S::u32s; 4] {
    let (low, high) = (simd.splat_u32s(first as u32), (first >> 32) as u32);
    let block = simd.add_u32s(low, lane);
    let carried = simd.less_than_u32s(block, low);
    let high = simd.select_u32s(carried, simd.splat_u32s(high.wrapping_add(1)), simd.splat_u32s(high));
    let zero = simd.splat_u32s(0);
    interleave(simd, philox_lanes(simd, [block, high, zero, zero], key.0))
}

/// Four vectors of blocks side by side to four vectors of first, second, third and fourth words.
#[inline(always)]
fn deinterleave<S: Simd>(simd: S, x: [S::u32s; 4]) -> [S::u32s; 4] {
    from_floats(simd, simd.deinterleave_shfl_f32s(to_floats(simd, x)))
}

/// The inverse of [`deinterleave`].
#[inline(always)]
fn interleave<S: Simd>(simd: S, x: [S::u32s; 4]) -> [S::u32s; 4] {
    from_floats(simd, simd.interleave_shfl_f32s(to_floats(simd, x)))
}

/// The same bits under another name: pulp shuffles floats only.
#[inline(always)]
fn to_floats<S: Simd>(simd: S, [a, b, c, d]: [S::u32s; 4]) -> [S::f32s; 4] {
    let [a, b] = [simd.transmute_f32s_u32s(a), simd.transmute_f32s_u32s(b)];
    [a, b, simd.transmute_f32s_u32s(c), simd.transmute_f32s_u32s(d)]
}

#[inline(always)]
fn from_floats<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::u32s; 4] {
    let [a, b] = [simd.transmute_u32s_f32s(a), simd.transmute_u32s_f32s(b)];
    [a, b, simd.transmute_u32s_f32s(c), simd.transmute_u32s_f32s(d)]
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

    struct Fill<'a>(Key, u64, &'a mut [u32]);

    impl pulp::WithSimd for Fill<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            fill_lanes(simd, self.0, self.1, self.2);
        }
    }

    #[test]
    fn runs_of_words_are_the_words_one_by_one_on_every_level() {
        use crate::simd::Level;
        let key = Key::new(3, 1, 4);
        // The last ones carry from the low to the high word of the counter, within a group of blocks.
        for first in [0, 1, 5, (1 << 32) - 3, (1 << 40) - 8] {
            for n in [0, 1, 3, 4, 31, 32, 33, 64, 127, 331] {
                for level in [Level::Scalar, Level::Neon, Level::Avx2, Level::Avx512] {
                    let mut words = vec![0; n];
                    level.run(Fill(key, first, &mut words));
                    let want: Vec<u32> = (0..n as u64).map(|i| key.word(4 * first + i)).collect();
                    assert_eq!(words, want, "{level:?}, {n} words from block {first}");
                }
            }
        }
    }

    #[test]
    fn runs_of_words_may_start_anywhere() {
        let key = Key::new(3, 1, 4);
        for first in [0, 1, 2, 3, 4, 4093, (1 << 34) - 1] {
            for n in [0, 1, 2, 3, 4, 5, 70] {
                let mut words = vec![0; n];
                key.words(first, &mut words);
                assert_eq!(words, (0..n as u64).map(|i| key.word(first + i)).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_upper_end_is_never_reached() {
        for (low, high) in [(0.0, 1.0), (1.0, 2.0), (-0.1, 0.1), (100.0, 100.5), (-2.0, -1.0)] {
            assert_eq!(between(low, high, 0), low);
            assert!((low..high).contains(&between(low, high, u32::MAX)), "[{low}, {high})");
        }
        assert_eq!(between(3.0, 3.0, 77), 3.0);
    }

    /// χ² of each byte of the words against equal counts: 255 ± 22.6 if they are uniform. Five deviations either way: too
    /// even would be as suspicious as too uneven.
    #[test]
    fn words_are_uniform() {
        let mut words = vec![0u32; 1 << 18];
        for place in 0..4 {
            Key::new(11, 0, place).words(0, &mut words);
            for byte in 0..4 {
                let mut counts = [0u32; 256];
                words.iter().for_each(|w| counts[(w >> (8 * byte)) as usize & 255] += 1);
                let expected = words.len() as f64 / 256.0;
                let chi: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
                assert!((chi - 255.0).abs() < 5.0 * 510f64.sqrt(), "byte {byte} of place {place}: χ² = {chi}");
            }
        }
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
