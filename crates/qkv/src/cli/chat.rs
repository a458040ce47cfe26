//! `qkv chat`: a conversation with a model that has a chat template.
//!
//! Ctrl-C stops the answer, not the program; the end of input (Ctrl-D) or /exit ends it.

mod turns;

use super::fail::Fail;
use super::flags::ChainArgs;
use super::input;
use super::signals::{catch_interrupts, interrupted};
use super::terminal::{Watch, say, say_part, talk};
use qkv_tasks::chat::Conversation;
use qkv_tasks::generate::{Generation, Search};
use std::path::PathBuf;
use turns::{Turn, read_turn};

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
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    input::not_zero(&[("max-tokens", args.max_tokens)])?;
    let model = input::open(&input::model_or_newest(args.model.as_deref())?, args.load)?;
    let chain = args.chain.options().chain(&model.defaults)?;
    let by = Generation::by(&model, chain, Search::Sample { n: 1 })?;
    let generation = Generation { otherwise: args.max_tokens, seed: args.seed, ..by };
    let mut conversation = Conversation::new(generation, args.template.as_deref())?;
    conversation.system = args.system.clone();
    catch_interrupts();
    talk(format_args!("chain: {}", conversation.generation.chain));
    talk("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves");
    let mut input = std::io::stdin().lock();
    loop {
        match read_turn(&mut input)? {
            Turn::End => return Ok(()),
            Turn::Command(command) if ["exit", "quit", "bye"].contains(&command.as_str()) => return Ok(()),
            Turn::Command(command) => {
                if let Err(fail) = obey(&mut conversation, &command) {
                    fail.report(); // a slip of the hand does not end a conversation
                }
            }
            Turn::Say(text) => answer(&mut conversation, &text)?,
        }
    }
}

fn answer(conversation: &mut Conversation, text: &str) -> Result<(), Fail> {
    let mut hear = |_: usize, _: usize, text: &str| say_part(text);
    conversation.turn(text, &mut hear, &mut Watch::new(0, ""))?;
    say("")?;
    if interrupted() {
        talk("(stopped)");
    }
    Ok(())
}

/// Does what a line that begins with / asks for.
fn obey(conversation: &mut Conversation, line: &str) -> Result<(), Fail> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (name, rest.trim()) {
        ("help" | "?", _) => talk(COMMANDS),
        ("reset", _) => conversation.messages.clear(),
        ("system", "") => conversation.system = None,
        ("system", text) => {
            conversation.system = Some(text.to_string());
            conversation.messages.clear();
        }
        ("chain", steps) => {
            let chain: qkv_decode::Chain = steps.parse()?;
            chain.check(qkv_model::CausalLm::vocabulary(&conversation.generation.model.network.model))?;
            conversation.generation.chain = chain;
            talk(format_args!("chain: {}", conversation.generation.chain));
        }
        ("seed", n) => {
            let wrong = |_| Fail::usage(format!("/seed: `{n}` is not a whole number"), "write /seed 1");
            conversation.generation.seed = n.parse().map_err(wrong)?;
        }
        ("undo", _) => conversation.undo(),
        ("history", _) => {
            conversation.messages.iter().for_each(|m| talk(format_args!("{}: {}", m.role, m.content)));
        }
        (other, _) => {
            let names = ["help", "reset", "system", "chain", "seed", "undo", "history", "exit"];
            let near = qkv_base::nearest(other, names).unwrap_or("help");
            return Err(Fail::usage(format!("there is no /{other}"), format!("did you mean /{near}? /help lists all")));
        }
    }
    Ok(())
}
