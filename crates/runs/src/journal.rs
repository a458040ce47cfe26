//! What a run wrote down of itself, read back: `metrics.jsonl`, one object per line (see [`Journal`](crate::observe::Journal)).
//!
//! A run may be writing while it is read, so a last line that is torn is left out; and however long a run was, no more than
//! [`MOST`] bytes are held: of a longer journal, the last ones.

use qkv_base::{Error, Result};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The name of the file in the directory of a run.
pub const FILE: &str = "metrics.jsonl";

/// The most bytes of a journal that are read: some 400,000 lines.
pub const MOST: u64 = 64 << 20;

/// Enough for the last lines.
const END: u64 = 1 << 16;

/// The lines of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(String);

/// What the run in `dir` wrote down.
pub fn read(dir: &Path) -> Result<Entries> {
    end_of(&dir.join(FILE), MOST).map(Entries)
}

/// The last step that the run in `dir` wrote down; 0 where there is none. Only the end of the journal is read.
pub fn last_step(dir: &Path) -> u64 {
    let end = end_of(&dir.join(FILE), END).unwrap_or_default();
    end.lines().rev().find_map(|line| object(line)?.get("step")?.as_u64()).unwrap_or(0)
}

impl Entries {
    /// Every line that is whole, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = Map<String, Value>> + '_ {
        self.0.lines().filter_map(object)
    }

    /// What stands under both keys, where a line has both and both are numbers: (`step`, `loss`), say.
    pub fn points(&self, across: &str, up: &str) -> Vec<(f64, f64)> {
        self.iter().filter_map(|line| Some((line.get(across)?.as_f64()?, line.get(up)?.as_f64()?))).collect()
    }
}

fn object(line: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(line).ok()
}

/// The last `most` bytes of a file, from the beginning of a line.
fn end_of(path: &Path, most: u64) -> Result<String> {
    let fail = |e: std::io::Error| Error::read(path.display().to_string(), &e, "is the run whole?");
    let kind = std::fs::metadata(path).map_err(fail)?;
    if !kind.is_file() {
        return Err(Error::new(path.display().to_string(), "is not a regular file", "is the run whole?"));
    }
    let mut file = File::open(path).map_err(fail)?;
    let skipped = kind.len().saturating_sub(most);
    // One byte more: where that is the end of a line, the next one is whole.
    file.seek(SeekFrom::Start(skipped.saturating_sub(1))).map_err(fail)?;
    let mut bytes = vec![];
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        _ if skipped == 0 => text.into_owned(),
        Some((_, whole)) => whole.to_string(),
        None => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_err());
        assert_eq!(last_step(dir.path()), 0);
        let text = "{\"step\":1,\"loss\":3.5}\n\n7\n{\"step\":2,\"valid_loss\":3}\n{\"step\":4,\"loss\":2.5}\n{\"step\":9,\"lo";
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let entries = read(dir.path()).unwrap();
        assert_eq!(entries.iter().count(), 3);
        assert_eq!(entries.points("step", "loss"), [(1.0, 3.5), (4.0, 2.5)]);
        assert_eq!(last_step(dir.path()), 4);
    }

    #[test]
    fn of_a_long_journal_the_end_is_read_from_a_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let line = |step: u64| format!("{{\"step\":{step}}}\n");
        std::fs::write(&path, (10..100).map(line).collect::<String>()).unwrap();
        let each = line(10).len() as u64;
        for (most, first) in [(each * 3, 97), (each * 3 + 1, 97), (each * 3 - 1, 98), (each * 1000, 10), (each - 1, 0)]
        {
            let end = end_of(&path, most).unwrap();
            assert_eq!(end, (10..100).map(line).skip_while(|l| *l != line(first)).collect::<String>(), "{most} bytes");
        }
        assert!(end_of(dir.path(), 9).unwrap_err().what.contains("regular file"));
    }
}
