//! `qkv tokenizer compare`: several tokenizers side by side on one text.

use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::say;
use qkv_text::{Tokenizer, TokenizerComparison, compare};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer compare small.json large.json \"How finely is this cut?\"
  qkv tokenizer compare gpt2/ bert/ t5/ --file book.txt")]
pub(super) struct Args {
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

pub(super) fn run(args: &Args) -> Result<(), Fail> {
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
    let tokenizers = paths.iter().map(|path| input::tokenizer(Path::new(path))).collect::<Result<Vec<_>, _>>()?;
    let text = input::texts(text.to_vec(), args.file.as_deref())?.join("\n");
    let named: Vec<(&str, &Tokenizer)> = paths.iter().map(String::as_str).zip(&tokenizers).collect();
    let table = compare(&named, &text)?;
    if args.json { say(comparison(&table)) } else { say(table.to_string().trim_end()) }
}

fn comparison(table: &TokenizerComparison) -> Value {
    let row = |r: &qkv_text::CompareRow| {
        let rare: Vec<Value> = r.rare.iter().map(|(word, pieces)| json!({"word": word, "pieces": pieces})).collect();
        json!({
            "name": r.name, "vocab_size": r.vocab_size, "tokens": r.tokens, "tokens_per_word": r.tokens_per_word,
            "tokens_per_byte": r.tokens_per_byte, "unknown": r.unknown, "longest": r.longest, "rare": rare,
        })
    };
    json!({"words": table.words, "bytes": table.bytes, "tokenizers": table.rows.iter().map(row).collect::<Vec<_>>()})
}
