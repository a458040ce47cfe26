//! What training knows of a network: its parameters by name, which burn's [`Module`] gives, and one forward pass.
//!
//! A network of one's own joins the loop, its checkpoints and its guards with one method: scores `[N, V]` for the targets of
//! a batch, in their order. Randomness (dropout) comes from the context, so that a pass is the same whenever it is run.
//!
//! ```
//! use burn::module::Module;
//! use burn::tensor::{Device, Tensor};
//! use qkv_data::Batch;
//! use qkv_kernels::Ids;
//! use qkv_nn::{Build, Cx, Embedding, Init};
//! use qkv_train::Trainable;
//!
//! /// Which token follows which: a table `[V, V]`.
//! #[derive(Module, Debug)]
//! struct Bigrams {
//!     table: Embedding,
//! }
//!
//! impl Trainable for Bigrams {
//!     fn forward(&self, batch: &Batch, _: &mut Cx) -> qkv_base::Result<Tensor<2>> {
//!         let scores = self.table.forward(&Ids::new(batch.ids.clone(), batch.rows)); // [B, T, V]
//!         let [b, t, v] = scores.dims();
//!         Ok(scores.reshape([b * t, v]))
//!     }
//! }
//!
//! let build = Build::new(&Device::flex(), 0);
//! let bigrams = Bigrams { table: Embedding::new(&build, 5, 5, Init::Zeros) };
//! let batch = Batch { rows: 1, length: 2, ids: vec![3, 4], ..Batch::default() };
//! assert_eq!(bigrams.forward(&batch, &mut Cx::eval())?.dims(), [2, 5]);
//! # Ok::<(), qkv_base::Error>(())
//! ```

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use qkv_base::Result;
use qkv_data::Batch;
use qkv_data::objective::Aim;
use qkv_kernels::{Ids, Positions, Projection};
use qkv_model::{CausalLm, Encoder, Seq2Seq, Tokens, Transformer};
use qkv_nn::{Cx, device};

/// A network that can be trained.
pub trait Trainable: Module {
    /// A row of scores for each target of the batch, `[N, V]`; or for those only which the context asks for
    /// ([`qkv_nn::Answers::At`]), in their order.
    fn forward(&self, batch: &Batch, cx: &mut Cx) -> Result<Tensor<2>>;

    /// The last matrix, if scores are its products with states and nothing more. Where the context defers them
    /// ([`Cx::scores_deferred`]), `forward` hands out these states `[N, C]`, and the loss computes scores part by part: all of
    /// them together are often the largest tensor of a step.
    fn scores(&self) -> Option<Projection> {
        None
    }
}

impl Trainable for Transformer {
    fn scores(&self) -> Option<Projection> {
        self.head.scores(self.tokens.as_ref())
    }

    fn forward(&self, batch: &Batch, cx: &mut Cx) -> Result<Tensor<2>> {
        let answer = if !batch.pixels.is_empty() {
            self.answer_image(pixels(self, batch), cx)?
        } else if batch.memory_length > 0 {
            let memory =
                self.encode(&padded(&batch.memory, batch.rows, &batch.memory_lengths, batch.memory_mask()), cx)?;
            // Padding stands after the text and is not a target: a writer never sees it.
            self.decode(&Tokens::new(Ids::new(batch.ids.clone(), batch.rows)), &memory, cx)?
        } else if self.decoder.is_some() {
            write(self, batch, cx)?
        } else {
            let mut tokens = padded(&batch.ids, batch.rows, &batch.lengths, batch.mask());
            if !batch.token_types.is_empty() {
                tokens = tokens.with_token_types(Ids::new(batch.token_types.clone(), batch.rows));
            }
            self.answer(&tokens, cx)?
        };
        let answer = if batch.aim == Aim::Span { answer.swap_dims(1, 2) } else { answer }; // [B,T,2] → [B,2,T]
        let [b, n, v] = answer.dims();
        Ok(answer.reshape([b * n, v]))
    }
}

/// A decoder alone: packed documents do not see each other, a prefix is seen both ways.
fn write(model: &Transformer, batch: &Batch, cx: &mut Cx) -> Result<Tensor<3>> {
    let mut tokens = Tokens::new(Ids::new(batch.ids.clone(), batch.rows));
    if batch.prefixes.iter().any(|n| *n > 0) {
        tokens = tokens.with_prefix(batch.prefixes.clone());
    }
    if batch.documents.is_empty() {
        return model.logits(&tokens, cx);
    }
    let before =
        std::mem::replace(&mut cx.positions, Positions::Each(batch.positions.iter().map(|p| *p as usize).collect()));
    let logits = model.logits(&tokens.with_documents(batch.documents.clone()), cx);
    cx.positions = before;
    logits
}

/// Tokens with their padding, where there is any.
fn padded(ids: &[u32], rows: usize, lengths: &[usize], mask: Vec<bool>) -> Tokens {
    let tokens = Tokens::new(Ids::new(ids.to_vec(), rows));
    let width = ids.len() / rows.max(1);
    if lengths.iter().all(|n| *n == width) { tokens } else { tokens.with_padding(mask) }
}

fn pixels(model: &Transformer, batch: &Batch) -> Tensor<4> {
    let [c, h, w] = batch.picture;
    let device = model.devices().first().cloned().unwrap_or_else(device::default);
    Tensor::from_data(TensorData::new(batch.pixels.clone(), [batch.rows, c, h, w]), &device)
}
