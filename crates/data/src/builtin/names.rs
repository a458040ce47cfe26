//! First names by a small grammar of syllables: an opening, one to three cores with a bridge between them, an ending. Nobody is
//! called by most of them, but they sound as if somebody could be; the combinations held out are of first and last letters.
//! What comes next hangs on two or three letters before, and the ending on the first letters, which a short window does not see.

use super::draw::Draw;
use crate::Example;

const OPENINGS: [&str; 26] = [
    "a", "be", "ca", "da", "e", "fa", "ga", "ha", "i", "ja", "ka", "le", "ma", "na", "o", "pa", "ro", "sa", "ta", "u",
    "va", "wi", "ya", "za", "chri", "ste",
];
const BRIDGES: [&str; 18] =
    ["l", "n", "r", "m", "s", "ll", "nn", "d", "v", "k", "th", "rl", "nd", "ss", "br", "tr", "ph", "z"];
const CORES: [&str; 12] = ["a", "e", "i", "o", "u", "ia", "ie", "ae", "ea", "ei", "y", "au"];
/// After an opening with a soft vowel, and after the others.
const ENDINGS: [[&str; 8]; 2] =
    [["n", "lyn", "tte", "ne", "sha", "lle", "h", "ya"], ["s", "ton", "rd", "n", "ric", "us", "mir", "d"]];

pub(super) fn example(draw: &mut Draw) -> Example {
    let opening = draw.pick(&OPENINGS);
    let mut name = opening.to_string();
    for _ in 0..draw.weighted(&[(4, 1), (4, 2), (1, 3)]) {
        name += draw.pick(&BRIDGES);
        name += draw.pick(&CORES);
    }
    let soft = opening.ends_with(['a', 'e', 'i']);
    if draw.chance(75) {
        name += draw.pick(&ENDINGS[usize::from(!soft)]);
    }
    // Of the name itself: syllables can be cut in more than one way.
    draw.join(&name[..2], &name[name.len() - 2..]);
    Example::Text(name)
}
