//! Cutting a text into words, in the two ways that the field does it.
//!
//! Bags count words as scikit-learn's `TfidfVectorizer` does: lower case, runs of letters, digits and `_`, two or more of
//! them. Word2Vec reads running text: every word counts, *don't* is one.

/// The words of a text as a bag counts them.
///
/// ```
/// let words: Vec<String> = qkv_vectors::bag_words("A don't-care film, 10/10!").collect();
/// assert_eq!(words, ["don", "care", "film", "10", "10"]);
/// ```
///
/// A vowel sign of an Indic script is part of its word here; scikit-learn's pattern cuts at it.
pub fn bag_words(text: &str) -> impl Iterator<Item = String> {
    let text = text.to_lowercase();
    let runs = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let long = runs.filter(|run| run.chars().nth(1).is_some()).map(str::to_string);
    long.collect::<Vec<_>>().into_iter()
}

/// The words of running text, apostrophes inside them kept.
///
/// ```
/// let words: Vec<String> = qkv_vectors::running_words("'I don't,' said A. O’Hara").collect();
/// assert_eq!(words, ["i", "don't", "said", "a", "o’hara"]);
/// ```
pub fn running_words(text: &str) -> impl Iterator<Item = String> {
    let apostrophe = |c: char| c == '\'' || c == '’';
    let text = text.to_lowercase();
    let runs = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || apostrophe(c)));
    let words = runs.map(|run| run.trim_matches(apostrophe)).filter(|run| !run.is_empty()).map(str::to_string);
    words.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_of_nothing() {
        for text in ["", " ", "…!?", "'' ’"] {
            assert_eq!(bag_words(text).count(), 0, "{text:?}");
            assert_eq!(running_words(text).count(), 0, "{text:?}");
        }
    }

    #[test]
    fn other_scripts_have_words_too() {
        assert_eq!(bag_words("कवि को कौन देखता है").collect::<Vec<_>>(), ["कवि", "को", "कौन", "देखता", "है"]);
        assert_eq!(running_words("È così").collect::<Vec<_>>(), ["è", "così"]);
    }
}
