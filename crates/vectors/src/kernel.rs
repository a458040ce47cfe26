//! The three sums of Word2Vec, over rows that are cut into pieces of 16 numbers.
//!
//! Each of the 16 places is summed by itself and the 16 sums in one fixed order at the end, without fused multiplications:
//! the same bits on every machine, while the compiler is free to use registers as wide as the machine has (pulp chooses
//! them when the program runs).

/// 16 numbers of a row, which fill a line of the cache: a piece that lay across two of them would be read twice.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lane(pub(crate) [f32; 16]);

impl Lane {
    pub(crate) const ZERO: Self = Self([0.0; 16]);
}

/// The numbers of a row, one after the other.
pub(crate) fn numbers(row: &[Lane]) -> impl Iterator<Item = &f32> {
    row.iter().flat_map(|lane| &lane.0)
}

/// How many pieces a row of this width takes.
pub(crate) fn lanes(width: usize) -> usize {
    width.div_ceil(16)
}

#[inline(always)]
fn total(mut s: [f32; 16]) -> f32 {
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            s[l] += s[l + half];
        }
    }
    s[0]
}

/// `x·tⱼ` for `N` rows at once, so that x is read once.
#[inline(always)]
pub(crate) fn dots<const N: usize>(x: &[Lane], t: [&[Lane]; N]) -> [f32; N] {
    let mut sums = [[0f32; 16]; N];
    for c in 0..x.len() {
        let x = &x[c].0;
        for j in 0..N {
            let t = &t[j][c].0;
            for l in 0..16 {
                sums[j][l] += x[l] * t[l];
            }
        }
    }
    sums.map(total)
}

/// `out ← Σ wⱼ·rowⱼ`
#[inline(always)]
pub(crate) fn combine(out: &mut [Lane], rows: &[&[Lane]], weights: impl Fn(usize) -> f32) {
    for (c, out) in out.iter_mut().enumerate() {
        let mut sum = [0f32; 16];
        for (j, row) in rows.iter().enumerate() {
            let (w, row) = (weights(j), &row[c].0);
            for l in 0..16 {
                sum[l] += w * row[l];
            }
        }
        out.0 = sum;
    }
}

/// `out ← out + x`
#[inline(always)]
pub(crate) fn add(out: &mut [Lane], x: &[Lane]) {
    for (out, x) in out.iter_mut().zip(x) {
        for l in 0..16 {
            out.0[l] += x.0[l];
        }
    }
}

/// Reads a number of every line of a row and gives their sum. Nobody needs it: but reads that do not wait for each other bring
/// the lines from memory at the same time, which a sum over one row after the other would not.
#[inline(always)]
pub(crate) fn touch(row: &[Lane]) -> f32 {
    row.iter().map(|lane| lane.0[0]).sum()
}

/// The product of rows of any width, in the same order of sums.
pub(crate) fn dot_any(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = [0f32; 16];
    for (a, b) in a.iter().zip(b) {
        for l in 0..16 {
            sums[l] += a[l] * b[l];
        }
    }
    for (l, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[l] += a * b;
    }
    total(sums)
}

/// σ between −8 and 8 by a table with straight lines between its 1,025 points (wrong by less than 3·10⁻⁶); beyond, its
/// value at the end.
pub(crate) struct Sigmoid(Vec<f32>);

impl Sigmoid {
    pub(crate) fn new() -> Self {
        Self((0..=1024).map(|i| (1.0 / (1.0 + (8.0 - i as f64 / 64.0).exp())) as f32).collect())
    }

    #[inline(always)]
    pub(crate) fn at(&self, x: f32) -> f32 {
        let place = (x.clamp(-8.0, 8.0) + 8.0) * 64.0;
        let i = (place as usize).min(1023);
        self.0[i] + (self.0[i + 1] - self.0[i]) * (place - i as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_function() {
        let table = Sigmoid::new();
        for i in -900..=900 {
            let x = i as f32 / 100.0;
            let want = 1.0 / (1.0 + f64::from(-x.clamp(-8.0, 8.0)).exp());
            assert!((f64::from(table.at(x)) - want).abs() < 3e-6, "{x}");
        }
        assert!(table.at(f32::INFINITY) > 0.999 && table.at(-1e9) < 0.001);
    }

    #[test]
    fn sums_are_the_plain_sums() {
        let row = |s: f32| -> Vec<Lane> {
            (0..3).map(|c| Lane(std::array::from_fn(|l| (s + (c * 16 + l) as f32).sin()))).collect()
        };
        let (x, a, b) = (row(0.0), row(1.0), row(2.0));
        let flat = |x: &[Lane]| numbers(x).copied().collect::<Vec<f32>>();
        let plain = |x: &[Lane], y: &[Lane]| -> f32 { numbers(x).zip(numbers(y)).map(|(x, y)| x * y).sum() };
        let got = dots(&x, [&a, &b]);
        assert!((got[0] - plain(&x, &a)).abs() < 1e-5 && (got[1] - plain(&x, &b)).abs() < 1e-5);
        assert_eq!(got[0], dot_any(&flat(&x), &flat(&a)));
        assert_eq!(dot_any(&[2.0], &[3.0]), 6.0);
        let mut out = row(9.0);
        combine(&mut out, &[&a, &b], |j| [2.0, -1.0][j]);
        add(&mut out, &b);
        assert!(numbers(&out).zip(numbers(&a)).all(|(o, a)| (o - 2.0 * a).abs() < 1e-6));
        assert_eq!(touch(&a), a[0].0[0] + a[1].0[0] + a[2].0[0]);
        assert_eq!(std::mem::align_of_val(&out[1]), 64);
    }
}
