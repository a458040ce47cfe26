//! SentencePiece's normalisation table: a double-array trie of rewritten characters, followed by what they become.
//!
//! Layout: `u32` bytes of trie, the trie as `u32` units, then NUL-ended replacement strings. A unit carries a label
//! (8 bits), whether a value hangs below it (bit 8) and the jump to its children; the value is a place in the strings.
//! The engine follows jumps without looking, so every jump is checked here to stay inside.

use qkv_base::{Error, Result};

const HINT: &str = "the normaliser of this tokenizer is damaged; take the file again from where it came";

/// Refuses a table whose jumps or replacements lead outside of it.
pub(crate) fn check(place: &str, map: &[u8]) -> Result<()> {
    let bad = |what: String| Err(Error::new(place, what, HINT));
    let Some((head, rest)) = map.split_first_chunk::<4>() else {
        return bad(format!("the character map has {} bytes", map.len()));
    };
    let size = u32::from_le_bytes(*head) as usize;
    if size > rest.len() || !size.is_multiple_of(4) || size == 0 {
        return bad(format!("the character map is cut: its table wants {size} bytes, {} are there", rest.len()));
    }
    let (trie, strings) = rest.split_at(size);
    let Ok(strings) = std::str::from_utf8(strings) else {
        return bad("the character map rewrites to what is not UTF-8".into());
    };
    let units: Vec<u32> = trie.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap_or_default())).collect();
    for (at, unit) in units.iter().enumerate() {
        if unit >> 31 == 1 {
            continue; // a value, not a node: never jumped from
        }
        let child = at ^ (((unit >> 10) as usize) << ((unit & (1 << 9)) >> 6));
        // A step to a child is the jump xor one byte: the whole block of 256 must be there.
        if child | 0xFF >= units.len() {
            return bad(format!("the character map jumps from {at} to {child}, beyond its {} units", units.len()));
        }
        let value = (units[child] & 0x7FFF_FFFF) as usize;
        if (unit >> 8) & 1 == 1 && !strings.is_char_boundary(value) {
            return bad(format!("the character map names the replacement at {value}, which is not there"));
        }
    }
    Ok(())
}

/// The most bytes that one character can become.
pub(crate) fn longest(map: &[u8]) -> usize {
    let size = map.first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head) as usize);
    let strings = map.get(4..).and_then(|rest| rest.get(size..)).unwrap_or_default();
    strings.split(|b| *b == 0).map(<[u8]>::len).max().unwrap_or(0)
}

/// Base64 with the usual alphabet.
pub(crate) fn from_base64(place: &str, text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let Some(six) = ALPHABET.iter().position(|a| *a == byte) else {
            return Err(Error::new(place, "the character map is not base64", HINT));
        };
        bits = bits << 6 | six as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Ok(out)
}

/// The inverse of [`from_base64`].
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, i| word << 8 | u32::from(chunk.get(i).copied().unwrap_or(0)));
        for i in 0..4 {
            let six = (word >> (18 - 6 * i)) & 63;
            out.push(if i <= chunk.len() { ALPHABET[six as usize] as char } else { '=' });
        }
    }
    out
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_known_answers() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(to_base64(plain.as_bytes()), coded);
            assert_eq!(from_base64("t", coded).unwrap(), plain.as_bytes());
        }
        assert!(from_base64("t", "a*").is_err());
    }

    #[test]
    fn jumps_and_replacements_stay_inside() {
        let table = |units: &[u32], strings: &str| {
            let mut map = (units.len() as u32 * 4).to_le_bytes().to_vec();
            map.extend(units.iter().flat_map(|u| u.to_le_bytes()));
            map.extend(strings.bytes());
            check("t", &map)
        };
        let mut units = vec![0u32; 256];
        assert!(table(&units, "").is_ok());
        units[3] = 300 << 10;
        assert!(table(&units, "").unwrap_err().what.contains("jumps from 3 to 303"));
        units[3] = 1 << 8 | 7 << 10; // a value at 3 ^ 7 = 4
        units[4] = 1 << 31 | 9;
        assert!(table(&units, "à").unwrap_err().what.contains("replacement at 9"));
        units[4] = 1 << 31 | 1; // inside of à
        assert!(table(&units, "à").is_err());
        units[4] = 1 << 31;
        assert!(table(&units, "à").is_ok());
    }
}
