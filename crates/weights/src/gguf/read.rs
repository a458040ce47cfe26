//! Reading GGUF: every count is held against the bytes that are left before memory is taken for it.

use std::path::Path;

use qkv_base::{Error, Result};

use super::{ALIGNMENT, MAGIC};
use crate::checkpoint::{Entry, Format, Parsed, Part};
use crate::cursor::{Cursor, utf8};
use crate::dtype::Dtype;
use crate::file::Bytes;
use crate::json::twice;
use crate::metadata::{Array, Metadata, Value};

/// The most that metadata may take of the file. The largest vocabularies with their merges stay below 20 MB.
const MOST_METADATA: usize = 64 << 20;
/// The most lists within lists.
const MOST_DEPTH: usize = 4;
/// ggml knows no tensor of more axes.
const MOST_AXES: u32 = 4;
/// The largest alignment that makes sense: a page, generously.
const MOST_ALIGNMENT: u64 = 1 << 16;

/// Reads the table and the metadata; the tensors stay where they are.
pub(crate) fn read(path: &Path, bytes: Bytes) -> Result<Parsed> {
    let place = path.display().to_string();
    let mut cursor = Cursor::new(&place, &bytes);
    let (version, tensors, pairs) = header(&place, &mut cursor)?;
    let metadata = metadata(&place, &mut cursor, pairs)?;
    refuse_parts(&place, &metadata)?;
    let alignment = alignment(&place, &metadata)?;
    let infos = infos(&place, &mut cursor, tensors)?;
    let entries = lay_out(&place, infos, cursor.at() as u64, alignment, bytes.len() as u64)?;
    Ok(Parsed { format: Format::Gguf { version }, entries, metadata, buffers: vec![bytes] })
}

fn header(place: &str, cursor: &mut Cursor) -> Result<(u32, u64, u64)> {
    if cursor.array::<4>("the magic")? != *MAGIC {
        return Err(Error::new(place, "does not begin with `GGUF`", "give a GGUF file"));
    }
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => Ok((version, cursor.u64("the number of tensors")?, cursor.u64("the number of metadata pairs")?)),
        _ if version != 0 && version & 0xffff == 0 => {
            let what = format!("is a big-endian GGUF file (version {})", version.swap_bytes());
            Err(Error::new(place, what, "convert it to little-endian with gguf_convert_endian"))
        }
        _ => Err(Error::new(
            place,
            format!("is GGUF version {version}, but only 2 and 3 can be read"),
            "convert the model again with a current tool",
        )),
    }
}

/// `count` things of at least `least` bytes each cannot be in fewer bytes than that.
fn counted(cursor: &Cursor, count: u64, least: usize, what: &str) -> Result<usize> {
    let most = cursor.left() / least;
    usize::try_from(count).ok().filter(|&count| count <= most).ok_or_else(|| {
        cursor.error(format!("{count} {what} of at least {least} bytes each cannot be in {} bytes", cursor.left()))
    })
}

fn metadata(place: &str, cursor: &mut Cursor, pairs: u64) -> Result<Metadata> {
    let begin = cursor.at();
    let pairs = counted(cursor, pairs, 8 + 4 + 1, "metadata pairs")?;
    let mut read = Vec::new();
    for _ in 0..pairs {
        let key = text(place, cursor, "a metadata key")?;
        let kind = cursor.u32("the type of a value")?;
        read.push((value(place, cursor, kind, &key)?, key));
        if cursor.at() - begin > MOST_METADATA {
            return Err(Error::new(
                place,
                format!("has more than {} MB of metadata", MOST_METADATA >> 20),
                "no vocabulary needs that much: the file is damaged or was made to do harm",
            ));
        }
    }
    if let Some(key) = twice(read.iter().map(|(_, key)| key.as_str())) {
        return Err(Error::new(place, format!("metadata key `{key}` comes twice"), "write the file again"));
    }
    Ok(Metadata::from_pairs(place, read.into_iter().map(|(value, key)| (key, value)).collect()))
}

fn text(place: &str, cursor: &mut Cursor, what: &str) -> Result<String> {
    let length = cursor.u64(what)?;
    if length > MOST_METADATA as u64 {
        return Err(cursor.error(format!("{what} claims {length} bytes")));
    }
    Ok(utf8(place, cursor.take(length, what)?, what)?.to_owned())
}

fn truth(cursor: &mut Cursor, what: &str) -> Result<bool> {
    match cursor.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(cursor.error(format!("{what} is {other}, which is neither true nor false"))),
    }
}

fn value(place: &str, cursor: &mut Cursor, kind: u32, key: &str) -> Result<Value> {
    let what = format!("the value of `{key}`");
    let w = what.as_str();
    Ok(match kind {
        0 => Value::U8(cursor.u8(w)?),
        1 => Value::I8(i8::from_le_bytes(cursor.array(w)?)),
        2 => Value::U16(cursor.u16(w)?),
        3 => Value::I16(i16::from_le_bytes(cursor.array(w)?)),
        4 => Value::U32(cursor.u32(w)?),
        5 => Value::I32(i32::from_le_bytes(cursor.array(w)?)),
        6 => Value::F32(f32::from_le_bytes(cursor.array(w)?)),
        7 => Value::Bool(truth(cursor, w)?),
        8 => Value::String(text(place, cursor, w)?),
        9 => Value::Array(array(place, cursor, w, 1)?),
        10 => Value::U64(cursor.u64(w)?),
        11 => Value::I64(i64::from_le_bytes(cursor.array(w)?)),
        12 => Value::F64(f64::from_le_bytes(cursor.array(w)?)),
        _ => return Err(cursor.error(format!("{what} has the unknown type {kind}"))),
    })
}

fn array(place: &str, cursor: &mut Cursor, what: &str, depth: usize) -> Result<Array> {
    if depth > MOST_DEPTH {
        return Err(cursor.error(format!("{what} is lists within lists, more than {MOST_DEPTH} deep")));
    }
    let kind = cursor.u32(what)?;
    let count = cursor.u64(what)?;
    Ok(match kind {
        0 => Array::U8(plain(cursor, count, what, |[b]: [u8; 1]| b)?),
        1 => Array::I8(plain(cursor, count, what, i8::from_le_bytes)?),
        2 => Array::U16(plain(cursor, count, what, u16::from_le_bytes)?),
        3 => Array::I16(plain(cursor, count, what, i16::from_le_bytes)?),
        4 => Array::U32(plain(cursor, count, what, u32::from_le_bytes)?),
        5 => Array::I32(plain(cursor, count, what, i32::from_le_bytes)?),
        6 => Array::F32(plain(cursor, count, what, f32::from_le_bytes)?),
        7 => Array::Bool(many(cursor, count, 1, what, |cursor| truth(cursor, what))?),
        8 => Array::String(many(cursor, count, 8, what, |cursor| text(place, cursor, what))?),
        9 => Array::Array(many(cursor, count, 12, what, |cursor| array(place, cursor, what, depth + 1))?),
        10 => Array::U64(plain(cursor, count, what, u64::from_le_bytes)?),
        11 => Array::I64(plain(cursor, count, what, i64::from_le_bytes)?),
        12 => Array::F64(plain(cursor, count, what, f64::from_le_bytes)?),
        _ => return Err(cursor.error(format!("{what} is a list of the unknown type {kind}"))),
    })
}

/// Numbers of `N` bytes.
fn plain<T, const N: usize>(cursor: &mut Cursor, count: u64, what: &str, one: fn([u8; N]) -> T) -> Result<Vec<T>> {
    if count.saturating_mul(N as u64) > MOST_METADATA as u64 {
        return Err(cursor.error(format!("{what} is a list of {count}, more than metadata may hold")));
    }
    let bytes = cursor.take(count * N as u64, what)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|b| one(*b)).collect())
}

fn many<T>(
    cursor: &mut Cursor,
    count: u64,
    least: usize,
    what: &str,
    mut one: impl FnMut(&mut Cursor) -> Result<T>,
) -> Result<Vec<T>> {
    let count = counted(cursor, count, least, what)?;
    let begin = cursor.at();
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(one(cursor)?);
        if cursor.at() - begin > MOST_METADATA {
            return Err(cursor.error(format!("{what} takes more than metadata may")));
        }
    }
    Ok(out)
}

/// A model cut into several files is not whole in one of them.
fn refuse_parts(place: &str, metadata: &Metadata) -> Result<()> {
    match metadata.optional("split.count", Metadata::uint)? {
        Some(count) if count > 1 => {
            let what = format!("is one of {count} parts of a model");
            Err(Error::new(place, what, "join them into one file with `gguf-split --merge`"))
        }
        _ => Ok(()),
    }
}

fn alignment(place: &str, metadata: &Metadata) -> Result<u64> {
    let found = match metadata.get("general.alignment") {
        None => return Ok(ALIGNMENT),
        Some(value) => value,
    };
    match found {
        Value::U32(n) if n.is_power_of_two() && u64::from(*n) <= MOST_ALIGNMENT => Ok((*n).into()),
        other => {
            let what = format!("`general.alignment` is {other:?}, not a power of two up to {MOST_ALIGNMENT}");
            Err(Error::new(place, what, "write the file again with alignment 32"))
        }
    }
}

/// A tensor as the table tells of it.
struct Info {
    entry: Entry,
    offset: u64,
}

fn infos(place: &str, cursor: &mut Cursor, tensors: u64) -> Result<Vec<Info>> {
    let tensors = counted(cursor, tensors, 8 + 4 + 4 + 8, "tensors")?;
    let mut infos = Vec::new();
    for _ in 0..tensors {
        infos.push(info(place, cursor)?);
    }
    if let Some(name) = twice(infos.iter().map(|info| info.entry.name.as_str())) {
        return Err(Error::new(place, format!("tensor `{name}` comes twice"), "write the file again"));
    }
    Ok(infos)
}

fn info(place: &str, cursor: &mut Cursor) -> Result<Info> {
    let name = text(place, cursor, "the name of a tensor")?;
    let rank = cursor.u32("the rank of a tensor")?;
    if rank > MOST_AXES {
        return Err(cursor.error(format!("tensor `{name}` has {rank} axes, but GGUF allows {MOST_AXES}")));
    }
    let mut shape = Vec::new();
    for _ in 0..rank {
        let axis = cursor.u64("the shape of a tensor")?;
        let axis = i64::try_from(axis).ok().and_then(|axis| usize::try_from(axis).ok());
        shape.push(axis.ok_or_else(|| cursor.error(format!("tensor `{name}` has an axis that overflows")))?);
    }
    shape.reverse(); // GGUF counts axes from the innermost
    let id = cursor.u32("the type of a tensor")?;
    let offset = cursor.u64("the offset of a tensor")?;
    let dtype = Dtype::from_ggml(id).ok_or_else(|| unknown_type(place, &name, id))?;
    let bytes = dtype.bytes(&shape).ok_or_else(|| {
        cursor.error(format!("tensor `{name}` of shape {shape:?} overflows or is not whole blocks of {dtype}"))
    })?;
    Ok(Info { entry: Entry { name, shape, dtype, bytes: bytes as u64 }, offset })
}

fn unknown_type(place: &str, name: &str, id: u32) -> Error {
    let known: Vec<&str> = Dtype::all().filter(|d| d.ggml().is_some()).map(Dtype::name).collect();
    let what = format!("tensor `{name}` is of ggml type {id}{}, which cannot be read", other_type(id));
    Error::new(place, what, format!("quantise the model to one of {}", known.join(", ")))
}

/// The names of the types that we do not read.
fn other_type(id: u32) -> String {
    let name = match id {
        9 => "Q8_1",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return String::new(),
    };
    format!(" ({name})")
}

/// Tensors follow each other without gap, each at the next aligned place, as ggml demands: so none can lie over another.
fn lay_out(place: &str, infos: Vec<Info>, table: u64, alignment: u64, length: u64) -> Result<Vec<(Entry, Part)>> {
    let begin = table.next_multiple_of(alignment);
    let mut expected = 0u64;
    let mut out = Vec::new();
    for Info { entry, offset } in infos {
        let fail = |what: String| Err(Error::new(place, what, crate::cursor::DAMAGED));
        let (name, bytes) = (&entry.name, entry.bytes);
        if offset != expected {
            return fail(format!("tensor `{name}` lies at offset {offset}, but {expected} is expected"));
        }
        let end = begin.checked_add(offset).and_then(|start| start.checked_add(bytes));
        // An empty tensor at the very end may stand behind padding that was never written.
        if bytes > 0 && end.is_none_or(|end| end > length) {
            let left = length.saturating_sub(begin.saturating_add(offset));
            return fail(format!("tensor `{name}` needs {bytes} bytes, but the file holds only {left} of them"));
        }
        let Some(next) = offset.checked_add(bytes).and_then(|next| next.checked_next_multiple_of(alignment)) else {
            return fail(format!("tensor `{name}` overflows the file"));
        };
        expected = next;
        let start = if bytes == 0 { 0 } else { (begin + offset) as usize };
        out.push((entry, Part { buffer: 0, start, view: None }));
    }
    Ok(out)
}
