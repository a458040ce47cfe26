//! `qkv tokenizer train`: a tokenizer from files, or from a corpus that qkv makes itself.

use crate::fail::Fail;
use crate::inspect::numbers::{bytes, grouped};
use crate::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv_base::Error;
use qkv_data::builtin::{Corpus, Split};
use qkv_data::{Example, Reader, Task, readers};
use qkv_text::{Kind, Normal, Progress, Shape, TrainSpec, Trained, train};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Algorithm {
    /// byte-level byte-pair encoding, GPT-2's: no text is unknown
    Bpe,
    /// words and ##pieces of them, BERT's
    Wordpiece,
    /// the unigram language model, T5's
    Unigram,
    /// one character, one piece
    Char,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
// Shown in --help as they are: marks would only disturb there.
#[allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]
enum Family {
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
enum Change {
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
pub(super) struct Args {
    /// How pieces are learnt
    #[arg(long)]
    kind: Algorithm,
    /// Pieces in all, special tokens included
    #[arg(long, value_name = "N", default_value_t = 16_000)]
    vocab: usize,
    /// Text files, plain or gzip, or corpora that qkv makes itself: builtin:NAME
    #[arg(long, visible_alias = "corpus", value_name = "FILE", num_args = 1.., required = true)]
    data: Vec<String>,
    /// What the files hold, where they are tables or JSON lines: their texts are learnt from, not their labels
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Where to: a file that ends in .json, or a directory, which gets the configuration beside it
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
    /// Whose special tokens; left out, those of the family that uses the algorithm
    #[arg(long)]
    shape: Option<Family>,
    /// Special tokens of your own
    #[arg(long, value_name = "TOKEN", num_args = 1..)]
    special: Vec<String>,
    /// What is done to the text first, in this order
    #[arg(long, value_delimiter = ',', value_name = "CHANGE,…")]
    normal: Vec<Change>,
    /// What is rarer is not learnt; 2 if left out, 1 for characters
    #[arg(long, value_name = "N")]
    min_frequency: Option<u64>,
    /// Learn from that many lines, drawn evenly, and not from all
    #[arg(long, value_name = "LINES")]
    sample: Option<usize>,
    /// The seed of the drawing, and of a corpus that is made
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let start = Instant::now();
    // What would fail at the end is found before the work.
    door(&args.out)?;
    let lines = lines(args)?;
    let spec = spec(args);
    let mut failed = None;
    let lines = lines.map_while(|line| line.map_err(|error| failed = Some(error)).ok());
    let bar = bar();
    let trained = train(lines, &spec, &mut |progress| bar.set_message(said(progress)));
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error.into());
    }
    let trained = trained?;
    save(&trained, &args.out)?;
    tell(args, &spec, &trained, start.elapsed().as_secs_f64())
}

fn spec(args: &Args) -> TrainSpec {
    let usual = TrainSpec::new(match args.kind {
        Algorithm::Bpe => Kind::Bpe,
        Algorithm::Wordpiece => Kind::WordPiece,
        Algorithm::Unigram => Kind::Unigram,
        Algorithm::Char => Kind::Char,
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

type Lines = Box<dyn Iterator<Item = qkv_base::Result<String>>>;

/// Everything to learn from. Every file is opened here, so a wrong name is told before the first one is read.
fn lines(args: &Args) -> Result<impl Iterator<Item = qkv_base::Result<String>> + use<>, Fail> {
    let task = args.task.as_deref().map(Task::parse).transpose()?;
    let open = |name: &String| -> Result<Lines, Fail> {
        if name.starts_with("builtin:") {
            return made(Corpus::find(name)?, args.seed);
        }
        let Some(task) = task else {
            if table(name) {
                eprintln!("note: {name} is read as plain lines; --task TASK takes the texts out of its columns");
            }
            return Ok(Box::new(readers::lines(Path::new(name))?));
        };
        let opened = Reader::new(task).open(name)?;
        opened.notes.iter().for_each(|note| eprintln!("note: {name}: {note}"));
        let corpus = opened.corpus;
        Ok(Box::new((0..corpus.len()).flat_map(move |i| match corpus.get(i) {
            Ok(example) => texts(example).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })))
    };
    let all = args.data.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten())
}

fn made(corpus: Corpus, seed: u64) -> Result<Lines, Fail> {
    if Task::from(corpus.task()) == Task::Image {
        let what = format!("builtin:{} holds pictures, not text", corpus.name());
        return Err(Fail::usage(what, "choose another corpus: `qkv data make` lists them"));
    }
    let examples = corpus.examples(seed, Split::Train).take(corpus.size(Split::Train));
    Ok(Box::new(examples.flat_map(|example| texts(example.into())).map(Ok)))
}

/// Would its lines hold more than text?
fn table(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    [".tsv", ".csv", ".jsonl", ".json", ".ndjson"].iter().any(|end| name.ends_with(end))
}

/// What a model reads and writes of an example.
fn texts(example: Example) -> Vec<String> {
    match example {
        Example::Pair { source, target } => vec![source, target],
        Example::LabelledPair { first, second, .. } => vec![first, second],
        Example::Question { context, question, .. } => vec![context, question],
        Example::Image { .. } => vec![],
        other => vec![other.text().into_owned()],
    }
}

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

/// Refuses to write over something, or where nothing can be written.
fn door(out: &Path) -> Result<(), Fail> {
    let file = if is_file(out) { out.to_path_buf() } else { out.join("tokenizer.json") };
    if file.exists() {
        return Err(Fail::usage(format!("{} exists already", file.display()), "name a new place, or remove it first"));
    }
    let parent = if is_file(out) { out.parent() } else { Some(out) }.filter(|p| !p.as_os_str().is_empty());
    let Some(parent) = parent else { return Ok(()) };
    let cannot = |e: std::io::Error| {
        Error::write(parent.display().to_string(), &e, "name a directory that can be made and written to")
    };
    Ok(std::fs::create_dir_all(parent).map_err(cannot)?)
}

fn save(trained: &Trained, out: &Path) -> Result<(), Fail> {
    if !is_file(out) {
        return Ok(trained.tokenizer.save(out)?);
    }
    let cannot = |e: std::io::Error| Error::write(out.display().to_string(), &e, "is the disk full?");
    Ok(std::fs::write(out, trained.tokenizer.to_json()?).map_err(cannot)?)
}

fn tell(args: &Args, spec: &TrainSpec, trained: &Trained, seconds: f64) -> Result<(), Fail> {
    let (pieces, out) = (trained.tokenizer.vocab_size(), args.out.display());
    if pieces < args.vocab {
        let few = format!("note: {} pieces of {}: ", grouped(pieces), grouped(args.vocab));
        eprintln!("{few}the text has no more that come {} times or more", spec.min_frequency.max(1));
    }
    if args.json {
        return say(json!({
            "out": args.out, "pieces": pieces, "lines": trained.lines, "bytes": trained.bytes, "kept": trained.kept,
            "words": trained.words, "seconds": seconds, "memory": memory("VmHWM:"),
        }));
    }
    let drawn = if trained.kept < trained.lines { format!("{} of ", grouped(trained.kept)) } else { String::new() };
    let (lines, read, words) = (grouped(trained.lines), bytes(trained.bytes), grouped(trained.words));
    let most = memory("VmHWM:").map_or(String::new(), |n| format!(", {} of memory at most", bytes(n)));
    let unit = if spec.kind == Kind::Char { "characters" } else { "words" };
    eprintln!("learnt from {drawn}{lines} lines, {read}, {words} different {unit}, in {seconds:.1} s{most}");
    say(format!("{out}: {} pieces", grouped(pieces)))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

fn said(progress: Progress) -> String {
    let held = memory("VmRSS:").map_or(String::new(), |n| format!("; {} of memory", bytes(n)));
    match progress {
        Progress::Reading { lines, bytes: n } => format!("reading: {} lines, {}{held}", grouped(lines), bytes(n)),
        Progress::Counted { words } => format!("counted {} different words{held}", grouped(words)),
        Progress::Learning { pieces, goal } => {
            format!("learning: {} pieces of {}{held}", grouped(pieces), grouped(goal))
        }
    }
}

/// Bytes that the process holds (`VmRSS:`) or has held at most (`VmHWM:`), where the system says so.
fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix(line)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
}
