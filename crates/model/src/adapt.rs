//! Adapting a whole network with LoRA (Hu et al. 2021): small adapters around the layers that were named, everything
//! else frozen; merged into the weights when done, so that the network is as fast as before.
//!
//! A target is the end of a layer's path: `q` means the queries of every attention, `cross.q` those that look at the
//! memory, `decoder.layers.0.ffn.up` one layer. A layer of the head is meant only by its whole path (`head.out`).
//!
//! ```
//! use qkv_model::{Transformer, count, presets};
//! use qkv_nn::LoraSize;
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex().autodiff()).unwrap();
//! let adapted = model.with_lora(&["q", "v"], LoraSize { rank: 4, alpha: 8.0, dropout: 0.0 }, 1).unwrap();
//! let paths: Vec<String> = count::parameters(&adapted).into_iter().map(|p| p.path).collect();
//! assert!(paths.contains(&"decoder.layers.1.attention.v.lora.a".to_string()));
//! ```

use crate::block::Block;
use crate::{Error, Result};
use crate::{Transformer, stack::Stack};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_nn::{Attention, Build, FeedForward, Init, Linear, Lora, LoraBank, LoraSize, MapParam, map_params};
use std::collections::BTreeMap;

/// The adapters of a network by the paths of their layers: small, and without the network they were made for.
#[derive(Clone, Debug)]
pub struct LoraLayers(BTreeMap<String, Lora>);

impl LoraLayers {
    /// Bytes of their numbers.
    pub fn bytes(&self) -> u64 {
        let elements = |p: &Param<Tensor<2>>| p.lazy_shape().num_elements() as u64;
        self.0.values().map(|lora| 4 * (elements(&lora.a) + elements(&lora.b))).sum()
    }
}

impl Transformer {
    /// The same with A of every adapter drawn from a Gaussian of deviation 1/√in, as the paper says; PEFT draws uniformly.
    pub fn with_gaussian_adapters(self, seed: u64) -> Self {
        struct Gaussian(u64);
        impl MapParam for Gaussian {
            fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                if !path.ends_with("lora.a") {
                    return param;
                }
                let shape = param.lazy_shape().dims::<D>();
                let std = (shape[D - 1].max(1) as f64).powf(-0.5);
                let build = Build::new(&param.lazy_device(), self.0);
                build.param(path, shape, Init::Normal { std })
            }
        }
        map_params(self, &mut Gaussian(seed))
    }

    /// The network with a new adapter `(α/r)·B·A` of this size around every linear layer whose path ends in one of
    /// `targets`, and all else frozen. B starts at 0, so at first nothing has changed; A is drawn from `seed`.
    pub fn with_lora(self, targets: &[&str], size: LoraSize, seed: u64) -> Result<Self> {
        if self.spec().recurrence().is_some() {
            let what = "the layers are recurrent: their one projection of the state is used at every step, and a change of low \
                        rank there is a change of everything that is remembered";
            return Err(Error::new("lora", what, "fine-tune all weights: leave --lora out"));
        }
        let mut model = self.no_grad();
        let layers = model.linears();
        check(&layers, targets, size)?;
        for (path, layer) in layers {
            if targets.iter().any(|target| ends_in(&path, target)) {
                let build = Build::new(&layer.weight.lazy_device(), seed).at(&path);
                *layer = Lora::around(layer.clone(), &build, size);
            }
        }
        Ok(model)
    }

    /// The network with every adapter added into the weight it adapts. What was frozen stays frozen.
    pub fn merge_lora(mut self) -> Self {
        for (_, layer) in self.linears() {
            *layer = layer.clone().merge().0;
        }
        self
    }

    /// The adapters around the layers of this network, without the network.
    pub fn lora_layers(mut self) -> Result<LoraLayers> {
        let with = self.linears().into_iter().filter_map(|(path, layer)| Some((path, layer.lora.take()?)));
        let layers: BTreeMap<String, Lora> = with.collect();
        match layers.keys().find(|path| path.starts_with("head.")) {
            Some(path) => {
                let what = format!("`{path}` has an adapter, but the head answers for the last tokens alone");
                Err(Error::new("adapters", what, "merge the adapter: qkv merge MODEL ADAPTER OUT"))
            }
            None => Ok(LoraLayers(layers)),
        }
    }

    /// The network with adapters by number around its layers, of which each row of a batch has its own or none.
    pub fn with_adapters<'a>(mut self, adapters: impl IntoIterator<Item = (u32, &'a LoraLayers)>) -> Result<Self> {
        if self.encoder.is_some() || self.decoder.is_none() || self.spec().recurrence().is_some() {
            let what = "adapters of single rows are for Transformers that read no source";
            return Err(Error::new("adapters", what, "merge the adapter: qkv merge MODEL ADAPTER OUT"));
        }
        let mut banks: BTreeMap<&str, Vec<(u32, Lora)>> = BTreeMap::new();
        for (number, LoraLayers(layers)) in adapters {
            for (path, lora) in layers {
                banks.entry(path).or_default().push((number, lora.clone()));
            }
        }
        for (path, layer) in self.linears() {
            layer.bank = banks.remove(path.as_str()).and_then(LoraBank::new);
        }
        match banks.keys().next() {
            Some(path) => {
                Err(Error::new("adapters", format!("there is no layer `{path}`"), "is it another network's?"))
            }
            None => Ok(self),
        }
    }

    /// Every linear layer with its path, in order.
    pub(crate) fn linears(&mut self) -> Vec<(String, &mut Linear)> {
        let patches = self.patches.iter_mut().map(|p| ("patches.embed.project".to_string(), &mut p.embed.project));
        let encoder = self.encoder.iter_mut().flat_map(|s| of_stack("encoder", s));
        let decoder = self.decoder.iter_mut().flat_map(|s| of_stack("decoder", s));
        let head = [("head.dense", self.head.dense.as_mut()), ("head.out", self.head.out.as_mut())];
        let head = head.into_iter().filter_map(|(path, layer)| Some((path.to_string(), layer?)));
        patches.chain(encoder).chain(decoder).chain(head).collect()
    }
}

fn of_stack<'a>(name: &'a str, stack: &'a mut Stack) -> impl Iterator<Item = (String, &'a mut Linear)> {
    let project = stack.project.iter_mut().map(move |project| (format!("{name}.project"), project));
    let block =
        move |(i, block)| of_block(block).map(move |(path, layer)| (format!("{name}.layers.{i}.{path}"), layer));
    project.chain(stack.layers.iter_mut().enumerate().flat_map(block))
}

fn of_block(block: &mut Block) -> impl Iterator<Item = (String, &mut Linear)> {
    let Block { attention, cross, ffn, .. } = block;
    let within = |part: &'static str| move |(name, layer)| (format!("{part}.{name}"), layer);
    let cross = cross.iter_mut().flat_map(of_attention).map(within("cross"));
    of_attention(attention).into_iter().map(within("attention")).chain(cross).chain(of_ffn(ffn).map(within("ffn")))
}

fn of_attention(Attention { q, k, v, out, .. }: &mut Attention) -> [(&'static str, &mut Linear); 4] {
    [("q", q), ("k", k), ("v", v), ("out", out)]
}

fn of_ffn(FeedForward { up, gate, down, .. }: &mut FeedForward) -> impl Iterator<Item = (&'static str, &mut Linear)> {
    [Some(("up", up)), gate.as_mut().map(|gate| ("gate", gate)), Some(("down", down))].into_iter().flatten()
}

/// Whether `path` is `target`, or ends in it after a dot. A head is often new and then learns whole: it has to be named.
fn ends_in(path: &str, target: &str) -> bool {
    if path.starts_with("head.") {
        return path == target;
    }
    path.strip_suffix(target).is_some_and(|rest| !target.is_empty() && (rest.is_empty() || rest.ends_with('.')))
}

/// Refuses adapters that cannot be, or that nothing would carry.
fn check(layers: &[(String, &mut Linear)], targets: &[&str], size: LoraSize) -> Result<()> {
    let LoraSize { rank, alpha, dropout } = size;
    if rank == 0 {
        return Err(Error::new("lora.rank", "an adapter of rank 0 learns nothing", "use 1 or more, usually 4 to 64"));
    }
    if !(alpha.is_finite() && alpha > 0.0) {
        let what = format!("{alpha} is not a strength of an adapter");
        return Err(Error::new("lora.alpha", what, "use a positive number, usually once or twice the rank"));
    }
    if !(0.0..1.0).contains(&dropout) {
        let what = format!("{dropout} is not a probability of dropping");
        return Err(Error::new("lora.dropout", what, "use 0 up to, but not, 1"));
    }
    let mut names: Vec<&str> = vec![];
    let short = |path: &'_ str| path.rfind('.').filter(|_| !path.starts_with("head.")).map_or(0, |dot| dot + 1);
    for name in layers.iter().map(|(path, _)| &path[short(path)..]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let hint = format!("there are {}", names.join(", "));
    if targets.is_empty() {
        return Err(Error::new("lora.targets", "no layer is named", hint));
    }
    for target in targets {
        if !layers.iter().any(|(path, _)| ends_in(path, target)) {
            return Err(Error::new("lora.targets", format!("no layer's path ends in `{target}`"), hint));
        }
    }
    match layers.iter().find(|(_, layer)| layer.lora.is_some()) {
        Some((path, _)) => {
            Err(Error::new("lora", format!("`{path}` has an adapter already"), "merge the first adapters before"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{count, presets};
    use burn::tensor::Device;

    /// A layer that the walk forgot could never be adapted.
    #[test]
    fn every_matrix_of_every_network_is_a_layer_or_a_table() {
        for preset in presets::ALL.iter().filter(|p| p.name.starts_with("tiny-")) {
            let mut model = Transformer::new(&preset.spec(), 0, &Device::flex()).expect("a valid spec");
            let parameters = count::parameters(&model);
            let layers: Vec<String> = model.linears().into_iter().map(|(path, _)| format!("{path}.weight")).collect();
            for layer in &layers {
                assert!(parameters.iter().any(|p| p.path == *layer), "{}: {layer} is not there", preset.name);
            }
            let table =
                |path: &str| ["tokens", "table", "token_types"].iter().any(|t| path.split('.').any(|n| n == *t));
            for p in parameters.iter().filter(|p| p.shape.len() == 2 && !table(&p.path)) {
                assert!(layers.contains(&p.path), "{}: {} was forgotten", preset.name, p.path);
            }
        }
    }

    #[test]
    fn paths_end_at_dots() {
        assert!(ends_in("decoder.layers.0.attention.q", "q") && ends_in("a.cross.q", "cross.q") && ends_in("q", "q"));
        assert!(ends_in("head.out", "head.out") && !ends_in("head.out", "out"));
        assert!(!ends_in("a.eq", "q") && !ends_in("a.q", "") && !ends_in("a.q", "q.weight"));
    }
}
