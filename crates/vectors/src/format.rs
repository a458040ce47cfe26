//! The two files that word2vec writes and gensim reads, both ways.
//!
//! ```text
//! text     "V width\n"  then V lines  "word 0.1 -0.2 …"
//! binary   "V width\n"  then V times  word, a blank, width numbers (f32, little end first), and perhaps a line end
//! ```
//! What a file says is checked: how many words, their width, that every number is one, that no word stands twice.

use crate::word_vectors::WordVectors;
use qkv_base::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorFormat {
    /// readable
    Text,
    /// a quarter of the size
    Binary,
}

impl VectorFormat {
    /// By the name of the file: `.bin` is binary.
    pub fn of(path: &Path) -> Self {
        match path.extension().is_some_and(|e| e.eq_ignore_ascii_case("bin")) {
            true => Self::Binary,
            false => Self::Text,
        }
    }
}

/// Writes vectors. A word that holds a blank has no place in either format.
pub fn write_vectors(vectors: &WordVectors, path: &Path, format: VectorFormat) -> Result<()> {
    let place = path.display().to_string();
    if let Some(word) = vectors.words().iter().find(|w| w.is_empty() || w.contains(char::is_whitespace)) {
        let what = format!("the word `{word}` is empty or holds a blank, which ends a word in this format");
        return Err(Error::new(place, what, "take it out"));
    }
    let mut out: Vec<u8> = vec![];
    let write = |out: &mut Vec<u8>| -> std::io::Result<()> {
        writeln!(out, "{} {}", vectors.words().len(), vectors.width())?;
        for (i, word) in vectors.words().iter().enumerate() {
            out.write_all(word.as_bytes())?;
            match format {
                // The shortest digits that give the same f32 back.
                VectorFormat::Text => vectors.vector(i).iter().try_for_each(|v| write!(out, " {v}"))?,
                VectorFormat::Binary => {
                    out.write_all(b" ")?;
                    vectors.vector(i).iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?;
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    write(&mut out).map_err(|e| Error::internal(place, e.to_string()))?;
    qkv_weights::write_atomically(path, &out)
}

/// Reads vectors of either format: what stands behind the first word tells them apart.
pub fn read_vectors(path: &Path) -> Result<WordVectors> {
    let bytes = std::fs::read(path).map_err(|e| Error::read(path.display().to_string(), &e, "check the path"))?;
    parse(&bytes, &path.display().to_string())
}

/// The contents of a file of either format.
pub(crate) fn parse(bytes: &[u8], place: &str) -> Result<WordVectors> {
    let wrong = |line: usize, what: String| {
        let hint = "word2vec's files begin with the number of words and their width";
        Error::new(format!("{place}, line {line}"), what, hint)
    };
    let end = bytes.iter().take(64).position(|b| *b == b'\n');
    let head = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    let mut numbers = head.unwrap_or_default().split_ascii_whitespace().map(str::parse::<usize>);
    let (Some(Ok(count)), Some(Ok(width)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        return Err(wrong(1, "is not a pair of numbers".into()));
    };
    // Every word takes two bytes a number at least, so a count that lies cannot ask for more memory than the file has.
    let body = &bytes[end.map_or(0, |end| end + 1)..];
    if count == 0 || width == 0 || count.checked_mul(width).is_none_or(|n| n > body.len()) {
        let what = format!("says {count} words of width {width}, but {} bytes follow", body.len());
        return Err(wrong(1, what));
    }
    let (words, values) = match is_text(body, width) {
        true => text(body, count, width, &wrong)?,
        false => binary(body, count, width, place)?,
    };
    WordVectors::new(words, width, values).map_err(|e| Error { place: place.to_string(), ..e })
}

/// Whether the first line reads as a word and `width` numbers.
fn is_text(body: &[u8], width: usize) -> bool {
    let line = body.split(|b| *b == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let numbers: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
    // A line with one number too few is still text: it will be refused as such.
    numbers.len() + 1 >= width.min(2) && numbers.iter().all(|n| n.parse::<f32>().is_ok())
}

type Rows = (Vec<String>, Vec<f32>);

fn text(body: &[u8], count: usize, width: usize, wrong: &dyn Fn(usize, String) -> Error) -> Result<Rows> {
    let (mut words, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count * width));
    for (i, line) in body.split(|b| *b == b'\n').enumerate() {
        let at = i + 2;
        let line = std::str::from_utf8(line).map_err(|_| wrong(at, "is not UTF-8".into()))?;
        let mut parts = line.split_ascii_whitespace();
        let Some(word) = parts.next() else { continue };
        let before = values.len();
        for part in parts {
            let value: f32 = part.parse().map_err(|_| wrong(at, format!("`{part}` is not a number")))?;
            if !value.is_finite() {
                return Err(wrong(at, format!("number {} of `{word}` is {value}", values.len() - before + 1)));
            }
            values.push(value);
        }
        if values.len() - before != width {
            return Err(wrong(at, format!("`{word}` has {} numbers, not {width}", values.len() - before)));
        }
        words.push(word.to_string());
    }
    if words.len() != count {
        return Err(wrong(1, format!("says {count} words, but {} follow", words.len())));
    }
    Ok((words, values))
}

fn binary(mut body: &[u8], count: usize, width: usize, place: &str) -> Result<Rows> {
    let (mut words, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count * width));
    for i in 1..=count {
        let wrong = |what: &str| {
            let hint = "the file is cut short, or it is not one of word2vec's";
            Error::new(format!("{place}, word {i} of {count}"), what, hint)
        };
        body = body.strip_prefix(b"\n").unwrap_or(body);
        let end = body.iter().take(4096).position(|b| *b == b' ').ok_or_else(|| wrong("has no end"))?;
        let word = std::str::from_utf8(&body[..end]).map_err(|_| wrong("is not UTF-8"))?;
        let rest = &body[end + 1..];
        let numbers = rest.get(..width * 4).ok_or_else(|| wrong("has fewer numbers than the first line says"))?;
        values.extend(numbers.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        words.push(word.to_string());
        body = &rest[width * 4..];
    }
    if body.iter().any(|b| !b.is_ascii_whitespace()) {
        let what = format!("{} bytes stand behind the last of {count} words", body.len());
        return Err(Error::new(place, what, "the first line says too few words, or the width is wrong"));
    }
    Ok((words, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> WordVectors {
        let words = ["the", "è", "don't"].map(String::from).to_vec();
        WordVectors::new(words, 2, vec![0.1, -2.5e-8, 3.0, f32::MIN_POSITIVE, -0.0, 1e30]).unwrap()
    }

    #[test]
    fn both_formats_give_the_same_bits_back() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["v.txt", "v.bin"] {
            let path = folder.path().join(name);
            write_vectors(&three(), &path, VectorFormat::of(&path)).unwrap();
            assert_eq!(read_vectors(&path).unwrap(), three(), "{name}");
        }
    }

    #[test]
    fn a_binary_file_without_line_ends_is_read_too() {
        let mut bytes = b"2 1\n".to_vec();
        for (word, value) in [("a", 1f32), ("b", 2.0)] {
            bytes.extend(word.bytes().chain(*b" ").chain(value.to_le_bytes()));
        }
        assert_eq!(parse(&bytes, "v").unwrap().get("b"), Some(&[2.0][..]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| parse(text.as_bytes(), "v.txt").unwrap_err().to_string();
        assert_eq!(said("1 2\na 0.5 nan\n"), "v.txt, line 2: number 2 of `a` is NaN");
        assert_eq!(said("1 2\na 0.5 inf\n"), "v.txt, line 2: number 2 of `a` is inf");
        assert_eq!(said("2 1\na 0.5\na 1\n"), "v.txt: `a` stands twice: words 1 and 2");
        assert_eq!(said("1 2\na 0.5\n"), "v.txt, line 2: `a` has 1 numbers, not 2");
        assert_eq!(said("3 1\na 0.5\nb 1\n"), "v.txt, line 1: says 3 words, but 2 follow");
        assert_eq!(said("a 0.5\n"), "v.txt, line 1: is not a pair of numbers");
        assert_eq!(said("9999999999999 9999999\na 1\n").split(':').next(), Some("v.txt, line 1"));
        assert_eq!(said(""), "v.txt, line 1: is not a pair of numbers");
        let cut = [&b"2 2\nword "[..], &1f32.to_le_bytes(), &f32::NAN.to_le_bytes(), b"\nb "].concat();
        let error = parse(&cut, "v.bin").unwrap_err();
        assert_eq!(error.to_string(), "v.bin, word 2 of 2: has fewer numbers than the first line says");
    }

    #[test]
    fn no_bytes_make_it_panic() {
        const NOISE: &[u8] = b"12 0.\na\xff-n";
        let key = qkv_base::Key::new(5, 0, 0);
        for i in 0..2000 {
            let n = key.child(i).below(0, 60);
            let bytes: Vec<u8> = (0..n).map(|j| NOISE[key.child(i).below(1 + j as u64, NOISE.len())]).collect();
            let _ = parse(&[&b"2 2\n"[..], &bytes].concat(), "noise");
            let _ = parse(&bytes, "noise");
        }
    }
}
