//! Log-probabilities in OpenAI's two shapes. They are the model's own, before any step of the chain (and so before the
//! temperature): what the model believes, not what the sampler was left with.

use super::session::Choice;
use crate::served::Served;
use qkv_decode::NewToken;
use qkv_decode::score::PromptToken;
use serde_json::{Map, Value, json};

/// A token with what is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    text: String,
    logprob: Option<f32>,
    top: Vec<(String, f32)>,
}

/// JSON has no −∞.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}

fn named(served: &Served, top: &[(u32, f32)]) -> Vec<(String, f32)> {
    top.iter().map(|(id, p)| (served.token_text(*id), finite(*p))).collect()
}

/// A token that was said.
pub fn of_token(served: &Served, new: &NewToken) -> Piece {
    Piece { text: served.token_text(new.id), logprob: Some(finite(new.logprob)), top: named(served, &new.top) }
}

/// All tokens of a continuation; a beam tells no alternatives.
pub fn of_choice(served: &Served, choice: &Choice) -> Vec<Piece> {
    if !choice.tokens.is_empty() {
        return choice.tokens.iter().map(|new| of_token(served, new)).collect();
    }
    let one = |(id, p): (&u32, &f32)| Piece { text: served.token_text(*id), logprob: Some(finite(*p)), top: vec![] };
    choice.ids.iter().zip(&choice.logprobs).map(one).collect()
}

/// The tokens of a prompt; the first has nothing before it and so no probability.
pub fn of_prompt(served: &Served, ids: &[u32], scored: &[PromptToken]) -> Vec<Piece> {
    let first = ids.first().map(|id| Piece { text: served.token_text(*id), logprob: None, top: vec![] });
    let rest = scored.iter().map(|t| Piece {
        text: served.token_text(t.id),
        logprob: Some(finite(t.logprob)),
        top: named(served, &t.top),
    });
    first.into_iter().chain(rest).collect()
}

/// The shape of `/v1/completions`; `offset` is where in the text the first token begins, in characters.
pub fn legacy(pieces: &[Piece], asked: usize, offset: usize) -> Value {
    let mut at = offset;
    let offsets: Vec<usize> = pieces
        .iter()
        .map(|piece| {
            let here = at;
            at += piece.text.chars().count();
            here
        })
        .collect();
    let top = |piece: &Piece| -> Value {
        match piece.logprob {
            None => Value::Null,
            Some(_) => Value::Object(piece.top.iter().rev().map(|(t, p)| (t.clone(), json!(p))).collect::<Map<_, _>>()),
        }
    };
    json!({
        "tokens": pieces.iter().map(|p| p.text.as_str()).collect::<Vec<_>>(),
        "token_logprobs": pieces.iter().map(|p| p.logprob).collect::<Vec<_>>(),
        "top_logprobs": if asked > 0 { Value::from(pieces.iter().map(top).collect::<Vec<_>>()) } else { Value::Null },
        "text_offset": offsets,
    })
}

/// The shape of `/v1/chat/completions`.
pub fn chat(pieces: &[Piece]) -> Value {
    let bytes = |text: &str| match text.contains(char::REPLACEMENT_CHARACTER) {
        true => Value::Null, // a part of a character: its bytes are not known from its text
        false => json!(text.as_bytes()),
    };
    let top = |(text, logprob): &(String, f32)| json!({"token": text, "logprob": logprob, "bytes": bytes(text)});
    let one = |p: &Piece| {
        json!({"token": p.text, "logprob": p.logprob, "bytes": bytes(&p.text),
            "top_logprobs": p.top.iter().map(top).collect::<Vec<_>>()})
    };
    json!({"content": pieces.iter().map(one).collect::<Vec<_>>(), "refusal": null})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_add_up_and_the_first_token_has_no_probability() {
        let piece = |text: &str, logprob| Piece { text: text.into(), logprob, top: vec![("é".into(), -0.5)] };
        let value = legacy(&[piece("né", None), piece("x", Some(-1.0))], 1, 3);
        assert_eq!((&value["text_offset"], &value["top_logprobs"][0]), (&json!([3, 5]), &Value::Null));
        assert_eq!(value["top_logprobs"][1]["é"], json!(-0.5));
        assert_eq!(chat(&[piece("a\u{fffd}", Some(-1.0))])["content"][0]["bytes"], Value::Null);
    }
}
