//! The flags of `qkv generate`, and what they come to.

use super::form::FormArgs;
use crate::cli::fail::Fail;
use crate::cli::flags::{BeamArgs, ChainArgs, PrefixArgs, refuse_drawn_beam};
use crate::cli::input;
use qkv_decode::search::Contrastive;
use qkv_decode::{Draft, Pick};
use qkv_tasks::TextModel;
use qkv_tasks::chain::ids;
use qkv_tasks::generate::{Generation, Search};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv generate \"Once upon a time\"    by the newest run\n  qkv generate runs/tale \"Once upon a time\" --temperature 0.8 --top-p 0.95\n  qkv generate MODEL --ids 5,6,7 --json\n  qkv generate MODEL \"Hello\" --chain \"dry 0.8, top_k 40, temperature 0.7\" --n 3 --seed 1\n  qkv generate MODEL --file prompts.txt --max-tokens 64 > answers.txt\n\nWithout flags of the chain the most probable token is said each time, unless the model's generation_config.json draws."
)]
pub(crate) struct Args {
    /// A model or a run, then what to continue; without a model the newest run
    #[arg(value_name = "MODEL] [PROMPT")]
    pub(super) words: Vec<String>,
    /// What to continue, in ids: 5,6,7; may be repeated for a batch
    #[arg(long, value_name = "IDS", conflicts_with = "file")]
    pub(super) ids: Vec<String>,
    /// Prompts, one a line; - is stdin. Answers come one a line, line breaks within them as \n
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// How many prompts of a file are continued together
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(super) batch: usize,
    /// The most tokens to say
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<usize>,
    /// Say N continuations of each prompt
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) n: usize,
    /// Decides what is random: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Stop at this text, which is not said; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(super) stop: Vec<String>,
    /// Contrastive search: of the K most probable tokens the one least like what was said
    #[arg(long, value_name = "K")]
    pub(super) contrastive: Option<usize>,
    /// How much being unlike counts in contrastive search, 0 to 1
    #[arg(long, value_name = "A", default_value_t = 0.6, requires = "contrastive", allow_hyphen_values = true)]
    pub(super) alpha: f64,
    /// Guess the next tokens from the prompt and what was said (ngram), or from what a model with an encoder reads (source), and
    /// check several in one pass: the same text, sooner where it repeats itself
    #[arg(long, value_name = "KIND", default_value_t, hide_default_value = true, value_parser = clap::value_parser!(Draft))]
    pub(super) draft: Draft,
    /// Too long a prompt: refuse it, or drop its beginning
    #[arg(long, value_name = "SIDE", value_parser = ["left"])]
    pub(super) truncate: Option<String>,
    /// Tell the log-probability of every token
    #[arg(long)]
    pub(super) logprobs: bool,
    /// Show what every step did: in the terminal, or into a .html or .json file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(super) trace: Option<String>,
    /// Write over the file of --trace
    #[arg(long, requires = "trace")]
    pub(super) force: bool,
    /// One line of JSON for each prompt
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
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
    /// What the flags ask for.
    pub(super) fn generation<'a>(&self, model: &'a TextModel) -> Result<Generation<'a>, Fail> {
        let mut chain = self.chain.options().chain(&model.defaults)?;
        if let Some(step) = self.form.step(model)? {
            chain.steps.insert(0, step);
        }
        let (asked, drawn) = (self.beam.beam.is_some(), chain.pick != Pick::Greedy);
        if self.contrastive.is_some() && (asked || self.n > 1) {
            let what = "contrastive search follows one continuation; it has no beams and no --n";
            return Err(Fail::usage(what, "leave out --beam and --n, or --contrastive"));
        }
        let searched = self.contrastive.is_none() && (asked || !drawn && self.n == 1);
        let beam = if searched { self.beam.options(self.prefix.prefix()?).search(model, 1)? } else { None };
        refuse_drawn_beam(&chain, beam.is_some())?;
        let search = match (self.contrastive, beam) {
            (Some(k), _) => Search::Contrastive(Contrastive { k, alpha: self.alpha }),
            (None, Some(_)) if self.n > 1 => {
                let what = "--n draws continuations, but a beam finds its best";
                return Err(Fail::usage(what, "use --n-best with --beam"));
            }
            (None, Some(beam)) => Search::Beam(beam),
            (None, None) if self.n > 1 && !drawn => {
                let hint = "draw with --temperature 0.8, or find several with --beam 4 --n-best 4";
                return Err(Fail::usage(format!("--n {}: greedy says the same every time", self.n), hint));
            }
            (None, None) => Search::Sample { n: self.n },
        };
        if !self.stop.is_empty() {
            model.tokenizer()?;
        }
        if self.draft != Draft::None && search.rows() > 1 {
            let what = "--draft guesses for one continuation; a beam, --n and contrastive search have several rows";
            return Err(Fail::usage(what, "leave out --draft, or ask for one continuation"));
        }
        if self.draft == Draft::Source && !model.is_pair() {
            let what = "--draft source: the model has no encoder, and nothing that it reads is a source";
            return Err(Fail::usage(what, "use --draft ngram, which guesses from the prompt"));
        }
        Ok(Generation {
            max_tokens: self.max_tokens,
            seed: self.seed,
            stops: self.stop.clone(),
            draft: self.draft,
            traced: self.trace.is_some(),
            ..Generation::by(model, chain, search)?
        })
    }

    /// The prompts in ids.
    pub(super) fn prompts(&self, model: &TextModel, prompt: Option<&str>) -> Result<Vec<Vec<u32>>, Fail> {
        let empty = || Fail::usage("there is nothing to continue", "give a text, --ids 5,6,7, or --file prompts.txt");
        let prompts: Vec<Vec<u32>> = if !self.ids.is_empty() {
            self.ids.iter().map(|list| ids(list)).collect::<Result<_, _>>()?
        } else if let Some(file) = &self.file {
            input::lines(file)?.iter().map(|line| model.encode(line)).collect::<Result<_, _>>()?
        } else {
            vec![model.encode(prompt.ok_or_else(empty)?)?]
        };
        match prompts.iter().position(Vec::is_empty) {
            _ if prompts.is_empty() => Err(empty()),
            Some(at) => Err(Fail::usage(format!("prompt {} is empty", at + 1), "give at least one token to continue")),
            None => Ok(prompts),
        }
    }
}
