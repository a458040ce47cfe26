//! Teacher-forced scoring: how probable a text is that is already there, token by token, in one pass.
//!
//! The product rule of the lecture: `P(y₁ … y_T) = Π P(y_t | y_<t)`, so `log P = Σ log P(y_t | y_<t)`, and
//! `perplexity = e^(−log P / T)`. A text's first token has nothing before it and gets no score unless a start token is given.
//! [`align`] tells, for the same pass, which source tokens each target token looked at.

use crate::decoder::{Decoder, Observe, PassInput, batch, read};
use crate::search::{log_sum, logprob, top_logprobs};
use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_kernels::Ids;
use qkv_model::{CausalLm, Seq2Seq, Tokens};
use qkv_nn::{Cx, RowCache, Taps};
use serde::Serialize;

/// One token and how probable it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenScore {
    /// the token
    pub id: u32,
    /// log P(token | tokens before), natural
    pub logprob: f64,
    /// how many tokens were more probable
    pub rank: usize,
    /// Shannon's entropy of the distribution it was drawn from, in nats
    pub entropy: f64,
}

/// The scores of a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TextScore {
    /// token by token
    pub tokens: Vec<TokenScore>,
    /// Σ log P
    pub logprob: f64,
    /// e^(−mean log P)
    pub perplexity: f64,
}

impl TextScore {
    fn of(tokens: Vec<TokenScore>) -> Self {
        let logprob: f64 = tokens.iter().map(|t| t.logprob).sum();
        let perplexity = (-logprob / tokens.len().max(1) as f64).exp();
        Self { tokens, logprob, perplexity }
    }
}

/// Scores `ids[1..]`, each after those before it.
///
/// ```
/// use qkv_model::{Transformer, presets};
/// let spec = presets::find("tiny-decoder").unwrap().spec();
/// let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
/// let score = qkv_decode::score(&model, &[5, 6, 7])?;
/// assert_eq!(score.tokens.len(), 2); // nothing stands before the first
/// assert!((score.tokens.iter().map(|t| t.logprob).sum::<f64>() - score.logprob).abs() < 1e-12);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn score(model: &dyn CausalLm, ids: &[u32]) -> Result<TextScore> {
    let Some(n) = ids.len().checked_sub(1).filter(|n| *n > 0) else {
        let what = format!("there are {} tokens, and the first has nothing before it", ids.len());
        return Err(Error::new("text", what, "give at least two tokens, or a start token before them"));
    };
    // The last token is not read: nothing follows it. But it must be one of the vocabulary's.
    let [head, last] = [&ids[..n], &ids[n..]];
    outside(last, model.vocabulary(), n)?;
    let logits = model.logits(&Tokens::new(Ids::one(head.to_vec())), &mut Cx::eval())?;
    Ok(TextScore::of(rows(logits, &ids[1..])?))
}

/// A prompt that is scored a chunk at a time, so that neither the logits of all its tokens stand in memory at once nor anybody
/// else waits for the whole of it. Any [`Decoder`] that reads no source can be asked.
///
/// ```
/// use qkv_decode::score::PromptScoring;
/// use qkv_model::{Transformer, presets};
/// let spec = presets::find("tiny-decoder").unwrap().spec();
/// let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
/// let mut scoring = PromptScoring::new(vec![5, 6, 7, 8], 1);
/// while !scoring.is_done() {
///     scoring.advance(&model, 2)?;
/// }
/// let whole = qkv_decode::score(&model, &[5, 6, 7, 8])?;
/// let scored = scoring.finish();
/// assert!(scored.iter().zip(&whole.tokens).all(|(a, b)| (a.logprob as f64 - b.logprob).abs() < 1e-5));
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub struct PromptScoring {
    ids: Vec<u32>,
    top: usize,
    rows: RowCache,
    read: usize,
    scored: Vec<PromptToken>,
}

/// A token of a prompt and how probable it was after those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptToken {
    /// the token
    pub id: u32,
    /// log P(token | tokens before), natural
    pub logprob: f32,
    /// the most probable tokens in its place, best first
    pub top: Vec<(u32, f32)>,
}

impl PromptScoring {
    /// Scores `ids[1..]`, with `top` of the most probable tokens beside each.
    pub fn new(ids: Vec<u32>, top: usize) -> Self {
        let mut rows = RowCache::new(ids.len());
        rows.admit(None);
        Self { ids, top, rows, read: 0, scored: vec![] }
    }

    /// The same, computed with one of the network's adapters.
    pub fn adapted(mut self, adapter: Option<u32>) -> Self {
        if let Some(adapter) = adapter {
            self.rows.adapt(0, adapter);
        }
        self
    }

    /// Whether every token has its score.
    pub fn is_done(&self) -> bool {
        self.read + 1 >= self.ids.len()
    }

    /// Reads up to `chunk` more tokens.
    pub fn advance(&mut self, model: &dyn Decoder, chunk: usize) -> Result<()> {
        let to = (self.read + chunk.max(1)).min(self.ids.len().saturating_sub(1));
        if to <= self.read {
            return Ok(());
        }
        let ids = &self.ids[self.read..to];
        outside(ids, model.vocabulary(), self.read)?;
        outside(&self.ids[to..=to], model.vocabulary(), to)?;
        self.rows.begin_with(&[(0, ids.len())], |_| true);
        let answers: Vec<usize> = (0..ids.len()).collect();
        let input = PassInput { ids, answers: &answers, observe: Observe::default() };
        let output = model.forward(&input, &mut self.rows)?;
        self.rows.advance();
        let next = &self.ids[self.read + 1..];
        for (row, id) in output.logits.chunks_exact(model.vocabulary().max(1)).zip(next) {
            let logprob = logprob(row, *id);
            self.scored.push(PromptToken { id: *id, logprob, top: top_logprobs(row, self.top) });
        }
        self.read = to;
        Ok(())
    }

    /// The scores of all tokens but the first, which has nothing before it.
    pub fn finish(self) -> Vec<PromptToken> {
        self.scored
    }
}

/// Scores `target` after `start`, of a model that reads `source`.
pub fn score_pair(model: &dyn Seq2Seq, source: &[u32], start: &[u32], target: &[u32]) -> Result<TextScore> {
    let (logits, _) = forced(model, source, start, target, &mut Cx::eval())?;
    Ok(TextScore::of(rows(logits, target)?))
}

/// For each token of `target`, how much the last layer looked at each token of `source` when it said it (mean of the heads):
/// `[target][source]`, rows that sum to 1.
pub fn align(model: &dyn Seq2Seq, source: &[u32], start: &[u32], target: &[u32]) -> Result<Vec<Vec<f32>>> {
    let mut taps = Taps::new(["weights"]);
    let (_, from) = forced(model, source, start, target, &mut Cx::eval().with_taps(&mut taps))?;
    let layer = |path: &str| path.split('.').nth(1).and_then(|n| n.parse::<usize>().ok());
    let cross = taps.got().iter().filter(|(path, _)| path.ends_with("cross.weights"));
    let Some((_, tapped)) = cross.max_by_key(|(path, _)| layer(path)) else {
        return Err(Error::new(
            "alignments",
            "this model has no cross-attention",
            "choose a model that reads a source",
        ));
    };
    let (flat, heads, keys) = (read(tapped.flat.clone())?, tapped.dims[1], source.len());
    let queries = tapped.dims[2];
    let mean = |t: usize| {
        let mut row = vec![0.0; keys];
        for h in 0..heads {
            let weights = &flat[(h * queries + t) * keys..][..keys];
            row.iter_mut().zip(weights).for_each(|(sum, w)| *sum += w / heads as f32);
        }
        row
    };
    Ok((from..from + target.len()).map(mean).collect())
}

/// The hard alignment: for each target token the source token that was looked at most, as `(source, target)` pairs.
pub fn hard(soft: &[Vec<f32>]) -> Vec<(usize, usize)> {
    let most = |row: &[f32]| (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a });
    soft.iter().enumerate().filter_map(|(t, row)| most(row).map(|s| (s, t))).collect()
}

/// Logits of a whole target, and the row of its first token.
fn forced(
    model: &dyn Seq2Seq,
    source: &[u32],
    start: &[u32],
    target: &[u32],
    cx: &mut Cx,
) -> Result<(Tensor<3>, usize)> {
    let empty = |name: &str, ids: &[u32]| match ids.is_empty() {
        true => Err(Error::new(name, "is empty", "give at least one token")),
        false => Ok(()),
    };
    empty("source", source)?;
    empty("start of the target", start)?;
    empty("target", target)?;
    outside(&target[target.len() - 1..], model.vocabulary(), target.len() - 1)?;
    let memory = model.encode(&batch(&[source.to_vec()]), &mut Cx::eval())?;
    let ids: Vec<u32> = start.iter().chain(&target[..target.len() - 1]).copied().collect();
    let logits = model.decode(&Tokens::new(Ids::one(ids)), &memory, cx)?;
    Ok((logits, start.len() - 1))
}

fn outside(ids: &[u32], vocabulary: usize, at: usize) -> Result<()> {
    match ids.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => {
            let what = format!("id {id} in row 0, column {at} is outside the vocabulary of {vocabulary}");
            Err(Error::new("tokens", what, "were the ids made by this model's own tokenizer?"))
        }
        None => Ok(()),
    }
}

/// The score of each of `ids` under the last rows of `logits` `[1, T, V]`.
fn rows(logits: Tensor<3>, ids: &[u32]) -> Result<Vec<TokenScore>> {
    let [_, t, v] = logits.dims();
    let flat = read(logits)?;
    let from = t - ids.len();
    let one = |(row, &id): (&[f32], &u32)| {
        let sum = log_sum(row);
        let logit = row[id as usize];
        let entropy =
            -row.iter().map(|x| *x as f64 - sum).map(|p| if p.is_finite() { p * p.exp() } else { 0.0 }).sum::<f64>();
        let rank = row.iter().filter(|x| **x > logit).count();
        TokenScore { id, logprob: logit as f64 - sum, rank, entropy: entropy.max(0.0) }
    };
    Ok(flat[from * v..].chunks_exact(v).zip(ids).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineConfig, Request};
    use burn::tensor::Device;
    use qkv_model::{Transformer, presets};
    use std::sync::Arc;

    fn model(name: &str) -> Transformer {
        Transformer::new(&presets::find(name).unwrap().spec(), 3, &Device::flex()).unwrap()
    }

    /// What sampling says it said, scoring says too.
    #[test]
    fn the_score_of_what_was_said_is_what_saying_it_gave() {
        let (model, prompt) = (model("tiny-llama"), vec![5, 6, 7]);
        let mut engine = Engine::new(Arc::new(model.clone()), EngineConfig::default());
        let request = Request { max_tokens: 9, seed: 1, ..Request::new(prompt.clone()) };
        let said = &engine.run(vec![request], &mut |_, _| true).unwrap()[0].sequences[0];
        let whole: Vec<u32> = prompt.iter().chain(&said.ids).copied().collect();
        let scores = score(&model, &whole).unwrap();
        for (a, b) in scores.tokens[2..].iter().zip(&said.logprobs) {
            assert!((a.logprob - *b as f64).abs() < 1e-4);
        }
        assert!((scores.perplexity - (-scores.logprob / 11.0).exp()).abs() < 1e-9);
    }

    #[test]
    fn alignments_sum_to_one_and_point_at_the_most_looked_at() {
        let model = model("tiny-pair");
        let soft = align(&model, &[5, 6, 7], &[1], &[8, 9]).unwrap();
        assert!(soft.len() == 2 && soft.iter().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5));
        assert_eq!(hard(&[vec![0.1, 0.9], vec![0.5, 0.5]]), [(1, 0), (0, 1)]);
        let scores = score_pair(&model, &[5, 6, 7], &[1], &[8, 9]).unwrap();
        assert_eq!(scores.tokens.len(), 2);
        assert!(scores.tokens.iter().all(|t| t.entropy > 0.0 && t.logprob < 0.0 && t.rank < 97));
    }

    #[test]
    fn refusals() {
        let model = model("tiny-decoder");
        assert_eq!(
            score(&model, &[5]).unwrap_err().to_string(),
            "text: there are 1 tokens, and the first has nothing before it"
        );
        assert!(score(&model, &[5, 99]).unwrap_err().to_string().contains("id 99"));
        assert!(score(&model, &[99, 5]).unwrap_err().to_string().contains("id 99"));
    }
}
