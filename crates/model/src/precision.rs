//! In how many bits a network that only answers keeps its matrices: linear layers and the token table. Everything else (norms,
//! biases, positions, recurrent cells) stays f32; it is small.
//!
//! [`Precision::Stored`] keeps what the file has: f32, bf16 and f16 as they are, the blocks of a GGUF file as they are. Nothing is
//! rounded that was not rounded before. The other precisions round once, when the network is loaded.

use crate::Transformer;
use qkv_base::{Error, Result};
use qkv_kernels::{Float, Quants, Weight};
use qkv_weights::{Checkpoint, Dtype, Slot};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How the matrices of a network are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// as the file has them
    #[default]
    Stored,
    /// four bytes a number
    F32,
    /// the upper half of an f32
    Bf16,
    /// IEEE half
    F16,
    /// eight bits and a scale for each 32
    Int8,
    /// four bits, a scale and a minimum for each 32; the table and the output layer eight bits, which texts depend on most
    Int4,
}

impl Precision {
    /// Every precision with its name.
    pub const ALL: [(&'static str, Self); 6] = [
        ("stored", Self::Stored),
        ("f32", Self::F32),
        ("bf16", Self::Bf16),
        ("f16", Self::F16),
        ("int8", Self::Int8),
        ("int4", Self::Int4),
    ];

    /// Bytes that a number takes at most, for asking whether there is room.
    fn bytes(self, stored: Dtype) -> f64 {
        match self {
            Self::F32 => 4.0,
            Self::Bf16 | Self::F16 => 2.0,
            Self::Int8 | Self::Int4 => 1.125,
            Self::Stored => match stored {
                Dtype::F16 | Dtype::BF16 => 2.0,
                Dtype::I8 | Dtype::U8 => 1.125,
                quantised if quantised.is_quantised() => 1.5,
                _ => 4.0,
            },
        }
    }

    /// What a matrix becomes. `delicate` is the token table or the output layer.
    fn pack(self, values: &[f32], [rows, width]: [usize; 2], stored: Dtype, delicate: bool) -> Weight {
        let plain = |float| Weight::plain(values, rows, width, float);
        match self {
            Self::F32 => plain(Float::F32),
            Self::Bf16 => plain(Float::Bf16),
            Self::F16 => plain(Float::F16),
            // Rows that are not whole groups, or numbers that have no scale: as they are.
            Self::Int8 | Self::Int4 => {
                let grouped = self.quants(values, width, delicate).and_then(|quants| Weight::grouped(quants).ok());
                grouped.unwrap_or_else(|| plain(Float::F32))
            }
            Self::Stored => match stored {
                Dtype::F16 => plain(Float::F16),
                Dtype::BF16 => plain(Float::Bf16),
                _ => plain(Float::F32),
            },
        }
    }
}

impl Precision {
    /// The groups of a matrix in eight or four bits; none where they cannot be made. Eight is what a `delicate` one gets.
    fn quants(self, values: &[f32], width: usize, delicate: bool) -> Option<Quants> {
        match self {
            Self::Int4 if !delicate => Quants::int4(values, width),
            _ => Quants::int8(values, width),
        }
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, precision)| *precision);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            Error::new("weights", format!("there is no precision `{name}`"), format!("one of {names}"))
        })
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let found = Self::ALL.iter().find(|(_, precision)| precision == self);
        f.write_str(found.map_or("stored", |(name, _)| name))
    }
}

/// The matrices of a network, packed while it is loaded.
pub(crate) struct Packer {
    precision: Precision,
    /// the paths of what can be packed
    wanted: Vec<String>,
    packed: BTreeMap<String, Arc<Weight>>,
}

impl Packer {
    /// What a person who asked for fewer bits should know: matrices that could not be rounded to them.
    pub(crate) fn warning(&self) -> Option<String> {
        if !matches!(self.precision, Precision::Int8 | Precision::Int4) {
            return None;
        }
        let kept = self.packed.values().filter(|weight| weight.precision() == "f32").count();
        let (all, precision) = (self.packed.len(), self.precision);
        (kept > 0).then(|| {
            format!(
                "{kept} of {all} matrices stay f32 in {precision}: rows that are not whole groups of 32, or not finite"
            )
        })
    }

    pub(crate) fn new(model: &mut Transformer, precision: Precision) -> Self {
        Self { precision, wanted: matrices(model), packed: BTreeMap::new() }
    }

    fn wants(&self, path: &str) -> bool {
        self.wanted.binary_search_by(|wanted| wanted.as_str().cmp(path)).is_ok()
    }

    /// About how many bytes a tensor will take.
    pub(crate) fn bytes(&self, slot: &Slot, dtype: Option<Dtype>) -> u64 {
        let packed = slot.ours().all(|p| self.wants(&p.path));
        let each = if packed { self.precision.bytes(dtype.unwrap_or(Dtype::F32)) } else { 4.0 };
        (slot.elements() as f64 * each) as u64
    }

    /// Packs a tensor of blocks as it is, where that is wanted and its rows are kept whole; how many numbers it was.
    pub(crate) fn take_blocks(&mut self, slot: &Slot, file: &Checkpoint, name: &str) -> Result<Option<u64>> {
        let dtype = file.entry(name)?.dtype;
        if self.precision != Precision::Stored || !slot.ours().all(|p| self.wants(&p.path)) {
            return Ok(None);
        }
        let Some((quants, turned)) = file.read_quants(name)? else { return Ok(None) };
        let Some(order) = slot.row_order(turned) else { return Ok(None) };
        let elements = quants.quants.len() as u64;
        let whole = order.len() == 1 && order[0].iter().enumerate().all(|(i, row)| i == *row);
        let parts = if whole { vec![quants] } else { order.iter().map(|rows| quants.select(rows)).collect() };
        for (parameter, part) in slot.ours().zip(parts) {
            let weight = Weight::grouped(part).map_err(|what| {
                Error::new(
                    name,
                    format!("as {dtype}: {what}"),
                    "is the file damaged? --weights f32 reads it number by number",
                )
            })?;
            self.packed.insert(parameter.path.clone(), Arc::new(weight));
        }
        Ok(Some(elements))
    }

    /// Packs numbers that have been read, where that is wanted; else they are given back.
    pub(crate) fn take(
        &mut self,
        path: &str,
        shape: &[usize],
        values: Vec<f32>,
        stored: Dtype,
    ) -> Result<Option<Vec<f32>>> {
        let [rows, width] = shape[..] else { return Ok(Some(values)) };
        if !self.wants(path) {
            return Ok(Some(values));
        }
        let beyond = |v: &&f32| v.is_finite() && v.abs() >= F16_END;
        if let (Precision::F16, Some(v)) = (self.precision, values.iter().find(beyond)) {
            let what = format!("holds {v}, and f16 ends at 65,504");
            return Err(Error::new(path, what, "use --weights bf16, which reaches as far as f32"));
        }
        let weight = self.precision.pack(&values, [rows, width], stored, is_delicate(path));
        self.packed.insert(path.to_string(), Arc::new(weight));
        Ok(None)
    }

    /// Puts what was packed in its place.
    pub(crate) fn put(mut self, mut model: Transformer) -> Transformer {
        if let (Some(weight), Some(table)) = (self.packed.remove("tokens.weight"), model.tokens.take()) {
            model.tokens = Some(table.with_packed(weight));
        }
        for (path, layer) in model.linears() {
            if let Some(weight) = self.packed.remove(&format!("{path}.weight")) {
                *layer = layer.clone().with_packed(weight);
            }
        }
        model
    }
}

/// Numbers from here on are rounded to infinity in f16.
const F16_END: f32 = 65_520.0;

/// The network with its matrices packed: what loading does, for one that is in memory already.
pub fn pack(mut model: Transformer, precision: Precision) -> Result<Transformer> {
    let mut packer = Packer::new(&mut model, precision);
    let values = crate::pretrained::Values::of(&model);
    for parameter in crate::count::parameters(&model) {
        if packer.wants(&parameter.path) {
            packer.take(&parameter.path, &parameter.shape, values.read(&parameter.path), Dtype::F32)?;
        }
    }
    drop(values);
    Ok(packer.put(model))
}

/// The tensors of a matrix in eight or four bits, under the name and in the order of the file; `None` where it cannot be: rows that
/// are not whole groups, numbers without a scale, or a parameter that stays f32.
pub(crate) fn grouped<'a>(
    precision: Precision,
    wanted: &[String],
    slot: &Slot,
    values: &crate::pretrained::Values,
) -> Option<Vec<qkv_weights::Tensor<'a>>> {
    let mut ours = slot.ours();
    if !ours.all(|p| wanted.binary_search(&p.path).is_ok()) {
        return None;
    }
    let parts: Vec<Vec<f32>> = slot.ours().map(|p| values.read(&p.path)).collect();
    let width = slot.ours().next()?.shape[1];
    let turned = slot.is_turned();
    // Their order of rows, our direction.
    let rows = match turned {
        true => parts.concat(),
        false => slot.outward(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()),
    };
    let delicate = slot.ours().any(|p| is_delicate(&p.path));
    let quants = precision.quants(&rows, width, delicate)?;
    slot.row_order(turned)?;
    Some(qkv_weights::grouped_tensors(&slot.theirs, &quants, turned))
}

/// The token table and the output layer, which texts depend on most.
fn is_delicate(path: &str) -> bool {
    path == "tokens.weight" || path.starts_with("head.")
}

/// The paths of the matrices that can be packed, sorted.
pub(crate) fn matrices(model: &mut Transformer) -> Vec<String> {
    let mut all: Vec<String> = model.linears().into_iter().map(|(path, _)| format!("{path}.weight")).collect();
    all.extend(model.tokens.is_some().then(|| "tokens.weight".to_string()));
    all.sort();
    all
}

/// The packed weights of a network with their paths.
fn packed(model: &Transformer) -> Vec<(String, Arc<Weight>)> {
    let mut model = model.clone();
    let table = model.tokens.as_ref().and_then(|table| Some(("tokens".to_string(), table.stored.get()?.clone())));
    let layers = model.linears().into_iter().filter_map(|(path, layer)| Some((path, layer.stored.get()?.clone())));
    layers.chain(table).map(|(path, weight)| (format!("{path}.weight"), weight)).collect()
}

/// How many bytes the matrices of each precision take, `[("int4", 71_663_616), …]`: empty for a network that is not packed.
pub fn packed_bytes(model: &Transformer) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for (_, weight) in packed(model) {
        *all.entry(weight.precision()).or_default() += weight.bytes() as u64;
    }
    all
}

/// How many bytes all weights take as they are computed with: what is packed, and four for every other number.
pub fn weight_bytes(model: &Transformer) -> u64 {
    let packed: BTreeMap<String, u64> = packed(model).into_iter().map(|(path, w)| (path, w.bytes() as u64)).collect();
    let each = |p: &crate::count::Parameter| packed.get(&p.path).copied().unwrap_or(4 * p.elements());
    crate::count::parameters(model).iter().map(each).sum()
}
