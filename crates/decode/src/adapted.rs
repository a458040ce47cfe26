//! A network with adapters of which each row has its own, put in and taken out between passes.
//!
//! Every adapter has a number that no other ever gets, so that rows and prefixes which were computed with one are never taken for
//! another's. A pass takes the network as it is when it begins; what is put in or taken out counts from the next pass on.

use crate::decoder::{Decoder, PassInput, PassOutput};
use qkv_base::Result;
use qkv_model::Transformer;
use qkv_model::adapt::LoraLayers;
use qkv_nn::RowCache;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A network and its adapters.
pub struct Adapted {
    base: Transformer,
    adapters: Mutex<Numbered>,
    /// the base with all of them around its layers
    network: RwLock<Arc<Transformer>>,
}

/// Adapters by number.
#[derive(Default)]
struct Numbered {
    held: BTreeMap<u32, LoraLayers>,
    next: u32,
}

impl Adapted {
    /// A network without adapters yet.
    pub fn new(base: Transformer) -> Self {
        let network = RwLock::new(Arc::new(base.clone()));
        Self { base, adapters: Mutex::default(), network }
    }

    /// Puts an adapter in; its number.
    pub fn put(&self, layers: LoraLayers) -> Result<u32> {
        let mut adapters = self.adapters();
        let number = adapters.next;
        adapters.held.insert(number, layers);
        if let Err(error) = self.rebuild(&adapters) {
            adapters.held.remove(&number);
            return Err(error);
        }
        adapters.next += 1;
        Ok(number)
    }

    /// Takes an adapter out; no row may be computed with it any more.
    pub fn take(&self, number: u32) {
        let mut adapters = self.adapters();
        adapters.held.remove(&number);
        let _ = self.rebuild(&adapters); // fewer of the adapters that fitted before
    }

    fn adapters(&self) -> MutexGuard<'_, Numbered> {
        self.adapters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rebuild(&self, adapters: &Numbered) -> Result<()> {
        let with = adapters.held.iter().map(|(number, layers)| (*number, layers));
        let network = Arc::new(self.base.clone().with_adapters(with)?);
        *self.network.write().unwrap_or_else(PoisonError::into_inner) = network;
        Ok(())
    }

    fn network(&self) -> Arc<Transformer> {
        self.network.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Decoder for Adapted {
    fn vocabulary(&self) -> usize {
        Decoder::vocabulary(&self.base)
    }
    fn context(&self) -> Option<usize> {
        Decoder::context(&self.base)
    }
    fn adapters(&self) -> usize {
        self.adapters().next as usize
    }
    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> Result<PassOutput> {
        Decoder::forward(&*self.network(), input, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineConfig, Request};
    use qkv_base::Key;
    use qkv_model::{count, presets};
    use qkv_nn::LoraSize;

    fn layers(base: &Transformer, seed: u64) -> LoraLayers {
        let size = LoraSize { rank: 1 + seed as usize, alpha: 8.0, dropout: 0.0 };
        let adapted = base.clone().with_lora(&["q", "down"], size, seed).unwrap();
        let some = count::parameters(&adapted).into_iter().filter(|p| p.path.ends_with("lora.b"));
        let key = Key::new(seed, 1, 0);
        let noise = some.map(|p| (p.path.clone(), key.named(&p.path).normals(p.elements() as usize))).collect();
        qkv_model::pretrained::fill(adapted, noise).lora_layers().unwrap()
    }

    fn say(network: &Arc<Adapted>, adapter: Option<u32>) -> Vec<(u32, u32)> {
        let mut engine = Engine::new(network.clone(), EngineConfig::default());
        let request = Request { max_tokens: 8, adapter, ..Request::new(vec![5, 6, 7]) };
        let found = engine.run(vec![request], &mut |_, _| true).unwrap().remove(0).sequences.remove(0);
        found.ids.iter().copied().zip(found.logprobs.iter().map(|p| p.to_bits())).collect()
    }

    #[test]
    fn who_stays_says_the_same_to_the_bit_whoever_comes_and_goes() {
        let base = Transformer::new(&presets::find("tiny-llama").unwrap().spec(), 3, &burn::tensor::Device::flex());
        let base = base.unwrap();
        let network = Arc::new(Adapted::new(base.clone()));
        let plain = say(&network, None);
        let first = network.put(layers(&base, 1)).unwrap();
        let (own, beside) = (say(&network, Some(first)), say(&network, None));
        assert_eq!(plain, beside, "an adapter changes nothing for rows without one");
        assert_ne!(plain, own);
        let second = network.put(layers(&base, 2)).unwrap();
        assert_eq!(own, say(&network, Some(first)));
        assert_ne!(own, say(&network, Some(second)));
        network.take(first);
        let third = network.put(layers(&base, 1)).unwrap();
        assert_eq!((first, second, third), (0, 1, 2), "no number is given twice");
        assert_eq!(own, say(&network, Some(third)));
        assert_eq!(plain, say(&network, None));
    }
}
