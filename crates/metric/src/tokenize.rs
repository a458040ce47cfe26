//! How BLEU tells words apart: sacreBLEU's tokenizers, which are the rules of NIST's mteval scripts.

use std::{borrow::Cow, fmt, str::FromStr, sync::LazyLock};

use qkv_base::{Error, Result};
use regex::Regex;

use crate::bleu::unknown;

/// How words are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokenize {
    /// mteval-v13a's rules, for European scripts
    V13a,
    /// at spaces alone
    None,
    /// every character is a word
    Char,
    /// mteval-v14's rules: any punctuation and symbol of Unicode
    Intl,
}

impl FromStr for Tokenize {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "13a" => Ok(Self::V13a),
            "none" => Ok(Self::None),
            "char" => Ok(Self::Char),
            "intl" => Ok(Self::Intl),
            _ => Err(unknown("tokenizer", name, &["13a", "none", "char", "intl"])),
        }
    }
}

impl fmt::Display for Tokenize {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::V13a => "13a",
            Self::None => "none",
            Self::Char => "char",
            Self::Intl => "intl",
        })
    }
}

impl Tokenize {
    /// The text with spaces between its words.
    pub(crate) fn apply(self, text: &str) -> String {
        match self {
            Self::V13a => rewrite(&WESTERN, format!(" {} ", unescape(text))),
            Self::None => text.to_string(),
            Self::Char => text.chars().flat_map(|c| [c, ' ']).collect(),
            Self::Intl => rewrite(&INTERNATIONAL, text.to_string()),
        }
    }
}

/// A pattern and what replaces it.
type Rule = (Regex, &'static str);

fn rules(rules: &[(&str, &'static str)]) -> Vec<Rule> {
    rules.iter().map(|(pattern, to)| (Regex::new(pattern).expect("a pattern of our own"), *to)).collect()
}

/// Punctuation stands alone; period and comma do unless between digits; so does a dash after a digit.
pub(crate) static WESTERN: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    rules(&[
        (r"([{-~\[-` -&(-+:-@/])", " $1 "),
        (r"([^0-9])([.,])", "$1 $2 "),
        (r"([.,])([^0-9])", " $1 $2"),
        (r"([0-9])(-)", "$1 $2 "),
    ])
});

static INTERNATIONAL: LazyLock<Vec<Rule>> =
    LazyLock::new(|| rules(&[(r"(\P{N})(\p{P})", "$1 $2 "), (r"(\p{P})(\P{N})", " $1 $2"), (r"(\p{S})", " $1 ")]));

/// The rules one after the other: each sees what the one before wrote.
pub(crate) fn rewrite(rules: &[Rule], text: String) -> String {
    rules.iter().fold(text, |text, (pattern, to)| match pattern.replace_all(&text, *to) {
        Cow::Borrowed(_) => text,
        Cow::Owned(changed) => changed,
    })
}

/// mteval's first step: line ends and the four escapes of SGML.
fn unescape(text: &str) -> String {
    let text = text.replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split;

    #[test]
    fn tokenizers_split_as_told() {
        let words = |t: Tokenize, text: &str| split(&t.apply(text)).map(str::to_string).collect::<Vec<_>>();
        assert_eq!(words(Tokenize::V13a, "1,000.5-x (it's)."), ["1,000.5", "-", "x", "(", "it's", ")", "."]);
        assert_eq!(words(Tokenize::V13a, "&quot;&amp;lt;"), ["\"", "<"]);
        assert_eq!(words(Tokenize::Intl, "«हाँ।» 5€"), ["«", "हाँ", "।", "»", "5", "€"]);
        assert_eq!(words(Tokenize::Char, "ab c"), ["a", "b", "c"]);
    }

    #[test]
    fn names_round_trip() {
        for name in ["13a", "none", "char", "intl"] {
            assert_eq!(name.parse::<Tokenize>().unwrap().to_string(), name);
        }
        assert!("intel".parse::<Tokenize>().unwrap_err().hint.contains("`intl`"));
    }
}
