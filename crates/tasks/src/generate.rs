//! Writing: from prompts (or sources) to texts, by one request whatever the search. Text is told as it becomes certain.

use crate::TextModel;
use crate::batches::interrupted;
use qkv_base::{Error, Result};
use qkv_decode::search::{self, Beam, Contrastive, Said1, Sequence, Tree};
use qkv_decode::trace::Trace;
use qkv_decode::{Ask, Chain, End, Engine, Look, Network, Pick, StopText, align, hard};
use qkv_model::{CausalLm, Seq2Seq};
use qkv_text::{StreamDecoder, Tokenizer};
use serde::Serialize;

/// What is asked for.
pub struct Generation<'a> {
    /// who writes
    pub model: &'a TextModel,
    /// what bends each row of logits
    pub chain: Chain,
    /// how a text is found
    pub search: Search,
    /// the most tokens, if a number was given
    pub max_tokens: Option<usize>,
    /// the most tokens where nothing else says it
    pub otherwise: usize,
    /// decides what is random
    pub seed: u64,
    /// texts that end an answer and are not said
    pub stops: Vec<String>,
    /// whether to keep what every step did
    pub traced: bool,
}

/// Which search.
#[derive(Clone, Debug)]
pub enum Search {
    /// token by token, as the chain picks; several of each prompt
    Sample {
        /// how many of each prompt
        n: usize,
    },
    /// the best continuations side by side
    Beam(Beam),
    /// of the most probable tokens the one least like what was said
    Contrastive(Contrastive),
}

/// What the search did.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Traced {
    /// every step of the chain
    Chain(Trace),
    /// the tree of a beam
    Tree(Tree),
}

/// One text that was written.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// its tokens, without the prompt
    pub ids: Vec<u32>,
    /// the text; none without a tokenizer
    pub text: Option<String>,
    /// how good the search thinks it is
    pub score: f64,
    /// log P of all its tokens
    pub logprob: f64,
    /// why it ended
    pub end: End,
    /// log P of each token
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<f32>>,
    /// which source tokens it looked at
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
}

/// Which source tokens a text looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Alignment {
    /// `[target][source]`
    pub soft: Vec<Vec<f32>>,
    /// `[source, target]` pairs
    pub hard: Vec<(usize, usize)>,
}

/// Told text as it becomes certain: the number of the prompt, of the continuation, and the text.
pub type Hear<'a> = &'a mut dyn FnMut(usize, usize, &str) -> Result<()>;

/// Text as it becomes certain, of one continuation.
struct Voice<'a> {
    tokenizer: Option<&'a Tokenizer>,
    stream: Option<StreamDecoder<'a>>,
    stop: StopText,
    text: String,
}

impl<'a> Generation<'a> {
    /// The most probable continuation, token by token.
    pub fn greedy(model: &'a TextModel) -> Result<Self> {
        Self::by(model, Chain { steps: vec![], pick: Pick::Greedy }, Search::Sample { n: 1 })
    }

    /// A request with this chain and search.
    pub fn by(model: &'a TextModel, chain: Chain, search: Search) -> Result<Self> {
        if model.spec().decoder().is_none() {
            let hint = "choose a language or translation model, such as gpt2, llama, t5, bart or marian";
            return Err(Error::new(
                model.path.display().to_string(),
                "this model has no decoder and writes nothing",
                hint,
            ));
        }
        chain.check(CausalLm::vocabulary(&model.network.model))?;
        let (max_tokens, otherwise, seed) = (None, 128, 0);
        Ok(Self { model, chain, search, max_tokens, otherwise, seed, stops: vec![], traced: false })
    }

    fn voices(&self, n: usize) -> Vec<Voice<'a>> {
        let new = || Voice {
            tokenizer: self.model.maybe_tokenizer(),
            stream: self.model.maybe_tokenizer().map(|t| StreamDecoder::new(t, true)),
            stop: StopText::new(self.stops.iter().cloned()),
            text: String::new(),
        };
        (0..n).map(|_| new()).collect()
    }

    /// The texts for some prompts (sources, for a model that reads them), `[prompt][text]`, best first; `first` is the
    /// number of the first prompt, so that a prompt draws the same whatever batch it stands in.
    pub fn run(
        &self,
        prompts: &[Vec<u32>],
        first: u64,
        hear: Hear,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(Vec<Vec<Written>>, Vec<Traced>)> {
        let network = &self.model.network.model;
        let is_pair = self.model.is_pair();
        let start = if is_pair { self.model.start()? } else { vec![] };
        let before = if is_pair { start.len() } else { prompts.iter().map(Vec::len).max().unwrap_or(0) };
        let max = self.model.max_tokens(self.max_tokens, before, self.otherwise)?;
        let look = match &self.search {
            Search::Beam(Beam { coverage: Some(_), .. }) => Look::Source,
            Search::Contrastive(_) => Look::Hidden,
            _ => Look::Nothing,
        };
        let starts = vec![start.clone(); if is_pair { prompts.len() } else { 0 }];
        let mut engine = match is_pair {
            true => Engine::pair_looking(network, prompts, &start, max, look)?,
            false => Engine::causal_looking(network, prompts, max, look)?,
        };
        let ask = Ask {
            prompts: if is_pair { &starts } else { prompts },
            sources: is_pair.then_some(prompts),
            chain: &self.chain,
            ends: &self.model.defaults.ends,
            max,
            seed: self.seed,
            first,
        };
        let n = if let Search::Sample { n } = self.search { n } else { 1 };
        let mut voices = self.voices(prompts.len() * n);
        let mut failed = None;
        let mut heard = |said: Said1| {
            let voice = &mut voices[said.prompt * n + said.number];
            let new = voice.push(&said);
            let told = new.and_then(|new| if new.is_empty() { Ok(()) } else { hear(said.prompt, said.number, &new) });
            if let Err(fail) = told {
                failed = Some(fail);
            }
            failed.is_none() && !voice.stop.is_met() && !is_cancelled()
        };
        let mut traces = vec![];
        let found: Vec<Vec<Sequence>> = match &self.search {
            Search::Sample { n: 1 } if self.traced && prompts.len() == 1 => {
                let (sequence, trace) = search::sample::sample_traced(&mut engine, &ask, 8, &mut heard)?;
                traces.push(Traced::Chain(trace));
                vec![vec![sequence]]
            }
            Search::Sample { n } => search::sample(&mut engine, &ask, *n, &mut heard)?,
            Search::Contrastive(how) => vec![vec![search::contrastive(&mut engine, &ask, how, &mut heard)?]],
            Search::Beam(how) if self.traced => {
                let (found, trees) = search::beam::beam_traced(&mut engine, &ask, how)?;
                traces.extend(trees.into_iter().map(Traced::Tree));
                found
            }
            Search::Beam(how) => search::beam(&mut Interruptible { engine: &mut engine, is_cancelled }, &ask, how)?,
        };
        if let Some(fail) = failed {
            return Err(fail);
        }
        let written = self.written(found, voices, hear)?;
        traces.iter_mut().filter(|_| self.model.maybe_tokenizer().is_some()).for_each(|trace| match trace {
            Traced::Chain(trace) => trace.name(|id| self.model.piece(id)),
            Traced::Tree(tree) => tree.name(|id| self.model.piece(id)),
        });
        Ok((written, traces))
    }

    fn written(&self, found: Vec<Vec<Sequence>>, voices: Vec<Voice>, hear: Hear) -> Result<Vec<Vec<Written>>> {
        let mut voices = voices.into_iter();
        let mut written = vec![];
        for (prompt, sequences) in found.into_iter().enumerate() {
            let mut row = vec![];
            for (number, sequence) in sequences.into_iter().enumerate() {
                let spoken = if matches!(self.search, Search::Beam(_)) { None } else { voices.next() };
                let (text, end) = match spoken {
                    Some(voice) => {
                        let (met, (text, rest)) = (voice.stop.is_met(), voice.finish()?);
                        if !rest.is_empty() {
                            hear(prompt, number, &rest)?;
                        }
                        (self.model.maybe_tokenizer().map(|_| text), if met { End::Text } else { sequence.end })
                    }
                    None => (self.model.decode(&sequence.ids)?, sequence.end),
                };
                row.push(Written {
                    logprob: sequence.logprob(),
                    score: sequence.score,
                    end,
                    text,
                    logprobs: Some(sequence.logprobs),
                    ids: sequence.ids,
                    alignment: None,
                });
            }
            written.push(row);
        }
        Ok(written)
    }

    /// Which tokens of `source` a text looked at while it was written.
    pub fn alignment(&self, source: &[u32], text: &Written) -> Result<Alignment> {
        let soft = align(&self.model.network.model, source, &self.model.start()?, &text.ids)?;
        Ok(Alignment { hard: hard(&soft), soft })
    }

    /// Refuses prompts with ids outside the vocabulary, and those that are too long, unless their beginning may be dropped:
    /// then it is, and `note` is told. `name` is what a prompt is called: prompt, line.
    pub fn fit(&self, name: &str, prompts: &mut [Vec<u32>], truncate: bool, note: &mut dyn FnMut(&str)) -> Result<()> {
        let network = &self.model.network.model;
        let vocabulary = CausalLm::vocabulary(network);
        let context = if self.model.is_pair() { Seq2Seq::context(network) } else { CausalLm::context(network) };
        for (i, prompt) in prompts.iter_mut().enumerate() {
            let place = format!("{name} {}", i + 1);
            if let Some(id) = prompt.iter().find(|id| **id as usize >= vocabulary) {
                let what = format!("id {id} is outside the vocabulary of {vocabulary}");
                return Err(Error::new(place, what, format!("ids go from 0 to {}", vocabulary.saturating_sub(1))));
            }
            let Some(context) = context else { continue };
            let more = if self.model.is_pair() { 0 } else { self.max_tokens.unwrap_or(1) };
            let room = context.saturating_sub(more).max(1);
            if prompt.len() <= room {
                continue;
            }
            if !truncate {
                let what = match more {
                    0 => format!("is {} tokens long, but the model reads {context}", prompt.len()),
                    _ => {
                        format!("is {} tokens long; with {more} more the context of {context} overflows", prompt.len())
                    }
                };
                return Err(Error::new(place, what, "shorten it, or let --truncate left drop its beginning"));
            }
            note(&format!("{place}: the first {} of {} tokens are dropped", prompt.len() - room, prompt.len()));
            prompt.drain(..prompt.len() - room);
        }
        Ok(())
    }
}

impl Voice<'_> {
    /// The text that this token makes certain.
    fn push(&mut self, said: &Said1) -> Result<String> {
        let (Some(stream), Some(tokenizer)) = (&mut self.stream, self.tokenizer) else { return Ok(String::new()) };
        // A vocabulary padded to a round size has ids that no tokenizer knows: they are nothing.
        let known = !said.is_end && tokenizer.piece(said.id).is_some();
        let new = if known { stream.push(said.id)? } else { String::new() };
        let new = self.stop.push(&new);
        self.text.push_str(&new);
        Ok(new)
    }

    /// The whole text, and what of it has not been heard yet.
    fn finish(mut self) -> Result<(String, String)> {
        let Some(stream) = self.stream.take() else { return Ok((self.text, String::new())) };
        let last = stream.finish()?;
        let mut rest = self.stop.push(&last);
        rest.push_str(&self.stop.finish());
        self.text.push_str(&rest);
        Ok((self.text, rest))
    }
}

/// A network that stops when it is asked to.
struct Interruptible<'e, 'm> {
    engine: &'e mut Engine<'m>,
    is_cancelled: &'e dyn Fn() -> bool,
}

impl Network for Interruptible<'_, '_> {
    fn vocabulary(&self) -> usize {
        self.engine.vocabulary()
    }
    fn rows(&self) -> usize {
        self.engine.rows()
    }
    fn room(&self) -> usize {
        self.engine.room()
    }
    fn logits(&self, row: usize) -> &[f32] {
        self.engine.logits(row)
    }
    fn say(&mut self, tokens: &[u32]) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(interrupted());
        }
        self.engine.say(tokens)
    }
    fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        self.engine.reorder(rows)
    }
    fn seen(&self, row: usize) -> &[f32] {
        self.engine.seen(row)
    }
}

impl Traced {
    /// The trace as a page: JSON for programs, HTML for people, by the ending of the file's name.
    pub fn page(&self, file: &str) -> Result<String> {
        if file.ends_with(".json") {
            return serde_json::to_string(self).map_err(|e| Error::new("trace", e.to_string(), ""));
        }
        if file.ends_with(".html") {
            return Ok(match self {
                Traced::Chain(trace) => trace.html(),
                Traced::Tree(tree) => tree.html(),
            });
        }
        let what = "the name ends neither in .json nor in .html";
        Err(Error::new(format!("--trace={file}"), what, "name the file trace.html or trace.json"))
    }

    /// The trace as lines for a terminal.
    pub fn table(&self) -> String {
        match self {
            Traced::Chain(trace) => trace.table(),
            Traced::Tree(tree) => tree.table(),
        }
    }
}
