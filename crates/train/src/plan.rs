//! From a recipe to everything that a run needs: corpus, tokenizer, objective, batches, network. Whatever cannot be is
//! said here, before the first step.

use crate::corpus::Splits;
use crate::freeze::{freeze, hollow, learning, thaw};
use crate::recipe::{Data, Goal, Model, Recipe};
use crate::run::{Job, RunSettings};
use crate::schedule::Schedule;
use burn::tensor::Device;
use qkv_base::{Error, Result};
use qkv_data::batch::{Keep, Policy, Rows, Turn};
use qkv_data::objective::{
    Answer, Borders, Denoise, Frame, Labels, Masked, NextToken, Pictures, Seq2Seq, SpanCorruption, Tag, Translate,
};
use qkv_data::{Corpus, Example, Loader, Objective, Side, Tokenize};
use qkv_kernels::Activation;
use qkv_model::families::{self, Config};
use qkv_model::spec::{Dropout, Head, Input, Output, Pool, Position, Shape, Spec, Start};
use qkv_model::{Pretrained, Transformer, presets};
use qkv_nn::position::Waves;
use qkv_nn::{Ffn, device};
use qkv_optim::{Groups, Optimizer};
use qkv_text::{Kind, Tokenizer, TrainSpec};
use std::path::Path;
use std::sync::Arc;

/// Everything that a run needs.
pub struct Plan {
    /// the recipe
    pub recipe: Recipe,
    /// the corpus
    pub splits: Splits,
    /// text to ids; none for pictures
    pub tokenizer: Option<Tokenizer>,
    /// classes or tags, where there are any
    pub labels: Labels,
    /// what is to be learnt
    pub objective: Objective,
    /// batches to learn from
    pub train: Arc<Loader>,
    /// batches to validate by
    pub valid: Arc<Loader>,
    /// the network and its configuration
    pub pretrained: Pretrained,
    /// what the corpus is recognised by
    pub fingerprint: String,
}

impl Plan {
    /// Makes everything ready. A tokenizer in `kept` (of a run that is resumed) is taken instead of a new one.
    pub fn new(recipe: &Recipe, kept: Option<&Path>) -> Result<Self> {
        let mut splits = Splits::open(&recipe.data, recipe.train.seed)?;
        let from = Some(Path::new(&recipe.model.from)).filter(|p| !p.as_os_str().is_empty());
        let tokenizer = match recipe.data.objective {
            Goal::Image => None,
            _ => Some(tokenizer(recipe, &splits, kept, from)?),
        };
        let labels = match recipe.data.objective {
            Goal::Classify | Goal::Tag | Goal::Image if !splits.labels.is_empty() => Labels::new(splits.labels.clone()),
            Goal::Classify | Goal::Tag | Goal::Image => Labels::from_examples(&*splits.train)?,
            _ => Labels::default(),
        };
        if let (Goal::Classify | Goal::Image, [only]) = (recipe.data.objective, labels.names()) {
            let what = format!("there is one label only: `{only}`");
            return Err(Error::new(recipe.data.name(), what, "give examples of two classes or more"));
        }
        let device = device::trainable(&recipe.train.device)?;
        let mut pretrained = match from {
            Some(from) => load(from, recipe, &labels, &device)?,
            None => begin(recipe, &splits, tokenizer.as_ref(), &labels, &device)?,
        };
        if recipe.lora.rank > 0 {
            let targets: Vec<&str> = recipe.lora.targets.iter().map(String::as_str).collect();
            let lora = &recipe.lora;
            let model = pretrained.model.with_lora(&targets, lora.size(), recipe.train.seed)?;
            // A new head has nothing to be adapted from: it learns whole.
            let fresh = |target: &&&str| pretrained.report.fresh.iter().any(|path| path.starts_with(**target));
            if let Some(head) = targets.iter().find(fresh) {
                let what = format!("`{head}` is new and learns whole");
                return Err(Error::new("lora.targets", what, "leave it out"));
            }
            pretrained.model = thaw(model, &pretrained.report.fresh);
        }
        pretrained.model = freeze(pretrained.model, &recipe.model.freeze)?;
        let family = pretrained.sheet.name;
        let channels = match pretrained.spec().input {
            Input::Patches { channels, .. } => channels,
            Input::Tokens { .. } => 0,
        };
        let length = room(&pretrained, recipe.data.length, &mut splits.notes);
        let asked = Asked { goal: recipe.data.objective, length, prefix: &recipe.data.prefix };
        let objective = asked.objective(family, tokenizer.as_ref(), &labels, channels)?;
        let policy = policy(recipe);
        let seed = recipe.train.seed;
        let train = Arc::new(Loader::new(splits.train.clone(), objective.clone(), policy, seed)?);
        let straight = Policy { turn: Turn::Straight, ..policy };
        let valid = Arc::new(Loader::new(splits.valid.clone(), objective.clone(), straight, seed)?);
        let fingerprint = splits.fingerprint()?;
        let recipe = Recipe { data: Data { length, ..recipe.data.clone() }, ..recipe.clone() };
        Ok(Self { recipe, splits, tokenizer, labels, objective, train, valid, pretrained, fingerprint })
    }

    /// The learning rate of every step.
    pub fn schedule(&self) -> Schedule {
        let Recipe { train, optim, schedule, .. } = &self.recipe;
        Schedule {
            curve: schedule.curve,
            rate: optim.rate,
            warmup: schedule.warmup,
            floor: schedule.floor,
            steps: train.steps,
            width: self.pretrained.spec().width,
        }
    }

    /// How many numbers learn, and how many there are, adapters included.
    pub fn learning(&self) -> (u64, u64) {
        learning(&self.pretrained.model)
    }

    /// What a run of this plan is made of. The network is handed over: what the plan keeps of it has no weights, so that
    /// those of the start do not stay in memory all the way.
    pub fn job(&mut self) -> Result<Job<Transformer>> {
        let empty = hollow(&self.pretrained.model);
        Ok(Job {
            optimizer: self.optimizer()?,
            schedule: self.schedule(),
            network: std::mem::replace(&mut self.pretrained.model, empty),
            train: self.train.clone(),
            valid: self.valid.clone(),
            data: self.fingerprint.clone(),
            settings: RunSettings::of(&self.recipe),
        })
    }

    /// A new optimiser.
    pub fn optimizer(&self) -> Result<Optimizer> {
        let optim = &self.recipe.optim;
        let spec = self.pretrained.spec();
        let layers = spec.decoder().or(spec.encoder()).map_or(0, |s| s.layers);
        let groups = Groups::NoDecayOnNorms { layer_rate: optim.layer_rate, layers };
        Ok(Optimizer::with(self.recipe.rule()?, optim.decay, (optim.clip > 0.0).then_some(optim.clip), groups))
    }
}

fn policy(recipe: &Recipe) -> Policy {
    let rows = match recipe.train.tokens {
        0 => Rows::Fixed(recipe.train.rows),
        tokens => Rows::Tokens(tokens),
    };
    // Rows of one length need no looking for their like.
    let window = if recipe.data.objective == Goal::NextToken { 1 } else { 4096 };
    // None are made ahead: with all tokens in memory a batch takes 0.02 to 0.14 ms of steps of 90 to 990 ms (translate, gpt,
    // sentiment, bert, vit, bart), and another thread would take its time from those that compute.
    Policy { rows, turn: Turn::Shuffled { window }, keep: Keep::Tokens, ahead: 0, ..Policy::default() }
}

fn tokenizer(recipe: &Recipe, splits: &Splits, kept: Option<&Path>, from: Option<&Path>) -> Result<Tokenizer> {
    let there = Some(Path::new(&recipe.tokenizer.path)).filter(|p| !p.as_os_str().is_empty());
    match kept.or(there).or(from) {
        Some(path) => Tokenizer::load(path),
        None => learn_tokenizer(recipe, &[splits]),
    }
}

/// The tokenizer of two recipes that are run one after the other: of the first one's kind, learnt from the texts of both,
/// so that the second finds its words whole.
pub fn shared_tokenizer(first: &Recipe, second: &Recipe) -> Result<Tokenizer> {
    let [a, b] = [first, second].map(|r| Splits::open(&r.data, r.train.seed));
    learn_tokenizer(first, &[&a?, &b?])
}

fn learn_tokenizer(recipe: &Recipe, splits: &[&Splits]) -> Result<Tokenizer> {
    let kind = match recipe.tokenizer.kind.as_str() {
        "unigram" => Kind::Unigram,
        "bpe" => Kind::Bpe,
        "wordpiece" => Kind::WordPiece,
        "char" => Kind::Char,
        other => {
            let names = ["unigram", "bpe", "wordpiece", "char"];
            let near = qkv_base::nearest(other, names).unwrap_or_default();
            let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
            return Err(Error::new("tokenizer.kind", format!("there is no kind `{other}`"), hint));
        }
    };
    use qkv_text::Shape as S;
    let (shape, special) = match recipe.model.family.as_str() {
        "gpt2" => (S::Gpt2, vec![]),
        "llama" => (S::Llama, vec![]),
        "bert" | "distilbert" => (S::Bert, vec![]),
        "t5" => (S::T5 { sentinels: 32 }, vec![]),
        "bart" | "roberta" => (S::Plain, vec!["<s>", "<pad>", "</s>", "<unk>", "<mask>"]),
        _ => (S::Marian, vec![]),
    };
    let special = special.into_iter().map(String::from).collect();
    let base = TrainSpec::new(kind);
    // Some tens of thousands of lines know every word that is worth a piece.
    let spec = TrainSpec { shape, special, vocab_size: recipe.tokenizer.vocab, sample: Some(30_000), ..base };
    let lines =
        splits.iter().flat_map(|s| (&*s.train as &dyn Corpus).examples()).filter_map(Result::ok).flat_map(lines_of);
    Ok(qkv_text::train(lines, &spec, &mut |_| {})?.tokenizer)
}

/// The lines that a tokenizer learns from. A long document gives its own lines, with their ends.
fn lines_of(example: Example) -> Vec<String> {
    match example {
        Example::Pair { source, target } => vec![source, target],
        Example::LabelledPair { first, second, .. } => vec![first, second],
        Example::Question { context, question, .. } => vec![context, question],
        Example::Text(text) if text.len() > 10_000 => text.split_inclusive('\n').map(String::from).collect(),
        other => vec![other.text().into_owned()],
    }
}

/// The tokens of a row: as asked for, or as many as the network has positions, which is noted.
fn room(it: &Pretrained, asked: usize, notes: &mut Vec<String>) -> usize {
    match it.spec().position.max() {
        Some(most) if most < asked && matches!(it.spec().input, Input::Tokens { .. }) => {
            notes.push(format!("rows are cut to {most} tokens: the network has no more positions"));
            most
        }
        _ => asked,
    }
}

fn missing(what: &str, family: &str) -> Error {
    Error::new("data.objective", format!("{what}, which a {family} network does not do"), "choose another model.family")
}

/// What is asked of a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) goal: Goal,
    pub(crate) length: usize,
    pub(crate) prefix: &'a str,
}

impl Asked<'_> {
    /// The objective, in the frame of the family.
    pub(crate) fn objective(
        self,
        family: &str,
        tokenizer: Option<&Tokenizer>,
        labels: &Labels,
        channels: usize,
    ) -> Result<Objective> {
        let Self { goal, length, prefix } = self;
        let Some(tokenizer) = tokenizer else {
            return Ok(Objective::Pictures(Pictures::vit(labels.clone(), channels)));
        };
        let source: Arc<dyn Tokenize> = Arc::new(Side::source(tokenizer));
        let target: Arc<dyn Tokenize> = Arc::new(Side::target(tokenizer));
        let frame = || match family {
            "roberta" | "bart" => Frame::roberta(&*source),
            "t5" | "marian" | "gpt2" | "llama" => Frame::ended(&*source),
            _ => Frame::bert(&*source),
        };
        let pair = || match family {
            "bart" => Seq2Seq::bart(&*source),
            "marian" | "t5" => Seq2Seq::t5(&*source, &*target),
            _ => Err(missing("writes one text from another", family)),
        };
        let tokens = source.clone();
        Ok(match goal {
            Goal::NextToken => {
                let mut next = NextToken::new(tokens, length, Some(Borders::Open))?;
                next.begin = tokenizer.special().bos.filter(|_| family == "llama");
                Objective::NextToken(next)
            }
            Goal::Masked => Objective::Masked(Masked::bert(tokens, frame()?, length)?),
            Goal::SpanCorruption => Objective::SpanCorruption(SpanCorruption::t5(tokens, pair()?, length)?),
            Goal::Denoise => Objective::Denoise(Denoise::bart(tokens, pair()?, length)?),
            Goal::Translate => Objective::Translate(Translate {
                source: tokens,
                target: target.clone(),
                family: pair()?,
                prefix: prefix.to_string(),
                source_length: length,
                target_length: length,
            }),
            Goal::Classify => Objective::classify(tokens, frame()?, labels.clone(), length),
            Goal::Tag => Objective::Tag(Tag { tokenizer: tokens, frame: frame()?, labels: labels.clone(), length }),
            Goal::Answer => Objective::Answer(Answer::new(tokens, frame()?, length)),
            Goal::Image => return Err(missing("looks at pictures", family)),
        })
    }
}

/// A network drawn by chance.
fn begin(
    recipe: &Recipe,
    splits: &Splits,
    tokenizer: Option<&Tokenizer>,
    labels: &Labels,
    device: &Device,
) -> Result<Pretrained> {
    let sheet = families::named(&recipe.model.family)?;
    let special = tokenizer.map(Tokenizer::special).unwrap_or_default();
    let spec = spec(recipe, sheet.name, tokenizer.map_or(0, Tokenizer::vocab_size), special.pad, labels, splits)?;
    let mut known = Config::new(sheet.name);
    let pairs = [("bos_token_id", special.bos), ("eos_token_id", special.eos), ("pad_token_id", special.pad)];
    for (key, id) in pairs {
        if let Some(id) = id {
            known.set(key, id);
        }
    }
    let start = if sheet.name == "bart" { special.eos } else { special.pad };
    if let (Some(start), Some(eos), true) = (start, special.eos, spec.encoder().is_some() && spec.decoder().is_some()) {
        known.set("decoder_start_token_id", start);
        known.set("forced_eos_token_id", eos);
    }
    if !labels.is_empty() {
        known.set_labels(labels.names());
    }
    Pretrained::new(sheet, &spec, Some(&known), recipe.train.seed, device)
}

fn spec(
    recipe: &Recipe,
    family: &str,
    vocab: usize,
    pad: Option<u32>,
    labels: &Labels,
    splits: &Splits,
) -> Result<Spec> {
    let Model { width, layers, heads, kv_heads, dropout, start, patch, .. } = recipe.model;
    let inner = if recipe.model.inner == 0 { 4 * width } else { recipe.model.inner };
    let max = recipe.data.length;
    let everywhere = Dropout { attention: dropout, ..Dropout::residual(dropout) };
    let mut spec = match family {
        "marian" => Spec {
            position: Position::Sinusoidal { max: max.max(512), waves: Waves::Halves },
            head: Head::Language { output: Output::Tied, bias: true },
            dropout: Dropout::residual(dropout),
            ..presets::paper(vocab, width, layers, heads, inner)
        },
        "bart" => {
            Spec { dropout: Dropout::residual(dropout), ..presets::bart(vocab, width, layers, heads, inner, max) }
        }
        "t5" => Spec {
            dropout: Dropout { inner: dropout, ..everywhere },
            ..presets::t5(vocab, width, layers, heads, inner)
        },
        "gpt2" => Spec { dropout: everywhere, ..presets::gpt2(vocab, width, layers, heads, max) },
        "llama" => {
            let kv = if kv_heads == 0 { heads } else { kv_heads };
            presets::llama(vocab, width, layers, heads, kv, inner, max)
        }
        "bert" => Spec { dropout: everywhere, ..presets::bert(vocab, width, layers, heads, max) },
        "vit" => {
            let (image, channels) = picture(splits)?;
            let spec = presets::vit(image, patch, width, layers, heads, labels.len());
            // A ViT's classifier has no dropout of its own.
            let dropout = Dropout { head: 0.0, ..everywhere };
            Spec { input: Input::Patches { image, patch, channels }, dropout, ..spec }
        }
        other => {
            let known = "there are marian, gpt2, llama, bert, t5, bart and vit";
            return Err(Error::new("model.family", format!("training `{other}` from scratch is not offered"), known));
        }
    };
    if let Input::Tokens { pad: place, .. } = &mut spec.input
        && !matches!(family, "gpt2" | "t5")
    {
        *place = pad;
    }
    if let (Shape::Encoder(stack), true) = (&mut spec.shape, recipe.model.inner > 0)
        && let Ffn::Dense { inner: held, .. } = &mut stack.ffn
    {
        *held = inner;
    }
    if let Some(head) = head(recipe.data.objective, family, labels) {
        spec.head = head;
    }
    spec.start = beginning(spec.start, start, width)?;
    spec.check()?;
    Ok(spec)
}

/// How weights start: as asked for, or by half of 1/√C where the family says a deviation.
///
/// The papers' 0.02 is that for their widths (0.018 at 768); a narrow network learns slowly from it: a BERT of 256 foretold
/// 57 % of the hidden pieces after 1,500 steps, and 67 % from 0.031. Glorot's start of the 2017 paper is too loud for a
/// residual stream behind norms: after 700 steps on Tatoeba, 256 wide, the validation loss was 3.23 from it, 2.90 from
/// 0.02, 2.70 from 0.031. T5's start knows the width already.
fn beginning(family: Start, asked: f64, width: usize) -> Result<Start> {
    let std = if asked > 0.0 { asked } else { 0.5 / (width as f64).sqrt() };
    match family {
        Start::T5 if asked == 0.0 => Ok(Start::T5),
        Start::T5 => Err(Error::new("model.start", "each matrix of a t5 starts by its own width", "leave it at 0")),
        Start::Gpt2 { .. } => Ok(Start::Gpt2 { std }),
        _ => Ok(Start::Normal { std }),
    }
}

/// The head that an objective asks for, where the family's own will not do.
fn head(goal: Goal, family: &str, labels: &Labels) -> Option<Head> {
    let labels = labels.len();
    let pool = if matches!(family, "vit") { Pool::First } else { Pool::Dense(Activation::Tanh) };
    match goal {
        Goal::Classify => Some(Head::Classify { labels, pool }),
        Goal::Image => Some(Head::Classify { labels, pool: Pool::First }),
        Goal::Tag => Some(Head::Tag { labels }),
        Goal::Answer => Some(Head::Span),
        _ => None,
    }
}

fn picture(splits: &Splits) -> Result<(usize, usize)> {
    match splits.train.get(0)? {
        Example::Image { width, height, channels, .. } if width == height => Ok((width, channels)),
        Example::Image { width, height, .. } => {
            let what = format!("pictures of {width} × {height} are not square");
            Err(Error::new("data.corpus", what, "bring them to one square size"))
        }
        _ => Err(Error::new("model.family", "a vit reads pictures, but the corpus is text", "choose another family")),
    }
}

/// A checkpoint, with a new head where the objective asks for one.
fn load(from: &Path, recipe: &Recipe, labels: &Labels, device: &Device) -> Result<Pretrained> {
    Pretrained::load_with(from, device, recipe.train.seed, |spec, config| {
        let family = config.word("model_type")?.unwrap_or_default().to_string();
        let goal = recipe.data.objective;
        fits(goal, spec, &from.display().to_string())?;
        if let Some(head) = head(goal, &family, labels) {
            let same = config.labels()?.is_some_and(|known| known == labels.names());
            if spec.head != head || !same {
                spec.head = head;
                if !labels.is_empty() {
                    config.set_labels(labels.names());
                }
            }
        }
        Ok(())
    })
}

/// Refuses what a network cannot learn, whatever its head.
fn fits(goal: Goal, spec: &Spec, place: &str) -> Result<()> {
    let (reads, writes) = (spec.encoder().is_some(), spec.decoder().is_some());
    let pictures = matches!(spec.input, Input::Patches { .. });
    let (fits, wants) = match goal {
        Goal::NextToken => (writes && !reads, "one that writes, as gpt2 and llama do"),
        Goal::Translate | Goal::SpanCorruption | Goal::Denoise => {
            (reads && writes, "one that reads and writes, as marian, bart and t5 do")
        }
        Goal::Image => (pictures, "one that looks at pictures, as vit does"),
        _ => (reads && !writes && !pictures, "one that reads text, as bert does"),
    };
    let is = match (pictures, reads, writes) {
        (true, ..) => "looks at pictures",
        (_, true, true) => "reads one text and writes another",
        (_, true, _) => "reads text",
        _ => "writes text",
    };
    match fits {
        true => Ok(()),
        false => Err(Error::new(place, format!("the network {is}; this task wants {wants}"), "choose another of both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_model::pretrained::Values;

    /// The deviation that the token table has at the start.
    fn spread(family: &str, goal: &str, start: f64) -> Result<f64> {
        let text = format!(
            "[data]\ncorpus = \"builtin:{}\"\nobjective = \"{goal}\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nvocab = 300\n[model]\nfamily = \"{family}\"\nwidth = 64\nlayers = 1\nheads = 2\nstart = {start}\n\
             [train]\nrows = 4",
            if goal == "translate" { "en-it" } else { "stories" }
        );
        let plan = Plan::new(&Recipe::parse("test", &text)?, None)?;
        let table = Values::of(&plan.pretrained.model).read("tokens.weight");
        Ok((table.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / table.len() as f64).sqrt())
    }

    #[test]
    fn the_start_that_is_asked_for_is_the_start_of_the_weights() {
        let families =
            [("marian", "translate", 0.5 / 8.0), ("gpt2", "next-token", 0.5 / 8.0), ("bart", "denoise", 0.5 / 8.0)];
        for (family, goal, own) in families {
            for (asked, got) in [(0.0, own), (0.07, 0.07)] {
                let is = spread(family, goal, asked).unwrap();
                assert!((is / got - 1.0).abs() < 0.03, "{family} from {asked}: {is}, not {got}");
            }
        }
        assert!((spread("t5", "translate", 0.0).unwrap() - 1.0).abs() < 0.03, "a t5 knows its widths");
        assert_eq!(spread("t5", "translate", 0.02).unwrap_err().place, "model.start");
    }
}
