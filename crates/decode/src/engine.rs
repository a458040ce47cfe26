//! The engine: many texts at once, each with its own prompt, chain, search, limits and seed, one token further at each step.
//!
//! Requests are admitted and cancelled between steps. A step gives every row that has chosen a token that token, and some of the
//! prompts that are still being read their next tokens, in one pass; then every search that has new logits goes on. Rows of any
//! length stand side by side ([`RowCache`]), so that nobody waits for the longest; a long prompt is read in chunks, so that nobody
//! waits for it either. What a request says depends on the request alone: not on who else is there, nor on when it came.
//!
//! A prompt that begins like that of a row which is already there takes the keys and values of what they share, and so does one
//! that begins like a prompt of a request that has ended, where those are kept ([`PrefixCache`]); equal sources are read once.
//!
//! ```
//! use qkv_decode::{EngineConfig, Engine, Request, StepEvent};
//! use qkv_model::{Transformer, presets};
//!
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let mut engine = Engine::new(std::sync::Arc::new(model), EngineConfig::default());
//! let first = engine.admit(Request { max_tokens: 3, ..Request::new(vec![5, 6, 7]) })?;
//! let events = engine.step()?;
//! assert!(matches!(&events[0], StepEvent::Token(new) if new.request == first));
//! engine.admit(Request { max_tokens: 2, ..Request::new(vec![8]) })?; // joins in the middle
//! while !engine.is_idle() {
//!     engine.step()?;
//! }
//! # Ok::<(), qkv_base::Error>(())
//! ```

mod admit;
mod plan;
mod prefix_cache;
mod request;
mod text;

pub use prefix_cache::PrefixCache;
pub use request::Request;

use crate::decoder::{Decoder, PassInput, PassOutput};
use crate::draft::{Draft, Drafting, guess};
use crate::search::{Chosen, Machine, Next, SearchTrace, Sequence, View};
use crate::text::Detokenizer;
use plan::{Part, Plan};
use qkv_base::{Error, Result};
use qkv_nn::RowCache;
use rayon::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use text::with_text;

/// Below this many logits searches go on one after the other: waking another thread costs more than it saves.
const SERIAL: usize = 1 << 16;

/// How much an engine takes on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// rows side by side, at most; a beam of four is four
    pub max_rows: usize,
    /// tokens that all rows together may come to hold
    pub max_tokens: usize,
    /// tokens of prompts that are read in one step, at most
    pub prefill_chunk: usize,
    /// shared beginnings of prompts that are shorter are computed again: waiting for them costs a step
    pub min_shared_prefix: usize,
}

impl Default for EngineConfig {
    /// Everything at once: for a batch that is given whole. A server bounds rows, tokens and chunks.
    fn default() -> Self {
        Self { max_rows: usize::MAX, max_tokens: usize::MAX, prefill_chunk: usize::MAX, min_shared_prefix: 16 }
    }
}

/// The number of a request; they are numbered as they are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What happened in a step.
#[derive(Clone, Debug)]
pub enum StepEvent {
    /// a token is certain
    Token(NewToken),
    /// a request is done
    Finished(Finished),
    /// a request could not go on; the others do
    Failed {
        /// which
        request: RequestId,
        /// why
        error: Error,
    },
}

/// A token that was just chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct NewToken {
    /// whose
    pub request: RequestId,
    /// of which of its continuations
    pub number: usize,
    /// how many tokens of this continuation were chosen before
    pub step: usize,
    /// the token
    pub id: u32,
    /// the model's own log-probability of it
    pub logprob: f32,
    /// text that has become certain with it, where there is a detokenizer
    pub text: String,
    /// whether it is an end token
    pub is_end: bool,
    /// the most probable tokens in its place by the model's own logits, best first, as many as the request asked for
    pub top: Vec<(u32, f32)>,
}

/// All that a request has come to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// which
    pub request: RequestId,
    /// its continuations; those of a beam best first
    pub sequences: Vec<Sequence>,
    /// what the search did, if it was asked for
    pub trace: Option<SearchTrace>,
    /// tokens of the prompt that were not computed, because another row began with them
    pub cached: usize,
    /// tokens that were guessed, and how many of them were right
    pub guessed: (usize, usize),
}

/// What an engine has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// requests that choose tokens
    pub running: usize,
    /// requests whose prompts are being read
    pub prefilling: usize,
    /// requests for which there is no room yet
    pub waiting: usize,
    /// rows side by side
    pub rows: usize,
    /// tokens that the rows hold
    pub tokens: usize,
    /// tokens of prompts that are still to be read, of those that have begun
    pub prefill_queue: usize,
    /// tokens given to the network since the engine was made
    pub computed: usize,
    /// bytes of prompts that are kept for those who begin alike
    pub prefix_bytes: u64,
}

/// Requests on their way through a network.
pub struct Engine {
    model: Arc<dyn Decoder>,
    config: EngineConfig,
    detokenizer: Option<Arc<dyn Detokenizer>>,
    cache: RowCache,
    prefixes: PrefixCache,
    /// in the order of the rows, which stand next to each other
    live: Vec<Live>,
    waiting: VecDeque<Waiting>,
    /// those that ended between steps
    events: Vec<StepEvent>,
    next_id: u64,
    computed: usize,
}

/// A request for which there is no room yet.
struct Waiting {
    id: RequestId,
    request: Request,
}

/// A request that has rows.
struct Live {
    id: RequestId,
    request: Request,
    machine: Machine,
    /// how many tokens each continuation has
    said: Vec<usize>,
    rows: usize,
    phase: Phase,
    /// the slot of its source
    source: Option<usize>,
    /// tokens of its prompt whose keys and values were taken from another row
    cached: usize,
    /// what may come behind its next token
    guesses: Vec<u32>,
    drafting: Drafting,
}

/// What the rows of a request wait for.
enum Phase {
    /// the first `done` tokens of the prompt have been read; the first tokens of another row may do for some
    Prefill { done: usize, borrow: Option<(RequestId, usize)> },
    /// the next token of each row
    Tokens(Vec<u32>),
}

impl Engine {
    /// An engine for a network.
    pub fn new(model: Arc<dyn Decoder>, config: EngineConfig) -> Self {
        Self {
            model,
            config,
            detokenizer: None,
            cache: RowCache::new(0),
            prefixes: PrefixCache::default(),
            live: vec![],
            waiting: VecDeque::new(),
            events: vec![],
            next_id: 0,
            computed: 0,
        }
    }

    /// The same, which makes text of tokens and so finds stop strings.
    pub fn with_text(self, detokenizer: Arc<dyn Detokenizer>) -> Self {
        Self { detokenizer: Some(detokenizer), ..self }
    }

    /// The same, which keeps prompts of requests that have ended.
    pub fn with_prefixes(self, prefixes: PrefixCache) -> Self {
        Self { prefixes, ..self }
    }

    /// The prompts that were kept, for another engine of the same network.
    pub fn into_prefixes(self) -> PrefixCache {
        self.prefixes
    }

    /// The network.
    pub fn model(&self) -> &dyn Decoder {
        &*self.model
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.live.is_empty() && self.waiting.is_empty() && self.events.is_empty()
    }

    /// What there is to do.
    pub fn stats(&self) -> Stats {
        let left = |live: &Live| match live.phase {
            Phase::Prefill { done, .. } => Some(live.request.prompt.len() - done),
            Phase::Tokens(_) => None,
        };
        let prefilling = self.live.iter().filter_map(left).count();
        Stats {
            running: self.live.len() - prefilling,
            prefilling,
            waiting: self.waiting.len(),
            rows: self.cache.rows(),
            tokens: self.cache.tokens(),
            prefill_queue: self.live.iter().filter_map(left).sum(),
            computed: self.computed,
            prefix_bytes: self.prefixes.bytes(),
        }
    }

    /// Takes requests through to their ends, in their order. `hear` is told every token, with the place of its request in the
    /// list, and says whether its continuation goes on. The first that fails ends all.
    pub fn run(
        &mut self,
        requests: Vec<Request>,
        hear: &mut dyn FnMut(usize, &NewToken) -> bool,
    ) -> Result<Vec<Finished>> {
        let ids: Vec<RequestId> = requests.into_iter().map(|r| self.admit(r)).collect::<Result<_>>()?;
        let place = |id: RequestId| ids.binary_search(&id).ok();
        let mut found: Vec<Option<Finished>> = ids.iter().map(|_| None).collect();
        // A pass may bring several tokens of a continuation; behind one that ends it nobody is told of the others.
        let mut stopped: BTreeSet<(RequestId, usize)> = BTreeSet::new();
        while found.iter().any(Option::is_none) {
            for event in self.step()? {
                match event {
                    StepEvent::Token(new) => {
                        if let Some(at) = place(new.request)
                            && !stopped.contains(&(new.request, new.number))
                            && !hear(at, &new)
                        {
                            stopped.insert((new.request, new.number));
                            self.stop(new.request, new.number);
                        }
                    }
                    StepEvent::Finished(one) => {
                        if let Some(at) = place(one.request) {
                            found[at] = Some(one);
                        }
                    }
                    StepEvent::Failed { request, error } if place(request).is_some() => {
                        ids.iter().for_each(|id| drop(self.cancel(*id)));
                        return Err(error);
                    }
                    StepEvent::Failed { .. } => {}
                }
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Advances every row by one token, and prompts that are being read by a chunk.
    pub fn step(&mut self) -> Result<Vec<StepEvent>> {
        qkv_kernels::threads::on_pool(|| self.advance_all())
    }

    fn advance_all(&mut self) -> Result<Vec<StepEvent>> {
        self.promote()?;
        let mut events = std::mem::take(&mut self.events);
        let pass = self.plan();
        if pass.ids.is_empty() {
            return Ok(events);
        }
        self.cache.begin_with(&pass.rows, |at| pass.reading[at]);
        let input = PassInput { ids: &pass.ids, answers: &pass.answers, observe: pass.observe };
        let output = self.model.forward(&input, &mut self.cache)?;
        self.cache.advance();
        self.computed += pass.ids.len();
        let outcomes = self.advance(&pass, &output);
        self.settle(outcomes, &mut events);
        Ok(events)
    }

    /// Lets every search that has new logits go on.
    fn advance(&mut self, plan: &Plan, output: &PassOutput) -> Vec<Outcome> {
        let vocabulary = self.model.vocabulary();
        let mut parts = plan.parts.iter().peekable();
        let mut todo: Vec<(&mut Live, &Part)> = vec![];
        for (i, live) in self.live.iter_mut().enumerate() {
            if let Some(part) = parts.next_if(|part| part.live == i) {
                todo.push((live, part));
            }
        }
        let one = |(live, part): (&mut Live, &Part)| live.advance(part, plan, output, vocabulary);
        if plan.answers.len() * vocabulary > SERIAL && todo.len() > 1 {
            todo.into_par_iter().map(one).collect()
        } else {
            todo.into_iter().map(one).collect()
        }
    }

    /// Tells what happened, and gives every request the rows it goes on with.
    fn settle(&mut self, outcomes: Vec<Outcome>, events: &mut Vec<StepEvent>) {
        let mut outcomes = outcomes.into_iter().peekable();
        let (mut rows, mut first) = (Vec::with_capacity(self.cache.rows()), 0);
        let mut live = Vec::with_capacity(self.live.len());
        for mut one in std::mem::take(&mut self.live) {
            let before = first..first + one.rows;
            first = before.end;
            let Some(outcome) = outcomes.next_if(|outcome| outcome.request == one.id) else {
                rows.extend(before);
                live.push(one);
                continue;
            };
            if outcome.wrong > 0 {
                self.cache.forget(before.start, outcome.wrong);
            }
            events.extend(outcome.chosen.into_iter().map(|new| StepEvent::Token(one.tell(new))));
            match outcome.next {
                Ok(None) => {
                    rows.extend(before);
                    live.push(one);
                }
                Ok(Some(Next::Rows { from, tokens })) => {
                    rows.extend(from.iter().map(|row| before.start + row));
                    one.rows = tokens.len();
                    one.phase = Phase::Tokens(tokens);
                    live.push(one);
                }
                Ok(Some(Next::Done)) => {
                    self.keep_prompt(&one, before.start);
                    events.push(one.finish(self.detokenizer.as_deref()));
                }
                Err(error) => events.push(StepEvent::Failed { request: one.id, error }),
            }
        }
        self.live = live;
        self.keep_rows(&rows);
    }

    fn keep_rows(&mut self, rows: &[usize]) {
        if rows.len() != self.cache.rows() || rows.iter().enumerate().any(|(i, row)| i != *row) {
            self.cache.reorder(rows);
        }
    }

    /// Ends one continuation of a request where it is; the others go on. A beam search has no continuation of its own: it ends
    /// with what it has finished.
    pub fn stop(&mut self, id: RequestId, number: usize) {
        let Some(at) = self.live.iter().position(|live| live.id == id) else { return };
        let first: usize = self.live[..at].iter().map(|live| live.rows).sum();
        let live = &mut self.live[at];
        let stay = match &mut live.phase {
            Phase::Tokens(tokens) => {
                let stay = live.machine.stop(number);
                *tokens = stay.iter().map(|row| tokens[*row]).collect();
                stay
            }
            Phase::Prefill { .. } => return,
        };
        let (end, all) = (first + live.rows, self.cache.rows());
        live.rows = stay.len();
        let rows: Vec<usize> = (0..first).chain(stay.iter().map(|row| first + row)).chain(end..all).collect();
        if stay.is_empty() {
            let live = self.live.remove(at);
            self.keep_prompt(&live, first);
            self.events.push(live.finish(self.detokenizer.as_deref()));
        }
        self.keep_rows(&rows);
    }

    /// Takes a request out, whatever it was doing; what it had said.
    pub fn cancel(&mut self, id: RequestId) -> Option<Vec<Sequence>> {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
            self.waiting.remove(at);
            return Some(vec![]);
        }
        let at = self.live.iter().position(|live| live.id == id)?;
        let first: usize = self.live[..at].iter().map(|live| live.rows).sum();
        let live = self.live.remove(at);
        self.keep_prompt(&live, first);
        let rows: Vec<usize> = (0..first).chain(first + live.rows..self.cache.rows()).collect();
        self.keep_rows(&rows);
        match live.finish(self.detokenizer.as_deref()) {
            StepEvent::Finished(finished) => Some(finished.sequences),
            _ => Some(vec![]),
        }
    }
}

/// What came of a request in a step.
struct Outcome {
    request: RequestId,
    /// guesses that were wrong, whose keys and values are still there
    wrong: usize,
    chosen: Vec<Chosen>,
    /// none: its prompt is still being read
    next: Result<Option<Next>>,
}

impl Live {
    fn advance(&mut self, part: &Part, plan: &Plan, output: &PassOutput, vocabulary: usize) -> Outcome {
        if let Phase::Prefill { done, .. } = &mut self.phase {
            *done += part.tokens.len();
            if let Machine::Contrastive(state) = &mut self.machine {
                let width = output.hidden.len() / plan.ids.len().max(1);
                state.read(&output.hidden[part.tokens.start * width..part.tokens.end * width], width);
            }
        }
        let mut chosen = vec![];
        if part.answers.is_empty() {
            return Outcome { request: self.id, wrong: 0, chosen, next: Ok(None) };
        }
        let places = &plan.answers[part.answers.clone()];
        let view = |first: usize, places| View { output, vocabulary, first, places, tokens: plan.ids.len() };
        if self.guesses.is_empty() {
            let next = self.machine.advance(&self.request, &view(part.answers.start, places), &mut chosen).map(Some);
            return Outcome { request: self.id, wrong: 0, chosen, next };
        }
        // One token after the other, as without guesses; the first that was not guessed is where the next pass goes on.
        let guesses = std::mem::take(&mut self.guesses);
        let mut right = 0;
        let next = loop {
            let one = view(part.answers.start + right, &places[right..right + 1]);
            let next = self.machine.advance(&self.request, &one, &mut chosen);
            match &next {
                Ok(Next::Rows { tokens, .. }) if guesses.get(right) == tokens.first() && right < guesses.len() => {
                    right += 1
                }
                _ => break next.map(Some),
            }
        };
        self.drafting.learn(guesses.len(), right);
        Outcome { request: self.id, wrong: guesses.len() - right, chosen, next }
    }

    /// Guesses what comes behind the next token, where that is asked for and can be taken back.
    fn guess(&mut self, can_forget: bool) {
        self.guesses.clear();
        let (Phase::Tokens(tokens), Some(said)) = (&self.phase, self.machine.only()) else { return };
        if self.request.draft == Draft::None || !can_forget || tokens.len() != 1 || self.request.trace.is_some() {
            return;
        }
        // The token of this pass is said already; behind the last one there is nothing to guess.
        let room = self.request.max_tokens.saturating_sub(said.len() + 1);
        let length = self.drafting.length().min(room);
        if length == 0 {
            return;
        }
        let written = [self.request.prompt.as_slice(), said].concat();
        self.guesses = match (&self.request.source, self.request.draft) {
            (Some(source), Draft::Source) => guess(&[source, &written], length),
            _ => guess(&[&written], length),
        };
    }

    fn tell(&mut self, new: Chosen) -> NewToken {
        let Chosen { number, id, logprob, text, is_end, top } = new;
        if self.said.len() <= number {
            self.said.resize(number + 1, 0);
        }
        let step = self.said[number];
        self.said[number] += 1;
        NewToken { request: self.id, number, step, id, logprob, text, is_end, top }
    }

    fn finish(self, detokenizer: Option<&dyn Detokenizer>) -> StepEvent {
        let (request, all, cached) = (self.id, self.request, self.cached);
        let guessed = (self.drafting.offered, self.drafting.accepted);
        match self.machine.finish(&all).and_then(|(s, t)| Ok((with_text(s, &all, detokenizer)?, t))) {
            Ok((sequences, trace)) => StepEvent::Finished(Finished { request, sequences, trace, cached, guessed }),
            Err(error) => StepEvent::Failed { request, error },
        }
    }
}
