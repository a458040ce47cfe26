//! `qkv man`: manual pages, made of the same description of the verbs as `--help`.

use super::Cli;
use super::fail::Fail;
use super::terminal::{say, say_part};
use clap::{Command, CommandFactory};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv man > qkv.1                  the page of qkv; then: man ./qkv.1
  qkv man train > qkv-train.1      the page of a verb
  qkv man bench train              and of a verb below it
  qkv man --out man1               all of them as files: qkv.1, qkv-train.1, …")]
pub(crate) struct Args {
    /// The verb whose page is printed; left out, that of qkv
    verb: Vec<String>,
    /// Write every page into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let mut command = Cli::command();
    // Versions and full names come down to the verbs.
    command.build();
    let Some(dir) = &args.out else {
        let page = page(found(&command, &args.verb)?.clone(), &name(&args.verb))?;
        return Ok(say_part(String::from_utf8_lossy(&page))?);
    };
    let fail = |e: std::io::Error| qkv::Error::write(dir.display().to_string(), &e, "is it writable?");
    std::fs::create_dir_all(dir).map_err(fail)?;
    let mut pages = vec![];
    all(&command, &mut vec![], &mut pages);
    for verbs in &pages {
        let bytes = page(found(&command, verbs)?.clone(), &name(verbs))?;
        qkv_weights::write_atomically(&dir.join(format!("{}.1", name(verbs))), &bytes)?;
    }
    say(format!("{} pages in {}", pages.len(), dir.display()))
}

/// A verb and those below it, but for the help of help.
fn all(command: &Command, verbs: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
    into.push(verbs.clone());
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        verbs.push(verb.get_name().into());
        all(verb, verbs, into);
        verbs.pop();
    }
}

fn found<'a>(command: &'a Command, verbs: &[String]) -> Result<&'a Command, Fail> {
    verbs.iter().try_fold(command, |command, verb| {
        command.find_subcommand(verb).ok_or_else(|| {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let near = qkv_base::nearest(verb, names.iter().copied())
                .map_or(String::new(), |n| format!("did you mean `{n}`? "));
            Fail::usage(format!("there is no verb `{verb}`"), format!("{near}there are {}", names.join(", ")))
        })
    })
}

/// `qkv-bench-train`
fn name(verbs: &[String]) -> String {
    [&["qkv".to_string()], verbs].concat().join("-")
}

fn page(command: Command, name: &str) -> Result<Vec<u8>, Fail> {
    let mut page = vec![];
    // The title is the name of the file; what is typed has blanks.
    let command = command.display_name(name.to_string());
    clap_mangen::Man::new(command).render(&mut page).map_err(|e| Fail::failed("man", e, ""))?;
    Ok(page)
}
