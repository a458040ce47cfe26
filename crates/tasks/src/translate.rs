//! Translating, and every other way to write one text from another: a beam of 4 unless something else is said, by the
//! person or by the model. Judged by what it writes, as BLEU, chrF, TER and ROUGE count.

use crate::TextModel;
use crate::chain::{BeamOptions, ChainOptions};
use crate::generate::{Generation, Search};
use crate::judge::{Judging, Writing};
use crate::language::perplexities;
use crate::metric::{Judged, Metric};
use crate::sheet::{Given, ObjectiveParts, TaskSheet, Wants, own_head};
use qkv_base::{Error, Result, Task};
use qkv_data::objective::Translate;
use qkv_data::{Example, Objective};
use qkv_decode::Pick;
use qkv_metric::{Additive, Bleu, Chrf, References, Rouge, RougeKind, Ter, programs_that_run};
use std::collections::BTreeMap;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Translate,
    verb: Some(("translate", Given::Text)),
    metrics: &[
        Metric::Loss,
        Metric::Perplexity,
        Metric::BytePerplexity,
        Metric::BitsPerByte,
        Metric::Bleu,
        Metric::Chrf,
        Metric::Ter,
        Metric::Rouge1,
        Metric::Rouge2,
        Metric::RougeL,
        Metric::Exact,
        Metric::Runs,
    ],
    main: Metric::Bleu,
    wants: Wants::Pair,
    head: own_head,
    objective,
    judge,
    of_counts: |sum| Bleu::default().value(sum),
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    Ok(Objective::Translate(Translate {
        source: parts.source()?,
        target: parts.target()?,
        family: parts.pair()?,
        prefix: parts.prefix.to_string(),
        source_length: parts.length,
        target_length: parts.length,
    }))
}

/// The request that translates: what `qkv translate` does, and what a translation is judged by.
pub fn translation<'a>(model: &'a TextModel, chain: &ChainOptions, beam: &BeamOptions) -> Result<Generation<'a>> {
    if !model.is_pair() {
        let hint = "use `qkv generate`, or choose a model with an encoder and a decoder, such as t5, bart or marian";
        return Err(Error::new(model.path.display().to_string(), "this model does not read a source", hint));
    }
    let chain = chain.chain(&model.defaults)?;
    let drawn = chain.pick != Pick::Greedy;
    let search = match beam.search(model, if drawn { 1 } else { 4 })? {
        Some(_) if drawn => {
            let what = format!("a beam compares, but `{}` draws at random", chain.pick);
            return Err(Error::new("beam", what, "leave out --beam, or let the chain end in `greedy`"));
        }
        Some(beam) => Search::Beam(beam),
        None => Search::Sample { n: 1 },
    };
    Ok(Generation { otherwise: 256, ..Generation::by(model, chain, search)? })
}

/// What is written is compared with what should have been.
fn judge(on: &mut Judging) -> Result<()> {
    on.looks = on.judge.looks(on.ready)?;
    let Writing { chain, beam } = on.judge.writing;
    let said = on.judge.written(on.ready, &translation(on.judge.model, chain, beam)?)?;
    let mut judged = BTreeMap::new();
    for (r, got) in on.ready.iter().zip(said) {
        let (source, expected) = two_texts(&on.corpus.get(r.example)?);
        let counts = Bleu::default().row(&got, &[&expected]);
        let score = Chrf::default().sentence(&got, &[&expected])?.score;
        judged.insert(r.example, Judged { source, expected, got, score, counts, ..Judged::default() });
    }
    let bytes = judged.values().map(|j| j.expected.len() as u64).sum();
    on.scores.judged = judged.into_values().collect();
    let said: Vec<&str> = on.scores.judged.iter().map(|j| j.got.as_str()).collect();
    let right: Vec<Vec<&str>> = on.scores.judged.iter().map(|j| vec![j.expected.as_str()]).collect();
    let n = said.len().max(1) as f64;
    let exact = on.scores.judged.iter().filter(|j| j.got == j.expected).count() as f64 / n;
    let rouge =
        |kind| on.scores.judged.iter().map(|j| Rouge::default().score(&j.expected, &j.got, kind).f1).sum::<f64>();
    let bleu = Bleu::default();
    let values = [
        (Metric::Bleu, bleu.corpus(&said, &right)?.score),
        (Metric::Chrf, Chrf::default().corpus(&said, &right)?.score),
        (Metric::Ter, Ter::default().corpus(&said, &right)?.score),
        (Metric::Rouge1, 100.0 * rouge(RougeKind::N(1)) / n),
        (Metric::Rouge2, 100.0 * rouge(RougeKind::N(2)) / n),
        (Metric::RougeL, 100.0 * rouge(RougeKind::L) / n),
        (Metric::Exact, 100.0 * exact),
    ];
    // Where programs are written, they are run.
    let wanted: Vec<&str> = on.scores.judged.iter().map(|j| j.expected.as_str()).collect();
    let runs = programs_that_run(&said, &wanted);
    on.scores.signature = Some(bleu.signature(References::of(&right), None));
    on.scores.put(values);
    if let Some(runs) = runs {
        on.scores.put([(Metric::Runs, runs)]);
    }
    perplexities(&on.looks, bytes, &mut on.scores);
    Ok(())
}

/// What a text-to-text example reads and should write.
fn two_texts(example: &Example) -> (String, String) {
    match example {
        Example::Pair { source, target } => (source.clone(), target.clone()),
        other => (other.text().into_owned(), other.label().unwrap_or_default().to_string()),
    }
}
