//! `qkv vectors near`, `analogy` and `similarity`: what vectors of words know.

use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::{say, say_json};
use qkv::vectors::{Neighbour, WordVectors, load, read_analogies, read_pairs, score_analogies, score_pairs};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct NearArgs {
    /// Vectors: word2vec's text or binary format
    file: PathBuf,
    /// The word; several, one after the other
    #[arg(required = true)]
    words: Vec<String>,
    /// How many of the nearest
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// One line of JSON for each word
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv vectors analogy senses.txt king - man + woman
  qkv vectors analogy big.bin --file questions-words.txt")]
pub(super) struct AnalogyArgs {
    /// Vectors: word2vec's text or binary format
    file: PathBuf,
    /// Words with + and - between them
    #[arg(required_unless_present = "questions", value_name = "WORD [-|+ WORD]...")]
    words: Vec<String>,
    /// Questions of four words a line, each asked and judged
    #[arg(long = "file", value_name = "F", conflicts_with = "words")]
    questions: Option<PathBuf>,
    /// How many of the nearest
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct SimilarityArgs {
    /// Vectors: word2vec's text or binary format
    file: PathBuf,
    /// Two words and a number on each line, as WordSim-353 has them
    pairs: PathBuf,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

fn open(path: &Path) -> Result<WordVectors, Fail> {
    Ok(load(path)?.into_vectors()?)
}

fn text(path: &Path) -> Result<String, Fail> {
    Ok(input::lines(path)?.join("\n"))
}

pub(super) fn near(args: &NearArgs) -> Result<(), Fail> {
    let vectors = open(&args.file)?;
    for word in &args.words {
        let near = vectors.near(word, args.top)?;
        if args.words.len() > 1 && !args.json {
            say(format!("{word}:"))?;
        }
        print(&near, args.json)?;
    }
    Ok(())
}

pub(super) fn analogy(args: &AnalogyArgs) -> Result<(), Fail> {
    let vectors = open(&args.file)?;
    if let Some(path) = &args.questions {
        let scores = score_analogies(&vectors, &read_analogies(&text(path)?, &path.display().to_string())?);
        if args.json {
            return say_json(&scores);
        }
        let share = 100.0 * scores.right as f64 / scores.asked.max(1) as f64;
        return say(format!(
            "{} of {} questions right: {share:.1} %; {} with words that have no vector or are rare",
            scores.right, scores.asked, scores.unseen
        ));
    }
    let sum = args.words.join(" ");
    print(&vectors.analogy(&terms(&sum)?, args.top)?, args.json)
}

/// `king - man + woman` taken apart.
fn terms(sum: &str) -> Result<Vec<(f32, &str)>, Fail> {
    let wrong = || Fail::usage(format!("`{sum}` is not a sum of words"), "write: king - man + woman, with blanks");
    let (mut terms, mut sign) = (vec![], Some(1.0));
    for part in sum.split_whitespace() {
        match (part, sign.take()) {
            ("+", None) => sign = Some(1.0),
            ("-", None) => sign = Some(-1.0),
            ("+" | "-", Some(_)) | (_, None) => return Err(wrong()),
            (word, Some(by)) => terms.push((by, word)),
        }
    }
    if sign.is_some() { Err(wrong()) } else { Ok(terms) }
}

fn print(near: &[Neighbour], json: bool) -> Result<(), Fail> {
    if json {
        return say_json(&near);
    }
    near.iter().try_for_each(|n| say(format!("{:>7.4}  {}", n.cosine, n.word)))
}

pub(super) fn similarity(args: &SimilarityArgs) -> Result<(), Fail> {
    let vectors = open(&args.file)?;
    let scores = score_pairs(&vectors, &read_pairs(&text(&args.pairs)?, &args.pairs.display().to_string())?)?;
    if args.json {
        return say_json(&scores);
    }
    let unseen =
        if scores.unseen > 0 { format!("; {} with words that were not seen", scores.unseen) } else { String::new() };
    say(format!("Spearman {:.4} over {} pairs{unseen}", scores.spearman, scores.pairs))
}
