//! Span answers (SQuAD): `[CLS] question [SEP] context [SEP]`, and the places of the answer's first and last token.
//!
//! A context that does not fit is read in windows that overlap by `overlap` tokens, so that an answer cut by the end of
//! one window stands whole in the next. Where a window does not hold the answer, both places are that of `[CLS]`.

use super::{Aim, Dropped, Frame, Made, Prepared, Sample, wrong};
use crate::{Example, Result, Tokenize};
use std::sync::Arc;

/// The answer objective.
#[derive(Clone)]
pub struct Answer {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens around the texts
    pub frame: Frame,
    /// tokens a row, special ones counted
    pub length: usize,
    /// tokens that two windows share
    pub overlap: usize,
    /// tokens of the question, at most
    pub question_length: usize,
}

impl Answer {
    /// The customary numbers: windows overlap by a third of the row, a question has 64 tokens at most.
    pub fn new(tokenizer: Arc<dyn Tokenize>, frame: Frame, length: usize) -> Self {
        Self { tokenizer, frame, length, overlap: length / 3, question_length: 64.min(length / 2) }
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Question { context, question, answer, start } = example else {
            return Err(wrong(example, "answering", "questions"));
        };
        if !example.answer_stands() {
            return Ok(Made::Dropped(Dropped::AnswerNotInContext));
        }
        let mut question = self.tokenizer.encode(question)?.ids;
        let lost = super::cut(&mut question, self.question_length);
        let pieces = self.tokenizer.encode(context)?;
        let Some(room) = self.length.checked_sub(question.len() + self.frame.pair_overhead()).filter(|room| *room > 0)
        else {
            return Ok(Made::Dropped(Dropped::TooLong));
        };
        if pieces.ids.is_empty() {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let place = (!answer.is_empty()).then(|| tokens_of(&pieces.spans, *start, start + answer.len())).flatten();
        let mut items = Vec::new();
        let step = room.saturating_sub(self.overlap).max(1);
        let mut from = 0;
        loop {
            let to = (from + room).min(pieces.ids.len());
            items.push(Prepared::Ready(self.window(&question, &pieces.ids, &pieces.spans, from..to, place).into()));
            if to == pieces.ids.len() {
                return Ok(Made::Items { items, cut: lost });
            }
            from += step;
        }
    }

    fn window(
        &self,
        question: &[u32],
        context: &[u32],
        spans: &[(usize, usize)],
        window: std::ops::Range<usize>,
        place: Option<(usize, usize)>,
    ) -> Sample {
        let (input, token_types) = self.frame.pair(question, &context[window.clone()]);
        let before = self.frame.open.len() + question.len() + self.frame.between.len();
        let inside = place.filter(|(first, last)| window.contains(first) && window.contains(last));
        let target = match inside {
            Some((first, last)) => [first, last].map(|at| (before + at - window.start) as i64).to_vec(),
            None => vec![0, 0],
        };
        let mut origin = vec![(0, 0); input.len()];
        for (to, (from, end)) in origin.iter_mut().skip(before).zip(&spans[window]) {
            *to = (*from as u32, *end as u32);
        }
        Sample { input, token_types, aim: Aim::Span, target, weight: vec![1.0; 2], spans: origin, ..Sample::default() }
    }
}

/// The first and last piece that share a byte with `from..to`.
fn tokens_of(spans: &[(usize, usize)], from: usize, to: usize) -> Option<(usize, usize)> {
    let touches = |span: &(usize, usize)| span.0 < to && span.1 > from;
    Some((spans.iter().position(touches)?, spans.iter().rposition(touches)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::{Words, tests::Thirds};

    fn windows(objective: &Answer, example: &Example) -> Vec<Sample> {
        let Made::Items { items, .. } = objective.prepare(example).unwrap() else { panic!() };
        items.into_iter().map(|i| if let Prepared::Ready(sample) = i { *sample } else { panic!() }).collect()
    }

    /// In every window that holds the answer, the text between the two places is the answer.
    #[test]
    fn the_places_hold_the_answer() {
        let context = "Ada was born in London and lived in Surrey until she met Charles Babbage at a party in June";
        let pieces = Arc::new(Thirds::of(&format!("{context} whom did she meet")));
        let frame = Frame::bert(&*pieces).unwrap();
        let example = Example::question(context, "whom did she meet", "Charles Babbage");
        let objective = Answer { overlap: 8, ..Answer::new(pieces, frame, 24) };
        let all = windows(&objective, &example);
        assert!(all.len() > 2);
        let mut held = 0;
        for sample in &all {
            assert!(sample.input.len() <= 24 && sample.spans.len() == sample.input.len());
            let (first, last) = (sample.target[0] as usize, sample.target[1] as usize);
            if first > 0 {
                let text = &context[sample.spans[first].0 as usize..sample.spans[last].1 as usize];
                assert_eq!(text, "Charles Babbage");
                held += 1;
            } else {
                assert_eq!(last, 0, "outside the window both stand on [CLS]");
            }
        }
        assert!(held >= 1 && held < all.len());
        let last = all.last().unwrap().spans.iter().map(|span| span.1).max().unwrap();
        assert_eq!(last as usize, context.len(), "the context is read to its end");
    }

    #[test]
    fn impossible_and_wrong_answers() {
        let words = Arc::new(Words::of(["a b c q"]));
        let frame = Frame::bert(&*words).unwrap();
        let objective = Answer::new(words, frame, 16);
        assert_eq!(windows(&objective, &Example::question("a b c", "q", ""))[0].target, [0, 0]);
        assert_eq!(windows(&objective, &Example::question("a b c", "q", "b"))[0].target, [4, 4]);
        let wrong = objective.prepare(&Example::question("a b c", "q", "z")).unwrap();
        assert_eq!(wrong, Made::Dropped(Dropped::AnswerNotInContext));
        let narrow = Answer { length: 4, question_length: 4, ..objective };
        assert_eq!(narrow.prepare(&Example::question("a", "q", "a")).unwrap(), Made::Dropped(Dropped::TooLong));
    }
}
