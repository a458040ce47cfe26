//! Text as it comes: server-sent events for OpenAI's clients, lines of JSON for Ollama's.
//!
//! A task turns what the engine tells into bytes. It ends, and with it the request's row, as soon as nobody reads any more.

use super::logprobs::{Piece, of_prompt, of_token};
use super::session::{Session, finish_reason};
use crate::body::Reply;
use crate::engine_thread::WorkEvent;
use crate::error::{ApiError, ApiResult};
use bytes::Bytes;
use hyper::Response;
use hyper::header::{self, HeaderValue};
use qkv_decode::End;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// How long a stream is silent before a comment keeps it alive.
const SILENCE: Duration = Duration::from_secs(15);

/// Something that a client of a stream is told.
pub enum Part<'a> {
    /// a continuation begins
    Begin,
    /// more of it
    Text {
        /// the text that has become certain, which may be none
        text: &'a str,
        /// the tokens that it comes from, if log-probabilities are told
        pieces: Option<&'a [Piece]>,
        /// the same as ids
        ids: &'a [u32],
    },
    /// it is whole
    End(&'static str),
    /// everything is said
    Usage {
        /// tokens of all prompts
        prompt: usize,
        /// tokens of all continuations
        completion: usize,
        /// tokens of the prompts that were not computed again
        cached: usize,
    },
}

/// How a stream is written.
pub trait Dialect: Send + 'static {
    /// The JSON of a part of a continuation by its number; none where this dialect says nothing.
    fn part(&mut self, index: usize, part: Part) -> Option<Value>;
    /// Whether parts are server-sent events, with `[DONE]` in the end, or lines of JSON.
    fn is_sse(&self) -> bool {
        true
    }
}

/// The answer that streams a session.
pub fn respond(session: Session, dialect: impl Dialect) -> Response<Reply> {
    let (send, receive) = unbounded_channel();
    let sse = dialect.is_sse();
    tokio::spawn(tell(session, dialect, send));
    let mut response = Response::new(Reply::Stream(receive));
    let kind = if sse { "text/event-stream; charset=utf-8" } else { "application/x-ndjson" };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no")); // proxies pass it on at once
    response
}

/// Where parts go.
struct Out<D> {
    dialect: D,
    send: UnboundedSender<Bytes>,
}

/// Nobody reads any more.
struct Gone;

impl<D: Dialect> Out<D> {
    fn raw(&self, text: String) -> std::result::Result<(), Gone> {
        self.send.send(Bytes::from(text)).map_err(|_| Gone)
    }

    fn json(&self, value: &Value) -> std::result::Result<(), Gone> {
        self.raw(if self.dialect.is_sse() { format!("data: {value}\n\n") } else { format!("{value}\n") })
    }

    fn part(&mut self, index: usize, part: Part) -> std::result::Result<(), Gone> {
        match self.dialect.part(index, part) {
            Some(value) => self.json(&value),
            None => Ok(()),
        }
    }
}

async fn tell<D: Dialect>(mut session: Session, dialect: D, send: UnboundedSender<Bytes>) {
    let closed = send.clone();
    let mut out = Out { dialect, send };
    let told = async {
        match through(&mut session, &mut out).await {
            Ok(Ok(())) if out.dialect.is_sse() => out.raw("data: [DONE]\n\n".into()),
            Ok(done) => done,
            // The status is long out: the error is an event of its own.
            Err(error) => match out.dialect.is_sse() {
                true => out.json(&error.json()),
                false => out.json(&serde_json::json!({"error": error.message})),
            },
        }
    };
    let (mut told, mut gone) = (std::pin::pin!(told), std::pin::pin!(closed.closed()));
    std::future::poll_fn(|cx| {
        use std::future::Future;
        match gone.as_mut().poll(cx).is_ready() || told.as_mut().poll(cx).is_ready() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// Everything that a session tells, in its order.
async fn through<D: Dialect>(session: &mut Session, out: &mut Out<D>) -> ApiResult<std::result::Result<(), Gone>> {
    let (n, asked) = (session.ask.n, session.ask.logprobs.is_some());
    let mut told = vec![vec![0; n]; session.prompts.len()];
    let (mut completion, mut all_cached) = (0, 0);
    let mut left = session.prompts.len();
    macro_rules! say {
        ($index:expr, $part:expr) => {
            if out.part($index, $part).is_err() {
                return Ok(Err(Gone));
            }
        };
    }
    for index in 0..session.prompts.len() * n {
        say!(index, Part::Begin);
        let prompt = &session.prompts[index / n];
        if session.ask.echo && !asked {
            say!(index, Part::Text { text: &prompt.text, pieces: None, ids: &prompt.ids });
        }
    }
    while left > 0 {
        let (tag, event) = match tokio::time::timeout(SILENCE, session.next()).await {
            Ok(next) => next?,
            Err(_) if out.dialect.is_sse() => match out.raw(": still at work\n\n".into()) {
                Ok(()) => continue,
                Err(gone) => return Ok(Err(gone)),
            },
            Err(_) => continue,
        };
        match event {
            WorkEvent::Scored(scored) => {
                let prompt = &session.prompts[tag];
                let pieces = of_prompt(session.served(), &prompt.ids, &scored);
                for number in 0..n {
                    say!(tag * n + number, Part::Text { text: &prompt.text, pieces: Some(&pieces), ids: &prompt.ids });
                }
            }
            WorkEvent::Token(new) => {
                completion += 1;
                if let Some(told) = told[tag].get_mut(new.number) {
                    *told += new.text.len();
                }
                let piece = asked.then(|| [of_token(session.served(), &new)]);
                let pieces = piece.as_ref().map(|p| &p[..]);
                if !new.text.is_empty() || asked || session.ask.ids {
                    say!(tag * n + new.number, Part::Text { text: &new.text, pieces, ids: &[new.id] });
                }
            }
            WorkEvent::Finished { sequences, cached } => {
                left -= 1;
                all_cached += cached;
                for number in 0..n {
                    let sequence = sequences.get(number);
                    // What was held back when a text was cut off.
                    let text = sequence.and_then(|s| s.text.as_deref()?.get(told[tag][number]..)).unwrap_or_default();
                    if !text.is_empty() {
                        say!(tag * n + number, Part::Text { text, pieces: None, ids: &[] });
                    }
                    let end = finish_reason(sequence.map_or(End::Length, |s| s.end));
                    say!(tag * n + number, Part::End(end));
                }
            }
            WorkEvent::Failed(error) => return Err(error),
        }
    }
    say!(0, Part::Usage { prompt: session.prompt_tokens(), completion, cached: all_cached });
    Ok(Ok(()))
}

/// Refuses to stream what is known only in the end.
pub fn check(session: &super::ask::Ask) -> ApiResult<()> {
    match session.can_stream() {
        true => Ok(()),
        false => Err(ApiError::field("stream", "cannot be had with `beam` or `best_of`: they are known in the end")),
    }
}
