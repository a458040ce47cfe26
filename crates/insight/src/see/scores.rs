//! How one score came about: the query and the keys of a head, feature by feature, their dot products, what is added and
//! how they are scaled, and the weights that softmax makes of them. Everything is read off a real pass.

use super::given::Given;
use super::look::numbers;
use qkv_base::{Error, Result};
use qkv_kernels::Ids;
use qkv_model::{CausalLm, Encoder, Seq2Seq, Tokens};
use qkv_nn::{Cx, Taps};
use qkv_tasks::TextModel;

/// One row of one head.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// `[D]`
    pub query: Vec<f64>,
    /// `[Tk, D]`
    pub keys: Vec<Vec<f64>>,
    /// `q·k`
    pub dots: Vec<f64>,
    /// what they are multiplied by
    pub scale: f64,
    /// what is added for the distance, where the family does
    pub bias: Option<Vec<f64>>,
    /// scaled (and capped), with the bias, −∞ where the mask hides
    pub scores: Vec<f64>,
    /// as the network computed them
    pub weights: Vec<f64>,
}

/// The row `row` of a head, of the maps called `kind` (`attention`, `encoder`, `decoder`, `cross`).
pub fn scores(model: &TextModel, given: &Given, kind: &str, layer: usize, head: usize, row: usize) -> Result<Scores> {
    let mut taps = Taps::new(["query", "key", "bias", "weights"]);
    run(model, given, &mut Cx::eval().with_taps(&mut taps))?;
    let network = &model.network.model;
    let decoder = matches!(kind, "decoder" | "cross") || (kind == "attention" && network.decoder.is_some());
    let (side, part) =
        (if decoder { "decoder" } else { "encoder" }, if kind == "cross" { "cross" } else { "attention" });
    let stack = if decoder { &network.decoder } else { &network.encoder };
    let block = stack.as_ref().and_then(|s| s.layers.get(layer));
    let attention = block.and_then(|b| if part == "cross" { b.cross.as_ref() } else { Some(&b.attention) });
    let none = || {
        Error::new(
            format!("--layer {layer}"),
            format!("this model has no {kind} there"),
            "`qkv inspect MODEL` shows its layers",
        )
    };
    let attention = attention.ok_or_else(none)?;
    let path = |name: &str| format!("{side}.{layer}.{part}.{name}");
    let tensor = |name: &str| taps.get::<4>(&path(name)).ok_or_else(none);
    let (q, k, w) = (tensor("query")?, tensor("key")?, tensor("weights")?);
    let ([_, h, tq, d], [_, g, tk, _]) = (q.dims(), k.dims());
    for (what, i, n) in [("head", head, h), ("row", row, tq)] {
        if i >= n {
            return Err(Error::new(
                format!("--{what} {i}"),
                format!("there are {n}, counted from 0"),
                format!("give 0 to {}", n - 1),
            ));
        }
    }
    let wide = |values: Vec<f32>| values.into_iter().map(f64::from).collect::<Vec<f64>>();
    let query = wide(numbers(q.narrow(1, head, 1).narrow(2, row, 1))?);
    // With grouped queries several query heads share one head of keys.
    let keys: Vec<Vec<f64>> =
        wide(numbers(k.narrow(1, head / (h / g.max(1)).max(1), 1))?).chunks(d).map(<[f64]>::to_vec).collect();
    let weights = wide(numbers(w.narrow(1, head, 1).narrow(2, row, 1))?);
    let bias = match taps.get::<4>(&path("bias")) {
        Some(bias) => {
            let [_, bh, bt, _] = bias.dims();
            Some(wide(numbers(bias.narrow(1, head.min(bh - 1), 1).narrow(2, row.min(bt - 1), 1))?))
        }
        None => None,
    };
    let scale = f64::from(attention.scale());
    let dots: Vec<f64> = keys.iter().map(|k| crate::arithmetic::dot(&query, k)).collect();
    let cap = |s: f64| attention.soft_cap().map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh());
    let score = |j: usize| {
        let s = cap(dots[j] * scale) + bias.as_ref().and_then(|b| b.get(j)).copied().unwrap_or(0.0);
        if weights[j] == 0.0 { f64::NEG_INFINITY } else { s }
    };
    let scores = (0..tk).map(score).collect();
    Ok(Scores { query, keys, dots, scale, bias, scores, weights })
}

fn run(model: &TextModel, given: &Given, cx: &mut Cx) -> Result<()> {
    let network = &model.network.model;
    let tokens = |ids: &[u32]| Tokens::new(Ids::one(ids.to_vec()));
    match given {
        Given::Tokens { ids, types } => {
            let mut read = tokens(ids);
            if let Some(types) = types {
                read = read.with_token_types(Ids::one(types.clone()));
            }
            match network.decoder.is_some() {
                true => network.logits(&read, cx)?,
                false => network.answer(&read, cx)?,
            };
        }
        Given::Pair { source, input, .. } => {
            let memory = network.encode(&tokens(source), cx)?;
            network.decode(&tokens(input), &memory, cx)?;
        }
        Given::Picture { pixels, size, channels, .. } => {
            network.answer_image(super::given::pixels(pixels, *channels, *size, &network.device()), cx)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::see::Ask;
    use std::path::Path;

    /// For every family: the softmax of what is shown is the weight that the network computed.
    #[test]
    fn scores_explain_the_weights_of_every_family() {
        let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
        for name in ["gpt2", "llama", "qwen3", "gemma2", "gemma3", "bert-mlm", "electra-mlm", "t5", "bart", "marian"] {
            let model = TextModel::load(&tiny.join(name)).unwrap();
            let target = model.is_pair().then(|| Ask::Ids(vec![31, 8, 77]));
            let given = Given::new(&model, &Ask::Ids(vec![5, 17, 23, 42, 9]), target.as_ref()).unwrap();
            let kinds: &[&str] = if model.is_pair() { &["encoder", "cross", "decoder"] } else { &["attention"] };
            for kind in kinds {
                let found = scores(&model, &given, kind, 1, 2, 2).unwrap();
                let again = crate::arithmetic::softmax(&found.scores);
                let worst = again.iter().zip(&found.weights).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-5, "{name} {kind}: {worst}");
            }
            assert!(scores(&model, &given, kinds[0], 1, 99, 0).unwrap_err().place.contains("--head 99"));
        }
    }
}
