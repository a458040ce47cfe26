//! The flags of `qkv translate`, and the sources they name.

use crate::cli::fail::Fail;
use crate::cli::flags::{BeamArgs, ChainArgs, PrefixArgs};
use crate::cli::input;
use crate::cli::terminal::talk;
use qkv_tasks::chain::ids;
use qkv_tasks::generate::Generation;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv translate \"Good morning\"                    by the newest run\n  qkv translate runs/de-en \"Guten Morgen\"\n  qkv translate MODEL --file in.txt --beam 5 --length-penalty 0.6 > out.txt\n  qkv translate MODEL --n-best 3 --alignments < in.txt\n  qkv translate MODEL --ids 5,6,7,2 --beam 4 --json\n\nPlain output: one line for each line read; with --n-best, --score or --alignments, tab-separated: number of the line, score,\ntext, and pairs `source-target` counted from 0."
)]
pub(crate) struct Args {
    /// A model or a run, then the texts; without a model the newest run, without a text lines from stdin
    #[arg(value_name = "MODEL] [TEXT")]
    pub(super) words: Vec<String>,
    /// A source in ids: 5,6,7; may be repeated
    #[arg(long, value_name = "IDS", conflicts_with = "file")]
    pub(super) ids: Vec<String>,
    /// Lines of a file; - is stdin
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// How many lines are translated together
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(super) batch: usize,
    /// The most tokens to say
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<usize>,
    /// Too long a source: refuse it, or drop its beginning
    #[arg(long, value_name = "SIDE", value_parser = ["left"])]
    pub(super) truncate: Option<String>,
    /// Tell the score of each translation
    #[arg(long)]
    pub(super) score: bool,
    /// Tell which source tokens each target token looked at
    #[arg(long)]
    pub(super) alignments: bool,
    /// Show the tree of the search: in the terminal, or into a .html or .json file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(super) trace: Option<String>,
    /// Write over the file of --trace
    #[arg(long, requires = "trace")]
    pub(super) force: bool,
    /// One line of JSON for each source
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) chain: ChainArgs,
    #[command(flatten)]
    pub(super) beam: BeamArgs,
    #[command(flatten)]
    pub(super) prefix: PrefixArgs,
    #[command(flatten)]
    pub(super) load: input::LoadArgs,
}

impl Args {
    /// The ids of every source; none for a blank line.
    pub(super) fn sources(&self, generation: &Generation, texts: &[String]) -> Result<Vec<Vec<u32>>, Fail> {
        let texts = match (&self.file, texts) {
            _ if !self.ids.is_empty() => vec![],
            (Some(file), _) => input::lines(file)?,
            (None, []) => input::lines(Path::new("-"))?,
            (None, texts) => texts.to_vec(),
        };
        let model = generation.model;
        let encode = |text: &String| if text.trim().is_empty() { Ok(vec![]) } else { model.encode(text) };
        let mut sources: Vec<Vec<u32>> = texts.iter().map(encode).collect::<Result<_, _>>()?;
        for list in &self.ids {
            sources.push(ids(list)?);
        }
        if sources.iter().all(Vec::is_empty) {
            let hint = "give a text, --ids 5,6,7, --file in.txt, or lines on stdin";
            return Err(Fail::usage("there is nothing to translate", hint));
        }
        generation
            .fit("line", &mut sources, self.truncate.is_some(), &mut |note| talk(format_args!("note: {note}")))?;
        Ok(sources)
    }
}
