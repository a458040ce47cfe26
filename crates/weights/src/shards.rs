//! Weights cut into shards: `{"metadata": …, "weight_map": {"tensor": "file in the same directory", …}}`.

use std::path::Path;

use qkv_base::{Error, Result};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::checkpoint::{Kind, Parsed, kind};
use crate::file::{self, SourceFile};
use crate::json::Pairs;
use crate::metadata::Metadata;

#[derive(Deserialize)]
struct Index {
    // Its `total_size` counts shared tensors now once, now twice: nothing to be held against it.
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    weight_map: Pairs<String>,
}

/// Opens every shard that the index names.
///
/// A shard must be a plain file name: an index is data from elsewhere and shall not point anywhere else. A tensor that
/// a shard holds without the index knowing is taken too, as transformers does; one that no shard holds is an error.
pub(crate) fn read(index: SourceFile, bytes: &[u8]) -> Result<(Vec<SourceFile>, Parsed)> {
    let place = index.path.display().to_string();
    let fail = |what: String, hint: &str| Error::new(&place, what, hint);
    let text = qkv_base::without_bom(bytes);
    let parsed: Index = serde_json::from_slice(text)
        .map_err(|error| fail(format!("is not an index of shards: {error}"), crate::cursor::DAMAGED))?;
    let map = parsed.weight_map;
    if let Some(name) = map.twice() {
        return Err(fail(format!("tensor `{name}` comes twice"), "write the weights again"));
    }
    let mut files = vec![index.clone()];
    let mut whole: Option<Parsed> = None;
    for shard in in_order(&map) {
        let (file, parsed) = open(&index.path, &place, shard)?;
        expect_tensors(&place, &map, shard, &parsed)?;
        files.push(file);
        whole = Some(match whole {
            None => parsed,
            Some(whole) => join(whole, parsed),
        });
    }
    let whole = whole.ok_or_else(|| fail("names no shards".to_owned(), "give the weights themselves"))?;
    Ok((files, Parsed { metadata: Metadata::new(&place), ..whole }))
}

/// The shards, each once, sorted: `-00001-of-` before `-00002-of-`.
fn in_order(map: &Pairs<String>) -> Vec<&str> {
    let mut shards: Vec<&str> = map.0.iter().map(|(_, shard)| shard.as_str()).collect();
    shards.sort_unstable();
    shards.dedup();
    shards
}

fn open(index: &Path, place: &str, shard: &str) -> Result<(SourceFile, Parsed)> {
    if shard.is_empty() || shard == "." || shard == ".." || shard.contains(['/', '\\', ':', '\0']) {
        let what = format!("names the shard `{}`, which is not a plain file name", shard.escape_debug());
        return Err(Error::new(place, what, "shards must lie beside their index"));
    }
    let path = index.with_file_name(shard);
    if !path.is_file() {
        let what = format!("names the shard `{shard}`, which is not there");
        return Err(Error::new(place, what, format!("put {shard} beside the index")));
    }
    let (file, bytes) = file::open(&path)?;
    match kind(&path, &bytes)? {
        Kind::Weights(read) => Ok((file, read(&path, bytes)?)),
        Kind::Index => {
            let what = format!("names the shard `{shard}`, which is itself an index");
            Err(Error::new(place, what, "name the shards themselves"))
        }
    }
}

/// Everything that the index says is in this shard is there, or the list of what is not.
fn expect_tensors(place: &str, map: &Pairs<String>, shard: &str, parsed: &Parsed) -> Result<()> {
    let mut held: Vec<&str> = parsed.entries.iter().map(|(entry, _)| entry.name.as_str()).collect();
    held.sort_unstable();
    let named = map.0.iter().filter(|(_, at)| at == shard).map(|(name, _)| name.as_str());
    let missing: Vec<&str> = named.filter(|name| held.binary_search(name).is_err()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let some = missing.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = if missing.len() > 8 { ", …" } else { "" };
    let what = format!("{} tensors are not in {shard} as promised: {some}{more}", missing.len());
    Err(Error::new(place, what, "index and shards belong to different saves: fetch or write both again"))
}

fn join(mut whole: Parsed, mut next: Parsed) -> Parsed {
    let base = whole.buffers.len();
    next.entries.iter_mut().for_each(|(_, part)| part.buffer += base);
    whole.entries.append(&mut next.entries);
    whole.buffers.append(&mut next.buffers);
    whole
}
