//! What loading found: which tensors were used, which were missing, misshapen, left over or known not to matter. All of
//! it at once, each with the nearest name, so that one look tells what is wrong with a file.

use crate::Finiteness;
use qkv_base::{Error, Result};
use std::fmt::{self, Display};

/// A tensor that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// the file does not have it
    Missing {
        /// its name
        name: String,
        /// the most similar name among those that nobody wanted
        nearest: Option<String>,
    },
    /// it has another shape than the network
    Misshapen {
        /// its name
        name: String,
        /// what the network needs
        want: Vec<usize>,
        /// what the file has
        got: Vec<usize>,
    },
}

impl Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Missing { name, nearest: None } => write!(f, "missing: {name}"),
            Self::Missing { name, nearest: Some(near) } => write!(f, "missing: {name} (nearest: {near})"),
            Self::Misshapen { name, want, got } => write!(f, "misshapen: {name} is {got:?}, but must be {want:?}"),
        }
    }
}

/// The account of one load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// how many tensors were used
    pub loaded: usize,
    /// how many numbers they hold
    pub elements: u64,
    /// tensors that are known not to matter, and why
    pub ignored: Vec<(String, &'static str)>,
    /// tensors that nobody wanted
    pub unused: Vec<String>,
    /// parameters that the file does not have and that start afresh, because the caller allowed it
    pub fresh: Vec<String>,
    /// what is wrong
    pub troubles: Vec<Trouble>,
    /// options of the configuration that have no effect here, and values that are not finite
    pub warnings: Vec<String>,
    /// the values that are not finite
    pub finite: Finiteness,
}

impl LoadReport {
    /// Fails with the whole list if anything is missing or misshapen.
    pub fn strict(self, place: &str) -> Result<Self> {
        if self.troubles.is_empty() {
            return Ok(self);
        }
        let n = self.troubles.len();
        let mut what = format!("{n} tensor{} not as the configuration says", if n == 1 { " is" } else { "s are" });
        for trouble in &self.troubles {
            what += &format!("\n  {trouble}");
        }
        for name in &self.unused {
            what += &format!("\n  unused: {name}");
        }
        Err(Error::new(place, what, "do config.json and the weights belong together?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_told_at_once() {
        let missing = Trouble::Missing { name: "a.weight".into(), nearest: Some("b.weight".into()) };
        let misshapen = Trouble::Misshapen { name: "c".into(), want: vec![2, 3], got: vec![3, 2] };
        let report =
            LoadReport { troubles: vec![missing, misshapen], unused: vec!["b.weight".into()], ..LoadReport::default() };
        assert_eq!(
            report.strict("model.safetensors").unwrap_err().to_string(),
            "model.safetensors: 2 tensors are not as the configuration says\n  missing: a.weight (nearest: b.weight)\n  \
             misshapen: c is [3, 2], but must be [2, 3]\n  unused: b.weight"
        );
        assert!(LoadReport::default().strict("x").is_ok());
    }
}
