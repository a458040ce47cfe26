//! The Transformer, assembled from its [`Spec`]: tokens (or patches), an encoder, a decoder, or both, and a head.
//!
//! Training and decoding do not see this struct but what it can do: [`Encoder`], [`CausalLm`], [`Seq2Seq`].
//!
//! ```
//! use qkv_kernels::Ids;
//! use qkv_model::{CausalLm, Tokens, Transformer, presets};
//! use qkv_nn::Cx;
//!
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let logits = model.logits(&Tokens::new(Ids::one([5, 6, 7])), &mut Cx::eval()).unwrap();
//! assert_eq!(logits.dims(), [1, 3, 97]);
//! let error = model.logits(&Tokens::new(Ids::one([5, 97])), &mut Cx::eval()).unwrap_err();
//! assert_eq!(error.to_string(), "tokens: id 97 in row 0, column 1 is outside the vocabulary of 97");
//! ```

use crate::block::Seen;
use crate::heads::Head;
use crate::patches::Patches;
use crate::spec::{Handover, Input, Position, Shape, Spec};
use crate::stack::{Role, Stack};
use crate::tokens::{Tokens, check_pixels};
use crate::{Error, Result};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use qkv_kernels::{Ids, Mask, Positions};
use qkv_nn::{Answers, Build, Cx, Embedding};
use std::sync::Arc;

/// A network of any family.
#[derive(Module, Debug)]
pub struct Transformer {
    /// a vector for each token of the vocabulary
    pub tokens: Option<Embedding>,
    /// a vector for each patch of an image
    pub patches: Option<Patches>,
    /// the reader
    pub encoder: Option<Stack>,
    /// the writer
    pub decoder: Option<Stack>,
    /// the answer
    pub head: Head,
    #[module(skip)]
    spec: Arc<Spec>,
}

/// Reads a sequence (or an image) and answers.
pub trait Encoder {
    /// Hidden states `[B, T, C]`.
    fn hidden(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>>;
    /// The head's answer.
    fn answer(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>>;
    /// The head's answer to images `[B, channels, height, width]`.
    fn answer_image(&self, pixels: Tensor<4>, cx: &mut Cx) -> Result<Tensor<3>>;
}

/// Continues a sequence.
pub trait CausalLm {
    /// Scores of the next token at each position, `[B, T, V]`. With a cache, `tokens` are those after the cached ones.
    fn logits(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>>;
    /// V
    fn vocabulary(&self) -> usize;
    /// The longest sequence, if there is a limit.
    fn context(&self) -> Option<usize>;
}

/// Reads one sequence and writes another.
pub trait Seq2Seq {
    /// What the reader hands to the writer.
    fn encode(&self, source: &Tokens, cx: &mut Cx) -> Result<Memory>;
    /// Scores of the next target token at each position, `[B, T, V]`. Several rows of the target next to each other (the
    /// beams of one source) may share a row of the memory.
    fn decode(&self, target: &Tokens, memory: &Memory, cx: &mut Cx) -> Result<Tensor<3>>;
    /// V
    fn vocabulary(&self) -> usize;
    /// The longest sequence on either side, if there is a limit.
    fn context(&self) -> Option<usize>;
}

/// The encoder's output, and which of it is real.
#[derive(Clone, Debug)]
pub struct Memory {
    /// `[B, Tm, C]`
    pub states: Tensor<3>,
    /// `[B·Tm]`, true where real
    pub padding: Option<Arc<[bool]>>,
}

impl Memory {
    /// Row b becomes what row `rows[b]` was, or one row is made many: for beams.
    pub fn select(&self, rows: &[usize]) -> Self {
        let [_, t, _] = self.states.dims();
        let index: Vec<i64> = rows.iter().map(|&r| r as i64).collect();
        let index = Tensor::<1, burn::tensor::Int>::from_data(index.as_slice(), &self.states.device());
        let pick = |real: &Arc<[bool]>| rows.iter().flat_map(|r| real[r * t..(r + 1) * t].iter().copied()).collect();
        Self { states: self.states.clone().select(0, index), padding: self.padding.as_ref().map(pick) }
    }
}

impl Transformer {
    /// Builds the network of `spec`; parameters are drawn from `seed` when they are first used. Use
    /// `Device::flex().autodiff()` for a network that is to be trained.
    pub fn new(spec: &Spec, seed: u64, device: &Device) -> Result<Self> {
        spec.check()?;
        let build = Build::new(device, seed);
        let (tokens, patches) = match spec.input {
            Input::Tokens { vocabulary, .. } => {
                let (e, tokens) = (spec.table_width(), build.at("tokens"));
                (Some(Embedding::new(&tokens, vocabulary, e, spec.init.embedding(e))), None)
            }
            Input::Patches { .. } => (None, Some(Patches::new(&build.at("patches"), spec))),
        };
        let role = match spec.shape {
            Shape::Pair { .. } => Role::CrossDecoder,
            _ => Role::Decoder,
        };
        Ok(Self {
            tokens,
            patches,
            encoder: spec.encoder().map(|s| Stack::new(&build.at("encoder"), spec, s, Role::Encoder)),
            decoder: spec.decoder().map(|s| Stack::new(&build.at("decoder"), spec, s, role)),
            head: Head::new(&build.at("head"), spec),
            spec: Arc::new(spec.clone()),
        })
    }

    /// The network outside of any graph, to answer with. One that is not in a graph is handed out as it is: burn's `valid` would
    /// write out every packed weight as f32.
    pub fn answering(&self) -> Self {
        if self.device().is_autodiff() { self.valid() } else { self.clone() }
    }

    /// What this network is.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Token vectors `[B, T, E]`, scaled if the spec says so.
    pub fn embed(&self, ids: &Ids) -> Result<Tensor<3>> {
        let table = self.tokens.as_ref().ok_or_else(|| missing("tokens", "reads images"))?;
        let pad = if let Input::Tokens { pad, .. } = self.spec.input { pad } else { None };
        let x = table.forward(&ids.clone().fixing(pad));
        Ok(match self.spec.input {
            Input::Tokens { scaled: true, .. } => x * (self.spec.width as f64).sqrt(),
            _ => x,
        })
    }

    /// What the tokens come with, or what the table has for them.
    fn vectors(&self, tokens: &Tokens) -> Result<Tensor<3>> {
        tokens.vectors.as_ref().map_or_else(|| self.embed(&tokens.ids), |given| Ok((**given).clone()))
    }

    fn read(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>> {
        let encoder = self.encoder.as_ref().ok_or_else(|| missing("encoder", "has a decoder only"))?;
        let name = if self.decoder.is_some() { "source" } else { "tokens" };
        tokens.check(name, &self.spec, cx)?;
        let mask = tokens.mask(name, encoder.sight())?;
        let x = self.vectors(tokens)?;
        let given = self.count(&tokens.ids, cx);
        let h = cx.within("encoder", |cx| encoder.forward(x, tokens.token_types.as_ref(), &mask, None, cx));
        cx.positions = given;
        Ok(h)
    }

    /// Where tokens of some id are not counted: numbers the others from 1, puts these at 0, and hands back the positions
    /// that were there before.
    fn count(&self, ids: &Ids, cx: &mut Cx) -> Positions {
        let given = cx.positions.clone();
        if let Position::Learned { padding_id: Some(pad), .. } = self.spec.position {
            let [rows, t] = ids.dims();
            let real: Vec<bool> = ids.as_slice().iter().map(|id| *id != pad).collect();
            let at = match given {
                Positions::From(0) => qkv_nn::mask::positions(&real, t),
                _ => (0..rows * t).map(|i| given.at(i / t, i % t, t)).collect(),
            };
            cx.positions =
                Positions::Each(at.iter().zip(&real).map(|(p, real)| if *real { p + 1 } else { 0 }).collect());
        }
        given
    }

    /// Scores `[1, answers, V]` behind the tokens of a pass over rows that join and leave ([`Cx::ragged`]), one behind the
    /// other. Of a pair, every row reads a source that was [projected](Self::project_memory).
    pub fn continue_rows(&self, ids: Vec<u32>, cx: &mut Cx) -> Result<Tensor<3>> {
        self.write(&Tokens::new(Ids::one(ids)), None, cx)
    }

    /// What the decoder looks at of a memory, by path: `[B, Tm, 2G·D]`.
    pub fn project_memory(&self, memory: &Memory) -> Vec<(String, Tensor<3>)> {
        let layers = self.decoder.iter().flat_map(|decoder| decoder.project_memory(&memory.states));
        layers.map(|(path, kv)| (format!("decoder.{path}"), kv)).collect()
    }

    /// A state that is handed over has a vector for each layer and part, no more and no fewer.
    fn check_state(&self, memory: &Memory) -> Result<()> {
        let Some((stack, cells)) = self.spec.recurrence() else { return Ok(()) };
        let (want, got) = (stack.layers * cells.cell.parts(), memory.states.dims()[1]);
        if cells.handover == Some(Handover::State) && got != want {
            let what = format!("it has {got} vectors, but the state of this network has {want}");
            return Err(Error::new("memory", what, "give what this model's own encoder made"));
        }
        Ok(())
    }

    fn write(&self, tokens: &Tokens, memory: Option<&Memory>, cx: &mut Cx) -> Result<Tensor<3>> {
        if cx.cache.is_some() && self.spec.recurrence().is_some() {
            let what = "recurrent layers carry a state, and this cache holds keys and values";
            return Err(Error::new("cache", what, "go on with rows: Cx::ragged"));
        }
        let decoder = self.decoder.as_ref().ok_or_else(|| missing("decoder", "has an encoder only"))?;
        let name = if memory.is_some() { "target" } else { "tokens" };
        tokens.check(name, &self.spec, cx)?;
        if let Some(memory) = memory {
            check_memory(memory, tokens, self.spec.width)?;
            self.check_state(memory)?;
        }
        let mask = tokens.mask(name, decoder.sight())?;
        let seen =
            memory.map(|m| Seen { memory: &m.states, mask: Mask { padding: m.padding.clone(), ..Mask::none() } });
        let x = self.vectors(tokens)?;
        let h = cx.within("decoder", |cx| decoder.forward(x, tokens.token_types.as_ref(), &mask, seen.as_ref(), cx));
        let h = answered(h, &cx.answers);
        Ok(self.head.forward(h, self.tokens.as_ref(), cx))
    }
}

impl Encoder for Transformer {
    fn hidden(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>> {
        self.read(tokens, cx)
    }

    fn answer(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>> {
        let h = self.read(tokens, cx)?;
        // A class is read off the first token; tags and spans have few scores a token, and their dropout is named by its place.
        let h = if self.head.chooses_words() { answered(h, &cx.answers) } else { h };
        Ok(self.head.forward(h, self.tokens.as_ref(), cx))
    }

    fn answer_image(&self, pixels: Tensor<4>, cx: &mut Cx) -> Result<Tensor<3>> {
        check_pixels(&pixels, &self.spec)?;
        let patches = self.patches.as_ref().ok_or_else(|| missing("patches", "reads tokens"))?;
        let encoder = self.encoder.as_ref().ok_or_else(|| missing("encoder", "has a decoder only"))?;
        let x = patches.forward(pixels, cx);
        let h = cx.within("encoder", |cx| encoder.forward(x, None, &Mask::none(), None, cx));
        Ok(self.head.forward(h, None, cx))
    }
}

impl CausalLm for Transformer {
    fn logits(&self, tokens: &Tokens, cx: &mut Cx) -> Result<Tensor<3>> {
        if self.encoder.is_some() && self.decoder.is_some() {
            return Err(missing("decoder alone", "has an encoder that wants a source"));
        }
        self.write(tokens, None, cx)
    }

    fn vocabulary(&self) -> usize {
        self.spec.vocabulary().unwrap_or(0)
    }

    fn context(&self) -> Option<usize> {
        self.spec.position.max()
    }
}

impl Seq2Seq for Transformer {
    fn encode(&self, source: &Tokens, cx: &mut Cx) -> Result<Memory> {
        // The source is read whole, whatever the writer's cache holds.
        let states = self.read(source, &mut cx.afresh())?;
        // A last state has read the padding away.
        let whole = self.spec.encoder().is_some_and(|stack| crate::recurrent::hands(stack, Handover::State));
        Ok(Memory { states, padding: source.padding.clone().filter(|_| !whole) })
    }

    fn decode(&self, target: &Tokens, memory: &Memory, cx: &mut Cx) -> Result<Tensor<3>> {
        if self.encoder.is_none() {
            return Err(missing("encoder", "has a decoder only, which looks at no memory"));
        }
        self.write(target, Some(memory), cx)
    }

    fn vocabulary(&self) -> usize {
        self.spec.vocabulary().unwrap_or(0)
    }

    fn context(&self) -> Option<usize> {
        self.spec.position.max()
    }
}

/// The states that the head answers for: `[B, T, C]`, `[B, 1, C]`, or `[1, answers, C]`.
fn answered(h: Tensor<3>, answers: &Answers) -> Tensor<3> {
    let [b, t, c] = h.dims();
    match answers {
        Answers::Every => h,
        Answers::Last => h.narrow(1, t - 1, 1),
        Answers::At(at) if b == 1 && at.iter().copied().eq(0..t) => h,
        Answers::At(at) => {
            let at: Vec<i64> = at.iter().map(|i| *i as i64).collect();
            let at = Tensor::<1, burn::tensor::Int>::from_data(at.as_slice(), &h.device());
            h.reshape([1, b * t, c]).select(1, at)
        }
    }
}

fn missing(part: &str, because: &str) -> Error {
    Error::new("model", format!("there is no {part}: this model {because}"), "choose a model of another shape")
}

fn check_memory(memory: &Memory, tokens: &Tokens, width: usize) -> Result<()> {
    let ([b, tm, c], [rows, _]) = (memory.states.dims(), tokens.ids.dims());
    if c != width {
        let what = format!("its states have {c} features, but the model is {width} wide");
        return Err(Error::new("memory", what, "give what this model's own encoder made"));
    }
    if b == 0 || !rows.is_multiple_of(b) {
        let what = format!("there are {b} source rows for {rows} target rows");
        return Err(Error::new("memory", what, "give each source row as many target rows as the others"));
    }
    match &memory.padding {
        Some(real) if real.len() != b * tm => {
            let what = format!("the padding mask has {} entries, but there are {} places", real.len(), b * tm);
            Err(Error::new("memory", what, "give one entry for each source token"))
        }
        _ => Ok(()),
    }
}
