//! What the engine asks of a network: to go on with rows of tokens that join and leave, and to hand out the logits behind them.
//!
//! A pass gives some rows some more tokens each, one behind the other ([`PassInput`]); the state of the rows is a [`RowCache`],
//! whether it holds keys and values or the state of a recurrent network. The Transformer is a decoder, alone or as a pair; so is
//! whatever implements these five functions.
//!
//! ```
//! use qkv_decode::{Decoder, Observe, PassInput};
//! use qkv_model::{Transformer, presets};
//! use qkv_nn::RowCache;
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let mut rows = RowCache::new(8);
//! let (a, b) = (rows.admit(None), rows.admit(None));
//! rows.begin(&[(a, 3), (b, 1)]);
//! let input = PassInput { ids: &[5, 6, 7, 8], answers: &[2, 3], observe: Observe::default() }; // the last token of each
//! let output = model.forward(&input, &mut rows)?;
//! rows.advance();
//! assert_eq!(output.logits.len(), 2 * Decoder::vocabulary(&model));
//! # Ok::<(), qkv_base::Error>(())
//! ```

use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_kernels::Ids;
use qkv_model::{Seq2Seq, Tokens, Transformer};
use qkv_nn::{Cx, RowCache, Taps, mask};
use std::sync::Arc;

/// A network that goes on with rows of tokens.
pub trait Decoder: Send + Sync {
    /// V
    fn vocabulary(&self) -> usize;

    /// The longest row, if there is a limit; the longest source too.
    fn context(&self) -> Option<usize>;

    /// Whether every row reads a source.
    fn reads_source(&self) -> bool {
        false
    }

    /// The numbers of the adapters that a row can be computed with are below this.
    fn adapters(&self) -> usize {
        0
    }

    /// Reads sources, and keeps what rows will look at; their numbers, for [`RowCache::admit`].
    fn encode(&self, sources: &[&[u32]], rows: &mut RowCache) -> Result<Vec<usize>> {
        let _ = (sources, rows);
        Err(Error::new("source", "this model reads no source", "give a prompt alone"))
    }

    /// The pass that `rows` has begun.
    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> Result<PassOutput>;
}

/// The tokens of a pass; [`RowCache::pass`] tells whose they are.
#[derive(Clone, Copy, Debug)]
pub struct PassInput<'a> {
    /// N ids, those of a row one behind the other
    pub ids: &'a [u32],
    /// where among them logits are wanted: the last token of each row that chooses next
    pub answers: &'a [usize],
    /// what is wanted besides
    pub observe: Observe,
}

/// What a search wants to know besides logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Observe {
    /// the state that the head answers from: contrastive search compares them
    pub hidden: bool,
    /// how much the last layer looks at each source token, mean of the heads: coverage
    pub source: bool,
}

impl Observe {
    /// What either wants.
    pub fn or(self, other: Self) -> Self {
        Self { hidden: self.hidden || other.hidden, source: self.source || other.source }
    }
}

/// What comes out of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassOutput {
    /// `[answers · V]`
    pub logits: Vec<f32>,
    /// `[N · C]`, if it was asked for
    pub hidden: Vec<f32>,
    /// `[N · Tm]`, if it was asked for; behind the end of a source it is 0
    pub source: Vec<f32>,
}

impl Decoder for Transformer {
    fn vocabulary(&self) -> usize {
        self.spec().vocabulary().unwrap_or(0)
    }

    fn context(&self) -> Option<usize> {
        self.spec().position.max()
    }

    fn reads_source(&self) -> bool {
        self.encoder.is_some() && self.decoder.is_some()
    }

    fn encode(&self, sources: &[&[u32]], rows: &mut RowCache) -> Result<Vec<usize>> {
        let memory = Seq2Seq::encode(self, &batch(sources), &mut Cx::eval())?;
        let lengths: Vec<usize> = sources.iter().map(|s| s.len()).collect();
        Ok(rows.admit_sources(&lengths, self.project_memory(&memory)))
    }

    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> Result<PassOutput> {
        let mut taps = taps(self, input.observe);
        let mut cx = Cx::ragged(rows, input.answers.into());
        if input.observe != Observe::default() {
            cx = cx.with_taps(&mut taps);
        }
        let logits = read(self.continue_rows(input.ids.to_vec(), &mut cx)?)?;
        drop(cx);
        let hidden = if input.observe.hidden { last_hidden(&taps)? } else { vec![] };
        let source = if input.observe.source { source_weights(&taps)? } else { vec![] };
        Ok(PassOutput { logits, hidden, source })
    }
}

/// The tensors that must be handed out.
fn taps(model: &Transformer, observe: Observe) -> Taps {
    let last = model.spec().decoder().map_or(0, |decoder| decoder.layers).saturating_sub(1);
    let hidden = ["decoder.normed".to_string(), format!("decoder.{last}.hidden")];
    let hidden = hidden.into_iter().filter(|_| observe.hidden);
    Taps::new(hidden.chain(observe.source.then(|| format!("decoder.{last}.cross.weights"))))
}

/// The state that the head answers from: behind the final norm, or of the last layer. `[N · C]`
fn last_hidden(taps: &Taps) -> Result<Vec<f32>> {
    let of = |name: &str| taps.got().iter().find(|(path, _)| path.ends_with(name)).map(|(_, tapped)| tapped);
    of("normed").or_else(|| of("hidden")).map_or(Ok(vec![]), |t| read(t.flat.clone()))
}

/// The last layer's weights over the source `[1, H, N, Tm]`, mean of the heads: `[N · Tm]`.
fn source_weights(taps: &Taps) -> Result<Vec<f32>> {
    let Some(tapped) = taps.got().values().find(|t| t.dims.len() == 4) else { return Ok(vec![]) };
    let (flat, heads) = (read(tapped.flat.clone())?, tapped.dims[1]);
    let mut mean = vec![0.0; flat.len() / heads.max(1)];
    for head in flat.chunks_exact(mean.len().max(1)) {
        mean.iter_mut().zip(head).for_each(|(sum, w)| *sum += w / heads as f32);
    }
    Ok(mean)
}

/// Sequences of unequal length as one batch, flush left.
pub fn batch<S: AsRef<[u32]>>(rows: &[S]) -> Tokens {
    let lengths: Vec<usize> = rows.iter().map(|r| r.as_ref().len()).collect();
    let width = lengths.iter().copied().max().unwrap_or(0);
    let padded = |r: &S| r.as_ref().iter().copied().chain(std::iter::repeat_n(0, width - r.as_ref().len())).collect();
    let ids: Vec<u32> = rows.iter().flat_map(|r| -> Vec<u32> { padded(r) }).collect();
    let tokens = Tokens::new(Ids::new(ids, rows.len()));
    if lengths.iter().all(|n| *n == width) { tokens } else { tokens.with_padding(mask::from_lengths(&lengths, width)) }
}

/// The numbers of a tensor.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    let wrong = |e| Error::new("logits", format!("{e:?}"), "load the model in f32");
    tensor.into_data().try_into_vec::<f32>().map_err(wrong)
}

impl<D: Decoder + ?Sized> Decoder for Arc<D> {
    fn vocabulary(&self) -> usize {
        (**self).vocabulary()
    }
    fn context(&self) -> Option<usize> {
        (**self).context()
    }
    fn reads_source(&self) -> bool {
        (**self).reads_source()
    }
    fn adapters(&self) -> usize {
        (**self).adapters()
    }
    fn encode(&self, sources: &[&[u32]], rows: &mut RowCache) -> Result<Vec<usize>> {
        (**self).encode(sources, rows)
    }
    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> Result<PassOutput> {
        (**self).forward(input, rows)
    }
}
