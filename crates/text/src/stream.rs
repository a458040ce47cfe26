//! Text while it is being generated: ids go in one by one, whole characters come out.
//!
//! A character may be spread over several ids (bytes), and what an id means may hang on the one before it (the space of
//! a word). So the last ids are kept as context: new text = decode(context + new) without decode(context). What comes
//! out in all is exactly `decode` of all ids.

use crate::tokenizer::{Tokenizer, TokenizerEngine};
use qkv_base::{Error, Result};
use std::borrow::Borrow;

/// Decodes a stream of ids.
///
/// ```
/// use qkv_text::{Kind, StreamDecoder, TrainSpec, train};
/// let spec = TrainSpec { vocab_size: 257, ..TrainSpec::new(Kind::Bpe) };
/// let tokenizer = train(["a".to_string()], &spec, &mut |_| {})?.tokenizer;
/// let mut stream = StreamDecoder::new(&tokenizer, true);
/// let ids = tokenizer.encode("è!", true)?.ids;
/// let parts: Vec<String> = ids.iter().map(|id| stream.push(*id)).collect::<Result<_, _>>()?;
/// assert_eq!(parts, ["", "è", "!"]); // è is two bytes, and half of it is nothing yet
/// assert_eq!(stream.finish()?, "");
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamDecoder<T> {
    /// a tokenizer that is borrowed, or one that is shared (`Arc`) where the stream must outlive its maker
    tokenizer: T,
    skip_special: bool,
    /// bytes of a run stand or fall together: nothing is said of them until it ends
    byte_runs: bool,
    /// context, then what has not come out yet
    ids: Vec<u32>,
    context: usize,
    /// decode(context)
    told: String,
}

impl<T: Borrow<Tokenizer>> StreamDecoder<T> {
    /// A stream at its beginning.
    pub fn new(tokenizer: T, skip_special: bool) -> Self {
        let byte_runs = match &tokenizer.borrow().engine {
            TokenizerEngine::Plain(engine) => format!("{:?}", engine.get_decoder()).contains("ByteFallback"),
            TokenizerEngine::Marian(_) => false,
        };
        Self { tokenizer, skip_special, byte_runs, ids: Vec::new(), context: 0, told: String::new() }
    }

    /// One more id; the text that is now certain, which may be none.
    pub fn push(&mut self, id: u32) -> Result<String> {
        let Some(piece) = self.tokenizer.borrow().piece(id) else {
            let what = format!("id {id} is not in the vocabulary of {}", self.tokenizer.borrow().vocab_size());
            return Err(Error::new(&self.tokenizer.borrow().place, what, "do the ids come from another tokenizer?"));
        };
        if self.skip_special && self.tokenizer.borrow().is_special(id) {
            return Ok(String::new());
        }
        self.ids.push(id);
        let open = self.byte_runs && is_byte(&piece);
        if open || self.holds_back() {
            return Ok(String::new());
        }
        let text = self.decode(0)?;
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return Ok(String::new());
        }
        self.tell(text)
    }

    /// What is left; half a character becomes U+FFFD.
    pub fn finish(mut self) -> Result<String> {
        let text = self.decode(0)?;
        self.tell(text)
    }

    /// Marian's decoder trims both ends of the whole, so the last space is not certain until a word follows.
    fn holds_back(&self) -> bool {
        let TokenizerEngine::Marian(marian) = &self.tokenizer.borrow().engine else { return false };
        self.ids.last().and_then(|id| marian.piece(*id)).is_some_and(|piece| piece.ends_with('▁'))
    }

    fn decode(&self, from: usize) -> Result<String> {
        self.tokenizer.borrow().decode(self.ids.get(from..).unwrap_or_default(), self.skip_special)
    }

    /// Hands out what `text` has more than was told, and moves the context on.
    fn tell(&mut self, text: String) -> Result<String> {
        let Some(new) = text.strip_prefix(self.told.as_str()) else {
            let what = "the decoder changes text that has already been handed out";
            return Err(Error::new(&self.tokenizer.borrow().place, what, "decode the ids together instead"));
        };
        let new = new.to_string();
        let recent = self.decode(self.context)?;
        // Only text that begins with a letter or sign holds its ground when more follows: a space may be cut off.
        if !new.is_empty() && recent.starts_with(|c: char| !c.is_whitespace()) {
            self.ids.drain(..self.context);
            self.told = recent;
        } else {
            self.told = text;
        }
        self.context = self.ids.len();
        Ok(new)
    }
}

/// `<0x0A>`: one byte of a character without a piece.
fn is_byte(piece: &str) -> bool {
    piece.len() == 6 && piece.starts_with("<0x") && piece.ends_with('>')
}
