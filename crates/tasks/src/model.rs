//! A network with everything that stands beside it on disk: tokenizer, labels, how pictures become numbers, what it says
//! about generating. One way to open a model for every task.

use crate::locate::{self, Located};
use burn::tensor::Device;
use qkv_base::{Error, Result, Task};
use qkv_data::objective::{Frame, Normalisation};
use qkv_decode::Defaults;
use qkv_decode::pattern::TokenBytes;
use qkv_model::outputs::{Inputs, Output, OutputOptions, forward_outputs};
use qkv_model::spec::{Head, Input, Shape, Spec};
use qkv_model::{CausalLm, Precision, Pretrained};
use qkv_nn::device;
use qkv_text::{GgufVocab, NO_TOKENIZER, Tokenizer};
use qkv_weights::{Checkpoint, Format, Metadata, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A model with its tokenizer and defaults.
pub struct TextModel {
    /// what it is called: its place, or a checkpoint of a run
    pub path: PathBuf,
    /// the directory of what stands beside the weights
    dir: PathBuf,
    /// the network and its configuration
    pub network: Pretrained,
    /// what its directory says about generating
    pub defaults: Defaults,
    /// what was not as expected when it was loaded
    pub warnings: Vec<String>,
    tokenizer: Result<Arc<Tokenizer>>,
    token_bytes: OnceLock<TokenBytes>,
}

impl TextModel {
    /// Loads a run, a Hugging Face directory, or a safetensors, PyTorch or GGUF file, to answer: matrices stay as the file has
    /// them.
    pub fn load(path: &Path) -> Result<Self> {
        Self::load_packed(path, Precision::Stored)
    }

    /// The same with matrices of another precision.
    pub fn load_packed(path: &Path, precision: Precision) -> Result<Self> {
        let located = locate::model(path)?;
        let network = located.load_packed(&device::default(), precision)?;
        Self::of(&located, network)
    }

    /// The same with every parameter as f32, onto a device (with gradients, where it is to learn).
    pub fn load_on(path: &Path, device: &Device) -> Result<Self> {
        let located = locate::model(path)?;
        let network = located.load(device)?;
        Self::of(&located, network)
    }

    /// A network that is there already, with what stands beside the model that was found.
    pub fn of(located: &Located, network: Pretrained) -> Result<Self> {
        let (path, dir) = (located.name(), located.dir().to_path_buf());
        let defaults = Defaults::load(&dir, network.config.map())?;
        let report = &network.report;
        let mut warnings: Vec<String> = report.warnings.iter().map(|w| format!("{}: {w}", path.display())).collect();
        if let Some(first) = report.unused.first() {
            let n = report.unused.len();
            warnings
                .push(format!("{}: {n} tensors are not used by this network, the first is `{first}`", path.display()));
        }
        let asked = |key: &String| format!("generation_config.json asks for {key}, which is not done");
        warnings.extend(defaults.ignored.iter().map(asked));
        warnings.extend(defaults.contradictions.iter().map(|what| format!("generation_config.json: {what}")));
        let writes = network.spec().decoder().is_some();
        let tokenizer = tokenizer(located.place()).map(Arc::new).map_err(|e| match writes && e.what == NO_TOKENIZER {
            true => Error { hint: "give token ids with --ids 5,6,7, or put a tokenizer beside the model".into(), ..e },
            false => e,
        });
        Ok(Self { path, dir, network, defaults, warnings, tokenizer, token_bytes: OnceLock::new() })
    }

    /// A network that is under way, which nothing stands beside yet.
    /// `generation` is what will be said about writing.
    pub fn in_training(
        path: &Path,
        network: Pretrained,
        tokenizer: Option<Tokenizer>,
        generation: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self> {
        let place = path.display().to_string();
        let none = || Error::new(&place, "this network reads no text", "");
        let defaults = Defaults::of(&place, generation, network.config.map())?;
        let tokenizer = tokenizer.map(Arc::new).ok_or_else(none);
        Ok(Self {
            path: path.to_path_buf(),
            dir: path.to_path_buf(),
            network,
            defaults,
            warnings: vec![],
            tokenizer,
            token_bytes: OnceLock::new(),
        })
    }

    /// An answer that is not a number, with the first place where that arose: a weight that is none, or else the first
    /// layer whose states are not finite for a plain input.
    pub(crate) fn not_finite(&self, place: &str, what: String) -> Error {
        let report = &self.network.report.finite;
        let hint = "`qkv inspect MODEL` counts weights that are not finite; is the file damaged?";
        if !report.is_clean() {
            return Error::new(
                place,
                format!("{what}: among the weights {report}; not finite in, not finite out"),
                hint,
            );
        }
        let what = match self.first_overflow() {
            Some(layer) => format!("{what}: the states are not finite, first {layer}"),
            None => format!("{what}: what it computes for this input is not finite"),
        };
        Error::new(place, what, hint)
    }

    /// The first layer whose hidden states are not finite, in words.
    fn first_overflow(&self) -> Option<String> {
        let vocabulary = self.spec().vocabulary()? as u32;
        let ids: Vec<u32> = (0..8).map(|i| i * 7 % vocabulary).collect();
        let mut inputs = Inputs::of_ids(ids.clone());
        inputs.decoder_input_ids = self.is_pair().then(|| vec![ids]);
        let outputs =
            forward_outputs(&self.network, &inputs, OutputOptions { hidden: true, attentions: false }).ok()?;
        outputs.iter().find_map(|(name, output)| {
            let Output::Layers(layers) = output else { return None };
            let bad = layers.iter().position(|layer| layer.values.iter().any(|v| !v.is_finite()))?;
            let stack = if name.contains("decoder") { " of the decoder" } else { "" };
            Some(if bad == 0 { format!("after the embeddings{stack}") } else { format!("after layer {bad}{stack}") })
        })
    }

    /// The directory of what stands beside the weights: configuration, tokenizer, how pictures are read.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is.
    pub fn spec(&self) -> &Spec {
        self.network.spec()
    }

    /// The tokenizer, or why there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_deref().map_err(Clone::clone)
    }

    /// The tokenizer, where there is one.
    pub fn maybe_tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_deref().ok()
    }

    /// The tokenizer, where there is one, for who outlives this model.
    pub fn shared_tokenizer(&self) -> Option<Arc<Tokenizer>> {
        self.tokenizer.as_ref().ok().cloned()
    }

    /// What it can be asked, by its head and by what it reads.
    pub fn task(&self) -> Option<Task> {
        let spec = self.spec();
        Some(match (&spec.head, &spec.input) {
            // A discriminator is a step on the way to another head; nobody asks it anything.
            (Head::None | Head::Pool | Head::Detect { .. }, _) => return None,
            (Head::Classify { .. }, Input::Patches { .. }) => Task::Image,
            (Head::Classify { .. }, _) => Task::Classify,
            (Head::Tag { .. }, _) => Task::Tag,
            (Head::Span, _) => Task::Answer,
            (Head::Masked { .. }, _) => Task::Masked,
            (Head::Language { .. }, _) if spec.encoder().is_some() => Task::Translate,
            (Head::Language { .. }, _) => Task::NextToken,
        })
    }

    /// Refuses a model that cannot do what is asked of it.
    pub fn needs(&self, ok: bool, verb: &str, head: &str) -> Result<()> {
        if ok {
            return Ok(());
        }
        let has = self.network.config.architecture().unwrap_or(self.network.sheet.name).to_string();
        let what = format!("`{verb}` needs {head}, but this is a {has}");
        let hint = "choose a model made for this task, or fine-tune this one";
        Err(Error::new(self.path.display().to_string(), what, hint))
    }

    /// How many tokens it can read at once.
    pub fn longest(&self) -> usize {
        self.spec().position.max().unwrap_or(usize::MAX)
    }

    /// The names of its `n` labels.
    pub fn labels(&self, n: usize) -> Result<Vec<String>> {
        let named = self.network.config.labels()?;
        Ok(named.filter(|l| l.len() == n).unwrap_or_else(|| (0..n).map(|i| format!("LABEL_{i}")).collect()))
    }

    /// How pictures become numbers for it.
    pub fn normalisation(&self, channels: usize) -> Result<Normalisation> {
        Normalisation::load(&self.dir, channels)
    }

    /// What stands around the texts that it reads.
    pub fn frame(&self) -> Result<Frame> {
        let frame = Frame::of_tokenizer(self.tokenizer()?)?.unwrap_or_default();
        Ok(Frame { token_types: frame.token_types && self.has_token_types(), ..frame })
    }

    /// Whether kinds of tokens (first text, second text) have vectors of their own; DistilBERT's have none.
    pub fn has_token_types(&self) -> bool {
        matches!(self.spec().input, Input::Tokens { token_types, .. } if token_types > 0)
    }

    /// Whether the model reads a source and writes a target.
    pub fn is_pair(&self) -> bool {
        matches!(self.spec().shape, Shape::Pair { .. })
    }

    /// The ids of a text, with what the family puts around it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer()?.encode(text, true)?.ids)
    }

    /// The text of ids; where there is no tokenizer, none. A vocabulary padded to a round size has ids that no tokenizer
    /// knows: they are nothing.
    pub fn decode(&self, ids: &[u32]) -> Result<Option<String>> {
        let Some(tokenizer) = self.maybe_tokenizer() else { return Ok(None) };
        let known: Vec<u32> = ids.iter().copied().filter(|id| tokenizer.piece(*id).is_some()).collect();
        Ok(Some(tokenizer.decode(&known, true)?))
    }

    /// A token as a person reads it.
    pub fn piece(&self, id: u32) -> String {
        self.maybe_tokenizer().and_then(|t| t.piece(id)).unwrap_or_else(|| id.to_string())
    }

    /// A token as it reads within a text, its space before it; a part of a character is U+FFFD, a special token its name.
    pub fn token_text(&self, id: u32) -> String {
        let Some(tokenizer) = self.maybe_tokenizer() else { return id.to_string() };
        let Some(piece) = tokenizer.piece(id) else { return String::new() };
        if tokenizer.is_special(id) {
            return piece;
        }
        // Some decoders drop the space of a first word, so the token is read behind another.
        let anchor = tokenizer.encode("a", false).ok().and_then(|e| e.ids.last().copied());
        let within = anchor.and_then(|anchor| {
            let before = tokenizer.decode(&[anchor], false).ok()?;
            let both = tokenizer.decode(&[anchor, id], false).ok()?;
            both.strip_prefix(before.as_str()).map(str::to_string)
        });
        within.unwrap_or(piece)
    }

    /// The bytes of every token of the network's vocabulary, for patterns; special tokens, parts of characters and ids that
    /// no tokenizer knows have none. Found once.
    pub fn token_bytes(&self) -> Result<TokenBytes> {
        let tokenizer = self.tokenizer()?;
        let bytes = |id: u32| match tokenizer.is_special(id) || self.defaults.ends.contains(&id) {
            true => Box::default(),
            false => match self.token_text(id) {
                text if text.contains(char::REPLACEMENT_CHARACTER) => Box::default(),
                text => text.into_bytes().into_boxed_slice(),
            },
        };
        let size = CausalLm::vocabulary(&self.network.model) as u32;
        Ok(self.token_bytes.get_or_init(|| (0..size).map(bytes).collect()).clone())
    }

    /// How every target begins.
    pub fn start(&self) -> Result<Vec<u32>> {
        let start = self.defaults.decoder_start.or(self.defaults.bos).or(self.defaults.pad);
        start.map(|id| vec![id]).ok_or_else(|| {
            let hint = "add decoder_start_token_id to generation_config.json";
            Error::new(self.path.display().to_string(), "nothing says with which token a target begins", hint)
        })
    }

    /// How many tokens to write after `prompt` of them: what was asked for, or what the model says, or `otherwise`, as far
    /// as there is room.
    pub fn max_tokens(&self, asked: Option<usize>, prompt: usize, otherwise: usize) -> Result<usize> {
        let room = CausalLm::context(&self.network.model).map_or(usize::MAX, |context| context.saturating_sub(prompt));
        if room == 0 {
            let context = CausalLm::context(&self.network.model).unwrap_or(0);
            let what = format!("is {prompt} tokens long, but the context holds {context}: nothing can follow");
            return Err(Error::new(
                "the prompt",
                what,
                "shorten the prompt, or let --truncate left drop its beginning",
            ));
        }
        if let Some(asked) = asked {
            if asked > room {
                let what =
                    format!("--max-tokens {asked} after {prompt} tokens exceeds the context of {}", prompt + room);
                let hint = format!("ask for at most {room}, or let --truncate left drop the beginning");
                return Err(Error::new(self.path.display().to_string(), what, hint));
            }
            return Ok(asked);
        }
        let said = self.defaults.max_new_tokens;
        let by_length = || self.defaults.max_length.map(|n| n.saturating_sub(prompt)).filter(|n| *n > 0);
        Ok(said.or_else(by_length).unwrap_or(otherwise).clamp(1, room))
    }
}

/// The tokenizer of a run, of a directory, of a file's directory, or inside a GGUF file.
pub fn tokenizer(path: &Path) -> Result<Tokenizer> {
    let found = locate::model(path)?;
    let path = found.place();
    let gguf = if path.is_dir() { lone_gguf(path) } else { Some(path.to_owned()) };
    if let Some(file) = gguf {
        let checkpoint = Checkpoint::open(&file)?;
        if matches!(checkpoint.format(), Format::Gguf { .. }) {
            return vocabulary(checkpoint.metadata())?.tokenizer(&file.display().to_string());
        }
    }
    Tokenizer::load(if path.is_dir() { path } else { path.parent().unwrap_or(path) })
}

/// The GGUF file of a directory that has nothing else to load.
fn lone_gguf(dir: &Path) -> Option<PathBuf> {
    let has = |name: &str| dir.join(name).is_file();
    if has("config.json") || qkv_text::FILES.iter().any(|name| has(name)) {
        return None;
    }
    let files = std::fs::read_dir(dir).ok()?.filter_map(|e| Some(e.ok()?.path()));
    let mut found: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == "gguf")).collect();
    found.sort();
    if found.len() == 1 { found.pop() } else { None }
}

/// What a GGUF file says about its vocabulary.
pub fn vocabulary(m: &Metadata) -> Result<GgufVocab> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| m.get(&key(name)).and_then(Value::as_i64).and_then(|n| u32::try_from(n).ok());
    let flag = |name: &str| m.get(&key(name)).and_then(Value::as_bool);
    let text = |name: &str| m.get(name).and_then(Value::as_str).map(str::to_string);
    let has = |name: &str| m.get(&key(name)).is_some();
    Ok(GgufVocab {
        model: m.text(&key("model"))?.to_string(),
        pre: text(&key("pre")),
        tokens: m.texts(&key("tokens"))?.to_vec(),
        scores: if has("scores") { m.floats(&key("scores"))? } else { vec![] },
        types: if has("token_type") { m.ints(&key("token_type"))?.iter().map(|t| *t as i32).collect() } else { vec![] },
        merges: if has("merges") { m.texts(&key("merges"))?.to_vec() } else { vec![] },
        bos: id("bos_token_id"),
        eos: id("eos_token_id"),
        unk: id("unknown_token_id"),
        // Some writers mean "none" by the largest number there is.
        pad: id("padding_token_id").filter(|id| *id != u32::MAX),
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        chat_template: text("tokenizer.chat_template"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_weights::Array;

    /// Some writers mean "none" by the largest number there is.
    #[test]
    fn a_padding_of_all_ones_is_none() {
        let mut metadata = Metadata::default();
        metadata.set("tokenizer.ggml.model", Value::String("llama".into()));
        metadata.set("tokenizer.ggml.tokens", Value::Array(Array::String(vec!["a".into(), "b".into()])));
        metadata.set("tokenizer.ggml.padding_token_id", Value::U32(u32::MAX));
        metadata.set("tokenizer.ggml.bos_token_id", Value::U32(1));
        let vocab = vocabulary(&metadata).unwrap();
        assert_eq!((vocab.pad, vocab.bos), (None, Some(1)));
    }
}
