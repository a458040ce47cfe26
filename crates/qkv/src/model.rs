//! A model that answers with text: the front door of everything that is not training.

use crate::raw;
use qkv_base::{Error, Result, Task};
use qkv_decode::{Chain, End};
use qkv_tasks::answer::{self, Found};
use qkv_tasks::chain::{BeamOptions, ChainOptions};
use qkv_tasks::classify::{self, ClassifyInput, Label};
use qkv_tasks::embed::{self, Pooling};
use qkv_tasks::fill::{self, Candidate};
use qkv_tasks::generate::{Generation, Search, Written};
use qkv_tasks::likelihood::{self, TextOrIds};
use qkv_tasks::tag::{self, TaggedSpan};
use qkv_tasks::translate::translation;
use qkv_tasks::{Silent, TextModel, image, zero_shot};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

/// How many rows go through a network at once.
const ROWS: usize = 32;

/// A model with its tokenizer, ready to be asked. Cloning is cheap: the weights are shared.
#[derive(Clone)]
pub struct Model {
    inner: Arc<TextModel>,
}

/// A text that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// the text itself
    pub text: String,
    /// its tokens
    pub ids: Vec<u32>,
    /// how good the search thinks it is
    pub score: f64,
    /// log P of all its tokens
    pub logprob: f64,
    /// why it ended
    pub end: End,
}

impl From<Written> for Text {
    fn from(written: Written) -> Self {
        let Written { ids, text, score, logprob, end, .. } = written;
        Self { text: text.unwrap_or_default(), ids, score, logprob, end }
    }
}

/// How probable a text is.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// each token with its log-probability
    pub tokens: Vec<(String, f64)>,
    /// their sum
    pub logprob: f64,
    /// `e^(−mean)`
    pub perplexity: f64,
}

impl Model {
    /// Loads a run of qkv, a Hugging Face directory, a safetensors, PyTorch or GGUF file, or an adapter over its base.
    ///
    /// ```
    /// let missing = qkv::Model::load("no/such/model").err().unwrap();
    /// assert!(missing.to_string().contains("no/such/model"));
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { inner: Arc::new(raw::load(path.as_ref())?) })
    }

    /// What was not as expected when it was loaded: tensors that are not used, wishes of its files that are not done.
    pub fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    /// What it can be asked; none for a network without a head, which can embed.
    pub fn task(&self) -> Option<Task> {
        self.inner.task()
    }

    /// The family of the network, such as `bert`.
    pub fn family(&self) -> &'static str {
        self.inner.network.sheet.name
    }

    /// The network and everything beside it.
    pub fn raw(&self) -> &TextModel {
        &self.inner
    }

    /// The classes of each text, most probable first.
    pub fn classify<S: AsRef<str>>(&self, texts: &[S]) -> Result<Vec<Vec<Label>>> {
        let inputs: Vec<ClassifyInput> = texts.iter().map(|t| ClassifyInput::from(t.as_ref())).collect();
        classify::classify(&self.inner, &inputs, ROWS, &mut Silent)
    }

    /// These labels for each text, most probable first, by a language model's own scores; `prompt` is a sentence such as
    /// `{text} It was {label}.`
    pub fn zero_shot<S: AsRef<str>>(&self, texts: &[S], labels: &[&str], prompt: &str) -> Result<Vec<Vec<Label>>> {
        let texts: Vec<String> = texts.iter().map(|t| t.as_ref().to_string()).collect();
        let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        zero_shot::zero_shot(&self.inner, &texts, &labels, prompt, &mut Silent)
    }

    /// The classes of each pair of texts, most probable first.
    pub fn classify_pairs<S: AsRef<str>>(&self, pairs: &[(S, S)]) -> Result<Vec<Vec<Label>>> {
        let pair = |(a, b): &(S, S)| ClassifyInput::Pair(a.as_ref().into(), b.as_ref().into());
        classify::classify(&self.inner, &pairs.iter().map(pair).collect::<Vec<_>>(), ROWS, &mut Silent)
    }

    /// The entities of each text.
    pub fn tag<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<TaggedSpan>>> {
        tag::entities(&self.inner, texts, ROWS, &mut Silent)
    }

    /// Every word of each text with its label.
    pub fn tag_words<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<TaggedSpan>>> {
        tag::words(&self.inner, texts, ROWS, &mut Silent)
    }

    /// The best answer to each `(question, context)`; none where the context is empty of any.
    pub fn answer<S: AsRef<str>>(&self, questions: &[(S, S)]) -> Result<Vec<Option<Found>>> {
        let one = |(question, context): &(S, S)| {
            let ask = answer::AnswerOptions::default();
            let found = answer::answer(&self.inner, question.as_ref(), context.as_ref(), ask, &mut Silent)?;
            Ok(found.into_iter().next())
        };
        questions.iter().map(one).collect()
    }

    /// The `top` candidates for each `[MASK]` of each text: `[text][gap][candidate]`.
    pub fn fill<S: AsRef<str>>(&self, texts: &[S], top: usize) -> Result<Vec<Vec<Vec<Candidate>>>> {
        fill::fill(&self.inner, texts, top, ROWS, &mut Silent)
    }

    /// A vector for each text, pooled and normalised as the directory says.
    pub fn embed<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<f32>>> {
        embed::embed(&self.inner, texts, embed::EmbedOptions::default(), ROWS, &mut Silent)
    }

    /// A vector for each text, pooled so.
    pub fn embed_by<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        pooling: Pooling,
        normalize: bool,
    ) -> Result<Vec<Vec<f32>>> {
        let ask = embed::EmbedOptions { pooling: Some(pooling), normalize };
        embed::embed(&self.inner, texts, ask, ROWS, &mut Silent)
    }

    /// The classes of each picture file, most probable first.
    pub fn image<P: AsRef<Path>>(&self, files: &[P]) -> Result<Vec<Vec<Label>>> {
        image::classify(&self.inner, files, ROWS, &mut Silent)
    }

    /// How probable a text is; for a model that reads a source, use [`Model::score_after`].
    pub fn score(&self, text: &str) -> Result<Score> {
        self.scored(text, None)
    }

    /// How probable a text is after a source.
    pub fn score_after(&self, source: &str, text: &str) -> Result<Score> {
        self.scored(text, Some(TextOrIds::Text(source.into())))
    }

    fn scored(&self, text: &str, source: Option<TextOrIds>) -> Result<Score> {
        let score = likelihood::likelihood(&self.inner, &TextOrIds::Text(text.into()), source.as_ref())?;
        let tokens = score.tokens.iter().map(|t| (self.inner.piece(t.id), t.logprob)).collect();
        Ok(Score { tokens, logprob: score.logprob, perplexity: score.perplexity })
    }

    /// The scores of the next token at each position of `ids`, `[T][V]`, or what the model's head answers there.
    pub fn logits(&self, ids: &[u32]) -> Result<Vec<Vec<f32>>> {
        use qkv_model::{CausalLm, Encoder, Tokens};
        let (network, tokens) = (&self.inner.network.model, Tokens::new(qkv_kernels::Ids::one(ids.to_vec())));
        if self.inner.is_pair() {
            let hint = "use `Model::raw` with its `encode` and `decode`, or `score_after`";
            return Err(Error::new("logits", "this model reads a source and writes a target", hint));
        }
        let cx = &mut qkv_nn::Cx::eval();
        let answer = match self.inner.spec().decoder() {
            Some(_) => network.logits(&tokens, cx)?,
            None => network.answer(&tokens, cx)?,
        };
        let width = answer.dims()[2];
        let wrong = |e| Error::new("logits", format!("{e:?}"), "");
        let values = answer.into_data().try_into_vec::<f32>().map_err(wrong)?;
        Ok(values.chunks(width.max(1)).map(<[f32]>::to_vec).collect())
    }

    /// Translations of each text, `[text][n best]`; blank texts have none.
    pub fn translate<S: AsRef<str>>(&self, texts: &[S], how: &Translate) -> Result<Vec<Vec<Text>>> {
        let generation = translation(&self.inner, &how.chain, &how.beam)?;
        let generation = Generation { max_tokens: how.max_tokens, ..generation };
        let encode = |text: &S| match text.as_ref().trim() {
            "" => Ok(vec![]),
            _ => self.inner.encode(text.as_ref()),
        };
        let mut sources: Vec<Vec<u32>> = texts.iter().map(encode).collect::<Result<_>>()?;
        generation.fit("text", &mut sources, false, &mut |_| {})?;
        let mut all = vec![];
        for batch in sources.chunks(ROWS / 2) {
            let real: Vec<Vec<u32>> = batch.iter().filter(|s| !s.is_empty()).cloned().collect();
            let written = match real.is_empty() {
                true => vec![],
                false => generation.run(&real, all.len() as u64, &mut |_, _, _| Ok(()), &|| false)?.0,
            };
            let mut written = written.into_iter();
            for source in batch {
                let texts = if source.is_empty() { vec![] } else { written.next().unwrap_or_default() };
                all.push(texts.into_iter().map(Text::from).collect());
            }
        }
        Ok(all)
    }

    /// Continues a prompt; see [`Generate`] for how.
    pub fn generate(&self, prompt: &str) -> Generate {
        Generate {
            model: self.clone(),
            prompt: prompt.into(),
            chain: ChainOptions::default(),
            beam: None,
            n: 1,
            max_tokens: None,
            seed: 0,
            stops: vec![],
        }
    }
}

/// How to translate: by a beam of 4 unless something else is said.
#[derive(Clone, Debug, Default)]
pub struct Translate {
    chain: ChainOptions,
    beam: BeamOptions,
    max_tokens: Option<usize>,
}

impl Translate {
    /// By a beam of this width.
    pub fn beam(width: usize) -> Self {
        Self { beam: BeamOptions { width: Some(width), ..BeamOptions::default() }, ..Self::default() }
    }

    /// The most probable token each time.
    pub fn greedy() -> Self {
        Self { chain: ChainOptions { greedy: true, ..ChainOptions::default() }, ..Self::beam(1) }
    }

    /// The `n` best of each.
    pub fn n_best(mut self, n: usize) -> Self {
        self.beam.n_best = Some(n);
        self
    }

    /// α: log-probabilities are divided by length^α.
    pub fn length_penalty(mut self, alpha: f64) -> Self {
        self.beam.length_penalty = Some(alpha);
        self
    }

    /// The most tokens of a translation.
    pub fn max_tokens(mut self, n: usize) -> Self {
        self.max_tokens = Some(n);
        self
    }
}

/// How to continue a prompt; [`run`](Generate::run) waits for all of it, [`stream`](Generate::stream) hands it out as it
/// comes.
#[derive(Clone)]
pub struct Generate {
    model: Model,
    prompt: String,
    chain: ChainOptions,
    beam: Option<usize>,
    n: usize,
    max_tokens: Option<usize>,
    seed: u64,
    stops: Vec<String>,
}

impl Generate {
    /// The whole chain in its order, such as `"dry 0.8, top_k 40, temperature 0.7"`.
    pub fn chain(mut self, steps: &str) -> Result<Self> {
        steps.parse::<Chain>()?;
        self.chain.chain = Some(steps.into());
        Ok(self)
    }

    /// The most probable token each time.
    pub fn greedy(mut self) -> Self {
        self.chain.greedy = true;
        self
    }

    /// The best of this many continuations side by side.
    pub fn beam(mut self, width: usize) -> Self {
        self.beam = Some(width);
        self
    }

    /// So many continuations.
    pub fn n(mut self, n: usize) -> Self {
        self.n = n;
        self
    }

    /// The most tokens.
    pub fn max_tokens(mut self, n: usize) -> Self {
        self.max_tokens = Some(n);
        self
    }

    /// Decides what is random: the same seed gives the same text.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Ends at this text, which is not said.
    pub fn stop(mut self, text: &str) -> Self {
        self.stops.push(text.into());
        self
    }

    /// The continuations, best first.
    pub fn run(self) -> Result<Vec<Text>> {
        self.told(&mut |_| Ok(()), &AtomicBool::new(false))
    }

    fn told(&self, hear: &mut dyn FnMut(&str) -> Result<()>, stop: &AtomicBool) -> Result<Vec<Text>> {
        let model = &*self.model.inner;
        let beam = BeamOptions { width: self.beam, n_best: self.beam.map(|_| self.n), ..BeamOptions::default() };
        let search = match self.beam {
            Some(_) => beam.search(model, 1)?.map_or(Search::Sample { n: 1 }, Search::Beam),
            None => Search::Sample { n: self.n.max(1) },
        };
        let by = Generation::by(model, self.chain.chain(&model.defaults)?, search)?;
        let (max_tokens, seed, stops) = (self.max_tokens, self.seed, self.stops.clone());
        let generation = Generation { max_tokens, seed, stops, ..by };
        let mut prompts = [model.encode(&self.prompt)?];
        generation.fit("prompt", &mut prompts, false, &mut |_| {})?;
        let stopped = || stop.load(Ordering::Relaxed);
        let (written, _) = generation.run(&prompts, 0, &mut |_, _, text| hear(text), &stopped)?;
        Ok(written.into_iter().flatten().map(Text::from).collect())
    }

    /// The continuation piece by piece, as it becomes certain. Dropping the stream stops the writing.
    pub fn stream(self) -> Result<Stream> {
        if self.beam.is_some() || self.n > 1 {
            let what = "one continuation can be handed out as it comes, a beam or several cannot";
            return Err(Error::new("stream", what, "leave out `beam` and `n`, or use `run`"));
        }
        let (send, pieces) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        std::thread::spawn(move || {
            let told = self.told(
                &mut |text| {
                    let gone = |_| Error::new("stream", "nobody listens any more", "");
                    send.send(Ok(text.to_string())).map_err(gone)
                },
                &asked,
            );
            if let Err(error) = told {
                let _ = send.send(Err(error)); // nobody listens any more: then nobody misses it
            }
        });
        Ok(Stream { pieces, stop })
    }
}

/// Text as it is written.
pub struct Stream {
    pieces: mpsc::Receiver<Result<String>>,
    stop: Arc<AtomicBool>,
}

impl Iterator for Stream {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pieces.recv().ok()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
