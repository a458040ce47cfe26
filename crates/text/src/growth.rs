//! How much longer a tokenizer's file can make a text: a chain of replacements is bounded before it is believed.
//!
//! Forty steps that each turn `a` into `aa` make 2⁴⁰ letters of one. Every step has a factor that no text can pass: the
//! length of what it puts there over the shortest that it takes away. The factors of a chain multiply, and their
//! product is what is refused; nothing has to be run for it. Steps that only change, fold or cut letters count as one.

use crate::charsmap;
use qkv_base::{Error, Result};
use serde_json::Value;

/// A text may become so many times longer, in bytes. Published tokenizers stay below 100 by this count: T5's table of
/// characters has 33 bytes for one letter, and a space becomes the three bytes of `▁`.
const MAX_GROWTH: f64 = 1000.0;
/// What is put before a text may be so long, in bytes, after all steps.
const MAX_PREFIX: f64 = 65_536.0;

/// A text of n bytes becomes at most `times`·n + `more` bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Growth {
    times: f64,
    more: f64,
}

/// Refuses a tokenizer whose normaliser or decoder can make a text more than [`MAX_GROWTH`] times longer.
pub(crate) fn check(place: &str, json: &Value) -> Result<()> {
    for chain in ["normalizer", "decoder"] {
        let Growth { times, more } = grown(place, json.get(chain).unwrap_or(&Value::Null))?;
        if times > MAX_GROWTH || more > MAX_PREFIX {
            let size = |n: f64| if n < 1e9 { format!("{n:.0}") } else { format!("{n:.1e}") };
            let by = if times > MAX_GROWTH { size(times) + " times" } else { size(more) + " bytes" };
            let what = format!("the steps of its {chain} can make a text {by} longer");
            let hint = format!("at most {MAX_GROWTH:.0} times is believed; is the file meant to do harm?");
            return Err(Error::new(place, what, hint));
        }
    }
    Ok(())
}

/// What one part, with all parts inside it, can make of a text.
fn grown(place: &str, part: &Value) -> Result<Growth> {
    let mut growth = Growth { times: 1.0, more: 0.0 };
    for inner in ["normalizers", "decoders"].iter().filter_map(|key| part.get(key)?.as_array()).flatten() {
        let Growth { times, more } = grown(place, inner)?;
        growth = Growth { times: growth.times * times, more: growth.more * times + more };
    }
    let long = |key: &str| part.get(key).and_then(Value::as_str).map_or(0, str::len) as f64;
    let times = match part.get("type").and_then(Value::as_str) {
        Some("Replace") => {
            let least = shortest_match(part.get("pattern"));
            // Without a length to take away, it is put before every byte.
            if least == 0 { 1.0 + long("content") } else { long("content") / least as f64 }
        }
        Some("Precompiled") => {
            let map = part.get("precompiled_charsmap").and_then(Value::as_str).unwrap_or("");
            charsmap::longest(&charsmap::from_base64(place, map)?) as f64
        }
        // 256 bytes have letters of one or two bytes.
        Some("ByteLevel") => 2.0,
        _ => 1.0,
    };
    let times = times.max(1.0);
    Ok(Growth { times: growth.times * times, more: growth.more * times + long("prepend") })
}

/// The fewest bytes that a pattern of `Replace` can take away. A pattern that looks around itself is not understood here;
/// it may match nothing.
fn shortest_match(pattern: Option<&Value>) -> usize {
    let said = |key: &str| pattern.and_then(|p| p.get(key)).and_then(Value::as_str);
    match (said("String"), said("Regex")) {
        (Some(text), _) => text.len(),
        (_, Some(regex)) => regex_syntax::parse(regex).ok().and_then(|r| r.properties().minimum_len()).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replace(pattern: Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    fn of(part: &Value) -> f64 {
        grown("t.json", part).unwrap().times
    }

    #[test]
    fn a_step_is_as_long_as_what_it_puts_over_what_it_takes() {
        assert_eq!(of(&replace(json!({"String": " "}), "▁")), 3.0);
        assert_eq!(of(&replace(json!({"String": "``"}), "\"")), 1.0);
        assert_eq!(of(&replace(json!({"Regex": " {2,}"}), "abcd")), 2.0);
        assert_eq!(of(&replace(json!({"Regex": "x*"}), "ab")), 3.0);
        assert_eq!(of(&replace(json!({"Regex": "(?<=a)"}), "ab")), 3.0); // it looks around
        let prepend = json!({"type": "Prepend", "prepend": "▁"});
        assert_eq!(grown("t.json", &prepend).unwrap(), Growth { times: 1.0, more: 3.0 });
        assert_eq!(of(&json!({"type": "Lowercase"})), 1.0);
    }

    #[test]
    fn chains_that_explode_are_refused_wherever_they_are() {
        let doubling = vec![replace(json!({"String": "a"}), "aa"); 40];
        for (key, kind) in [("normalizers", "normalizer"), ("decoders", "decoder")] {
            // Half of them in a chain inside the chain.
            let (first, rest) = doubling.split_at(20);
            let mut chain = first.to_vec();
            chain.push(json!({"type": "Sequence", key: rest}));
            let tokenizer = json!({kind: {"type": "Sequence", key: chain}});
            let error = check("t.json", &tokenizer).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("t.json: the steps of its {kind} can make a text 1.1e12 times longer")
            );
        }
        let few =
            json!({"normalizer": {"type": "Sequence", "normalizers": vec![replace(json!({"String": "a"}), "aa"); 9]}});
        assert!(check("t.json", &few).is_ok());
        let long = json!({"type": "Prepend", "prepend": "a".repeat(1 << 12)});
        let before = json!({"normalizer": {"type": "Sequence", "normalizers": vec![long; 20]}});
        assert_eq!(
            check("t.json", &before).unwrap_err().what,
            "the steps of its normalizer can make a text 81920 bytes longer"
        );
        // One step with much in it is no better.
        let one = json!({"decoder": replace(json!({"String": "a"}), &"b".repeat(1001))});
        assert!(check("t.json", &one).is_err());
    }
}
