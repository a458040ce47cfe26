//! Every kind, level and number of rows against the formula in f64, against the twin, and against each other.

use super::*;
use qkv_base::Key;

/// A matrix of a kind: bits, group, zero, whether there are minima, whether scales are halves.
fn quants(n: usize, k: usize, (most, group, zero, mins, halves): (u64, usize, i32, bool, bool)) -> Quants {
    let key = Key::new(11, most, group as u64);
    let digits = key.child(1).normals(n * k);
    let quants = digits.iter().map(|v| ((v.abs() * 1e4) as u64 % (most + 1)) as u8).collect();
    let scale = |seed| {
        let all = key.child(seed).normals(n * k / group).into_iter().map(|v| 0.01 * v);
        all.map(|v| if halves { f16::from_f32(v).to_f32() } else { v }).collect::<Vec<f32>>()
    };
    Quants { rows: n, width: k, group, zero, quants, scales: scale(2), mins: mins.then(|| scale(3)) }
}

/// Most, group, zero, minima, halves: Q4_0, Q4_1, Q4_K, Q2_K, Q5_0, Q5_1, Q6_K, Q8_0 and eight bits in groups of 16.
const KINDS: [(u64, usize, i32, bool, bool); 9] = [
    (15, 32, 8, false, true),
    (15, 32, 0, true, true),
    (15, 32, 0, true, false),
    (3, 16, 0, true, false),
    (31, 32, 16, false, true),
    (31, 32, 0, true, true),
    (63, 16, 32, false, false),
    (255, 32, 128, false, true),
    (255, 16, 128, false, false),
];

fn product(blocks: &Blocks, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let rows = x.len() / blocks.k;
    let mut y = vec![f32::NAN; rows * blocks.n];
    let (n, x) = (blocks.n, Activations::of(x, blocks.k, blocks.grouping()));
    let outputs = Outputs::of(&mut y, n, 0);
    (0..blocks.units()).into_par_iter().for_each(|s| blocks.product(s, &x, bias, outputs));
    y
}

#[test]
fn packing_loses_nothing() {
    for kind in KINDS {
        let (n, k) = (19, 64);
        let from = quants(n, k, kind);
        let blocks = Blocks::pack(from.clone()).unwrap();
        let mut row = vec![0.0; k];
        for i in 0..n {
            blocks.row(i, &mut row);
            for (p, value) in row.iter().enumerate() {
                let g = (i * k + p) / from.group;
                let min = from.mins.as_ref().map_or(0.0, |m| m[g]);
                assert_eq!(*value, from.scales[g] * (i32::from(from.quants[i * k + p]) - from.zero) as f32 + min);
            }
        }
    }
}

/// Whatever comes of rounding x, the rest is exact up to f32: compared with the same rounded x in f64.
#[test]
fn products_follow_the_formula() {
    for kind in KINDS {
        let (m, k, n) = (11, 96, 37);
        let blocks = Blocks::pack(quants(n, k, kind)).unwrap();
        let (x, bias) = (Key::new(1, 2, 3).normals(m * k), Key::new(4, 5, 6).normals(n));
        let rounded = Activations::in_tiles(&x, k, blocks.grouping(), 1); // rows as they are
        let y = product(&blocks, &x, Some(&bias));
        let mut row = vec![0.0; k];
        for o in 0..n {
            blocks.row(o, &mut row);
            for i in 0..m {
                let term = |p: usize| {
                    f64::from(row[p])
                        * f64::from(rounded.quants[i * k + p])
                        * f64::from(rounded.scales[(i * k + p) / BLOCK])
                };
                let want = (0..k).map(term).sum::<f64>() + f64::from(bias[o]);
                assert!((f64::from(y[i * n + o]) - want).abs() < 1e-4, "{kind:?} ({i}, {o}): {} {want}", y[i * n + o]);
                // And x itself is off by half a step at most.
                let exact =
                    (0..k).map(|p| f64::from(row[p]) * f64::from(x[i * k + p])).sum::<f64>() + f64::from(bias[o]);
                let steps = (0..k).map(|p| f64::from(row[p].abs()) * f64::from(rounded.scales[(i * k + p) / BLOCK]));
                assert!((want - exact).abs() <= 0.51 * steps.sum::<f64>(), "{kind:?} ({i}, {o})");
            }
        }
    }
}

/// The bits of a row: alone and among others, at any number of threads, and by every tile of this machine.
#[test]
fn an_output_has_one_value() {
    for kind in KINDS {
        let (m, k, n) = (23, 160, 530);
        let blocks = Blocks::pack(quants(n, k, kind)).unwrap();
        let x = Key::new(7, 8, 9).normals(m * k);
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| product(&blocks, &x, None))
        };
        let one = on(1);
        for threads in [2, 3, 8] {
            assert_eq!(one, on(threads), "{kind:?}, {threads} threads");
        }
        for i in 0..m {
            assert_eq!(
                one[i * n..(i + 1) * n],
                product(&blocks, &x[i * k..(i + 1) * k], None),
                "{kind:?}, row {i} alone"
            );
        }
        let lines = k / BLOCK * blocks.bits.lines();
        for most in [1, 2, 4, 8] {
            let rounded = Activations::in_tiles(&x, k, blocks.grouping(), most);
            for s in [0, 7] {
                let first = s * (k / blocks.group) * OUTS;
                let part = Part { blocks: &blocks, quants: &blocks.quants[s * lines..(s + 1) * lines], first };
                let mut i = 0;
                while i < m {
                    let rows = tile_rows(i, m, most);
                    let mut sums = [[0.0; OUTS]; ROWS];
                    plain_tile(part, &rounded, i, rows, &mut sums);
                    for (r, sums) in sums.iter().take(rows).enumerate() {
                        assert_eq!(one[(i + r) * n + s * OUTS..][..OUTS], *sums, "{kind:?}, row {i} + {r}: twin");
                    }
                    #[cfg(target_arch = "x86_64")]
                    if matches!(Level::best(), Level::Avx2 | Level::Avx512) {
                        let mut wide = [[0.0; OUTS]; ROWS];
                        if Level::best() == Level::Avx512 && x86::has_vnni() {
                            // SAFETY: the machine has it, and the tile has so many rows.
                            unsafe { x86::avx512(part, &rounded, i, rows, &mut wide) };
                            assert_eq!(wide, sums, "{kind:?}, row {i}, AVX-512, {rows} rows");
                        }
                        if rows <= 2 {
                            wide = [[0.0; OUTS]; ROWS];
                            // SAFETY: as above.
                            unsafe { x86::avx2(part, &rounded, i, rows, &mut wide) };
                            assert_eq!(wide, sums, "{kind:?}, row {i}, AVX2, {rows} rows");
                        }
                    }
                    i += rows;
                }
            }
        }
    }
}

#[test]
fn x_is_rounded_alike_on_every_level() {
    let mut x = Key::new(3, 1, 4).normals(32 * 40);
    x[32..64].fill(0.0);
    x[64..96].iter_mut().for_each(|v| *v *= 1e-41); // below what has an inverse
    x[96..128].iter_mut().enumerate().for_each(|(i, v)| *v = (i as f32 - 15.5) * 4.0); // halves
    x[128..160].iter_mut().for_each(|v| *v *= 1e37);
    for (b, group) in x.chunks_exact(32).enumerate() {
        let (mut one, mut other) = ([0; 32], [1; 32]);
        assert_eq!(plain_round(group, &mut one).to_bits(), round(group, &mut other).to_bits(), "group {b}");
        assert_eq!(one, other, "group {b}");
        assert!(one.iter().all(|q| *q > -128));
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = vec![1.0; 64];
        x[40] = bad;
        let blocks = Blocks::pack(quants(5, 64, KINDS[0])).unwrap();
        assert!(product(&blocks, &x, None).iter().all(|y| y.is_nan()));
        let mut out = [0; 32];
        assert!(plain_round(&x[32..], &mut out).is_nan() && round(&x[32..], &mut out).is_nan());
    }
}

#[test]
fn what_cannot_be_packed_is_told() {
    let good = quants(4, 64, KINDS[0]);
    let mut bad = Quants { width: 33, quants: vec![0; 4 * 33], ..good.clone() };
    assert_eq!(Blocks::pack(bad).unwrap_err(), "rows of 33 numbers are not whole blocks of 32");
    bad = Quants { group: 64, ..good.clone() };
    assert_eq!(Blocks::pack(bad).unwrap_err(), "groups of 64 numbers, where 16 and 32 are known");
    bad = good.clone();
    bad.scales[3] = f32::NAN;
    assert_eq!(Blocks::pack(bad).unwrap_err(), "scale 3 is no number");
    bad = good.clone();
    bad.quants.pop();
    assert_eq!(Blocks::pack(bad).unwrap_err(), "255 numbers and 8 scales for [4, 64]");
    bad = good;
    bad.quants[0] = 200;
    assert_eq!(Blocks::pack(bad).unwrap_err(), "a number of 200 that is not counted from 128");
}
