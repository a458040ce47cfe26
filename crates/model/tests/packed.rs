//! Networks that only answer: every family with packed matrices of every precision beside the same network in f32, what is
//! written in eight and four bits, and what is refused.

use burn::tensor::Device;
use qkv_model::outputs::{Inputs, Output, OutputOptions, forward_outputs};
use qkv_model::precision::packed_bytes;
use qkv_model::spec::Input;
use qkv_model::{Precision, Pretrained};
use qkv_nn::walk;
use qkv_weights::Checkpoint;
use std::path::{Path, PathBuf};

fn tiny() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root).expect("fixtures").map(|e| e.expect("an entry").path()).collect();
    all.sort();
    all
}

/// What comes out, and the states of every layer, for something that the network can read.
fn answer(it: &Pretrained) -> Vec<f32> {
    let mut inputs = Inputs::of_ids(vec![5, 6, 7, 11, 3, 9, 20]);
    if it.spec().encoder().is_some() && it.spec().decoder().is_some() {
        inputs.decoder_input_ids = Some(vec![vec![1, 8, 4]]);
    }
    if let Input::Patches { image, channels, .. } = it.spec().input {
        let picture =
            |c: usize| (0..image).map(|y| (0..image).map(|x| ((c + x * y) % 7) as f32 / 7.0).collect()).collect();
        inputs = Inputs { pixel_values: Some(vec![(0..channels).map(picture).collect()]), ..Inputs::default() };
    }
    let outputs = forward_outputs(it, &inputs, OutputOptions { hidden: true, attentions: false }).expect("an answer");
    let all = outputs.into_iter().flat_map(|(_, output)| match output {
        Output::One(array) => array.values,
        Output::Layers(layers) => layers.into_iter().flat_map(|array| array.values).collect(),
    });
    all.collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn every_family_answers_alike_in_every_precision() {
    for dir in tiny() {
        let name = dir.file_name().expect("a name").to_string_lossy().to_string();
        let plain = Pretrained::load(&dir, &Device::flex()).expect("loads");
        let want = answer(&plain);
        for (precision, least) in [
            (Precision::Stored, 1.0 - 1e-9),
            (Precision::F32, 1.0 - 1e-9),
            // Eight bits; T5 without its 1/√D is the most sensitive. (Groups of eight and four bits round x, too: see below.)
            (Precision::Bf16, 0.995),
            // Three bits more: errors of an eighth, and a cosine is off by their square.
            (Precision::F16, 1.0 - 0.005 / 64.0),
        ] {
            let packed = Pretrained::load_packed(&dir, &Device::flex(), precision).expect("loads");
            let got = answer(&packed);
            assert_eq!(got.len(), want.len());
            let close = cosine(&got, &want);
            assert!(close >= least, "{name} in {precision}: {close}");
            if matches!(precision, Precision::F32 | Precision::Stored) {
                // Relative to the largest state: T5's grow from layer to layer.
                let most = want.iter().fold(1.0f32, |most, v| most.max(v.abs()));
                let off = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 2e-5 * most, "{name} in {precision}: {off} of {most}");
            }
            // Recurrent cells stay as they are; everything else has matrices to pack, and nothing was written out for it.
            assert!(!packed_bytes(&packed.model).is_empty(), "{name} in {precision}");
            let written_out =
                |it: &qkv_model::Transformer| it.tokens.as_ref().is_some_and(|t| t.weight.is_initialized());
            assert!(!written_out(&packed.model) && !written_out(&packed.model.answering()), "{name} in {precision}");
        }
    }
}

#[test]
fn eight_and_four_bits_are_written_and_read_back() {
    for dir in tiny() {
        let name = dir.file_name().expect("a name").to_string_lossy().to_string();
        let plain = Pretrained::load(&dir, &Device::flex()).expect("loads");
        for precision in [Precision::Int8, Precision::Int4] {
            let out = tempfile::tempdir().expect("a place");
            // Of recurrent networks little or nothing is a matrix that can be packed: then nothing is written.
            let Ok(rounded) = plain.save_grouped(&out.path().join("x"), precision, u64::MAX) else {
                assert!(name.starts_with("qkv-") && !out.path().join("x").exists(), "{name}");
                continue;
            };
            let out = out.path().join("x");
            let (file, bytes) =
                (Checkpoint::open(&out).expect("opens"), |p: &Path| std::fs::metadata(p).expect("a file").len());
            assert!(bytes(&out.join("model.safetensors")) < bytes(&dir.join("model.safetensors")), "{name}");
            // As the file has them, which is what rounding while loading gives.
            let back = Pretrained::load_packed(&out, &Device::flex(), Precision::Stored).expect("loads");
            let asked = Pretrained::load_packed(&dir, &Device::flex(), precision).expect("loads");
            assert_eq!(answer(&back), answer(&asked), "{name} in {precision}");
            assert_eq!(packed_bytes(&back.model), packed_bytes(&asked.model), "{name} in {precision}");
            // Number by number, they are the numbers that are packed.
            let numbers = Pretrained::load(&out, &Device::flex()).expect("loads");
            let values = |it: &Pretrained| {
                let mut all = vec![];
                walk(&it.model, |p| {
                    all.push((p.path().to_string(), p.values().into_data().try_to_vec::<f32>().expect("f32")))
                });
                all
            };
            assert_eq!(values(&numbers), values(&back), "{name} in {precision}");
            // With the same rounded weights in f32, all that is left is that x is rounded to eight bits.
            let close = cosine(&answer(&back), &answer(&numbers));
            assert!(close >= 0.995, "{name} in {precision}: {close}");
            assert_eq!(
                file.tensors().len(),
                file.entries().len() + rounded + if precision == Precision::Int4 { mins(&file) } else { 0 }
            );
        }
    }
}

/// How many matrices have minima.
fn mins(file: &Checkpoint) -> usize {
    let four = |e: &&qkv_weights::Entry| e.dtype == qkv_weights::Dtype::U8;
    file.entries().iter().filter(four).count()
}

#[test]
fn a_saved_network_has_the_numbers_of_the_packed_one() {
    let dir = &tiny()[0];
    let packed = Pretrained::load_packed(dir, &Device::flex(), Precision::Bf16).expect("loads");
    let out = tempfile::tempdir().expect("a place");
    packed.save(out.path(), qkv_weights::Dtype::F32, u64::MAX).expect("written");
    let again = Pretrained::load_packed(out.path(), &Device::flex(), Precision::Bf16).expect("loads");
    assert_eq!(answer(&packed), answer(&again));
}

#[test]
fn precisions_have_names() {
    for (name, precision) in Precision::ALL {
        assert_eq!((name.parse::<Precision>().expect("known"), precision.to_string()), (precision, name.to_string()));
    }
    let error = "fp8".parse::<Precision>().expect_err("unknown");
    assert_eq!(error.hint, "one of stored, f32, bf16, f16, int8, int4");
}

/// f16 ends at 65,504: a number beyond it is refused by name instead of becoming infinite.
#[test]
fn what_f16_cannot_hold_is_refused() {
    let spec = qkv_model::presets::find("tiny-decoder").expect("a preset").spec();
    let model = qkv_model::Transformer::new(&spec, 1, &Device::flex()).expect("a network");
    let path = "decoder.layers.1.ffn.down.weight";
    let with = |value: f32| {
        let mut values = qkv_model::pretrained::Values::of(&model).read(path);
        values[3] = value;
        qkv_model::pretrained::fill(model.clone(), [(path.to_string(), values)].into())
    };
    let pack = |value: f32, precision| qkv_model::precision::pack(with(value), precision);
    assert!(pack(65_504.0, Precision::F16).is_ok());
    assert!(pack(1e6, Precision::Bf16).is_ok());
    let error = pack(-1e6, Precision::F16).expect_err("refused");
    assert_eq!(error.to_string(), format!("{path}: holds -1000000, and f16 ends at 65,504"));
    assert!(error.hint.contains("bf16"), "{}", error.hint);
}
