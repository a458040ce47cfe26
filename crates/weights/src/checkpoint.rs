//! A checkpoint, whatever its format: named tensors with a shape, a type and bytes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use qkv_base::{Error, Quants, Result, nearest};

use crate::convert;
use crate::file::{self, Bytes, SourceFile};
use crate::finite::{Finiteness, Tally};
use crate::grouped::Grouped;
use crate::json::twice;
use crate::view::View;
use crate::{Dtype, Metadata, Tensor, gguf, safetensors, shards, torch};

/// What kind of file the weights are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// safetensors
    SafeTensors,
    /// PyTorch's zip archive (1.6 and later)
    TorchZip,
    /// PyTorch's stream of pickles (before 1.6)
    TorchLegacy,
    /// GGUF
    Gguf {
        /// 2 or 3
        version: u32,
    },
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::SafeTensors => f.write_str("safetensors"),
            Format::TorchZip => f.write_str("PyTorch zip"),
            Format::TorchLegacy => f.write_str("PyTorch legacy"),
            Format::Gguf { version } => write!(f, "GGUF v{version}"),
        }
    }
}

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// as the file names it
    pub name: String,
    /// outermost axis first, in every format
    pub shape: Vec<usize>,
    /// the type of its elements
    pub dtype: Dtype,
    /// how many bytes they take
    pub bytes: u64,
}

/// Where its bytes are.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) buffer: usize,
    /// the first byte of the tensor, or of the storage that it views
    pub(crate) start: usize,
    pub(crate) view: Option<View>,
}

/// A tensor that is there as it is, or whole numbers with scales beside them.
#[derive(Debug)]
enum Place {
    Plain(Part),
    Grouped(Box<Grouped>),
}

/// What the reader of a format hands over. Every part lies within its buffer: that was checked.
pub(crate) struct Parsed {
    pub(crate) format: Format,
    pub(crate) entries: Vec<(Entry, Part)>,
    pub(crate) metadata: Metadata,
    /// the file itself, then what was inflated out of it
    pub(crate) buffers: Vec<Bytes>,
}

/// Weights on disk, open for reading.
///
/// Files of more than 1 MB are memory-mapped and must not be truncated while this is open; smaller ones are held in
/// memory. It may be read from many threads.
pub struct Checkpoint {
    format: Format,
    files: Vec<SourceFile>,
    buffers: Vec<Bytes>,
    entries: Vec<Entry>,
    parts: Vec<Place>,
    /// entries sorted by name
    sorted: Vec<usize>,
    metadata: Metadata,
}

/// What a directory may hold, the most trusted first.
const IN_DIRECTORY: [&str; 4] =
    ["model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"];

impl Checkpoint {
    /// Opens a file of weights, an index of shards, or a directory that holds one of them.
    ///
    /// A directory is searched for `model.safetensors`, `model.safetensors.index.json`, `pytorch_model.bin`,
    /// `pytorch_model.bin.index.json` and a single `*.gguf`, in this order. A file is known by its first bytes, not by
    /// its name. Nothing in the file is executed, and nothing is allocated by a number in it before that number has been
    /// held against the length of the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let path = if path.is_dir() { find(path)? } else { path.to_owned() };
        let (file, bytes) = file::open(&path)?;
        let (files, parsed) = match kind(&path, &bytes)? {
            Kind::Index => shards::read(file, &bytes)?,
            Kind::Weights(read) => (vec![file], read(&path, bytes)?),
        };
        Self::new(files, parsed)
    }

    fn new(files: Vec<SourceFile>, parsed: Parsed) -> Result<Self> {
        let Parsed { format, entries, metadata, buffers } = parsed;
        if let Some(name) = twice(entries.iter().map(|(entry, _)| entry.name.as_str())) {
            let place = files.first().map(|file| file.path.display().to_string()).unwrap_or_default();
            return Err(Error::new(place, format!("tensor `{name}` comes twice"), "write the weights again"));
        }
        let place = files.first().map(|file| file.path.display().to_string()).unwrap_or_default();
        let (entries, parts): (Vec<Entry>, Vec<Place>) = with_scales(&place, entries)?.into_iter().unzip();
        let mut sorted: Vec<usize> = (0..entries.len()).collect();
        sorted.sort_unstable_by(|&a, &b| entries[a].name.cmp(&entries[b].name));
        Ok(Self { format, files, buffers, entries, parts, sorted, metadata })
    }

    /// The tensors in the order in which the file has them.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Which format it is.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the file says beside its tensors.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The files that it was read from: the index first, if there is one, then the shards.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The tensor of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.index(name).map(|index| &self.entries[index])
    }

    /// The tensor of that name, or an error that names the nearest.
    pub fn entry(&self, name: &str) -> Result<&Entry> {
        Ok(&self.entries[self.find(name)?])
    }

    /// The values of a tensor, outermost axis slowest, whatever the type they are stored in. `F64` and large integers
    /// are rounded to nearest.
    pub fn read_f32(&self, name: &str) -> Result<Vec<f32>> {
        Ok(self.read(name)?.0)
    }

    /// The same, and counts what is not finite, while the values are at hand.
    ///
    /// ```
    /// use qkv_weights::{Checkpoint, Dtype, Finiteness, Tensor, save_safetensors};
    /// let dir = tempfile::tempdir().unwrap();
    /// save_safetensors(dir.path(), &[Tensor::values("w", [3], &[1.0, f32::NAN, 2.0])], Dtype::F32, 1 << 30)?;
    /// let mut seen = Finiteness::default();
    /// Checkpoint::open(dir.path())?.read_f32_counting("w", &mut seen)?;
    /// assert_eq!(seen.first, Some(("w".to_owned(), 1)));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn read_f32_counting(&self, name: &str, seen: &mut Finiteness) -> Result<Vec<f32>> {
        let (values, tally) = self.read(name)?;
        seen.add(name, tally);
        Ok(values)
    }

    /// The bytes of a tensor as stored (little-endian, rows in order), borrowed wherever they lie in order already.
    pub fn read_raw(&self, name: &str) -> Result<Cow<'_, [u8]>> {
        let index = self.find(name)?;
        Ok(match &self.parts[index] {
            Place::Plain(part) => self.bytes(&self.entries[index], part),
            Place::Grouped(grouped) => self.bytes(&grouped.quants.0, &grouped.quants.1),
        })
    }

    fn bytes(&self, entry: &Entry, part: &Part) -> Cow<'_, [u8]> {
        let rest = &self.buffers[part.buffer][part.start..];
        match &part.view {
            None => Cow::Borrowed(&rest[..entry.bytes as usize]),
            Some(view) => view.of(rest, entry.dtype.block().1),
        }
    }

    /// A matrix that is stored in blocks, as whole numbers with scales: nothing is rounded. The groups run along its rows; true
    /// with a matrix that the file has the other way round. `None` for plain types.
    pub fn read_quants(&self, name: &str) -> Result<Option<(Quants, bool)>> {
        let index = self.find(name)?;
        let entry = &self.entries[index];
        if let Place::Grouped(grouped) = &self.parts[index] {
            return Ok(Some((self.whole_numbers(grouped), grouped.turned)));
        }
        let [rows, width] = entry.shape[..] else { return Ok(None) };
        Ok(gguf::quant::quants(entry.dtype, &self.read_raw(name)?, rows, width).map(|quants| (quants, false)))
    }

    fn whole_numbers(&self, grouped: &Grouped) -> Quants {
        grouped.read(|(entry, part)| self.bytes(entry, part).into_owned())
    }

    /// Lets go of the memory that the bytes of a tensor take, where the file is mapped: they have been read, and would be read from
    /// disk again. Without this a network that is loaded counts twice, once as it is computed with and once as its file.
    pub fn release(&self, name: &str) {
        let Some(index) = self.index(name) else { return };
        let let_go = |entry: &Entry, part: &Part| {
            if part.view.is_none() {
                self.buffers[part.buffer].release(part.start, entry.bytes as usize);
            }
        };
        match &self.parts[index] {
            Place::Plain(part) => let_go(&self.entries[index], part),
            Place::Grouped(grouped) => {
                let beside = [Some(&grouped.quants), Some(&grouped.scale), grouped.min.as_ref()];
                beside.into_iter().flatten().for_each(|(entry, part)| let_go(entry, part));
            }
        }
    }

    /// Every tensor as it is, to be written elsewhere bit for bit.
    pub fn tensors(&self) -> Vec<Tensor<'_>> {
        fn raw<'a>(file: &'a Checkpoint, entry: &'a Entry, part: &'a Part) -> Tensor<'a> {
            Tensor::raw(&entry.name, entry.shape.clone(), entry.dtype, move || Ok(file.bytes(entry, part)))
        }
        let all = self.entries.iter().zip(&self.parts).flat_map(|(entry, place)| match place {
            Place::Plain(part) => vec![raw(self, entry, part)],
            Place::Grouped(grouped) => {
                let beside = [Some(&grouped.quants), Some(&grouped.scale), grouped.min.as_ref()];
                beside.into_iter().flatten().map(|(entry, part)| raw(self, entry, part)).collect()
            }
        });
        all.collect()
    }

    fn read(&self, name: &str) -> Result<(Vec<f32>, Tally)> {
        let index = self.find(name)?;
        if let Place::Grouped(grouped) = &self.parts[index] {
            let quants = self.whole_numbers(grouped);
            let (rows, width) = (quants.rows, quants.width);
            let at = |n: usize| if grouped.turned { n % rows * width + n / rows } else { n };
            let values: Vec<f32> = (0..rows * width).map(|n| quants.value(at(n))).collect();
            let tally = Tally::of(&values);
            return Ok((values, tally));
        }
        Ok(convert::to_f32(self.entries[index].dtype, &self.read_raw(name)?))
    }

    fn index(&self, name: &str) -> Option<usize> {
        let at = self.sorted.binary_search_by(|&i| self.entries[i].name.as_str().cmp(name)).ok()?;
        Some(self.sorted[at])
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.index(name).ok_or_else(|| {
            let hint = match nearest(name, self.entries.iter().map(|entry| entry.name.as_str())) {
                Some(near) => format!("the nearest name there is `{near}`"),
                None => "it has no tensors at all".to_owned(),
            };
            let place = self.files.first().map(|file| file.path.display().to_string()).unwrap_or_default();
            Error::new(place, format!("has no tensor `{name}`"), hint)
        })
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkpoint").field("format", &self.format).field("entries", &self.entries.len()).finish()
    }
}

/// Matrices with their scales put together (`grouped.rs`); everything else as it is. Anybody may call a tensor `x_scale`: only
/// beside bytes called `x` it is one of ours.
fn with_scales(place: &str, entries: Vec<(Entry, Part)>) -> Result<Vec<(Entry, Place)>> {
    let bytes = |entry: &Entry| matches!(entry.dtype, Dtype::I8 | Dtype::U8) && entry.shape.len() == 2;
    let stems: HashSet<String> =
        entries.iter().filter(|(entry, _)| bytes(entry)).map(|(entry, _)| entry.name.clone()).collect();
    let mut beside: HashMap<String, (Entry, Part)> = HashMap::new();
    let mut rest = vec![];
    for (entry, part) in entries {
        let stem = entry.name.strip_suffix("_scale").or_else(|| entry.name.strip_suffix("_min"));
        match stem.is_some_and(|stem| stems.contains(stem)) {
            true => drop(beside.insert(entry.name.clone(), (entry, part))),
            false => rest.push((entry, part)),
        }
    }
    let mut all = Vec::with_capacity(rest.len());
    for (entry, part) in rest {
        let Some(scale) = beside.remove(&format!("{}_scale", entry.name)) else {
            all.push((entry, Place::Plain(part)));
            continue;
        };
        let min = beside.remove(&format!("{}_min", entry.name));
        let grouped = Grouped::new(place, (entry.clone(), part), scale, min)?;
        let bytes = |part: Option<&(Entry, Part)>| part.map_or(0, |(entry, _)| entry.bytes);
        let bytes = entry.bytes + bytes(Some(&grouped.scale)) + bytes(grouped.min.as_ref());
        all.push((Entry { shape: grouped.shape().to_vec(), bytes, ..entry }, Place::Grouped(Box::new(grouped))));
    }
    // Minima whose scales are missing.
    all.extend(beside.into_values().map(|(entry, part)| (entry, Place::Plain(part))));
    Ok(all)
}

/// The weights in a directory.
fn find(dir: &Path) -> Result<PathBuf> {
    if let Some(path) = IN_DIRECTORY.iter().map(|name| dir.join(name)).find(|path| path.is_file()) {
        return Ok(path);
    }
    let place = dir.display().to_string();
    let listing =
        std::fs::read_dir(dir).map_err(|error| Error::read(&place, &error, "check the path and its permissions"))?;
    let mut found: Vec<PathBuf> = listing.filter_map(|item| Some(item.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf")) && path.is_file());
    found.sort();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::new(place, "holds no weights", format!("looked for {} and *.gguf", IN_DIRECTORY.join(", ")))),
        n => Err(Error::new(place, format!("holds {n} GGUF files"), "name the one that is meant")),
    }
}

/// What to do with a file.
pub(crate) enum Kind {
    Index,
    Weights(fn(&Path, Bytes) -> Result<Parsed>),
}

/// Knows a file by its first bytes; the name decides only where the bytes could be anything.
pub(crate) fn kind(path: &Path, bytes: &[u8]) -> Result<Kind> {
    let ends_with = |end: &str| path.to_string_lossy().to_ascii_lowercase().ends_with(end);
    if bytes.starts_with(gguf::MAGIC) {
        Ok(Kind::Weights(gguf::read))
    } else if bytes.starts_with(torch::ZIP_MAGIC) {
        Ok(Kind::Weights(torch::read_zip))
    } else if bytes.starts_with(torch::LEGACY_MAGIC) {
        Ok(Kind::Weights(torch::read_legacy))
    } else if bytes.get(8) == Some(&b'{') && !ends_with(".json") {
        Ok(Kind::Weights(safetensors::read))
    } else if bytes.trim_ascii_start().starts_with(b"{") || ends_with(".json") {
        Ok(Kind::Index)
    } else if ends_with(".safetensors") {
        Ok(Kind::Weights(safetensors::read)) // which says what is wrong with it
    } else {
        Err(unknown(path, bytes))
    }
}

fn unknown(path: &Path, bytes: &[u8]) -> Error {
    let (what, hint) = if bytes.starts_with(b"version https://git-lfs") {
        ("is a git-lfs pointer, not the file it points to".to_owned(), "fetch the file itself with `git lfs pull`")
    } else if bytes.is_empty() {
        ("is empty".to_owned(), crate::cursor::DAMAGED)
    } else {
        let first = &bytes[..bytes.len().min(8)];
        let what = format!("is not a file of weights: it begins with {:?}", String::from_utf8_lossy(first));
        (what, "safetensors, pytorch_model.bin, GGUF and their indices can be read")
    };
    Error::new(path.display().to_string(), what, hint)
}
