//! Greedy writing, many rows at a time: enough to see a run learn and to score it.
//!
//! Each row takes its likeliest next token until it ends; a row that has ended is fed padding and forgotten.

use burn::module::Module;
use burn::tensor::Tensor;
use qkv_base::Result;
use qkv_kernels::Ids;
use qkv_model::{CausalLm, Seq2Seq, Tokens, Transformer};
use qkv_nn::{Cache, Cx, mask};

/// What ends a row, and how far one may go.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// the end token
    pub end: u32,
    /// what ended rows are filled with
    pub pad: u32,
    /// tokens at most
    pub most: usize,
}

/// Writes a target for each source (with its special tokens), beginning with `start`.
pub fn write(model: &Transformer, sources: &[Vec<u32>], start: u32, until: Until) -> Result<Vec<Vec<u32>>> {
    let model = model.valid();
    let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
    let width = lengths.iter().copied().max().unwrap_or(0);
    let fill = |row: &Vec<u32>| row.iter().copied().chain(std::iter::repeat(until.pad)).take(width).collect::<Vec<_>>();
    let ids = Ids::new(sources.iter().flat_map(fill).collect::<Vec<u32>>(), sources.len());
    let memory = model.encode(&Tokens::new(ids).with_padding(mask::from_lengths(&lengths, width)), &mut Cx::eval())?;
    let mut cache = Cache::new(until.most + 1);
    grow(vec![start; sources.len()], until, |next| {
        model.decode(&Tokens::new(Ids::new(next, sources.len())), &memory, &mut Cx::decode(&mut cache))
    })
}

/// Goes on with one prompt.
pub fn go_on(model: &Transformer, prompt: &[u32], until: Until) -> Result<Vec<u32>> {
    let model = model.valid();
    let mut cache = Cache::new(prompt.len() + until.most + 1);
    let Some((last, before)) = prompt.split_last() else { return Ok(vec![]) };
    if !before.is_empty() {
        model.logits(&Tokens::new(Ids::new(before.to_vec(), 1)), &mut Cx::decode(&mut cache))?;
    }
    let rows =
        grow(vec![*last], until, |next| model.logits(&Tokens::new(Ids::new(next, 1)), &mut Cx::decode(&mut cache)))?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

/// Feeds each row its own likeliest token.
fn grow(
    mut next: Vec<u32>,
    until: Until,
    mut logits: impl FnMut(Vec<u32>) -> Result<Tensor<3>>,
) -> Result<Vec<Vec<u32>>> {
    let mut said: Vec<Vec<u32>> = vec![vec![]; next.len()];
    let mut done = vec![false; next.len()];
    for _ in 0..until.most {
        let scores = logits(next.clone())?;
        for (row, id) in argmax(scores).into_iter().enumerate() {
            done[row] |= id == until.end;
            next[row] = if done[row] { until.pad } else { id };
            if !done[row] {
                said[row].push(id);
            }
        }
        if done.iter().all(|d| *d) {
            break;
        }
    }
    Ok(said)
}

/// The likeliest token of the last place of each row `[B, 1, V]`; the first of equals.
fn argmax(scores: Tensor<3>) -> Vec<u32> {
    let v = scores.dims()[2];
    let values = scores.into_data().try_to_vec::<f32>().unwrap_or_default();
    values.chunks(v.max(1)).map(|row| largest(row) as u32).collect()
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
        let got = write(&it.model, &sources, start, Until { end, pad: 0, most }).unwrap();
        let want = list(&generate["greedy"]["sequences"]);
        for (got, want) in got.iter().zip(want) {
            let want: Vec<u32> = want[1..].iter().copied().take_while(|id| *id != end).collect();
            assert_eq!(*got, want);
        }
    }
}
