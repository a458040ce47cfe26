//! The texts of what a search has found.

use super::Request;
use crate::search::Sequence;
use crate::stop::End;
use crate::text::{Detokenizer, RowText};
use qkv_base::Result;

/// Sequences with their texts, where the search has not made them on its way.
pub(super) fn with_text(
    sequences: Vec<Sequence>,
    request: &Request,
    detokenizer: Option<&dyn Detokenizer>,
) -> Result<Vec<Sequence>> {
    let Some(detokenizer) = detokenizer else { return Ok(sequences) };
    let text = |mut sequence: Sequence| {
        if let Some(text) = &sequence.text {
            if sequence.end == End::Text {
                let kept = kept(&sequence.ids, text.len(), detokenizer)?;
                sequence.ids.truncate(kept);
                sequence.logprobs.truncate(kept);
            }
            return Ok(sequence);
        }
        let mut text = RowText::new(detokenizer, &request.stop);
        for id in sequence.ids.iter().filter(|id| !request.ends.contains(id)) {
            text.push(*id)?;
        }
        text.finish()?;
        Ok(Sequence { text: Some(text.text().to_string()), ..sequence })
    };
    sequences.into_iter().map(text).collect()
}

/// How many of the tokens say the first `length` bytes of their text: those of a stop string, which is not said, are left
/// out. A token that ends the text and begins the stop string stays.
fn kept(ids: &[u32], length: usize, detokenizer: &dyn Detokenizer) -> Result<usize> {
    let (mut stream, mut said) = (detokenizer.stream(), 0);
    for (i, id) in ids.iter().enumerate() {
        if said >= length {
            return Ok(i);
        }
        said += stream.push(*id)?.len();
    }
    Ok(ids.len())
}
