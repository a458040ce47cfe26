//! Several LoRA adapters around one layer, each for the rows of a batch that name it: `y = x·W₀ᵀ + Σ over adapters of their rows`.
//!
//! The base product is computed once for all rows; the low-rank part of each adapter for its own rows alone, which are taken out
//! and put back. So a row's answer depends on its own adapter alone, to the bit: neither on who stands beside it nor on which
//! other adapters there are, and rows without one are exactly the base's.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Adapting, Build, Init, Linear, Lora, LoraBank, LoraSize};
//! let (device, build) = (Device::flex(), Build::new(&Device::flex(), 3));
//! let base = Linear::new(&build, 4, 4, true, Init::Xavier);
//! let mut adapted = Lora::around(base.clone(), &build, LoraSize { rank: 2, alpha: 4.0, dropout: 0.0 });
//! adapted.lora.as_mut().unwrap().b = build.param("b", [4, 2], Init::Ones);
//! let bank = LoraBank::new(vec![(7, adapted.lora.clone().unwrap())]).unwrap();
//! let both = Linear { bank: Some(bank), ..base.clone() };
//! let x = Tensor::<2>::ones([2, 4], &device);
//! let mixed = both.activated(x.clone(), None, Adapting::rows([7, Adapting::NONE].into()));
//! assert_eq!(mixed.narrow(0, 1, 1).into_data(), base.forward(x.narrow(0, 1, 1)).into_data());
//! ```

use crate::Lora;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use qkv_kernels::{Key, ProductPrecision};
use std::sync::Arc;

/// What a linear layer and its adapters need to know of a pass.
#[derive(Clone, Debug, Default)]
pub struct Adapting {
    /// what an adapter's dropout draws from, while it learns
    pub noise: Option<Key>,
    /// the adapter of each token, where there are several to choose from
    pub rows: Option<Arc<[u32]>>,
    /// what the factors of the layer's own products are rounded to; adapters, which are thin, round nothing
    pub products: ProductPrecision,
}

impl Adapting {
    /// The number of no adapter.
    pub const NONE: u32 = u32::MAX;

    /// Nothing random, and the adapter of each token.
    pub fn rows(rows: Arc<[u32]>) -> Self {
        Self { rows: Some(rows), ..Self::default() }
    }
}

impl From<Option<Key>> for Adapting {
    fn from(noise: Option<Key>) -> Self {
        Self { noise, ..Self::default() }
    }
}

/// Several adapters of one layer.
#[derive(Module, Debug)]
pub struct LoraBank {
    adapters: Vec<Lora>,
    /// the number of each
    #[module(skip)]
    numbers: Vec<u32>,
}

impl LoraBank {
    /// Adapters by their numbers; none, if there are none.
    pub fn new(adapters: Vec<(u32, Lora)>) -> Option<Self> {
        let (numbers, adapters): (Vec<u32>, Vec<Lora>) =
            adapters.into_iter().map(|(number, lora)| (number, lora.frozen())).unzip();
        (!numbers.is_empty()).then_some(Self { adapters, numbers })
    }

    /// What the adapters add to the layer's answer `[…, N, out]`; `rows` has the adapter of each token of `x` `[…, N, in]`.
    pub(crate) fn delta<const D: usize>(&self, x: Tensor<D>, rows: &[u32], out: usize) -> Tensor<D> {
        let (device, mut dims) = (x.device(), x.dims());
        let (width, tokens) = (dims[D - 1], dims[..D - 1].iter().product::<usize>());
        assert_eq!(tokens, rows.len(), "an adapter for each token of the pass");
        dims[D - 1] = out;
        let x = x.reshape([tokens, width]);
        // Tokens in the order of their adapters, and those without one behind them; then back to where they were.
        let (mut parts, mut order) = (vec![], Vec::with_capacity(tokens));
        for (number, lora) in self.numbers.iter().zip(&self.adapters) {
            let mine: Vec<usize> = (0..tokens).filter(|token| rows[*token] == *number).collect();
            match mine.len() {
                0 => {}
                n if n == tokens => return lora.delta(x, None).reshape(dims),
                _ => parts.push(lora.delta(x.clone().select(0, index(&mine, &device)), None)),
            }
            order.extend(mine);
        }
        let others: Vec<usize> = (0..tokens).filter(|token| !self.numbers.contains(&rows[*token])).collect();
        if !others.is_empty() {
            parts.push(Tensor::zeros([others.len(), out], &device));
        }
        order.extend(others);
        let mut back = vec![0; tokens];
        order.iter().enumerate().for_each(|(at, token)| back[*token] = at);
        Tensor::cat(parts, 0).select(0, index(&back, &device)).reshape(dims)
    }
}

fn index(places: &[usize], device: &Device) -> Tensor<1, Int> {
    let (n, places) = (places.len(), places.iter().map(|place| *place as i32).collect::<Vec<_>>());
    Tensor::from_data(TensorData::new(places, [n]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::packed;
    use crate::{Build, Init, Linear, LoraSize};
    use burn::tensor::Device;
    use qkv_kernels::Activation;
    use qkv_testkit::{max_diff, values};

    /// Each row of a mixed batch is what its adapter alone gives, and rows without one are the base's to the bit.
    #[test]
    fn a_mixed_batch_is_its_rows() {
        let build = Build::new(&Device::flex(), 5);
        let layer = |name: &str, rank: usize, alpha: f64| {
            let build = build.at(name);
            let base = Linear::new(&Build::new(&Device::flex(), 9), 6, 5, true, Init::Xavier);
            let mut one = Lora::around(base, &build, LoraSize { rank, alpha, dropout: 0.0 });
            if let Some(lora) = &mut one.lora {
                lora.b = build.param("trained", [5, rank], Init::Normal { std: 0.3 });
            }
            one
        };
        let (first, second) = (layer("first", 2, 4.0), layer("second", 3, 9.0));
        let base = Linear { lora: None, ..first.clone() };
        let of = |layer: &Linear| layer.lora.clone().expect("an adapter");
        let bank = LoraBank::new(vec![(0, of(&first)), (1, of(&second))]);
        let mixed = Linear { bank, ..base.clone() };
        let x = build.param("x", [1, 4, 6], Init::Normal { std: 1.0 }).val();
        let rows: Arc<[u32]> = [1, Adapting::NONE, 0, 1].into();
        for act in [None, Some(Activation::Relu)] {
            let all = mixed.activated(x.clone(), act, Adapting::rows(rows.clone()));
            for (i, alone) in [&second, &base, &first, &second].into_iter().enumerate() {
                let row = |t: Tensor<3>| values(t.narrow(1, i, 1));
                let want = row(alone.activated(x.clone(), act, Adapting::default()));
                let diff = max_diff(&row(all.clone()), &want);
                assert!(diff < 1e-5 && (i != 1 || diff == 0.0), "row {i}: {diff}");
                // And alone in the pass it is the same to the bit.
                let one = mixed.activated(x.clone().narrow(1, i, 1), act, Adapting::rows([rows[i]].into()));
                assert_eq!(values(one), row(all.clone()), "row {i}");
                // So it is with a third adapter there, and in another place among them.
                let third = layer("third", 4, 1.0);
                let bank = LoraBank::new(vec![(5, of(&third)), (1, of(&second)), (0, of(&first))]);
                let more = Linear { bank, ..base.clone() };
                let one = more.activated(x.clone(), act, Adapting::rows(rows.clone()));
                assert_eq!(row(one), row(all.clone()), "row {i} among three");
            }
        }
        // Side by side with a layer that has no adapters.
        let two = packed(x.clone(), &[&mixed, &base], None, Adapting::rows(rows));
        assert_eq!(values(two.narrow(2, 5, 5)), values(base.forward(x)));
    }
}
