//! Steps that work against each other. Each does what it says, but together they do something that hardly anybody means: one
//! undoes the other, or both punish the same thing. A chain is never refused for that; it is said.
//!
//! ```
//! let chain: qkv_decode::Chain = "temperature 1.5, top_p 0.9".parse().unwrap();
//! assert_eq!(chain.conflicts().len(), 1);
//! assert!(chain.conflicts()[0].starts_with("`temperature 1.5` before `top_p 0.9`"));
//! let other: qkv_decode::Chain = "top_p 0.9, temperature 1.5".parse().unwrap();
//! assert!(other.conflicts().is_empty());
//! ```

use crate::chain::Chain;
use crate::transform::{Step, Transform, Value};

/// What cuts by probability, and so feels a temperature before it.
const BY_PROBABILITY: &[&str] = &["top_p", "min_p", "top_a", "typical", "epsilon_cutoff", "eta_cutoff", "tail_free"];
/// What makes said tokens less probable.
const PENALTIES: &[&str] = &["repetition_penalty", "presence_penalty", "frequency_penalty", "dry"];
/// What changes how even the probabilities are.
const TEMPERATURES: &[&str] = &["temperature", "dynamic_temperature", "quadratic"];
/// What leaves fewer tokens.
const CUTS: &[&str] =
    &["top_k", "top_p", "min_p", "top_a", "typical", "epsilon_cutoff", "eta_cutoff", "tail_free", "top_n_sigma", "xtc"];

fn is(step: &Step, names: &[&str]) -> bool {
    names.contains(&step.sheet().name)
}

/// The first number of a step.
fn number(step: &Step) -> Option<f64> {
    step.values().into_iter().find_map(|value| match value {
        Value::Number(x) => Some(x),
        _ => None,
    })
}

impl Chain {
    /// Which of its steps work against each other, one sentence each.
    pub fn conflicts(&self) -> Vec<String> {
        let live: Vec<&Step> = self.steps.iter().filter(|step| !step.idle()).collect();
        let mut found = vec![];
        for (i, first) in live.iter().enumerate() {
            for second in &live[i + 1..] {
                found.extend(against(first, second));
            }
        }
        let pick = self.pick.to_string();
        if pick.starts_with("mirostat")
            && let Some(step) = live.iter().find(|step| is(step, CUTS))
        {
            found.push(format!("`{step}` cuts away what `{pick}` steers the surprise by: leave one of them out"));
        }
        found
    }
}

/// Why two steps, in this order, work against each other.
fn against(first: &Step, second: &Step) -> Option<String> {
    if is(first, &["temperature"]) && is(second, BY_PROBABILITY) && number(first).is_some_and(|t| t > 1.0) {
        return Some(format!(
            "`{first}` before `{second}` evens out the probabilities that `{second}` cuts by, so that it keeps more: put it behind"
        ));
    }
    if is(first, TEMPERATURES) && is(second, TEMPERATURES) {
        return Some(format!("`{first}` and `{second}` both bend the probabilities: their effects multiply"));
    }
    let xtc = |a: &Step, b: &Step| is(a, &["xtc"]) && is(b, &["temperature"]) && number(b).is_some_and(|t| t < 1.0);
    if xtc(first, second) || xtc(second, first) {
        return Some(format!(
            "`{first}` and `{second}`: one takes the most probable tokens away, the other prefers them"
        ));
    }
    // Presence and frequency were made to be used together.
    let made_for_it = [first, second].iter().all(|step| is(step, &["presence_penalty", "frequency_penalty"]));
    if is(first, PENALTIES) && is(second, PENALTIES) && first.sheet().name != second.sheet().name && !made_for_it {
        return Some(format!("`{first}` and `{second}` punish the same repetition twice"));
    }
    if is(first, CUTS) && is(second, PENALTIES) {
        return Some(format!(
            "`{first}` before `{second}` cuts by what has not been punished yet: a repeated word keeps its place"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::STEPS;

    /// The names in the rules are names of steps.
    #[test]
    fn rules_name_steps_that_there_are() {
        for name in [BY_PROBABILITY, PENALTIES, TEMPERATURES, CUTS].concat() {
            assert!(STEPS.iter().any(|sheet| sheet.name == name), "{name}");
        }
    }

    #[test]
    fn order_matters_and_usual_chains_are_left_in_peace() {
        let of = |text: &str| text.parse::<Chain>().expect("a chain").conflicts();
        for usual in [
            "top_k 40, top_p 0.95, temperature 0.8",
            "repetition_penalty 1.1, top_k 40, top_p 0.95, min_p 0.05, temperature 0.8",
            "temperature 0.7, top_p 0.9",
            "dry 0.8, top_k 40, temperature 1.5",
            "greedy",
        ] {
            assert_eq!(of(usual), Vec::<String>::new(), "{usual}");
        }
        assert!(of("top_p 0.9, repetition_penalty 1.2")[0].contains("not been punished yet"));
        assert!(of("presence_penalty 0.5, dry 0.8")[0].contains("twice"));
        assert!(of("temperature 0.5, xtc 0.1 0.5")[0].contains("the other prefers them"));
        assert!(of("top_k 5, mirostat2")[0].contains("steers"), "{:?}", of("top_k 5, mirostat2"));
        assert!(of("temperature 1.0, top_p 0.9").is_empty(), "a step that does nothing is against nobody");
    }
}
