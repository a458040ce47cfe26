//! How fast batches are made, beside what training eats: `cargo run --release -p qkv-data --example batching`.
//!
//! Two cores train at about 20,000 tokens a second; making the same tokens into batches should take under 2 % of that time.

use qkv_data::batch::{Keep, Loader, Policy, Rows};
use qkv_data::objective::{Borders, Denoise, Frame, Masked, NextToken, Seq2Seq, SpanCorruption, Translate};
use qkv_data::tokenize::Words;
use qkv_data::{Corpus, Example, Key, Objective, Result};
use std::sync::Arc;
use std::time::Instant;

const TRAINING: f64 = 20_000.0;

fn sentence(i: u64) -> String {
    let key = Key::new(1, 1, i);
    let words = 5 + key.below(0, 40);
    (0..words as u64).map(|w| format!("w{}", key.below(w + 1, 8000))).collect::<Vec<_>>().join(" ")
}

fn main() -> Result<()> {
    let n = 20_000;
    let words = Arc::new(Words::of((0..8000).map(|w| format!("w{w}"))));
    let text: Arc<dyn Corpus> = Arc::new((0..n).map(|i| Example::Text(sentence(i))).collect::<Vec<_>>());
    let pairs: Arc<dyn Corpus> =
        Arc::new((0..n).map(|i| Example::pair(sentence(i), sentence(i + n))).collect::<Vec<_>>());
    let bert = Frame::bert(&*words)?;
    let (t5, bart) = (Seq2Seq::t5(&*words, &*words)?, Seq2Seq::bart(&*words)?);
    let cases = [
        ("next token, packed", &text, Objective::NextToken(NextToken::new(words.clone(), 256, Some(Borders::Closed))?)),
        ("masked", &text, Objective::Masked(Masked::bert(words.clone(), bert, 128)?)),
        ("span corruption", &text, Objective::SpanCorruption(SpanCorruption::t5(words.clone(), t5.clone(), 128)?)),
        ("denoising", &text, Objective::Denoise(Denoise::bart(words.clone(), bart, 128)?)),
        ("translation", &pairs, Objective::Translate(Translate::new(words.clone(), t5, 128))),
    ];
    println!("{:<20} {:<8} {:>14} {:>10}", "objective", "kept", "tokens/s", "of a step");
    for (name, corpus, objective) in cases {
        for keep in [Keep::Tokens, Keep::Nothing] {
            let policy = Policy { rows: Rows::Tokens(4096), keep, ahead: 0, ..Policy::default() };
            let loader = Loader::new(corpus.clone(), objective.clone(), policy, 1)?;
            let start = Instant::now();
            let mut tokens = 0;
            for index in 0..loader.batches(0) {
                let batch = loader.batch(index)?;
                tokens += batch.lengths.iter().sum::<usize>() + batch.memory_lengths.iter().sum::<usize>();
            }
            let speed = tokens as f64 / start.elapsed().as_secs_f64();
            println!("{name:<20} {:<8} {speed:>14.0} {:>8.2} %", format!("{keep:?}"), 100.0 * TRAINING / speed);
        }
    }
    Ok(())
}
