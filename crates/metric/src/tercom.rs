//! The edits that TER counts: insert, delete or replace one word, or move a run of words, each costing 1 (Snover et al.
//! 2006). The search for moves is greedy and follows sacreBLEU's rules, which follow Tercom's, limits included:
//!
//! ```text
//! repeat: of all moves of a run that the reference has elsewhere, make the one that saves most edits
//! TER edits = moves made + Levenshtein(moved hypothesis, reference)
//! ```

/// A run to move is at most this long.
const MAX_SIZE: usize = 10;
/// …and moves at most this far.
const MAX_DISTANCE: usize = 50;
/// After this many candidates the search ends.
const MAX_CANDIDATES: usize = 1000;
/// Levenshtein's table is filled this far beside its diagonal.
const BEAM: usize = 25;

/// The edits that turn `said` into `wanted`; words are given as numbers.
pub(crate) fn edits(said: &[u32], wanted: &[u32]) -> usize {
    if wanted.is_empty() {
        return said.len();
    }
    let (mut said, mut moves, mut tried) = (said.to_vec(), 0, 0);
    loop {
        let best = best_move(&said, wanted, &mut tried);
        match best {
            // The last round's move is dropped when the search was cut short: so does the reference.
            Some(best) if best.saved > 0 && tried < MAX_CANDIDATES => {
                said = moved(&said, best.start, best.length, best.target);
                moves += 1;
            }
            _ => return moves + Table::new(&said, wanted).edits(),
        }
    }
}

/// Compared field by field: most saved, then longest, then earliest, then to the earliest place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(i64, usize, std::cmp::Reverse<(usize, usize)>);

struct Move {
    saved: i64,
    start: usize,
    length: usize,
    target: usize,
}

fn best_move(said: &[u32], wanted: &[u32], tried: &mut usize) -> Option<Move> {
    let table = Table::new(said, wanted);
    let (before, aligned) = (table.edits() as i64, table.align());
    let mut best: Option<(Rank, Move)> = None;
    for (start, at, length) in shared_runs(said, wanted) {
        if !aligned.worth_moving(start, at, length) {
            continue;
        }
        let mut last = None;
        for target in aligned.targets(at, length) {
            if last.replace(target) == Some(target) {
                continue;
            }
            let shifted = moved(said, start, length, target);
            let saved = before - table.edits_after(&shifted, start.min(target)) as i64;
            let rank = Rank(saved, length, std::cmp::Reverse((start, target)));
            *tried += 1;
            if best.as_ref().is_none_or(|(top, _)| rank > *top) {
                best = Some((rank, Move { saved, start, length, target }));
            }
        }
        if *tried >= MAX_CANDIDATES {
            break;
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// Every run that both sides have, as (start said, start wanted, length).
fn shared_runs(said: &[u32], wanted: &[u32]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..said.len()).flat_map(move |start| {
        let near = start.saturating_sub(MAX_DISTANCE)..wanted.len().min(start + MAX_DISTANCE + 1);
        near.flat_map(move |at| {
            let same = said[start..].iter().zip(&wanted[at..]).take(MAX_SIZE).take_while(|(a, b)| a == b).count();
            (1..=same).map(move |length| (start, at, length))
        })
    })
}

/// The words with the run at `start` moved before `target`; a target inside the run counts from behind it.
fn moved(words: &[u32], start: usize, length: usize, target: usize) -> Vec<u32> {
    let run = &words[start..start + length];
    let rest = [&words[..start], &words[start + length..]].concat();
    let place = match target {
        _ if target < start => target,
        _ if target > start + length => target - length,
        _ => target,
    };
    let place = place.min(rest.len());
    [&rest[..place], run, &rest[place..]].concat()
}

/// How one cell of the table was reached.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Keep,
    Replace,
    Delete,
    Insert,
}

/// Levenshtein's table from `said` to `wanted`, filled beside the diagonal.
struct Table<'a> {
    wanted: &'a [u32],
    rows: Vec<Vec<(usize, Step)>>,
}

const FAR: usize = usize::MAX / 2;

impl<'a> Table<'a> {
    fn new(said: &[u32], wanted: &'a [u32]) -> Self {
        let first = (0..=wanted.len()).map(|j| (j, Step::Insert)).collect();
        let mut table = Self { wanted, rows: vec![first] };
        for i in 1..=said.len() {
            let row = table.row(&table.rows[i - 1], said, i);
            table.rows.push(row);
        }
        table
    }

    /// Row `i` from the row before it.
    fn row(&self, before: &[(usize, Step)], said: &[u32], i: usize) -> Vec<(usize, Step)> {
        let mut row = vec![(FAR, Step::Replace); self.wanted.len() + 1];
        for j in self.beam(said.len(), i) {
            if j == 0 {
                row[0] = (before[0].0 + 1, Step::Delete);
                continue;
            }
            let same = said[i - 1] == self.wanted[j - 1];
            let diagonal = (before[j - 1].0 + usize::from(!same), if same { Step::Keep } else { Step::Replace });
            // The first of equals wins: keep or replace, then delete, then insert.
            for step in [diagonal, (before[j].0 + 1, Step::Delete), (row[j - 1].0 + 1, Step::Insert)] {
                if step.0 < row[j].0 {
                    row[j] = step;
                }
            }
        }
        row
    }

    fn beam(&self, said: usize, i: usize) -> std::ops::Range<usize> {
        let wanted = self.wanted.len();
        let ratio = wanted as f64 / said as f64;
        // Very unequal lengths need a wider beam, or a row would not touch the one before.
        let width = if BEAM as f64 >= ratio / 2.0 { BEAM } else { (ratio / 2.0 + BEAM as f64).ceil() as usize };
        let diagonal = (i as f64 * ratio).floor() as usize;
        let end = if i == said { wanted + 1 } else { (diagonal + width).min(wanted + 1) };
        diagonal.saturating_sub(width)..end
    }

    fn edits(&self) -> usize {
        self.rows.last().and_then(|row| row.last()).map_or(0, |cell| cell.0)
    }

    /// The edits of other words of the same length that share the first `same` with ours: only the rest is computed.
    fn edits_after(&self, said: &[u32], same: usize) -> usize {
        let first = self.row(&self.rows[same], said, same + 1);
        let last = (same + 2..=said.len()).fold(first, |before, i| self.row(&before, said, i));
        last.last().map_or(0, |cell| cell.0)
    }

    /// Walks back through the table.
    fn align(&self) -> Alignment {
        let (mut i, mut j) = (self.rows.len() - 1, self.wanted.len());
        let mut alignment = Alignment { at: vec![None; j], wrong_said: vec![false; i], wrong_wanted: vec![false; j] };
        while i > 0 || j > 0 {
            let step = match self.rows[i][j].1 {
                _ if i == 0 => Step::Insert,
                _ if j == 0 => Step::Delete,
                step => step,
            };
            let wrong = step != Step::Keep;
            if step != Step::Insert {
                i -= 1;
                alignment.wrong_said[i] = wrong;
            }
            if step != Step::Delete {
                j -= 1;
                alignment.wrong_wanted[j] = wrong;
                // A word that was never said is aligned with the word said before it.
                alignment.at[j] = if step == Step::Insert { i.checked_sub(1) } else { Some(i) };
            }
        }
        alignment
    }
}

/// Which word said stands for which word wanted.
struct Alignment {
    /// per word wanted; `None` is before the first
    at: Vec<Option<usize>>,
    wrong_said: Vec<bool>,
    wrong_wanted: Vec<bool>,
}

impl Alignment {
    /// Both places hold an error, and the run does not move within itself.
    fn worth_moving(&self, start: usize, at: usize, length: usize) -> bool {
        let inside = self.at[at].is_some_and(|i| (start..start + length).contains(&i));
        let wrong = |marks: &[bool], from: usize| marks[from..from + length].contains(&true);
        wrong(&self.wrong_said, start) && wrong(&self.wrong_wanted, at) && !inside
    }

    /// The places before which the run could go: after the word that stands for each word wanted from `at − 1` on.
    fn targets(&self, at: usize, length: usize) -> impl Iterator<Item = usize> {
        let after = |place: Option<usize>| place.map_or(0, |i| i + 1);
        let first = at.checked_sub(1).map_or(0, |before| after(self.at[before]));
        std::iter::once(first).chain(self.at[at..at + length].iter().map(move |place| after(*place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edits_by_hand() {
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(edits(&[1, 2], &[]), 2);
        assert_eq!(edits(&[], &[1, 2]), 2);
        assert_eq!(edits(&[1, 9, 3], &[1, 2, 3]), 1);
        // Two words moved together cost one edit, where Levenshtein alone needs four.
        assert_eq!(edits(&[4, 5, 1, 2, 3], &[1, 2, 3, 4, 5]), 1);
    }

    #[test]
    fn moves_put_words_where_told() {
        let words = [0, 1, 2, 3, 4];
        assert_eq!(moved(&words, 3, 2, 0), [3, 4, 0, 1, 2]);
        assert_eq!(moved(&words, 0, 2, 4), [2, 3, 0, 1, 4]);
        assert_eq!(moved(&words, 1, 2, 2), [0, 3, 1, 2, 4].map(|i| words[i as usize]));
    }

    proptest! {
        #[test]
        fn moves_never_cost_more_than_they_save(
            said in prop::collection::vec(0u32..6, 0..40), wanted in prop::collection::vec(0u32..6, 0..40),
        ) {
            let edits = edits(&said, &wanted);
            prop_assert!(edits <= Table::new(&said, &wanted).edits().max(said.len()));
            prop_assert!(edits >= said.len().abs_diff(wanted.len()));
            prop_assert_eq!(edits == 0, said == wanted);
        }
    }
}
