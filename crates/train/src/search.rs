//! Greedy writing, many rows at a time: enough to see a run learn and to score it. The engine and the search are those of
//! decoding: what is judged is what `qkv translate --beam 1` would say.

use burn::module::Module;
use qkv_base::Result;
use qkv_decode::{Chain, Config, Decoder, Engine, Pick, Request};
use qkv_model::Transformer;
use std::sync::Arc;

/// What ends a row, and how far one may go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// the end token
    pub end: u32,
    /// tokens at most
    pub most: usize,
}

/// Writes a target for each source (with its special tokens), beginning with `start`; without its end.
pub fn write(model: &Transformer, sources: &[Vec<u32>], start: u32, limits: Limits) -> Result<Vec<Vec<u32>>> {
    let request = |source: &Vec<u32>| Request { source: Some(source.clone()), ..Request::new(vec![start]) };
    grow(model, sources.iter().map(request).collect(), limits)
}

/// Goes on with one prompt, as far as the network can place it; without the end.
pub fn go_on(model: &Transformer, prompt: &[u32], limits: Limits) -> Result<Vec<u32>> {
    let full = Decoder::context(model).is_some_and(|context| context <= prompt.len());
    if prompt.is_empty() || limits.most == 0 || full {
        return Ok(vec![]);
    }
    Ok(grow(model, vec![Request::new(prompt.to_vec())], limits)?.pop().unwrap_or_default())
}

/// Each request goes on with its likeliest token, as far as the network can place it.
fn grow(model: &Transformer, requests: Vec<Request>, limits: Limits) -> Result<Vec<Vec<u32>>> {
    let model = model.valid();
    let context = Decoder::context(&model).unwrap_or(usize::MAX);
    let greedy = |request: Request| Request {
        chain: Chain { steps: vec![], pick: Pick::Greedy },
        ends: vec![limits.end],
        max_tokens: limits.most.min(context.saturating_sub(request.prompt.len())),
        ..request
    };
    let mut engine = Engine::new(Arc::new(model), Config::default());
    let found = engine.run(requests.into_iter().map(greedy).collect(), &mut |_, _| true)?;
    let ids = found.into_iter().flat_map(|one| one.sequences).map(|sequence| sequence.ids);
    Ok(ids.map(|ids| ids.into_iter().filter(|id| *id != limits.end).collect()).collect())
}

/// Where the largest number stands; the first of equals.
pub(crate) fn largest(row: &[f32]) -> usize {
    row.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (i, x)| if *x > best.1 { (i, *x) } else { best }).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_model::Pretrained;
    use std::path::Path;

    /// What transformers writes greedily with the same checkpoint.
    #[test]
    fn rows_are_those_of_the_reference() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/marian");
        let reference: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.join("reference.json")).unwrap()).unwrap();
        let list = |v: &serde_json::Value| -> Vec<Vec<u32>> { serde_json::from_value(v.clone()).unwrap() };
        let generate = &reference["generate"];
        let mask = list(&generate["prompt"]["attention_mask"]);
        let ids = list(&generate["prompt"]["input_ids"]);
        let sources: Vec<Vec<u32>> = ids
            .iter()
            .zip(&mask)
            .map(|(row, mask)| row.iter().zip(mask).filter(|(_, m)| **m == 1).map(|(id, _)| *id).collect())
            .collect();
        let it = Pretrained::load(&dir, &Device::flex().autodiff()).unwrap();
        let start = it.config.id("decoder_start_token_id").unwrap();
        let end = it.config.id("eos_token_id").unwrap();
        let most = generate["max_new_tokens"].as_u64().unwrap() as usize;
        let got = write(&it.model, &sources, start, Limits { end, most }).unwrap();
        let want = list(&generate["greedy"]["sequences"]);
        for (got, want) in got.iter().zip(want) {
            let want: Vec<u32> = want[1..].iter().copied().take_while(|id| *id != end).collect();
            assert_eq!(*got, want);
        }
    }
}
