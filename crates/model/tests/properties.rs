//! What must hold for every Transformer, whatever its family: checked on each tiny preset with noise on all parameters.

mod common;

use burn::tensor::{Device, Tensor};
use common::*;
use qkv_kernels::{Ids, Positions, plain};
use qkv_model::spec::{Head, Output, Shape, Spec};
use qkv_model::{CausalLm, Encoder, Memory, Seq2Seq, Tokens, Transformer};
use qkv_nn::{Cache, Cx, Taps, mask};
use qkv_testkit::{nmse, tolerance, values, with_threads};

/// Ids with all from column `from` on replaced by others.
fn with_other_end(tokens: &Tokens, from: usize) -> Tokens {
    let [b, t] = tokens.ids.dims();
    let change = |(i, &id): (usize, &u32)| if i % t >= from { (id + 40) % 97 } else { id };
    Tokens::new(Ids::new(tokens.ids.as_slice().iter().enumerate().map(change).collect::<Vec<_>>(), b))
}

#[test]
fn the_future_cannot_change_the_past() {
    for (name, spec) in decoders().chain(pairs()) {
        let model = answering(&spec);
        let (before, t) = (7, 12);
        let (source, target) = (tokens(2, 5, 1), tokens(2, t, 2));
        let given = |target: Tokens| match spec.shape {
            Shape::Pair { .. } => Given::Translate(source.clone(), target),
            _ => Given::Continue(target),
        };
        let one = run(&model, &given(target.clone()), &mut Cx::eval());
        let other = run(&model, &given(with_other_end(&target, before)), &mut Cx::eval());
        for b in 0..2 {
            assert_eq!(part(&one, b, 0, before), part(&other, b, 0, before), "{name}: the past, to the bit");
            assert_ne!(part(&one, b, before, 1), part(&other, b, before, 1), "{name}: the present does change");
        }
    }
}

const LENGTHS: [usize; 3] = [9, 5, 1];

/// Three rows of `LENGTHS` tokens, filled up with other tokens on the right or on the left; and each row by itself.
fn padded(place: u64, left: bool) -> (Tokens, Vec<Tokens>) {
    let width = LENGTHS[0];
    let alone: Vec<Vec<u32>> = LENGTHS.iter().zip(place..).map(|(&n, place)| ids(n, place)).collect();
    let fill = |row: &Vec<u32>| {
        let filling = ids(width - row.len(), 50);
        if left { [filling, row.clone()].concat() } else { [row.clone(), filling].concat() }
    };
    let all = Ids::new(alone.iter().flat_map(fill).collect::<Vec<_>>(), LENGTHS.len());
    let real = if left { mask::from_lengths_left(&LENGTHS, width) } else { mask::from_lengths(&LENGTHS, width) };
    (Tokens::new(all).with_padding(real), alone.into_iter().map(|row| Tokens::new(Ids::one(row))).collect())
}

#[test]
fn right_padding_changes_nothing_for_readers() {
    let (batch, alone) = padded(10, false);
    for (name, spec) in readers() {
        let model = answering(&spec);
        let together = model.hidden(&batch, &mut Cx::eval()).unwrap();
        let unmasked = model.hidden(&Tokens::new(batch.ids.clone()), &mut Cx::eval()).unwrap();
        for (b, tokens) in alone.iter().enumerate() {
            let want = values(model.hidden(tokens, &mut Cx::eval()).unwrap());
            assert_close(&part(&together, b, 0, LENGTHS[b]), &want, name);
            if b > 0 {
                assert!(off(&part(&unmasked, b, 0, LENGTHS[b]), &want) > 1e-3, "{name}: without the mask it would");
            }
        }
    }
}

#[test]
fn right_padding_of_the_source_changes_nothing_for_pairs() {
    let (sources, alone) = padded(10, false);
    let target = tokens(3, 6, 2);
    for (name, spec) in pairs() {
        let model = answering(&spec);
        let together = run(&model, &Given::Translate(sources.clone(), target.clone()), &mut Cx::eval());
        for (b, source) in alone.iter().enumerate() {
            let given = Given::Translate(source.clone(), Tokens::new(Ids::one(target.ids.row(b))));
            assert_close(&part(&together, b, 0, 6), &values(run(&model, &given, &mut Cx::eval())), name);
        }
    }
}

/// A pass over left-padded rows, where padding is not counted.
fn without_padding(batch: &Tokens) -> Positions {
    let real = batch.padding.as_ref().expect("padded rows");
    Positions::Each(mask::positions(real, LENGTHS[0]).into())
}

#[test]
fn left_padding_changes_nothing_for_writers() {
    let (batch, alone) = padded(20, true);
    let source = tokens(3, 4, 1);
    for (name, spec) in decoders().chain(pairs()) {
        let model = answering(&spec);
        let given = |target: &Tokens, source: Tokens| match spec.shape {
            Shape::Pair { .. } => Given::Translate(source, target.clone()),
            _ => Given::Continue(target.clone()),
        };
        let mut cx = Cx::eval().with_positions(without_padding(&batch));
        let together = run(&model, &given(&batch, source.clone()), &mut cx);
        for (b, target) in alone.iter().enumerate() {
            let own = Tokens::new(Ids::one(source.ids.row(b)));
            let want = values(run(&model, &given(target, own), &mut Cx::eval()));
            assert_close(&part(&together, b, LENGTHS[0] - LENGTHS[b], LENGTHS[b]), &want, name);
        }
    }
}

#[test]
fn a_batch_equals_its_rows() {
    for (name, spec) in tiny() {
        let model = answering(&spec);
        let given = Given::random(&spec, 3, 10);
        let together = run(&model, &given, &mut Cx::eval());
        for b in 0..3 {
            let alone = run(&model, &given.row(b), &mut Cx::eval());
            assert_close(&part(&together, b, 0, together.dims()[1]), &values(alone), name);
        }
    }
}

/// The columns `from..from + n` of every row.
fn columns(tokens: &Tokens, from: usize, n: usize) -> Tokens {
    let rows = tokens.ids.dims()[0];
    let part: Vec<u32> = (0..rows).flat_map(|b| tokens.ids.row(b)[from..from + n].to_vec()).collect();
    Tokens::new(Ids::new(part, rows))
}

/// Logits of the tokens after those in the cache.
fn next(model: &Transformer, tokens: &Tokens, memory: Option<&Memory>, cx: &mut Cx) -> Tensor<3> {
    match memory {
        Some(memory) => model.decode(tokens, memory, cx),
        None => model.logits(tokens, cx),
    }
    .expect("an input that fits")
}

/// The memory of padded sources, where the network has an encoder.
fn memory(model: &Transformer) -> Option<Memory> {
    model.encoder.is_some().then(|| model.encode(&padded(30, false).0, &mut Cx::eval()).unwrap())
}

#[test]
fn cached_decoding_equals_the_full_pass() {
    let t = 14; // longer than the window of tiny-alibi
    for (name, spec) in decoders().chain(pairs()) {
        let (model, target) = (answering(&spec), tokens(3, t, 2));
        let memory = memory(&model);
        let full = values(next(&model, &target, memory.as_ref(), &mut Cx::eval()));
        for chunks in [vec![1; t], vec![5, 1, 2, 1, 4, 1], vec![t]] {
            let mut cache = Cache::new(t);
            let mut parts = vec![];
            for &n in &chunks {
                let part = columns(&target, cache.len(), n);
                parts.push(next(&model, &part, memory.as_ref(), &mut Cx::decode(&mut cache)));
            }
            assert_eq!(cache.len(), t);
            assert_close(&values(Tensor::cat(parts, 1)), &full, &format!("{name} in chunks of {chunks:?}"));
        }
    }
}

#[test]
fn cached_decoding_of_left_padded_prompts_equals_each_alone() {
    let (batch, alone) = padded(20, true);
    let width = LENGTHS[0];
    for (name, spec) in decoders() {
        let model = answering(&spec);
        let mut cache = Cache::new(width + 1);
        model.logits(&batch, &mut Cx::decode(&mut cache).with_positions(without_padding(&batch))).unwrap();
        let real: Vec<bool> =
            batch.padding.as_ref().unwrap().chunks(width).flat_map(|row| [row, &[true]].concat()).collect();
        let more = tokens(3, 1, 60);
        let cx = &mut Cx::decode(&mut cache).with_positions(Positions::Each(LENGTHS.into()));
        let together = model.logits(&more.clone().with_padding(real), cx).unwrap();
        for (b, prompt) in alone.iter().enumerate() {
            let whole = Ids::one([prompt.ids.as_slice(), more.ids.row(b)].concat());
            let full = model.logits(&Tokens::new(whole), &mut Cx::eval()).unwrap();
            assert_close(&part(&together, b, 0, 1), &part(&full, 0, LENGTHS[b], 1), name);
        }
    }
}

/// After five cached tokens the rows become `rows` of those before, and go on with tokens of their own.
fn reordered(name: &str, model: &Transformer, memory: Option<Memory>, before: usize, rows: &[usize]) {
    let (start, end) = (tokens(before, 5, 2), tokens(rows.len(), 4, 3));
    let mut cache = Cache::new(9);
    next(model, &start, memory.as_ref(), &mut Cx::decode(&mut cache));
    cache.reorder(rows);
    let (whole_memory, memory) = (
        memory.as_ref().map(|m| m.select(rows)),
        // Rows that read the same source next to each other share it.
        memory.map(|m| m.select(&qkv_nn::cache::sources(rows, 1))),
    );
    let first = next(model, &columns(&end, 0, 1), memory.as_ref(), &mut Cx::decode(&mut cache));
    let others = next(model, &columns(&end, 1, 3), memory.as_ref(), &mut Cx::decode(&mut cache));
    let whole = |(b, &r): (usize, &usize)| [start.ids.row(r), end.ids.row(b)].concat();
    let whole = Ids::new(rows.iter().enumerate().flat_map(whole).collect::<Vec<_>>(), rows.len());
    let full = next(model, &Tokens::new(whole), whole_memory.as_ref(), &mut Cx::eval()).narrow(1, 5, 4);
    let what = format!("{name} with rows {rows:?} of {before}");
    assert_close(&values(Tensor::cat(vec![first, others], 1)), &values(full), &what);
}

#[test]
fn cached_decoding_survives_reordered_rows() {
    for (name, spec) in decoders().chain(pairs()) {
        let model = answering(&spec);
        let memory = memory(&model);
        reordered(name, &model, memory.clone(), 3, &[2, 0, 2]);
        reordered(name, &model, memory.clone(), 3, &[1, 1]);
        reordered(name, &model, memory.map(|m| m.select(&[1])), 1, &[0; 4]); // beams made from one row
    }
}

#[test]
fn fused_equals_plain() {
    for (name, spec) in tiny() {
        let model = lively(&spec, &Device::flex().autodiff());
        let given = Given::random(&spec, 2, 11);
        let step = || {
            let logits = values(run(&model, &given, &mut Cx::train(1, 1)).inner());
            let loss = loss(&model, &given, &mut Cx::train(1, 1));
            (logits, gradients(&model, &loss.backward()))
        };
        let ((logits, fused), (want, twin)) = (step(), plain(step));
        assert_ne!(logits, want, "{name}: two ways of summation round differently, so both ran");
        let off = nmse(&logits, &want);
        assert!(off <= tolerance::NMSE, "{name}: logits, nmse {off:.1e}");
        assert!(fused.keys().eq(twin.keys()), "{name}: the same parameters are reached");
        let typical = twin.values().map(|g| norm(g)).fold(0.0, f64::max);
        for (path, want) in &twin {
            if shifts_a_softmax(path, &spec) {
                // Only rounding is left, and two orders of summation round differently; both must be next to nothing.
                let size = norm(&fused[path]).max(norm(want));
                assert!(size <= 1e-6 * typical, "{name}: {path} should be zero, is {size:.1e} of {typical:.1e}");
                continue;
            }
            let off = nmse(&fused[path], want);
            // Ten times what one kernel may be off: a gradient has been through all of them twice.
            assert!(off <= 10.0 * tolerance::NMSE, "{name}: gradient of {path}, nmse {off:.1e}");
        }
    }
}

#[test]
fn a_training_step_has_the_same_bits_at_any_thread_count() {
    for (name, spec) in tiny() {
        // Large enough that the kernels do share the work out: 12·60 rows (640 for images) of 32 and more.
        let given = Given::random(&spec, if spec.patches().is_some() { 64 } else { 12 }, 60);
        let step = || {
            let model = lively(&spec, &Device::flex().autodiff());
            let loss = loss(&model, &given, &mut Cx::train(1, 1));
            (values(loss.clone().inner()), gradients(&model, &loss.backward()))
        };
        let (loss, grads) = with_threads(1, step);
        for n in [2, 3, 8] {
            let (other, others) = with_threads(n, step);
            assert_eq!(loss[0].to_bits(), other[0].to_bits(), "{name}: loss at {n} threads");
            for (path, grad) in &grads {
                let same = grad.iter().zip(&others[path]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name}: gradient of {path} at {n} threads");
            }
        }
    }
}

/// Two documents of four and seven tokens: in one row with positions that start again, and each by itself.
fn packed() -> (Tokens, Positions, [Tokens; 2]) {
    let [a, b] = [ids(4, 40), ids(7, 41)];
    let row =
        Tokens::new(Ids::one([a.clone(), b.clone()].concat())).with_documents([[0; 4].as_slice(), &[1; 7]].concat());
    let positions = Positions::Each((0..4).chain(0..7).collect());
    (row, positions, [a, b].map(|doc| Tokens::new(Ids::one(doc))))
}

#[test]
fn packed_documents_equal_separate_rows() {
    let (row, positions, alone) = packed();
    let source = tokens(1, 5, 1);
    for (name, spec) in tiny().filter(|(_, spec)| spec.vocabulary().is_some()) {
        let model = answering(&spec);
        let here = || Cx::eval().with_positions(positions.clone());
        let check = |together: Tensor<3>, each: [Tensor<3>; 2]| {
            let [a, b] = each.map(values);
            assert_close(&part(&together, 0, 0, 4), &a, name);
            assert_close(&part(&together, 0, 4, 7), &b, name);
        };
        if spec.encoder().is_some() {
            let read = |tokens: &Tokens, mut cx: Cx| model.hidden(tokens, &mut cx).unwrap();
            check(read(&row, here()), alone.each_ref().map(|doc| read(doc, Cx::eval())));
        }
        if spec.decoder().is_some() {
            let memory = spec.encoder().map(|_| model.encode(&source, &mut Cx::eval()).unwrap());
            let write = |tokens: &Tokens, mut cx: Cx| next(&model, tokens, memory.as_ref(), &mut cx);
            check(write(&row, here()), alone.each_ref().map(|doc| write(doc, Cx::eval())));
        }
    }
}

#[test]
fn tokens_of_a_prefix_see_each_other_and_nothing_behind() {
    for (name, spec) in decoders()
        .chain(pairs())
        .filter(|(_, spec)| spec.decoder().is_some_and(|s| s.window == qkv_model::spec::Window::None))
    {
        let model = answering(&spec);
        let memory = spec.encoder().map(|_| model.encode(&tokens(2, 5, 1), &mut Cx::eval()).unwrap());
        // In row 0 four tokens are prefix, in row 1 none.
        let write =
            |target: &Tokens| next(&model, &target.clone().with_prefix([4, 0]), memory.as_ref(), &mut Cx::eval());
        let target = tokens(2, 9, 2);
        let (one, inside, behind) = (write(&target), with_other_end(&target, 3), with_other_end(&target, 4));
        let (inside, behind) = (write(&inside), write(&behind));
        assert_ne!(part(&one, 0, 0, 1), part(&inside, 0, 0, 1), "{name}: the first token sees the last of the prefix");
        assert_eq!(part(&one, 1, 0, 3), part(&inside, 1, 0, 3), "{name}: without a prefix it does not");
        assert_eq!(part(&one, 0, 0, 4), part(&behind, 0, 0, 4), "{name}: nobody sees what comes behind the prefix");
    }
}

#[test]
fn tapped_weights_are_distributions_that_never_look_ahead() {
    for (name, spec) in tiny() {
        let model = answering(&spec);
        let given = Given::random(&spec, 2, 11);
        let plain = values(run(&model, &given, &mut Cx::eval()));
        let mut taps = Taps::new(["weights"]);
        let tapped = values(run(&model, &given, &mut Cx::eval().with_taps(&mut taps)));
        assert_close(&tapped, &plain, name);
        let layers = |stack: Option<&qkv_model::spec::Stack>| stack.map_or(0, |s| s.layers);
        let pair = matches!(spec.shape, Shape::Pair { .. });
        let want = layers(spec.encoder()) + layers(spec.decoder()) * if pair { 2 } else { 1 };
        assert_eq!(taps.got().len(), want, "{name}: {:?}", taps.got().keys());
        for path in taps.got().keys() {
            let weights = taps.get::<4>(path).expect("[B, H, Tq, Tk]");
            let [_, _, tq, tk] = weights.dims();
            for (i, row) in values(weights).chunks(tk).enumerate() {
                let sum: f32 = row.iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{name}: {path} row {i} sums to {sum}");
                if path.starts_with("decoder.") && path.ends_with(".attention.weights") {
                    assert!(row[i % tq + 1..].iter().all(|w| *w == 0.0), "{name}: {path} row {i} looks ahead");
                }
            }
        }
    }
}

#[test]
fn hidden_states_of_every_layer_are_handed_out() {
    for (name, spec) in tiny() {
        let model = answering(&spec);
        let given = Given::random(&spec, 2, 11);
        let mut taps = Taps::new(["hidden"]);
        run(&model, &given, &mut Cx::eval().with_taps(&mut taps));
        let stacks = [("decoder", spec.decoder()), ("encoder", spec.encoder())];
        let mut want: Vec<String> = vec![];
        for (stack, layers) in stacks.iter().filter_map(|(name, s)| Some((name, s.as_ref()?.layers))) {
            want.extend((0..layers).map(|i| format!("{stack}.{i}.hidden")));
            want.push(format!("{stack}.hidden")); // what goes into the first layer
        }
        assert_eq!(taps.got().keys().cloned().collect::<Vec<_>>(), want, "{name}");
        let all: Vec<Vec<f32>> = taps.got().values().map(|t| values(t.flat.clone())).collect();
        for (i, x) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != x), "{name}: {} is another layer's", want[i]);
        }
    }
}

/// The same network with an output matrix of its own that holds what the token table holds.
fn untied(spec: &Spec, scale: f64, bias: bool) -> Transformer {
    let device = Device::flex().autodiff();
    let mut model = lively(spec, &device);
    let own = Spec { head: Head::Language { output: Output::Own, bias }, ..spec.clone() };
    let mut head = Transformer::new(&own, 1, &device).expect("a valid spec").head;
    let out = head.out.as_mut().expect("an output matrix");
    let table = model.tokens.as_ref().expect("a table").weight.val().detach();
    out.weight = out.weight.clone().map(|_| (table * scale).detach().require_grad());
    if let (Some(own), Some(bias)) = (&mut out.bias, &model.head.bias) {
        *own = own.clone().map(|_| bias.val().detach().require_grad());
    }
    model.head = head;
    model
}

#[test]
fn a_tied_table_gets_the_gradients_of_both_its_uses() {
    let mut seen = 0;
    for (name, spec) in tiny() {
        let Head::Language { output: output @ (Output::Tied | Output::TiedScaled), bias } = spec.head else { continue };
        seen += 1;
        let scale = if output == Output::TiedScaled { (spec.width as f64).powf(-0.5) } else { 1.0 };
        let given = Given::random(&spec, 2, 8);
        let grads = |model: &Transformer| gradients(model, &loss(model, &given, &mut Cx::eval()).backward());
        let tied = grads(&lively(&spec, &Device::flex().autodiff()));
        let apart = grads(&untied(&spec, scale, bias));
        let (read, written) = (&apart["tokens.weight"], &apart["head.out.weight"]);
        assert!(norm(read) > 0.0 && norm(written) > 0.0, "{name}");
        let sum: Vec<f32> = read.iter().zip(written).map(|(r, w)| r + scale as f32 * w).collect();
        assert_close(&tied["tokens.weight"], &sum, name);
    }
    assert_eq!(seen, 9);
}

/// A masked-language head is always tied, so here the two uses are told apart by their rows: a word that is not read
/// can only be reached through the output.
#[test]
fn a_tied_table_of_an_encoder_is_reached_through_its_output_too() {
    for (name, spec) in tiny().filter(|(_, spec)| matches!(spec.head, Head::Masked { .. })) {
        let model = lively(&spec, &Device::flex().autodiff());
        let given = Given::Read(tokens(1, 6, 1));
        let grads = gradients(&model, &loss(&model, &given, &mut Cx::eval()).backward());
        let absent = (0..97).find(|id| !ids(6, 1).contains(id)).expect("a word that is not read") as usize;
        assert!(norm(&grads["tokens.weight"][absent * 32..][..32]) > 0.0, "{name}");
        let hidden = model.hidden(&tokens(1, 6, 1), &mut Cx::eval()).unwrap();
        let alone = gradients(&model, &hidden.powi_scalar(2).sum().backward());
        assert_eq!(norm(&alone["tokens.weight"][absent * 32..][..32]), 0.0, "{name}: not through the input");
    }
}
