//! Weights that are not numbers: how many, in which tensors, and where the first one is.

use std::fmt;

/// What was found among the values read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finiteness {
    /// how many are NaN
    pub nan: u64,
    /// how many are infinite
    pub infinite: u64,
    /// the tensor and the flat index of the first that is either
    pub first: Option<(String, usize)>,
    /// the tensors that hold any, each with how many
    pub tensors: Vec<(String, u64)>,
}

/// How many tensors are named in a sentence.
const NAMED: usize = 5;

impl Finiteness {
    /// Whether every value was finite.
    pub fn is_clean(&self) -> bool {
        self.first.is_none()
    }

    /// Counts the values of one tensor.
    ///
    /// ```
    /// let mut seen = qkv_weights::Finiteness::default();
    /// seen.scan("a", &[0.0, 1.0]);
    /// seen.scan("b", &[0.0, f32::NAN, f32::INFINITY]);
    /// assert_eq!(seen.to_string(), "2 values are not finite (1 NaN, 1 infinite), the first at index 1 of `b`");
    /// seen.scan("c", &[f32::NAN]);
    /// assert!(seen.to_string().ends_with("the first at index 1 of `b`; in `b` (2), `c` (1)"));
    /// ```
    pub fn scan(&mut self, name: &str, values: &[f32]) {
        self.add(name, Tally::of(values));
    }

    pub(crate) fn add(&mut self, name: &str, tally: Tally) {
        self.nan += tally.nan;
        self.infinite += tally.infinite;
        if tally.first.is_some() {
            self.tensors.push((name.to_owned(), tally.nan + tally.infinite));
        }
        if let (None, Some(index)) = (&self.first, tally.first) {
            self.first = Some((name.to_owned(), index));
        }
    }
}

impl fmt::Display for Finiteness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.first, self.nan + self.infinite) {
            (None, _) => f.write_str("every value is finite"),
            (Some((name, index)), n) => {
                let these = if n == 1 { "value is" } else { "values are" };
                let (nan, infinite) = (self.nan, self.infinite);
                write!(
                    f,
                    "{n} {these} not finite ({nan} NaN, {infinite} infinite), the first at index {index} of `{name}`"
                )?;
                if self.tensors.len() < 2 {
                    return Ok(());
                }
                let named: Vec<String> =
                    self.tensors.iter().take(NAMED).map(|(name, n)| format!("`{name}` ({n})")).collect();
                let more = self.tensors.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                write!(f, "; in {}{more}", named.join(", "))
            }
        }
    }
}

/// The same for a run of values that has no name yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    nan: u64,
    infinite: u64,
    first: Option<usize>,
}

impl Tally {
    /// Looks for an exponent of all ones; only where there is one are the values looked at singly.
    pub(crate) fn of(values: &[f32]) -> Self {
        let odd = values.iter().fold(false, |odd, v| odd | !v.is_finite());
        if !odd {
            return Self::default();
        }
        let nan = values.iter().filter(|v| v.is_nan()).count() as u64;
        let infinite = values.iter().filter(|v| v.is_infinite()).count() as u64;
        Self { nan, infinite, first: values.iter().position(|v| !v.is_finite()) }
    }

    /// This run, and another that begins at `offset`.
    pub(crate) fn then(self, offset: usize, next: Self) -> Self {
        let first = self.first.or(next.first.map(|index| index + offset));
        Self { nan: self.nan + next.nan, infinite: self.infinite + next.infinite, first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up() {
        let values = [1.0, f32::NEG_INFINITY, 2.0, f32::NAN, f32::NAN];
        for cut in 0..=values.len() {
            let joined = Tally::of(&values[..cut]).then(cut, Tally::of(&values[cut..]));
            assert_eq!(joined, Tally { nan: 2, infinite: 1, first: Some(1) });
        }
        assert_eq!(Tally::of(&[0.0, -f32::MAX, f32::MIN_POSITIVE]), Tally::default());
    }
}
