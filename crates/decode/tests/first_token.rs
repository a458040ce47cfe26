//! How long somebody with a short prompt waits beside a long prompt that is being read, counted in steps and in the tokens of
//! those steps, not in time: both are the same on every machine.

use burn::tensor::Device;
use qkv_decode::{Engine, EngineConfig, Request, StepEvent};
use qkv_model::spec::Position;
use qkv_model::{Transformer, presets};
use std::sync::Arc;

const CHUNK: usize = 32;

fn engine() -> Engine {
    let mut spec = presets::find("tiny-llama").unwrap().spec();
    if let Position::Rotary { max, .. } = &mut spec.position {
        *max = 2048; // room for a long prompt
    }
    let model = Transformer::new(&spec, 3, &Device::flex()).unwrap();
    Engine::new(Arc::new(model), EngineConfig { prefill_chunk: CHUNK, ..EngineConfig::default() })
}

fn request(length: usize, first: u32) -> Request {
    let ids = (0..length as u32).map(|i| 5 + (first + i * 7) % 90).collect();
    Request { max_tokens: 4, ends: vec![], ..Request::new(ids) }
}

#[test]
fn a_short_prompt_speaks_after_the_very_next_step() {
    for short in [1, 8, 16, 24] {
        for before in [0, 1, 5] {
            let mut engine = engine();
            let long = engine.admit(request(1000, 1)).unwrap();
            for _ in 0..before {
                assert!(engine.step().unwrap().is_empty(), "the long one is still being read");
            }
            let first = engine.admit(request(short, 3)).unwrap();
            let computed = engine.stats().computed;
            let events = engine.step().unwrap();
            assert!(
                matches!(&events[..], [StepEvent::Token(new)] if new.request == first),
                "{short} tokens beside a long prompt"
            );
            // Its own tokens and a fourth of a chunk: the step is not as long as one of the long prompt's own.
            assert!(engine.stats().computed - computed <= short + CHUNK / 4);
            // And the long one goes on beside it.
            let mut steps = before + 1;
            let mut done = false;
            while !done {
                let events = engine.step().unwrap();
                steps += 1;
                done = events.iter().any(|e| matches!(e, StepEvent::Token(new) if new.request == long));
            }
            assert!(steps <= 1000 / CHUNK + 3, "the long prompt took {steps} steps");
        }
    }
}

#[test]
fn a_stream_of_short_prompts_does_not_hold_up_a_long_one() {
    let mut engine = engine();
    let long = engine.admit(request(200, 1)).unwrap();
    let (mut steps, mut answered) = (0, 0);
    loop {
        let new = engine.admit(Request { max_tokens: 1, ..request(12, steps) }).unwrap();
        let events = engine.step().unwrap();
        steps += 1;
        let of = |id| events.iter().any(|e| matches!(e, StepEvent::Token(token) if token.request == id));
        assert!(of(new), "each of the short ones is answered at once");
        answered += 1;
        if of(long) {
            break;
        }
        assert!(steps < 40, "the long one starves");
    }
    assert!(answered >= 12 && steps <= 25, "{steps} steps");
}
