//! Greedy writing, many rows at a time: enough to see a run learn and to score it. The engine and the search are those of
//! decoding: what is judged is what `qkv translate --beam 1` would say.

use burn::module::Module;
use qkv_base::Result;
use qkv_decode::{Ask, Chain, Engine, Pick, search};
use qkv_model::{CausalLm, Seq2Seq, Transformer};

/// What ends a row, and how far one may go.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// the end token
    pub end: u32,
    /// tokens at most
    pub most: usize,
}

/// Writes a target for each source (with its special tokens), beginning with `start`; without its end.
pub fn write(model: &Transformer, sources: &[Vec<u32>], start: u32, until: Until) -> Result<Vec<Vec<u32>>> {
    let model = model.valid();
    // Behind the start there is room for what the network can place, less one.
    let most = Seq2Seq::context(&model).map_or(until.most, |context| until.most.min(context.saturating_sub(1)));
    let mut engine = Engine::pair(&model, sources, &[start], most)?;
    grow(&mut engine, &vec![vec![start]; sources.len()], Some(sources), Until { most, ..until })
}

/// Goes on with one prompt, as far as the network can place it; without the end.
pub fn go_on(model: &Transformer, prompt: &[u32], until: Until) -> Result<Vec<u32>> {
    let model = model.valid();
    let room = CausalLm::context(&model).map_or(until.most, |context| context.saturating_sub(prompt.len()));
    let most = until.most.min(room);
    if prompt.is_empty() || most == 0 {
        return Ok(vec![]);
    }
    let prompts = [prompt.to_vec()];
    let mut engine = Engine::causal(&model, &prompts, most)?;
    Ok(grow(&mut engine, &prompts, None, Until { most, ..until })?.pop().unwrap_or_default())
}

/// Each row goes on with its likeliest token.
fn grow(
    engine: &mut Engine,
    prompts: &[Vec<u32>],
    sources: Option<&[Vec<u32>]>,
    until: Until,
) -> Result<Vec<Vec<u32>>> {
    let (chain, ends) = (Chain { steps: vec![], pick: Pick::Greedy }, [until.end]);
    let ask = Ask { prompts, sources, chain: &chain, ends: &ends, max: until.most, seed: 0, first: 0 };
    let rows = search::sample(engine, &ask, 1, &mut |_| true)?;
    let ids = rows.into_iter().flatten().map(|row| row.ids);
    Ok(ids.map(|ids| ids.into_iter().filter(|id| *id != until.end).collect()).collect())
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
        let got = write(&it.model, &sources, start, Until { end, most }).unwrap();
        let want = list(&generate["greedy"]["sequences"]);
        for (got, want) in got.iter().zip(want) {
            let want: Vec<u32> = want[1..].iter().copied().take_while(|id| *id != end).collect();
            assert_eq!(*got, want);
        }
    }
}
