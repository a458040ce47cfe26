//! What a person types: a line, a command that begins with /, or a text of several lines between `"""`.

use crate::cli::fail::Fail;
use crate::cli::signals::forget_interrupt;
use crate::cli::terminal::{talk, talk_part};
use qkv_base::Error;
use std::io::BufRead;

/// What a line comes to.
pub(super) enum Turn {
    Say(String),
    Command(String),
    End,
}

/// The next turn: a line, or lines between `"""`. Blank lines are passed over.
pub(super) fn read_turn(input: &mut impl BufRead) -> Result<Turn, Fail> {
    let mut line = String::new();
    loop {
        talk_part("> ");
        forget_interrupt();
        line.clear();
        if read_line(input, &mut line)? == 0 {
            talk("");
            return Ok(Turn::End);
        }
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        if let Some(command) = text.strip_prefix('/') {
            return Ok(Turn::Command(command.to_string()));
        }
        let Some(opened) = text.strip_prefix("\"\"\"") else { return Ok(Turn::Say(text.to_string())) };
        let mut whole = opened.to_string();
        while !whole.trim_end().ends_with("\"\"\"") {
            line.clear();
            talk_part(". ");
            if read_line(input, &mut line)? == 0 {
                break;
            }
            whole.push('\n');
            whole.push_str(line.trim_end_matches(['\n', '\r']));
        }
        let text = whole.trim_end();
        return Ok(Turn::Say(text.strip_suffix("\"\"\"").unwrap_or(text).trim().to_string()));
    }
}

fn read_line(input: &mut impl BufRead, line: &mut String) -> Result<usize, Fail> {
    input.read_line(line).map_err(|e| Error::read("stdin", &e, "write UTF-8 text").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_lines_commands_and_texts_of_several_lines() {
        let mut input = "hello\n\n/reset\n\"\"\"one\ntwo\"\"\"\n\"\"\"\nthree\n\"\"\"\n".as_bytes();
        let mut next = || match read_turn(&mut input).unwrap() {
            Turn::Say(text) => text,
            Turn::Command(command) => format!("/{command}"),
            Turn::End => "end".into(),
        };
        assert_eq!([next(), next(), next(), next(), next()], ["hello", "/reset", "one\ntwo", "three", "end"]);
    }
}
