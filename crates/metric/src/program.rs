//! Programs for a stack, which are judged by what they do and not by how they are written.
//!
//! A program is a row of words. A number, or `x` or `y`, is put on the stack; an operation takes what it needs from the top
//! and puts its result back:
//!
//! | word | stack before | after |
//! |---|---|---|
//! | `+` `-` `*` `max` `min` | a b | a + b, a − b, a · b, … |
//! | `neg` `abs` | a | −a, |a| |
//! | `dup` | a | a a |
//! | `swap` | a b | b a |
//!
//! At its end one number must be left. Two programs are taken for the same if they leave the same number for every pair of
//! [`INPUTS`]: polynomials of the degree that four steps can make differ somewhere among so many.
//!
//! ```
//! use qkv_metric::Program;
//! let program: Program = "x 3 + 2 *".parse()?;
//! assert_eq!(program.run(4, 0), Some(14));
//! assert!(program.does_what(&"3 x + dup +".parse()?));
//! assert!("x +".parse::<Program>()?.run(4, 0).is_none()); // nothing to add to
//! # Ok::<(), qkv_base::Error>(())
//! ```

use qkv_base::{Error, Result};
use std::str::FromStr;

/// What programs are tried on.
pub const INPUTS: [i64; 9] = [-17, -6, -1, 0, 1, 2, 5, 13, 40];

/// One word of a program.
#[derive(Clone, Copy, Debug)]
enum Word {
    Number(i64),
    X,
    Y,
    Two(fn(i64, i64) -> Option<i64>),
    One(fn(i64) -> Option<i64>),
    Dup,
    Swap,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program(Vec<Word>);

impl FromStr for Program {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Result<Vec<Word>> = text.split_whitespace().map(word).collect();
        match words {
            Ok(words) if words.is_empty() => Err(Error::new("program", "there is no word in it", "write x 3 +")),
            words => words.map(Program),
        }
    }
}

fn word(text: &str) -> Result<Word> {
    Ok(match text {
        "x" => Word::X,
        "y" => Word::Y,
        "+" => Word::Two(i64::checked_add),
        "-" => Word::Two(i64::checked_sub),
        "*" => Word::Two(i64::checked_mul),
        "max" => Word::Two(|a, b| Some(a.max(b))),
        "min" => Word::Two(|a, b| Some(a.min(b))),
        "neg" => Word::One(i64::checked_neg),
        "abs" => Word::One(i64::checked_abs),
        "dup" => Word::Dup,
        "swap" => Word::Swap,
        number => Word::Number(number.parse().map_err(|_| {
            let hint = "there are numbers, x, y, + - * max min neg abs dup swap";
            Error::new("program", format!("`{number}` is no word of the language"), hint)
        })?),
    })
}

impl Program {
    /// Whether it reads a variable.
    pub fn reads(&self) -> bool {
        self.0.iter().any(|word| matches!(word, Word::X | Word::Y))
    }

    /// The one number that it leaves; `None` where it fails, overflows, or leaves another count of numbers.
    pub fn run(&self, x: i64, y: i64) -> Option<i64> {
        let mut stack: Vec<i64> = vec![];
        for word in &self.0 {
            let top = match *word {
                Word::Number(n) => n,
                Word::X => x,
                Word::Y => y,
                Word::Dup => *stack.last()?,
                Word::One(of) => of(stack.pop()?)?,
                Word::Two(of) => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    of(a, b)?
                }
                Word::Swap => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    stack.push(b);
                    a
                }
            };
            stack.push(top);
        }
        match stack[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Whether it leaves what `other` leaves on every input; a program that fails does nothing that is wanted.
    pub fn does_what(&self, other: &Program) -> bool {
        let mut inputs = INPUTS.iter().flat_map(|&x| INPUTS.iter().map(move |&y| (x, y)));
        inputs.all(|(x, y)| self.run(x, y).is_some_and(|left| other.run(x, y) == Some(left)))
    }
}

/// The share of programs that do what they should, in percent; `None` where what is expected are no programs.
pub fn programs_that_run(said: &[&str], expected: &[&str]) -> Option<f64> {
    let wanted: Vec<Program> = expected.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
    if wanted.is_empty() || !wanted.iter().all(Program::reads) {
        return None;
    }
    let right =
        said.iter().zip(&wanted).filter(|(said, wanted)| said.parse().is_ok_and(|p: Program| p.does_what(wanted)));
    Some(100.0 * right.count() as f64 / wanted.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> Program {
        text.parse().unwrap()
    }

    #[test]
    fn every_word_does_what_the_table_says() {
        for (text, left) in [
            ("x y +", Some(9)),
            ("x y -", Some(5)),
            ("x y swap -", Some(-5)),
            ("x y *", Some(14)),
            ("x y max", Some(7)),
            ("x y min", Some(2)),
            ("x neg", Some(-7)),
            ("x neg abs", Some(7)),
            ("x dup *", Some(49)),
            ("-12", Some(-12)),
            ("x y", None),                     // two numbers are left
            ("swap", None),                    // nothing to swap
            ("9223372036854775807 1 +", None), // does not fit
        ] {
            assert_eq!(program(text).run(7, 2), left, "{text}");
        }
        let error = "x 3 plus".parse::<Program>().unwrap_err();
        assert_eq!(error.to_string(), "program: `plus` is no word of the language");
        assert!("".parse::<Program>().is_err());
    }

    #[test]
    fn programs_are_judged_by_what_they_leave() {
        assert!(program("x 2 *").does_what(&program("x x +")));
        assert!(!program("x 2 *").does_what(&program("x dup *"))); // equal at 0 and 2 only
        assert!(!program("x +").does_what(&program("x +"))); // both fail
        assert!(!program("x abs").does_what(&program("x")));
        let share = programs_that_run(&["x x +", "y 1 -", "x 1"], &["x 2 *", "y 2 -", "x 1 +"]);
        assert!((share.unwrap() - 100.0 / 3.0).abs() < 1e-9);
        // Numbers and sentences are no programs.
        assert_eq!(programs_that_run(&["12"], &["12"]), None);
        assert_eq!(programs_that_run(&["ciao"], &["ciao"]), None);
        assert_eq!(programs_that_run(&[], &[]), None);
    }
}
