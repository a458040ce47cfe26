//! How a family meets text, said as data: which special tokens stand around a text, what a decoder begins with, and what
//! its tokenizer is like. Who has tokens and ids maps these words to them.
//!
//! | framing | one text | two texts |
//! |---|---|---|
//! | `ClsSep` | `[CLS] a [SEP]` | `[CLS] a [SEP] b [SEP]` |
//! | `SeparatedTwice` | `<s> a </s>` | `<s> a </s></s> b </s>` |
//! | `Ended` | `a </s>` | `a </s> b </s>` |

/// The special tokens around one and two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// a class token in front, a separator behind each text
    ClsSep {
        /// whether the second text is told from the first by token types
        token_types: bool,
    },
    /// a beginning in front, an end behind each text and another between two
    SeparatedTwice,
    /// an end behind each text
    Ended,
}

/// What a row of running text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStart {
    /// nothing
    Nothing,
    /// the beginning token
    Bos,
}

/// What the decoder of a pair begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetStart {
    /// the token of padding
    Pad,
    /// the token that ends a text
    Eos,
}

/// What the family's tokenizer is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokenizing {
    /// how text is cut, unless a recipe says otherwise
    pub pieces: Pieces,
    /// the special tokens it knows, and where it puts them
    pub shape: TokenizerShape,
}

/// How text is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// pairs merged by frequency
    Bpe,
    /// words, and parts of words that continue them
    WordPiece,
    /// the most probable pieces
    Unigram,
}

impl Pieces {
    /// As a recipe says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bpe => "bpe",
            Self::WordPiece => "wordpiece",
            Self::Unigram => "unigram",
        }
    }
}

/// The special tokens of a tokenizer, and where it puts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerShape {
    /// `<|endoftext|>`, nothing put around a text
    EndOfText,
    /// `[CLS] a [SEP]`, with padding, unknown and mask
    ClsSep,
    /// `a </s>`, with padding, and so many sentinels at the end of the vocabulary
    Sentinels(usize),
    /// `a </s>`, with padding, no beginning
    Ended,
    /// `<s> a`
    Begun,
    /// these, nothing put around a text
    Listed(&'static [&'static str]),
}

/// How linear layers lie in the family's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearLayout {
    /// `[out, in]`, as here
    OutIn,
    /// `[in, out]`
    InOut,
}
