//! Text as the reference tools see it: Python's whitespace, and counts of n-grams.

use std::{collections::HashMap, hash::Hash};

/// What Python's `str.split()` calls a space: Unicode's White_Space and the four separators of ASCII.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The words between spaces.
pub(crate) fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// The text without the spaces at its end.
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// How often each run of `n` tokens occurs.
pub(crate) fn ngrams<T: Hash + Eq>(tokens: &[T], n: usize) -> HashMap<&[T], usize> {
    let mut counts = HashMap::new();
    if n > 0 {
        tokens.windows(n).for_each(|window| *counts.entry(window).or_insert(0) += 1);
    }
    counts
}

/// How many of `a` are matched in `b`, each n-gram at most as often as it occurs in both.
pub(crate) fn overlap<T: Hash + Eq>(a: &HashMap<T, usize>, b: &HashMap<T, usize>) -> usize {
    a.iter().map(|(gram, count)| *count.min(b.get(gram).unwrap_or(&0))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_pythons() {
        let words: Vec<&str> = split("\u{a0}a\u{1f}b\u{3000}c\u{200b}d \n").collect();
        assert_eq!(words, ["a", "b", "c\u{200b}d"]); // the zero-width space is not a space
        assert_eq!(trim_end("x \u{1c}\n"), "x");
    }

    #[test]
    fn ngrams_are_counted() {
        let counts = ngrams(&["a", "b", "a", "b"], 2);
        assert_eq!(counts[&["a", "b"][..]], 2);
        assert_eq!(counts.len(), 2);
        assert!(ngrams(&["a"], 2).is_empty() && ngrams(&["a"], 0).is_empty());
        assert_eq!(overlap(&counts, &ngrams(&["a", "b"], 2)), 1);
    }
}
