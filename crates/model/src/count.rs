//! What a network weighs, from its spec alone: parameters of each part, memory, and arithmetic per token. The network is
//! built with lazy parameters and walked, so the numbers are those of the real thing, and nothing is allocated.

use crate::spec::{Handover, Shape, Spec, Stack};
use crate::{Error, Transformer};
use burn::module::Module;
use qkv_nn::{device, walk};

pub use qkv_weights::Parameter;

/// Every parameter of a module, in order, without initialising any.
pub fn parameters<M: Module>(module: &M) -> Vec<Parameter> {
    let mut found = vec![];
    walk(module, |p| found.push(Parameter::new(p.path(), p.shape())));
    found
}

/// The weight of a network.
#[derive(Clone, Debug)]
pub struct Count {
    /// every parameter
    pub parameters: Vec<Parameter>,
    /// floating-point operations to read one source token, at the given length
    pub encode_flops: f64,
    /// floating-point operations to write one token, at the given length
    pub decode_flops: f64,
    /// bytes of key/value cache for each token, in f32
    pub cache_bytes: u64,
    /// bytes of the state that recurrent layers carry, however long the text, in f32
    pub state_bytes: u64,
    /// of all that, in the feed-forwards
    pub ffn_flops: f64,
    /// of all that, in scores and mixtures: what grows with the length, so that a whole text costs N²
    pub square_flops: f64,
}

impl Count {
    /// Counts the network of `spec`, with arithmetic for sequences of `length` tokens.
    pub fn of(spec: &Spec, length: usize) -> Result<Self, Error> {
        let model = Transformer::new(spec, 0, &device::default())?;
        let parameters = parameters(&model);
        let products = |part: &str| -> f64 {
            let inside = |p: &&Parameter| p.path.starts_with(part) && p.path.ends_with(".weight") && is_product(p);
            parameters.iter().filter(inside).map(|p| 2.0 * p.elements() as f64).sum()
        };
        // Scores and mixture: two products of D per head and key; on average a causal query sees half of them.
        let looking = |stack: &Stack, keys: f64| {
            if stack.recurrent.is_some() {
                return 0.0; // what is looked back at is in the state
            }
            let heads = stack.heads(spec.width);
            4.0 * (stack.layers * heads.heads * heads.dim) as f64 * keys
        };
        let keys = |stack: &Stack| {
            let seen = |i| stack.window.of_layer(i).unwrap_or(length).min(length) as f64;
            (0..stack.layers).map(seen).sum::<f64>() / stack.layers.max(1) as f64
        };
        let head = match parameters.iter().any(|p| p.path == "head.out.weight") {
            true => products("head"),
            false
                if spec.vocabulary().is_some()
                    && matches!(spec.head, crate::spec::Head::Language { .. } | crate::spec::Head::Masked { .. }) =>
            {
                products("head") + 2.0 * (spec.table_width() * spec.vocabulary().unwrap_or(0)) as f64
            }
            false => products("head"),
        };
        let encode = spec.encoder().map_or(0.0, |s| products("encoder") + looking(s, length as f64));
        let decode = spec.decoder().map_or(0.0, |s| {
            let cross = match (&spec.shape, s.recurrent.and_then(|cells| cells.handover)) {
                // A sum, a product with v and the mixture, for each place of the source.
                (Shape::Pair { .. }, Some(Handover::Attention)) => 6.0 * (spec.width * length) as f64,
                (Shape::Pair { .. }, None) => looking(s, length as f64),
                _ => 0.0,
            };
            products("decoder") + looking(s, keys(s) / 2.0) + cross
        });
        let with_head = |flops: f64, here: bool| if here { flops + head } else { flops };
        let reads_only = spec.decoder().is_none();
        let state_bytes = spec.recurrence().map_or(0, |(stack, cells)| {
            // A window holds the inputs before the last one.
            let vectors = cells.window.map_or(stack.layers * cells.cell.parts(), |window| window.saturating_sub(1));
            4 * (vectors * spec.width) as u64
        });
        let cache_bytes = spec.decoder().filter(|s| s.recurrent.is_none()).map_or(0, |s| {
            let heads = s.heads(spec.width);
            8 * (s.layers * heads.kv_heads * heads.dim) as u64
        });
        let inside = |p: &&Parameter| p.path.contains(".ffn.") && p.path.ends_with(".weight");
        let ffn_flops = parameters.iter().filter(inside).map(|p| 2.0 * p.elements() as f64).sum();
        let square_flops = spec.encoder().map_or(0.0, |s| looking(s, length as f64))
            + spec.decoder().map_or(0.0, |s| {
                let pair = matches!(spec.shape, Shape::Pair { .. });
                looking(s, keys(s) / 2.0) + if pair { looking(s, length as f64) } else { 0.0 }
            });
        Ok(Self {
            ffn_flops,
            square_flops,
            encode_flops: with_head(encode, reads_only),
            decode_flops: with_head(decode, !reads_only),
            cache_bytes,
            state_bytes,
            parameters,
        })
    }

    /// All parameters.
    pub fn total(&self) -> u64 {
        self.parameters.iter().map(Parameter::elements).sum()
    }

    /// Parameters by the first `depth` names of their path, in order.
    pub fn by_part(&self, depth: usize) -> Vec<(String, u64)> {
        let mut parts: Vec<(String, u64)> = vec![];
        for p in &self.parameters {
            let name = p.path.split('.').take(depth).collect::<Vec<_>>().join(".");
            match parts.last_mut() {
                Some((last, n)) if *last == name => *n += p.elements(),
                _ => parts.push((name, p.elements())),
            }
        }
        parts
    }

    /// Bytes of the weights in f32.
    pub fn weight_bytes(&self) -> u64 {
        4 * self.total()
    }

    /// Bytes of weights, gradients and both moments of AdamW in f32; activations come on top.
    pub fn training_bytes(&self) -> u64 {
        16 * self.total()
    }
}

/// Whether a weight is multiplied with (a table of vectors is only looked up).
fn is_product(p: &Parameter) -> bool {
    p.shape.len() == 2 && !["tokens", "table", "token_types"].iter().any(|t| p.path.split('.').any(|name| name == *t))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    fn millions(name: &str) -> f64 {
        let spec = presets::find(name).expect("a preset").spec();
        Count::of(&spec, 512).expect("a valid spec").total() as f64 / 1e6
    }

    /// The published sizes. GPT-2, T5, LLaMA, ViT, Qwen3, Gemma and ELECTRA are known to the
    /// parameter.
    #[test]
    fn sizes_are_those_of_the_papers() {
        assert_eq!((millions("gpt2") * 1e6).round(), 124_439_808.0);
        assert_eq!((millions("gpt2-xl") * 1e6).round(), 1_557_611_200.0);
        assert_eq!((millions("t5-small") * 1e6).round(), 60_506_624.0);
        assert_eq!((millions("t5-base") * 1e6).round(), 222_903_552.0);
        assert_eq!((millions("llama-7b") * 1e6).round(), 6_738_415_616.0);
        assert_eq!((millions("llama3-8b") * 1e6).round(), 8_030_261_248.0);
        assert_eq!((millions("vit-base") * 1e6).round(), 86_567_656.0);
        assert_eq!((millions("qwen3-0.6b") * 1e6).round(), 596_049_920.0);
        assert_eq!((millions("gemma2-2b") * 1e6).round(), 2_614_341_888.0);
        assert_eq!((millions("gemma3-1b") * 1e6).round(), 999_885_952.0);
        assert_eq!((millions("electra-small") * 1e6).round(), 13_546_682.0);
        assert!((335.0..340.0).contains(&millions("bert-large")), "{}", millions("bert-large"));
        assert!((109.0..111.0).contains(&millions("bert-base")), "{}", millions("bert-base"));
        assert!((174_000.0..176_000.0).contains(&millions("gpt3")), "{}", millions("gpt3"));
        assert!((61.0..67.0).contains(&millions("transformer-base")), "{}", millions("transformer-base"));
        assert!((205.0..218.0).contains(&millions("transformer-big")), "{}", millions("transformer-big"));
    }

    #[test]
    fn parts_add_up() {
        let spec = presets::find("tiny-t5").expect("a preset").spec();
        let count = Count::of(&spec, 64).expect("a valid spec");
        assert_eq!(count.by_part(1).iter().map(|p| p.1).sum::<u64>(), count.total());
        assert_eq!(count.training_bytes(), 4 * count.weight_bytes());
    }

    /// A decoder's arithmetic is close to two operations per parameter that is multiplied with.
    #[test]
    fn two_operations_per_parameter() {
        let count = Count::of(&presets::find("gpt3").expect("a preset").spec(), 1).expect("a valid spec");
        assert!((count.decode_flops / (2.0 * count.total() as f64) - 1.0).abs() < 0.01);
    }
}
