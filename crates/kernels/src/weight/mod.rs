//! Weights for answering: of any precision, packed once when a network is loaded, read by one product for every number of rows.
//!
//! `y = act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])` as [`linear`](crate::linear::linear()), for matrices `[n, k]` that do not learn:
//!
//! | kind | stored | x | file |
//! |---|---|---|---|
//! | f32, bf16, f16 | as it is | f32 | `panels.rs` |
//! | groups of 16 or 32 with a scale: int8, int4, GGUF's kinds | as it is, 4 or 8 bits | rounded to 8 bits by groups of 32 | `blocks.rs` |
//!
//! Decoding reads every weight for every token, so its speed is that of memory, and fewer bytes are more tokens. Training keeps
//! its f32 parameters: there is no backward here. A gradient that is asked for through such a weight goes through its twin,
//! [`linear`](crate::linear::linear()) on its [`values`](Weight::values).
//!
//! Both products give the same bits for a row whatever stands beside it, at any number of threads, on every level of vector
//! instructions.

mod blocks;
mod panels;

pub use panels::Float;
pub use qkv_base::Quants;

use crate::activation::{self, Activation};
use crate::fused::{answer, elements, tensor, uninit};
use crate::threads::Parts;
use crate::{Ids, Projection, linear};
use blocks::{Activations, Blocks, Grouping};
use burn::backend::flex::FlexTensor;
use burn::tensor::{Device, Tensor, TensorData};
use panels::Panels;
use rayon::prelude::*;
use std::fmt;
use std::sync::Arc;

/// Below this many multiplications a product stays on its thread.
const SERIAL: usize = 1 << 17;

/// How many bytes ahead a weight is asked for: what memory brings in the time that it takes to answer.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4096;

/// A packed matrix `[n, k]`.
pub struct Weight {
    rows: usize,
    width: usize,
    form: Form,
}

enum Form {
    Panels(Panels),
    Blocks(Blocks),
}

impl Weight {
    /// A matrix of plain numbers, `[rows, width]` by rows; numbers of two bytes are rounded to the nearest.
    ///
    /// # Panics
    /// If there are not `rows · width` values.
    pub fn plain(values: &[f32], rows: usize, width: usize, float: Float) -> Self {
        assert_eq!(values.len(), rows * width, "the values of a [{rows}, {width}] matrix");
        Self { rows, width, form: Form::Panels(Panels::pack(values, rows, width, float)) }
    }

    /// A matrix in groups. What cannot be packed (rows that are not whole blocks, scales that are no numbers) is told.
    pub fn grouped(quants: Quants) -> Result<Self, String> {
        let (rows, width) = (quants.rows, quants.width);
        Ok(Self { rows, width, form: Form::Blocks(Blocks::pack(quants)?) })
    }

    /// `[n, k]`
    pub fn dims(&self) -> [usize; 2] {
        [self.rows, self.width]
    }

    /// How many bytes it takes, scales included.
    pub fn bytes(&self) -> usize {
        match &self.form {
            Form::Panels(panels) => panels.bytes(),
            Form::Blocks(blocks) => blocks.bytes(),
        }
    }

    /// How many pieces the product can be cut into.
    fn units(&self) -> usize {
        match &self.form {
            Form::Panels(panels) => panels.units(),
            Form::Blocks(blocks) => blocks.units(),
        }
    }

    /// What a number is stored as: `f32`, `bf16`, `f16`, `int8` or `int4`.
    pub fn precision(&self) -> &'static str {
        match &self.form {
            Form::Panels(panels) => match panels.float() {
                Float::F32 => "f32",
                Float::Bf16 => "bf16",
                Float::F16 => "f16",
            },
            Form::Blocks(blocks) if blocks.bits() == 4 => "int4",
            Form::Blocks(_) => "int8",
        }
    }

    /// Row `row` as f32.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        match &self.form {
            Form::Panels(panels) => panels.row(row, out),
            Form::Blocks(blocks) => blocks.row(row, out),
        }
    }

    /// All numbers as f32, `[n, k]` by rows: what the products compute with.
    pub fn values(&self) -> Vec<f32> {
        let mut all = uninit(self.rows * self.width);
        if self.width > 0 {
            all.par_chunks_exact_mut(self.width).enumerate().for_each(|(i, row)| self.row(i, row));
        }
        all
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({} [{}, {}])", self.precision(), self.rows, self.width)
    }
}

/// A packed weight and its bias `[n]`.
#[derive(Clone, Debug)]
pub struct PackedProjection {
    /// `[n, k]`
    pub weight: Arc<Weight>,
    /// `[n]`
    pub bias: Option<Tensor<1>>,
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])` with packed weights. Where a gradient is wanted of x, or on another backend, the twin runs.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Float, PackedProjection, Weight, packed_linear};
///
/// let w = Weight::plain(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 3, 2, Float::Bf16); // 2 → 3
/// let part = PackedProjection { weight: w.into(), bias: None };
/// let y = packed_linear(Tensor::<2>::from_floats([[1.5, 2.0]], &Device::flex()), &[part], None);
/// assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [1.5, 2.0, 3.5]);
/// ```
///
/// # Panics
/// If there are no projections, or the widths do not fit: callers build them from a checked spec.
pub fn packed_linear<const D: usize>(x: Tensor<D>, parts: &[PackedProjection], act: Option<Activation>) -> Tensor<D> {
    let width = x.dims()[D - 1];
    for part in parts {
        assert_eq!(part.weight.width, width, "linear: the input is {width} wide, the weight is not");
    }
    let mut inputs = vec![Some(x.into_dispatch())];
    inputs.extend(parts.iter().map(|part| part.bias.clone().map(Tensor::into_dispatch)));
    let run = |inputs: Vec<Option<FlexTensor>>| {
        let x = inputs[0].as_ref().expect("linear has an input");
        let biases: Vec<Option<&[f32]>> = inputs[1..].iter().map(|bias| bias.as_ref().map(elements)).collect();
        let weights: Vec<&Weight> = parts.iter().map(|part| &*part.weight).collect();
        let y = products(elements(x), &weights, &biases, act);
        let mut shape = x.layout().shape().clone();
        *shape.last_mut().expect("linear's input has an axis") = weights.iter().map(|w| w.rows).sum();
        tensor(y, shape)
    };
    match answer(inputs, run) {
        Ok(y) => Tensor::from_dispatch(y),
        Err(mut inputs) => {
            twin(Tensor::from_dispatch(inputs[0].take().expect("the input is always there")), parts, act)
        }
    }
}

/// Row `ids[i]` of a packed table for each token, `[B, T, k]`.
///
/// # Panics
/// If an id is outside the table: callers check with [`Ids::first_outside`] and name the place.
pub fn packed_embedding(table: &Weight, ids: &Ids, device: &Device) -> Tensor<3> {
    let [b, t] = ids.dims();
    let mut all = uninit(b * t * table.width);
    if table.width > 0 {
        all.chunks_exact_mut(table.width).zip(ids.as_slice()).for_each(|(row, id)| {
            assert!((*id as usize) < table.rows, "id {id} is outside a table of {} rows", table.rows);
            table.row(*id as usize, row);
        });
    }
    Tensor::from_data(TensorData::new(all, [b, t, table.width]), device)
}

/// The products side by side, on slices.
fn products(x: &[f32], weights: &[&Weight], biases: &[Option<&[f32]>], act: Option<Activation>) -> Vec<f32> {
    let width = weights[0].width;
    let rows = x.len().checked_div(width).unwrap_or(0);
    let total: usize = weights.iter().map(|w| w.rows).sum();
    let mut y = uninit(rows * total);
    // x is rounded once for all weights that want it in the same groups.
    let mut rounded: Vec<(Grouping, Activations)> = vec![];
    for weight in weights {
        if let Form::Blocks(blocks) = &weight.form
            && rounded.iter().all(|(known, _)| *known != blocks.grouping())
        {
            rounded.push((blocks.grouping(), Activations::of(x, width, blocks.grouping())));
        }
    }
    let rounded_for = |blocks: &Blocks| rounded.iter().find(|(known, _)| *known == blocks.grouping()).map(|(_, x)| x);
    // One region for all parts: shares of about 512 outputs of one weight, so that cores of different speed end together.
    let mut shares = vec![];
    let mut first = 0;
    for (i, weight) in weights.iter().enumerate() {
        let outputs = Outputs::of(&mut y, total, first);
        let together = match &weight.form {
            Form::Panels(_) => 1,
            Form::Blocks(_) => weight.units().div_ceil(16).clamp(1, 32),
        };
        let cut = |from: usize| (i, outputs, from..weight.units().min(from + together));
        shares.extend((0..weight.units()).step_by(together).map(cut));
        first += weight.rows;
    }
    let share = |(i, outputs, units): (usize, Outputs, std::ops::Range<usize>)| {
        for unit in units {
            match &weights[i].form {
                Form::Panels(panels) => panels.product(unit, x, rows, biases[i], outputs),
                Form::Blocks(blocks) => match rounded_for(blocks) {
                    Some(x) => blocks.product(unit, x, biases[i], outputs),
                    None => unreachable!("x was rounded for every grouping that is there"),
                },
            }
        }
    };
    if rows * width * total >= SERIAL && rayon::current_num_threads() > 1 {
        shares.into_par_iter().with_max_len(1).for_each(share);
    } else {
        shares.into_iter().for_each(share);
    }
    let Some(act) = act else { return y };
    let mut after = uninit(y.len());
    activation::forward(act, &y, &mut after);
    after
}

/// The twin: the same matrices as plain tensors.
fn twin<const D: usize>(x: Tensor<D>, parts: &[PackedProjection], act: Option<Activation>) -> Tensor<D> {
    let device = x.device();
    let plain = |part: &PackedProjection| {
        let data = TensorData::new(part.weight.values(), part.weight.dims());
        Projection::new(Tensor::from_data(data, &device), part.bias.clone())
    };
    let parts: Vec<Projection> = parts.iter().map(plain).collect();
    linear(x, &parts, act)
}

/// Some columns of y, `[rows, total]`, that several threads write, each its own part.
#[derive(Clone, Copy)]
struct Outputs {
    all: Parts,
    total: usize,
    first: usize,
}

impl Outputs {
    /// The columns from `first` on.
    fn of(y: &mut [f32], total: usize, first: usize) -> Self {
        Self { all: Parts::of(y), total, first }
    }

    /// Columns `from .. from + len` of row `row`.
    ///
    /// # Safety
    /// While it lives nobody else reads or writes these numbers, and y outlives it.
    unsafe fn at<'a>(self, row: usize, from: usize, len: usize) -> &'a mut [f32] {
        let start = row * self.total + self.first + from;
        // SAFETY: the caller's promise; `part` checks the bounds.
        unsafe { self.all.part(start..start + len) }
    }
}

/// A line of the cache, so that whole vectors never straddle two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Lines for so many bytes, all 0.
fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

fn bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is 64 bytes without padding, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

fn bytes_mut(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: as above; every byte is a byte of a line.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_base::Key;

    fn parts(device: &Device) -> Vec<PackedProjection> {
        let key = Key::new(9, 0, 0);
        let values = key.child(1).normals(70 * 64);
        let quants: Vec<u8> = values.iter().map(|v| (v.clamp(-3.0, 3.0) * 40.0 + 128.0) as u8).collect();
        let grouped = |group: usize| {
            let scales = vec![0.025; 70 * 64 / group];
            Quants { rows: 70, width: 64, group, zero: 128, quants: quants.clone(), scales, mins: None }
        };
        let bias = Tensor::from_data(TensorData::new(key.child(2).normals(70), [70]), device);
        let part = |weight: Weight, bias| PackedProjection { weight: Arc::new(weight), bias };
        vec![
            part(Weight::plain(&values, 70, 64, Float::F32), Some(bias.clone())),
            part(Weight::plain(&values, 70, 64, Float::Bf16), None),
            part(Weight::plain(&values, 70, 64, Float::F16), Some(bias.clone())),
            part(Weight::grouped(grouped(32)).unwrap(), Some(bias)),
            part(Weight::grouped(grouped(16)).unwrap(), None),
        ]
    }

    fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_to_vec().unwrap()
    }

    /// Each alone, all numbers of rows, against the twin: f32 products agree to rounding, integer ones to half a step of x.
    #[test]
    fn packed_products_follow_their_twins() {
        let device = Device::flex();
        for (i, part) in parts(&device).into_iter().enumerate() {
            for rows in [1, 2, 5, 6, 7, 13, 40] {
                let x = Key::new(1, rows as u64, 0).normals(rows * 64);
                let x = Tensor::<2>::from_data(TensorData::new(x, [rows, 64]), &device);
                let part = std::slice::from_ref(&part);
                let got = values(packed_linear(x.clone(), part, Some(Activation::Relu)));
                let want = values(crate::plain(|| packed_linear(x, part, Some(Activation::Relu))));
                let most = if i < 3 { 1e-4 } else { 0.25 };
                let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(error < most, "{:?}, {rows} rows: {error}", part[0].weight);
            }
        }
    }

    #[test]
    fn side_by_side_they_are_what_they_are_alone() {
        let device = Device::flex();
        let parts = parts(&device);
        let x = Tensor::<3>::from_data(TensorData::new(Key::new(2, 0, 0).normals(9 * 64), [3, 3, 64]), &device);
        for pair in parts.windows(2) {
            let both = packed_linear(x.clone(), pair, None);
            let each = pair.iter().map(|part| packed_linear(x.clone(), std::slice::from_ref(part), None)).collect();
            assert_eq!(values(both), values(Tensor::cat(each, 2)));
        }
    }

    #[test]
    fn a_gradient_goes_through_the_twin() {
        let device = Device::flex().autodiff();
        for part in parts(&device) {
            let x = Tensor::<2>::ones([2, 64], &device).require_grad();
            let grads = packed_linear(x.clone(), std::slice::from_ref(&part), None).sum().backward();
            let got = values(x.grad(&grads).unwrap());
            let all = part.weight.values();
            let want: Vec<f32> = (0..64).map(|p| all.chunks(64).map(|row| row[p]).sum()).collect();
            assert!(got.iter().zip(want.iter().cycle()).all(|(a, b)| (a - b).abs() < 1e-4), "{:?}", part.weight);
        }
    }

    #[test]
    fn rows_of_a_table() {
        let device = Device::flex();
        for part in parts(&device) {
            let all = part.weight.values();
            let got = values(packed_embedding(&part.weight, &Ids::new([69, 0, 3, 3], 2), &device));
            let want: Vec<f32> = [69, 0, 3, 3].iter().flat_map(|r| all[r * 64..(r + 1) * 64].to_vec()).collect();
            assert_eq!(got, want);
        }
    }

    #[test]
    fn bytes_are_counted() {
        let float = |float| Weight::plain(&vec![1.0; 64 * 64], 64, 64, float).bytes();
        assert_eq!((float(Float::F32), float(Float::Bf16)), (4 * 64 * 64, 2 * 64 * 64));
        let quants = Quants {
            rows: 64,
            width: 64,
            group: 32,
            zero: 8,
            quants: vec![15; 64 * 64],
            scales: vec![0.5; 128],
            mins: None,
        };
        assert_eq!(Weight::grouped(quants).unwrap().bytes(), 64 * 64 / 2 + 2 * 128);
    }
}
