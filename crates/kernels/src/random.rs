//! Many random words at once: [`Key::word`] for whole runs, one Philox block per vector lane.

use crate::simd::simd;
use pulp::{Simd, bytemuck};
use qkv_base::Key;
use qkv_base::random::{MULTIPLIERS, WEYL};

/// The random words at `first`, `first + 1`, …: [`Key::word`] for a whole run, several blocks at a time.
///
/// ```
/// let key = qkv_kernels::Key::new(1, 2, 3);
/// let mut words = [0; 7];
/// qkv_kernels::random::words(key, 10, &mut words);
/// assert_eq!(words[6], key.word(16));
/// ```
pub fn words(key: Key, first: u64, out: &mut [u32]) {
    // Up to the first whole block, one by one.
    let head = (first.wrapping_neg() % 4).min(out.len() as u64) as usize;
    let (head, blocks) = out.split_at_mut(head);
    head.iter_mut().enumerate().for_each(|(i, word)| *word = key.word(first + i as u64));
    fill(key, first.div_ceil(4), blocks);
}

// Below no closures: one that the compiler chooses not to inline is compiled without the vector instructions, and every
// operation in it becomes a call. It was sixty times slower.

/// Philox in every lane, all with one key.
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
    interleave(simd, philox_lanes(simd, [block, high, zero, zero], key.raw()))
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
                super::words(key, first, &mut words);
                assert_eq!(words, (0..n as u64).map(|i| key.word(first + i)).collect::<Vec<_>>());
            }
        }
    }

    /// χ² of each byte of the words against equal counts: 255 ± 22.6 if they are uniform. Five deviations either way: too
    /// even would be as suspicious as too uneven.
    #[test]
    fn words_are_uniform() {
        let mut words = vec![0u32; 1 << 18];
        for place in 0..4 {
            super::words(Key::new(11, 0, place), 0, &mut words);
            for byte in 0..4 {
                let mut counts = [0u32; 256];
                words.iter().for_each(|w| counts[(w >> (8 * byte)) as usize & 255] += 1);
                let expected = words.len() as f64 / 256.0;
                let chi: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
                assert!((chi - 255.0).abs() < 5.0 * 510f64.sqrt(), "byte {byte} of place {place}: χ² = {chi}");
            }
        }
    }
}
