//! A checkpoint: a network with its configuration, in and out of the formats that other tools read.
//!
//! Loading walks the family's name table: each tensor of the file is found, checked against the network's shape, turned
//! into our layout and put in its place. What is missing or misshapen is told all at once. Saving walks the same table
//! the other way, so that `save(load(x))` gives the same tensors bit for bit under the same names.

use crate::families::{self, Config, Files, Sheet};
use crate::precision::{Packer, Precision};
use crate::spec::{Head, Spec};
use crate::{Error, Result, Transformer, count};
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use qkv_nn::{MapParam, map_params, walk};
use qkv_weights::{Checkpoint, Dtype, Finiteness, Format, LoadReport, Names, Slot, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A network, its family and its configuration.
#[derive(Clone, Debug)]
pub struct Pretrained {
    /// the network
    pub model: Transformer,
    /// its family
    pub sheet: &'static Sheet,
    /// what the configuration says, unknown keys included
    pub config: Config,
    /// what loading found
    pub report: LoadReport,
}

/// The files beside the weights that make a directory usable elsewhere.
pub const COMPANIONS: &[&str] = &[
    "README.md",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
];

impl Pretrained {
    /// A new network of a family, drawn from `seed`. `known` gives special tokens and labels.
    pub fn new(sheet: &'static Sheet, spec: &Spec, known: Option<&Config>, seed: u64, device: &Device) -> Result<Self> {
        let model = Transformer::new(spec, seed, device)?;
        let own = matches!(spec.head, Head::Language { output: crate::spec::Output::Own, .. });
        let pooled = spec.head == Head::Pool;
        let ends = [own.then_some("lm_head.weight"), pooled.then_some("pooler.dense.weight")];
        let config = sheet.config(spec, known, &Files::new(ends.into_iter().flatten()))?;
        Ok(Self { model, sheet, config, report: LoadReport::default() })
    }

    /// Loads a directory or a file, every parameter as f32: to learn, to be changed or looked into.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::load_with(path, device, 0, |_, _| Ok(()))
    }

    /// Loads to answer: matrices are packed as `precision` says and read in that form. Their parameters are there, and are
    /// written out as f32 only if somebody asks for them.
    pub fn load_packed(path: &Path, device: &Device, precision: Precision) -> Result<Self> {
        Self::load_as(path, device, 0, Some(precision), |_, _| Ok(()))
    }

    /// Loads with a change of the spec: a new head for another task. Parameters of the head that the file does not have,
    /// or not in this size, are drawn from `seed`.
    pub fn load_with(
        path: &Path,
        device: &Device,
        seed: u64,
        change: impl FnOnce(&mut Spec, &mut Config) -> Result<()>,
    ) -> Result<Self> {
        Self::load_as(path, device, seed, None, change)
    }

    /// All of the above.
    fn load_as(
        path: &Path,
        device: &Device,
        seed: u64,
        precision: Option<Precision>,
        change: impl FnOnce(&mut Spec, &mut Config) -> Result<()>,
    ) -> Result<Self> {
        let file = Checkpoint::open(path)?;
        let names = || file.entries().iter().map(|e| e.name.as_str());
        let (config, sheet, dialect) = match file.format() {
            Format::Gguf { .. } => {
                let (config, sheet, dialect) =
                    families::gguf_config(file.metadata(), !names().any(|n| n == "output.weight"))?;
                (config, sheet, Some(dialect))
            }
            _ => {
                let config = families::recognised(Config::load(&config_beside(path))?, names())?;
                let sheet = families::of(&config)?;
                (config, sheet, None)
            }
        };
        let files = Files::new(names());
        let before = (sheet.read)(&config, &files)?;
        let (mut spec, mut known) = (before.clone(), config.clone());
        change(&mut spec, &mut known)?;
        let mut model = Transformer::new(&spec, seed, device)?;
        let packer = precision.map(|precision| Packer::new(&mut model, precision));
        let new_head = spec.head != before.head;
        let config = if new_head || known != config { sheet.config(&spec, Some(&known), &files)? } else { config };
        let table = match dialect {
            Some(dialect) => (dialect.names)(&spec),
            None => (sheet.names)(&spec, &config),
        };
        let (model, report) = import(model, &file, &table, new_head, packer)?;
        let mut report = report.strict(&path.display().to_string())?;
        if !new_head {
            report.warnings.extend(config.contradictions());
        }
        Ok(Self { model, sheet, config, report })
    }

    /// The spec.
    pub fn spec(&self) -> &Spec {
        self.model.spec()
    }

    /// What each tensor of the Hugging Face file holds, in the order of our parameters.
    pub fn slots(&self) -> Result<Vec<Slot>> {
        (self.sheet.names)(self.spec(), &self.config).slots(&count::parameters(&self.model))
    }

    /// Writes `config.json` and the weights as Hugging Face transformers does.
    pub fn save(&self, dir: &Path, dtype: Dtype, max_shard_bytes: u64) -> Result<()> {
        let place = |e: std::io::Error| Error::write(dir.display().to_string(), &e, "is the place writable?");
        std::fs::create_dir_all(dir).map_err(place)?;
        let slots = self.slots()?;
        let values = Values::of(&self.model);
        let tensors: Vec<_> = slots.iter().map(|slot| values.tensor(slot)).collect();
        qkv_weights::save_safetensors(dir, &tensors, dtype, max_shard_bytes)?;
        let mut config = self.config.clone();
        config.set("dtype", torch_word(dtype));
        config.remove("torch_dtype");
        config.remove("quantization_config");
        qkv_weights::write_atomically(&dir.join("config.json"), config.text().as_bytes())
    }

    /// Writes `config.json` and the weights with matrices of eight or four bits: whole numbers under their names, scales beside
    /// them (docs/precision.md). Matrices whose rows are not whole groups of 32 stay f32; how many were rounded is handed back, and
    /// where there are none nothing is written.
    pub fn save_grouped(&self, dir: &Path, precision: Precision, max_shard_bytes: u64) -> Result<usize> {
        let place = |e: std::io::Error| Error::write(dir.display().to_string(), &e, "is the place writable?");
        let (slots, values) = (self.slots()?, Values::of(&self.model));
        let wanted = crate::precision::matrices(&mut self.model.clone());
        let (mut tensors, mut rounded) = (vec![], 0);
        for slot in &slots {
            match crate::precision::grouped(precision, &wanted, slot, &values) {
                Some(parts) => {
                    rounded += 1;
                    tensors.extend(parts);
                }
                None => tensors.push(values.tensor(slot)),
            }
        }
        if rounded == 0 {
            let what = "no matrix of this network has rows of whole groups of 32 numbers";
            return Err(Error::new(dir.display().to_string(), what, "write it as bf16: --dtype bf16"));
        }
        std::fs::create_dir_all(dir).map_err(place)?;
        qkv_weights::save_safetensors(dir, &tensors, Dtype::F32, max_shard_bytes)?;
        let mut config = self.config.clone();
        config.set("dtype", "float32");
        config.remove("torch_dtype");
        let bits = if precision == Precision::Int4 { 4 } else { 8 };
        config.set("quantization_config", serde_json::json!({"quant_method": "qkv", "bits": bits, "group_size": 32}));
        qkv_weights::write_atomically(&dir.join("config.json"), config.text().as_bytes())?;
        Ok(rounded)
    }

    /// Writes a GGUF file; `vocabulary` adds the tokenizer's keys.
    pub fn save_gguf(
        &self,
        path: &Path,
        dtype: Dtype,
        vocabulary: impl FnOnce(&mut qkv_weights::Metadata) -> Result<()>,
    ) -> Result<()> {
        let dialect = families::gguf_dialect(self.sheet)?;
        let mut metadata = families::gguf_metadata(&path.display().to_string(), self.spec(), &self.config, dialect)?;
        vocabulary(&mut metadata)?;
        let slots = (dialect.names)(self.spec()).slots(&count::parameters(&self.model))?;
        let values = Values::of(&self.model);
        let tensors: Vec<_> = slots.iter().map(|slot| values.tensor(slot)).collect();
        qkv_weights::save_gguf(path, &metadata, &tensors, dtype)
    }
}

/// PyTorch's word for a type.
fn torch_word(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "float16",
        Dtype::BF16 => "bfloat16",
        _ => "float32",
    }
}

/// Copies the files that belong to a model beside its weights. Returns which.
pub fn carry(from: &Path, to: &Path) -> Result<Vec<&'static str>> {
    let from = if from.is_dir() { from } else { from.parent().unwrap_or(from) };
    let mut carried = vec![];
    for name in COMPANIONS.iter().copied().filter(|name| from.join(name).is_file()) {
        let target = to.join(name);
        let copy = || {
            target.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::copy(from.join(name), &target)
        };
        copy().map_err(|e| Error::write(target.display().to_string(), &e, "is the place writable?"))?;
        carried.push(name);
    }
    Ok(carried)
}

fn config_beside(path: &Path) -> PathBuf {
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    dir.join("config.json")
}

/// Puts the tensors of a file in their places.
fn import(
    model: Transformer,
    file: &Checkpoint,
    table: &Names,
    new_head: bool,
    mut packer: Option<Packer>,
) -> Result<(Transformer, LoadReport)> {
    let slots = table.slots(&count::parameters(&model))?;
    let shapes: BTreeMap<&str, &[usize]> =
        file.entries().iter().map(|e| (e.name.as_str(), e.shape.as_slice())).collect();
    let found =
        |slot: &Slot| slot.also.iter().find_map(|name| shapes.get_key_value(name.as_str())).map(|(n, s)| (*n, *s));
    let wanted: Vec<Option<(&str, &[usize])>> = slots.iter().map(found).collect();
    let mut report = LoadReport::default();
    let used: BTreeSet<&str> = wanted.iter().flatten().map(|(name, _)| *name).collect();
    for name in shapes.keys().filter(|name| !used.contains(*name)) {
        match table.why_ignored(name) {
            Some(reason) => report.ignored.push((name.to_string(), reason)),
            None => report.unused.push(name.to_string()),
        }
    }
    // First all shapes, then the values: what does not fit is told before anything is read.
    let mut fitting = vec![];
    for (slot, wanted) in slots.iter().zip(&wanted) {
        let is_new = new_head && slot.ours().all(|p| p.path.starts_with("head."));
        match wanted {
            Some((name, shape)) if *shape == slot.shape => fitting.push((slot, *name)),
            _ if is_new => report.fresh.extend(slot.ours().map(|p| p.path.clone())),
            Some((name, shape)) => report.troubles.push(Trouble::Misshapen {
                name: name.to_string(),
                want: slot.shape.clone(),
                got: shape.to_vec(),
            }),
            None => {
                // The first few tell what is wrong; to compare all names with all would take long where nothing fits.
                let near = report.unused.iter().map(String::as_str).filter(|_| report.troubles.len() < 20).take(2000);
                let nearest = qkv_base::nearest(&slot.theirs, near).map(str::to_string);
                report.troubles.push(Trouble::Missing { name: slot.theirs.clone(), nearest });
            }
        }
    }
    let mut values = BTreeMap::new();
    let mut finite = Finiteness::default();
    if !report.troubles.is_empty() {
        return Ok((model, report));
    }
    let needed = |(slot, name): &(&Slot, &str)| match &packer {
        Some(packer) => packer.bytes(slot, file.get(name).map(|entry| entry.dtype)),
        None => slot.shape.iter().map(|n| *n as u64).product::<u64>().saturating_mul(4),
    };
    let needed = fitting.iter().map(needed).fold(0, u64::saturating_add);
    let hint = "close other programs, or use a smaller model";
    qkv_base::memory::ensure(needed, "model", "the weights need", hint)?;
    for (slot, name) in fitting {
        report.loaded += 1;
        if let Some(packer) = &mut packer
            && let Some(elements) = packer.take_blocks(slot, file, name)?
        {
            report.elements += elements;
            file.release(name);
            continue;
        }
        let theirs = file.read_f32_counting(name, &mut finite)?;
        file.release(name);
        report.elements += theirs.len() as u64;
        let parts = if slot.is_plain() { vec![theirs] } else { slot.inward(&theirs) };
        for (parameter, part) in slot.ours().zip(parts) {
            let left = match &mut packer {
                Some(packer) => packer.take(&parameter.path, &parameter.shape, part, file.entry(name)?.dtype)?,
                None => Some(part),
            };
            values.extend(left.map(|part| (parameter.path.clone(), part)));
        }
    }
    if !finite.is_clean() {
        report.warnings.push(finite.to_string());
    }
    report.finite = finite;
    report.warnings.extend(packer.as_ref().and_then(Packer::warning));
    let model = fill(model, values);
    Ok((packer.map_or(model.clone(), |packer| packer.put(model)), report))
}

/// The network with these values in the parameters at these paths; the others stay as they are.
pub fn fill<M: Module>(model: M, values: BTreeMap<String, Vec<f32>>) -> M {
    struct Fill(BTreeMap<String, Vec<f32>>);
    impl MapParam for Fill {
        fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(values) = self.0.remove(path) else { return param };
            let data = TensorData::new(values, param.lazy_shape());
            let (id, tensor) = (param.id, Tensor::from_data(data, &param.lazy_device()));
            param.transform_for_load(tensor, id)
        }
    }
    map_params(model, &mut Fill(values))
}

/// The values of every parameter, by path: handles, not copies.
pub struct Values(BTreeMap<String, Tensor<1>>);

impl Values {
    /// Those of `model`.
    pub fn of<M: Module>(model: &M) -> Self {
        let mut found = BTreeMap::new();
        walk(model, |p| drop(found.insert(p.path().to_string(), p.values())));
        Self(found)
    }

    /// The numbers at `path`.
    pub fn read(&self, path: &str) -> Vec<f32> {
        self.0.get(path).and_then(|t| t.clone().into_data().try_to_vec::<f32>().ok()).unwrap_or_default()
    }

    /// A tensor of theirs, made when it is written.
    fn tensor<'a>(&'a self, slot: &'a Slot) -> qkv_weights::Tensor<'a> {
        qkv_weights::Tensor::made(slot.theirs.clone(), slot.shape.clone(), move || {
            let parts: Vec<Vec<f32>> = slot.ours().map(|p| self.read(&p.path)).collect();
            if slot.is_plain() {
                return Ok(parts.into_iter().next().unwrap_or_default());
            }
            Ok(slot.outward(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
        })
    }
}
