//! A page as a quiz: some numbers of its tables are hidden, and an answer is right if it agrees with the hidden number to
//! the last digit that the page would show.
//!
//! Which cells are hidden follows from the seed alone, so that a class can be given the same sheet.

use crate::page::{Block, Cell, Page, shown};
use qkv_base::{Error, Key, Result};

/// A page with cells hidden.
#[derive(Clone, Debug, PartialEq)]
pub struct Quiz {
    /// the page, with `?1`, `?2`, … in the place of hidden cells, and without the parts that would give them away
    pub page: Page,
    /// what is asked, in order
    pub questions: Vec<Question>,
}

/// One hidden cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// which table, row and column
    pub cell: String,
    /// what stands there
    pub answer: f64,
    /// how many decimals are shown
    pub decimals: usize,
}

impl Quiz {
    /// Hides up to `n` cells.
    pub fn of(page: &Page, n: usize, seed: u64) -> Result<Self> {
        let mut places = vec![];
        for (b, block) in page.blocks.iter().enumerate() {
            let Block::Table(table) = block else { continue };
            for (i, row) in table.rows.iter().enumerate() {
                let number = |cell: &Cell| cell.value().is_some_and(f64::is_finite);
                places.extend((0..row.cells.len()).filter(|j| number(&row.cells[*j])).map(|j| (b, i, j)));
            }
        }
        if places.is_empty() {
            let what = format!("the page `{}` has no numbers to hide", page.topic);
            return Err(Error::new("quiz", what, "choose another topic"));
        }
        let key = Key::new(seed, 0, 0).named(&page.topic);
        // The first n of a shuffle, then in the order of the page.
        let n = n.clamp(1, places.len());
        for i in 0..n {
            let other = i + key.below(i as u64, places.len() - i);
            places.swap(i, other);
        }
        places.truncate(n);
        places.sort_unstable();
        let mut hidden = page.clone();
        let mut questions = vec![];
        for (b, i, j) in places {
            let Block::Table(table) = &mut hidden.blocks[b] else { continue };
            let column = table.columns.get(j).cloned().unwrap_or_default();
            let row = &mut table.rows[i];
            let decimals = if let Cell::Number { decimals, .. } = row.cells[j] { decimals } else { 0 };
            let answer = row.cells[j].value().unwrap_or(f64::NAN);
            let title = if table.title.is_empty() { String::new() } else { format!("{}: ", table.title) };
            questions.push(Question { cell: format!("{title}{}, {column}", row.label), answer, decimals });
            row.cells[j] = Cell::Text(format!("?{}", questions.len()));
        }
        hidden.blocks.retain(|block| {
            !matches!(block, Block::Expansion { .. } | Block::Comparisons { .. } | Block::Verdict { .. })
        });
        Ok(Self { page: hidden, questions })
    }
}

impl Question {
    /// Whether `said` is right: a number, equal at the decimals that are shown. What is no number is asked again.
    ///
    /// ```
    /// use qkv_insight::render::quiz::Question;
    /// let q = Question { cell: "w".into(), answer: 0.4750208, decimals: 3 };
    /// assert_eq!((q.check("0.475"), q.check(" 0,475 "), q.check("0.48"), q.check("half")), (Some(true), Some(true), Some(false), None));
    /// ```
    pub fn check(&self, said: &str) -> Option<bool> {
        let plain = said.trim().replace('−', "-");
        // A lone comma is a decimal sign in half of the world; with groups of three digits it is not.
        let groups = plain.split(',').skip(1).all(|g| g.len() == 3) && self.decimals == 0;
        let plain = if groups { plain.replace(',', "") } else { plain.replace(',', ".") };
        let number: f64 = plain.parse().ok()?;
        let unit = 10f64.powi(-(self.decimals as i32));
        Some((number - self.answer).abs() <= 0.5 * unit + 1e-9 * self.answer.abs().max(1.0))
    }

    /// The answer as the page shows it.
    pub fn shown(&self) -> String {
        shown(self.answer, self.decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Table, Verdict};

    fn sheet() -> Page {
        let table = Table::matrix("w", &["a", "b"], &["x", "y"], &[vec![0.25, 0.75], vec![f64::NEG_INFINITY, 1.0]], 2);
        Page::new("t", "T", "idea").table(table).verdict(Verdict::Equal, "0.25")
    }

    #[test]
    fn the_same_seed_hides_the_same_cells_and_nothing_gives_them_away() {
        let quiz = Quiz::of(&sheet(), 2, 7).unwrap();
        assert_eq!(quiz, Quiz::of(&sheet(), 2, 7).unwrap());
        assert_eq!(quiz.questions.len(), 2);
        let cells: Vec<String> =
            quiz.page.tables().flat_map(|t| &t.rows).flat_map(|r| &r.cells).map(Cell::shown).collect();
        assert_eq!(cells.iter().filter(|c| c.starts_with('?')).count(), 2);
        assert!(cells.contains(&"−∞".to_string()), "what is hidden by the mask stays: {cells:?}");
        assert_eq!(quiz.page.blocks.len(), 1);
        assert!(quiz.questions.iter().all(|q| q.check(&q.shown()) == Some(true) && q.check("17") == Some(false)));
    }

    #[test]
    fn a_page_without_numbers_is_no_quiz() {
        assert!(Quiz::of(&Page::new("t", "T", "i").text("words"), 3, 0).unwrap_err().hint.contains("another topic"));
    }
}
