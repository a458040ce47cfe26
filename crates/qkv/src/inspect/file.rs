//! A model on disk: its files and tensors, what its configuration says, its tokenizer. The network is made from the
//! headers alone; the values are read one tensor at a time, and only to see whether each is a number.

use super::Summary;
use super::numbers::{bytes, grouped};
use qkv_base::Result;
use qkv_model::families;
use qkv_model::spec::Spec;
use qkv_tasks::locate;
use qkv_weights::{Checkpoint, Finiteness, Value};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A model on disk.
#[derive(Serialize)]
pub struct OnDisk {
    path: String,
    format: String,
    files: Vec<OneFile>,
    /// how many tensors and bytes there are of each type
    types: BTreeMap<String, (usize, u64)>,
    tensors: Vec<OneTensor>,
    family: Option<&'static str>,
    architecture: Option<String>,
    tokenizer: Option<String>,
    metadata: BTreeMap<String, String>,
    network: Option<Summary>,
    /// why there is no network, where there is none
    trouble: Option<String>,
    /// values that are not finite; none where they were not looked at
    values: Option<Values>,
}

#[derive(Serialize)]
struct Values {
    nan: u64,
    infinite: u64,
    /// the tensors that hold them
    tensors: Vec<(String, u64)>,
    /// the same in words
    #[serde(skip)]
    told: String,
}

/// Files up to this size are read through without being asked: 2 GiB take some seconds.
const READ_THROUGH: u64 = 2 << 30;

/// Looks at every value of a file. A tensor that cannot be read is told by whoever loads it.
fn values(file: &Checkpoint) -> Values {
    let mut seen = Finiteness::default();
    for entry in file.entries() {
        let _ = file.read_f32_counting(&entry.name, &mut seen);
    }
    Values { nan: seen.nan, infinite: seen.infinite, told: seen.to_string(), tensors: seen.tensors }
}

#[derive(Serialize)]
struct OneFile {
    name: String,
    bytes: u64,
}

#[derive(Serialize)]
struct OneTensor {
    name: String,
    shape: Vec<usize>,
    dtype: String,
    bytes: u64,
}

/// The spec that a model on disk says.
pub(super) fn spec(path: &Path) -> Result<Spec> {
    Ok(locate::model(path)?.describe()?.2)
}

/// Looks at a model on disk; `tensors` lists every one, `look` reads every value however many there are.
pub fn file(path: &Path, length: Option<usize>, depth: usize, tensors: bool, look: bool) -> Result<OnDisk> {
    let located = locate::model(path)?;
    let file = Checkpoint::open(located.weights())?;
    let mut types = BTreeMap::new();
    for entry in file.entries() {
        let (n, size) = types.entry(entry.dtype.to_string()).or_insert((0, 0));
        *n += 1;
        *size += entry.bytes;
    }
    let tensor = |e: &qkv_weights::Entry| OneTensor {
        name: e.name.clone(),
        shape: e.shape.clone(),
        dtype: e.dtype.to_string(),
        bytes: e.bytes,
    };
    let bytes = file.files().iter().map(|f| f.bytes).sum::<u64>();
    let mut shown = OnDisk {
        path: located.name().display().to_string(),
        format: file.format().to_string(),
        files: file.files().iter().map(|f| OneFile { name: f.path.display().to_string(), bytes: f.bytes }).collect(),
        types,
        tensors: if tensors { file.entries().iter().map(tensor).collect() } else { vec![] },
        family: None,
        architecture: None,
        tokenizer: qkv_tasks::tokenizer(located.place())
            .ok()
            .map(|t| format!("{} of {} pieces", t.model_name(), grouped(t.vocab_size()))),
        metadata: file.metadata().iter().map(|(k, v)| (k.to_string(), brief(v))).collect(),
        network: None,
        trouble: None,
        values: (look || bytes <= READ_THROUGH).then(|| values(&file)),
    };
    match located.describe() {
        Ok((config, sheet, spec)) => {
            let length = super::of_length(length, &shown.path, &spec)?;
            shown.family = Some(sheet.name);
            shown.architecture = config.architecture().map(str::to_string);
            let about = shown.architecture.clone().unwrap_or_else(|| sheet.name.to_string());
            let about = match families::base_family(&config) {
                Some(base) => format!("{}, which began as {base}: no family of Hugging Face's is like it", sheet.name),
                None => about,
            };
            shown.network = Some(Summary::of(&shown.path, &about, &spec, length, depth)?);
        }
        Err(error) => shown.trouble = Some(error.to_string()),
    }
    Ok(shown)
}

/// A value of the metadata, short enough for a line.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::Array(array) => return format!("{}, {} long", array.kind(), grouped(array.len())),
        Value::String(text) => text.replace('\n', "⏎"),
        Value::Bool(b) => b.to_string(),
        other => other.as_i64().map(|n| n.to_string()).or(other.as_f64().map(|x| x.to_string())).unwrap_or_default(),
    };
    if text.chars().count() > 60 { text.chars().take(57).chain("…".chars()).collect() } else { text }
}

impl OnDisk {
    /// How many parameters the network has, if there is one.
    pub fn parameters(&self) -> Option<u64> {
        self.network.as_ref().map(|network| network.parameters)
    }

    /// The whole page for a person.
    pub fn page(&self, tensors: bool) -> String {
        let mut page = match &self.network {
            Some(report) => report.page() + "\n",
            None => format!("{}\n", self.path),
        };
        if let Some(trouble) = &self.trouble {
            page += &format!("  no network: {trouble}\n");
        }
        page += &format!("\non disk: {}\n", self.format);
        for file in &self.files {
            page += &format!("  {:<14} {}\n", "file", format_args!("{} ({})", file.name, bytes(file.bytes)));
        }
        for (dtype, (n, size)) in &self.types {
            page += &format!("  {:<14} {n} tensors, {}\n", dtype, bytes(*size));
        }
        let told = self.values.as_ref().map_or("not read; --values reads them all", |v| v.told.as_str());
        page += &format!("  {:<14} {told}\n", "values");
        page += &format!("  {:<14} {}\n", "tokenizer", self.tokenizer.as_deref().unwrap_or("none beside the weights"));
        for (key, value) in &self.metadata {
            page += &format!("  {key}: {value}\n");
        }
        if tensors {
            page += "\ntensors:\n";
            for t in &self.tensors {
                page += &format!("  {:<60} {:>6} {:?}\n", t.name, t.dtype, t.shape);
            }
        }
        page.trim_end().to_string()
    }
}
