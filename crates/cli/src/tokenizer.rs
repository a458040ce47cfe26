//! `qkv tokenizer`: learn one from text, and see how one cuts: text to ids, ids to text, several side by side.

mod learn;

use crate::fail::Fail;
use crate::{model, say};
use qkv_text::{Comparison, Encoding, Explain, Tokenizer, compare};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Learn a tokenizer from text; the result is a tokenizer.json as Hugging Face's tools load it
    Train(learn::Args),
    /// Text to ids
    Encode(Encode),
    /// Ids to text
    Decode(Decode),
    /// Several tokenizers side by side on one text: how finely they cut, and what they do not know
    Compare(Compare),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer encode tokenizer.json \"A text.\"          its ids
  qkv tokenizer encode gpt2/ \"A text.\" --explain         pieces, places, and the merges in order
  qkv tokenizer encode model.gguf --file lines.txt --json  one line of JSON for each line")]
struct Encode {
    /// A tokenizer file, a model directory or a GGUF file
    tokenizer: PathBuf,
    /// The texts
    text: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Every piece with its place, and for BPE the merges of each word
    #[arg(long)]
    explain: bool,
    /// No special tokens around the text
    #[arg(long)]
    no_special: bool,
    /// As text of the target language, where that has a vocabulary of its own (Marian)
    #[arg(long, conflicts_with = "explain")]
    target: bool,
    /// One line of JSON for each text: ids, pieces, offsets (in characters) and bytes
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer decode tokenizer.json 5 6 7
  qkv tokenizer decode tokenizer.json --file ids.txt       one text for each line of ids
  qkv tokenizer encode t.json \"A text.\" --json | qkv tokenizer decode t.json")]
struct Decode {
    /// A tokenizer file, a model directory or a GGUF file
    tokenizer: PathBuf,
    /// The ids of one text, separated by spaces or commas
    #[arg(allow_negative_numbers = true)]
    ids: Vec<String>,
    /// A file with the ids of a text on each line, or what `encode --json` prints
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write special tokens out
    #[arg(long)]
    keep_special: bool,
    /// One line of JSON for each text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer compare small.json large.json \"How finely is this cut?\"
  qkv tokenizer compare gpt2/ bert/ t5/ --file book.txt")]
struct Compare {
    /// Tokenizers (what exists as a path), then the text
    #[arg(value_name = "TOKENIZER|TEXT", required = true)]
    words: Vec<String>,
    /// A text file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.job {
        Job::Train(args) => learn::run(args),
        Job::Encode(args) => encode(args),
        Job::Decode(args) => decode(args),
        Job::Compare(args) => side_by_side(args),
    }
}

/// The tokenizer of a file, of a model directory, or of the directory or inside of a file of weights.
pub(crate) fn open(path: &Path) -> Result<Tokenizer, Fail> {
    if !path.exists() {
        let what = format!("{}: no such file or directory", path.display());
        return Err(Fail::usage(what, "name a tokenizer.json, a model directory or a GGUF file"));
    }
    let weights = ["gguf", "safetensors", "bin", "pt", "pth"];
    let is_weights = path.extension().is_some_and(|e| weights.iter().any(|w| e.eq_ignore_ascii_case(w)));
    if path.is_dir() || is_weights { model::tokenizer(path) } else { Ok(Tokenizer::load(path)?) }
}

/// Lines that are worked on at a time: enough for every thread, little to hold.
const CHUNK: usize = 4096;

fn encode(args: &Encode) -> Result<(), Fail> {
    let tokenizer = open(&args.tokenizer)?;
    let texts = model::texts(args.text.clone(), args.file.as_deref())?;
    let special = !args.no_special;
    let one = |text: &String| match (args.explain, args.target) {
        (true, _) => {
            let explain = tokenizer.explain(text, special)?;
            if !args.json {
                return Ok(explain.to_string().trim_end().to_string());
            }
            Ok(explained(tokenizer.encode(text, special)?, &explain).to_string())
        }
        (false, true) => Ok(told(tokenizer.encode_target(text, special)?, args.json)),
        (false, false) => Ok(told(tokenizer.encode(text, special)?, args.json)),
    };
    for chunk in texts.chunks(CHUNK) {
        let lines: Vec<String> = chunk.par_iter().map(one).collect::<qkv_base::Result<_>>()?;
        // Explanations take several lines each: a blank one between them.
        say(lines.join(if args.explain && !args.json { "\n\n" } else { "\n" }))?;
    }
    Ok(())
}

fn told(encoding: Encoding, json: bool) -> String {
    if json {
        return object(encoding).to_string();
    }
    encoding.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Offsets count characters, as Python's tokenizers do; bytes are for who cuts UTF-8.
fn object(encoding: Encoding) -> Value {
    json!({"ids": encoding.ids, "pieces": encoding.pieces, "offsets": encoding.chars, "bytes": encoding.bytes})
}

fn explained(encoding: Encoding, explain: &Explain) -> Value {
    let mut object = object(encoding);
    let word = |w: &qkv_text::WordMerges| {
        let steps: Vec<Value> = w.steps.iter().map(|s| json!({"rank": s.rank, "pieces": s.pieces})).collect();
        json!({"word": w.word, "steps": steps})
    };
    object["words"] = explain.words.iter().map(word).collect();
    object
}

fn decode(args: &Decode) -> Result<(), Fail> {
    let tokenizer = open(&args.tokenizer)?;
    let given = if args.ids.is_empty() { vec![] } else { vec![args.ids.join(" ")] };
    let place = match (&args.file, given.is_empty()) {
        (Some(file), _) => file.display().to_string(),
        (None, true) => "stdin".to_string(),
        (None, false) => "ids".to_string(),
    };
    for (i, line) in model::texts(given, args.file.as_deref())?.iter().enumerate() {
        let ids = ids(line, &format!("{place}:{}", i + 1))?;
        let text = tokenizer.decode(&ids, !args.keep_special)?;
        if args.json { say(json!({ "text": text }))? } else { say(text)? }
    }
    Ok(())
}

/// The ids of a line: `5 6 7`, `5,6,7`, `[5, 6, 7]` or `{"ids": [5, 6, 7], …}`.
fn ids(line: &str, place: &str) -> Result<Vec<u32>, Fail> {
    let bad = |what: String| Fail::usage(format!("{place}: {what}"), "ids are numbers from 0 on, such as 5 6 7");
    if !line.trim_start().starts_with(['{', '[']) {
        let words = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        return words.map(|word| word.parse().map_err(|_| bad(format!("`{word}` is not an id")))).collect();
    }
    let value: Value = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
    let list = value.get("ids").unwrap_or(&value).as_array().ok_or_else(|| bad("no list of `ids`".into()))?;
    let id =
        |n: &Value| n.as_u64().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| bad(format!("`{n}` is not an id")));
    list.iter().map(id).collect()
}

fn side_by_side(args: &Compare) -> Result<(), Fail> {
    let paths = args.words.iter().take_while(|word| Path::new(word).exists()).count();
    let (paths, text) = args.words.split_at(paths);
    let word = text.first().map(String::as_str).unwrap_or_default();
    if paths.is_empty() {
        let hint = "name tokenizer files or model directories first, then the text";
        return Err(Fail::usage(format!("{word}: no such file or directory"), hint));
    }
    if args.file.is_some() && !text.is_empty() {
        let what = format!("`{word}` is not a file, so it is the text to cut; but --file is given too");
        return Err(Fail::usage(what, "check the path, or leave one of the two out"));
    }
    let tokenizers = paths.iter().map(|path| open(Path::new(path))).collect::<Result<Vec<_>, _>>()?;
    let text = model::texts(text.to_vec(), args.file.as_deref())?.join("\n");
    let named: Vec<(&str, &Tokenizer)> = paths.iter().map(String::as_str).zip(&tokenizers).collect();
    let table = compare(&named, &text)?;
    if args.json { say(comparison(&table)) } else { say(table.to_string().trim_end()) }
}

fn comparison(table: &Comparison) -> Value {
    let row = |r: &qkv_text::CompareRow| {
        let rare: Vec<Value> = r.rare.iter().map(|(word, pieces)| json!({"word": word, "pieces": pieces})).collect();
        json!({
            "name": r.name, "vocab_size": r.vocab_size, "tokens": r.tokens, "tokens_per_word": r.tokens_per_word,
            "tokens_per_byte": r.tokens_per_byte, "unknown": r.unknown, "longest": r.longest, "rare": rare,
        })
    };
    json!({"words": table.words, "bytes": table.bytes, "tokenizers": table.rows.iter().map(row).collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn ids_are_read_in_every_way_they_are_written() {
        for line in ["5 6 7", "5,6,7", " 5, 6\t7 ", "[5, 6, 7]", r#"{"ids": [5, 6, 7], "pieces": []}"#] {
            assert_eq!(ids(line, "x").expect(line), [5, 6, 7]);
        }
        assert!(ids("", "x").expect("none").is_empty());
        for line in ["5 -6", "a", "[5, -6]", "[5", "{}", "4294967296", "[4294967296]"] {
            assert!(ids(line, "x:1").expect_err(line).message().starts_with("x:1: "));
        }
    }
}
