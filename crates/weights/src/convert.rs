//! Stored bytes ⇄ `f32`.
//!
//! Reading is exact for every type that `f32` can hold; `F64` and integers beyond 2²⁴ are rounded to nearest. Writing
//! rounds to nearest, ties to even. Large tensors are cut into runs that the threads share; a run does not depend on
//! another, so the result is the same at any thread count.

use std::ops::ControlFlow;

use half::{bf16, f16, slice::HalfFloatSliceExt};
use qkv_base::{Error, Result};
use rayon::prelude::*;

use crate::Dtype;
use crate::finite::Tally;
use crate::gguf::quant;

/// Elements of a run: stays in the cache between converting and counting; a multiple of every block.
const RUN: usize = 1 << 16;

/// The values that `bytes` hold, and what is not finite among them. `bytes` must be whole blocks.
pub(crate) fn to_f32(dtype: Dtype, bytes: &[u8]) -> (Vec<f32>, Tally) {
    let (elements, size) = dtype.block();
    let mut out = vec![0.0; bytes.len() / size * elements];
    let run = |(out, bytes): (&mut [f32], &[u8])| {
        decode(dtype, bytes, out);
        Tally::of(out)
    };
    let tallies: Vec<Tally> = if out.len() > RUN {
        out.par_chunks_mut(RUN).zip(bytes.par_chunks(RUN / elements * size)).map(run).collect()
    } else {
        vec![run((&mut out, bytes))]
    };
    let tally = tallies.into_iter().enumerate().fold(Tally::default(), |all, (i, next)| all.then(i * RUN, next));
    (out, tally)
}

fn decode(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::Bool => each(bytes, out, |[b]: [u8; 1]| f32::from(b != 0)),
        Dtype::U8 => each(bytes, out, |[b]: [u8; 1]| b.into()),
        Dtype::I8 => each(bytes, out, |b| i8::from_le_bytes(b).into()),
        Dtype::U16 => each(bytes, out, |b| u16::from_le_bytes(b).into()),
        Dtype::I16 => each(bytes, out, |b| i16::from_le_bytes(b).into()),
        Dtype::U32 => each(bytes, out, |b| u32::from_le_bytes(b) as f32),
        Dtype::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
        Dtype::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f32),
        Dtype::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
        Dtype::F16 => halves(bytes, out),
        Dtype::BF16 => each(bytes, out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
        Dtype::F32 => each(bytes, out, f32::from_le_bytes),
        Dtype::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
        quantised => quant::decode(quantised, bytes, out),
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = value(*bytes);
    }
}

/// In pieces small enough for the stack, because `half` converts many at a time with the CPU's own instruction.
fn halves(bytes: &[u8], out: &mut [f32]) {
    let mut piece = [f16::ZERO; 512];
    for (out, bytes) in out.chunks_mut(512).zip(bytes.chunks(1024)) {
        for (half, bytes) in piece.iter_mut().zip(bytes.as_chunks().0) {
            *half = f16::from_le_bytes(*bytes);
        }
        piece[..out.len()].convert_to_f32_slice(out);
    }
}

/// Why values could not be written.
pub(crate) enum Fault {
    /// a value that the type cannot hold
    Value(usize, f32),
    /// whatever the receiver of the bytes said
    Write(Error),
}

impl Fault {
    /// As an error of a tensor.
    pub(crate) fn at(self, place: &str, name: &str, dtype: Dtype) -> Error {
        match self {
            Fault::Write(error) => error,
            Fault::Value(index, value) => {
                let what = format!("tensor `{name}` holds {value:e} at index {index}, which {dtype} cannot hold");
                Error::new(place, what, "store it in a type that reaches further: BF16 or F32")
            }
        }
    }
}

/// Hands the values as bytes of `dtype` to `write`, run by run.
pub(crate) fn from_f32(
    dtype: Dtype,
    values: &[f32],
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> std::result::Result<(), Fault> {
    // Several runs at once keep the threads busy while the bytes in flight stay few.
    for (group, values) in values.chunks(16 * RUN).enumerate() {
        let runs: Vec<_> = values.par_chunks(RUN).map(|run| encode(dtype, run)).collect();
        for (i, run) in runs.into_iter().enumerate() {
            let bytes = run.map_err(|(index, value)| Fault::Value((group * 16 + i) * RUN + index, value))?;
            write(&bytes).map_err(Fault::Write)?;
        }
    }
    Ok(())
}

/// The bytes of a run, or the first value that does not fit.
fn encode(dtype: Dtype, values: &[f32]) -> std::result::Result<Vec<u8>, (usize, f32)> {
    let mut out = Vec::with_capacity(values.len() * 4);
    match dtype {
        Dtype::F16 => try_each(values, |v| {
            let half = f16::from_f32(v);
            out.extend_from_slice(&half.to_le_bytes());
            half.is_finite() || !v.is_finite()
        })?,
        Dtype::BF16 => try_each(values, |v| {
            let half = bf16::from_f32(v);
            out.extend_from_slice(&half.to_le_bytes());
            half.is_finite() || !v.is_finite()
        })?,
        Dtype::Q8_0 => quant::encode_q8_0(values, &mut out)?,
        _ => values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
    }
    Ok(out)
}

fn try_each(values: &[f32], mut fits: impl FnMut(f32) -> bool) -> std::result::Result<(), (usize, f32)> {
    let found = values.iter().enumerate().try_for_each(|(i, &v)| match fits(v) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break((i, v)),
    });
    found.break_value().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dtype: Dtype, values: &[f32]) -> std::result::Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let result = from_f32(dtype, values, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        result.map(|()| out).map_err(|fault| fault.at("f", "w", dtype).what)
    }

    #[test]
    fn plain_types_by_hand() {
        let read = |dtype, bytes: &[u8]| to_f32(dtype, bytes).0;
        assert_eq!(read(Dtype::Bool, &[0, 1]), [0.0, 1.0]);
        assert_eq!(read(Dtype::U8, &[200]), [200.0]);
        assert_eq!(read(Dtype::I8, &[200]), [-56.0]);
        assert_eq!(read(Dtype::U16, &[0, 128]), [32768.0]);
        assert_eq!(read(Dtype::I16, &[0, 128]), [-32768.0]);
        assert_eq!(read(Dtype::U32, &[0, 0, 0, 128]), [2147483648.0]);
        assert_eq!(read(Dtype::I32, &[255, 255, 255, 255]), [-1.0]);
        assert_eq!(read(Dtype::U64, &[0, 0, 0, 0, 0, 0, 0, 128]), [9223372036854775808.0]);
        assert_eq!(read(Dtype::I64, &[254, 255, 255, 255, 255, 255, 255, 255]), [-2.0]);
        assert_eq!(read(Dtype::F16, &[0, 0x3c, 0, 0xc0]), [1.0, -2.0]);
        assert_eq!(read(Dtype::BF16, &[0x80, 0x3f, 0x49, 0x40]), [1.0, 3.140625]);
        assert_eq!(read(Dtype::F32, &1.25f32.to_le_bytes()), [1.25]);
        assert_eq!(read(Dtype::F64, &0.1f64.to_le_bytes()), [0.1]);
    }

    /// Every half-precision number, through the fast path and by itself.
    #[test]
    fn halves_are_read_exactly_and_written_back() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (dtype, one) in [
            (Dtype::F16, (|b| f16::from_bits(b).to_f32()) as fn(u16) -> f32),
            (Dtype::BF16, |b| bf16::from_bits(b).to_f32()),
        ] {
            let (values, _) = to_f32(dtype, &bytes);
            for (bits, &value) in (0..=u16::MAX).zip(&values) {
                let want = one(bits);
                assert!(value.to_bits() == want.to_bits() || value.is_nan() && want.is_nan(), "{dtype} {bits:#x}");
            }
            let finite: Vec<f32> = values.into_iter().filter(|v| !v.is_nan()).collect();
            let again = to_f32(dtype, &stored(dtype, &finite).unwrap()).0;
            assert!(finite.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        let bits = |dtype, v: f32| u16::from_le_bytes(stored(dtype, &[v]).unwrap().try_into().unwrap());
        let ulp = f32::powi(2.0, -10);
        assert_eq!(bits(Dtype::F16, 1.0 + ulp / 2.0), 0x3c00); // halfway, down to even
        assert_eq!(bits(Dtype::F16, 1.0 + 1.5 * ulp), 0x3c02); // halfway, up to even
        assert_eq!(bits(Dtype::F16, f32::powi(2.0, -25)), 0); // halfway to the smallest
        let ulp = f32::powi(2.0, -7);
        assert_eq!(bits(Dtype::BF16, 1.0 + ulp / 2.0), 0x3f80);
        assert_eq!(bits(Dtype::BF16, 1.0 + 1.5 * ulp), 0x3f82);
    }

    #[test]
    fn what_does_not_fit_is_named_and_infinity_stays() {
        let mut values = vec![0.0; 3 * RUN];
        values[2 * RUN + 5] = -65520.0;
        assert_eq!(
            stored(Dtype::F16, &values).unwrap_err(),
            "tensor `w` holds -6.552e4 at index 131077, which F16 cannot hold"
        );
        values[2 * RUN + 5] = 65519.0;
        assert!(stored(Dtype::F16, &values).is_ok());
        assert!(stored(Dtype::BF16, &[f32::MAX]).is_err());
        assert_eq!(stored(Dtype::F16, &[f32::INFINITY]).unwrap(), [0, 0x7c]);
    }

    #[test]
    fn counting_spans_the_runs() {
        let mut values = vec![1.0f32; 2 * RUN + 10];
        values[RUN + 3] = f32::NAN;
        values[2 * RUN + 1] = f32::INFINITY;
        let bytes = stored(Dtype::F32, &values).unwrap();
        let (read, tally) = to_f32(Dtype::F32, &bytes);
        let mut seen = crate::Finiteness::default();
        seen.add("w", tally);
        assert_eq!((seen.nan, seen.infinite, seen.first), (1, 1, Some(("w".into(), RUN + 3))));
        assert!(read.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
