//! `qkv tokenizer decode`: ids to text.

use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::say;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tokenizer decode tokenizer.json 5 6 7
  qkv tokenizer decode tokenizer.json --file ids.txt       one text for each line of ids
  qkv tokenizer encode t.json \"A text.\" --json | qkv tokenizer decode t.json")]
pub(super) struct Args {
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

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let tokenizer = input::tokenizer(&args.tokenizer)?;
    let given = if args.ids.is_empty() { vec![] } else { vec![args.ids.join(" ")] };
    let place = match (&args.file, given.is_empty()) {
        (Some(file), _) => file.display().to_string(),
        (None, true) => "stdin".to_string(),
        (None, false) => "ids".to_string(),
    };
    for (i, line) in input::texts(given, args.file.as_deref())?.iter().enumerate() {
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
            assert!(ids(line, "x:1").expect_err(line).to_string().starts_with("x:1: "));
        }
    }
}
