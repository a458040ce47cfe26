//! Texts in batches of similar length: padding is work for nothing, so the longest go with the longest; answers come back
//! in the order of the questions.

use crate::TextModel;
use burn::tensor::Tensor;
use qkv_base::{Error, Kind, Result};
use qkv_kernels::Ids;
use qkv_kernels::threads::on_pool;
use qkv_model::Tokens;
use qkv_text::{Encoding, Tokenizer};

/// Who watches some work: a progress bar, a server, nobody.
pub trait Listener {
    /// `done` of `all` are done.
    fn progress(&mut self, _done: usize, _all: usize) {}
    /// Something that a person should know.
    fn note(&mut self, _note: &str) {}
    /// Whether the work is to stop.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {}

/// Works through `encodings`, `rows` at a time.
pub(crate) fn in_batches<T: Send>(
    encodings: &[Encoding],
    rows: usize,
    listener: &mut dyn Listener,
    mut work: impl FnMut(&[usize], Tokens) -> Result<Vec<T>> + Send,
) -> Result<Vec<T>> {
    let mut order: Vec<usize> = (0..encodings.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(encodings[*i].len()), *i));
    let mut answers: Vec<Option<T>> = encodings.iter().map(|_| None).collect();
    let mut done = 0;
    for batch in order.chunks(rows.max(1)) {
        if listener.is_cancelled() {
            return Err(interrupted());
        }
        let made = on_pool(|| work(batch, tokens(batch.iter().map(|i| &encodings[*i]))))?;
        for (i, answer) in batch.iter().zip(made) {
            answers[*i] = Some(answer);
        }
        done += batch.len();
        listener.progress(done, encodings.len());
    }
    Ok(answers.into_iter().flatten().collect())
}

/// The error of work that was asked to stop.
pub(crate) fn interrupted() -> Error {
    Error::new("work", "interrupted", "").of_kind(Kind::Interrupted)
}

/// Rows padded on the right, with token types where there are any but the first.
fn tokens<'a>(rows: impl Iterator<Item = &'a Encoding> + Clone) -> Tokens {
    let width = rows.clone().map(Encoding::len).max().unwrap_or(0);
    let n = rows.clone().count();
    let padded = |list: &[u32]| {
        let mut row = list.to_vec();
        row.resize(width, 0);
        row
    };
    let ids: Vec<u32> = rows.clone().flat_map(|e| padded(&e.ids)).collect();
    let lengths: Vec<usize> = rows.clone().map(Encoding::len).collect();
    let mut tokens = Tokens::new(Ids::new(ids, n));
    if lengths.iter().any(|l| *l != width) {
        tokens = tokens.with_padding(qkv_nn::mask::from_lengths(&lengths, width));
    }
    if rows.clone().any(|e| e.type_ids.iter().any(|k| *k != 0)) {
        tokens = tokens.with_token_types(Ids::new(rows.flat_map(|e| padded(&e.type_ids)).collect::<Vec<_>>(), n));
    }
    tokens
}

/// Encodes texts, cut to `longest` tokens (the special ones at the end kept); how many were cut is noted.
pub(crate) fn encode(
    tokenizer: &Tokenizer,
    texts: &[impl AsRef<str> + Sync],
    longest: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Encoding>> {
    let mut encodings = tokenizer.encode_batch(texts, true)?;
    let mut cut = 0;
    for encoding in encodings.iter_mut().filter(|e| e.len() > longest) {
        shorten(encoding, longest);
        cut += 1;
    }
    if cut > 0 {
        listener.note(&format!("{cut} of {} texts were cut to {longest} tokens", texts.len()));
    }
    Ok(encodings)
}

/// Takes tokens out before the special ones at the end.
fn shorten(encoding: &mut Encoding, longest: usize) {
    let tail = encoding.special_mask.iter().rev().take_while(|s| **s).count().min(longest);
    let (from, to) = (longest - tail, encoding.len() - tail);
    encoding.ids.drain(from..to);
    encoding.pieces.drain(from..to);
    encoding.bytes.drain(from..to);
    encoding.chars.drain(from..to);
    encoding.type_ids.drain(from..to);
    encoding.special_mask.drain(from..to);
    encoding.word_ids.drain(from..to);
    encoding.sequence_ids.drain(from..to);
}

/// The numbers of an answer. One that is not a number is refused: it would look like an answer.
pub(crate) fn finite<const D: usize>(answer: Tensor<D>, place: &str, model: &TextModel) -> Result<Vec<f32>> {
    let wrong = |e| Error::new(place, format!("{e:?}"), "load the model in f32");
    let values = answer.into_data().try_into_vec::<f32>().map_err(wrong)?;
    match values.iter().find(|v| v.is_nan() || **v == f32::INFINITY) {
        Some(value) => Err(model.not_finite(place, format!("the network answers {value}"))),
        None => Ok(values),
    }
}

/// `softmax(x)`, in f64.
pub(crate) fn softmax(x: &[f32]) -> Vec<f64> {
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f64> = x.iter().map(|v| ((v - most) as f64).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.into_iter().map(|v| v / sum).collect()
}

/// The places of the `k` largest, largest first; ties by place.
///
/// ```
/// assert_eq!(qkv_tasks::embed::largest(&[0.1, 0.5, 0.5, 0.2], 3), [1, 2, 3]);
/// ```
pub fn largest(x: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    let by = |a: &usize, b: &usize| x[*b].total_cmp(&x[*a]).then(a.cmp(b));
    let k = k.min(order.len());
    if k > 0 && k < order.len() {
        order.select_nth_unstable_by(k - 1, by);
        order.truncate(k);
    }
    order.sort_by(by);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_in_order() {
        assert_eq!(largest(&[0.1, 0.5, 0.5, 0.2], 3), [1, 2, 3]);
        assert_eq!(largest(&[0.1], 5), [0]);
        assert!(largest(&[], 5).is_empty());
        assert_eq!(softmax(&[0.0, 0.0]), [0.5, 0.5]);
    }

    #[test]
    fn an_answer_that_is_not_a_number_is_an_error_that_names_where_it_arose() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/bert-classify");
        let mut model = TextModel::load(&dir).unwrap();
        let tensor = |v: [f32; 2]| Tensor::<1>::from_floats(v, &burn::tensor::Device::flex());
        assert_eq!(finite(tensor([1.0, f32::NEG_INFINITY]), "x", &model).unwrap(), [1.0, f32::NEG_INFINITY]);
        let said = |model: &TextModel| finite(tensor([1.0, f32::NAN]), "classify", model).unwrap_err().to_string();
        assert!(said(&model).starts_with("classify: the network answers NaN"), "{}", said(&model));
        // Weights that are finite, and too large: the first layer that overflows is named.
        let path = "encoder.layers.1.ffn.up.weight";
        let n = qkv_model::pretrained::Values::of(&model.network.model).read(path).len();
        let huge = [(path.to_string(), vec![1e38; n])].into();
        model.network.model = qkv_model::pretrained::fill(model.network.model.clone(), huge);
        assert!(said(&model).contains("first after layer 2"), "{}", said(&model));
        // A weight that is none is named itself.
        model.network.report.finite.scan("pooler.dense.bias", &[f32::NAN]);
        assert!(said(&model).contains("index 0 of `pooler.dense.bias`"), "{}", said(&model));
    }

    #[test]
    fn cutting_keeps_the_end_mark() {
        let n = 6;
        let mut e = Encoding {
            ids: (0..n).collect(),
            pieces: vec![String::new(); 6],
            bytes: vec![(0, 0); 6],
            chars: vec![(0, 0); 6],
            type_ids: vec![0; 6],
            special_mask: vec![true, false, false, false, false, true],
            word_ids: vec![None; 6],
            sequence_ids: vec![None; 6],
        };
        shorten(&mut e, 4);
        assert_eq!(e.ids, [0, 1, 2, 5]);
    }
}
