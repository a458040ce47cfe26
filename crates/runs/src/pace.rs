//! How long a run is and how fast it goes: epochs become steps, shares of them become a warm-up and looks at the validation
//! side, and a network that has learnt before gets the rate that suits its width.

use crate::recipe::Recipe;

/// How many steps there are where epochs are said, and a warm-up that ends before they do.
pub(crate) fn paced(mut recipe: Recipe, batches: u64, notes: &mut Vec<String>) -> Recipe {
    let (train, schedule) = (&mut recipe.train, &mut recipe.schedule);
    if train.epochs > 0.0 {
        let all = train.epochs * batches as f64 / train.accumulate as f64;
        train.steps = (all.ceil() as u64).max(1);
        let said = format!("{} epochs of {batches} batches are {} steps", train.epochs, train.steps);
        notes.push(match train.least > train.steps {
            true => format!("{said}; few examples: {} are taken, which read them {:.0} times", train.least, {
                train.least as f64 * train.accumulate as f64 / batches.max(1) as f64
            }),
            false => said,
        });
        train.steps = train.steps.max(train.least);
    }
    if schedule.warmup_share > 0.0 {
        schedule.warmup = ((train.steps as f64 * schedule.warmup_share).round() as u64).max(1);
    }
    if recipe.eval.looks > 0 {
        recipe.eval.every = train.steps.div_ceil(recipe.eval.looks).max(1);
    }
    // A rate that never comes to its peak is not what was asked for; a tenth of the steps is the usual warm-up.
    if schedule.warmup >= train.steps && train.steps > 1 {
        let warmup = (train.steps / 10).max(1);
        notes.push(format!("the rate rises for {warmup} steps: {} would outlast the run", schedule.warmup));
        schedule.warmup = warmup;
    }
    recipe
}

/// The learning rate of a network that has learnt before: the wider it is, the more carefully it is changed.
///
/// Measured is one point: 1e-4 at width 384, one corpus, one seed ([docs/training.md](../../../docs/training.md) has the table).
/// That it falls as 1/width, its upper bound and the rate of adapters are custom, not measurements; `--lr auto` measures.
pub(crate) fn usual_rate(width: usize, adapters: bool) -> f64 {
    match adapters {
        // Adapters are few and start at nothing: they bear, and need, a larger rate.
        true => 1e-3,
        false => (1e-4 * 384.0 / width.max(1) as f64).min(3e-4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_examples_are_read_more_often_and_shares_become_steps() {
        let text = "[train]\nepochs = 3.0\nleast = 100\n[schedule]\nwarmup_share = 0.1\n[eval]\nlooks = 6\n[data]\ncorpus = \"builtin:en-it\"";
        let recipe = Recipe::parse("test", text).expect("a recipe");
        let mut notes = vec![];
        let many = paced(recipe.clone(), 150, &mut notes);
        assert_eq!((many.train.steps, many.schedule.warmup, many.eval.every), (450, 45, 75));
        let few = paced(recipe, 5, &mut notes);
        assert_eq!((few.train.steps, few.schedule.warmup, few.eval.every), (100, 10, 17));
        assert!(notes.iter().any(|n| n.contains("100 are taken, which read them 20 times")), "{notes:?}");
    }

    #[test]
    fn a_wider_network_is_changed_more_carefully() {
        assert!(usual_rate(768, false) < usual_rate(384, false));
        assert_eq!(usual_rate(16, false), 3e-4);
        assert!(usual_rate(768, true) > usual_rate(768, false));
    }
}
