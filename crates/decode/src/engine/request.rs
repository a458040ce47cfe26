//! What is asked of an engine, and what it refuses.

use crate::decoder::Decoder;
use crate::draft::Draft;
use crate::search::Search;
use crate::{Chain, History};
use qkv_base::{Error, Key, Result};

/// One text to go on with, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// what stands before the first token: the prompt, or the start of the target
    pub prompt: Vec<u32>,
    /// what the encoder reads, where there is one
    pub source: Option<Vec<u32>>,
    /// which of the network's adapters it is computed with
    pub adapter: Option<u32>,
    /// the steps that each row of logits goes through, and the pick
    pub chain: Chain,
    /// which continuations come out
    pub search: Search,
    /// the most tokens to say
    pub max_tokens: usize,
    /// ids that end a continuation
    pub ends: Vec<u32>,
    /// texts that end a continuation; the engine must have a detokenizer
    pub stop: Vec<String>,
    /// decides what is random
    pub seed: u64,
    /// the number of this request within the whole run: with it, batches draw what singles draw
    pub number: u64,
    /// where guesses of the next tokens come from; they change the time and nothing else
    pub draft: Draft,
    /// whether to tell what the search did: so many of the best tokens of each step
    pub trace: Option<usize>,
    /// how many of the most probable tokens are told beside each token that is chosen; a beam tells none
    pub top_logprobs: usize,
}

impl Request {
    /// One continuation of a prompt by the default chain, of up to 64 tokens.
    pub fn new(prompt: Vec<u32>) -> Self {
        Self {
            prompt,
            source: None,
            adapter: None,
            chain: Chain::default(),
            search: Search::Sample { n: 1 },
            max_tokens: 64,
            ends: vec![],
            stop: vec![],
            seed: 0,
            number: 0,
            draft: Draft::None,
            trace: None,
            top_logprobs: 0,
        }
    }

    /// How long a row of it may become.
    pub(crate) fn longest(&self) -> usize {
        self.prompt.len() + self.max_tokens
    }

    /// What stands before the token to choose, for the chain.
    pub(crate) fn history<'s>(&'s self, generated: &'s [u32], key: Key) -> History<'s> {
        History {
            prompt: &self.prompt,
            generated,
            encoder: self.source.as_deref(),
            ends: &self.ends,
            limit: Some(self.longest()),
            key,
        }
    }

    /// Refuses what this network cannot do.
    pub(crate) fn check(&self, model: &dyn Decoder, has_text: bool) -> Result<()> {
        let fail = |place: &str, what: String, hint: &str| Err(Error::new(place, what, hint));
        let vocabulary = model.vocabulary();
        self.search.check()?;
        self.chain.check(vocabulary)?;
        if self.max_tokens == 0 {
            return fail("max tokens", "is 0".into(), "ask for at least one token");
        }
        if let Some(id) = self.ends.iter().find(|id| **id as usize >= vocabulary) {
            let what = format!("end token {id} is outside the vocabulary of {vocabulary}");
            return fail("ends", what, "look at eos_token_id in generation_config.json");
        }
        let name = if self.source.is_some() { "start of the target" } else { "prompt" };
        check_ids(name, &self.prompt, vocabulary)?;
        check_length(name, self.prompt.len(), self.max_tokens, model.context())?;
        match (&self.source, model.reads_source()) {
            (Some(source), true) => {
                check_ids("source", source, vocabulary)?;
                check_length("source", source.len(), 0, model.context())?;
            }
            (None, false) => {}
            (Some(_), false) => return fail("source", "this model reads no source".into(), "give a prompt alone"),
            (None, true) => return fail("source", "there is none".into(), "give the text that the model is to read"),
        }
        if let Some(adapter) = self.adapter.filter(|adapter| *adapter as usize >= model.adapters()) {
            let what = format!("there is no adapter {adapter}; the network has {}", model.adapters());
            return fail("adapter", what, "leave it out");
        }
        if self.search.observe().source && !model.reads_source() {
            let hint = "coverage is for models that read a source; leave it out";
            return fail("coverage", "nothing is known of what the model looks at".into(), hint);
        }
        if !has_text && self.stop.iter().any(|s| !s.is_empty()) {
            let hint = "give the engine a detokenizer, or end by token";
            return fail("stop strings", "there is no tokenizer to find them with".into(), hint);
        }
        Ok(())
    }
}

fn check_ids(name: &str, ids: &[u32], vocabulary: usize) -> Result<()> {
    if ids.is_empty() {
        return Err(Error::new(name, "is empty", "give at least one token, such as the model's start token"));
    }
    match ids.iter().position(|id| *id as usize >= vocabulary) {
        Some(at) => {
            let what = format!("id {} at place {at} is outside the vocabulary of {vocabulary}", ids[at]);
            Err(Error::new(name, what, "were the ids made by this model's own tokenizer?"))
        }
        None => Ok(()),
    }
}

fn check_length(name: &str, len: usize, more: usize, context: Option<usize>) -> Result<()> {
    match context {
        Some(context) if len + more > context => {
            let what = match more {
                0 => format!("is {len} tokens long, but the model reads at most {context}"),
                _ => format!("its {len} tokens and {more} more do not fit into a context of {context}"),
            };
            Err(Error::new(name, what, "shorten it, or ask for fewer tokens"))
        }
        _ => Ok(()),
    }
}
