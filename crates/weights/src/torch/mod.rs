//! `pytorch_model.bin`: tensors described by a pickle, their storages beside it.
//!
//! Since PyTorch 1.6 it is a zip archive (`…/data.pkl`, `…/data/0`, `…/data/1`, …); before, a stream: three pickles that
//! say what it is, the pickle of the tensors, a pickle with the keys of the storages, then each storage with its length.
//! A pickle is a program; ours is run by an interpreter that knows only what tensors need and executes nothing.

mod calls;
mod machine;
mod object;
mod pickle;
mod zip;

use std::collections::HashMap;
use std::path::Path;

use qkv_base::{Error, Result};

use crate::Dtype;
use crate::checkpoint::{Entry, Format, Parsed, Part};
use crate::cursor::{Cursor, DAMAGED};
use crate::file::Bytes;
use crate::json::twice;
use crate::metadata::{Array, Metadata, Value};
use crate::view::View;
use object::{Object, Storage, Tensor};
use pickle::Pickle;

/// The first bytes of a zip archive.
pub(crate) const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
/// The first bytes of the stream: protocol 2, then the number 0x1950a86a20f9469cfc6c.
pub(crate) const LEGACY_MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
/// What to do about a file that holds more than tensors.
const TRUSTED: &str = "convert on a trusted machine: load it there with torch and save the tensors as safetensors";

/// Where the bytes of a storage are.
#[derive(Clone, Copy)]
struct Home {
    buffer: usize,
    start: usize,
    length: usize,
}

/// Reads the zip archive of PyTorch 1.6 and later.
pub(crate) fn read_zip(path: &Path, bytes: Bytes) -> Result<Parsed> {
    let place = path.display().to_string();
    let archive = zip::Archive::open(&place, &bytes)?;
    let Some(prefix) = archive.names().find_map(|name| name.strip_suffix("data.pkl")).map(str::to_owned) else {
        return Err(Error::new(place, "is a zip archive without data.pkl", "give a file that torch.save wrote"));
    };
    refuse_big_endian(&place, &archive, &prefix)?;
    let program = archive.read(&format!("{prefix}data.pkl"))?;
    let pickle = Pickle::run(&mut Cursor::new(&place, &program))?;

    let mut inflated = Vec::new();
    let mut homes: HashMap<String, Home> = HashMap::new();
    for storage in &pickle.storages {
        if homes.contains_key(&storage.key) {
            continue;
        }
        let home = match archive.find(&format!("{prefix}data/{}", storage.key))? {
            zip::Content::Stored(range) => Home { buffer: 0, start: range.start, length: range.len() },
            zip::Content::Inflated(bytes) => {
                let length = bytes.len();
                inflated.push(Bytes::Held(bytes));
                Home { buffer: inflated.len(), start: 0, length }
            }
        };
        homes.insert(storage.key.clone(), home);
    }
    let (entries, metadata) = tensors(&place, &pickle, &homes)?;
    let mut buffers = vec![bytes];
    buffers.append(&mut inflated);
    Ok(Parsed { format: Format::TorchZip, entries, metadata, buffers })
}

fn refuse_big_endian(place: &str, archive: &zip::Archive<'_>, prefix: &str) -> Result<()> {
    let name = format!("{prefix}byteorder");
    if archive.names().any(|n| n == name) && *archive.read(&name)? != *b"little" {
        return Err(Error::new(place, "holds big-endian numbers", TRUSTED));
    }
    Ok(())
}

/// Reads the stream of PyTorch before 1.6.
pub(crate) fn read_legacy(path: &Path, bytes: Bytes) -> Result<Parsed> {
    let place = path.display().to_string();
    let mut cursor = Cursor::new(&place, &bytes);
    Pickle::run(&mut cursor)?; // the magic number, which brought us here
    match Pickle::run(&mut cursor)?.top() {
        Object::Int(1001) => {}
        other => return Err(cursor.error(format!("its protocol is {other:?}, not 1001"))),
    }
    let system = Pickle::run(&mut cursor)?;
    if let Some(Object::Bool(false)) = system.item("little_endian") {
        return Err(Error::new(place, "holds big-endian numbers", TRUSTED));
    }
    let pickle = Pickle::run(&mut cursor)?;
    let keys = Pickle::run(&mut cursor)?;
    let homes = legacy_storages(&mut cursor, &pickle, &keys)?;
    let (entries, metadata) = tensors(&place, &pickle, &homes)?;
    Ok(Parsed { format: Format::TorchLegacy, entries, metadata, buffers: vec![bytes] })
}

/// The storages in the order of their keys, each behind its number of elements.
fn legacy_storages(cursor: &mut Cursor, pickle: &Pickle, keys: &Pickle) -> Result<HashMap<String, Home>> {
    let widths: HashMap<&str, usize> =
        pickle.storages.iter().map(|s| (s.key.as_str(), s.dtype.map_or(1, |d| d.block().1))).collect();
    let Object::List(list) = keys.top() else { return Err(cursor.error("the keys of its storages are not a list")) };
    let mut homes = HashMap::new();
    for &id in list {
        let Object::Text(key) = keys.get(id) else { return Err(cursor.error("the key of a storage is not text")) };
        let Some(width) = widths.get(key.as_str()) else {
            return Err(cursor.error(format!("storage `{key}` belongs to no tensor")));
        };
        let elements = cursor.u64("the length of a storage")?;
        let Some(length) = elements.checked_mul(*width as u64) else {
            return Err(cursor.error(format!("storage `{key}` claims {elements} elements")));
        };
        let start = cursor.at();
        let length = cursor.take(length, &format!("storage `{key}`"))?.len();
        if homes.insert(key.clone(), Home { buffer: 0, start, length }).is_some() {
            return Err(cursor.error(format!("storage `{key}` comes twice")));
        }
    }
    Ok(homes)
}

/// Keys under which training programs keep the weights among other things.
const WRAPPERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];

/// The named tensors; what is not a tensor is listed under `torch.ignored` in the metadata.
fn tensors(place: &str, pickle: &Pickle, homes: &HashMap<String, Home>) -> Result<(Vec<(Entry, Part)>, Metadata)> {
    let Object::Dict(top) = pickle.top() else {
        let what = format!("holds {}, not a dictionary of tensors", pickle.top().kind());
        return Err(Error::new(place, what, "save the state_dict of the model"));
    };
    let has_tensors = |d: &[(u32, u32)]| d.iter().any(|&(_, v)| matches!(pickle.get(v), Object::Tensor(_)));
    let wrapped = WRAPPERS.iter().find_map(|&key| match pickle.item(key) {
        Some(Object::Dict(inner)) if has_tensors(inner) => Some((key, inner)),
        _ => None,
    });
    // One long name could stand a million times in a short program: no name is copied before each is known to come once.
    for dict in [Some(top), wrapped.map(|(_, inner)| inner)].into_iter().flatten() {
        if let Some(name) = twice(dict.iter().filter_map(|&(key, _)| pickle.text(key))) {
            return Err(Error::new(place, format!("key `{name}` comes twice"), "write the weights again"));
        }
    }
    let mut ignored = Vec::new();
    let state = match wrapped {
        None => top,
        Some((key, inner)) => {
            let others = top.iter().filter_map(|&(k, _)| pickle.text(k));
            ignored.extend(others.filter(|&k| k != key).map(str::to_owned));
            inner
        }
    };
    let mut entries = Vec::new();
    for &(key, value) in state {
        let Some(name) = pickle.text(key) else {
            return Err(Error::new(place, "has a key that is not text", TRUSTED));
        };
        match pickle.get(value) {
            Object::Tensor(tensor) => entries.push(entry(place, name, tensor, pickle, homes)?),
            _ if wrapped.is_some() => ignored.push(format!("{}.{name}", wrapped.map_or("", |(key, _)| key))),
            _ => ignored.push(name.to_owned()),
        }
    }
    if entries.is_empty() && !state.is_empty() {
        let some = ignored.iter().take(8).map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let what = format!("holds no tensors, only {} other values: {some}", ignored.len());
        return Err(Error::new(place, what, "save the state_dict of the model"));
    }
    let mut metadata = Metadata::new(place);
    if !ignored.is_empty() {
        metadata.set("torch.ignored", Value::Array(Array::String(ignored)));
    }
    Ok((entries, metadata))
}

fn entry(
    place: &str,
    name: &str,
    tensor: &Tensor,
    pickle: &Pickle,
    homes: &HashMap<String, Home>,
) -> Result<(Entry, Part)> {
    let fail = |what: String| Error::new(place, format!("tensor `{name}`: {what}"), DAMAGED);
    let storage: &Storage =
        pickle.storages.get(tensor.storage).ok_or_else(|| fail("its storage is not there".into()))?;
    let dtype: Dtype = match (tensor.dtype, storage.dtype) {
        (Some(dtype), None) | (None, Some(dtype)) => dtype,
        (Some(a), Some(b)) if a == b => a,
        _ => return Err(fail("it does not say of what type it is".into())),
    };
    let home = homes.get(&storage.key).ok_or_else(|| fail(format!("storage `{}` is not there", storage.key)))?;
    let width = dtype.block().1;
    // An untyped storage counts bytes; PyTorch itself writes the count of elements for the typed ones.
    let unit = storage.dtype.map_or(1, |d| d.block().1);
    let claimed = storage.elements.checked_mul(unit);
    if claimed.is_none_or(|claimed| claimed > home.length) {
        let (elements, length) = (storage.elements, home.length);
        return Err(fail(format!("its storage of {elements} elements ({dtype}) has only {length} bytes")));
    }
    let View { shape, .. } = &tensor.view;
    let count = tensor.view.check(storage.elements * unit / width).map_err(fail)?;
    let view = Some(tensor.view.clone());
    let entry = Entry { name: name.to_owned(), shape: shape.clone(), dtype, bytes: (count * width) as u64 };
    Ok((entry, Part { buffer: home.buffer, start: home.start, view }))
}
