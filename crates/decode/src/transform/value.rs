//! What a step's parameters can be, and how they are written.
//!
//! In text a list joins its items with `|`, a sequence of tokens its ids with `+`, a pair its halves with `:`
//! (`bad_words 5+7|9`, `logit_bias 5:-1.5|5+7:2`), because commas part steps and spaces part parameters.

use std::fmt::{self, Display};
use std::str::FromStr;

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// a finite number from `low` to `high`, both included
    From(f64, f64),
    /// a finite number above `low`, up to `high`
    Above(f64, f64),
    /// a whole number from `low`
    Whole(usize),
    /// token ids: `3|4|5`
    Ids,
    /// sequences of token ids: `5+7|9`
    Sequences,
    /// sequences with what to add to the logit of their last token: `5+7:-1.5`
    Biases,
    /// positions with the token that must stand there: `1:250004`
    Places,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Number(f64),
    Whole(usize),
    Ids(Vec<u32>),
    Sequences(Vec<Vec<u32>>),
    Biases(Vec<(Vec<u32>, f64)>),
    Places(Vec<(usize, u32)>),
}

impl Range {
    /// Reads a value of this kind; whether it lies in the range is [`Range::check`]'s to say.
    pub fn read(&self, text: &str) -> Option<Value> {
        Some(match self {
            Range::From(..) | Range::Above(..) => Value::Number(text.parse().ok()?),
            Range::Whole(_) => Value::Whole(text.parse().ok()?),
            Range::Ids => Value::Ids(list(text, |item| item.parse().ok())?),
            Range::Sequences => Value::Sequences(list(text, sequence)?),
            Range::Biases => Value::Biases(list(text, |item| pair(item, sequence, |bias| bias.parse().ok()))?),
            Range::Places => Value::Places(list(text, |item| pair(item, number, number))?),
        })
    }

    /// Whether a value is of this kind and in this range.
    pub fn check(&self, value: &Value) -> bool {
        match (self, value) {
            (Range::From(low, high), Value::Number(x)) => x.is_finite() && (*low..=*high).contains(x),
            (Range::Above(low, high), Value::Number(x)) => x.is_finite() && x > low && x <= high,
            (Range::Whole(low), Value::Whole(n)) => n >= low,
            (Range::Ids, Value::Ids(_)) | (Range::Places, Value::Places(_)) => true,
            (Range::Sequences, Value::Sequences(all)) => all.iter().all(|ids| !ids.is_empty()),
            // −∞ forbids a token; +∞ would leave the row without probabilities.
            (Range::Biases, Value::Biases(all)) => all.iter().all(|(ids, x)| !ids.is_empty() && *x < f64::INFINITY),
            _ => false,
        }
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::From(low, f64::INFINITY) => write!(f, "a number from {low}"),
            Range::From(low, high) => write!(f, "a number from {low} to {high}"),
            Range::Above(low, f64::INFINITY) => write!(f, "a number above {low}"),
            Range::Above(low, high) => write!(f, "a number above {low}, up to {high}"),
            Range::Whole(low) => write!(f, "a whole number from {low}"),
            Range::Ids => write!(f, "token ids like 3|4|5"),
            Range::Sequences => write!(f, "sequences of token ids like 5+7|9"),
            Range::Biases => write!(f, "sequences of token ids with a bias, like 5:-1.5|5+7:2"),
            Range::Places => write!(f, "positions with a token id, like 1:42|2:43"),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(x) => write!(f, "{x}"),
            Value::Whole(n) => write!(f, "{n}"),
            Value::Ids(ids) => f.write_str(&join(ids, "|", |id| id.to_string())),
            Value::Sequences(all) => f.write_str(&join(all, "|", |ids| plus(ids))),
            Value::Biases(all) => f.write_str(&join(all, "|", |(ids, bias)| format!("{}:{bias}", plus(ids)))),
            Value::Places(all) => f.write_str(&join(all, "|", |(place, id)| format!("{place}:{id}"))),
        }
    }
}

fn list<T>(text: &str, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if text.is_empty() { Some(Vec::new()) } else { text.split('|').map(item).collect() }
}

fn sequence(text: &str) -> Option<Vec<u32>> {
    text.split('+').map(number).collect()
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn pair<A, B>(text: &str, a: impl Fn(&str) -> Option<A>, b: impl Fn(&str) -> Option<B>) -> Option<(A, B)> {
    let (left, right) = text.split_once(':')?;
    Some((a(left)?, b(right)?))
}

pub(super) fn join<T>(items: &[T], by: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(by)
}

fn plus(ids: &[u32]) -> String {
    join(ids, "+", |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_what_they_write() {
        for (range, text) in [
            (Range::From(0.0, 1.0), "0.95"),
            (Range::Above(0.0, f64::INFINITY), "0.0000001"),
            (Range::Whole(0), "40"),
            (Range::Ids, "3|4|5"),
            (Range::Ids, ""),
            (Range::Sequences, "5+7|9"),
            (Range::Biases, "5:-1.5|5+7:-inf"),
            (Range::Places, "1:42|2:43"),
        ] {
            let value = range.read(text).unwrap();
            assert!(range.check(&value), "{range}: {text}");
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (range, text) in [
            (Range::From(0.0, 1.0), "1.01"),
            (Range::From(0.0, 1.0), "-0.1"),
            (Range::From(0.0, f64::INFINITY), "NaN"),
            (Range::From(0.0, f64::INFINITY), "inf"),
            (Range::Above(0.0, 1.0), "0"),
            (Range::Whole(1), "0"),
            (Range::Biases, "5:inf"),
            (Range::Biases, "5:NaN"),
        ] {
            assert!(!range.check(&range.read(text).unwrap()), "{range}: {text}");
        }
        for (range, text) in [
            (Range::Whole(0), "-1"),
            (Range::Whole(0), "1.5"),
            (Range::Ids, "3|x"),
            (Range::Ids, "4294967296"),
            (Range::Sequences, "5+|3"),
            (Range::Biases, "5"),
            (Range::Places, "1:-2"),
        ] {
            assert_eq!(range.read(text), None, "{range}: {text}");
        }
    }
}
