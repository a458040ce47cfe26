//! Reading safetensors. Tensors must cover the bytes without gap, overlap or remainder, so nothing can hide in the file.

use std::fmt;
use std::path::Path;

use qkv_base::{Error, Result};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::{METADATA, MOST_HEADER};
use crate::checkpoint::{Entry, Format, Parsed, Part};
use crate::cursor::DAMAGED;
use crate::file::Bytes;
use crate::json::{Pairs, twice};
use crate::{Dtype, Metadata, metadata::Value};

/// Reads and checks the table; the tensors stay where they are.
pub(crate) fn read(path: &Path, bytes: Bytes) -> Result<Parsed> {
    let place = path.display().to_string();
    let fail = |what: String| Error::new(&place, what, DAMAGED);
    let table = header(&bytes).map_err(fail)?;
    let begin = 8 + table.len();
    let header: Header = serde_json::from_slice(table).map_err(|error| fail(format!("its table: {error}")))?;
    let metadata = metadata(&place, header.metadata).map_err(fail)?;
    let entries = lay_out(header.tensors, begin, bytes.len() - begin).map_err(fail)?;
    Ok(Parsed { format: Format::SafeTensors, entries, metadata, buffers: vec![bytes] })
}

type Checked<T> = std::result::Result<T, String>;

/// The bytes of the table.
fn header(bytes: &[u8]) -> Checked<&[u8]> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("is {} bytes long, too short for the length of its table", bytes.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > MOST_HEADER {
        return Err(format!("claims a table of {length} bytes, more than {MOST_HEADER} is not allowed"));
    }
    rest.get(..length as usize)
        .ok_or_else(|| format!("claims a table of {length} bytes, but only {} are there", rest.len()))
}

/// One row of the table. Other keys are passed over, as the reference does.
#[derive(Deserialize)]
struct Row {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

struct Header {
    tensors: Vec<(String, Row)>,
    metadata: Vec<Pairs<String>>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
                let mut header = Header { tensors: Vec::new(), metadata: Vec::new() };
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        header.metadata.push(map.next_value()?);
                    } else {
                        let row = map.next_value()?;
                        header.tensors.push((name, row));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Table)
    }
}

fn metadata(place: &str, mut found: Vec<Pairs<String>>) -> Checked<Metadata> {
    if found.len() > 1 {
        return Err(format!("`{METADATA}` comes twice"));
    }
    let Some(pairs) = found.pop() else { return Ok(Metadata::new(place)) };
    if let Some(key) = pairs.twice() {
        return Err(format!("metadata key `{key}` comes twice"));
    }
    let pairs = pairs.0.into_iter().map(|(key, value)| (key, Value::String(value))).collect();
    Ok(Metadata::from_pairs(place, pairs))
}

/// Holds the rows against each other and against the `length` bytes behind the table.
fn lay_out(mut rows: Vec<(String, Row)>, begin: usize, length: usize) -> Checked<Vec<(Entry, Part)>> {
    if let Some(name) = twice(rows.iter().map(|(name, _)| name.as_str())) {
        return Err(format!("tensor `{name}` comes twice"));
    }
    rows.sort_by_key(|(_, row)| row.data_offsets); // a stable sort: empty tensors keep their order
    let mut expected = 0;
    let mut entries = Vec::new();
    for (name, row) in rows {
        let entry = entry(name, &row)?;
        let (from, to) = row.data_offsets;
        if from != expected {
            let fault = if from > expected { "leaves a hole before it" } else { "lies over the one before it" };
            return Err(format!("tensor `{}` {fault}: it begins at {from}, not {expected}", entry.name));
        }
        if to > length {
            return Err(format!(
                "tensor `{}` needs bytes {from} to {to}, but the file holds only {length}",
                entry.name
            ));
        }
        expected = to;
        entries.push((entry, Part { buffer: 0, start: begin + from, view: None }));
    }
    if expected != length {
        return Err(format!("holds {} bytes behind its last tensor", length - expected));
    }
    Ok(entries)
}

fn entry(name: String, row: &Row) -> Checked<Entry> {
    let Row { dtype, shape, data_offsets: (from, to) } = row;
    let Some(dtype) = Dtype::from_name(dtype).filter(|d| !d.is_quantised()) else {
        return Err(format!("tensor `{name}` is of type {dtype}, which cannot be read"));
    };
    let Some(bytes) = dtype.bytes(shape) else {
        return Err(format!("tensor `{name}` of shape {shape:?} overflows"));
    };
    if to.checked_sub(*from) != Some(bytes) {
        return Err(format!(
            "tensor `{name}` of shape {shape:?} and type {dtype} takes {bytes} bytes, but is given {from} to {to}"
        ));
    }
    Ok(Entry { name, shape: shape.clone(), dtype, bytes: bytes as u64 })
}
