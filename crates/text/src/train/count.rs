//! Words and how often each comes, counted on all threads and then sorted: the order of threads leaves no trace.

use super::Progress;
use super::preset::Plan;
use qkv_base::Result;
use rayon::prelude::*;
use regex::Regex;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Text held at a time.
const BATCH: usize = 8 << 20;
/// Lines of one task.
const TASK: usize = 2048;

/// Word → count, sorted by word; and the number of lines.
pub(super) fn count(
    lines: impl Iterator<Item = String>,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<(String, u64)>, u64)> {
    let mut total: FxHashMap<String, u64> = FxHashMap::default();
    let (mut batch, mut held, mut read) = (Vec::new(), 0, (0u64, 0u64));
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        held += line.len() + 1;
        batch.push(line);
        if held >= BATCH || lines.peek().is_none() {
            read = (read.0 + batch.len() as u64, read.1 + held as u64);
            for part in batch.par_chunks(TASK).map(|lines| count_some(lines, plan)).collect::<Result<Vec<_>>>()? {
                for (word, n) in part {
                    *total.entry(word).or_default() += n;
                }
            }
            batch.clear();
            held = 0;
            progress(Progress::Reading { lines: read.0, bytes: read.1 });
        }
    }
    let mut words: Vec<(String, u64)> = total.into_iter().collect();
    words.par_sort_unstable();
    Ok((words, read.0))
}

fn count_some(lines: &[String], plan: &Plan) -> Result<FxHashMap<String, u64>> {
    let mut words: FxHashMap<String, u64> = FxHashMap::default();
    for line in lines {
        plan.words(line, &mut |word| match words.get_mut(word) {
            Some(n) => *n += 1,
            None => {
                words.insert(word.to_string(), 1);
            }
        })?;
    }
    Ok(words)
}

/// GPT-2's words without its look-ahead, which the fast engine does not have.
static WORDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+").ok());

/// GPT-2's words: contractions, letters, digits, other signs, each with the space before it; spaces that are left.
///
/// The rule `\s+(?!\S)` is done by hand: a run of spaces before a word leaves its last one to the word.
///
/// ```
/// let mut words = Vec::new();
/// qkv_text::gpt2_words("I'll see  you", &mut |w| words.push(w.to_string()));
/// assert_eq!(words, ["I", "'ll", " see", " ", " you"]);
/// ```
pub fn gpt2_words(text: &str, take: &mut dyn FnMut(&str)) {
    let Some(words) = WORDS.as_ref() else { return };
    let mut at = 0;
    while let Some(found) = words.find_at(text, at) {
        let mut word = found.as_str();
        if found.end() < text.len() && word.chars().all(char::is_whitespace) {
            let last = word.chars().next_back().map_or(0, char::len_utf8);
            if word.len() > last {
                word = &word[..word.len() - last];
            }
        }
        take(word);
        at = found.start() + word.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    fn slow(text: &str) -> Vec<String> {
        let mut pre = PreTokenizedString::from(text);
        ByteLevel::new(false, true, true).pre_tokenize(&mut pre).unwrap();
        let splits = pre.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(_, (from, to), _)| text[from..to].to_string()).collect()
    }

    proptest! {
        /// The twin: our splitter and the engine's.
        #[test]
        fn words_are_those_of_the_engine(text in "([ \t\n]|[a-c]|'s|'ll|[0-9]|à|घ|ि|😀|\\.|\u{a0}|\\PC){0,24}") {
            let mut fast = Vec::new();
            gpt2_words(&text, &mut |w| fast.push(w.to_string()));
            prop_assert_eq!(fast, slow(&text));
        }
    }
}
