//! `qkv completions`: what makes a shell complete verbs, flags, recipes and paths. It is made of the same description of the
//! verbs as `--help`.

use super::Cli;
use super::fail::Fail;
use super::terminal::say_part;
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use qkv_runs::recipe;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv completions bash > qkv.bash      then: source qkv.bash, in ~/.bashrc for every shell
  qkv completions zsh > _qkv           in a directory of $fpath
  qkv completions fish > qkv.fish      in ~/.config/fish/completions
Models and runs are paths, and the shell completes them as such; bash and zsh complete recipes by their names.")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    // A recipe may be a file, too, so the parser takes anything; a shell can still offer the names.
    let names: Vec<&str> = recipe::ALL.iter().map(|(name, _)| *name).collect();
    let mut command = Cli::command().mut_subcommand("train", |train| {
        train.mut_arg("recipe", |arg| arg.value_parser(PossibleValuesParser::new(names)))
    });
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut command, "qkv", &mut script);
    Ok(say_part(String::from_utf8_lossy(&script))?)
}
