//! The flags of `qkv tokenizer train`, and what they come to.

use qkv_text::{Kind, Normal, Shape, TrainSpec};
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Algorithm {
    /// byte-level byte-pair encoding, GPT-2's: no text is unknown
    Bpe,
    /// words and ##pieces of them, BERT's
    Wordpiece,
    /// the unigram language model, T5's
    Unigram,
    /// one character, one piece
    Char,
    /// one word, one piece; a new word is unknown
    Word,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
// Shown in --help as they are: marks would only disturb there.
#[allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]
pub(super) enum Family {
    /// none
    Plain,
    /// <|endoftext|>
    Gpt2,
    /// [CLS] text [SEP]
    Bert,
    /// text </s>, and 100 sentinels
    T5,
    /// text </s>, and a pad: for translation
    Marian,
    /// <s> text
    Llama,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Change {
    /// composed characters
    Nfc,
    /// composed, and look-alikes made one
    Nfkc,
    /// A to a
    Lowercase,
    /// è to e; in Indic scripts this takes vowel signs too
    StripAccents,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer train --kind bpe --vocab 8000 --data book.txt --out tokenizer.json
  qkv tokenizer train --kind unigram --vocab 4000 --data builtin:en-it --shape marian --out en-it/
  qkv tokenizer train --kind wordpiece --data reviews.tsv --task classify --normal nfc,lowercase --out bert/")]
pub(crate) struct Args {
    /// How pieces are learnt
    #[arg(long)]
    pub(super) kind: Algorithm,
    /// Pieces in all, special tokens included
    #[arg(long, value_name = "N", default_value_t = 16_000)]
    pub(super) vocab: usize,
    /// Text files, plain or gzip, or corpora that qkv makes itself: builtin:NAME
    #[arg(long, visible_alias = "corpus", value_name = "FILE", num_args = 1.., required = true)]
    pub(super) data: Vec<String>,
    /// What the files hold, where they are tables or JSON lines: their texts are learnt from, not their labels
    #[arg(long, value_name = "TASK")]
    pub(super) task: Option<String>,
    /// Where to: a file that ends in .json, or a directory, which gets the configuration beside it
    #[arg(long, value_name = "PATH")]
    pub(super) out: PathBuf,
    /// Write over the file of --out
    #[arg(long)]
    pub(super) force: bool,
    /// Whose special tokens; left out, those of the family that uses the algorithm
    #[arg(long)]
    pub(super) shape: Option<Family>,
    /// Special tokens of your own
    #[arg(long, value_name = "TOKEN", num_args = 1..)]
    pub(super) special: Vec<String>,
    /// What is done to the text first, in this order
    #[arg(long, value_delimiter = ',', value_name = "CHANGE,…")]
    pub(super) normal: Vec<Change>,
    /// What is rarer is not learnt; 2 if left out, 1 for characters
    #[arg(long, value_name = "N")]
    pub(super) min_frequency: Option<u64>,
    /// Learn from that many lines, drawn evenly, and not from all
    #[arg(long, value_name = "LINES")]
    pub(super) sample: Option<usize>,
    /// The seed of the drawing, and of a corpus that is made
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
    /// One line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What the flags come to.
pub(super) fn spec(args: &Args) -> TrainSpec {
    let usual = TrainSpec::new(match args.kind {
        Algorithm::Bpe => Kind::Bpe,
        Algorithm::Wordpiece => Kind::WordPiece,
        Algorithm::Unigram => Kind::Unigram,
        Algorithm::Char => Kind::Char,
        Algorithm::Word => Kind::Word,
    });
    let shape = args.shape.map(|family| match family {
        Family::Plain => Shape::Plain,
        Family::Gpt2 => Shape::Gpt2,
        Family::Bert => Shape::Bert,
        Family::T5 => Shape::T5 { sentinels: 100 },
        Family::Marian => Shape::Marian,
        Family::Llama => Shape::Llama,
    });
    let normal = args.normal.iter().map(|change| match change {
        Change::Nfc => Normal::Nfc,
        Change::Nfkc => Normal::Nfkc,
        Change::Lowercase => Normal::Lowercase,
        Change::StripAccents => Normal::StripAccents,
    });
    TrainSpec {
        shape: shape.unwrap_or(usual.shape),
        vocab_size: args.vocab,
        min_frequency: args.min_frequency.unwrap_or(usual.min_frequency),
        normal: normal.collect(),
        special: args.special.clone(),
        sample: args.sample,
        seed: args.seed,
        ..usual
    }
}
