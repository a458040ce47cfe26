//! The flags of chains and beams, which several verbs share.

use super::fail::Fail;
use super::terminal::{talk, talk_part};
use qkv::TimeBudget;
use qkv_decode::{Chain, Pick};
use qkv_runs::cost::NetworkLink;
use qkv_tasks::chain::{BeamOptions, ChainOptions, TargetPrefix, ids};
use qkv_tasks::generate::{Generation, Search, Traced};

/// How rows of logits are bent and tokens are picked.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Chain")]
pub(crate) struct ChainArgs {
    /// The whole chain in its order, such as "dry 0.8, top_k 40, top_p 0.95, temperature 0.7"; `qkv generate --chain help` lists all steps
    #[arg(long, value_name = "STEPS")]
    pub(crate) chain: Option<String>,
    /// Another tool's order and defaults: hf, llama.cpp or kobold
    #[arg(long, value_name = "TOOL", conflicts_with = "chain")]
    preset: Option<String>,
    /// One step with its values, in the preset's place for it; may be repeated
    #[arg(long, value_name = "STEP", conflicts_with = "chain")]
    step: Vec<String>,
    /// Say the most probable token each time
    #[arg(long)]
    greedy: bool,
    /// Divide the logits: below 1 bolder, above 1 more various
    #[arg(long, value_name = "T", conflicts_with = "chain", allow_hyphen_values = true)]
    temperature: Option<String>,
    /// Keep the K most probable tokens
    #[arg(long, value_name = "K", conflicts_with = "chain", allow_hyphen_values = true)]
    top_k: Option<String>,
    /// Keep the fewest tokens that have probability P together
    #[arg(long, value_name = "P", conflicts_with = "chain", allow_hyphen_values = true)]
    top_p: Option<String>,
    /// Keep tokens at least P times as probable as the best
    #[arg(long, value_name = "P", conflicts_with = "chain", allow_hyphen_values = true)]
    min_p: Option<String>,
    /// Make what was said less probable, 1 changes nothing
    #[arg(long, value_name = "R", conflicts_with = "chain", allow_hyphen_values = true)]
    repetition_penalty: Option<String>,
    /// Say no N tokens in a row twice
    #[arg(long, value_name = "N", conflicts_with = "chain", allow_hyphen_values = true)]
    no_repeat_ngram: Option<String>,
    /// Do not end before N tokens
    #[arg(long, value_name = "N", conflicts_with = "chain", allow_hyphen_values = true)]
    min_tokens: Option<String>,
}

impl ChainArgs {
    /// The same as the library's options.
    pub(crate) fn options(&self) -> ChainOptions {
        let given = |flags: &[(&str, &Option<String>)]| -> Vec<String> {
            flags.iter().filter_map(|(name, value)| value.as_ref().map(|v| format!("{name} {v}"))).collect()
        };
        ChainOptions {
            chain: self.chain.clone(),
            preset: self.preset.clone(),
            greedy: self.greedy,
            shape: given(&[
                ("temperature", &self.temperature),
                ("top_k", &self.top_k),
                ("top_p", &self.top_p),
                ("min_p", &self.min_p),
            ]),
            rules: given(&[
                ("repetition_penalty", &self.repetition_penalty),
                ("no_repeat_ngram", &self.no_repeat_ngram),
                ("min_new_tokens", &self.min_tokens),
            ]),
            steps: self.step.clone(),
        }
    }
}

/// The settings that are changed most, by the names that people know them by.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Usual settings")]
pub(crate) struct UsualArgs {
    /// Read all examples N times (train.epochs)
    #[arg(long, value_name = "N", conflicts_with = "steps")]
    epochs: Option<f64>,
    /// Take N steps (train.steps)
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// The peak of the learning rate (optim.rate); auto: by a short test that says why (optim.find)
    #[arg(long, visible_alias = "rate", value_name = "RATE")]
    lr: Option<String>,
    /// Rows of a batch (train.rows)
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Steps in which the rate rises (schedule.warmup)
    #[arg(long, value_name = "N")]
    warmup: Option<u64>,
    /// Looks without a better score after which the run ends (eval.patience)
    #[arg(long, value_name = "N")]
    patience: Option<u64>,
}

impl UsualArgs {
    /// The recipe with these settings.
    pub(crate) fn set(&self, mut recipe: qkv::Recipe) -> Result<qkv::Recipe, Fail> {
        if let Some(n) = self.epochs {
            recipe = recipe.set("train.epochs", n)?;
        }
        if let Some(n) = self.steps {
            recipe = recipe.set("train.steps", n)?;
        }
        match self.lr.as_deref().map(|rate| (rate, rate.parse::<f64>())) {
            None => {}
            Some(("auto", _)) => recipe = recipe.set("optim.find", true)?,
            Some((_, Ok(rate))) => recipe = recipe.set("optim.rate", rate)?,
            Some((other, Err(_))) => {
                return Err(Fail::usage(
                    format!("--lr {other}: is not a learning rate"),
                    "write a number such as 5e-5, or auto",
                ));
            }
        }
        if let Some(rows) = self.batch {
            recipe = recipe.set("train.tokens", 0usize)?.set("train.rows", rows)?;
        }
        if let Some(n) = self.warmup {
            recipe = recipe.set("schedule.warmup", n)?;
        }
        if let Some(n) = self.patience {
            recipe = recipe.set("eval.patience", n)?;
        }
        Ok(recipe)
    }
}

/// What a run may cost, and what several machines would make of it.
#[derive(clap::Args, Clone, Copy, Default)]
#[command(next_help_heading = "Cost")]
pub(crate) struct CostArgs {
    /// Take as many steps as fit in this time, data and judging included: 90s, 30m, 2h. What was chosen stands in the run's recipe
    #[arg(long, value_name = "TIME", value_parser = budget, conflicts_with_all = ["steps", "epochs", "resume"])]
    budget: Option<TimeBudget>,
    /// Choose width and depth, too: the largest network that reads 20 tokens for each of its parameters in the time (Chinchilla)
    #[arg(long, requires = "budget")]
    auto_size: bool,
    /// With --dry-run: what N machines would make of it, on paper
    #[arg(long, value_name = "N", requires = "dry_run", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: Option<u16>,
    /// What lies between two of them, bits or bytes (B) a second: 100Mbit, 1Gbit, 10Gbit, 25GB
    #[arg(long, value_name = "SPEED", requires = "ranks", value_parser = link, default_value = "1Gbit")]
    link: Option<NetworkLink>,
    /// What a message takes on the way, in milliseconds
    #[arg(long, value_name = "MS", requires = "ranks", default_value_t = 1e3 * qkv_runs::cost::links::LATENCY)]
    latency: f64,
}

fn budget(text: &str) -> Result<TimeBudget, String> {
    TimeBudget::parse(text).map_err(|e| format!("{}; {}", e.what, e.hint))
}

fn link(text: &str) -> Result<NetworkLink, String> {
    NetworkLink::parse(text).map_err(|e| format!("{}; {}", e.what, e.hint))
}

impl CostArgs {
    /// The recipe with what it may spend.
    pub(crate) fn set(&self, recipe: qkv::Recipe) -> qkv::Recipe {
        match self.budget {
            Some(budget) => recipe.budget(TimeBudget { size: self.auto_size, ..budget }),
            None => recipe,
        }
    }

    /// How many machines are asked about, and what lies between them.
    pub(crate) fn machines(&self) -> Result<Option<(usize, NetworkLink)>, Fail> {
        let (Some(ranks), Some(link)) = (self.ranks, self.link) else { return Ok(None) };
        match self.latency >= 0.0 && self.latency.is_finite() {
            true => Ok(Some((ranks.into(), link.with_latency(self.latency / 1e3)))),
            false => Err(Fail::usage(
                format!("--latency {}: is not a time", self.latency),
                "write milliseconds, such as 0.1",
            )),
        }
    }
}

/// What a run learns from, and what it is judged by.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct CorpusArgs {
    /// Learn from this file, pattern of files ("reviews/*.csv") or builtin:NAME; may be repeated: several are one corpus
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<String>,
    /// Validate by this file; left out, a part of --data is kept apart
    #[arg(long, value_name = "FILE")]
    valid: Option<String>,
    /// Judge the end by this file; left out, a part of --data is kept apart
    #[arg(long, value_name = "FILE")]
    test: Option<String>,
    /// The column of a table that holds a field, where it has another name: label=stars
    #[arg(long, value_name = "FIELD=NAME")]
    column: Vec<String>,
}

impl CorpusArgs {
    /// The recipe with these files; `--data` itself is the verb's own.
    pub(crate) fn set(&self, mut recipe: qkv::Recipe) -> Result<qkv::Recipe, Fail> {
        if let Some(more) = self.data.get(1..).filter(|more| !more.is_empty()) {
            recipe = recipe.set("data.more", more)?;
        }
        if let Some(file) = &self.valid {
            recipe = recipe.set("data.valid_file", file.as_str())?;
        }
        if let Some(file) = &self.test {
            recipe = recipe.set("data.test_file", file.as_str())?;
        }
        Ok(recipe.columns(&super::input::columns(&self.column)?)?)
    }
}

/// The flags of beam search.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Beam search")]
pub(crate) struct BeamArgs {
    /// Keep the K best continuations side by side; 1 is greedy
    #[arg(long, value_name = "K")]
    pub(crate) beam: Option<usize>,
    /// α: divide log-probabilities by length^α
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    length_penalty: Option<f64>,
    /// Take α as Wu et al. do: divide by ((5 + length)/6)^α
    #[arg(long)]
    wu: bool,
    /// When enough are finished: stop (true), stop by an estimate (false), or go on until nothing can win (never)
    #[arg(long, value_name = "WHEN", value_parser = ["true", "false", "never"])]
    early_stopping: Option<String>,
    /// Tell the N best
    #[arg(long, value_name = "N")]
    n_best: Option<usize>,
    /// Finish P times as many as the beam is wide before stopping
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    patience: Option<f64>,
    /// Search in G groups that avoid each other's tokens
    #[arg(long, value_name = "G")]
    diverse: Option<usize>,
    /// What a token costs that an earlier group said
    #[arg(long, value_name = "D", default_value = "0.5", requires = "diverse", allow_hyphen_values = true)]
    diversity: f64,
    /// β of the coverage penalty: every source token wants to be looked at
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    coverage: Option<f64>,
}

/// How every answer begins.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Beam search")]
pub(crate) struct PrefixArgs {
    /// Begin every answer with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The same in ids
    #[arg(long, value_name = "IDS", conflicts_with = "prefix")]
    prefix_ids: Option<String>,
}

impl PrefixArgs {
    /// The same in the library's words.
    pub(crate) fn prefix(&self) -> Result<Option<TargetPrefix>, Fail> {
        Ok(match (&self.prefix, &self.prefix_ids) {
            (Some(text), _) => Some(TargetPrefix::Text(text.clone())),
            (None, Some(list)) => Some(TargetPrefix::Ids(ids(list)?)),
            (None, None) => None,
        })
    }
}

impl BeamArgs {
    /// The same as the library's options.
    pub(crate) fn options(&self, prefix: Option<TargetPrefix>) -> BeamOptions {
        BeamOptions {
            width: self.beam,
            length_penalty: self.length_penalty,
            wu: self.wu,
            early_stopping: self.early_stopping.clone(),
            n_best: self.n_best,
            patience: self.patience,
            diverse: self.diverse,
            diversity: self.diversity,
            coverage: self.coverage,
            prefix,
        }
    }
}

/// Refuses a beam beside a chain that draws.
pub(crate) fn refuse_drawn_beam(chain: &Chain, beam: bool) -> Result<(), Fail> {
    if !beam || chain.pick == Pick::Greedy {
        return Ok(());
    }
    let what = format!("a beam compares, but `{}` draws at random", chain.pick);
    Err(Fail::usage(what, "leave out --beam, or let the chain end in `greedy`"))
}

/// Says what will be done: the chain in force, what of it does nothing, and what works against each other.
pub(crate) fn tell(generation: &Generation) {
    let chain = &generation.chain;
    match &generation.search {
        Search::Sample { .. } => talk(format_args!("chain: {chain}")),
        Search::Beam(beam) if chain.steps.is_empty() => talk(format_args!("beam of {}", beam.width)),
        Search::Beam(beam) => {
            let steps: Vec<String> = chain.steps.iter().map(ToString::to_string).collect();
            talk(format_args!("beam of {}, chain: {}", beam.width, steps.join(", ")));
        }
        Search::Contrastive(how) => talk(format_args!("contrastive search, k {}, α {}", how.k, how.alpha)),
    }
    let notes = chain.effects().into_iter().chain(chain.conflicts());
    notes.for_each(|note| talk(format_args!("note: {note}")));
    if generation.model.defaults.ends.is_empty() {
        talk("note: nothing says which token ends a text; only --max-tokens and --stop do");
    }
}

/// Writes a trace where it was asked for: `-` is the terminal (stderr), `.json` and `.html` are files.
pub(crate) fn write_trace(traces: &[Traced], to: &str) -> Result<(), Fail> {
    let Some(trace) = traces.first() else { return Ok(()) };
    if to == "-" {
        talk_part(trace.table());
        return Ok(());
    }
    Ok(qkv_weights::write_atomically(std::path::Path::new(to), trace.page(to)?.as_bytes())?)
}
