//! From prompts to answers, for `generate`, `translate` and `chat`: one order, whatever the search.

use crate::decoding::{Speaker, interrupted};
use crate::fail::Fail;
use qkv_decode::{Chain, Config, End, Engine, Finished, NewToken, Request, RequestId, StepEvent, StopText};
pub(crate) use qkv_decode::{Search, SearchTrace as Traced};
use qkv_text::{StreamDecoder, Tokenizer};
use serde::Serialize;
use std::sync::Arc;

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
    stream: Option<StreamDecoder<&'a Tokenizer>>,
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
        let is_pair = speaker.is_pair();
        let start = if is_pair { speaker.start()? } else { vec![] };
        let before = if is_pair { start.len() } else { prompts.iter().map(Vec::len).max().unwrap_or(0) };
        let max_tokens = speaker.max_tokens(self.max_tokens, before, self.otherwise)?;
        let request = |(i, prompt): (usize, &Vec<u32>)| Request {
            source: is_pair.then(|| prompt.clone()),
            chain: self.chain.clone(),
            search: self.search.clone(),
            max_tokens,
            ends: speaker.defaults.ends.clone(),
            seed: self.seed,
            number: first + i as u64,
            trace: (self.traced && prompts.len() == 1).then_some(8),
            ..Request::new(if is_pair { start.clone() } else { prompt.clone() })
        };
        let requests: Vec<Request> = prompts.iter().enumerate().map(request).collect();
        let mut engine = Engine::new(Arc::new(speaker.net.model.clone()), Config::default());
        let n = if let Search::Sample { n } = self.search { n } else { 1 };
        let mut voices = self.voices(prompts.len() * n);
        let mut failed = None;
        let mut heard = |prompt: usize, new: &NewToken| {
            let voice = &mut voices[prompt * n + new.number];
            let told = voice.push(new).and_then(|text| match text.is_empty() {
                true => Ok(()),
                false => hear(prompt, new.number, &text),
            });
            if let Err(fail) = told {
                failed = Some(fail);
            }
            failed.is_none() && !voice.stop.is_met() && !interrupted()
        };
        let is_beam = matches!(self.search, Search::Beam(_));
        let ids: Vec<RequestId> = requests.into_iter().map(|r| engine.admit(r)).collect::<qkv_base::Result<_>>()?;
        let mut found: Vec<Option<Finished>> = ids.iter().map(|_| None).collect();
        while !engine.is_idle() {
            if is_beam && interrupted() {
                return Err(Fail::interrupted());
            }
            for event in engine.step()? {
                let place = |id: RequestId| ids.iter().position(|other| *other == id).unwrap_or(0);
                match event {
                    StepEvent::Token(new) if !heard(place(new.request), &new) => engine.stop(new.request, new.number),
                    StepEvent::Token(_) => {}
                    StepEvent::Finished(one) => {
                        let at = place(one.request);
                        found[at] = Some(one);
                    }
                    StepEvent::Failed { error, .. } => return Err(error.into()),
                }
            }
        }
        if let Some(fail) = failed {
            return Err(fail);
        }
        let mut voices = voices.into_iter();
        let mut answers = vec![];
        let mut traces = vec![];
        for (prompt, one) in found.into_iter().flatten().enumerate() {
            let mut row = vec![];
            traces.extend(one.trace);
            for (number, sequence) in one.sequences.into_iter().enumerate() {
                let spoken = if is_beam { None } else { voices.next() };
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
            Traced::Beam(tree) => tree.name(|id| speaker.piece(id)),
        });
        Ok((answers, traces))
    }
}

impl Voice<'_> {
    /// The text that this token makes certain.
    fn push(&mut self, said: &NewToken) -> Result<String, Fail> {
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

/// Writes a trace where it was asked for: `-` is the terminal (stderr), `.json` and `.html` are files.
pub(crate) fn write_trace(traces: &[Traced], to: &str) -> Result<(), Fail> {
    let Some(trace) = traces.first() else { return Ok(()) };
    if to == "-" {
        let table = match trace {
            Traced::Chain(trace) => trace.table(),
            Traced::Beam(tree) => tree.table(),
        };
        eprint!("{table}");
        return Ok(());
    }
    let page = if to.ends_with(".json") {
        serde_json::to_string(trace).map_err(|e| Fail::failed("trace", e, "a trace holds finite numbers only"))?
    } else if to.ends_with(".html") {
        match trace {
            Traced::Chain(trace) => trace.html(),
            Traced::Beam(tree) => tree.html(),
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
