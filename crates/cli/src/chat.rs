//! `qkv chat`: a conversation with a model that has a chat template.
//!
//! The whole conversation is rendered by the template and read again each turn; when it outgrows the context, its oldest turns
//! are left out, and that is said. Ctrl-C stops the answer, not the program; the end of input (Ctrl-D) or /exit ends it.

use crate::decoding::{ChainArgs, Speaker, catch_interrupts, forget_interrupt, interrupted};
use crate::fail::Fail;
use crate::model;
use crate::speak::{Order, Search};
use qkv_base::Error;
use qkv_model::CausalLm;
use qkv_text::{Chat, Message};
use std::io::{BufRead, Write};
use std::path::PathBuf;

const COMMANDS: &str = "/help            this list
/reset           forget the conversation
/system TEXT     say who the model is, from the start
/chain STEPS     choose another chain
/seed N          another seed
/undo            take back the last turn
/history         what was said
/exit            leave (or Ctrl-D)
\"\"\"              begins and ends a text of several lines";

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv chat MODEL\n  qkv chat MODEL --system \"Answer in one sentence.\" --temperature 0.7\n\nWithin the conversation /help lists the commands."
)]
pub(crate) struct Args {
    /// The model directory; left out, the newest run
    model: Option<PathBuf>,
    /// Who the model is
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 512)]
    max_tokens: usize,
    /// Decides what is random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The chat template of this name, where the model has several
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    #[command(flatten)]
    chain: ChainArgs,
}

/// What a line comes to.
enum Turn {
    Say(String),
    Command(String),
    End,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.max_tokens == 0 {
        return Err(Fail::usage("--max-tokens must not be 0", "ask for at least one token"));
    }
    let path = args.model.clone().map_or_else(|| Ok(model::resolve(&[])?.0), Ok::<_, Fail>)?;
    let speaker = Speaker::load(&path)?;
    let Some(tokenizer) = &speaker.tokenizer else {
        let what =
            format!("{}: a chat needs a tokenizer with a chat template, and there is none", speaker.path.display());
        return Err(Fail::usage(
            what,
            "choose a model that was made for chats, or continue ids with `qkv generate --ids`",
        ));
    };
    let chat = Chat::of(tokenizer, args.template.as_deref())?;
    let order = Order {
        speaker: &speaker,
        chain: args.chain.chain(&speaker.defaults)?,
        search: Search::Sample { n: 1 },
        max_tokens: None,
        otherwise: args.max_tokens,
        seed: args.seed,
        stops: vec![],
        traced: false,
    };
    let mut talk = Talk { chat, order, messages: vec![], system: args.system.clone(), max: args.max_tokens };
    catch_interrupts();
    eprintln!("chain: {}", talk.order.chain);
    eprintln!("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves");
    let mut input = std::io::stdin().lock();
    loop {
        match read_turn(&mut input)? {
            Turn::End => return Ok(()),
            Turn::Command(command) if ["exit", "quit", "bye"].contains(&command.as_str()) => return Ok(()),
            Turn::Command(command) => {
                if let Err(fail) = talk.command(&command) {
                    fail.report(); // a slip of the hand does not end a conversation
                }
            }
            Turn::Say(text) => talk.turn(text)?,
        }
    }
}

/// The next turn: a line, or lines between `"""`. Blank lines are passed over.
fn read_turn(input: &mut impl BufRead) -> Result<Turn, Fail> {
    let mut line = String::new();
    loop {
        eprint!("> ");
        forget_interrupt();
        line.clear();
        if read_line(input, &mut line)? == 0 {
            eprintln!();
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
            eprint!(". ");
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

/// A conversation.
struct Talk<'a> {
    chat: Chat,
    order: Order<'a>,
    messages: Vec<Message>,
    system: Option<String>,
    max: usize,
}

impl Talk<'_> {
    /// One turn: what is said, and the answer.
    fn turn(&mut self, text: String) -> Result<(), Fail> {
        self.messages.push(Message::new("user", text));
        let prompt = self.prompt()?;
        let mut out = std::io::stdout();
        let mut hear =
            |_: usize, _: usize, text: &str| write!(out, "{text}").and_then(|()| out.flush()).map_err(Fail::stdout);
        let number = self.messages.len() as u64;
        let (answers, _) = self.order.answer(&[prompt], number, &mut hear)?;
        crate::say("")?;
        if interrupted() {
            eprintln!("(stopped)");
        }
        let answer = answers.into_iter().flatten().next().and_then(|a| a.text).unwrap_or_default();
        self.messages.push(Message::new("assistant", answer));
        Ok(())
    }

    /// The conversation as ids, without its oldest turns where it is too long.
    fn prompt(&mut self) -> Result<Vec<u32>, Fail> {
        let speaker = self.order.speaker;
        let context = CausalLm::context(&speaker.net.model).unwrap_or(usize::MAX);
        let room = context.saturating_sub(self.max.min(context / 2)).max(1);
        loop {
            let system = self.system.iter().map(|s| Message::new("system", s.clone()));
            let all: Vec<Message> = system.chain(self.messages.iter().cloned()).collect();
            // The template has put the special tokens into the text itself.
            let ids = speaker.tokenizer()?.encode(&self.chat.render(&all, true)?, false)?.ids;
            if ids.len() <= room {
                return Ok(ids);
            }
            if self.messages.len() < 3 {
                let what = format!("this turn is {} tokens long, but the context has room for {room}", ids.len());
                self.messages.clear();
                return Err(Fail::usage(what, "say less at a time"));
            }
            eprintln!("note: the conversation outgrows the context; its oldest turn is left out");
            self.messages.drain(..2);
        }
    }

    fn command(&mut self, line: &str) -> Result<(), Fail> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (name, rest.trim()) {
            ("help" | "?", _) => eprintln!("{COMMANDS}"),
            ("reset", _) => self.messages.clear(),
            ("system", "") => self.system = None,
            ("system", text) => {
                self.system = Some(text.to_string());
                self.messages.clear();
            }
            ("chain", steps) => {
                let chain: qkv_decode::Chain = steps.parse()?;
                chain.check(CausalLm::vocabulary(&self.order.speaker.net.model))?;
                self.order.chain = chain;
                eprintln!("chain: {}", self.order.chain);
            }
            ("seed", n) => {
                let wrong = |_| Fail::usage(format!("/seed: `{n}` is not a whole number"), "write /seed 1");
                self.order.seed = n.parse().map_err(wrong)?;
            }
            ("undo", _) => self.messages.truncate(self.messages.len().saturating_sub(2)),
            ("history", _) => {
                self.messages.iter().for_each(|m| eprintln!("{}: {}", m.role, m.content));
            }
            (other, _) => {
                let names = ["help", "reset", "system", "chain", "seed", "undo", "history", "exit"];
                let near = qkv_base::nearest(other, names).unwrap_or("help");
                return Err(Fail::usage(
                    format!("there is no /{other}"),
                    format!("did you mean /{near}? /help lists all"),
                ));
            }
        }
        Ok(())
    }
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
