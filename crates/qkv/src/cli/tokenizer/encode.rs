//! `qkv tokenizer encode`: text to ids, and why.

use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::say;
use qkv_text::{Encoding, Explain};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer encode tokenizer.json \"A text.\"          its ids
  qkv tokenizer encode gpt2/ \"A text.\" --explain         pieces, places, and how words were cut
  qkv tokenizer encode model.gguf --file lines.txt --json  one line of JSON for each line")]
pub(super) struct Args {
    /// A tokenizer file, a model directory or a GGUF file
    tokenizer: PathBuf,
    /// The texts
    text: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Every piece with its place, and how each word was cut: BPE's merges, WordPiece's tries, Unigram's best ways
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

/// Lines that are worked on at a time: enough for every thread, little to hold.
const CHUNK: usize = 4096;

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let tokenizer = input::tokenizer(&args.tokenizer)?;
    let texts = input::texts(args.text.clone(), args.file.as_deref())?;
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
    object["words"] = explain.words.iter().map(qkv_text::ExplainedWord::json).collect();
    object
}
