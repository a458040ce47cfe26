//! From a recipe to everything that a run needs: corpus, tokenizer, objective, batches, network. Whatever cannot be is
//! said here, before the first step.

use crate::corpus::Splits;
use crate::optim::{Groups, Optimizer};
use crate::recipe::{Data, Goal, Model, Recipe};
use crate::schedule::Schedule;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use qkv_base::{Error, Result};
use qkv_data::batch::{Keep, Policy, Rows, Turn};
use qkv_data::objective::{
    Answer, Borders, Denoise, Frame, Labels, Masked, NextToken, Seq2Seq, SpanCorruption, Tag, Translate,
};
use qkv_data::{Corpus, Example, Loader, Objective, Side, Tokenize};
use qkv_model::families::{
    self, Config, Framing, Pictures, Pieces, Sheet, Sizes, TargetStart, TextStart, TokenizerShape,
};
use qkv_model::spec::{Head, Input, Pool, Spec};
use qkv_model::{Pretrained, Transformer};
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
    pub train: Loader,
    /// batches to validate by
    pub valid: Loader,
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
            task if task.has_labels() && !splits.labels.is_empty() => Labels::new(splits.labels.clone()),
            task if task.has_labels() => Labels::from_examples(&*splits.train)?,
            _ => Labels::default(),
        };
        if let (Goal::Classify | Goal::ClassifyPair | Goal::Image, [only]) = (recipe.data.objective, labels.names()) {
            let what = format!("there is one label only: `{only}`");
            return Err(Error::new(recipe.data.name(), what, "give examples of two classes or more"));
        }
        let device = Device::flex().autodiff();
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
        let channels = match pretrained.spec().input {
            Input::Patches { channels, .. } => channels,
            Input::Tokens { .. } => 0,
        };
        let length = room(&pretrained, recipe.data.length, &mut splits.notes);
        let asked = Asked { goal: recipe.data.objective, length, prefix: &recipe.data.prefix };
        let objective = asked.objective(pretrained.sheet, tokenizer.as_ref(), &labels, channels)?;
        let policy = policy(recipe);
        let seed = recipe.train.seed;
        let train = Loader::new(splits.train.clone(), objective.clone(), policy, seed)?;
        let straight = Policy { turn: Turn::Straight, ..policy };
        let valid = Loader::new(splits.valid.clone(), objective.clone(), straight, seed)?;
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
        let mut walk = Counted::default();
        self.pretrained.model.visit(&mut walk);
        (walk.learn, walk.all)
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
    let sheet = families::named(&recipe.model.family)?;
    let Some(tokenizing) = sheet.tokenizer else {
        let what = format!("a {} reads no text", sheet.name);
        return Err(Error::new("model.family", what, "choose a family that reads text"));
    };
    // Left empty, it is the family's own.
    let kind = match recipe.tokenizer.kind.as_str() {
        "" => pieces(tokenizing.pieces),
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
    let (shape, special) = tokenizer_shape(tokenizing.shape);
    let special = special.iter().map(|token| token.to_string()).collect();
    let base = TrainSpec::new(kind);
    // Some tens of thousands of lines know every word that is worth a piece.
    let spec = TrainSpec { shape, special, vocab_size: recipe.tokenizer.vocab, sample: Some(30_000), ..base };
    let lines =
        splits.iter().flat_map(|s| (&*s.train as &dyn Corpus).examples()).filter_map(Result::ok).flat_map(lines_of);
    Ok(qkv_text::train(lines, &spec, &mut |_| {})?.tokenizer)
}

fn pieces(pieces: Pieces) -> Kind {
    match pieces {
        Pieces::Bpe => Kind::Bpe,
        Pieces::WordPiece => Kind::WordPiece,
        Pieces::Unigram => Kind::Unigram,
    }
}

/// The shape of a new tokenizer, and special tokens besides those of the shape.
fn tokenizer_shape(shape: TokenizerShape) -> (qkv_text::Shape, &'static [&'static str]) {
    use qkv_text::Shape as S;
    match shape {
        TokenizerShape::EndOfText => (S::Gpt2, &[]),
        TokenizerShape::ClsSep => (S::Bert, &[]),
        TokenizerShape::Sentinels(sentinels) => (S::T5 { sentinels }, &[]),
        TokenizerShape::Ended => (S::Marian, &[]),
        TokenizerShape::Begun => (S::Llama, &[]),
        TokenizerShape::Listed(special) => (S::Plain, special),
    }
}

/// The frame of a family around one and two texts.
fn frame(framing: Framing, tokenizer: &dyn Tokenize) -> Result<Frame> {
    match framing {
        Framing::ClsSep { token_types } => Ok(Frame { token_types: token_types, ..Frame::bert(tokenizer)? }),
        Framing::SeparatedTwice => Frame::roberta(tokenizer),
        Framing::Ended => Frame::ended(tokenizer),
    }
}

/// The frames of a family that writes one text from another.
fn pair(sheet: &Sheet, source: &dyn Tokenize, target: &dyn Tokenize) -> Result<Seq2Seq> {
    match sheet.target_start {
        Some(TargetStart::Eos) => Seq2Seq::bart(source),
        Some(TargetStart::Pad) => Seq2Seq::t5(source, target),
        None => Err(missing("writes one text from another", sheet.name)),
    }
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
        sheet: &Sheet,
        tokenizer: Option<&Tokenizer>,
        labels: &Labels,
        channels: usize,
    ) -> Result<Objective> {
        let Self { goal, length, prefix } = self;
        let Some(tokenizer) = tokenizer else {
            return Ok(Objective::Pictures(qkv_data::objective::Pictures::vit(labels.clone(), channels)));
        };
        let source: Arc<dyn Tokenize> = Arc::new(Side::source(tokenizer));
        let target: Arc<dyn Tokenize> = Arc::new(Side::target(tokenizer));
        let frame = || frame(sheet.framing, &*source);
        let pair = || pair(sheet, &*source, &*target);
        let tokens = source.clone();
        Ok(match goal {
            Goal::NextToken => {
                let mut next = NextToken::new(tokens, length, Some(Borders::Open))?;
                next.begin = tokenizer.special().bos.filter(|_| sheet.text_start == TextStart::Bos);
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
            Goal::Classify | Goal::ClassifyPair => Objective::classify(tokens, frame()?, labels.clone(), length),
            Goal::Tag => Objective::Tag(Tag { tokenizer: tokens, frame: frame()?, labels: labels.clone(), length }),
            Goal::Answer => Objective::Answer(Answer::new(tokens, frame()?, length)),
            Goal::Image => return Err(missing("looks at pictures", sheet.name)),
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
    let sizes = sizes(recipe, tokenizer.map_or(0, Tokenizer::vocab_size), special.pad, labels, splits)?;
    let mut spec = (sheet.sizes)(&sizes)?;
    if let Some(head) = head(recipe.data.objective, sheet.pool, labels) {
        spec.head = head;
    }
    spec.check()?;
    let mut known = Config::new(sheet.name);
    let pairs = [("bos_token_id", special.bos), ("eos_token_id", special.eos), ("pad_token_id", special.pad)];
    for (key, id) in pairs {
        if let Some(id) = id {
            known.set(key, id);
        }
    }
    let start = match sheet.target_start {
        Some(TargetStart::Eos) => special.eos,
        Some(TargetStart::Pad) => special.pad,
        None => None,
    };
    if let (Some(start), Some(eos)) = (start, special.eos) {
        known.set("decoder_start_token_id", start);
        known.set("forced_eos_token_id", eos);
    }
    if !labels.is_empty() {
        known.set_labels(labels.names());
    }
    Pretrained::new(sheet, &spec, Some(&known), recipe.train.seed, device)
}

/// What the recipe says about the size of a new network; 0 is as good as nothing said.
fn sizes(recipe: &Recipe, vocabulary: usize, pad: Option<u32>, labels: &Labels, splits: &Splits) -> Result<Sizes> {
    let Model { width, layers, heads, kv_heads, inner, dropout, start, patch, .. } = recipe.model;
    let pictures = match recipe.data.objective {
        Goal::Image => {
            let (image, channels) = picture(splits)?;
            Some(Pictures { image, patch, channels })
        }
        _ if patch != Model::default().patch => {
            let what = "the corpus is text, which has no patches";
            return Err(Error::new("model.patch", what, "leave it out"));
        }
        _ => None,
    };
    Ok(Sizes {
        vocabulary,
        pad,
        width,
        layers,
        heads,
        kv_heads: (kv_heads > 0).then_some(kv_heads),
        inner: (inner > 0).then_some(inner),
        positions: recipe.data.length,
        dropout,
        std: (start > 0.0).then_some(start),
        pictures,
        labels: labels.len(),
    })
}

/// The head that an objective asks for, where the family's own will not do.
fn head(goal: Goal, pool: Pool, labels: &Labels) -> Option<Head> {
    let labels = labels.len();
    match goal {
        Goal::Classify | Goal::ClassifyPair | Goal::Image => Some(Head::Classify { labels, pool }),
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
        _ => Err(Error::new("data.corpus", "holds no pictures", "choose a corpus of pictures, or another objective")),
    }
}

/// A checkpoint, with a new head where the objective asks for one.
fn load(from: &Path, recipe: &Recipe, labels: &Labels, device: &Device) -> Result<Pretrained> {
    Pretrained::load_with(from, device, recipe.train.seed, |spec, config| {
        let pool = families::of(config)?.pool;
        let goal = recipe.data.objective;
        fits(goal, spec, &from.display().to_string())?;
        if let Some(head) = head(goal, pool, labels) {
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
        Goal::NextToken => (writes && !reads, "a decoder, which continues a text"),
        Goal::Translate | Goal::SpanCorruption | Goal::Denoise => {
            (reads && writes, "an encoder with a decoder, which reads one text and writes another")
        }
        Goal::Image => (pictures, "one that looks at pictures"),
        _ => (reads && !writes && !pictures, "an encoder, which reads text"),
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

/// Parameters whose path starts with one of `paths` do not learn; a path that nothing starts with is refused.
fn freeze(model: Transformer, paths: &[String]) -> Result<Transformer> {
    let all: Vec<String> = qkv_model::count::parameters(&model).into_iter().map(|p| p.path).collect();
    if let Some(lost) = paths.iter().find(|path| !all.iter().any(|p| p.starts_with(path.as_str()))) {
        let near = qkv_base::nearest(lost, all.iter().map(String::as_str)).unwrap_or_default();
        let what = format!("no parameter's path starts with `{lost}`");
        return Err(Error::new("model.freeze", what, format!("did you mean `{near}`?")));
    }
    let frozen = |path: &str| paths.iter().any(|p| path.starts_with(p.as_str()));
    Ok(if paths.is_empty() {
        model
    } else {
        model.map(&mut Learning { path: vec![], decide: |p: &str| frozen(p).then_some(false) })
    })
}

/// These parameters learn.
fn thaw(model: Transformer, paths: &[String]) -> Transformer {
    model.map(&mut Learning { path: vec![], decide: |path: &str| paths.iter().any(|p| p == path).then_some(true) })
}

/// Counts the numbers that learn.
#[derive(Default)]
struct Counted {
    learn: u64,
    all: u64,
}

impl ModuleVisitor for Counted {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let size = param.lazy_shape().num_elements() as u64;
        self.all += size;
        if param.val().is_require_grad() {
            self.learn += size;
        }
    }
}

/// Decides by path which parameters learn.
struct Learning<F> {
    path: Vec<String>,
    decide: F,
}

impl<F: Fn(&str) -> Option<bool>> ModuleMapper for Learning<F> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match (self.decide)(&self.path.join(".")) {
            Some(learns) => param.set_require_grad(learns),
            None => param,
        }
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

    /// A recipe of a small network of this family, with one more line about the network.
    fn small(family: &str, goal: &str, more: &str) -> Result<Plan> {
        let text = format!(
            "[data]\ncorpus = \"builtin:{}\"\nobjective = \"{goal}\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"\"\nvocab = 300\n[model]\nfamily = \"{family}\"\nwidth = 32\nlayers = 2\nheads = 4\n{more}\n\
             [train]\nrows = 4",
            if goal == "translate" { "en-it" } else { "stories" }
        );
        Plan::new(&Recipe::parse("test", &text)?, None)
    }

    /// What a family that reads text learns first.
    fn goal_of(sheet: &Sheet) -> &'static str {
        use qkv_model::families::Task;
        match sheet.architectures.iter().any(|(_, task)| *task == Task::Masked) {
            true => "masked",
            false if sheet.target_start.is_some() => "translate",
            false => "next-token",
        }
    }

    /// A new family needs its sheet alone: tokenizer, framing and network follow from it.
    #[test]
    fn every_family_that_reads_text_starts_from_a_recipe() {
        for sheet in families::ALL.iter().filter(|sheet| sheet.tokenizer.is_some()) {
            let plan = small(sheet.name, goal_of(sheet), "").unwrap_or_else(|e| panic!("{}: {e}", sheet.name));
            assert_eq!(plan.pretrained.sheet.name, sheet.name);
            assert_eq!(plan.pretrained.spec().vocabulary(), plan.tokenizer.map(|t| t.vocab_size()));
        }
    }

    #[test]
    fn sizes_are_honoured_or_refused_with_their_key() {
        let inner = |plan: Plan| plan.pretrained.spec().decoder().expect("a decoder").ffn.inner();
        for sheet in families::ALL.iter().filter(|s| s.tokenizer.is_some() && goal_of(s) != "masked") {
            assert_eq!(inner(small(sheet.name, goal_of(sheet), "inner = 48").expect("a plan")), 48, "{}", sheet.name);
        }
        let refused = |family: &str, goal: &str, more: &str| small(family, goal, more).err().expect("refused");
        assert_eq!(refused("bert", "masked", "kv_heads = 2").place, "model.kv_heads");
        assert_eq!(refused("gpt2", "next-token", "kv_heads = 2").place, "model.kv_heads");
        assert_eq!(refused("gpt2", "next-token", "patch = 8").place, "model.patch");
        assert!(small("llama", "next-token", "kv_heads = 2").is_ok());
        assert_eq!(refused("brt", "masked", "").hint.split('`').nth(1), Some("bert"));
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
