//! The same seed gives the same batches: at any thread count, made ahead or on demand, and from any resumed position.

use qkv_data::batch::{Keep, Loader, Policy, Rows, Side, Turn};
use qkv_data::objective::{
    Answer, Borders, Denoise, Frame, Labels, Masked, NextToken, Noise, Pictures, Prefix, PrefixSplit, Seq2Seq,
    SpanCorruption, Tag, Translate,
};
use qkv_data::tokenize::Words;
use qkv_data::{Batch, Corpus, Example, Key, Objective};
use std::sync::Arc;

const SEED: u64 = 20_170_612;

fn sentence(i: u64) -> String {
    let key = Key::new(4, 4, i);
    let words = 2 + key.below(0, 30);
    (0..words as u64).map(|w| format!("w{}", key.below(w + 1, 50))).collect::<Vec<_>>().join(" ") + " ."
}

fn rows(example: impl Fn(u64) -> Example) -> Arc<dyn Corpus> {
    Arc::new((0..230).map(example).collect::<Vec<_>>())
}

/// Every objective with a corpus for it.
fn everything() -> Vec<(&'static str, Arc<dyn Corpus>, Objective)> {
    let words = Arc::new(Words::of((0..230).map(sentence)));
    let bert = Frame::bert(&*words).unwrap();
    let t5 = Seq2Seq::t5(&*words, &*words).unwrap();
    let bart = Seq2Seq::bart(&*words).unwrap();
    let noise = vec![
        Noise::Permute,
        Noise::Infill { share: 0.3, mean: 3.0 },
        Noise::Delete { share: 0.1 },
        Noise::Rotate { share: 0.5 },
    ];
    let mut denoise = Denoise::bart(words.clone(), bart, 20).unwrap();
    denoise.noise = noise;
    let text = || rows(|i| Example::Text(sentence(i)));
    let pairs = || rows(|i| Example::pair(sentence(i), sentence(i + 1000).replace(" .", "")));
    let labels = || Labels::new(["0", "1", "2"]);
    let label = |i: u64| (i % 3).to_string();
    let question = |i: u64| {
        let context = sentence(i);
        let answer = context.split(' ').nth(1).unwrap_or_default().to_string();
        Example::question(context, "w1 w2", answer)
    };
    let tagged = |i: u64| Example::tagged(sentence(i).split(' ').zip(["0", "1", "2"].into_iter().cycle()));
    let picture =
        |i: u64| Example::Image { width: 2, height: 2, channels: 1, pixels: vec![i as u8; 4], label: label(i) };
    let packed = |borders| NextToken::new(words.clone(), 24, borders).unwrap();
    vec![
        ("packed", text(), Objective::NextToken(packed(Some(Borders::Closed)))),
        ("next token", text(), Objective::NextToken(packed(None))),
        ("masked", text(), Objective::Masked(Masked::bert(words.clone(), bert.clone(), 20).unwrap())),
        ("spans", text(), Objective::SpanCorruption(SpanCorruption::t5(words.clone(), t5.clone(), 20).unwrap())),
        ("denoise", text(), Objective::Denoise(denoise)),
        ("prefix", text(), Objective::Prefix(Prefix::new(words.clone(), 20, PrefixSplit::Random, true).unwrap())),
        ("translate", pairs(), Objective::Translate(Translate::new(words.clone(), t5, 20))),
        (
            "classify",
            rows(|i| Example::labelled(sentence(i), label(i))),
            Objective::classify(words.clone(), bert.clone(), labels(), 20),
        ),
        (
            "tag",
            rows(tagged),
            Objective::Tag(Tag { tokenizer: words.clone(), frame: bert.clone(), labels: labels(), length: 20 }),
        ),
        ("answer", rows(question), Objective::Answer(Answer::new(words.clone(), bert, 20))),
        ("pictures", rows(picture), Objective::Pictures(Pictures::vit(labels(), 1))),
    ]
}

fn policies() -> Vec<Policy> {
    let turn = Turn::Shuffled { window: 64 };
    vec![
        Policy { rows: Rows::Fixed(8), turn, ..Policy::default() },
        Policy {
            rows: Rows::Fixed(7),
            turn: Turn::Shuffled { window: 1 },
            side: Side::Left,
            ahead: 0,
            ..Policy::default()
        },
        Policy { rows: Rows::Tokens(160), turn, keep: Keep::Nothing, ..Policy::default() },
        Policy { rows: Rows::Tokens(160), turn: Turn::Straight, ..Policy::default() },
    ]
}

fn on_threads<T: Send>(threads: usize, job: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(job)
}

fn three_epochs(loader: &Arc<Loader>) -> Vec<Batch> {
    let end = (0..3).map(|epoch| loader.batches(epoch)).sum();
    loader.stream(0, Some(end)).map(|batch| batch.unwrap().1).collect()
}

#[test]
fn batches_are_the_same_at_any_thread_count_and_after_any_resume() {
    for (name, corpus, objective) in everything() {
        for policy in policies() {
            let make = |threads, policy: Policy| {
                on_threads(threads, || Arc::new(Loader::new(corpus.clone(), objective.clone(), policy, SEED).unwrap()))
            };
            let whole = three_epochs(&make(1, policy));
            for (threads, ahead) in [(2, 0), (3, 5)] {
                let again = three_epochs(&make(threads, Policy { ahead, ..policy }));
                assert!(again == whole, "{name}: {threads} threads, {ahead} ahead");
            }
            // A new loader, asked for the middle of the run first: nothing but the counter is known to it.
            let resumed = make(2, policy);
            for from in [whole.len() - 1, whole.len() / 2, 0] {
                let rest: Vec<Batch> =
                    resumed.stream(from as u64, Some(whole.len() as u64)).map(|b| b.unwrap().1).collect();
                assert!(rest == whole[from..], "{name}: resumed at {from} of {}", whole.len());
            }
        }
    }
}

#[test]
fn every_sample_comes_once_an_epoch_and_batches_hold_together() {
    for (name, corpus, objective) in everything() {
        for policy in policies() {
            let loader = Arc::new(Loader::new(corpus.clone(), objective.clone(), policy, SEED).unwrap());
            let mut counter = 0;
            for epoch in 0..3 {
                let mut seen = Vec::new();
                for index in 0..loader.batches(epoch) {
                    assert_eq!((loader.locate(counter).epoch, loader.locate(counter).batch), (epoch, index));
                    let batch = loader.batch(counter).unwrap();
                    counter += 1;
                    holds_together(&batch, policy, name);
                    seen.extend(batch.members.iter().flatten().copied());
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..loader.counts().samples).collect::<Vec<_>>(), "{name}, epoch {epoch}");
            }
        }
    }
}

fn holds_together(batch: &Batch, policy: Policy, name: &str) {
    let cells = batch.rows * batch.length;
    assert_eq!([batch.ids.len(), batch.positions.len(), batch.mask().len()], [cells; 3], "{name}");
    assert_eq!(batch.memory.len(), batch.rows * batch.memory_length, "{name}");
    assert_eq!(batch.targets.len(), batch.weights.len(), "{name}");
    assert!(batch.targets.iter().zip(&batch.weights).all(|(t, w)| (*t == -100) == (*w == 0.0)), "{name}");
    assert_eq!(batch.tokens, batch.weights.iter().filter(|w| **w > 0.0).count(), "{name}");
    if let Rows::Tokens(budget) = policy.rows {
        assert!(batch.rows == 1 || batch.rows * batch.length.max(batch.memory_length) <= budget, "{name}: over budget");
    }
}

#[test]
fn rows_are_packed_with_whole_samples() {
    let (_, corpus, objective) = everything().swap_remove(1);
    let policy = Policy { rows: Rows::Packed { length: 64, rows: 4 }, ..Policy::default() };
    let loader = Arc::new(Loader::new(corpus.clone(), objective.clone(), policy, SEED).unwrap());
    let batches = three_epochs(&loader);
    let first: usize = (0..loader.batches(0)).map(|b| loader.batch(b).unwrap().tokens).sum();
    for batch in &batches {
        assert!(batch.length <= 64 && batch.documents.len() == batch.ids.len());
        for (i, document) in batch.documents.iter().enumerate().skip(1).filter(|(i, _)| i % batch.length != 0) {
            let same = *document == batch.documents[i - 1];
            assert_eq!(batch.positions[i], if same && *document > 0 { batch.positions[i - 1] + 1 } else { 0 });
        }
    }
    let plain =
        Loader::new(corpus.clone(), objective.clone(), Policy { rows: Rows::Fixed(8), ..policy }, SEED).unwrap();
    let want: usize = (0..plain.batches(0)).map(|b| plain.batch(b).unwrap().tokens).sum();
    assert_eq!(first, want, "packing loses no target");
    let short = Policy { rows: Rows::Packed { length: 10, rows: 4 }, ..Policy::default() };
    assert!(Loader::new(corpus, objective, short, SEED).err().unwrap().what.contains("in rows of 10"));
}

#[test]
fn a_dropped_stream_ends_its_thread() {
    let (_, corpus, objective) = everything().swap_remove(2);
    let loader = Arc::new(Loader::new(corpus, objective, Policy::default(), SEED).unwrap());
    let mut stream = loader.stream(0, None);
    assert_eq!(stream.next().unwrap().unwrap().0, 0);
    drop(stream);
    assert_eq!(Arc::strong_count(&loader), 1, "the thread has let go");
}
