//! Writing: from prompts (or sources) to texts, by one request whatever the search. Text is told as it becomes certain.

use crate::TextModel;
use crate::batches::interrupted;
use qkv_base::{Error, Result};
use qkv_decode::Draft;
use qkv_decode::{
    Chain, Detokenizer, End, Engine, EngineConfig, Finished, NewToken, Pick, Request, RequestId, Sequence, StepEvent,
    TextStream, align, hard,
};
pub use qkv_decode::{Search, SearchTrace as Traced};
use qkv_model::{CausalLm, Seq2Seq};
use qkv_text::{StreamDecoder, Tokenizer};
use serde::Serialize;
use std::sync::Arc;

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
    /// where guesses of the next tokens come from; they change the time and nothing else
    pub draft: Draft,
    /// whether to keep what every step did
    pub traced: bool,
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
    /// tokens that were guessed, and how many of them were right
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guessed: Option<(usize, usize)>,
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

/// A tokenizer as the engine wants it.
pub fn detokenizer(tokenizer: Arc<Tokenizer>) -> Arc<dyn Detokenizer> {
    Arc::new(Pieces(tokenizer))
}

/// A tokenizer that makes text of tokens as they come.
struct Pieces(Arc<Tokenizer>);

/// The text of one continuation.
#[derive(Clone)]
struct PieceStream(StreamDecoder<Arc<Tokenizer>>, Arc<Tokenizer>);

impl Detokenizer for Pieces {
    fn stream(&self) -> Box<dyn TextStream> {
        Box::new(PieceStream(StreamDecoder::new(self.0.clone(), true), self.0.clone()))
    }
}

impl TextStream for PieceStream {
    fn push(&mut self, id: u32) -> Result<String> {
        // A vocabulary padded to a round size has ids that no tokenizer knows: they are nothing.
        if self.1.piece(id).is_some() { self.0.push(id) } else { Ok(String::new()) }
    }

    fn finish(&mut self) -> Result<String> {
        self.0.clone().finish()
    }

    fn fork(&self) -> Box<dyn TextStream> {
        Box::new(self.clone())
    }
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
        Ok(Self { model, chain, search, max_tokens, otherwise, seed, stops: vec![], draft: Draft::None, traced: false })
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
        let network = self.model.network.model.answering();
        let mut engine = Engine::new(Arc::new(network), EngineConfig::default());
        if let Some(tokenizer) = self.model.shared_tokenizer() {
            engine = engine.with_text(Arc::new(Pieces(tokenizer)));
        }
        let ids: Vec<RequestId> =
            self.requests(prompts, first)?.into_iter().map(|r| engine.admit(r)).collect::<Result<_>>()?;
        let place = |id: RequestId| ids.binary_search(&id).unwrap_or(0);
        let mut told = Told::default();
        let mut found: Vec<Option<Finished>> = ids.iter().map(|_| None).collect();
        while !engine.is_idle() {
            // A beam that is cut off has nothing to tell; the others tell what they have.
            if matches!(self.search, Search::Beam(_)) && is_cancelled() {
                return Err(interrupted());
            }
            for event in engine.step()? {
                match event {
                    StepEvent::Token(new) => {
                        told.tell(place(new.request), &new, hear)?;
                        if is_cancelled() {
                            engine.stop(new.request, new.number);
                        }
                    }
                    StepEvent::Finished(one) => {
                        let at = place(one.request);
                        found[at] = Some(one);
                    }
                    StepEvent::Failed { error, .. } => return Err(error),
                }
            }
        }
        let mut traces = vec![];
        let mut written = vec![];
        for (prompt, one) in found.into_iter().flatten().enumerate() {
            told.rest(prompt, &one, hear)?;
            traces.extend(one.trace);
            let guessed = (self.draft != Draft::None).then_some(one.guessed);
            let texts = one.sequences.into_iter().map(|sequence| Ok(Written { guessed, ..self.written(sequence)? }));
            written.push(texts.collect::<Result<_>>()?);
        }
        traces.iter_mut().filter(|_| self.model.maybe_tokenizer().is_some()).for_each(|trace| match trace {
            Traced::Chain(trace) => trace.name(|id| self.model.piece(id)),
            Traced::Beam(tree) => tree.name(|id| self.model.piece(id)),
        });
        Ok((written, traces))
    }

    /// What the engine is asked for some prompts.
    fn requests(&self, prompts: &[Vec<u32>], first: u64) -> Result<Vec<Request>> {
        let is_pair = self.model.is_pair();
        let start = if is_pair { self.model.start()? } else { vec![] };
        let before = if is_pair { start.len() } else { prompts.iter().map(Vec::len).max().unwrap_or(0) };
        let max_tokens = self.model.max_tokens(self.max_tokens, before, self.otherwise)?;
        let is_beam = matches!(self.search, Search::Beam(_));
        let request = |(i, prompt): (usize, &Vec<u32>)| Request {
            source: is_pair.then(|| prompt.clone()),
            chain: self.chain.clone(),
            search: self.search.clone(),
            max_tokens,
            ends: self.model.defaults.ends.clone(),
            stop: self.stops.clone(),
            seed: self.seed,
            number: first + i as u64,
            draft: self.draft,
            trace: (self.traced && (is_beam || prompts.len() == 1)).then_some(8),
            ..Request::new(if is_pair { start.clone() } else { prompt.clone() })
        };
        Ok(prompts.iter().enumerate().map(request).collect())
    }

    fn written(&self, sequence: Sequence) -> Result<Written> {
        let whole = matches!(self.search, Search::Beam(_)) && self.stops.is_empty();
        let text = if whole { self.model.decode(&sequence.ids)? } else { sequence.text.clone() };
        Ok(Written {
            logprob: sequence.logprob(),
            score: sequence.score,
            end: sequence.end,
            text,
            logprobs: Some(sequence.logprobs),
            ids: sequence.ids,
            alignment: None,
            guessed: None,
        })
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

/// How much text of each continuation was told, in bytes.
#[derive(Default)]
struct Told(std::collections::BTreeMap<(usize, usize), usize>);

impl Told {
    fn tell(&mut self, prompt: usize, new: &NewToken, hear: Hear) -> Result<()> {
        let told = self.0.entry((prompt, new.number)).or_default();
        *told += new.text.len();
        if new.text.is_empty() { Ok(()) } else { hear(prompt, new.number, &new.text) }
    }

    /// What was held back when a continuation was cut off.
    fn rest(&mut self, prompt: usize, one: &Finished, hear: Hear) -> Result<()> {
        for (number, sequence) in one.sequences.iter().enumerate() {
            let told = self.0.get(&(prompt, number)).copied();
            let rest = sequence.text.as_deref().zip(told).and_then(|(text, told)| text.get(told..));
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                hear(prompt, number, rest)?;
            }
        }
        Ok(())
    }
}
