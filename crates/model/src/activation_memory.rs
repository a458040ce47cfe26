//! What a training pass keeps for its backward, counted from the spec: every kernel keeps its inputs, and no more.
//!
//! For each token, with C the width, `H·D` that of the queries, `G·D` that of keys and values, F that of the
//! feed-forward and V the vocabulary:
//!
//! | part | floats |
//! |---|---|
//! | self-attention | `2C` into and out of the norm, `H·D + 2G·D` queries, keys and values, `H·D` mixed |
//! | cross-attention | `2C + 2H·D`, and `2G·D` for each token of the memory |
//! | feed-forward | `2C`, and `2F` before and behind the activation (`3F` gated) |
//! | norms on queries and keys | `H·D + G·D` before them |
//! | norms behind sub-layers | `C` each |
//! | recurrent layer | `3G·C` projected, opened and their gradient, `S·C` states, `2C` input |
//! | head | `2C`, and its answers: `V` for a language (`2V` with a soft cap), where there is a target; without a soft cap never more of them than a part has ([`part_rows`]) |
//!
//! With blocks run again in the backward, each keeps `C`, and the largest of them is whole at one time.

use crate::spec::{Head, Shape, Spec, Stack};
use qkv_kernels::head_loss::part_rows;
use qkv_nn::{Ffn, Wiring};

/// Tokens of a batch, padding counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchShape {
    /// rows
    pub rows: usize,
    /// tokens that a pair's encoder reads; 0 otherwise
    pub source: usize,
    /// tokens of the stack that answers
    pub target: usize,
    /// those of them that have a target, for which a head that chooses words answers
    pub answered: usize,
}

/// Bytes that are held at the peak of a pass over `batch`, besides weights and their gradients.
pub fn bytes(spec: &Spec, batch: BatchShape, recompute: bool) -> u64 {
    let BatchShape { rows, source, target, answered } = batch;
    let mut blocks: Vec<[usize; 2]> = vec![]; // what a block keeps, and its input alone
    let mut stack = |stack: &Stack, tokens: usize, memory: usize| {
        let whole = block(spec, stack, tokens, memory);
        blocks.extend(std::iter::repeat_n([whole, spec.width * tokens], stack.layers));
    };
    match &spec.shape {
        Shape::Encoder(s) | Shape::Decoder(s) => stack(s, target, 0),
        Shape::Pair { encoder, decoder } => {
            stack(encoder, source, 0);
            stack(decoder, target, source);
        }
    }
    // Before each step every place of the source is met, and the tanh of it is kept.
    let looks = spec.decoder().is_some_and(|s| crate::recurrent::hands(s, crate::spec::Handover::Attention));
    let met = if looks { 3 * spec.width * target * (source / rows.max(1)) } else { 0 };
    let kept: usize = met
        + match recompute {
            false => blocks.iter().map(|[whole, _]| whole).sum(),
            true => {
                blocks.iter().map(|[_, input]| input).sum::<usize>() + blocks.iter().map(|b| b[0]).max().unwrap_or(0)
            }
        };
    // The embeddings before and behind what is added to them; the answers, which become their own gradient.
    let ends = 2 * spec.width * (source + target) + 2 * spec.width * target + answers(spec, rows, target, answered);
    // On the way back, a gradient of the widest layer and of what it read.
    let inner = spec.encoder().into_iter().chain(spec.decoder()).map(|s| s.ffn.inner()).max().unwrap_or(0);
    let back = (2 * inner + 2 * spec.width) * source.max(target);
    4 * (kept + ends + back) as u64
}

fn block(spec: &Spec, stack: &Stack, tokens: usize, memory: usize) -> usize {
    if let Some(cells) = stack.recurrent {
        // The projected input and, for a GRU, the projected state; opened gates; states; and the input itself.
        let (gates, parts) = (cells.cell.gates(), cells.cell.parts());
        // A window is read as so many inputs beside each other.
        if let Some(window) = cells.window {
            return (2 * window + 2) * spec.width * tokens;
        }
        return (2 * gates + gates + parts + 2) * spec.width * tokens;
    }
    let (c, heads) = (spec.width, stack.heads(spec.width));
    let (q, kv) = (heads.heads * heads.dim, heads.kv_heads * heads.dim);
    let normed = if spec.qk_norm.is_some() { q + kv } else { 0 };
    let behind = if spec.wiring == Wiring::Sandwich { 2 * c } else { 0 };
    let attention = 2 * c + 2 * q + 2 * kv + heads.heads + normed + behind;
    let cross = if memory > 0 { (2 * c + 2 * q + heads.heads) * tokens + 2 * kv * memory } else { 0 };
    let ffn = match stack.ffn {
        Ffn::Dense { inner, .. } => 2 * c + 2 * inner,
        Ffn::Gated { inner, .. } => 2 * c + 3 * inner,
    };
    (attention + ffn) * tokens + cross
}

fn answers(spec: &Spec, rows: usize, tokens: usize, answered: usize) -> usize {
    match spec.head {
        Head::Language { .. } if spec.soft_cap.logits.is_some() => 2 * answered * spec.vocabulary().unwrap_or(0),
        Head::Language { .. } | Head::Masked { .. } => {
            let v = spec.vocabulary().unwrap_or(0);
            answered.min(part_rows(v)) * v
        }
        Head::Detect { .. } => tokens * (2 * spec.width + 1),
        Head::Classify { labels, .. } => rows * (labels + 2 * spec.width),
        Head::Tag { labels } => tokens * labels,
        Head::Span => 2 * tokens,
        Head::None | Head::Pool => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    /// GPT-2 small, 4 rows of 1024: by hand.
    #[test]
    fn a_block_is_counted_by_hand() {
        let spec = presets::find("gpt2").expect("a preset").spec();
        let batch = BatchShape { rows: 4, source: 0, target: 4096, answered: 4096 };
        let block = 2 * 768 + 4 * 768 + 12 + 2 * 768 + 2 * 3072;
        let (ends, scores) = (4 * 768, 4 * 512 * 50257);
        let back = 2 * 3072 + 2 * 768;
        assert_eq!(bytes(&spec, batch, false), 4 * 4096 * (12 * block + ends + back) + scores);
        assert_eq!(bytes(&spec, batch, true), 4 * 4096 * (12 * 768 + block + ends + back) + scores);
    }
}
