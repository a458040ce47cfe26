//! Writing safetensors, in one file or in shards with an index, as Hugging Face names them.
//!
//! Tensors are made, rounded and written one after the other: the memory needed beyond the model is that of one tensor.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use qkv_base::{Error, Result};
use serde_json::{Map, Value as Json, json};

use super::METADATA;
use crate::atomic::{Pending, failed};
use crate::json::twice;
use crate::{Dtype, Tensor};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Writes tensors into `dir` (made if absent) as `model.safetensors`, or, where that would exceed `max_shard_bytes`, as
/// `model-00001-of-0000N.safetensors` … with `model.safetensors.index.json`.
///
/// `dtype` is `F32`, `F16` or `BF16`, rounded to nearest even; a finite value that would become infinite is an error that
/// names its tensor. A tensor larger than `max_shard_bytes` has a shard to itself. Each file appears whole or not at all;
/// the index appears after its shards, and only then are the weights of an earlier save that it replaces removed.
///
/// ```
/// use qkv_weights::{Dtype, Tensor, save_safetensors};
/// let dir = tempfile::tempdir().unwrap();
/// let tensors = [Tensor::values("a", [2], &[1.0, 2.0]), Tensor::made("b", [3], || Ok(vec![0.5; 3]))];
/// save_safetensors(dir.path(), &tensors, Dtype::F32, 12)?; // 8 and 12 bytes: one shard each
/// assert!(dir.path().join("model-00002-of-00002.safetensors").exists());
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn save_safetensors(dir: &Path, tensors: &[Tensor<'_>], dtype: Dtype, max_shard_bytes: u64) -> Result<()> {
    let place = dir.display().to_string();
    check(&place, tensors, dtype)?;
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut list = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        let (dtype, bytes) = tensor.stored(&place, dtype)?;
        list.push(Stored { tensor, dtype, bytes });
    }
    let shards = split(&list, max_shard_bytes);
    if let [_] = shards[..] {
        write_file(&dir.join(SINGLE), &list)?;
        return remove_others(dir, &[SINGLE.to_owned()]);
    }
    let names: Vec<String> =
        (1..=shards.len()).map(|i| format!("model-{i:05}-of-{:05}.safetensors", shards.len())).collect();
    for (name, shard) in names.iter().zip(&shards) {
        write_file(&dir.join(name), &list[shard.clone()])?;
    }
    write_index(&dir.join(INDEX), &list, &names, &shards)?;
    remove_others(dir, &[names, vec![INDEX.to_owned()]].concat())
}

/// A tensor and what it takes in the file.
struct Stored<'t, 'a> {
    tensor: &'t Tensor<'a>,
    dtype: Dtype,
    bytes: usize,
}

fn check(place: &str, tensors: &[Tensor<'_>], dtype: Dtype) -> Result<()> {
    if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
        let what = format!("cannot be written as {dtype}");
        return Err(Error::new(place, what, "safetensors are written as F32, F16 or BF16"));
    }
    if let Some(name) = twice(tensors.iter().map(|tensor| tensor.name.as_str()).chain([METADATA])) {
        let what = format!("tensor `{name}` comes twice, or has a name that safetensors keeps for itself");
        return Err(Error::new(place, what, "give each tensor a name of its own"));
    }
    Ok(())
}

/// Runs of tensors that fit; at least one run.
fn split(list: &[Stored<'_, '_>], most: u64) -> Vec<Range<usize>> {
    let (mut shards, mut begin, mut size) = (Vec::new(), 0, 0u64);
    for (i, stored) in list.iter().enumerate() {
        let bytes = stored.bytes as u64;
        if i > begin && size.saturating_add(bytes) > most {
            shards.push(begin..i);
            (begin, size) = (i, 0);
        }
        size = size.saturating_add(bytes);
    }
    shards.push(begin..list.len());
    shards
}

fn write_file(path: &Path, list: &[Stored<'_, '_>]) -> Result<()> {
    let place = path.display().to_string();
    // The widest types first, so that every tensor begins at a multiple of its element: PyTorch maps them in place.
    let mut list: Vec<&Stored<'_, '_>> = list.iter().collect();
    list.sort_by_key(|stored| std::cmp::Reverse(stored.dtype.block().1));
    if let Some(stored) = list.iter().find(|stored| stored.dtype.is_quantised()) {
        let what = format!("tensor `{}` is {}, which safetensors does not know", stored.tensor.name, stored.dtype);
        return Err(Error::new(place, what, "read its values and write those"));
    }
    let mut file = Pending::create(path)?;
    file.write(&header(&list))?;
    for Stored { tensor, dtype, .. } in list {
        tensor.write(&place, *dtype, &mut |bytes| file.write(bytes))?;
    }
    file.commit()
}

/// Length and table, padded with spaces so that the bytes begin at a multiple of eight.
fn header(list: &[&Stored<'_, '_>]) -> Vec<u8> {
    // Written by hand because the order of the tensors is that of the file, which a map would not keep.
    let mut table = format!("{{\"{METADATA}\":{{\"format\":\"pt\"}}");
    let mut from = 0;
    for Stored { tensor, dtype, bytes } in list {
        let row = json!({ "dtype": dtype.name(), "shape": tensor.shape, "data_offsets": [from, from + bytes] });
        table += &format!(",{}:{row}", Json::from(tensor.name.as_str()));
        from += bytes;
    }
    table.push('}');
    let length = table.len().next_multiple_of(8);
    let mut out = (length as u64).to_le_bytes().to_vec();
    out.extend(table.bytes().chain(std::iter::repeat(b' ')).take(length));
    out
}

/// Names sorted, two spaces, a line feed at the end: as transformers writes it.
fn write_index(path: &Path, list: &[Stored<'_, '_>], names: &[String], shards: &[Range<usize>]) -> Result<()> {
    let total: usize = list.iter().map(|stored| stored.bytes).sum();
    let mut map: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, shard) in names.iter().zip(shards) {
        map.extend(list[shard.clone()].iter().map(|stored| (stored.tensor.name.as_str(), name.as_str())));
    }
    let map: Map<String, Json> = map.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
    let index = json!({ "metadata": { "total_size": total }, "weight_map": map });
    let mut file = Pending::create(path)?;
    file.write(format!("{index:#}\n").as_bytes())?;
    file.commit()
}

/// Weights of an earlier save would be found instead of these, or beside them.
fn remove_others(dir: &Path, kept: &[String]) -> Result<()> {
    let listing = std::fs::read_dir(dir).map_err(|error| failed(dir, error))?;
    for path in listing.filter_map(|item| Some(item.ok()?.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ours(&name) && !kept.iter().any(|kept| *kept == name) {
            std::fs::remove_file(&path).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(())
}

/// Whether this writer could have given a file that name.
fn ours(name: &str) -> bool {
    let numbers = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
    let digits = |n: &str| n.len() >= 5 && n.bytes().all(|b| b.is_ascii_digit());
    let shard = numbers.and_then(|n| n.split_once("-of-")).is_some_and(|(i, n)| digits(i) && digits(n));
    shard || name == SINGLE || name == INDEX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_later_save_replaces_the_earlier() {
        let dir = tempfile::tempdir().unwrap();
        for other in ["config.json", "model-final.safetensors", "adapter_model.safetensors"] {
            std::fs::write(dir.path().join(other), "{}").unwrap();
        }
        let others = names(dir.path());
        let values = [1.0; 6];
        let tensors = || ["a", "b", "c"].map(|name| Tensor::values(name, [6], &values));
        let with = |more: Vec<&str>| {
            let mut all: Vec<String> = more.into_iter().map(str::to_owned).chain(others.clone()).collect();
            all.sort();
            all
        };
        for (most, expected) in [
            (u64::MAX, vec![SINGLE]),
            (48, vec!["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", INDEX]),
            (
                1,
                vec![
                    "model-00001-of-00003.safetensors",
                    "model-00002-of-00003.safetensors",
                    "model-00003-of-00003.safetensors",
                    INDEX,
                ],
            ),
            (72, vec![SINGLE]),
        ] {
            save_safetensors(dir.path(), &tensors(), Dtype::F32, most).unwrap();
            assert_eq!(names(dir.path()), with(expected));
            let checkpoint = Checkpoint::open(dir.path()).unwrap();
            assert_eq!(checkpoint.entries().iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        }
    }

    #[test]
    fn a_failed_save_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        save_safetensors(dir.path(), &[Tensor::values("a", [1], &[1.0])], Dtype::F32, 100).unwrap();
        let before = std::fs::read(dir.path().join(SINGLE)).unwrap();
        for (bad, what) in [
            (Tensor::values("a", [1], &[1e6]), "tensor `a` holds 1e6 at index 0, which F16 cannot hold"),
            (Tensor::values("a", [2], &[1.0]), "needs 2 values and was given 1"),
            (Tensor::made("a", [1], || Err(Error::new("p", "no", "h"))), "no"),
            (Tensor::values(METADATA, [1], &[1.0]), "keeps for itself"),
            (Tensor::values("a", [1 << 40, 1 << 40], &[1.0]), "cannot be stored"),
            (Tensor::raw("a", [32], Dtype::Q8_0, || Ok(vec![0; 34].into())), "does not know"),
            (Tensor::raw("a", [2], Dtype::I64, || Ok(vec![0; 8].into())), "needs 16 bytes and was given 8"),
        ] {
            let error = save_safetensors(dir.path(), &[bad], Dtype::F16, 100).unwrap_err();
            assert!(error.what.contains(what), "{error}");
            assert_eq!(names(dir.path()), [SINGLE]);
            assert_eq!(std::fs::read(dir.path().join(SINGLE)).unwrap(), before);
        }
        let twice = [Tensor::values("a", [1], &[1.0]), Tensor::values("a", [1], &[1.0])];
        assert!(save_safetensors(dir.path(), &twice, Dtype::F32, 100).is_err());
        assert!(save_safetensors(dir.path(), &[], Dtype::Q8_0, 100).is_err());
    }

    /// What the field's own reader makes of it.
    #[test]
    fn the_reference_reader_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let values: Vec<f32> = (0..15).map(|i| i as f32 * 0.25).collect();
        let tensors = [
            Tensor::values("odd \"name\" é", [3, 5], &values),
            Tensor::raw("ids", [3], Dtype::I64, || Ok([1i64, -2, 3].iter().flat_map(|v| v.to_le_bytes()).collect())),
            Tensor::values("scalar", [], &values[3..4]),
            Tensor::values("empty", [0, 4], &[]),
        ];
        save_safetensors(dir.path(), &tensors, Dtype::F16, u64::MAX).unwrap();
        let bytes = std::fs::read(dir.path().join(SINGLE)).unwrap();
        let read = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let odd = read.tensor("odd \"name\" é").unwrap();
        assert_eq!((odd.dtype(), odd.shape()), (::safetensors::Dtype::F16, &[3, 5][..]));
        let halves: Vec<f32> = odd.data().chunks(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
        assert_eq!(halves, values);
        let ids = read.tensor("ids").unwrap();
        assert_eq!((ids.dtype(), ids.data()[8]), (::safetensors::Dtype::I64, 254));
        assert_eq!(read.tensor("scalar").unwrap().shape(), [0usize; 0]);
        assert_eq!(read.len(), 4);
        assert_eq!((bytes.as_ptr_range().end as usize - ids.data().as_ptr() as usize) % 2, 0);
        let (_, metadata) = ::safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    }
}
