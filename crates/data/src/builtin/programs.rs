//! Tiny programs: "take x, add 3, then double it" is `x 3 + 2 *`. A program is a row of words for a stack: a number or a
//! variable is put on it, an operation takes what it needs and puts its result back. Numbers are of one or two digits.
//!
//! What is written is judged by running it (`qkv_metric::Program`), so `3 x + dup +` is as right. Held out: which operation
//! stands with which number.

use super::draw::Draw;
use crate::Example;

/// How a program begins: what is on the stack.
const STARTS: [(&str, &str); 10] = [
    ("take x", "x"),
    ("take y", "y"),
    ("start with x", "x"),
    ("start with y", "y"),
    ("add x and y", "x y +"),
    ("multiply x by y", "x y *"),
    ("subtract y from x", "x y -"),
    ("subtract x from y", "y x -"),
    ("take the larger of x and y", "x y max"),
    ("take the smaller of x and y", "x y min"),
];

/// What is done to what is there: `#` is a number, or x or y.
const STEPS: [(&str, &str); 13] = [
    ("add #", "# +"),
    ("increase it by #", "# +"),
    ("subtract #", "# -"),
    ("take away #", "# -"),
    ("multiply it by #", "# *"),
    ("subtract it from #", "# swap -"),
    ("let it be at least #", "# max"),
    ("let it be at most #", "# min"),
    ("double it", "2 *"),
    ("square it", "dup *"),
    ("triple it", "3 *"),
    ("change its sign", "neg"),
    ("take its absolute value", "abs"),
];

/// How steps follow each other.
const LINKS: [&str; 3] = [", then ", " and ", ", and after that "];

pub(super) fn example(draw: &mut Draw) -> Example {
    let (said, code) = draw.pick(&STARTS);
    let (mut said, mut code) = (said.to_owned(), code.to_owned());
    for _ in 0..draw.weighted(&[(2, 1), (4, 2), (4, 3), (2, 4)]) {
        let (step, run) = draw.pick(&STEPS);
        let operand = match draw.below(6) {
            0 => "x".to_owned(),
            1 => "y".to_owned(),
            _ => draw.between(1, 20).to_string(),
        };
        if step.contains('#') {
            draw.join(step, &operand);
        }
        said = format!("{said}{}{}", draw.pick(&LINKS), step.replace('#', &operand));
        code = format!("{code} {}", run.replace('#', &operand));
    }
    Example::Pair { source: said, target: code }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    /// Both sides are read again: the sentence by its words, step by step.
    #[test]
    fn a_sentence_and_its_program_say_the_same() {
        for split in Split::ALL {
            for example in Corpus::Programs.examples(2, split).take(300) {
                let Example::Pair { source, target } = example else { panic!() };
                let mut rest = source.as_str();
                let mut code: Vec<String> = vec![];
                while !rest.is_empty() {
                    let end = LINKS.iter().filter_map(|l| rest.find(l).map(|at| (at, l.len()))).collect::<Vec<_>>();
                    // "add x and y" holds the word that links: the longest start wins.
                    let start =
                        STARTS.iter().filter(|s| code.is_empty() && rest.starts_with(s.0)).max_by_key(|s| s.0.len());
                    let (part, skip) = match (start, end.iter().min()) {
                        (Some(start), _) => (
                            start.0,
                            LINKS.iter().find(|l| rest[start.0.len()..].starts_with(**l)).map_or(0, |l| l.len()),
                        ),
                        (None, Some(&(at, length))) => (&rest[..at], length),
                        (None, None) => (rest, 0),
                    };
                    code.push(match start {
                        Some(start) => start.1.to_owned(),
                        None => read(part),
                    });
                    rest = &rest[part.len() + skip..];
                }
                assert_eq!(code.join(" "), target, "{source}");
            }
        }
    }

    fn read(part: &str) -> String {
        STEPS
            .iter()
            .find_map(|(step, run)| match step.split_once('#') {
                None => (*step == part).then(|| run.to_string()),
                Some((before, _)) => {
                    part.strip_prefix(before).filter(|n| !n.contains(' ')).map(|n| run.replace('#', n))
                }
            })
            .unwrap_or_else(|| panic!("no step says {part:?}"))
    }
}
