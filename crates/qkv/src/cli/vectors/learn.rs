//! `qkv vectors train`: the vectors of a text.

use crate::cli::fail::Fail;
use crate::cli::signals::interrupted;
use crate::cli::terminal::{progress, say, talk};
use qkv::inspect::numbers::grouped;
use qkv::vectors::{Architecture, Bag, Sentences, VectorFormat, Weighting, Word2Vec, lines, save_bag, write_vectors};
use qkv_base::must_be_free;
use qkv_train::on_threads;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv vectors train --kind skipgram --data builtin:senses --out senses.txt
  qkv vectors train --kind cbow --data book.txt --out book.bin --width 200 --epochs 10
  qkv vectors train --kind tfidf --data builtin:topics --out topics.json

FILE.bin is word2vec's binary format, FILE.json a bag of words (onehot, tfidf), any other name word2vec's text format.
The same seed gives the same bytes at any number of threads.")]
pub(super) struct Args {
    /// How words become vectors
    #[arg(long, default_value = "skipgram")]
    kind: Kind,
    /// Text to learn from: files of lines, plain or gzip, or builtin:NAME; may be repeated
    #[arg(long, value_name = "F", required = true)]
    data: Vec<String>,
    /// Where to write: a new file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write over the file of --out
    #[arg(long)]
    force: bool,
    /// Numbers of a word
    #[arg(long, value_name = "N", default_value_t = 100)]
    width: usize,
    /// Words on each side that tell of a word, at most
    #[arg(long, value_name = "N", default_value_t = 5)]
    window: usize,
    /// Words drawn by chance against each word
    #[arg(long, value_name = "N", default_value_t = 5)]
    negative: usize,
    /// Leave out words that come fewer times
    #[arg(long, value_name = "N", default_value_t = 5)]
    min_count: u64,
    /// How often the text is read
    #[arg(long, value_name = "N", default_value_t = 5)]
    epochs: usize,
    /// Thin out words above this share of the text; 0 thins nothing
    #[arg(long, value_name = "SHARE", default_value_t = 1e-3)]
    sample: f64,
    /// The first step size
    #[arg(long, value_name = "R", default_value_t = 0.025)]
    rate: f32,
    /// Names all randomness: same seed, same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; 0: one for each core. The result does not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print what was done as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// each word an axis; a text says which words it holds
    Onehot,
    /// the same, weighed by how often in the text and how rare in others
    Tfidf,
    /// each word around tells the word
    Skipgram,
    /// the mean of the words around tells the word
    Cbow,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    must_be_free(&args.out, args.force)?;
    let json_name = args.out.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    let is_bag = matches!(args.kind, Kind::Onehot | Kind::Tfidf);
    if is_bag != json_name {
        let hint = if is_bag { "end it in .json" } else { "end it in .txt or .bin: .json is for bags of words" };
        return Err(Fail::usage(format!("{}: not the name of such a file", args.out.display()), hint));
    }
    if is_bag { bag(args) } else { word2vec(args) }
}

fn bag(args: &Args) -> Result<(), Fail> {
    let mut texts = vec![];
    for name in &args.data {
        texts.extend(lines(name, args.seed)?.collect::<qkv::Result<Vec<String>>>()?);
    }
    let weighting = if args.kind == Kind::Tfidf { Weighting::TfIdf } else { Weighting::OneHot };
    let bag = Bag::learn(&texts, weighting)?;
    save_bag(&bag, &args.out)?;
    let words = bag.words().len();
    match args.json {
        true => say(json!({"out": args.out, "words": words, "texts": texts.len()})),
        false => say(format!("{}: {} words of {} texts", args.out.display(), grouped(words), grouped(texts.len()))),
    }
}

fn word2vec(args: &Args) -> Result<(), Fail> {
    let sources = args.data.iter().map(|name| lines(name, args.seed)).collect::<qkv::Result<Vec<_>>>()?;
    let text = Sentences::read(sources.into_iter().flatten(), args.min_count)?;
    let how = Word2Vec {
        architecture: if args.kind == Kind::Cbow { Architecture::Cbow } else { Architecture::SkipGram },
        width: args.width,
        window: args.window,
        negative: args.negative,
        epochs: args.epochs,
        sample: args.sample,
        rate: args.rate,
        seed: args.seed,
    };
    let bar = progress(text.len() * args.epochs, "words");
    let start = Instant::now();
    let (vectors, threads) = on_threads(args.threads, || {
        let vectors = how.train(&text, &mut |at| {
            bar.set_position(at.words as u64);
            !interrupted()
        });
        (vectors, rayon::current_num_threads())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let vectors = vectors?;
    write_vectors(&vectors, &args.out, VectorFormat::of(&args.out))?;
    let words = text.words_read() as f64 * args.epochs as f64;
    if args.json {
        return say(json!({
            "out": args.out, "vocab": vectors.words().len(), "width": vectors.width(), "words": words, "seconds": seconds,
            "tokens_per_s": words / seconds, "threads": threads, "what": "word2vec", "system": "qkv",
        }));
    }
    talk(format_args!(
        "{} words in {seconds:.1} s on {threads} threads: {} words/s",
        grouped(words as usize),
        grouped((words / seconds) as usize)
    ));
    say(format!("{}: {} words of width {}", args.out.display(), grouped(vectors.words().len()), vectors.width()))
}
