//! Text with tags within tags: `<note>the old <b>dog</b> sleeps</note>`. Whoever goes on with such a text must remember
//! which tags are open, and in which order: the innermost is closed first.
//!
//! Training shows up to [`DEEPEST`] tags open at once; the compositional part shows more.

use super::draw::Draw;
use crate::Example;

/// The most open tags that training shows.
const DEEPEST: usize = 4;

const TAGS: [&str; 10] = ["b", "i", "q", "list", "item", "note", "head", "link", "table", "cell"];

const WORDS: [&str; 24] = [
    "the", "old", "dog", "sleeps", "a", "red", "bird", "sings", "in", "my", "garden", "while", "rain", "falls", "on",
    "every", "roof", "and", "nobody", "hears", "how", "time", "goes", "by",
];

pub(super) fn example(draw: &mut Draw) -> Example {
    let deep = draw.chance(10);
    draw.novel = deep;
    let depth = if deep { draw.between(DEEPEST + 1, DEEPEST + 2) } else { draw.between(1, DEEPEST) };
    let mut text = String::new();
    element(draw, &mut text, depth);
    Example::Text(text)
}

/// One tag with what is in it; one of its parts is as deep as is wanted, so that the depth is what was drawn.
fn element(draw: &mut Draw, text: &mut String, depth: usize) {
    let tag = draw.pick(&TAGS);
    text.push_str(&format!("<{tag}>"));
    let parts = draw.between(1, 3);
    let deep = draw.below(parts);
    for part in 0..parts {
        match (depth, part == deep) {
            (2.., true) => element(draw, text, depth - 1),
            (2.., false) if draw.chance(20) => element(draw, text, 1),
            _ => words(draw, text),
        }
    }
    text.push_str(&format!("</{tag}>"));
}

fn words(draw: &mut Draw, text: &mut String) {
    let n = draw.between(1, 3);
    let words: Vec<&str> = (0..n).map(|_| draw.pick(&WORDS)).collect();
    if text.ends_with(|c: char| c.is_ascii_lowercase()) {
        text.push(' ');
    }
    text.push_str(&words.join(" "));
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    /// The most tags open at once, if every tag is closed in its order.
    fn depth(text: &str) -> Option<usize> {
        let (mut open, mut deepest) = (vec![], 0);
        for tag in text.split('<').skip(1) {
            let (name, _) = tag.split_once('>')?;
            match name.strip_prefix('/') {
                Some(closed) if open.pop() == Some(closed) => {}
                Some(_) => return None,
                None => open.push(name),
            }
            deepest = deepest.max(open.len());
        }
        open.is_empty().then_some(deepest)
    }

    #[test]
    fn every_tag_is_closed_and_only_the_compositional_part_is_deep() {
        for split in Split::ALL {
            for example in Corpus::Markup.examples(2, split).take(500) {
                let text = example.text().into_owned();
                let depth = depth(&text).unwrap_or_else(|| panic!("not closed: {text}"));
                assert_eq!(depth > DEEPEST, split == Split::Compositional, "{text}");
                assert!(TAGS.iter().any(|tag| text.starts_with(&format!("<{tag}>"))), "{text}");
            }
        }
    }
}
