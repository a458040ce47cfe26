//! Span corruption (T5): spans of the text are cut out and a sentinel left in the place of each; the target is what was
//! cut out, each span after its sentinel.
//!
//! ```text
//! text    Thank you for inviting me to your party last week .
//! memory  Thank you <X>          me to your party <Y>  week .
//! target  <X> for inviting <Y> last <Z>
//! ```

use super::{Made, Sample, Seq2Seq, shuffled, wrong};
use crate::tokenize::{Role, Tokenize, need};
use crate::{Error, Example, Key, Result};
use std::ops::Range;
use std::sync::Arc;

/// The T5 objective.
#[derive(Clone)]
pub struct SpanCorruption {
    /// text to ids, with sentinels
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens of the family
    pub family: Seq2Seq,
    /// tokens of text a row before anything is cut out
    pub length: usize,
    /// how much of the text is cut out
    pub share: f64,
    /// tokens a span, on average
    pub mean_span: f64,
    sentinels: Vec<u32>,
}

impl SpanCorruption {
    /// The paper's numbers: 15 % in spans of 3 tokens on average.
    pub fn t5(tokenizer: Arc<dyn Tokenize>, family: Seq2Seq, length: usize) -> Result<Self> {
        need(&*tokenizer, Role::Sentinel(0), "span corruption")?;
        let sentinels = (0..).map_while(|i| tokenizer.role(Role::Sentinel(i))).take(1 << 16).collect();
        Ok(Self { tokenizer, family, length: length.max(2), share: 0.15, mean_span: 3.0, sentinels })
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Text(text) = example else { return Err(wrong(example, "span corruption", "texts")) };
        let pieces = self.tokenizer.encode(text)?;
        Ok(Made::raw(&pieces.ids, &pieces.first_of_word, self.length))
    }

    pub(super) fn sample(&self, ids: &[u32], key: Key) -> Result<Sample> {
        let (memory, target) = corrupt(ids, &self.spans(ids.len(), key), &self.sentinels)?;
        Ok(self.family.teach(&memory, &target))
    }

    /// Memory or target, whichever is longer: both are known from the length of the text alone.
    pub(super) fn longest(&self, n: usize) -> usize {
        let (noise, spans) = self.counts(n);
        (n - noise + spans).max(noise + spans + 1) + self.family.overhead()
    }

    /// How many tokens are cut out, in how many spans.
    fn counts(&self, n: usize) -> (usize, usize) {
        if n < 2 {
            return (n, n);
        }
        let noise = ((n as f64 * self.share).round() as usize).clamp(1, n - 1);
        let spans = ((noise as f64 / self.mean_span).round() as usize).clamp(1, noise.min(n - noise));
        (noise, spans)
    }

    /// T5's way of drawing: both the noise and the rest are cut at random into as many segments, and these follow each
    /// other in turn, the rest first.
    fn spans(&self, n: usize, key: Key) -> Vec<Range<usize>> {
        let (noise, count) = self.counts(n);
        let lengths = segments(noise, count, key.named("noise"));
        let gaps = segments(n - noise, count, key.named("rest"));
        let mut at = 0;
        let mut spans = Vec::with_capacity(count);
        for (gap, length) in gaps.into_iter().zip(lengths) {
            spans.push(at + gap..at + gap + length);
            at += gap + length;
        }
        spans
    }
}

/// `n` things in `count` segments, none empty (unless there is nothing to share out), every way as likely.
fn segments(n: usize, count: usize, key: Key) -> Vec<usize> {
    if n < count {
        return vec![0; count];
    }
    let mut borders: Vec<usize> =
        shuffled(n.saturating_sub(1), key).into_iter().take(count - 1).map(|i| i + 1).collect();
    borders.sort_unstable();
    borders.push(n);
    let before = std::iter::once(0).chain(borders.iter().copied());
    borders.iter().zip(before).map(|(end, start)| end - start).collect()
}

/// Cuts the spans out. The last sentinel of the target stands for the text after the last span, if there is any.
///
/// ```
/// use qkv_data::objective::corrupt;
/// let (memory, target) = corrupt(&[1, 2, 3, 4], &[1..3], &[90, 91])?;
/// assert_eq!(memory, [1, 90, 4]);
/// assert_eq!(target, [90, 2, 3, 91]);
/// # Ok::<(), qkv_data::Error>(())
/// ```
pub fn corrupt(ids: &[u32], spans: &[Range<usize>], sentinels: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
    let few = || {
        let what = format!("{} spans but {} sentinels", spans.len(), sentinels.len());
        Error::new("span corruption", what, "shorten the rows, lengthen the spans, or add sentinels to the tokenizer")
    };
    let bad = || Error::new("span corruption", "spans overlap or leave the text", "give them in order");
    let (mut memory, mut target, mut at) = (Vec::new(), Vec::new(), 0);
    for (i, span) in spans.iter().enumerate() {
        let sentinel = *sentinels.get(i).ok_or_else(few)?;
        memory.extend(ids.get(at..span.start).ok_or_else(bad)?);
        memory.push(sentinel);
        target.push(sentinel);
        target.extend(ids.get(span.clone()).ok_or_else(bad)?);
        at = span.end;
    }
    if at < ids.len() {
        memory.extend(&ids[at..]);
        target.push(*sentinels.get(spans.len()).ok_or_else(few)?);
    }
    Ok((memory, target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    /// Figure 2 of the T5 paper.
    #[test]
    fn the_worked_sentence_of_the_paper() {
        let text = "Thank you for inviting me to your party last week .";
        let words = Words::of([text]);
        let ids = words.encode(text).unwrap().ids;
        let (x, y, z) = (7, 8, 9); // the first sentinels of this vocabulary
        let (memory, target) = corrupt(&ids, &[2..4, 8..9], &[x, y, z]).unwrap();
        let encode = |text: &str| {
            let named = |word: &str| match word {
                "<X>" => x,
                "<Y>" => y,
                "<Z>" => z,
                word => words.encode(word).unwrap().ids[0],
            };
            text.split(' ').map(named).collect::<Vec<u32>>()
        };
        assert_eq!(memory, encode("Thank you <X> me to your party <Y> week ."));
        assert_eq!(target, encode("<X> for inviting <Y> last <Z>"));
    }

    fn objective() -> SpanCorruption {
        let words = Arc::new(Words::of(["a"]));
        let family = Seq2Seq::t5(&*words, &*words).unwrap();
        SpanCorruption::t5(words, family, 512).unwrap()
    }

    #[test]
    fn spans_have_the_share_and_the_mean_of_the_paper() {
        let objective = objective();
        let mut first = 0;
        for epoch in 0..200 {
            let spans = objective.spans(400, Key::new(1, epoch, 0));
            assert_eq!(spans.iter().map(|s| s.len()).sum::<usize>(), 60, "15 %");
            assert_eq!(spans.len(), 20, "3 tokens on average");
            assert!(spans.windows(2).all(|two| two[0].end < two[1].start), "apart from each other");
            first += spans[0].start;
        }
        assert!((10 * 200..25 * 200).contains(&first), "gaps of 17 on average: {first}");
    }

    /// Putting the spans back gives the text: nothing is lost and nothing said twice.
    #[test]
    fn memory_and_target_make_up_the_text() {
        let objective = objective();
        for n in 1..60 {
            let ids: Vec<u32> = (1000..1000 + n).collect();
            let sample = objective.sample(&ids, Key::new(2, 0, n as u64)).unwrap();
            let memory = sample.memory.clone().unwrap();
            assert!(sample.length() <= objective.longest(n as usize), "length {n}");
            let sentinel = |id: u32| (7..107).contains(&id);
            let mut spans = sample.target.iter().map(|t| *t as u32).filter(|id| *id != 3).peekable();
            let mut text = Vec::new();
            for id in memory.into_iter().filter(|id| *id != 3) {
                if !sentinel(id) {
                    text.push(id);
                    continue;
                }
                assert_eq!(spans.next(), Some(id));
                text.extend(std::iter::from_fn(|| spans.next_if(|id| !sentinel(*id))));
            }
            assert_eq!(text, ids);
        }
    }

    #[test]
    fn too_few_sentinels_are_named() {
        let error = corrupt(&[1, 2, 3], &[0..1, 2..3], &[9]).unwrap_err();
        assert_eq!(error.what, "2 spans but 1 sentinels");
        assert!(corrupt(&[1, 2], &[1..9], &[9]).is_err());
    }
}
