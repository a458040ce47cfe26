//! Blocks of quantised weights, decoded and encoded as ggml's reference does, operation for operation.
//!
//! The plain kinds cut a row into blocks of 32 with a scale `d` (and a minimum `m`): `x = d·(q − z)` or `x = d·q + m`.
//! The K kinds cut it into 256, whose groups of 16 or 32 have small whole numbers as scales of their own, themselves
//! scaled by the `d` of the block: `x = (d·s)·q − (dmin·m)`. Offsets below are those of ggml's C structures.

use half::f16;
use qkv_base::Quants;

use crate::Dtype;

/// Decodes whole blocks; plain types are not for here.
pub(crate) fn decode(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::Q4_0 => each(bytes, out, q4_0),
        Dtype::Q4_1 => each(bytes, out, q4_1),
        Dtype::Q5_0 => each(bytes, out, q5_0),
        Dtype::Q5_1 => each(bytes, out, q5_1),
        Dtype::Q8_0 => each(bytes, out, q8_0),
        Dtype::Q2K => each(bytes, out, q2_k),
        Dtype::Q3K => each(bytes, out, q3_k),
        Dtype::Q4K => each(bytes, out, q4_k),
        Dtype::Q5K => each(bytes, out, q5_k),
        Dtype::Q6K => each(bytes, out, q6_k),
        Dtype::Q8K => each(bytes, out, q8_k),
        plain => unreachable!("{plain} has no blocks"),
    }
}

/// The same blocks as whole numbers with scales, nothing rounded: what [`decode`] computes is what these stand for, to the bit.
/// `None` for plain types.
pub(crate) fn quants(dtype: Dtype, bytes: &[u8], rows: usize, width: usize) -> Option<Quants> {
    let (group, zero) = match dtype {
        Dtype::Q4_0 => (32, 8),
        Dtype::Q5_0 => (32, 16),
        Dtype::Q8_0 | Dtype::Q8K => (32, 128),
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4K | Dtype::Q5K => (32, 0),
        Dtype::Q2K => (16, 0),
        Dtype::Q3K => (16, 4),
        Dtype::Q6K => (16, 32),
        _ => return None,
    };
    let (elements, size) = dtype.block();
    let (mut quants, mut scales, mut mins) = (vec![0u8; rows * width], vec![0.0; rows * width / group], vec![]);
    for ((b, q), s) in
        bytes.chunks_exact(size).zip(quants.chunks_exact_mut(elements)).zip(scales.chunks_exact_mut(elements / group))
    {
        let half = |at: usize| f16::from_le_bytes([b[at], b[at + 1]]).to_f32();
        let nibble = |from: usize, i: usize| b[from + i % 16] >> (i / 16 * 4) & 15;
        let high = |from: usize, i: usize| (b[from + i / 8] >> (i % 8) & 1) << 4;
        if elements == 32 {
            s[0] = half(0);
            if matches!(dtype, Dtype::Q4_1 | Dtype::Q5_1) {
                mins.push(half(2));
            }
        }
        match dtype {
            Dtype::Q4_0 => (0..32).for_each(|i| q[i] = nibble(2, i)),
            Dtype::Q4_1 => (0..32).for_each(|i| q[i] = nibble(4, i)),
            Dtype::Q5_0 => (0..32).for_each(|i| q[i] = nibble(6, i) | high(2, i)),
            Dtype::Q5_1 => (0..32).for_each(|i| q[i] = nibble(8, i) | high(4, i)),
            Dtype::Q8_0 => (0..32).for_each(|i| q[i] = b[2 + i] ^ 0x80),
            Dtype::Q8K => {
                s.fill(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                (0..256).for_each(|i| q[i] = b[4 + i] ^ 0x80);
            }
            Dtype::Q2K => {
                let (d, dmin) = (half(80), half(82));
                (0..16).for_each(|g| s[g] = d * f32::from(b[g] & 15));
                mins.extend((0..16).map(|g| -(dmin * f32::from(b[g] >> 4))));
                (0..256).for_each(|i| q[i] = two_bits(&b[16..80], i));
            }
            Dtype::Q3K => {
                let d = half(108);
                (0..16).for_each(|g| s[g] = d * (i32::from(six_bits(&b[96..108], g)) - 32) as f32);
                (0..256).for_each(|i| q[i] = two_bits(&b[32..96], i) + 4 * (b[i % 32] >> (i / 32) & 1));
            }
            Dtype::Q4K | Dtype::Q5K => {
                let (d, dmin) = (half(0), half(2));
                for g in 0..8 {
                    let (scale, min) = scale_and_min(&b[4..16], g);
                    s[g] = d * f32::from(scale);
                    mins.push(-(dmin * f32::from(min)));
                }
                let low = if dtype == Dtype::Q4K { 16 } else { 48 };
                for i in 0..256 {
                    let (g, at) = (i / 32, i % 32);
                    q[i] = b[low + g / 2 * 32 + at] >> (g % 2 * 4) & 15;
                    if dtype == Dtype::Q5K {
                        q[i] |= (b[16 + at] >> g & 1) << 4;
                    }
                }
            }
            _ => {
                let d = half(208);
                (0..16).for_each(|g| s[g] = d * f32::from(b[192 + g] as i8));
                for i in 0..256 {
                    let (part, j) = (i / 128, i % 128);
                    let low = b[part * 64 + j % 64] >> (j / 64 * 4) & 15;
                    q[i] = low | (b[128 + part * 32 + j % 32] >> (j / 32 * 2) & 3) << 4;
                }
            }
        }
    }
    let mins = (!mins.is_empty()).then_some(mins);
    Some(Quants { rows, width, group, zero, quants, scales, mins })
}

fn each<const B: usize, const N: usize>(bytes: &[u8], out: &mut [f32], block: fn(&[u8; B], &mut [f32; N])) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        block(bytes, out);
    }
}

/// The half-precision number at byte `at` of a block.
fn half<const B: usize>(b: &[u8; B], at: usize) -> f32 {
    f16::from_le_bytes([b[at], b[at + 1]]).to_f32()
}

/// `d`, then the 32 quants in 16 bytes: the first half of the block in the low nibbles, the second in the high ones.
fn q4_0(b: &[u8; 18], out: &mut [f32; 32]) {
    let d = half(b, 0);
    for i in 0..16 {
        out[i] = d * (i32::from(b[2 + i] & 15) - 8) as f32;
        out[i + 16] = d * (i32::from(b[2 + i] >> 4) - 8) as f32;
    }
}

/// `d`, `m`, quants.
fn q4_1(b: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half(b, 0), half(b, 2));
    for i in 0..16 {
        out[i] = d * f32::from(b[4 + i] & 15) + m;
        out[i + 16] = d * f32::from(b[4 + i] >> 4) + m;
    }
}

/// `d`, the 32 fifth bits, the low nibbles.
fn q5_0(b: &[u8; 22], out: &mut [f32; 32]) {
    let d = half(b, 0);
    let high = u32::from_le_bytes([b[2], b[3], b[4], b[5]]);
    for i in 0..16 {
        out[i] = d * (fifth(b[6 + i] & 15, high, i) - 16) as f32;
        out[i + 16] = d * (fifth(b[6 + i] >> 4, high, i + 16) - 16) as f32;
    }
}

/// `d`, `m`, the 32 fifth bits, the low nibbles.
fn q5_1(b: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half(b, 0), half(b, 2));
    let high = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
    for i in 0..16 {
        out[i] = d * fifth(b[8 + i] & 15, high, i) as f32 + m;
        out[i + 16] = d * fifth(b[8 + i] >> 4, high, i + 16) as f32 + m;
    }
}

/// Four bits and the `i`-th of the high ones.
fn fifth(low: u8, high: u32, i: usize) -> i32 {
    i32::from(low) | ((high >> i & 1) << 4) as i32
}

/// `d`, 32 signed bytes.
fn q8_0(b: &[u8; 34], out: &mut [f32; 32]) {
    let d = half(b, 0);
    for i in 0..32 {
        out[i] = d * f32::from(b[2 + i] as i8);
    }
}

/// 16 bytes of scale (low nibble) and minimum (high nibble), 64 of quants, `d`, `dmin`.
fn q2_k(b: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (half(b, 80), half(b, 82));
    for i in 0..256 {
        let (scale, min) = (b[i / 16] & 15, b[i / 16] >> 4);
        let q = two_bits(&b[16..80], i);
        out[i] = d * f32::from(scale) * f32::from(q) - dmin * f32::from(min);
    }
}

/// The `i`-th of 256 quants of two bits: 128 share 32 bytes, two bits of each byte for every 32.
fn two_bits(q: &[u8], i: usize) -> u8 {
    q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3
}

/// 32 bytes of third bits, 64 of low bits, 12 of scales, `d`.
fn q3_k(b: &[u8; 110], out: &mut [f32; 256]) {
    let d = half(b, 108);
    for i in 0..256 {
        let third = b[i % 32] >> (i / 32) & 1;
        let q = i32::from(two_bits(&b[32..96], i)) - if third == 1 { 0 } else { 4 };
        out[i] = d * (i32::from(six_bits(&b[96..108], i / 16)) - 32) as f32 * q as f32;
    }
}

/// The `g`-th of 16 scales of six bits: low nibbles in the first eight bytes, upper pairs in the last four.
fn six_bits(s: &[u8], g: usize) -> u8 {
    let low = if g < 8 { s[g] & 15 } else { s[g - 8] >> 4 };
    low | (s[8 + g % 4] >> (g / 4 * 2) & 3) << 4
}

/// `d`, `dmin`, 12 bytes of scales and minima, quants: 64 share 32 bytes, low nibbles first.
fn q4_k(b: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    for g in 0..8 {
        let (scale, min) = scale_and_min(&b[4..16], g);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        for i in 0..32 {
            let q = b[16 + g / 2 * 32 + i] >> (g % 2 * 4) & 15;
            out[g * 32 + i] = scale * f32::from(q) - min;
        }
    }
}

/// As `q4_k`, with 32 bytes of fifth bits before the nibbles.
fn q5_k(b: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    for g in 0..8 {
        let (scale, min) = scale_and_min(&b[4..16], g);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        for i in 0..32 {
            let q = b[48 + g / 2 * 32 + i] >> (g % 2 * 4) & 15 | (b[16 + i] >> g & 1) << 4;
            out[g * 32 + i] = scale * f32::from(q) - min;
        }
    }
}

/// The `g`-th of eight scales and minima of six bits in 12 bytes.
fn scale_and_min(s: &[u8], g: usize) -> (u8, u8) {
    if g < 4 {
        (s[g] & 63, s[g + 4] & 63)
    } else {
        (s[g + 4] & 15 | s[g - 4] >> 6 << 4, s[g + 4] >> 4 | s[g] >> 6 << 4)
    }
}

/// 128 bytes of low nibbles, 64 of upper pairs, 16 signed scales, `d`.
fn q6_k(b: &[u8; 210], out: &mut [f32; 256]) {
    let d = half(b, 208);
    for i in 0..256 {
        let (part, j) = (i / 128, i % 128);
        let low = b[part * 64 + j % 64] >> (j / 64 * 4) & 15;
        let high = b[128 + part * 32 + j % 32] >> (j / 32 * 2) & 3;
        let q = i32::from(low | high << 4) - 32;
        out[i] = d * f32::from(b[192 + i / 16] as i8) * q as f32;
    }
}

/// `d` in single precision, 256 signed bytes, sums that only a product needs.
fn q8_k(b: &[u8; 292], out: &mut [f32; 256]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    for i in 0..256 {
        out[i] = d * f32::from(b[4 + i] as i8);
    }
}

/// Appends `Q8_0` blocks: `d = max|x| / 127`, `q = round(x / d)`, halves away from zero. A value that is not finite, or
/// whose scale half precision cannot hold, is handed back with its index.
pub(crate) fn encode_q8_0(values: &[f32], out: &mut Vec<u8>) -> Result<(), (usize, f32)> {
    for (block, values) in values.as_chunks::<32>().0.iter().enumerate() {
        let bad = |i: usize| (block * 32 + i, values[i]);
        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
            return Err(bad(i));
        }
        let most = values.iter().fold(0f32, |most, v| most.max(v.abs()));
        let d = most / 127.0;
        let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
        let scale = f16::from_f32(d);
        if !scale.is_finite() {
            return Err(bad(values.iter().position(|v| v.abs() == most).unwrap_or(0)));
        }
        out.extend_from_slice(&scale.to_le_bytes());
        out.extend(values.iter().map(|v| (v * inverse).round() as i8 as u8));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_by_hand() {
        let mut block = vec![0, 0x40]; // d = 2
        block.extend([0x80; 16]); // low nibbles 0, high nibbles 8
        let mut out = [0.0; 32];
        decode(Dtype::Q4_0, &block, &mut out);
        assert_eq!((out[0], out[15], out[16], out[31]), (-16.0, -16.0, 0.0, 0.0));
    }

    /// Every kind, on random bytes with scales that are numbers: what the whole numbers stand for is what is decoded.
    #[test]
    fn whole_numbers_stand_for_what_is_decoded() {
        let quantised = Dtype::all().filter(|dtype| dtype.is_quantised());
        let kinds: Vec<Dtype> = quantised.collect();
        assert_eq!(kinds.len(), 11);
        for dtype in kinds {
            let (elements, size) = dtype.block();
            let blocks = 6 * 256 / elements;
            let noise = qkv_base::Key::new(3, dtype as u64, 0).normals(blocks * size);
            let mut bytes: Vec<u8> = noise.iter().map(|v| (v * 1e4) as i64 as u8).collect();
            for block in bytes.chunks_exact_mut(size) {
                // Where halves (or the one f32) are: any finite number.
                let at: &[usize] = match dtype {
                    Dtype::Q2K => &[80, 82],
                    Dtype::Q3K => &[108],
                    Dtype::Q6K => &[208],
                    _ => &[0, 2],
                };
                at.iter().for_each(|at| block[at + 1] &= 0x3b);
            }
            let mut want = vec![0.0; blocks * elements];
            decode(dtype, &bytes, &mut want);
            let got = quants(dtype, &bytes, 2, blocks * elements / 2).expect("blocks");
            assert!((0..want.len()).all(|i| got.value(i) == want[i]), "{dtype}");
        }
        assert_eq!(quants(Dtype::F16, &[], 0, 0), None);
    }

    /// Half of a step, which is max/127, and what half precision takes off the scale.
    #[test]
    fn q8_0_is_off_by_half_a_step_at_most() {
        let values = qkv_base::Key::new(5, 0, 0).normals(32 * 50);
        let mut bytes = Vec::new();
        encode_q8_0(&values, &mut bytes).unwrap();
        let mut out = vec![0.0; values.len()];
        decode(Dtype::Q8_0, &bytes, &mut out);
        for (a, b) in values.chunks(32).zip(out.chunks(32)) {
            let most = a.iter().fold(0f32, |m, v| m.max(v.abs()));
            let allowed = most * (0.5 / 127.0 + 0.5f32.powi(11)) * 1.001;
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= allowed));
        }
    }

    #[test]
    fn q8_0_refuses_what_it_cannot_hold() {
        let mut values = [0.0; 64];
        let mut out = Vec::new();
        encode_q8_0(&values, &mut out).unwrap();
        assert_eq!(out, [0; 68]);
        values[40] = 1e7;
        assert_eq!(encode_q8_0(&values, &mut out), Err((40, 1e7)));
        values[33] = f32::INFINITY;
        assert_eq!(encode_q8_0(&values, &mut out), Err((33, f32::INFINITY)));
    }
}
