//! Writing GGUF, version 3.

use std::path::Path;

use qkv_base::{Error, Result};

use super::{ALIGNMENT, MAGIC};
use crate::atomic::Pending;
use crate::json::twice;
use crate::metadata::{Array, Metadata, Value};
use crate::{Dtype, Tensor};

/// Writes metadata and tensors to the file `path`, which appears whole or not at all.
///
/// `dtype` is `F32`, `F16` or `Q8_0` and holds for matrices. As ggml's converters do, vectors (norms, biases) stay `F32`
/// because its kernels add them as they are, and a matrix whose rows are not whole blocks of 32 is `F16` instead of
/// `Q8_0`. Shapes are given outermost first, as everywhere in qkv.
///
/// ```
/// use qkv_weights::{Checkpoint, Dtype, Metadata, Tensor, Value, save_gguf};
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("tiny.gguf");
/// let mut metadata = Metadata::new("tiny.gguf");
/// metadata.set("general.architecture", Value::String("llama".into()));
/// save_gguf(&path, &metadata, &[Tensor::values("token_embd.weight", [2, 32], &[0.5; 64])], Dtype::Q8_0)?;
///
/// let checkpoint = Checkpoint::open(&path)?;
/// assert_eq!(checkpoint.metadata().text("general.architecture")?, "llama");
/// assert_eq!(checkpoint.entries()[0].dtype, Dtype::Q8_0);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn save_gguf(path: &Path, metadata: &Metadata, tensors: &[Tensor<'_>], dtype: Dtype) -> Result<()> {
    let place = path.display().to_string();
    check(&place, metadata, tensors, dtype)?;
    let stored: Vec<(Dtype, usize)> =
        tensors.iter().map(|tensor| tensor.stored(&place, matrix_or_vector(tensor, dtype))).collect::<Result<_>>()?;
    let mut file = Pending::create(path)?;
    let mut head = front(metadata, tensors.len());
    let mut offset = 0;
    for (tensor, &(dtype, bytes)) in tensors.iter().zip(&stored) {
        info(&place, &mut head, tensor, dtype, offset)?;
        offset = (offset + bytes as u64).next_multiple_of(ALIGNMENT);
    }
    pad(&mut head);
    file.write(&head)?;
    for (tensor, (dtype, bytes)) in tensors.iter().zip(stored) {
        tensor.write(&place, dtype, &mut |run| file.write(run))?;
        file.write(&vec![0; bytes.next_multiple_of(ALIGNMENT as usize) - bytes])?;
    }
    file.commit()
}

fn check(place: &str, metadata: &Metadata, tensors: &[Tensor<'_>], dtype: Dtype) -> Result<()> {
    let fail = |what: String, hint: &str| Err(Error::new(place, what, hint));
    if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Q8_0) {
        return fail(format!("cannot be written as {dtype}"), "GGUF is written as F32, F16 or Q8_0");
    }
    if let Some(name) = twice(tensors.iter().map(|tensor| tensor.name.as_str())) {
        return fail(format!("tensor `{name}` comes twice"), "give each tensor a name of its own");
    }
    match metadata.get("general.alignment") {
        None | Some(Value::U32(32)) => Ok(()),
        Some(other) => fail(format!("`general.alignment` is {other:?}"), "leave it out: tensors are aligned to 32"),
    }
}

fn matrix_or_vector(tensor: &Tensor<'_>, dtype: Dtype) -> Dtype {
    match (tensor.shape.as_slice(), dtype) {
        ([] | [_], _) => Dtype::F32,
        ([.., row], Dtype::Q8_0) if row % 32 != 0 => Dtype::F16,
        _ => dtype,
    }
}

fn front(metadata: &Metadata, tensors: usize) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors as u64).to_le_bytes());
    out.extend((metadata.iter().len() as u64).to_le_bytes());
    for (key, value) in metadata.iter() {
        text(&mut out, key);
        pair(&mut out, value);
    }
    out
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Type and value.
fn pair(out: &mut Vec<u8>, value: &Value) {
    let mut put = |kind: u32, bytes: &[u8]| {
        out.extend(kind.to_le_bytes());
        out.extend(bytes);
    };
    match value {
        Value::U8(v) => put(0, &v.to_le_bytes()),
        Value::I8(v) => put(1, &v.to_le_bytes()),
        Value::U16(v) => put(2, &v.to_le_bytes()),
        Value::I16(v) => put(3, &v.to_le_bytes()),
        Value::U32(v) => put(4, &v.to_le_bytes()),
        Value::I32(v) => put(5, &v.to_le_bytes()),
        Value::F32(v) => put(6, &v.to_le_bytes()),
        Value::Bool(v) => put(7, &[u8::from(*v)]),
        Value::U64(v) => put(10, &v.to_le_bytes()),
        Value::I64(v) => put(11, &v.to_le_bytes()),
        Value::F64(v) => put(12, &v.to_le_bytes()),
        Value::String(v) => {
            put(8, &[]);
            text(out, v);
        }
        Value::Array(v) => {
            put(9, &[]);
            array(out, v);
        }
    }
}

/// Type, count and values.
fn array(out: &mut Vec<u8>, array_: &Array) {
    let kind: u32 = match array_ {
        Array::U8(_) => 0,
        Array::I8(_) => 1,
        Array::U16(_) => 2,
        Array::I16(_) => 3,
        Array::U32(_) => 4,
        Array::I32(_) => 5,
        Array::F32(_) => 6,
        Array::Bool(_) => 7,
        Array::String(_) => 8,
        Array::Array(_) => 9,
        Array::U64(_) => 10,
        Array::I64(_) => 11,
        Array::F64(_) => 12,
    };
    out.extend(kind.to_le_bytes());
    out.extend((array_.len() as u64).to_le_bytes());
    match array_ {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|v| u8::from(*v))),
        Array::String(v) => v.iter().for_each(|v| text(out, v)),
        Array::Array(v) => v.iter().for_each(|v| array(out, v)),
        Array::U64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
    }
}

fn info(place: &str, out: &mut Vec<u8>, tensor: &Tensor<'_>, dtype: Dtype, offset: u64) -> Result<()> {
    let Tensor { name, shape, .. } = tensor;
    let Some(id) = dtype.ggml().filter(|_| shape.len() <= 4) else {
        let what = format!("tensor `{name}` of shape {shape:?} and type {dtype} has no form in GGUF");
        return Err(Error::new(place, what, "GGUF knows up to four axes, and no unsigned or truth values"));
    };
    text(out, name);
    out.extend((shape.len() as u32).to_le_bytes());
    shape.iter().rev().for_each(|&d| out.extend((d as u64).to_le_bytes()));
    out.extend(id.to_le_bytes());
    out.extend(offset.to_le_bytes());
    Ok(())
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
}
