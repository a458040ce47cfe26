//! Guessed tokens change the time and nothing else: the same ids, the same log-probabilities to the bit.

use burn::tensor::Device;
use qkv_decode::{Draft, Engine, EngineConfig, Finished, Request, Search};
use qkv_model::{Precision, Transformer, precision, presets};
use std::sync::Arc;

fn network(name: &str, packed: Option<Precision>) -> Arc<Transformer> {
    let spec = presets::find(name).expect("a preset").spec();
    let model = Transformer::new(&spec, 1, &Device::flex()).expect("a network");
    Arc::new(match packed {
        Some(weights) => precision::pack(model, weights).expect("numbers that fit"),
        None => model,
    })
}

/// Requests whose prompts repeat themselves, by greedy and by drawing.
fn requests(draft: Draft, pair: bool) -> Vec<Request> {
    let prompt = vec![5, 6, 7, 8, 9, 5, 6, 7, 8];
    let chains = ["greedy", "top_k 4, temperature 0.7", "top_p 0.9, temperature 1.3"];
    let request = |(i, chain): (usize, &str)| Request {
        source: pair.then(|| prompt.clone()),
        chain: chain.parse().expect("a chain"),
        max_tokens: 40,
        ends: vec![2],
        seed: 3,
        number: i as u64,
        draft,
        ..Request::new(if pair { vec![1] } else { prompt.clone() })
    };
    chains.into_iter().enumerate().map(request).collect()
}

fn run(model: &Arc<Transformer>, requests: Vec<Request>, chunk: usize) -> Vec<Finished> {
    let config = EngineConfig { prefill_chunk: chunk, ..EngineConfig::default() };
    Engine::new(model.clone(), config).run(requests, &mut |_, _| true).expect("texts")
}

#[test]
fn texts_are_the_same_with_and_without_guesses() {
    for weights in [None, Some(Precision::F32), Some(Precision::Int8)] {
        for (name, pair) in [("tiny-decoder", false), ("tiny-llama", false), ("tiny-pair", true)] {
            let model = network(name, weights);
            for draft in [Draft::Ngram, Draft::Source] {
                // A prompt in other chunks may round otherwise; guesses may not.
                for chunk in [usize::MAX, 4] {
                    let plain = run(&model, requests(Draft::None, pair), chunk);
                    let drafted = run(&model, requests(draft, pair), chunk);
                    for (a, b) in plain.iter().zip(&drafted) {
                        assert_eq!(a.sequences, b.sequences, "{name}, {weights:?}, {draft}");
                        assert!(b.guessed.1 <= b.guessed.0 && a.guessed == (0, 0));
                    }
                    // Alone as among others.
                    let alone = run(&model, vec![requests(draft, pair).remove(0)], chunk);
                    assert_eq!(alone[0].sequences, plain[0].sequences);
                }
            }
        }
    }
}

/// A network that has nothing to say says it again and again: that is guessed.
#[test]
fn repetition_is_guessed() {
    let model = network("tiny-decoder", None);
    let request = |draft| Request {
        chain: "greedy".parse().expect("a chain"),
        max_tokens: 56,
        draft,
        ..Request::new(vec![5, 6, 7])
    };
    let found = run(&model, vec![request(Draft::Ngram)], usize::MAX);
    let (offered, right) = found[0].guessed;
    assert!(right > 8 && right <= offered, "{right} of {offered}");
    assert_eq!(found[0].sequences[0].ids.len(), 56);
    let mut engine = Engine::new(model, EngineConfig::default());
    engine.admit(request(Draft::Ngram)).expect("admitted");
    let mut steps = 0;
    while !engine.is_idle() {
        engine.step().expect("a step");
        steps += 1;
    }
    assert!(steps < 50, "56 tokens in {steps} steps");
}

/// Several rows, or a listener that stops in the middle of a pass.
#[test]
fn who_stops_hears_no_more() {
    let model = network("tiny-decoder", None);
    let request = Request {
        max_tokens: 50,
        draft: Draft::Ngram,
        chain: "greedy".parse().expect("a chain"),
        ..Request::new(vec![5, 6, 7])
    };
    let mut heard = 0;
    let mut engine = Engine::new(model.clone(), EngineConfig::default());
    engine
        .run(vec![request.clone()], &mut |_, _| {
            heard += 1;
            heard < 31
        })
        .expect("texts");
    assert_eq!(heard, 31);
    let several = Request { search: Search::Sample { n: 3 }, ..request };
    assert_eq!(run(&model, vec![several], usize::MAX)[0].guessed, (0, 0));
}
