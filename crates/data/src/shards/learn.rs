//! A tokenizer for a corpus of any size: learnt from some lines of it, each as likely as any other.

use super::build::{Learnt, Making, size};
use crate::Result;
use crate::readers::{FilePlace, Reader};
use qkv_text::{Tokenizer, TrainSpec, train};
use std::path::PathBuf;

/// Lines of at most so many bytes are drawn.
const LINE: usize = 4096;

/// Learns a tokenizer from a sample of all lines: every line is as likely as any other.
pub(super) fn learn(
    reader: &Reader,
    files: &[PathBuf],
    how: &TrainSpec,
    making: Making,
    watch: &mut dyn FnMut(&Making) -> Result<()>,
) -> Result<(Tokenizer, Learnt)> {
    let mut making = Making { learning: true, ..making };
    let mut failed = None;
    let mut before = 0;
    let mut lines = 0u64;
    let texts = files.iter().flat_map(|path| {
        let start = before;
        before += size(path);
        let (stream, wrong) = match reader.texts(path, FilePlace::default()) {
            Ok(stream) => (Some((stream.meter.clone(), start, stream)), None),
            Err(error) => (None, Some(Err(error))),
        };
        let parts = stream.into_iter().flat_map(|(meter, start, stream)| {
            stream.map(move |part| part.map(|part| (part.text, start + meter.bytes())))
        });
        wrong.into_iter().chain(parts)
    });
    let all = texts.map_while(|part| {
        let told = part.and_then(|(text, bytes)| {
            lines += 1;
            if lines.is_multiple_of(4096) {
                making.bytes = bytes;
                watch(&making)?;
            }
            Ok(text)
        });
        told.map_err(|error| failed = Some(error)).ok()
    });
    let trained = train(all.flat_map(lines_of), how, &mut |_| {});
    match failed {
        Some(error) => Err(error),
        None => trained.map(|t| (t.tokenizer, Learnt { kept: t.kept, lines: t.lines })),
    }
}

/// The lines of a text, long ones cut, so that a sample of them has a size that is known.
fn lines_of(text: String) -> Vec<String> {
    let mut all = vec![];
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while rest.len() > LINE {
            let at = (1..=LINE).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
            let (part, after) = rest.split_at(at);
            all.push(part.to_string());
            rest = after;
        }
        all.push(rest.to_string());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_letters() {
        let text = format!("short\n{}", "é".repeat(LINE));
        let lines = lines_of(text.clone());
        assert_eq!((lines.len(), lines.concat()), (3, text));
        assert!(lines.iter().all(|line| line.len() <= LINE));
    }
}
