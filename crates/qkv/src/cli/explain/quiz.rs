//! The quiz: the page with numbers hidden, then a question for each, answered on stdin.

use crate::cli::fail::Fail;
use crate::cli::terminal::{say, say_painted, style};
use qkv_base::Error;
use qkv_insight::render::{quiz::Quiz, terminal};
use std::io::{BufRead, IsTerminal};

/// Asks for each hidden number; what is no number is asked again, and the end of stdin ends the quiz.
pub(super) fn ask(quiz: &Quiz) -> Result<(), Fail> {
    say_painted(terminal::page(&quiz.page, style()).trim_end())?;
    let prompt = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock().lines();
    let mut right = 0;
    let mut asked = 0;
    for (i, question) in quiz.questions.iter().enumerate() {
        say(format!("\n?{} {}, {} decimals:", i + 1, question.cell, question.decimals))?;
        let answer = loop {
            let Some(line) = lines.next() else { break None };
            let line = line.map_err(|e| Error::read("stdin", &e, ""))?;
            match question.check(&line) {
                Some(answer) => break Some(answer),
                None => say(format!(
                    "`{}` is no number; {}",
                    line.trim(),
                    if prompt { "once more:" } else { "the next line is read" }
                ))?,
            }
        };
        let Some(answer) = answer else { break };
        asked += 1;
        right += usize::from(answer);
        say(if answer { "= right".to_string() } else { format!("≠ it is {}", question.shown()) })?;
    }
    say(format!(
        "\n{right} of {asked} right{}",
        if asked < quiz.questions.len() { ", the rest was not answered" } else { "" }
    ))
}
