//! What a request says depends on the request alone: a batch is its singles, whoever is admitted late or cancelled beside it,
//! however prompts are cut into chunks, for every search, with and without a source.

use burn::tensor::Device;
use qkv_base::Key;
use qkv_decode::{
    Beam, Contrastive, Decoder, Detokenizer, EarlyStopping, End, Engine, EngineConfig, LengthPenalty, PrefixCache,
    Request, RequestId, Search, Sequence, StepEvent, TextStream,
};
use qkv_model::{Transformer, presets};
use std::collections::BTreeMap;
use std::sync::Arc;

fn model(name: &str) -> Arc<dyn Decoder> {
    Arc::new(Transformer::new(&presets::find(name).unwrap().spec(), 3, &Device::flex()).unwrap())
}

/// Dice of one test.
struct Dice {
    key: Key,
    next: u64,
}

impl Dice {
    fn new(seed: u64) -> Self {
        Self { key: Key::new(seed, 77, 0), next: 0 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        self.key.below(self.next, n)
    }

    fn ids(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| 5 + self.below(90) as u32).collect()
    }
}

/// Every search, with the options that make it different.
fn search(dice: &mut Dice, pair: bool) -> Search {
    match dice.below(6) {
        0 => Search::Sample { n: 1 },
        1 => Search::Sample { n: 1 + dice.below(3) },
        2 => Search::Beam(Beam { n_best: 2, ..Beam::new(2 + dice.below(3)) }),
        3 => Search::Beam(Beam {
            n_best: 2,
            groups: 2,
            diversity: 0.7,
            early: EarlyStopping::Certain,
            coverage: pair.then_some(0.2),
            length: LengthPenalty::Wu(0.6),
            ..Beam::new(4)
        }),
        _ => Search::Contrastive(Contrastive { k: 1 + dice.below(4), alpha: 0.4 }),
    }
}

/// Requests of all kinds; some begin alike, some read the same source.
fn requests(dice: &mut Dice, pair: bool, count: usize) -> Vec<Request> {
    let (common, source) = (dice.ids(6), dice.ids(4));
    let one = |i: usize, dice: &mut Dice| {
        let n = 1 + dice.below(9);
        let prompt = match (pair, dice.below(2)) {
            (true, _) => vec![1],
            (false, 0) => dice.ids(n),
            (false, _) => [common.clone(), dice.ids(n)].concat(),
        };
        let own = dice.ids(n);
        let chain = ["greedy", "temperature 1.4", "top_k 20, repetition_penalty 1.3, temperature 0.9"][dice.below(3)];
        let search = search(dice, pair);
        let chain =
            if matches!(search, Search::Sample { .. }) { chain } else { ["", "no_repeat_ngram 2"][dice.below(2)] };
        Request {
            source: pair.then(|| if dice.below(2) == 0 { source.clone() } else { own }),
            chain: chain.parse().unwrap(),
            search,
            max_tokens: 1 + dice.below(12),
            ends: vec![2, 7],
            seed: dice.below(9) as u64,
            number: i as u64,
            ..Request::new(prompt)
        }
    };
    (0..count).map(|i| one(i, dice)).collect()
}

fn same(a: &[Sequence], b: &[Sequence], what: &str) {
    let ids = |all: &[Sequence]| all.iter().map(|s| (s.ids.clone(), s.end)).collect::<Vec<_>>();
    assert_eq!(ids(a), ids(b), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert!((a.score - b.score).abs() < 1e-3 * (1.0 + b.score.abs()), "{what}: {} is not {}", a.score, b.score);
    }
}

fn alone(model: &Arc<dyn Decoder>, request: &Request) -> Vec<Sequence> {
    let mut engine = Engine::new(model.clone(), EngineConfig::default());
    engine.run(vec![request.clone()], &mut |_, _| true).unwrap().remove(0).sequences
}

/// Admits at random steps, cancels at random, and compares every request that ends with what it says alone.
fn any_schedule(name: &str, seed: u64) {
    let model = model(name);
    let mut dice = Dice::new(seed);
    let all = requests(&mut dice, model.reads_source(), 7);
    let config = EngineConfig {
        max_rows: 4 + dice.below(20),
        max_tokens: 150 + dice.below(200),
        prefill_chunk: 1 + dice.below(8),
        min_shared_prefix: 1 + dice.below(4),
    };
    let mut engine = Engine::new(model.clone(), config);
    let mut todo = all.iter().enumerate();
    let mut places: BTreeMap<RequestId, usize> = BTreeMap::new();
    let mut cancelled = vec![];
    let mut found = BTreeMap::new();
    let mut heard: BTreeMap<(RequestId, usize), Vec<u32>> = BTreeMap::new();
    loop {
        if dice.below(3) == 0
            && let Some((i, request)) = todo.next()
        {
            places.insert(engine.admit(request.clone()).unwrap(), i);
        }
        if dice.below(25) == 0 {
            let live: Vec<RequestId> = places.keys().filter(|id| !found.contains_key(*id)).copied().collect();
            if let Some(id) = live.get(dice.below(live.len().max(1))) {
                engine.cancel(*id);
                cancelled.push(*id);
            }
        }
        for event in engine.step().unwrap() {
            match event {
                StepEvent::Token(new) => heard.entry((new.request, new.number)).or_default().push(new.id),
                StepEvent::Finished(one) => drop(found.insert(one.request, one.sequences)),
                StepEvent::Failed { error, .. } => panic!("{name}, {seed}: {error}"),
            }
        }
        let stats = engine.stats();
        assert!(stats.rows <= config.max_rows && stats.tokens <= config.max_tokens, "{stats:?} {config:?}");
        if engine.is_idle() && places.len() == all.len() {
            break;
        }
    }
    assert_eq!(engine.stats().rows, 0);
    for (id, i) in places.iter().filter(|(id, _)| !cancelled.contains(id)) {
        let what = format!("{name}, schedule {seed}, request {i}: {:?}", all[*i]);
        same(&found[id], &alone(&model, &all[*i]), &what);
        if !matches!(all[*i].search, Search::Beam(_)) {
            for (number, sequence) in found[id].iter().enumerate() {
                assert_eq!(heard[&(*id, number)], sequence.ids, "{what}");
            }
        }
    }
}

#[test]
fn batches_singles_and_late_comers_say_the_same() {
    for name in ["tiny-decoder", "tiny-llama", "tiny-alibi", "tiny-layerwise"] {
        (0..20).for_each(|seed| any_schedule(name, seed));
    }
}

#[test]
fn so_do_they_with_a_source() {
    for name in ["tiny-pair", "tiny-t5", "tiny-bart"] {
        (0..20).for_each(|seed| any_schedule(name, seed));
    }
}

/// All at once, in one pass each: what `run` does.
#[test]
fn a_batch_at_once_is_its_singles() {
    for name in ["tiny-decoder", "tiny-llama", "tiny-alibi", "tiny-pair", "tiny-t5"] {
        let model = model(name);
        let all = requests(&mut Dice::new(5), model.reads_source(), 12);
        let mut engine = Engine::new(model.clone(), EngineConfig { min_shared_prefix: 2, ..EngineConfig::default() });
        let found = engine.run(all.clone(), &mut |_, _| true).unwrap();
        for (request, one) in all.iter().zip(&found) {
            same(&one.sequences, &alone(&model, request), name);
        }
    }
}

#[test]
fn chunks_of_a_prompt_change_nothing_and_do_not_stall_others() {
    let model = model("tiny-llama");
    let mut dice = Dice::new(1);
    let long = Request { max_tokens: 5, ..Request::new(dice.ids(50)) };
    let short = Request { max_tokens: 20, ..Request::new(dice.ids(3)) };
    let want = alone(&model, &long);
    for chunk in [1, 3, 7, 49, 50, 1000] {
        let config = EngineConfig { prefill_chunk: chunk, ..EngineConfig::default() };
        let mut engine = Engine::new(model.clone(), config);
        let first = engine.admit(short.clone()).unwrap();
        let tokens = |events: &[StepEvent], id| {
            events.iter().filter(|e| matches!(e, StepEvent::Token(new) if new.request == id)).count()
        };
        while tokens(&engine.step().unwrap(), first) == 0 {}
        let second = engine.admit(long.clone()).unwrap();
        let (mut found, mut is_done) = (None, false);
        while found.is_none() {
            let before = engine.stats().computed;
            let events = engine.step().unwrap();
            assert!(engine.stats().computed - before <= chunk + 2);
            assert!(is_done || tokens(&events, first) == 1, "the short one waits for nobody");
            is_done |= events.iter().any(|e| matches!(e, StepEvent::Finished(one) if one.request == first));
            for event in events {
                if let StepEvent::Finished(one) = event
                    && one.request == second
                {
                    found = Some(one.sequences);
                }
            }
        }
        same(&found.unwrap(), &want, "a chunked prompt");
    }
}

#[test]
fn shared_beginnings_and_equal_sources_are_computed_once() {
    let model = model("tiny-llama");
    let mut dice = Dice::new(2);
    let common = dice.ids(30);
    let request = |end: u32| Request { max_tokens: 1, ..Request::new([common.clone(), vec![end]].concat()) };
    for chunk in [4, 1000] {
        let mut engine = Engine::new(model.clone(), EngineConfig { prefill_chunk: chunk, ..EngineConfig::default() });
        let all: Vec<Request> = vec![request(5), request(6), request(5), Request { number: 1, ..request(7) }];
        // Keep the first alive until the others have taken its prefix.
        let all: Vec<Request> = all.into_iter().map(|r| Request { max_tokens: 9, ends: vec![], ..r }).collect();
        let found = engine.run(all.clone(), &mut |_, _| true).unwrap();
        assert_eq!(engine.stats().computed, 31 + 3 + 4 * 8, "chunk {chunk}");
        for (request, one) in all.iter().zip(&found) {
            same(&one.sequences, &alone(&model, request), "a shared beginning");
        }
    }
    // Three continuations of one prompt read it once.
    let mut engine = Engine::new(model, EngineConfig::default());
    let three = Request { search: Search::Sample { n: 3 }, max_tokens: 2, ends: vec![], ..request(5) };
    engine.run(vec![three], &mut |_, _| true).unwrap();
    assert_eq!(engine.stats().computed, 31 + 3);
}

#[test]
fn what_does_not_fit_is_refused_or_waits() {
    let config = EngineConfig { max_rows: 3, max_tokens: 40, ..EngineConfig::default() };
    let mut engine = Engine::new(model("tiny-decoder"), config);
    let request = |n: usize, max_tokens: usize| Request {
        search: Search::Sample { n },
        max_tokens,
        chain: "greedy".parse().unwrap(),
        ..Request::new(vec![5; 5])
    };
    let mut no = |r: Request| engine.admit(r).unwrap_err().to_string();
    assert_eq!(no(request(4, 1)), "request: it needs 4 rows side by side, but the engine holds 3");
    assert_eq!(no(request(2, 20)), "request: its 2 rows may come to 50 tokens, but the engine holds 40");
    assert_eq!(no(request(1, 60)), "prompt: its 5 tokens and 60 more do not fit into a context of 64");
    assert_eq!(no(Request::new(vec![])), "prompt: is empty");
    assert_eq!(no(Request { source: Some(vec![5]), ..request(1, 2) }), "source: this model reads no source");
    assert_eq!(
        no(Request { stop: vec!["x".into()], ..request(1, 2) }),
        "stop strings: there is no tokenizer to find them with"
    );
    let ids: Vec<RequestId> = (0..3).map(|_| engine.admit(request(2, 3)).unwrap()).collect();
    engine.step().unwrap();
    assert_eq!((engine.stats().running, engine.stats().waiting), (1, 2), "two rows of three, then there is no room");
    assert!(engine.cancel(ids[1]).is_some() && engine.cancel(RequestId(99)).is_none());
    let mut done = vec![];
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            if let StepEvent::Finished(one) = event {
                done.push(one.request);
            }
        }
    }
    assert_eq!(done, [ids[0], ids[2]]);
}

/// Token n is the letter n of the alphabet, over and over.
struct Letters;

#[derive(Clone)]
struct Spelling;

impl Detokenizer for Letters {
    fn stream(&self) -> Box<dyn TextStream> {
        Box::new(Spelling)
    }
}

fn letter(id: u32) -> char {
    char::from(b'a' + (id % 26) as u8)
}

impl TextStream for Spelling {
    fn push(&mut self, id: u32) -> qkv_base::Result<String> {
        Ok(letter(id).to_string())
    }
    fn finish(&mut self) -> qkv_base::Result<String> {
        Ok(String::new())
    }
    fn fork(&self) -> Box<dyn TextStream> {
        Box::new(self.clone())
    }
}

#[test]
fn stop_strings_end_every_search() {
    let mut ended = 0;
    for name in ["tiny-llama", "tiny-pair"] {
        let model = model(name);
        let pair = model.reads_source();
        for search in [
            Search::Sample { n: 3 },
            Search::Beam(Beam { n_best: 3, ..Beam::new(3) }),
            Search::Beam(Beam { n_best: 2, groups: 2, diversity: 1.0, ..Beam::new(4) }),
            Search::Contrastive(Contrastive { k: 3, alpha: 0.5 }),
        ] {
            let request = Request {
                search: search.clone(),
                source: pair.then(|| vec![5, 6, 7]),
                max_tokens: 16,
                ..Request::new(vec![1])
            };
            let run = |stop: Vec<String>| {
                let mut engine = Engine::new(model.clone(), EngineConfig::default()).with_text(Arc::new(Letters));
                engine.run(vec![Request { stop, ..request.clone() }], &mut |_, _| true).unwrap().remove(0).sequences
            };
            let plain = run(vec![]);
            let whole = plain[0].text.clone().unwrap();
            assert_eq!(whole, plain[0].ids.iter().map(|id| letter(*id)).collect::<String>());
            let stop = whole[4..6].to_string(); // two letters, hence two tokens
            for sequence in run(vec![stop.clone()]) {
                // The stop string is not said: neither in the text nor in the ids.
                let text: String = sequence.ids.iter().map(|id| letter(*id)).collect();
                assert_eq!(text.find(&stop), None, "{search:?}: {text} goes past {stop}");
                assert_eq!(sequence.text.as_deref(), Some(text.as_str()));
                assert_eq!(sequence.logprobs.len(), sequence.ids.len());
                ended += usize::from(sequence.end == End::Text);
            }
        }
    }
    assert!(ended >= 8, "each search met its stop string: {ended}");
}

/// An engine can be handed to another thread.
#[test]
fn an_engine_is_send() {
    let mut engine = Engine::new(model("tiny-decoder"), EngineConfig::default());
    engine.admit(Request { max_tokens: 2, ..Request::new(vec![5]) }).unwrap();
    let steps = std::thread::spawn(move || {
        let mut steps = 0;
        while !engine.is_idle() {
            engine.step().unwrap();
            steps += 1;
        }
        steps
    });
    assert_eq!(steps.join().unwrap(), 2);
}

/// Prompts of requests that ended are taken up by those who begin alike, and nobody's answer changes: neither by that nor by how
/// prompts are cut into chunks.
#[test]
fn kept_prompts_change_no_answer() {
    for name in ["tiny-decoder", "tiny-llama", "tiny-alibi", "tiny-gemma3"] {
        let preset = presets::find(name).unwrap();
        let model: Arc<dyn Decoder> = Arc::new(Transformer::new(&preset.spec(), 3, &Device::flex()).unwrap());
        let mut reused = 0;
        for seed in 0..12 {
            let mut dice = Dice::new(100 + seed);
            let (common, other) = (dice.ids(20), dice.ids(12));
            let all: Vec<Request> = (0..10)
                .map(|i| {
                    let begin = [&common[..], &other[..], &common[..5]][dice.below(3)];
                    let n = 1 + dice.below(18);
                    let search = search(&mut dice, false);
                    let is_drawn = matches!(search, Search::Sample { .. });
                    Request {
                        chain: if is_drawn { "temperature 1.2" } else { "" }.parse().unwrap(),
                        search,
                        max_tokens: 1 + dice.below(10),
                        seed: i,
                        ..Request::new([begin, &dice.ids(n)].concat())
                    }
                })
                .collect();
            // Each alone and whole, with nothing kept.
            let want: Vec<_> = all.iter().map(|request| alone(&model, request)).collect();
            // In waves, through engines that hand on what they keep; with a bound that now and then lets something go.
            let each = 2 * 4 * 2 * 64; // two layers of width 64 would be this much a token
            let mut prefixes = PrefixCache::new((each * (20 + dice.below(200))) as u64);
            let mut found: BTreeMap<usize, Vec<Sequence>> = BTreeMap::new();
            for wave in (0..all.len()).collect::<Vec<_>>().chunks(1 + dice.below(4)) {
                let config = EngineConfig {
                    prefill_chunk: 1 + dice.below(24),
                    min_shared_prefix: 1 + dice.below(6),
                    ..EngineConfig::default()
                };
                let mut engine = Engine::new(model.clone(), config).with_prefixes(prefixes);
                let requests = wave.iter().map(|i| all[*i].clone()).collect();
                for (i, one) in wave.iter().zip(engine.run(requests, &mut |_, _| true).unwrap()) {
                    reused += one.cached;
                    found.insert(*i, one.sequences);
                }
                prefixes = engine.into_prefixes();
            }
            for (i, want) in want.iter().enumerate() {
                same(&found[&i], want, &format!("{name}, {seed}, request {i}: {:?}", all[i]));
                for (a, b) in found[&i].iter().zip(want) {
                    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
                    assert!(a.logprobs.iter().zip(&b.logprobs).all(near), "{name}, {seed}, request {i}");
                }
            }
        }
        assert!(reused > 300, "{name}: {reused} tokens were not computed again");
    }
}
