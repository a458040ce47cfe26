//! Damages that know a little of what they damage; the same case comes from the same key.

use qkv_base::Key;
use serde_json::Value;

/// Draws numbers for one case.
pub(crate) struct Draw {
    pub(crate) key: Key,
    pub(crate) at: u64,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        self.key.below(self.at, n.max(1))
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let i = self.below(all.len());
        &all[i]
    }
}

/// Numbers that programs get wrong, as bytes and as text.
const EDGES: [u64; 12] = [0, 1, 2, 0x7f, 0xff, 0xffff, 1 << 24, 1 << 31, 0xffff_ffff, 1 << 40, 1 << 63, u64::MAX];
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "9223372036854775807",
    "18446744073709551616",
    "0.1",
    "\"\\u0000\\u001b\"",
    "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
];

/// A JSON value with one of its parts replaced.
fn other_json(value: &mut Value, draw: &mut Draw) {
    let strange = |draw: &mut Draw| serde_json::from_str(draw.one::<&str>(&WORDS)).unwrap_or(Value::Null);
    match value {
        Value::Object(map) if !map.is_empty() && draw.below(8) > 0 => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = draw.one(&keys).clone();
            match draw.below(10) {
                0 => drop(map.remove(&key)),
                1 => {
                    let twin = map[&key].clone();
                    map.insert(draw.one(&keys).clone(), twin);
                }
                _ => other_json(&mut map[&key], draw),
            }
        }
        Value::Array(list) if !list.is_empty() && draw.below(8) > 0 => {
            let at = draw.below(list.len());
            match draw.below(10) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.truncate(at),
                _ => other_json(&mut list[at], draw),
            }
        }
        Value::Number(_) => *value = strange(draw),
        Value::String(text) if draw.below(2) == 0 => {
            let at = (0..=text.len()).rev().find(|i| text.is_char_boundary(*i) && *i <= text.len() / 2).unwrap_or(0);
            text.insert_str(at, draw.one::<&str>(&["\u{0}", "\u{1b}[2J", "../../", "é", "{{", "%}", "\n"]));
        }
        other => *other = strange(draw),
    }
}

/// A seed with one to four damages.
pub(crate) fn damaged(seeds: &[Vec<u8>], draw: &mut Draw) -> Vec<u8> {
    let mut out = draw.one(seeds).clone();
    if let (0..=3, Ok(mut value)) = (draw.below(8), serde_json::from_slice::<Value>(&out)) {
        (0..=draw.below(3)).for_each(|_| other_json(&mut value, draw));
        return value.to_string().into_bytes();
    }
    for _ in 0..=draw.below(4) {
        let length = out.len();
        if length == 0 {
            break;
        }
        let at = draw.below(length);
        // The head of a file decides most; it is hit more often than its share.
        let at = if draw.below(2) == 0 { at.min(draw.below(256)) } else { at };
        match draw.below(9) {
            0 => out[at] = draw.below(256) as u8,
            1 => out[at] ^= 1 << draw.below(8),
            2 => out.truncate(at),
            3 => drop(out.drain(at..(at + 1 + draw.below(16)).min(length))),
            4 => {
                let piece = out[at..(at + 1 + draw.below(64)).min(length)].to_vec();
                let to = draw.below(length);
                drop(out.splice(to..to, piece));
            }
            5 => {
                let (edge, width) = (draw.one(&EDGES).to_le_bytes(), *draw.one(&[1, 2, 4, 8]));
                out[at..].iter_mut().zip(&edge[..width]).for_each(|(b, n)| *b = *n);
            }
            6 => {
                // A number in a text becomes another.
                let Some(start) = out[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { continue };
                let end = out[start..].iter().position(|b| !b.is_ascii_digit()).map_or(length, |n| start + n);
                drop(out.splice(start..end, draw.one(&WORDS).bytes()));
            }
            7 => {
                let other = draw.one(seeds);
                let from = draw.below(other.len());
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
            _ => {
                let word =
                    draw.one(&["\u{feff}", "\r\n", "\"", "\t", ",", "\\", "{", "[", "\0", "{%", "}}", "é", "''"]);
                drop(out.splice(at..at, word.bytes()));
            }
        }
    }
    out.truncate(4 << 20);
    out
}
