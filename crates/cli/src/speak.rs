//! From prompts to answers, for `generate`, `translate` and `chat`: one order, whatever the search.

use crate::decoding::{Speaker, interrupted};
use crate::fail::Fail;
use qkv_decode::search::{self, Beam, Contrastive, Said1, Sequence, Tree};
use qkv_decode::trace::Trace;
use qkv_decode::{Ask, Chain, End, Engine, Look, Network, StopText};
use qkv_text::{StreamDecoder, Tokenizer};
use serde::Serialize;

/// What is asked for.
pub(crate) struct Order<'a> {
    pub(crate) speaker: &'a Speaker,
    pub(crate) chain: Chain,
    pub(crate) search: Search,
    /// the most tokens, if a number was given
    pub(crate) max_tokens: Option<usize>,
    /// the most tokens where nothing else says it
    pub(crate) otherwise: usize,
    pub(crate) seed: u64,
    pub(crate) stops: Vec<String>,
    pub(crate) traced: bool,
}

/// Which search.
pub(crate) enum Search {
    Sample { n: usize },
    Beam(Beam),
    Contrastive(Contrastive),
}

/// What the search did.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Traced {
    Chain(Trace),
    Tree(Tree),
}

/// One answer.
#[derive(Clone, Serialize)]
pub(crate) struct Answer {
    pub(crate) ids: Vec<u32>,
    pub(crate) text: Option<String>,
    pub(crate) score: f64,
    pub(crate) logprob: f64,
    pub(crate) end: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) logprobs: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alignment: Option<Alignment>,
}

/// Which source tokens an answer looked at.
#[derive(Clone, Serialize)]
pub(crate) struct Alignment {
    /// `[target][source]`
    pub(crate) soft: Vec<Vec<f32>>,
    /// `[source, target]` pairs
    pub(crate) hard: Vec<(usize, usize)>,
}

/// Text as it becomes certain, of one continuation.
struct Voice<'a> {
    tokenizer: Option<&'a Tokenizer>,
    stream: Option<StreamDecoder<'a>>,
    stop: StopText,
    text: String,
}

impl<'a> Order<'a> {
    fn voices(&self, n: usize) -> Vec<Voice<'a>> {
        let new = || Voice {
            tokenizer: self.speaker.tokenizer.as_ref(),
            stream: self.speaker.tokenizer.as_ref().map(|t| StreamDecoder::new(t, true)),
            stop: StopText::new(self.stops.iter().cloned()),
            text: String::new(),
        };
        (0..n).map(|_| new()).collect()
    }

    /// The answers to some prompts (sources, for a model that reads them), `[prompt][answer]`, best first. `hear` is told
    /// text as it becomes certain: the number of the prompt, of the answer, and the text.
    pub(crate) fn answer(
        &self,
        prompts: &[Vec<u32>],
        first: u64,
        hear: &mut dyn FnMut(usize, usize, &str) -> Result<(), Fail>,
    ) -> Result<(Vec<Vec<Answer>>, Vec<Traced>), Fail> {
        let speaker = self.speaker;
        let model = &speaker.net.model;
        let is_pair = speaker.is_pair();
        let start = if is_pair { speaker.start()? } else { vec![] };
        let before = if is_pair { start.len() } else { prompts.iter().map(Vec::len).max().unwrap_or(0) };
        let max = speaker.max_tokens(self.max_tokens, before, self.otherwise)?;
        let look = match &self.search {
            Search::Beam(Beam { coverage: Some(_), .. }) => Look::Source,
            Search::Contrastive(_) => Look::Hidden,
            _ => Look::Nothing,
        };
        let starts = vec![start.clone(); if is_pair { prompts.len() } else { 0 }];
        let mut engine = match is_pair {
            true => Engine::pair_looking(model, prompts, &start, max, look)?,
            false => Engine::causal_looking(model, prompts, max, look)?,
        };
        let ask = Ask {
            prompts: if is_pair { &starts } else { prompts },
            sources: is_pair.then_some(prompts),
            chain: &self.chain,
            ends: &speaker.defaults.ends,
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
            failed.is_none() && !voice.stop.is_met() && !interrupted()
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
            Search::Beam(how) => search::beam(&mut Interruptible(&mut engine), &ask, how)
                .map_err(|e| if interrupted() { Fail::interrupted() } else { e.into() })?,
        };
        if let Some(fail) = failed {
            return Err(fail);
        }
        let mut voices = voices.into_iter();
        let mut answers = vec![];
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
                        (speaker.tokenizer.as_ref().map(|_| text), if met { End::Text } else { sequence.end })
                    }
                    None => (speaker.decode(&sequence.ids)?, sequence.end),
                };
                row.push(Answer {
                    logprob: sequence.logprob(),
                    score: sequence.score,
                    end,
                    text,
                    logprobs: Some(sequence.logprobs),
                    ids: sequence.ids,
                    alignment: None,
                });
            }
            answers.push(row);
        }
        traces.iter_mut().filter(|_| speaker.tokenizer.is_some()).for_each(|trace| match trace {
            Traced::Chain(trace) => trace.name(|id| speaker.piece(id)),
            Traced::Tree(tree) => tree.name(|id| speaker.piece(id)),
        });
        Ok((answers, traces))
    }
}

impl Voice<'_> {
    /// The text that this token makes certain.
    fn push(&mut self, said: &Said1) -> Result<String, Fail> {
        let (Some(stream), Some(tokenizer)) = (&mut self.stream, self.tokenizer) else { return Ok(String::new()) };
        // A vocabulary padded to a round size has ids that no tokenizer knows: they are nothing.
        let known = !said.is_end && tokenizer.piece(said.id).is_some();
        let new = if known { stream.push(said.id)? } else { String::new() };
        let new = self.stop.push(&new);
        self.text.push_str(&new);
        Ok(new)
    }

    /// The whole text, and what of it has not been heard yet.
    fn finish(mut self) -> Result<(String, String), Fail> {
        let Some(stream) = self.stream.take() else { return Ok((self.text, String::new())) };
        let last = stream.finish()?;
        let mut rest = self.stop.push(&last);
        rest.push_str(&self.stop.finish());
        self.text.push_str(&rest);
        Ok((self.text, rest))
    }
}

/// A network that stops when Ctrl-C is pressed.
struct Interruptible<'e, 'm>(&'e mut Engine<'m>);

impl Network for Interruptible<'_, '_> {
    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }
    fn rows(&self) -> usize {
        self.0.rows()
    }
    fn room(&self) -> usize {
        self.0.room()
    }
    fn logits(&self, row: usize) -> &[f32] {
        self.0.logits(row)
    }
    fn say(&mut self, tokens: &[u32]) -> qkv_base::Result<()> {
        if interrupted() {
            return Err(qkv_base::Error::new("search", "interrupted", ""));
        }
        self.0.say(tokens)
    }
    fn reorder(&mut self, rows: &[usize]) -> qkv_base::Result<()> {
        self.0.reorder(rows)
    }
    fn seen(&self, row: usize) -> &[f32] {
        self.0.seen(row)
    }
}

/// Writes a trace where it was asked for: `-` is the terminal (stderr), `.json` and `.html` are files.
pub(crate) fn write_trace(traces: &[Traced], to: &str) -> Result<(), Fail> {
    let Some(trace) = traces.first() else { return Ok(()) };
    if to == "-" {
        let table = match trace {
            Traced::Chain(trace) => trace.table(),
            Traced::Tree(tree) => tree.table(),
        };
        eprint!("{table}");
        return Ok(());
    }
    let page = if to.ends_with(".json") {
        serde_json::to_string(trace).map_err(|e| Fail::failed("trace", e, "a trace holds finite numbers only"))?
    } else if to.ends_with(".html") {
        match trace {
            Traced::Chain(trace) => trace.html(),
            Traced::Tree(tree) => tree.html(),
        }
    } else {
        return Err(Fail::usage(
            format!("--trace={to}: neither .json nor .html"),
            "name the file trace.html or trace.json",
        ));
    };
    qkv_weights::write_atomically(std::path::Path::new(to), page.as_bytes())?;
    Ok(())
}
