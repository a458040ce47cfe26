//! Matrices of eight or four bits in a safetensors file: whole numbers under the name of the weight, scales beside them.
//!
//! | tensor | type | of a matrix `[n, k]` in groups of 32 |
//! |---|---|---|
//! | `w` | I8 | `[n, k]`, −127 … 127 |
//! | `w` | U8 | `[n, k/2]`, two of four bits: number 2i in the low half of byte i, number 2i + 1 in the high one |
//! | `w_scale` | F16 | `[n, k/32]` |
//! | `w_min` | F16 | `[n, k/32]`, four bits only |
//!
//! `w = scale·q`, or `w = scale·q + min`. Groups run along the inputs of the layer, because those are what a product sums over. A
//! file that stores matrices the other way round (`[k, n]`, as GPT-2 does) has its groups, its halved axis and its scales along
//! the first axis: whichever axis of the scales is shorter than that of the matrix is the one.

use std::borrow::Cow;

use half::f16;
use qkv_base::{Error, Quants, Result};

use crate::checkpoint::{Entry, Part};
use crate::{Dtype, Tensor};

/// Numbers that share a scale.
const GROUP: usize = 32;

/// A matrix and what stands beside it.
#[derive(Debug)]
pub(crate) struct Grouped {
    pub(crate) quants: (Entry, Part),
    pub(crate) scale: (Entry, Part),
    pub(crate) min: Option<(Entry, Part)>,
    /// whether groups run along the first axis
    pub(crate) turned: bool,
}

impl Grouped {
    /// The matrix `[rows, width]` as the file's axes have it.
    pub(crate) fn shape(&self) -> [usize; 2] {
        let [a, b] = [self.quants.0.shape[0], self.quants.0.shape[1]];
        match (self.min.is_some(), self.turned) {
            (false, _) => [a, b],
            (true, false) => [a, 2 * b],
            (true, true) => [2 * a, b],
        }
    }

    /// Whether three tensors are a matrix with its scales; what is wrong with them if they are meant to be.
    pub(crate) fn new(
        place: &str,
        quants: (Entry, Part),
        scale: (Entry, Part),
        min: Option<(Entry, Part)>,
    ) -> Result<Self> {
        let name = quants.0.name.clone();
        let fail = |what: String| {
            Error::new(
                place,
                format!("tensor `{name}`: {what}"),
                "write the weights again: qkv convert MODEL OUT --dtype int8",
            )
        };
        let want = if min.is_some() { Dtype::U8 } else { Dtype::I8 };
        let (w, s) = (quants.0.shape.clone(), scale.0.shape.clone());
        if quants.0.dtype != want || scale.0.dtype != Dtype::F16 {
            return Err(fail(format!(
                "{} with scales of {}, where {want} with F16 is known",
                quants.0.dtype, scale.0.dtype
            )));
        }
        if min.as_ref().is_some_and(|(min, _)| min.shape != s || min.dtype != Dtype::F16) {
            return Err(fail("its minima are not as its scales".into()));
        }
        let along = if min.is_some() { GROUP / 2 } else { GROUP };
        let fits = |long: usize, same: usize| {
            w.len() == 2 && s.len() == 2 && w[same] == s[same] && s[long].checked_mul(along) == Some(w[long])
        };
        // Where both fit, nothing is there.
        match (fits(1, 0), fits(0, 1)) {
            (true, _) => Ok(Self { quants, scale, min, turned: false }),
            (false, true) => Ok(Self { quants, scale, min, turned: true }),
            (false, false) => {
                Err(fail(format!("scales of shape {s:?} for numbers of shape {w:?} are not groups of {GROUP}")))
            }
        }
    }

    /// The matrix with its groups along the rows, whichever way the file has it.
    pub(crate) fn read(&self, bytes: impl Fn(&(Entry, Part)) -> Vec<u8>) -> Quants {
        let shape = self.shape();
        let (rows, width) = if self.turned { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
        let stored = bytes(&self.quants);
        // Number (i, j) with i along the rows, of a stored matrix with so many numbers along its groups.
        let at = |i: usize, j: usize, along: usize| if self.turned { j * rows + i } else { i * along + j };
        let mut quants = Vec::with_capacity(rows * width);
        for i in 0..rows {
            for j in 0..width {
                quants.push(match self.min {
                    None => stored[at(i, j, width)] ^ 0x80,
                    Some(_) => stored[at(i, j / 2, width / 2)] >> (j % 2 * 4) & 15,
                });
            }
        }
        let groups = width / GROUP;
        let halves = |part: &(Entry, Part)| {
            let bytes = bytes(part);
            let half = |n: usize| f16::from_le_bytes([bytes[2 * n], bytes[2 * n + 1]]).to_f32();
            (0..rows * groups).map(|n| half(at(n / groups, n % groups, groups))).collect()
        };
        let (zero, mins) = (if self.min.is_some() { 0 } else { 128 }, self.min.as_ref().map(halves));
        Quants { rows, width, group: GROUP, zero, quants, scales: halves(&self.scale), mins }
    }
}

/// A matrix as the tensors above; `turned` writes it `[k, n]`.
///
/// ```
/// use qkv_weights::{Checkpoint, Dtype, grouped_tensors, save_safetensors};
/// let quants = qkv_base::Quants::int8(&[1.0; 64], 32).unwrap();
/// let dir = tempfile::tempdir().unwrap();
/// save_safetensors(dir.path(), &grouped_tensors("w", &quants, false), Dtype::F32, u64::MAX)?;
/// let file = Checkpoint::open(dir.path())?;
/// assert_eq!(file.entry("w")?.shape, [2, 32]);
/// assert!(file.read_f32("w")?.iter().all(|w| (w - 1.0).abs() < 1e-3)); // 1/127 in half precision, times 127
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn grouped_tensors<'a>(name: &str, from: &Quants, turned: bool) -> Vec<Tensor<'a>> {
    let (rows, width, groups) = (from.rows, from.width, from.width / from.group.max(1));
    let along = |n: usize| if turned { vec![n, rows] } else { vec![rows, n] };
    // The place in a row-by-row matrix of what stands at `n` of the file's.
    let source = move |n: usize, along: usize| if turned { n % rows * along + n / rows } else { n };
    let tensor = |name: String, shape: Vec<usize>, dtype: Dtype, bytes: Vec<u8>| {
        Tensor::raw(name, shape, dtype, move || Ok(Cow::Owned(bytes.clone())))
    };
    let halves =
        |all: &[f32]| (0..all.len()).flat_map(|n| f16::from_f32(all[source(n, groups)]).to_le_bytes()).collect();
    let mut tensors = vec![];
    match &from.mins {
        None => {
            let bytes =
                (0..rows * width).map(|n| from.quants[source(n, width)].wrapping_sub(from.zero as u8)).collect();
            tensors.push(tensor(name.to_string(), along(width), Dtype::I8, bytes));
        }
        Some(mins) => {
            let byte = |n: usize| {
                let (i, j) = if turned { (n % rows, n / rows) } else { (n / (width / 2), n % (width / 2)) };
                from.quants[i * width + 2 * j] | from.quants[i * width + 2 * j + 1] << 4
            };
            tensors.push(tensor(
                name.to_string(),
                along(width / 2),
                Dtype::U8,
                (0..rows * width / 2).map(byte).collect(),
            ));
            tensors.push(tensor(format!("{name}_min"), along(groups), Dtype::F16, halves(mins)));
        }
    }
    tensors.push(tensor(format!("{name}_scale"), along(groups), Dtype::F16, halves(&from.scales)));
    tensors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checkpoint, save_safetensors};

    fn values() -> Vec<f32> {
        qkv_base::Key::new(2, 0, 0).normals(6 * 96)
    }

    #[test]
    fn both_kinds_come_back_both_ways_round() {
        for quants in [Quants::int8(&values(), 96).unwrap(), Quants::int4(&values(), 96).unwrap()] {
            for turned in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let mut tensors = grouped_tensors("w", &quants, turned);
                tensors.push(Tensor::values("b", [2], &[1.0, 2.0]));
                save_safetensors(dir.path(), &tensors, Dtype::F32, u64::MAX).unwrap();
                let file = Checkpoint::open(dir.path()).unwrap();
                let names: Vec<&str> = file.entries().iter().map(|e| e.name.as_str()).collect();
                assert_eq!(names.len(), 2, "{names:?}");
                let (back, is_turned) = file.read_quants("w").unwrap().unwrap();
                assert_eq!((back, is_turned), (quants.clone(), turned));
                let read = file.read_f32("w").unwrap();
                for (n, value) in read.iter().enumerate() {
                    let at = if turned { n % 6 * 96 + n / 6 } else { n };
                    assert_eq!(*value, quants.value(at));
                }
            }
        }
    }

    #[test]
    fn scales_that_do_not_fit_are_refused() {
        let half = |n: usize| vec![0u8; 2 * n];
        let save = |w: (Dtype, [usize; 2]), s: (Dtype, [usize; 2])| {
            let dir = tempfile::tempdir().unwrap();
            let (a, b) = (vec![0u8; w.1[0] * w.1[1]], half(s.1[0] * s.1[1] * if s.0 == Dtype::F32 { 2 } else { 1 }));
            let tensors = [
                Tensor::raw("w", w.1, w.0, || Ok(Cow::Borrowed(a.as_slice()))),
                Tensor::raw("w_scale", s.1, s.0, || Ok(Cow::Borrowed(b.as_slice()))),
            ];
            save_safetensors(dir.path(), &tensors, Dtype::F32, u64::MAX).unwrap();
            Checkpoint::open(dir.path()).map(|_| ()).map_err(|e| e.what)
        };
        assert_eq!(save((Dtype::I8, [2, 64]), (Dtype::F16, [2, 2])), Ok(()));
        let odd = save((Dtype::I8, [2, 65]), (Dtype::F16, [2, 2])).unwrap_err();
        assert_eq!(odd, "tensor `w`: scales of shape [2, 2] for numbers of shape [2, 65] are not groups of 32");
        let wide = save((Dtype::I8, [2, 64]), (Dtype::F32, [2, 2])).unwrap_err();
        assert_eq!(wide, "tensor `w`: I8 with scales of F32, where I8 with F16 is known");
        assert!(save((Dtype::U8, [2, 64]), (Dtype::F16, [2, 2])).is_err());
    }
}
