//! One sheet a step: its name, its parameters with their ranges, what means off. The parser, the printed chain, the flags,
//! `--help` and the book all come from these sheets.
//!
//! In text a list joins its items with `|`, a sequence of tokens its ids with `+`, a pair its halves with `:`
//! (`bad_words 5+7|9`, `logit_bias 5:-1.5|5+7:2`), because commas part steps and spaces part parameters.

use std::fmt::{self, Display};
use std::str::FromStr;

use qkv_base::{Error, Result};

/// What there is to know about a step without running it.
#[derive(Clone, Copy, Debug)]
pub struct Sheet {
    /// its name in a chain, `top_k`; with dashes it is the flag, `--top-k`
    pub name: &'static str,
    /// other names it answers to
    pub aliases: &'static [&'static str],
    /// what it does, in one line
    pub about: &'static str,
    /// when it does nothing, in one line
    pub off: &'static str,
    /// how it is written
    pub example: &'static str,
    /// its parameters, in the order in which they may be given without a name
    pub parameters: &'static [Parameter],
}

/// One parameter of a step.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// its name: `base` in `dry 0.8 base=1.75`
    pub name: &'static str,
    /// what it is when left out; a parameter without one must be given
    pub default: Option<&'static str>,
    /// what it may be
    pub range: Range,
    /// what it says, in one line
    pub about: &'static str,
}

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

fn join<T>(items: &[T], by: &str, text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(by)
}

fn plus(ids: &[u32]) -> String {
    join(ids, "+", |id| id.to_string())
}

/// A Rust type that a parameter can have.
pub(crate) trait Field: Sized {
    fn take(value: Value) -> Option<Self>;
    fn give(&self) -> Value;
}

macro_rules! field {
    ($($ty:ty => $kind:ident),*) => {$(
        impl Field for $ty {
            fn take(value: Value) -> Option<Self> {
                if let Value::$kind(x) = value { Some(x) } else { None }
            }
            fn give(&self) -> Value {
                Value::$kind(self.clone())
            }
        }
    )*};
}
field!(f64 => Number, usize => Whole, Vec<u32> => Ids, Vec<Vec<u32>> => Sequences,
       Vec<(Vec<u32>, f64)> => Biases, Vec<(usize, u32)> => Places);

/// A thing of the chain that its sheet describes: a transform or a pick.
pub(crate) trait Stated: Sized {
    const SHEET: Sheet;
    /// The thing with these values, in the sheet's order; none if their kinds are not the sheet's.
    fn read(values: Vec<Value>) -> Option<Self>;
    /// Its values, in the sheet's order.
    fn write(&self) -> Vec<Value>;
    /// Itself, if every value lies in its range.
    fn checked(self) -> Result<Self> {
        Self::SHEET.check(&self.write())?;
        Ok(self)
    }
}

impl Sheet {
    /// Whether this sheet answers to a name. Case does not matter, and a dash is as good as an underscore.
    pub fn answers(&self, name: &str) -> bool {
        let name = name.to_lowercase().replace('-', "_");
        self.name == name || self.aliases.contains(&name.as_str())
    }

    /// The flag: `--top-k`.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Each value must lie in the range of its parameter.
    pub fn check(&self, values: &[Value]) -> Result<()> {
        for (parameter, value) in self.parameters.iter().zip(values) {
            if !parameter.range.check(value) {
                return Err(self.out_of_range(parameter, &value.to_string()));
            }
        }
        Ok(())
    }

    pub(crate) fn out_of_range(&self, parameter: &Parameter, text: &str) -> Error {
        Error::new(
            format!("`{}`", self.name),
            format!("{} is `{text}`, but must be {}", parameter.name, parameter.range),
            format!("{}, as in `{}`; {}", parameter.about, self.example, self.off),
        )
    }

    /// The values that `words` say (`0.8`, `base=1.75`), defaults filled in, each in its range.
    pub fn read(&self, words: &[&str]) -> Result<Vec<Value>> {
        self.read_over(words, &[])
    }

    /// The same with `base`, values in the sheet's order, in place of the defaults.
    pub fn read_over(&self, words: &[&str], base: &[Value]) -> Result<Vec<Value>> {
        let mut said: Vec<Option<Value>> = vec![None; self.parameters.len()];
        for (i, word) in words.iter().enumerate() {
            let (place, text) = match word.split_once('=') {
                Some((name, text)) => (self.place(name)?, text),
                None => (i, *word),
            };
            let Some(parameter) = self.parameters.get(place) else { return Err(self.too_many(word)) };
            let value = parameter.range.read(text).filter(|value| parameter.range.check(value));
            let value = value.ok_or_else(|| self.out_of_range(parameter, text))?;
            if said[place].replace(value).is_some() {
                let what = format!("{} is given twice", parameter.name);
                return Err(Error::new(format!("`{}`", self.name), what, format!("write `{}`", self.example)));
            }
        }
        let fill = |(i, value): (usize, Option<Value>)| {
            let parameter = &self.parameters[i];
            let value = value.or_else(|| base.get(i).cloned()).or_else(|| parameter.fallback());
            value.ok_or_else(|| self.missing(parameter))
        };
        said.into_iter().enumerate().map(fill).collect()
    }

    /// The canonical text: the first parameter bare, the others by name where they are not the default.
    pub fn write(&self, values: &[Value]) -> String {
        let mut out = self.name.to_string();
        for (i, (parameter, value)) in self.parameters.iter().zip(values).enumerate() {
            let text = value.to_string();
            if i == 0 && !text.is_empty() {
                out += &format!(" {text}");
            } else if parameter.fallback().as_ref() != Some(value) {
                out += &format!(" {}={text}", parameter.name);
            }
        }
        out
    }

    fn place(&self, name: &str) -> Result<usize> {
        let name = name.to_lowercase().replace('-', "_");
        self.parameters.iter().position(|p| p.name == name).ok_or_else(|| {
            let hint = match qkv_base::nearest(&name, self.parameters.iter().map(|p| p.name)) {
                Some(near) => {
                    format!("did you mean `{near}`? It takes {}", join(self.parameters, ", ", |p| p.name.into()))
                }
                None => format!("write `{}`", self.example),
            };
            Error::new(format!("`{}`", self.name), format!("has no parameter `{name}`"), hint)
        })
    }

    fn too_many(&self, word: &str) -> Error {
        let hint = format!("it takes {}, as in `{}`", self.parameters.len(), self.example);
        Error::new(format!("`{}`", self.name), format!("does not know what to do with `{word}`"), hint)
    }

    fn missing(&self, parameter: &Parameter) -> Error {
        let hint = format!("{}: {}, as in `{}`", parameter.about, parameter.range, self.example);
        Error::new(format!("`{}`", self.name), format!("needs its {}", parameter.name), hint)
    }

    /// Three lines of help or more: what it does, when it does nothing, each parameter.
    pub fn help(&self) -> String {
        let mut out = format!("{}: {}\n  {}; `{}`", self.name, self.about, self.off, self.example);
        if !self.aliases.is_empty() {
            out += &format!("; also {}", self.aliases.join(", "));
        }
        for p in self.parameters {
            let default = p.default.map(|d| format!(" (default {})", if d.is_empty() { "none" } else { d }));
            out += &format!("\n    {}: {}, {}{}", p.name, p.about, p.range, default.unwrap_or_default());
        }
        out
    }
}

impl Parameter {
    /// What it is when left out.
    pub fn fallback(&self) -> Option<Value> {
        self.default.and_then(|text| self.range.read(text))
    }
}

/// Makes a step's struct, its sheet and its checked constructor from one description.
macro_rules! step {
    (
        $(#[$doc:meta])*
        $name:ident = $text:literal $aliases:tt,
        about $about:literal, off $off:literal, example $example:literal,
        { $($field:ident: $ty:ty $(= $default:literal)?, in $range:expr, $says:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = $says] pub(crate) $field: $ty,)*
        }

        impl $name {
            /// With these parameters, if each lies in its range.
            pub fn new($($field: $ty),*) -> qkv_base::Result<Self> {
                $crate::transform::sheet::Stated::checked(Self { $($field),* })
            }
        }

        impl $crate::transform::sheet::Stated for $name {
            const SHEET: $crate::transform::sheet::Sheet = {
                #[allow(unused_imports)]
                use $crate::transform::sheet::{Parameter, Range::*, Sheet, or_none};
                Sheet {
                    name: $text,
                    aliases: &$aliases,
                    about: $about,
                    off: $off,
                    example: $example,
                    parameters: &[$(Parameter {
                        name: stringify!($field),
                        default: or_none(&[$($default)?]),
                        range: $range,
                        about: $says,
                    }),*],
                }
            };
            #[allow(unused_mut, unused_variables)]
            fn read(values: Vec<$crate::transform::sheet::Value>) -> Option<Self> {
                let mut values = values.into_iter();
                Some(Self { $($field: $crate::transform::sheet::Field::take(values.next()?)?),* })
            }
            fn write(&self) -> Vec<$crate::transform::sheet::Value> {
                vec![$($crate::transform::sheet::Field::give(&self.$field)),*]
            }
        }
    };
}
pub(crate) use step;

/// The default of a parameter that may have none.
pub(crate) const fn or_none(default: &[&'static str]) -> Option<&'static str> {
    if default.is_empty() { None } else { Some(default[0]) }
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
