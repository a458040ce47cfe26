//! What the check found, for a terminal and for a program.

use crate::Task;
use serde::Serialize;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// worth knowing; training can start
    Warning,
    /// training cannot start
    Stop,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// how bad
    pub level: Severity,
    /// what, how often, and where first
    pub what: String,
    /// what to do
    pub hint: String,
}

/// Rows of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// the shortest
    pub from: u32,
    /// the longest
    pub to: u32,
    /// how many
    pub rows: usize,
}

/// What there is in a corpus, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataReport {
    /// what the data is for
    pub task: Task,
    /// rows
    pub rows: usize,
    /// rows that training can use
    pub usable: usize,
    /// rows that the reader left out
    pub bad_rows: usize,
    /// rows with an empty side
    pub empty: usize,
    /// what lengths count: words or tokens
    pub unit: &'static str,
    /// the length that half of the rows do not pass
    pub median: u32,
    /// the length that 99 of 100 rows do not pass
    pub most: u32,
    /// the longest row
    pub longest: u32,
    /// how many rows have which length
    pub lengths: Vec<Bucket>,
    /// labels and tags with their counts, the commonest first
    pub labels: Vec<(String, usize)>,
    /// rows that are there already
    pub duplicates: usize,
    /// rows with the text of another row and another label
    pub conflicts: usize,
    /// the other splits, and how many of their rows are in the training data
    pub overlaps: Vec<(String, usize)>,
    /// labels of other splits that the training data does not have
    pub unseen_labels: Vec<String>,
    /// rows whose tags break BIO
    pub broken_tags: usize,
    /// answers that do not stand in their context
    pub missing_answers: usize,
    /// rows that are too long
    pub cut: usize,
    /// tokens that would be cut off
    pub tokens_cut: usize,
    /// what the tokenizer does not know, the commonest first
    pub unknown: Vec<(String, usize)>,
    /// everything to say about it, in words
    pub findings: Vec<Finding>,
}

impl DataReport {
    pub(super) fn new(task: Task, rows: usize, usable: usize, unit: &'static str, lengths: &mut [u32]) -> Self {
        lengths.sort_unstable();
        let at =
            |share: f64| lengths.get((lengths.len() as f64 * share) as usize).or(lengths.last()).copied().unwrap_or(0);
        let (median, most, longest) = (at(0.5), at(0.99), at(1.0));
        let lengths = histogram(lengths);
        Self {
            task,
            rows,
            usable,
            bad_rows: 0,
            empty: 0,
            unit,
            median,
            most,
            longest,
            lengths,
            labels: Vec::new(),
            duplicates: 0,
            conflicts: 0,
            overlaps: Vec::new(),
            unseen_labels: Vec::new(),
            broken_tags: 0,
            missing_answers: 0,
            cut: 0,
            tokens_cut: 0,
            unknown: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Can training start? The exit code of `qkv data check` says the same.
    pub fn can_train(&self) -> bool {
        self.findings.iter().all(|finding| finding.level != Severity::Stop)
    }
}

/// At most twelve buckets of a round width (1, 2 or 5 times a power of ten); the last takes the long tail beyond the
/// 99th of 100 rows, which else would leave one bar and eleven empty ones.
fn histogram(sorted: &[u32]) -> Vec<Bucket> {
    let Some(longest) = sorted.last().copied() else { return Vec::new() };
    let usual = sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(longest);
    let widths = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10u32.pow(power)));
    let width = widths.into_iter().find(|width| usual / width < 11).unwrap_or(u32::MAX);
    let count = (usual / width + 1).min(12);
    let first = sorted.first().map_or(0, |shortest| (shortest / width).min(count - 1));
    let bucket = |i: u32| Bucket { from: i * width, to: (i + 1).saturating_mul(width).saturating_sub(1), rows: 0 };
    let mut buckets: Vec<Bucket> = (first..count).map(bucket).collect();
    if buckets.last().is_some_and(|last| last.to < longest) {
        buckets.push(Bucket { from: count * width, to: longest, rows: 0 });
    }
    for length in sorted {
        let at = ((length / width - first) as usize).min(buckets.len() - 1);
        buckets[at].rows += 1;
    }
    buckets
}

/// A bar of eighths of blocks.
fn bar(part: usize, whole: usize, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part * width * 8).checked_div(whole).unwrap_or(0).max(usize::from(part > 0));
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

impl fmt::Display for DataReport {
    /// At most 60 columns but for the sentences of the findings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "task     {}", self.task.name())?;
        writeln!(f, "rows     {} ({} usable)", self.rows, self.usable)?;
        if !self.lengths.is_empty() {
            let (unit, median, most) = (self.unit, self.median, self.most);
            writeln!(f, "length   {unit}: median {median}, 99 % ≤ {most}, longest {}", self.longest)?;
            let tallest = self.lengths.iter().map(|b| b.rows).max().unwrap_or(0);
            for Bucket { from, to, rows } in &self.lengths {
                let range = if from == to { from.to_string() } else { format!("{from}–{to}") };
                let bar = bar(*rows, tallest, 32);
                writeln!(f, "{range:>16} {bar}{}{rows}", if bar.is_empty() { "" } else { " " })?;
            }
        }
        if !self.labels.is_empty() {
            writeln!(f, "labels   {}", self.labels.len())?;
            let all: usize = self.labels.iter().map(|(_, n)| n).sum();
            for (label, count) in self.labels.iter().take(12) {
                let short: String = label.chars().take(16).collect();
                writeln!(
                    f,
                    "{short:>16} {} {count} ({:.1} %)",
                    bar(*count, all, 20),
                    100.0 * *count as f64 / all as f64
                )?;
            }
            if self.labels.len() > 12 {
                writeln!(f, "{:>16} and {} more", "…", self.labels.len() - 12)?;
            }
        }
        for finding in &self.findings {
            let level = if finding.level == Severity::Stop { "error" } else { "warning" };
            writeln!(f, "{level}: {}\n  hint: {}", finding.what, finding.hint)?;
        }
        write!(f, "{}", if self.can_train() { "training can start" } else { "training cannot start" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_round_and_lose_no_row() {
        for n in [1usize, 7, 100, 5000] {
            let mut lengths: Vec<u32> = (0..n as u32).map(|i| i * i % 977).collect();
            lengths.sort_unstable();
            let buckets = histogram(&lengths);
            assert!(buckets.len() <= 13);
            assert_eq!(buckets.iter().map(|b| b.rows).sum::<usize>(), n);
            assert!(buckets.windows(2).all(|two| two[0].to + 1 == two[1].from));
        }
        assert_eq!(histogram(&[0, 3, 19]).last(), Some(&Bucket { from: 18, to: 19, rows: 1 }));
        assert!(histogram(&[]).is_empty());
        assert_eq!(histogram(&[u32::MAX]).iter().map(|b| b.rows).sum::<usize>(), 1);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(32, 32, 32).chars().count(), 32);
        assert_eq!(bar(1, 2, 4), "██");
        assert_eq!((bar(0, 9, 9).as_str(), bar(1, 1_000_000, 9).as_str()), ("", "▏"));
    }

    #[test]
    fn the_picture_fits_sixty_columns() {
        let mut lengths: Vec<u32> = (0..100_000).map(|i| i % 140).collect();
        let mut report = DataReport::new(Task::NextToken, 100_000, 100_000, "words", &mut lengths);
        report.labels = vec![("a-label-that-goes-on-and-on".into(), 99_999_999), ("b".into(), 1)];
        let text = report.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("20–29") || text.contains("20–39"), "{text}");
    }
}
