//! What rounding costs: the same sentences through the network before and after, and how far the answers are from each other.
//!
//! For a network that scores words, at each place of each sentence: the Kullback–Leibler divergence `Σ p·log(p/q)` of the rounded
//! network's distribution q from the first one's p, and whether both think the same word likeliest. For every network: the cosine
//! between what comes out. The sentences are few and plain; `qkv evaluate M --weights int8 --compare M` says it for your data.

use qkv_base::Result;
use qkv_model::outputs::{Array, Inputs, Output, OutputOptions, forward_outputs};
use qkv_model::spec::Head;
use qkv_tasks::TextModel;
use std::fmt;

/// How far the rounded network is from the first.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Rounding {
    /// places that were compared
    pub places: usize,
    /// mean cosine between what comes out at a place
    pub cosine: f64,
    /// mean divergence in nats, of networks that score words
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<f64>,
    /// share of places with the same likeliest word, of networks that score words
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_top: Option<f64>,
}

impl fmt::Display for Rounding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "rounding, at {} places of plain sentences: cosine {:.5}", self.places, self.cosine)?;
        if let (Some(divergence), Some(same)) = (self.divergence, self.same_top) {
            write!(f, ", divergence {divergence:.5} nats, the same likeliest word {:.1} %", 100.0 * same)?;
        }
        Ok(())
    }
}

const SENTENCES: [&str; 8] = [
    "The cat sat on the mat and looked out of the window at the rain.",
    "In 1969 two astronauts walked on the moon while a third one waited above them.",
    "She opened the letter, read it twice, and put it back into its envelope without a word.",
    "Water boils at a lower temperature on a high mountain than at the sea.",
    "The committee will meet again on Tuesday to decide how much money the new library needs.",
    "If you add two and three you have five, and if you take one away, four are left.",
    "He had lived in the small town all his life, but he had never seen the river so high.",
    "Please turn off the light when you leave the room, and close the door behind you.",
];

/// Compares the two; nothing for a network without a tokenizer, or of pictures.
pub(super) fn cost(before: &TextModel, after: &TextModel) -> Result<Option<Rounding>> {
    if before.maybe_tokenizer().is_none() || before.spec().vocabulary().is_none() {
        return Ok(None);
    }
    let words = matches!(before.spec().head, Head::Language { .. } | Head::Masked { .. });
    let (mut places, mut cosine, mut divergence, mut same) = (0usize, 0.0, 0.0, 0usize);
    for sentence in SENTENCES {
        let mut ids = before.encode(sentence)?;
        ids.truncate(before.longest().max(1));
        let mut inputs = Inputs::of_ids(ids.clone());
        if before.is_pair() {
            let target = before.start()?.into_iter().chain(ids).take(before.longest().max(1)).collect();
            inputs.decoder_input_ids = Some(vec![target]);
        }
        let (Some(one), Some(other)) = (answer(before, &inputs)?, answer(after, &inputs)?) else { return Ok(None) };
        let width = one.dims.last().copied().unwrap_or(1).max(1);
        for (p, q) in one.values.chunks_exact(width).zip(other.values.chunks_exact(width)) {
            places += 1;
            cosine += qkv_tasks::embed::cosine(p, q);
            divergence += divergence_of(p, q);
            same += usize::from(top(p) == top(q));
        }
    }
    let mean = |sum: f64| sum / places.max(1) as f64;
    Ok(Some(Rounding {
        places,
        cosine: mean(cosine),
        divergence: words.then(|| mean(divergence)),
        same_top: words.then(|| mean(same as f64)),
    }))
}

/// What comes out of a network first.
fn answer(model: &TextModel, inputs: &Inputs) -> Result<Option<Array>> {
    let outputs = forward_outputs(&model.network, inputs, OutputOptions::default())?;
    Ok(outputs.into_iter().find_map(|(_, output)| if let Output::One(array) = output { Some(array) } else { None }))
}

/// `Σ p·log(p/q)` of two rows of scores.
fn divergence_of(p: &[f32], q: &[f32]) -> f64 {
    let log_sum = |x: &[f32]| {
        let most = x.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)) as f64;
        most + x.iter().map(|x| (f64::from(*x) - most).exp()).sum::<f64>().ln()
    };
    let (a, b) = (log_sum(p), log_sum(q));
    p.iter().zip(q).map(|(p, q)| (f64::from(*p) - a, f64::from(*q) - b)).map(|(p, q)| p.exp() * (p - q)).sum()
}

fn top(x: &[f32]) -> usize {
    (0..x.len()).max_by(|a, b| x[*a].total_cmp(&x[*b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_by_hand() {
        assert!(divergence_of(&[1.0, 2.0], &[1.0, 2.0]).abs() < 1e-12);
        // p = (1/2, 1/2), q = (1/4, 3/4): ln 2 − ½·ln 3 + … = ½·ln(4/3)
        let q = [0.25f32.ln(), 0.75f32.ln()];
        assert!((divergence_of(&[0.0, 0.0], &q) - 0.5 * (4.0f64 / 3.0).ln()).abs() < 1e-6);
    }
}
