//! What the verbs that decode share: loading a model with its tokenizer and defaults, the flags of searches and chains, and
//! how ids come in.

use crate::fail::Fail;
use qkv_decode::search::{Beam, Constraint, Early, Length};
use qkv_decode::{Chain, Defaults, Pick, Preset};
use qkv_model::spec::Shape;
use qkv_model::{CausalLm, Pretrained};
use qkv_nn::device;
use qkv_text::Tokenizer;
use qkv_train::run_dir::model_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// A model, ready to speak.
pub(crate) struct Speaker {
    pub(crate) path: PathBuf,
    pub(crate) net: Pretrained,
    pub(crate) tokenizer: Option<Tokenizer>,
    pub(crate) defaults: Defaults,
}

impl Speaker {
    /// Loads the model, or the model of the run, at `path`.
    pub(crate) fn load(path: &Path) -> Result<Self, Fail> {
        let path = model_of(path);
        let net = Pretrained::load(&path, &device::default())?;
        for warning in &net.report.warnings {
            eprintln!("warning: {warning}");
        }
        let dir = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(Path::new("")).to_path_buf() };
        let defaults = Defaults::load(&dir, net.config.map())?;
        let tokenizer = match path.is_dir() && has_tokenizer(&dir) {
            true => Some(Tokenizer::load(&dir)?),
            // A GGUF file carries its own; beside other files there may be none.
            false => crate::model::tokenizer(&path).ok(),
        };
        for key in &defaults.ignored {
            eprintln!("warning: generation_config.json asks for {key}, which is not done");
        }
        let speaker = Self { path, net, tokenizer, defaults };
        if speaker.net.spec().decoder().is_none() {
            let what = format!("{}: this model has no decoder and says nothing", speaker.path.display());
            return Err(Fail::usage(what, "choose a language or translation model (gpt2, llama, t5, bart, marian)"));
        }
        Ok(speaker)
    }

    /// Whether the model reads a source.
    pub(crate) fn is_pair(&self) -> bool {
        matches!(self.net.spec().shape, Shape::Pair { .. })
    }

    /// The tokenizer, or why there must be one.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Fail> {
        self.tokenizer.as_ref().ok_or_else(|| {
            let what = format!("{}: no tokenizer in this directory", self.path.display());
            Fail::usage(what, "give token ids with --ids 5,6,7")
        })
    }

    /// The ids of a text, with what the family puts around it.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, Fail> {
        Ok(self.tokenizer()?.encode(text, true)?.ids)
    }

    /// The text of ids; where there is no tokenizer, none.
    pub(crate) fn decode(&self, ids: &[u32]) -> Result<Option<String>, Fail> {
        let Some(tokenizer) = &self.tokenizer else { return Ok(None) };
        let known: Vec<u32> = ids.iter().copied().filter(|id| tokenizer.piece(*id).is_some()).collect();
        Ok(Some(tokenizer.decode(&known, true)?))
    }

    /// A token as a person reads it.
    pub(crate) fn piece(&self, id: u32) -> String {
        self.tokenizer.as_ref().and_then(|t| t.piece(id)).unwrap_or_else(|| id.to_string())
    }

    /// How every target begins.
    pub(crate) fn start(&self) -> Result<Vec<u32>, Fail> {
        let start = self.defaults.decoder_start.or(self.defaults.bos).or(self.defaults.pad);
        start.map(|id| vec![id]).ok_or_else(|| {
            let what = format!("{}: nothing says with which token a target begins", self.path.display());
            Fail::usage(what, "add decoder_start_token_id to generation_config.json")
        })
    }

    /// How many tokens to say after `prompt` of them: what was asked for, or what the model says, as far as there is room.
    pub(crate) fn max_tokens(&self, asked: Option<usize>, prompt: usize, otherwise: usize) -> Result<usize, Fail> {
        let room = CausalLm::context(&self.net.model).map_or(usize::MAX, |context| context.saturating_sub(prompt));
        if room == 0 {
            let context = CausalLm::context(&self.net.model).unwrap_or(0);
            let what =
                format!("the prompt is {prompt} tokens long, but the context holds {context}: nothing can follow");
            return Err(Fail::usage(what, "shorten the prompt, or let --truncate left drop its beginning"));
        }
        if let Some(asked) = asked {
            if asked > room {
                let what =
                    format!("--max-tokens {asked} after {prompt} tokens exceeds the context of {}", prompt + room);
                return Err(Fail::usage(
                    what,
                    format!("ask for at most {room}, or let --truncate left drop the beginning"),
                ));
            }
            return Ok(asked);
        }
        let said = self.defaults.max_new_tokens;
        let by_length = || self.defaults.max_length.map(|n| n.saturating_sub(prompt)).filter(|n| *n > 0);
        Ok(said.or_else(by_length).unwrap_or(otherwise).clamp(1, room))
    }
}

fn has_tokenizer(dir: &Path) -> bool {
    let names = ["tokenizer.json", "source.spm", "merges.txt", "vocab.txt", "spiece.model", "tokenizer.model"];
    names.iter().any(|name| dir.join(name).is_file())
}

/// `5,6,7` as ids.
pub(crate) fn ids(text: &str) -> Result<Vec<u32>, Fail> {
    let one = |part: &str| {
        part.trim().parse::<u32>().map_err(|_| {
            Fail::usage(
                format!("--ids: `{}` is no token id", part.trim()),
                "write whole numbers with commas: --ids 5,6,7",
            )
        })
    };
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    text.split([',', ' ']).filter(|p| !p.trim().is_empty()).map(one).collect()
}

/// The lines of a file, or of stdin for `-`.
pub(crate) fn lines(path: &Path) -> Result<Vec<String>, Fail> {
    let read = if path == Path::new("-") {
        let mut bytes = vec![];
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let place = path.display().to_string();
    let bytes = read.map_err(|e| Fail::usage(format!("{place}: {e}"), "check the path"))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Fail::usage(format!("{place}, line {line}: byte {} is not UTF-8", e.valid_up_to()), "save the file as UTF-8")
    })?;
    Ok(text.lines().map(str::to_string).collect())
}

/// How rows of logits are bent and tokens are picked.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Chain")]
pub(crate) struct ChainArgs {
    /// The whole chain in its order, such as "dry 0.8, top_k 40, top_p 0.95, temperature 0.7"; `help` lists all steps
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
    /// The chain that all of this comes to, on top of the model's own rules.
    pub(crate) fn chain(&self, defaults: &Defaults) -> Result<Chain, Fail> {
        if let Some(text) = &self.chain {
            let mut chain: Chain = text.parse()?;
            if self.greedy {
                chain.pick = Pick::Greedy;
            }
            return Ok(chain);
        }
        let shape = [
            ("temperature", &self.temperature),
            ("top_k", &self.top_k),
            ("top_p", &self.top_p),
            ("min_p", &self.min_p),
        ];
        let rules = [
            ("repetition_penalty", &self.repetition_penalty),
            ("no_repeat_ngram", &self.no_repeat_ngram),
            ("min_new_tokens", &self.min_tokens),
        ];
        let given = |flags: &[(&str, &Option<String>)]| -> Vec<String> {
            flags.iter().filter_map(|(name, value)| value.as_ref().map(|v| format!("{name} {v}"))).collect()
        };
        let (shape, rules) = (given(&shape), given(&rules));
        let preset: Option<Preset> = self.preset.as_deref().map(str::parse).transpose()?;
        let drawn = !self.greedy && (defaults.sample || preset.is_some() || !shape.is_empty() || self.draws());
        let name = |step: &str| step.split_whitespace().next().unwrap_or_default().to_string();
        let mut flags: Vec<String> = vec![];
        flags.extend(rules);
        flags.extend(shape);
        flags.extend(self.step.iter().cloned());
        // What the person says stands in the place of what the model says.
        let said: Vec<String> = flags.iter().map(|f| name(f)).collect();
        let own = if preset.is_none() && drawn { defaults.shape.clone() } else { vec![] };
        flags.extend(own.into_iter().chain(defaults.rules.clone()).filter(|step| !said.contains(&name(step))));
        if !drawn {
            flags.push("greedy".into());
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut chain = preset.unwrap_or(Preset::Hf).with(&flags)?;
        if !drawn && preset.is_none() {
            // Greedy needs none of the preset's defaults; what was asked for stays, and is told if it does nothing.
            chain.steps.retain(|step| {
                said.contains(&name(&step.to_string()))
                    || defaults.rules.iter().any(|r| name(r) == name(&step.to_string()))
            });
        }
        Ok(chain)
    }

    /// Whether a step that was asked for makes sense only when drawing.
    fn draws(&self) -> bool {
        let greedy = self.step.iter().any(|s| s.trim() == "greedy");
        let rule = |s: &String| {
            let rules =
                ["forced", "suppress", "bad_words", "no_repeat", "min_", "repetition", "encoder_", "logit_bias"];
            rules.iter().any(|r| s.trim().starts_with(r))
        };
        !greedy && self.step.iter().any(|s| !rule(s))
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
    pub(crate) n_best: Option<usize>,
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
    pub(crate) coverage: Option<f64>,
    /// Begin every answer with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The same in ids
    #[arg(long, value_name = "IDS", conflicts_with = "prefix")]
    prefix_ids: Option<String>,
}

impl BeamArgs {
    /// The beam search that this asks for, or none. `otherwise` is the width where nothing says it.
    pub(crate) fn search(&self, speaker: &Speaker, otherwise: usize) -> Result<Option<Beam>, Fail> {
        let d = &speaker.defaults;
        let width = self.beam.or(d.beams).unwrap_or(otherwise);
        let width = if self.beam.is_none() {
            width.max(self.n_best.unwrap_or(1)).max(self.diverse.unwrap_or(1))
        } else {
            width
        };
        let searched = self.beam.is_some() || width > 1 || self.prefix.is_some() || self.prefix_ids.is_some();
        if !searched {
            return match self.only_for_beams() {
                Some(flag) => Err(Fail::usage(format!("{flag} is for beam search"), "add --beam 4, or leave it out")),
                None => Ok(None),
            };
        }
        let alpha = self.length_penalty.or(d.length_penalty).unwrap_or(1.0);
        let prefix = match (&self.prefix, &self.prefix_ids) {
            (Some(text), _) => Some(speaker.tokenizer()?.encode_target(text, false)?.ids),
            (None, Some(list)) => Some(ids(list)?),
            (None, None) => None,
        };
        if self.coverage.is_some() && !speaker.is_pair() {
            return Err(Fail::usage("--coverage is for models that read a source", "leave it out"));
        }
        let search = Beam {
            n_best: self.n_best.or(d.n_best.filter(|n| *n <= width)).unwrap_or(1),
            length: if self.wu { Length::Wu(alpha) } else { Length::Power(alpha) },
            early: match self.early_stopping.as_deref().or(d.early_stopping.as_deref()) {
                Some("true") => Early::Full,
                Some("never") => Early::Certain,
                _ => Early::Estimate,
            },
            patience: self.patience.unwrap_or(1.0),
            coverage: self.coverage,
            groups: self.diverse.unwrap_or(1),
            diversity: self.diversity,
            constraint: prefix.map(Constraint::Starts),
            ..Beam::new(width)
        };
        search.check()?;
        Ok(Some(search))
    }

    fn only_for_beams(&self) -> Option<&'static str> {
        let given = [
            (self.length_penalty.is_some(), "--length-penalty"),
            (self.wu, "--wu"),
            (self.early_stopping.is_some(), "--early-stopping"),
            (self.patience.is_some(), "--patience"),
            (self.coverage.is_some(), "--coverage"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// Set by Ctrl-C.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on Ctrl-C asks instead of kills; asked a second time it kills.
pub(crate) fn catch_interrupts() {
    use signal_hook::{consts::SIGINT, flag};
    static ONCE: Once = Once::new();
    // Refused only where there are no signals: then Ctrl-C ends the program, as everywhere.
    ONCE.call_once(|| {
        let _ = flag::register_conditional_shutdown(SIGINT, 130, INTERRUPTED.clone());
        let _ = flag::register(SIGINT, INTERRUPTED.clone());
    });
}

/// Whether Ctrl-C was pressed since the last time that was forgotten.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Forgets a Ctrl-C: the answer was stopped, the program goes on.
pub(crate) fn forget_interrupt() {
    INTERRUPTED.store(false, Ordering::SeqCst);
}
