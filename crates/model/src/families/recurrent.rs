//! The ancestors: networks of recurrent cells (Elman 1990; Hochreiter and Schmidhuber 1997; Cho et al. 2014) as language
//! models, and read from both sides as classifiers and taggers.
//!
//! ```text
//! next token     embedding → layers, from the first token to the last → output
//! class, tag     embedding → layers, both ways, half of the width each → output; the class from the first position, where the
//!                run from the end has read everything
//! ```
//! Nobody else's files are like these, so the words are ours (`model_type: "qkv-lstm"`), but the parameters have the names and
//! shapes that PyTorch gives those of `nn.Embedding`, `nn.LSTM` (or GRU, RNN) and `nn.Linear`: its `load_state_dict` takes them.
//!
//! Quirks: order is told by reading, so there are no positions and no longest sequence. Documents that are packed into one row
//! are read on without a pause: what ends them is a token, and what it means is learnt. There are no heads and no
//! feed-forward; a recipe that asks for some is refused.

use super::{Config, Files, HeadKind, Sheet};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::spec::{Dropout, Head, InitScheme, Output, Pool, Position, Recurrence, Shape, SoftCap, Spec, Stack};
use crate::{Error, Result};
use qkv_kernels::{Activation, RecurrentCell};
use qkv_nn::recurrent::Ways;
use qkv_nn::{Biased, NormKind, Scale, Wiring};
use qkv_weights::Names;

/// What the sheets share.
pub(super) const SHEET: Sheet = Sheet {
    name: "",
    model_types: &[],
    architectures: &[],
    read: |config, _: &Files| read(&SHEET, RecurrentCell::Rnn, config),
    write,
    names,
    sizes: |sizes| new(RecurrentCell::Rnn, sizes),
    pool: Pool::First,
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::EndOfText }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

/// PyTorch's word for a cell, and the family's.
pub(super) fn word(cell: RecurrentCell) -> &'static str {
    match cell {
        RecurrentCell::Rnn => "rnn",
        RecurrentCell::Gru => "gru",
        RecurrentCell::Lstm => "lstm",
    }
}

/// A network of these sizes; both ways as an encoder, forward as a decoder.
pub(super) fn spec(
    cell: RecurrentCell,
    vocabulary: usize,
    width: usize,
    layers: usize,
    ways: Ways,
    dropout: f64,
) -> Spec {
    let plain = Stack::new(layers, 1, width, Activation::Tanh);
    let stack = Stack { recurrent: Some(Recurrence { cell, ways, handover: None, window: None }), ..plain };
    Spec {
        input: crate::presets::tokens(vocabulary),
        width,
        shape: if ways == Ways::Both { Shape::Encoder(stack) } else { Shape::Decoder(stack) },
        // What blocks of attention would have; there are none.
        wiring: Wiring::Post,
        norm: NormKind::Layer { eps: 1e-5 },
        position: Position::None,
        attention_bias: Biased::All,
        attention_scale: Scale::InverseRoot,
        qk_norm: None,
        soft_cap: SoftCap::default(),
        ffn_bias: true,
        head: Head::Language { output: Output::Own, bias: true },
        dropout: Dropout::residual(dropout),
        init: InitScheme::Torch,
    }
}

pub(super) fn read(sheet: &Sheet, cell: RecurrentCell, config: &Config) -> Result<Spec> {
    let task = sheet.task(config)?;
    let ways = if task == HeadKind::Language { Ways::Forward } else { Ways::Both };
    config.only("bidirectional", ways == Ways::Both)?;
    let (width, layers) = (config.count_or("hidden_size", 128)?, config.count_or("num_layers", 1)?);
    let spec = spec(cell, config.count_or("vocab_size", 0)?, width, layers, ways, config.number_or("dropout", 0.0)?);
    let labels = config.labels()?.map_or(2, |labels| labels.len());
    let head = match task {
        HeadKind::Classify => Head::Classify { labels, pool: Pool::First },
        HeadKind::Tag => Head::Tag { labels },
        _ => output(config, spec.head)?,
    };
    Ok(Spec { head, ..spec })
}

/// The head of a language model: `own`, or the table of tokens.
pub(super) fn output(config: &Config, own: Head) -> Result<Head> {
    let tied = config.switch_or("tie_word_embeddings", false)?;
    Ok(if tied { Head::Language { output: Output::Tied, bias: false } } else { own })
}

/// Sizes that recurrent networks do not have.
pub(super) fn refuse_sizes(name: &str, sizes: &Sizes) -> Result<()> {
    sizes.of_text(name)?;
    let refuse = |key: &str, what: String, hint: &str| Err(Error::new(key, what, hint));
    if sizes.heads != 1 {
        return refuse(
            "model.heads",
            format!("a {name} has no heads of attention, not {}", sizes.heads),
            "set it to 1",
        );
    }
    if sizes.kv_heads.is_some() {
        return refuse("model.kv_heads", format!("a {name} has no heads of attention"), "leave it at 0");
    }
    if sizes.inner.is_some() {
        return refuse("model.inner", format!("a {name} has no feed-forward"), "leave it at 0");
    }
    if sizes.std.is_some() {
        return refuse("model.start", format!("each matrix of a {name} starts by its own width"), "leave it at 0");
    }
    Ok(())
}

pub(super) fn new(cell: RecurrentCell, sizes: &Sizes) -> Result<Spec> {
    refuse_sizes(word(cell), sizes)?;
    let make = |ways| spec(cell, sizes.vocabulary, sizes.width, sizes.layers, ways, sizes.dropout);
    Ok(match sizes.labels {
        0 => make(Ways::Forward),
        labels => Spec { head: Head::Tag { labels }, ..make(Ways::Both) },
    })
}

/// What every recurrent network says of itself.
pub(super) fn write_shared(spec: &Spec, config: &mut Config) -> Result<Recurrence> {
    let Some((stack, cells)) = spec.recurrence() else {
        return Err(Error::new("spec", "the layers are not recurrent", "choose another family"));
    };
    config.set("vocab_size", spec.vocabulary().unwrap_or(0));
    config.set("hidden_size", spec.width);
    config.set("num_layers", stack.layers);
    config.set("dropout", spec.dropout.hidden);
    if let Head::Language { output, .. } = spec.head {
        config.set("tie_word_embeddings", output != Output::Own);
    }
    Ok(cells)
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    let cells = write_shared(spec, config)?;
    config.set("bidirectional", cells.ways == Ways::Both);
    if let Head::Classify { labels, .. } | Head::Tag { labels } = spec.head {
        super::name_labels(config, labels);
    }
    Ok(())
}

fn names(spec: &Spec, _: &Config) -> Names {
    let cell = spec.recurrence().map_or("rnn", |(_, cells)| word(cells.cell));
    let mut names =
        Names::new().module("tokens", "embedding").module("head.dense", "pooler").module("head.out", "output");
    for stack in ["encoder", "decoder"] {
        for (way, end) in [("forward", ""), ("reverse", "_reverse")] {
            for (part, short) in [("input", "ih"), ("state", "hh")] {
                for leaf in ["weight", "bias"] {
                    let ours = format!("{stack}.{cell}.layers.*.{way}.{part}.{leaf}");
                    names = names.exact(&ours, &format!("{cell}.{leaf}_{short}_l*{end}"));
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CausalLm, Encoder, Tokens, Transformer, count};
    use burn::tensor::{Device, Tensor};
    use qkv_kernels::Ids;
    use qkv_nn::{Cx, RowCache};
    use qkv_testkit::values;

    fn small(cell: RecurrentCell, ways: Ways) -> Transformer {
        Transformer::new(&spec(cell, 11, 8, 2, ways, 0.0), 3, &Device::flex()).expect("a network")
    }

    const CELLS: [RecurrentCell; 3] = [RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm];

    #[test]
    fn parameters_have_pytorchs_names_and_shapes() {
        let model = small(RecurrentCell::Lstm, Ways::Forward);
        let slots = names(model.spec(), &Config::new("qkv-lstm")).slots(&count::parameters(&model)).expect("complete");
        let named: Vec<(&str, &[usize])> = slots.iter().map(|s| (s.theirs.as_str(), s.shape.as_slice())).collect();
        assert_eq!(named[0], ("embedding.weight", &[11, 8][..]));
        assert!(
            named.contains(&("lstm.weight_ih_l0", &[32, 8][..])) && named.contains(&("lstm.bias_hh_l1", &[32][..]))
        );
        let both = small(RecurrentCell::Gru, Ways::Both);
        let slots = names(both.spec(), &Config::new("qkv-gru")).slots(&count::parameters(&both)).expect("complete");
        assert!(slots.iter().any(|s| s.theirs == "gru.weight_hh_l1_reverse" && s.shape == [12, 4]));
    }

    /// Rows that join, leave and take several tokens at once say what one pass over each says.
    #[test]
    fn rows_carry_their_states() {
        for cell in CELLS {
            let model = small(cell, Ways::Forward);
            let whole = |ids: &[u32]| {
                let logits = model.logits(&Tokens::new(Ids::one(ids.to_vec())), &mut Cx::eval()).expect("logits");
                values(logits)
            };
            let mut rows = RowCache::new(16);
            let (a, b) = (rows.admit(None), rows.admit(None));
            let mut pass = |tokens: &[(usize, usize)], ids: &[u32]| {
                rows.begin(tokens);
                let every: Vec<usize> = (0..ids.len()).collect();
                let logits =
                    model.continue_rows(ids.to_vec(), &mut Cx::ragged(&mut rows, every.into())).expect("logits");
                rows.advance();
                values(logits)
            };
            let first = pass(&[(a, 3), (b, 1)], &[1, 2, 3, 7]);
            let second = pass(&[(a, 1), (b, 1)], &[4, 8]);
            let (of_a, of_b) = (whole(&[1, 2, 3, 4]), whole(&[7, 8]));
            let close = |x: &[f32], y: &[f32]| assert!(qkv_testkit::max_diff(x, y) < 1e-5, "{cell:?}");
            close(&first[..33], &of_a[..33]);
            close(&first[33..], &of_b[..11]);
            close(&second[..11], &of_a[33..]);
            close(&second[11..], &of_b[11..]);
        }
    }

    #[test]
    fn padding_does_not_show_and_the_future_does_not_either() {
        for cell in CELLS {
            let model = small(cell, Ways::Both);
            let read = |ids: &[u32], real: Option<Vec<bool>>| {
                let tokens = Tokens::new(Ids::one(ids.to_vec()));
                let tokens = real.map_or(tokens.clone(), |real| tokens.with_padding(real));
                let hidden: Tensor<3> = model.hidden(&tokens, &mut Cx::eval()).expect("hidden states");
                values(hidden)
            };
            let (short, long) =
                (read(&[1, 2, 3], None), read(&[1, 2, 3, 9, 9], Some(vec![true, true, true, false, false])));
            assert_eq!(short, long[..24], "{cell:?}");
            let writer = small(cell, Ways::Forward);
            let say =
                |ids: [u32; 3]| values(writer.logits(&Tokens::new(Ids::one(ids)), &mut Cx::eval()).expect("logits"));
            assert_eq!(say([1, 2, 3])[..22], say([1, 2, 9])[..22], "{cell:?}");
        }
    }

    #[test]
    fn what_it_does_not_have_is_refused() {
        let sizes = Sizes { heads: 4, ..super::super::sizes::tests::SMALL };
        assert_eq!(new(RecurrentCell::Lstm, &sizes).unwrap_err().place, "model.heads");
        let sizes = Sizes { heads: 1, inner: Some(8), ..sizes };
        assert_eq!(new(RecurrentCell::Lstm, &sizes).unwrap_err().place, "model.inner");
        let model =
            Transformer::new(&spec(RecurrentCell::Gru, 11, 8, 1, Ways::Forward, 0.0), 1, &Device::flex()).unwrap();
        let size = qkv_nn::LoraSize { rank: 2, alpha: 2.0, dropout: 0.0 };
        let error = model.with_lora(&["input"], size, 1).unwrap_err();
        assert!(error.what.contains("recurrent"), "{error}");
    }
}
