//! The engine: a prompt goes in at once, then one token a row at a time; out come the logits of the next token.
//!
//! Keys and values of what was said are kept in a cache with room for everything that may still be said: it is made once and
//! written in place. Prompts of unequal length stand flush right, with padding before them that nobody sees and that takes no
//! position. A model that reads a source reads it once; its cross keys and values are made once, and the beams of a source
//! share them. Searches see only the trait [`Network`], so that a table of numbers can stand in for a model in a test.
//!
//! ```
//! use qkv_decode::{Engine, Network};
//! use qkv_model::{Transformer, presets};
//!
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let prompts = [vec![5, 6, 7], vec![8]]; // of unequal length
//! let mut engine = Engine::causal(&model, &prompts, 4)?; // room for four more tokens
//! assert_eq!((engine.rows(), engine.logits(1).len()), (2, 97));
//! engine.say(&[9, 10])?; // the next token of each row
//! engine.reorder(&[1, 1])?; // both rows go on from the second
//! # Ok::<(), qkv_base::Error>(())
//! ```

use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_kernels::{Ids, Positions};
use qkv_model::{CausalLm, Memory, Seq2Seq, Tokens};
use qkv_nn::{Cache, Cx, Taps, mask};
use std::sync::Arc;

/// What a search needs of a network: rows of tokens that go on one token at a time.
pub trait Network {
    /// V
    fn vocabulary(&self) -> usize;
    /// How many rows there are.
    fn rows(&self) -> usize;
    /// How many more tokens there is room for.
    fn room(&self) -> usize;
    /// The logits of the next token of a row, as of the last time something was said.
    fn logits(&self, row: usize) -> &[f32];
    /// The next token of every row.
    fn say(&mut self, tokens: &[u32]) -> Result<()>;
    /// Row b becomes what row `rows[b]` was; there may be more or fewer rows afterwards. The logits are those from before:
    /// `say` comes next.
    fn reorder(&mut self, rows: &[usize]) -> Result<()>;
    /// What was looked at besides the logits, if [`Look`] asked for it: the last position of a row.
    fn seen(&self, row: usize) -> &[f32];
}

/// What the engine hands out besides logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Look {
    /// nothing: the fast path
    #[default]
    Nothing,
    /// the last hidden state of a row, `[C]`: contrastive search compares them
    Hidden,
    /// the weights with which the last layer looked at the source, mean of the heads, `[Tm]`: coverage
    Source,
}

/// A network with its cache, part of the way through some texts.
pub struct Engine<'m> {
    net: Net<'m>,
    cache: Cache,
    /// places before each row that are padding
    padding: Vec<usize>,
    logits: Vec<f32>,
    vocabulary: usize,
    look: Look,
    seen: Vec<f32>,
    /// the states of the whole prompt `[rows, T, C]`, when hidden states are looked at
    prompt: Vec<f32>,
}

// One of it for each engine: a box would save nothing.
#[allow(clippy::large_enum_variant)]
enum Net<'m> {
    Causal(&'m dyn CausalLm),
    Pair { model: &'m dyn Seq2Seq, memory: Memory },
}

impl<'m> Engine<'m> {
    /// Reads the prompts, and makes room for `more` tokens behind the longest.
    pub fn causal(model: &'m dyn CausalLm, prompts: &[Vec<u32>], more: usize) -> Result<Self> {
        Self::causal_looking(model, prompts, more, Look::Nothing)
    }

    /// The same, handing out more than logits.
    pub fn causal_looking(model: &'m dyn CausalLm, prompts: &[Vec<u32>], more: usize, look: Look) -> Result<Self> {
        check_prompts("prompt", prompts, model.context(), more)?;
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let padding: Vec<usize> = prompts.iter().map(|p| longest - p.len()).collect();
        // Padding is id 0: it is never looked at, and every vocabulary has one.
        let ids: Vec<u32> = prompts
            .iter()
            .zip(&padding)
            .flat_map(|(p, n)| std::iter::repeat_n(0, *n).chain(p.iter().copied()))
            .collect();
        let mut engine = Self::new(Net::Causal(model), longest + more, padding, model.vocabulary(), look);
        engine.pass(ids)?;
        Ok(engine)
    }

    /// Reads the sources, begins every target with `start`, and makes room for `more` tokens behind it.
    pub fn pair(model: &'m dyn Seq2Seq, sources: &[Vec<u32>], start: &[u32], more: usize) -> Result<Self> {
        Self::pair_looking(model, sources, start, more, Look::Nothing)
    }

    /// The same, handing out more than logits.
    pub fn pair_looking(
        model: &'m dyn Seq2Seq,
        sources: &[Vec<u32>],
        start: &[u32],
        more: usize,
        look: Look,
    ) -> Result<Self> {
        check_prompts("source", sources, model.context(), 0)?;
        check_prompts("start of the target", &[start.to_vec()], model.context(), more)?;
        let memory = model.encode(&batch(sources), &mut Cx::eval())?;
        let rows = sources.len();
        let net = Net::Pair { model, memory };
        let mut engine = Self::new(net, start.len() + more, vec![0; rows], model.vocabulary(), look);
        engine.pass(start.repeat(rows))?;
        Ok(engine)
    }

    fn new(net: Net<'m>, capacity: usize, padding: Vec<usize>, vocabulary: usize, look: Look) -> Self {
        let cache = Cache::new(capacity);
        Self { net, cache, padding, logits: vec![], vocabulary, look, seen: vec![], prompt: vec![] }
    }

    /// The states of the prompt of a row, position by position, if hidden states are looked at.
    pub fn prompt_states(&self, row: usize) -> impl Iterator<Item = &[f32]> {
        let each = self.prompt.len() / self.padding.len().max(1);
        let width = self.seen.len() / self.padding.len().max(1);
        let padding = self.padding.get(row).copied().unwrap_or(0);
        self.prompt.chunks(each.max(1)).nth(row).into_iter().flat_map(move |p| p.chunks(width.max(1))).skip(padding)
    }

    /// One pass over some more tokens of each row.
    fn pass(&mut self, ids: Vec<u32>) -> Result<()> {
        let rows = self.padding.len();
        let (held, t) = (self.cache.len(), ids.len() / rows.max(1));
        let mut tokens = Tokens::new(Ids::new(ids, rows));
        let mut taps = Taps::new(
            match self.look {
                Look::Nothing => &[][..],
                Look::Hidden => &["normed", "hidden"],
                Look::Source => &["weights"],
            }
            .iter()
            .copied(),
        );
        let look = self.look;
        let mut cx = Cx::decode(&mut self.cache).last();
        if look != Look::Nothing {
            cx = cx.with_taps(&mut taps);
        }
        if self.padding.iter().any(|n| *n > 0) {
            let real = mask_of(&self.padding, held + t);
            let places = self.padding.iter().flat_map(|n| (held..held + t).map(move |i| i.saturating_sub(*n)));
            cx = cx.with_positions(Positions::Each(places.collect()));
            tokens = tokens.with_padding(real);
        }
        let logits = match &self.net {
            Net::Causal(model) => model.logits(&tokens, &mut cx)?,
            Net::Pair { model, memory } => model.decode(&tokens, memory, &mut cx)?,
        };
        drop(cx);
        self.logits = read(logits)?;
        match look {
            Look::Nothing => {}
            Look::Hidden => self.keep_hidden(&taps, rows, t),
            Look::Source => self.seen = source_weights(&taps, rows),
        }
        Ok(())
    }

    fn keep_hidden(&mut self, taps: &Taps, rows: usize, t: usize) {
        let Some(flat) = last_hidden(taps) else { return };
        let width = flat.len() / (rows * t).max(1);
        self.seen = flat.chunks(t * width).flat_map(|row| row[(t - 1) * width..].iter().copied()).collect();
        if self.prompt.is_empty() {
            self.prompt = flat;
        }
    }
}

impl Network for Engine<'_> {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn rows(&self) -> usize {
        self.padding.len()
    }

    fn room(&self) -> usize {
        self.cache.capacity() - self.cache.len()
    }

    fn logits(&self, row: usize) -> &[f32] {
        self.logits.get(row * self.vocabulary..(row + 1) * self.vocabulary).unwrap_or_default()
    }

    fn say(&mut self, tokens: &[u32]) -> Result<()> {
        if tokens.len() != self.rows() {
            let what = format!("{} tokens for {} rows", tokens.len(), self.rows());
            return Err(Error::new("engine", what, "say one token to each row"));
        }
        self.pass(tokens.to_vec())
    }

    fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        let before = self.rows();
        if let Some(row) = rows.iter().find(|r| **r >= before) {
            return Err(Error::new("engine", format!("there is no row {row} of {before}"), "rows count from 0"));
        }
        self.cache.reorder(rows);
        self.padding = rows.iter().map(|r| self.padding[*r]).collect();
        if let Net::Pair { memory, .. } = &mut self.net {
            let share = before / memory.states.dims()[0].max(1);
            let sources = qkv_nn::cache::sources(rows, share);
            if sources.iter().copied().ne(0..memory.states.dims()[0]) {
                *memory = memory.select(&sources);
            }
        }
        Ok(())
    }

    fn seen(&self, row: usize) -> &[f32] {
        let width = self.seen.len() / self.rows().max(1);
        self.seen.get(row * width..(row + 1) * width).unwrap_or_default()
    }
}

/// Sequences of unequal length as one batch, flush left.
pub fn batch(rows: &[Vec<u32>]) -> Tokens {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let ids: Vec<u32> =
        rows.iter().flat_map(|r| r.iter().copied().chain(std::iter::repeat_n(0, width - r.len()))).collect();
    let tokens = Tokens::new(Ids::new(ids, rows.len()));
    if lengths.iter().all(|n| *n == width) { tokens } else { tokens.with_padding(mask::from_lengths(&lengths, width)) }
}

fn mask_of(padding: &[usize], width: usize) -> Arc<[bool]> {
    padding.iter().flat_map(|n| (0..width).map(move |i| i >= *n)).collect()
}

/// The numbers of a tensor.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    let wrong = |e| Error::new("logits", format!("{e:?}"), "load the model in f32");
    tensor.into_data().try_into_vec::<f32>().map_err(wrong)
}

/// The state that the head answers from: behind the final norm, or of the last layer.
fn last_hidden(taps: &Taps) -> Option<Vec<f32>> {
    let layer = |path: &str| path.split('.').rev().nth(1).and_then(|n| n.parse::<usize>().ok());
    let normed = taps.got().iter().find(|(path, _)| *path == "decoder.normed");
    let last = || taps.got().iter().filter(|(path, _)| path.starts_with("decoder")).max_by_key(|(path, _)| layer(path));
    normed.or_else(last).and_then(|(_, t)| read(t.flat.clone()).ok())
}

/// The last layer's weights over the source, mean of the heads, for the last position of each row: `[rows · Tm]`.
pub(crate) fn source_weights(taps: &Taps, rows: usize) -> Vec<f32> {
    let layer = |path: &str| path.split('.').nth(1).and_then(|n| n.parse::<usize>().ok());
    let cross = taps.got().iter().filter(|(path, _)| path.ends_with("cross.weights"));
    let Some((_, tapped)) = cross.max_by_key(|(path, _)| layer(path)) else { return vec![] };
    let (&[sources, heads, queries, keys], Ok(flat)) = (&tapped.dims[..], read(tapped.flat.clone())) else {
        return vec![];
    };
    let (beams, t) = (rows / sources.max(1), queries * sources / rows.max(1)); // queries = beams · T
    let mut out = vec![0.0; rows * keys];
    for row in 0..rows {
        let query = (row % beams.max(1)) * t + t - 1;
        for h in 0..heads {
            let at = ((row / beams.max(1) * heads + h) * queries + query) * keys;
            let weights = flat.get(at..at + keys).unwrap_or_default();
            out[row * keys..][..keys].iter_mut().zip(weights).for_each(|(sum, w)| *sum += w / heads as f32);
        }
    }
    out
}

fn check_prompts(name: &str, prompts: &[Vec<u32>], context: Option<usize>, more: usize) -> Result<()> {
    if prompts.is_empty() {
        return Err(Error::new(name, "there is none", "give at least one"));
    }
    for (i, prompt) in prompts.iter().enumerate() {
        let place = if prompts.len() == 1 { name.to_string() } else { format!("{name} {}", i + 1) };
        if prompt.is_empty() {
            return Err(Error::new(place, "is empty", "give at least one token, such as the model's start token"));
        }
        if let Some(context) = context
            && prompt.len() + more > context
        {
            let what = match more {
                0 => format!("is {} tokens long, but the model reads at most {context}", prompt.len()),
                _ => format!("its {} tokens and {more} more do not fit into a context of {context}", prompt.len()),
            };
            return Err(Error::new(place, what, "shorten it, or ask for fewer tokens"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_model::{Transformer, presets};

    fn model(name: &str) -> Transformer {
        Transformer::new(&presets::find(name).unwrap().spec(), 3, &Device::flex()).unwrap()
    }

    fn near(a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 2e-5, "{worst}");
    }

    /// Learned, rotary and ALiBi positions alike: what stands beside a prompt and before it changes nothing.
    #[test]
    fn a_batch_of_unequal_prompts_gives_what_each_gives_alone() {
        for name in ["tiny-decoder", "tiny-llama", "tiny-alibi"] {
            let model = model(name);
            let prompts = [vec![5, 6, 7, 8], vec![9], vec![10, 11, 12]];
            let more = [[21u32, 22], [23, 24], [25, 26]];
            let mut all = Engine::causal(&model, &prompts, 2).unwrap();
            let mut each: Vec<Engine> =
                prompts.iter().map(|p| Engine::causal(&model, std::slice::from_ref(p), 2).unwrap()).collect();
            for step in 0..3 {
                (0..3).for_each(|i| near(all.logits(i), each[i].logits(0)));
                if step < 2 {
                    all.say(&more.map(|m| m[step])).unwrap();
                    (0..3).for_each(|i| each[i].say(&[more[i][step]]).unwrap());
                }
            }
            assert_eq!(all.room(), 0);
        }
    }

    #[test]
    fn cached_logits_are_those_of_the_whole_text() {
        let model = model("tiny-llama");
        let text = [5, 6, 7, 8, 9, 10];
        let mut engine = Engine::causal(&model, &[text[..3].to_vec()], 3).unwrap();
        for n in 3..6 {
            engine.say(&[text[n]]).unwrap();
            let whole = Engine::causal(&model, &[text[..=n].to_vec()], 0).unwrap();
            near(engine.logits(0), whole.logits(0));
        }
    }

    #[test]
    fn sources_of_unequal_length_and_their_beams() {
        for name in ["tiny-pair", "tiny-t5"] {
            let model = model(name);
            let sources = [vec![5, 6, 7, 8, 9], vec![10, 11]];
            let mut all = Engine::pair(&model, &sources, &[1], 3).unwrap();
            all.reorder(&[0, 0, 1, 1]).unwrap();
            all.say(&[20, 21, 22, 23]).unwrap();
            all.reorder(&[1, 0, 3, 3]).unwrap();
            all.say(&[30, 31, 32, 33]).unwrap();
            for (row, (source, said)) in [(0, [21, 30]), (0, [20, 31]), (1, [23, 32]), (1, [23, 33])].iter().enumerate()
            {
                let mut one = Engine::pair(&model, &sources[*source..=*source], &[1], 3).unwrap();
                said.iter().for_each(|id| one.say(&[*id]).unwrap());
                near(all.logits(row), one.logits(0));
            }
            all.reorder(&[2]).unwrap(); // the first source is done
            all.say(&[40]).unwrap();
            let mut one = Engine::pair(&model, &sources[1..], &[1], 3).unwrap();
            [23, 32, 40].iter().for_each(|id| one.say(&[*id]).unwrap());
            near(all.logits(0), one.logits(0));
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_counts() {
        let model = model("tiny-decoder");
        let refused =
            |prompts: &[Vec<u32>], more| Engine::causal(&model, prompts, more).err().expect("refused").to_string();
        assert_eq!(refused(&[], 1), "prompt: there is none");
        assert_eq!(refused(&[vec![1], vec![]], 1), "prompt 2: is empty");
        let context = CausalLm::context(&model).unwrap();
        let what = format!("prompt: its 60 tokens and {context} more do not fit into a context of {context}");
        assert_eq!(refused(&[vec![1; 60]], context), what);
        let mut engine = Engine::causal(&model, &[vec![1]], 1).unwrap();
        assert_eq!(engine.say(&[1, 2]).unwrap_err().to_string(), "engine: 2 tokens for 1 rows");
        assert_eq!(engine.reorder(&[1]).unwrap_err().to_string(), "engine: there is no row 1 of 1");
    }
}
