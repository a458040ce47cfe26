//! The first networks that translate: a recurrent encoder reads the source, a recurrent decoder writes the target.
//!
//! ```text
//! state       the encoder's last state is the decoder's first: however long the source, it must fit in there
//! attention   the encoder reads both ways, half of the width each; the decoder looks at all its outputs before each step
//! ```
//! Nobody else's files are like these: `model_type` is ours, parameters have the names and shapes that PyTorch gives those of
//! `nn.Embedding`, `nn.LSTM` or `nn.GRU`, `nn.GRUCell` and `nn.Linear`. Source and target share one table.

use super::recurrent::{output, refuse_sizes, word, write_shared};
use super::{Config, Files, HeadKind, Sheet};
use super::{Framing, LinearLayout, Pieces, Sizes, TargetStart, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::spec::{Handover, Pool, Recurrence, Shape, Spec, Stack};
use qkv_kernels::{Activation, RecurrentCell};
use qkv_nn::recurrent::Ways;
use qkv_weights::Names;

/// What the sheets share.
pub(super) const SHEET: Sheet = Sheet {
    name: "",
    model_types: &[],
    architectures: &[],
    read: |config, _: &Files| read(RecurrentCell::Gru, Handover::Attention, config),
    write,
    names,
    sizes: |sizes| new(RecurrentCell::Gru, Handover::Attention, "", sizes),
    pool: Pool::First,
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: Some(TargetStart::Pad),
    tokenizer: Some(Tokenizing { pieces: Pieces::Unigram, shape: TokenizerShape::Ended }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

/// What the one architecture is for.
pub(super) const WRITES: HeadKind = HeadKind::Language;

fn spec(cell: RecurrentCell, hands: Handover, vocabulary: usize, width: usize, layers: usize, dropout: f64) -> Spec {
    let stack = |ways| Stack {
        recurrent: Some(Recurrence { cell, ways, handover: Some(hands), window: None }),
        ..Stack::new(layers, 1, width, Activation::Tanh)
    };
    let reads = if hands == Handover::Attention { Ways::Both } else { Ways::Forward };
    let shape = Shape::Pair { encoder: stack(reads), decoder: stack(Ways::Forward) };
    Spec { shape, ..super::recurrent::spec(cell, vocabulary, width, layers, Ways::Forward, dropout) }
}

pub(super) fn read(cell: RecurrentCell, hands: Handover, config: &Config) -> Result<Spec> {
    let (width, layers) = (config.count_or("hidden_size", 128)?, config.count_or("num_layers", 1)?);
    let spec = spec(cell, hands, config.count_or("vocab_size", 0)?, width, layers, config.number_or("dropout", 0.0)?);
    Ok(Spec { head: output(config, spec.head.clone())?, ..spec })
}

pub(super) fn new(cell: RecurrentCell, hands: Handover, name: &str, sizes: &Sizes) -> Result<Spec> {
    refuse_sizes(name, sizes)?;
    Ok(spec(cell, hands, sizes.vocabulary, sizes.width, sizes.layers, sizes.dropout))
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    write_shared(spec, config)?;
    config.set("is_encoder_decoder", true);
    Ok(())
}

fn names(spec: &Spec, _: &Config) -> Names {
    let cell = spec.recurrence().map_or("", |(_, cells)| word(cells.cell));
    let mut names = Names::new().module("tokens", "embedding").module("head.out", "output");
    let parts = [
        ("input.weight", "weight_ih"),
        ("state.weight", "weight_hh"),
        ("input.bias", "bias_ih"),
        ("state.bias", "bias_hh"),
    ];
    let stacks = [
        (format!("encoder.{cell}"), format!("encoder.{cell}")),
        (format!("decoder.{cell}"), format!("decoder.{cell}")),
        ("decoder.attending.upper".into(), format!("decoder.{cell}")),
    ];
    for (ours, theirs) in &stacks {
        for (way, end) in [("forward", ""), ("reverse", "_reverse")] {
            for (part, name) in parts {
                names = names.exact(&format!("{ours}.layers.*.{way}.{part}"), &format!("{theirs}.{name}_l*{end}"));
            }
        }
    }
    for (part, name) in parts {
        names = names.exact(&format!("decoder.attending.cell.{part}"), &format!("decoder.cell.{name}"));
    }
    for part in ["start", "attention.query", "attention.key", "attention.score", "context", "readout"] {
        names = names.module(&format!("decoder.attending.{part}"), &format!("decoder.{part}"));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Seq2Seq, Tokens, Transformer};
    use burn::tensor::Device;
    use qkv_kernels::Ids;
    use qkv_nn::{Cx, RowCache, mask};
    use qkv_testkit::{max_diff, values};

    const KINDS: [(RecurrentCell, Handover); 3] = [
        (RecurrentCell::Lstm, Handover::State),
        (RecurrentCell::Gru, Handover::State),
        (RecurrentCell::Gru, Handover::Attention),
    ];

    fn small((cell, hands): (RecurrentCell, Handover)) -> Transformer {
        Transformer::new(&spec(cell, hands, 11, 8, 2, 0.0), 3, &Device::flex()).expect("a network")
    }

    fn whole(model: &Transformer, source: &[u32], target: &[u32]) -> Vec<f32> {
        let memory = model.encode(&Tokens::new(Ids::one(source.to_vec())), &mut Cx::eval()).expect("a memory");
        values(model.decode(&Tokens::new(Ids::one(target.to_vec())), &memory, &mut Cx::eval()).expect("logits"))
    }

    #[test]
    fn a_source_of_a_ragged_batch_is_the_source_alone() {
        for kind in KINDS {
            let model = small(kind);
            let source =
                Tokens::new(Ids::new(vec![1, 2, 3, 4, 5, 6, 9, 9], 2)).with_padding(mask::from_lengths(&[4, 2], 4));
            let memory = model.encode(&source, &mut Cx::eval()).expect("a memory");
            let target = Tokens::new(Ids::new(vec![0, 7, 8, 0, 3, 4], 2));
            let got = values(model.decode(&target, &memory, &mut Cx::eval()).expect("logits"));
            assert!(max_diff(&got[..33], &whole(&model, &[1, 2, 3, 4], &[0, 7, 8])) < 1e-5, "{kind:?}");
            assert!(max_diff(&got[33..], &whole(&model, &[5, 6], &[0, 3, 4])) < 1e-5, "{kind:?}");
        }
    }

    /// Rows of two sources, one of them twice (a beam), token by token and in one go, say what one pass says.
    #[test]
    fn rows_go_on_from_their_source_and_state() {
        for kind in KINDS {
            let model = small(kind);
            let sources: [&[u32]; 2] = [&[1, 2, 3, 4], &[5, 6]];
            let mut rows = RowCache::new(16);
            let padded =
                Tokens::new(Ids::new(vec![1, 2, 3, 4, 5, 6, 0, 0], 2)).with_padding(mask::from_lengths(&[4, 2], 4));
            let memory = model.encode(&padded, &mut Cx::eval()).expect("a memory");
            let numbers = rows.admit_sources(&[4, 2], model.project_memory(&memory));
            let all: Vec<usize> = [numbers[0], numbers[1], numbers[0]].map(|n| rows.admit(Some(n))).to_vec();
            let mut pass = |tokens: &[(usize, usize)], ids: &[u32]| {
                rows.begin(tokens);
                let every: Vec<usize> = (0..ids.len()).collect();
                let logits =
                    model.continue_rows(ids.to_vec(), &mut Cx::ragged(&mut rows, every.into())).expect("logits");
                rows.advance();
                values(logits)
            };
            let first = pass(&[(all[0], 1), (all[1], 1), (all[2], 1)], &[0, 0, 0]);
            let second = pass(&[(all[0], 2), (all[1], 1), (all[2], 1)], &[7, 8, 3, 9]);
            for (row, (source, target)) in
                [(sources[0], vec![0, 7, 8]), (sources[1], vec![0, 3]), (sources[0], vec![0, 9])]
                    .into_iter()
                    .enumerate()
            {
                let want = whole(&model, source, &target);
                let from = [0, 22, 33][row];
                let got = [&first[row * 11..(row + 1) * 11], &second[from..from + 11 * (target.len() - 1)]].concat();
                assert!(max_diff(&got, &want) < 1e-5, "{kind:?}, row {row}");
            }
        }
    }

    #[test]
    fn the_memory_of_a_state_has_one_size_and_that_of_attention_grows() {
        let size = |kind, n: u32| {
            let source = Tokens::new(Ids::one((0..n).map(|i| i % 11).collect::<Vec<u32>>()));
            small(kind).encode(&source, &mut Cx::eval()).expect("a memory").states.dims()
        };
        assert_eq!([3, 30].map(|n| size(KINDS[0], n)), [[1, 4, 8]; 2]); // two layers, h and c
        assert_eq!([3, 30].map(|n| size(KINDS[2], n)[1]), [3, 30]);
    }
}
