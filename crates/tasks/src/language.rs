//! Language: the next token. Judged by how well each token of a text is foretold; shown by how the model goes on.

use crate::generate::{Generation, Search};
use crate::judge::{Judge, Judging};
use crate::look::Look;
use crate::metric::{Judged, Metric, Scores};
use crate::sheet::{self, Given, ObjectiveParts, TaskSheet, Wants};
use qkv_base::{Error, Result, Task};
use qkv_data::objective::{Borders, NextToken};
use qkv_data::{Corpus, Objective};
use qkv_decode::{Chain, Pick};
use qkv_metric::{Closed, Perplexity, nests};
use qkv_model::CausalLm;
use qkv_model::families::TextStart;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::NextToken,
    verb: Some(("generate", Given::Text)),
    metrics: &[
        Metric::Loss,
        Metric::Perplexity,
        Metric::BytePerplexity,
        Metric::BitsPerByte,
        Metric::Accuracy,
        Metric::Closed,
    ],
    main: Metric::Loss,
    wants: Wants::Writer,
    head: sheet::own_head,
    objective,
    judge,
    of_counts: sheet::mean,
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    let mut next = NextToken::new(parts.source()?, parts.length, Some(Borders::Open))?;
    next.begin = parts.tokens()?.special().bos.filter(|_| parts.family.text_start == TextStart::Bos);
    Ok(Objective::NextToken(next))
}

/// A text itself: how well each token of it was foretold. Hidden tokens and spans are judged alike.
pub(crate) fn judge(on: &mut Judging) -> Result<()> {
    on.looks = on.judge.looks(on.ready)?;
    let tokenizer = on.judge.model.tokenizer()?;
    let (right, all) = on.looks.iter().fold((0, 0), |(r, n), l: &Look| (r + l.right(), n + l.targets()));
    on.scores.put([(Metric::Accuracy, 100.0 * right as f64 / all.max(1) as f64)]);
    let bytes = bytes(on)?;
    perplexities(&on.looks, bytes, &mut on.scores);
    let most = on.ready.iter().map(|r| r.sample.target.len()).max().unwrap_or(0);
    let written = match on.judge.objective {
        Objective::SpanCorruption(_) | Objective::Denoise(_) => {
            let greedy = Generation { otherwise: most.max(1), ..Generation::greedy(on.judge.model)? };
            on.judge.written(on.ready, &greedy)?
        }
        _ => vec![],
    };
    let mut judged = vec![];
    for (i, (r, look)) in on.ready.iter().zip(&on.looks).enumerate() {
        let ids =
            |all: &mut dyn Iterator<Item = i64>| -> Vec<u32> { all.filter_map(|id| u32::try_from(id).ok()).collect() };
        let targets = || look.said.iter().map(|(target, _)| *target);
        let (read, expected, got) = match (on.judge.objective, written.get(i)) {
            (Objective::NextToken(_), _) => (ids(&mut targets()), vec![], String::new()),
            (_, Some(got)) => (r.sample.memory.clone().unwrap_or_default(), ids(&mut targets()), got.clone()),
            _ => {
                let said = ids(&mut look.said.iter().map(|(_, best)| *best as i64));
                (r.sample.input.clone(), ids(&mut targets()), tokenizer.decode(&said, false)?)
            }
        };
        let (expected, n) = (tokenizer.decode(&expected, true)?, look.targets().max(1) as f64);
        judged.push(Judged {
            source: tokenizer.decode(&read, false)?,
            expected: expected.trim().into(),
            got,
            score: -look.nats / n,
            counts: vec![look.nats, look.targets() as f64],
            ..Judged::default()
        });
    }
    on.scores.judged = judged;
    if let Some(closed) = on.judge.closed(on.corpus)? {
        on.scores.put([(Metric::Closed, closed.share())]);
    }
    Ok(())
}

/// The bytes that the targets of a language model spell; 0 where a part of the text only is foretold.
fn bytes(on: &Judging) -> Result<u64> {
    let Objective::NextToken(next) = on.judge.objective else { return Ok(0) };
    let tokenizer = on.judge.model.tokenizer()?;
    let mut bytes = 0;
    for i in 0..on.corpus.len() {
        if let Some(ids) = on.corpus.tokens(i)? {
            // Of a row of tokens all but the first are foretold.
            bytes += tokenizer.decode(ids.get(1..).unwrap_or_default(), true)?.len() as u64;
            continue;
        }
        let example = on.corpus.get(i)?;
        bytes += example.text().len() as u64;
        // The very first token is given, not foretold.
        if let (0, None, Some(first)) = (i, next.begin, next.document(&example)?.first()) {
            bytes = bytes.saturating_sub(tokenizer.decode(&[*first], true)?.len() as u64);
        }
    }
    Ok(bytes)
}

/// Perplexities: per token, and per byte where the bytes are known.
pub(crate) fn perplexities(looks: &[Look], bytes: u64, scores: &mut Scores) {
    let all = Perplexity {
        nll: looks.iter().map(|l| l.nats).sum(),
        tokens: looks.iter().map(|l| l.targets() as u64).sum(),
        bytes,
    };
    let values = [
        (Metric::Perplexity, all.per_token()),
        (Metric::BytePerplexity, all.per_byte()),
        (Metric::BitsPerByte, all.bits_per_byte()),
    ];
    let known = values.into_iter().filter_map(|(metric, value)| Some((metric.name().to_string(), value?)));
    scores.values.extend(known);
}

impl Judge<'_> {
    /// Where texts have tags within tags: the model goes on after the first half of each, and the tags that it had to close are
    /// counted. `None` for other texts; of many the first 200, and those that leave room in a row before others. It draws each
    /// token as probable as it is, by one seed: the likeliest way to go on with a text of chance words is one word for ever.
    fn closed(&self, corpus: &dyn Corpus) -> Result<Option<Closed>> {
        const MOST: usize = 200;
        let Objective::NextToken(next) = self.objective else { return Ok(None) };
        let (tokenizer, mut prompts) = (self.model.tokenizer()?, vec![]);
        for i in 0..corpus.len().min(MOST) {
            // Rows of tokens are no texts of their own, and one text that does not nest is enough to know.
            if corpus.tokens(i)?.is_some() || !nests(&corpus.get(i)?.text()) {
                return Ok(None);
            }
            prompts.push(next.document(&corpus.get(i)?)?);
        }
        let fits = |ids: &Vec<u32>| ids.len() <= next.length * 3 / 4;
        if prompts.iter().any(fits) {
            prompts.retain(fits);
        }
        prompts.iter_mut().for_each(|ids| ids.truncate(ids.len().min(next.length) / 2));
        prompts.retain(|ids| !ids.is_empty());
        let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
        let drawn = Generation::by(self.model, Chain { steps: vec![], pick: Pick::Random }, Search::Sample { n: 1 })?;
        let drawn = Generation { max_tokens: Some(next.length.saturating_sub(longest).max(1)), ..drawn };
        let mut all = vec![];
        for part in prompts.chunks(50) {
            let (written, _) = drawn.run(part, all.len() as u64, &mut |_, _, _| Ok(()), &|| false)?;
            for (given, texts) in part.iter().zip(written) {
                let text = texts.into_iter().next().and_then(|t| t.text).unwrap_or_default();
                all.push(Closed::of(&tokenizer.decode(given, true)?, &text));
            }
        }
        Ok((!all.is_empty()).then(|| Closed::sum(all)))
    }

    /// How a language model goes on after the first half of the first `n` texts (of their beginnings, where they are
    /// longer than a row): something to look at, not a score.
    pub fn continuations(&self, corpus: &dyn Corpus, n: usize) -> Result<Vec<Judged>> {
        let Objective::NextToken(next) = self.objective else { return Ok(vec![]) };
        let tokenizer = self.model.tokenizer()?;
        let context = CausalLm::context(&self.model.network.model).unwrap_or(usize::MAX);
        let mut all = vec![];
        for i in 0..n.min(corpus.len()) {
            let mut ids = match corpus.tokens(i)? {
                Some(ids) => ids,
                None => next.document(&corpus.get(i)?)?,
            };
            ids.truncate(next.length);
            let (given, rest) = ids.split_at(ids.len() / 2);
            let most = rest.len().min(40).min(context.saturating_sub(given.len()));
            if given.is_empty() || most == 0 {
                continue;
            }
            let greedy = Generation { max_tokens: Some(most), ..Generation::greedy(self.model)? };
            let (written, _) = greedy.run(&[given.to_vec()], 0, &mut |_, _, _| Ok(()), &|| false)?;
            let got = written.into_iter().flatten().next().and_then(|w| w.text).unwrap_or_default();
            let text = |ids: &[u32]| Ok::<_, Error>(tokenizer.decode(ids, true)?.replace('\n', " "));
            let (source, expected, got) = (text(given)?, text(&rest[..most])?, got.replace('\n', " "));
            all.push(Judged { source, expected, got, ..Judged::default() });
        }
        Ok(all)
    }
}
