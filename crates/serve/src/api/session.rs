//! Some prompts on their way through the engine. Giving up a session takes its prompts out: their rows are free with the next
//! step, whether the client waits for the whole or hears it piece by piece.

use super::ask::{Ask, Prompt};
use crate::app::App;
use crate::engine_thread::{Ticket, WorkEvent};
use crate::error::{ApiError, ApiResult};
use crate::served::Served;
use qkv_decode::score::PromptToken;
use qkv_decode::{End, NewToken, Search, Sequence};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Prompts that are worked on.
pub struct Session {
    /// the server
    pub app: Arc<App>,
    /// which of its models
    model: usize,
    /// how they are asked
    pub ask: Ask,
    /// what they are
    pub prompts: Vec<Prompt>,
    tickets: Vec<Ticket>,
    events: UnboundedReceiver<(usize, WorkEvent)>,
    arrived: Instant,
    heard: Option<Instant>,
}

/// All that came of a prompt.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// the prompt's tokens but the first, if they were scored
    pub scored: Option<Vec<PromptToken>>,
    /// its continuations, those that are told
    pub choices: Vec<Choice>,
    /// tokens of the prompt that were not computed again
    pub cached: usize,
}

/// One continuation.
#[derive(Clone, Debug)]
pub struct Choice {
    /// its tokens one by one; a beam tells none
    pub tokens: Vec<NewToken>,
    /// its text
    pub text: String,
    /// its ids
    pub ids: Vec<u32>,
    /// the model's log-probability of each
    pub logprobs: Vec<f32>,
    /// what a beam compares by
    pub score: f64,
    /// why it ended
    pub end: End,
}

impl Choice {
    /// Why it ended, in OpenAI's words.
    pub fn finish_reason(&self) -> &'static str {
        finish_reason(self.end)
    }
}

/// Why a text ended, in OpenAI's words.
pub fn finish_reason(end: End) -> &'static str {
    match end {
        End::Length => "length",
        End::Token | End::Text | End::Stopped => "stop",
    }
}

impl Session {
    /// Begins with all prompts, or with none.
    pub fn begin(app: Arc<App>, served: &Served, ask: Ask, prompts: Vec<Prompt>, arrived: Instant) -> ApiResult<Self> {
        let model = app.models.iter().position(|m| m.name == served.name).unwrap_or(0);
        let (send, events) = unbounded_channel();
        let works = prompts.iter().enumerate().map(|(tag, prompt)| ask.work(served, prompt, tag, &send));
        let works = works.collect::<ApiResult<Vec<_>>>()?;
        let tickets = works.into_iter().map(|work| served.engine.begin(work)).collect::<ApiResult<Vec<_>>>()?;
        let read: usize = prompts.iter().map(|p| p.ids.len()).sum();
        app.metrics.prompt_tokens.fetch_add(read as u64, Relaxed);
        Ok(Self { model, ask, prompts, tickets, events, arrived, heard: None, app: app.clone() })
    }

    /// The model that is asked.
    pub fn served(&self) -> &Served {
        &self.app.models[self.model]
    }

    /// What happens next, and to which prompt; the server's end and a request that takes too long are errors.
    pub async fn next(&mut self) -> ApiResult<(usize, WorkEvent)> {
        let mut ending = self.app.ending.subscribe();
        let deadline = self.app.deadline(self.arrived);
        let next = async {
            let ended = ending.wait_for(|ending| *ending);
            let (mut ended, mut event) = (std::pin::pin!(ended), std::pin::pin!(self.events.recv()));
            std::future::poll_fn(|cx| {
                use std::future::Future;
                use std::task::Poll;
                if let Poll::Ready(event) = event.as_mut().poll(cx) {
                    return Poll::Ready(event.ok_or_else(|| ApiError::internal("the thread of this model has ended")));
                }
                if ended.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(ApiError::unavailable("the server is about to end")));
                }
                Poll::Pending
            })
            .await
        };
        let late = |_| {
            let what = format!("the request took longer than {} s", self.app.limits.request_timeout.as_secs());
            ApiError::new(hyper::StatusCode::GATEWAY_TIMEOUT, what).code("timeout")
        };
        let (tag, event) = tokio::time::timeout_at(deadline, next).await.map_err(late)??;
        if let (WorkEvent::Token(_), 0) = (&event, tag) {
            let now = Instant::now();
            match self.heard.replace(now) {
                None => self.app.metrics.first_token.observe(now - self.arrived),
                Some(last) if self.ask.n == 1 => self.app.metrics.between_tokens.observe(now - last),
                Some(_) => {}
            }
        }
        match event {
            WorkEvent::Failed(error) => Err(ApiError { message: self.served().clean(&error.message), ..error }),
            event => Ok((tag, event)),
        }
    }

    /// Everything, once all is said.
    pub async fn finish(mut self) -> ApiResult<(Self, Vec<Said>)> {
        let mut said = vec![Said::default(); self.prompts.len()];
        let mut tokens: Vec<Vec<Vec<NewToken>>> = vec![vec![]; self.prompts.len()];
        let mut left = self.prompts.len();
        while left > 0 {
            let (tag, event) = self.next().await?;
            match event {
                WorkEvent::Scored(scored) => said[tag].scored = Some(scored),
                WorkEvent::Token(new) => {
                    let all = &mut tokens[tag];
                    if all.len() <= new.number {
                        all.resize(new.number + 1, vec![]);
                    }
                    all[new.number].push(new);
                }
                WorkEvent::Finished { sequences, cached } => {
                    said[tag].cached = cached;
                    said[tag].choices = self.choices(sequences, std::mem::take(&mut tokens[tag]))?;
                    left -= 1;
                }
                WorkEvent::Failed(error) => return Err(error),
            }
        }
        self.tickets.clear();
        Ok((self, said))
    }

    /// The continuations that are told: of more than were asked for those with the best log-probability a token.
    pub fn choices(&self, sequences: Vec<Sequence>, mut tokens: Vec<Vec<NewToken>>) -> ApiResult<Vec<Choice>> {
        if sequences.is_empty() {
            let nothing = Choice {
                tokens: vec![],
                text: String::new(),
                ids: vec![],
                logprobs: vec![],
                score: 0.0,
                end: End::Length,
            };
            return Ok(vec![nothing; self.ask.n]);
        }
        tokens.resize(sequences.len(), vec![]);
        let is_beam = matches!(self.ask.search, Search::Beam(_));
        let mut choices = vec![];
        for (sequence, tokens) in sequences.into_iter().zip(tokens) {
            let whole = is_beam && self.ask.stop.is_empty();
            let text = match whole {
                true => self.served().model.decode(&sequence.ids).map_err(|e| self.served().error(e))?,
                false => sequence.text,
            };
            let Sequence { ids, logprobs, score, end, .. } = sequence;
            choices.push(Choice { tokens, text: text.unwrap_or_default(), ids, logprobs, score, end });
        }
        if choices.len() > self.ask.n {
            let mean = |c: &Choice| c.logprobs.iter().map(|p| *p as f64).sum::<f64>() / c.logprobs.len().max(1) as f64;
            choices.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
            choices.truncate(self.ask.n);
        }
        Ok(choices)
    }

    /// Tokens of all prompts.
    pub fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|p| p.ids.len()).sum()
    }
}
