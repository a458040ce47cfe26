//! One sheet a step: its name, its parameters with their ranges, what means off. The parser, the printed chain, the flags,
//! `--help` and the book all come from these sheets.

use qkv_base::{Error, Result};

use super::value::{Range, Value, join};

/// What there is to know about a step without running it.
#[derive(Clone, Copy, Debug)]
pub struct StepSheet {
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
    pub parameters: &'static [StepParameter],
}

/// One parameter of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepParameter {
    /// its name: `base` in `dry 0.8 base=1.75`
    pub name: &'static str,
    /// what it is when left out; a parameter without one must be given
    pub default: Option<&'static str>,
    /// what it may be
    pub range: Range,
    /// what it says, in one line
    pub about: &'static str,
}

/// A Rust type that a parameter can have.
pub(crate) trait StepField: Sized {
    fn take(value: Value) -> Option<Self>;
    fn give(&self) -> Value;
}

macro_rules! field {
    ($($ty:ty => $kind:ident),*) => {$(
        impl StepField for $ty {
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
    const SHEET: StepSheet;
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

impl StepSheet {
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

    pub(crate) fn out_of_range(&self, parameter: &StepParameter, text: &str) -> Error {
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

    fn missing(&self, parameter: &StepParameter) -> Error {
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

impl StepParameter {
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
            const SHEET: $crate::transform::sheet::StepSheet = {
                #[allow(unused_imports)]
                use $crate::transform::{StepParameter, Range::*, StepSheet, sheet::or_none};
                StepSheet {
                    name: $text,
                    aliases: &$aliases,
                    about: $about,
                    off: $off,
                    example: $example,
                    parameters: &[$(StepParameter {
                        name: stringify!($field),
                        default: or_none(&[$($default)?]),
                        range: $range,
                        about: $says,
                    }),*],
                }
            };
            #[allow(unused_mut, unused_variables)]
            fn read(values: Vec<$crate::transform::Value>) -> Option<Self> {
                let mut values = values.into_iter();
                Some(Self { $($field: $crate::transform::sheet::StepField::take(values.next()?)?),* })
            }
            fn write(&self) -> Vec<$crate::transform::Value> {
                vec![$($crate::transform::sheet::StepField::give(&self.$field)),*]
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

    const SHEET: StepSheet = StepSheet {
        name: "two_words",
        aliases: &["tw"],
        about: "shows a sheet",
        off: "0 does nothing",
        example: "two_words 1",
        parameters: &[
            StepParameter { name: "size", default: None, range: Range::Whole(0), about: "how many" },
            StepParameter { name: "share", default: Some("0.5"), range: Range::From(0.0, 1.0), about: "of what" },
        ],
    };

    #[test]
    fn words_become_values_and_values_words() {
        assert!(SHEET.answers("Two-Words") && SHEET.answers("TW") && !SHEET.answers("two"));
        assert_eq!(SHEET.flag(), "--two-words");
        for (words, text) in [(&["3"][..], "two_words 3"), (&["share=1", "size=3"], "two_words 3 share=1")] {
            assert_eq!(SHEET.write(&SHEET.read(words).unwrap()), text);
        }
        let base = [Value::Whole(7), Value::Number(0.25)];
        assert_eq!(SHEET.write(&SHEET.read_over(&["share=0.5"], &base).unwrap()), "two_words 7");
        assert_eq!(SHEET.write(&SHEET.read_over(&[], &base).unwrap()), "two_words 7 share=0.25");
        assert!(SHEET.check(&[Value::Whole(7), Value::Number(1.5)]).is_err());
    }

    #[test]
    fn the_help_tells_all() {
        let want = "two_words: shows a sheet\n  0 does nothing; `two_words 1`; also tw\n    size: how many, a whole number from 0\n    \
                    share: of what, a number from 0 to 1 (default 0.5)";
        assert_eq!(SHEET.help(), want);
    }
}
