//! Greedy and beam sequences, with scores, of every generating reference checkpoint: what transformers found, we find.

use burn::tensor::Device;
use qkv_decode::{Beam, EarlyStopping, Engine, EngineConfig, LengthPenalty, Request, Search, Sequence};
use qkv_model::{Pretrained, spec::Shape};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FAMILIES: [&str; 10] =
    ["gpt2", "llama", "llama-tied", "qwen3", "gemma2", "gemma3", "t5", "t5-gated", "bart", "marian"];
const END: u32 = 2;

fn folder(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(family)
}

struct Reference {
    net: Pretrained,
    generate: Value,
    start: Vec<u32>,
}

fn reference(family: &str) -> Reference {
    let net = Pretrained::load(&folder(family), &Device::flex()).unwrap();
    let json: Value = serde_json::from_slice(&std::fs::read(folder(family).join("reference.json")).unwrap()).unwrap();
    let pair = matches!(net.spec().shape, Shape::Pair { .. });
    let start = if pair { vec![net.config.id("decoder_start_token_id").unwrap()] } else { vec![] };
    Reference { net, generate: json["generate"].clone(), start }
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

impl Reference {
    /// The prompts without their padding.
    fn prompts(&self) -> Vec<Vec<u32>> {
        let rows = |key: &str| self.generate["prompt"][key].as_array().unwrap().iter().map(ids).collect::<Vec<_>>();
        let masked = |(row, mask): (Vec<u32>, Vec<u32>)| {
            row.into_iter().zip(mask).filter(|(_, m)| *m == 1).map(|(id, _)| id).collect()
        };
        rows("input_ids").into_iter().zip(rows("attention_mask")).map(masked).collect()
    }

    fn run(&self, prompts: &[Vec<u32>], chain: &str, search: Search) -> Vec<Vec<Sequence>> {
        let pair = !self.start.is_empty();
        let request = |(i, prompt): (usize, &Vec<u32>)| Request {
            source: pair.then(|| prompt.clone()),
            chain: chain.parse().unwrap(),
            search: search.clone(),
            ends: vec![END],
            max_tokens: self.generate["max_new_tokens"].as_u64().unwrap() as usize,
            number: i as u64,
            ..Request::new(if pair { self.start.clone() } else { prompt.clone() })
        };
        let requests = prompts.iter().enumerate().map(request).collect();
        let mut engine = Engine::new(Arc::new(self.net.model.clone()), EngineConfig::default());
        engine.run(requests, &mut |_, _| true).unwrap().into_iter().map(|one| one.sequences).collect()
    }

    fn greedy(&self, prompts: &[Vec<u32>]) -> Vec<Vec<Sequence>> {
        self.run(prompts, "greedy", Search::Sample { n: 1 })
    }

    fn beam(&self, prompts: &[Vec<u32>], how: &Beam) -> Vec<Vec<Sequence>> {
        self.run(prompts, "", Search::Beam(how.clone()))
    }

    /// A sequence of theirs without the prompt and without the padding behind its end.
    fn answer(&self, sequence: &Value, prompt: usize) -> Vec<u32> {
        let all = ids(sequence);
        let said = &all[prompt..];
        let len = said.iter().position(|id| *id == END).map_or(said.len(), |at| at + 1);
        said[..len].to_vec()
    }
}

#[test]
fn greedy_says_what_transformers_says() {
    for family in FAMILIES {
        let reference = reference(family);
        let prompts = reference.prompts();
        let skip = if reference.start.is_empty() { prompts[0].len() } else { 1 };
        for (found, want) in
            reference.greedy(&prompts).iter().zip(reference.generate["greedy"]["sequences"].as_array().unwrap())
        {
            assert_eq!(found[0].ids, reference.answer(want, skip), "{family}");
        }
    }
}

#[test]
fn beams_find_what_transformers_finds() {
    for family in FAMILIES {
        let reference = reference(family);
        let (prompts, said) = (reference.prompts(), &reference.generate["beam"]);
        let n_best = said["n_best"].as_u64().unwrap() as usize;
        let how = Beam {
            n_best,
            length: LengthPenalty::Power(said["length_penalty"].as_f64().unwrap()),
            early: EarlyStopping::Full,
            ..Beam::new(said["num_beams"].as_u64().unwrap() as usize)
        };
        let skip = if reference.start.is_empty() { prompts[0].len() } else { 1 };
        let found: Vec<Sequence> = reference.beam(&prompts, &how).into_iter().flatten().collect();
        let (want, scores) = (said["sequences"].as_array().unwrap(), said["scores"].as_array().unwrap());
        assert_eq!(found.len(), want.len(), "{family}");
        for ((found, want), score) in found.iter().zip(want).zip(scores) {
            assert_eq!(found.ids, reference.answer(want, skip), "{family}");
            assert!((found.score - score.as_f64().unwrap()).abs() < 1e-4, "{family}: {} is not {score}", found.score);
        }
    }
}

/// The invariants of every family: batch = singles, beam 1 = greedy, one thread = three.
#[test]
fn batches_beams_of_one_and_threads_change_nothing() {
    for family in FAMILIES {
        let reference = reference(family);
        let prompts = vec![vec![14, 15, 31, 22, 9, 40], vec![50], vec![79, 81, 8]];
        let greedy = reference.greedy(&prompts);
        let how = Beam { n_best: 2, ..Beam::new(3) };
        let beams = reference.beam(&prompts, &how);
        let one = Beam { early: EarlyStopping::Full, ..Beam::new(1) };
        for (i, prompt) in prompts.iter().enumerate() {
            let alone = std::slice::from_ref(prompt);
            assert_eq!(reference.greedy(alone)[0][0].ids, greedy[i][0].ids, "{family}, prompt {i}");
            assert_eq!(reference.beam(alone, &one)[0][0].ids, greedy[i][0].ids, "{family}, prompt {i}");
            let single = &reference.beam(alone, &how)[0];
            for (a, b) in single.iter().zip(&beams[i]) {
                assert_eq!(a.ids, b.ids, "{family}, prompt {i}");
                assert!((a.score - b.score).abs() < 1e-4);
            }
        }
        let drawn = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| reference.run(&prompts, "temperature 1.3", Search::Sample { n: 2 }))
        };
        assert_eq!(drawn(1), drawn(3), "{family}");
    }
}
