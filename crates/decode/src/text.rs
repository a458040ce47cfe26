//! From tokens to text, while they are chosen: what the engine needs of a tokenizer to find stop strings, in every search.
//!
//! A token may be half a character, so text comes in pieces that are certain ([`TextStream`]); a stop string may begin in one token
//! and end in another ([`StopText`]). A continuation that becomes two takes its text with it: streams can be forked.

use crate::stop::StopText;
use qkv_base::Result;

/// Makes text of tokens.
pub trait Detokenizer: Send + Sync {
    /// A text at its beginning.
    fn stream(&self) -> Box<dyn TextStream>;
}

/// The text of tokens that come one by one.
pub trait TextStream: Send + Sync {
    /// One more token; the text that is now certain, which may be none.
    fn push(&mut self, id: u32) -> Result<String>;
    /// What is left behind the last token.
    fn finish(&mut self) -> Result<String>;
    /// The same text so far, to go on another way.
    fn fork(&self) -> Box<dyn TextStream>;
}

/// The text of one continuation, up to the first stop string.
pub(crate) struct RowText {
    stream: Box<dyn TextStream>,
    stop: StopText,
    text: String,
}

impl Clone for RowText {
    fn clone(&self) -> Self {
        Self { stream: self.stream.fork(), stop: self.stop.clone(), text: self.text.clone() }
    }
}

impl std::fmt::Debug for RowText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowText").field("text", &self.text).finish_non_exhaustive()
    }
}

impl RowText {
    pub(crate) fn new(detokenizer: &dyn Detokenizer, stops: &[String]) -> Self {
        Self { stream: detokenizer.stream(), stop: StopText::new(stops.iter().cloned()), text: String::new() }
    }

    /// One more token; the text that is now certain to stay.
    pub(crate) fn push(&mut self, id: u32) -> Result<String> {
        let new = self.stream.push(id)?;
        let new = self.stop.push(&new);
        self.text.push_str(&new);
        Ok(new)
    }

    /// Whether a stop string was said.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_met()
    }

    /// What is left behind the last token, once no more come.
    pub(crate) fn finish(&mut self) -> Result<String> {
        let last = self.stream.finish()?;
        let mut rest = self.stop.push(&last);
        rest.push_str(&self.stop.finish());
        self.text.push_str(&rest);
        Ok(rest)
    }

    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
