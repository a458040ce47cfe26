//! One forward pass with everything it computes, under Hugging Face's names: logits, hidden states after the embeddings
//! and after each layer, attention maps. What `qkv logits` prints, and what the reference checkpoints are compared with.
//!
//! The last hidden state of a pre-normed stack is the one after the final norm, as transformers reports it; ViT alone
//! reports it before.
//!
//! Attention maps cost a pass of their own: the fused kernel never forms them, and the plain one adds in another order.
//! So the answer is always the one that `generate` and training see, whatever else is asked for.

use crate::families::HeadKind;
use crate::{Encoder, Error, Memory, Pretrained, Result, Seq2Seq, Tokens, Transformer, spec::Head};
use burn::tensor::{Tensor, TensorData};
use qkv_kernels::Ids;
use qkv_nn::{Answers, Cx, Taps};
use serde::{Deserialize, Serialize, Serializer};

/// What goes in, by Hugging Face's names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// token ids, `[B, T]`
    pub input_ids: Option<Vec<Vec<u32>>>,
    /// 1 where real, `[B, T]`
    pub attention_mask: Option<Vec<Vec<u32>>>,
    /// token types (segments), `[B, T]`
    pub token_type_ids: Option<Vec<Vec<u32>>>,
    /// what the decoder has written so far, `[B, Tt]`
    pub decoder_input_ids: Option<Vec<Vec<u32>>>,
    /// 1 where real, `[B, Tt]`
    pub decoder_attention_mask: Option<Vec<Vec<u32>>>,
    /// images, `[B, channels, height, width]`
    pub pixel_values: Option<Vec<Vec<Vec<Vec<f32>>>>>,
}

/// Numbers with a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// the shape
    pub dims: Vec<usize>,
    /// row by row
    pub values: Vec<f32>,
}

impl Array {
    fn of<const D: usize>(x: Tensor<D>) -> Self {
        let dims = x.dims().to_vec();
        Self { dims, values: x.into_data().try_into_vec().unwrap_or_default() }
    }
}

impl Serialize for Array {
    /// As nested lists.
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        fn nested<S: Serializer>(dims: &[usize], values: &[f32], to: S) -> std::result::Result<S::Ok, S::Error> {
            match dims {
                [] | [_] => values.serialize(to),
                [n, rest @ ..] => {
                    let step = values.len() / (*n).max(1);
                    to.collect_seq(values.chunks(step.max(1)).map(|values| Nested { dims: rest, values }))
                }
            }
        }
        struct Nested<'a> {
            dims: &'a [usize],
            values: &'a [f32],
        }
        impl Serialize for Nested<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                nested(self.dims, self.values, to)
            }
        }
        nested(&self.dims, &self.values, to)
    }
}

/// One output: an array, or one for each layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Output {
    /// an array
    One(Array),
    /// one for each layer
    Layers(Vec<Array>),
}

/// What comes out, in order.
pub type Outputs = Vec<(String, Output)>;

/// What to report besides the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputOptions {
    /// hidden states
    pub hidden: bool,
    /// attention maps
    pub attentions: bool,
}

/// Rows of numbers as a rectangle.
fn ids(name: &str, rows: &[Vec<u32>]) -> Result<Ids> {
    let width = rows.first().map_or(0, Vec::len);
    if let Some(bad) = rows.iter().position(|row| row.len() != width) {
        let what = format!("row {bad} has {} entries, but row 0 has {width}", rows[bad].len());
        return Err(Error::new(name, what, "pad the shorter rows, and say so in the mask"));
    }
    if width == 0 {
        return Err(Error::new(name, "there are no tokens", "give at least one token"));
    }
    Ok(Ids::new(rows.concat(), rows.len()))
}

fn tokens(
    name: &str,
    rows: &[Vec<u32>],
    mask: Option<&Vec<Vec<u32>>>,
    token_types: Option<&Vec<Vec<u32>>>,
) -> Result<Tokens> {
    let mut tokens = Tokens::new(ids(name, rows)?);
    if let Some(mask) = mask {
        let mask = ids("attention_mask", mask)?;
        if mask.dims() != tokens.ids.dims() {
            let what = format!("is {:?}, but {name} is {:?}", mask.dims(), tokens.ids.dims());
            return Err(Error::new("attention_mask", what, "give one entry for each token"));
        }
        let real: Vec<bool> = mask.as_slice().iter().map(|m| *m != 0).collect();
        if real.contains(&false) {
            tokens = tokens.with_padding(real);
        }
    }
    if let Some(token_types) = token_types {
        tokens = tokens.with_token_types(ids("token_type_ids", token_types)?);
    }
    Ok(tokens)
}

impl Inputs {
    /// One sequence of ids.
    pub fn of_ids(ids: Vec<u32>) -> Self {
        Self { input_ids: Some(vec![ids]), ..Self::default() }
    }

    /// What a text model reads.
    pub fn tokens(&self) -> Result<Tokens> {
        let rows = self.input_ids.as_ref().ok_or_else(|| missing("input_ids"))?;
        tokens("input_ids", rows, self.attention_mask.as_ref(), self.token_type_ids.as_ref())
    }

    /// What the decoder of a pair has written.
    pub fn target(&self) -> Result<Tokens> {
        let rows = self.decoder_input_ids.as_ref().ok_or_else(|| missing("decoder_input_ids"))?;
        tokens("decoder_input_ids", rows, self.decoder_attention_mask.as_ref(), None)
    }

    /// Images `[B, channels, height, width]`.
    pub fn pixels(&self, model: &Transformer) -> Result<Tensor<4>> {
        let images = self.pixel_values.as_ref().ok_or_else(|| missing("pixel_values"))?;
        let first = images.first().and_then(|i| i.first()).ok_or_else(|| missing("pixel_values"))?;
        let dims = [images.len(), images[0].len(), first.len(), first.first().map_or(0, Vec::len)];
        let flat: Vec<f32> = images.iter().flatten().flatten().flatten().copied().collect();
        if flat.len() != dims.iter().product::<usize>() {
            return Err(Error::new("pixel_values", "images have different sizes", "resize them to the model's size"));
        }
        Ok(Tensor::from_data(TensorData::new(flat, dims), &model.device()))
    }
}

fn missing(key: &str) -> Error {
    Error::new("inputs", format!("`{key}` is missing"), "this model reads it")
}

impl Transformer {
    /// Where its parameters live.
    pub fn device(&self) -> burn::tensor::Device {
        let table = self.tokens.as_ref().map(|t| t.weight.lazy_device());
        table
            .or_else(|| self.patches.as_ref().map(|p| p.class.lazy_device()))
            .unwrap_or_else(burn::tensor::Device::flex)
    }
}

/// Runs the network on `inputs`.
pub fn forward_outputs(it: &Pretrained, inputs: &Inputs, show: OutputOptions) -> Result<Outputs> {
    let mut out =
        pass(it, inputs, Taps::new(["hidden", "normed"].into_iter().filter(|_| show.hidden)), Answers::Every)?;
    if show.attentions {
        // Of a decoder's answer only the last place is computed: this pass is for the maps.
        let seen = forward_attentions(it, inputs)?;
        out.extend(seen.into_iter().filter(|(name, _)| name.ends_with("attentions")));
    }
    Ok(out)
}

/// The attention maps alone, by one pass: for texts whose scores `[T, V]` would take more room than the maps. The answer that comes
/// with them is the last place's, where a decoder answers at every place.
pub fn forward_attentions(it: &Pretrained, inputs: &Inputs) -> Result<Outputs> {
    pass(it, inputs, Taps::new(["weights"]), Answers::Last)
}

/// One pass that keeps what `taps` ask for.
fn pass(it: &Pretrained, inputs: &Inputs, mut taps: Taps, answers: Answers) -> Result<Outputs> {
    let model = &it.model;
    let mut out = Outputs::new();
    let layers = |stack: Option<&crate::spec::Stack>| stack.map_or(0, |s| s.layers);
    let (encoder, decoder) = (layers(it.spec().encoder()), layers(it.spec().decoder()));
    if it.spec().encoder().is_some() && it.spec().decoder().is_some() {
        let mut cx = Cx::eval().with_taps(&mut taps);
        cx.answers = answers;
        let memory: Memory = model.encode(&inputs.tokens()?, &mut cx)?;
        let logits = model.decode(&inputs.target()?, &memory, &mut cx)?;
        out.push((answer_name(it, "last_hidden_state"), Output::One(Array::of(logits))));
        out.push(("encoder_last_hidden_state".into(), Output::One(Array::of(memory.states))));
        for (side, n) in [("decoder", decoder), ("encoder", encoder)] {
            states(&mut out, &mut taps, side, n, &format!("{side}_hidden_states"), true);
            maps(&mut out, &mut taps, side, n, "attention", &format!("{side}_attentions"));
        }
        maps(&mut out, &mut taps, "decoder", decoder, "cross", "cross_attentions");
        return Ok(out);
    }
    let mut cx = Cx::eval().with_taps(&mut taps);
    cx.answers = answers;
    let images = it.spec().patches().is_some();
    let (side, n, answer) = match (images, decoder > 0) {
        (true, _) => ("encoder", encoder, model.answer_image(inputs.pixels(model)?, &mut cx)?),
        (false, true) => ("decoder", decoder, crate::CausalLm::logits(model, &inputs.tokens()?, &mut cx)?),
        (false, false) => ("encoder", encoder, model.answer(&inputs.tokens()?, &mut cx)?),
    };
    match &it.spec().head {
        Head::Span => {
            for (i, name) in ["start_logits", "end_logits"].into_iter().enumerate() {
                let scores: Tensor<2> = answer.clone().narrow(2, i, 1).squeeze_dim(2);
                out.push((name.into(), Output::One(Array::of(scores))));
            }
        }
        Head::Detect { .. } => out.push(("logits".into(), Output::One(Array::of(answer.squeeze_dim::<2>(2))))),
        Head::Classify { .. } => out.push(("logits".into(), Output::One(Array::of(answer.squeeze_dim::<2>(1))))),
        Head::Pool => out.push(("pooler_output".into(), Output::One(Array::of(answer.squeeze_dim::<2>(1))))),
        _ => out.push((answer_name(it, "last_hidden_state"), Output::One(Array::of(answer)))),
    }
    states(&mut out, &mut taps, side, n, "hidden_states", !images);
    maps(&mut out, &mut taps, side, n, "attention", "attentions");
    Ok(out)
}

fn answer_name(it: &Pretrained, base: &str) -> String {
    if HeadKind::of(&it.spec().head) == HeadKind::Base { base.into() } else { "logits".into() }
}

/// The embeddings, then each layer's output; `normed`: the last one after the final norm, if there is one.
fn states(out: &mut Outputs, taps: &mut Taps, side: &str, layers: usize, name: &str, normed: bool) {
    let at = |path: String| taps.get::<3>(&path);
    let inner = (0..layers).map(|i| at(format!("{side}.{i}.hidden")));
    let Some(mut all) = std::iter::once(at(format!("{side}.hidden"))).chain(inner).collect::<Option<Vec<_>>>() else {
        return;
    };
    if let (true, Some(last), Some(after)) = (normed, all.last_mut(), at(format!("{side}.normed"))) {
        *last = after;
    }
    out.push((name.into(), Output::Layers(all.into_iter().map(Array::of).collect())));
}

/// The attention weights of each layer; of a recurrent decoder, of the one layer that looks.
fn maps(out: &mut Outputs, taps: &mut Taps, side: &str, layers: usize, part: &str, name: &str) {
    // One after the other, so that no map is held twice.
    let all: Vec<Array> =
        (0..layers).filter_map(|i| taps.take::<4>(&format!("{side}.{i}.{part}.weights")).map(Array::of)).collect();
    if !all.is_empty() {
        out.push((name.into(), Output::Layers(all)));
    }
}
