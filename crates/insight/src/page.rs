//! One page: an idea in a sentence, formulas, shapes, tables of numbers, one cell worked out, and whether a slide's
//! numbers hold. What a page says is data; how it looks is the business of [`crate::render`].
//!
//! A number that a slide prints stands here as the slide prints it ([`Comparison::new`] takes the text), and the number
//! beside it is computed when the page is made. Whether the two agree is decided by comparing them at the slide's own
//! precision, never said by hand.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// A page about one topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// the word that asks for it
    pub topic: String,
    /// its heading
    pub title: String,
    /// the idea in a sentence
    pub idea: String,
    /// what follows, in order
    pub blocks: Vec<Block>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "block", rename_all = "snake_case")]
pub enum Block {
    /// a heading
    Section {
        /// its words
        title: String,
    },
    /// a paragraph
    Text {
        /// its words
        text: String,
    },
    /// a formula in plain letters
    Formula {
        /// as it is written
        formula: String,
    },
    /// what has which shape
    Shapes {
        /// in the order in which they are met
        shapes: Vec<Shape>,
    },
    /// numbers in rows and columns
    Table(Table),
    /// one cell of a table, step by step
    Expansion {
        /// which cell
        of: String,
        /// the steps; each line follows from the one before
        steps: Vec<String>,
    },
    /// what a slide says beside what comes out
    Comparisons {
        /// one line each
        comparisons: Vec<Comparison>,
    },
    /// what to make of it
    Verdict {
        /// in a word
        verdict: Verdict,
        /// in a sentence
        text: String,
    },
}

/// A tensor by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// its name
    pub name: String,
    /// its shape, and what the axes are
    pub shape: String,
}

/// Numbers (or words) in rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// what it shows
    pub title: String,
    /// what stands above the names of the rows
    pub corner: String,
    /// the names of the columns
    pub columns: Vec<String>,
    /// the rows
    pub rows: Vec<Row>,
    /// whether larger numbers are to be seen at a glance: weights between 0 and 1
    pub heat: bool,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// its name
    pub label: String,
    /// its cells
    pub cells: Vec<Cell>,
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// words
    Text(String),
    /// a number shown with so many decimals
    Number {
        /// the number, unrounded
        value: f64,
        /// how many decimals are shown
        decimals: usize,
    },
    /// a count, shown in groups of three digits
    Count(u64),
}

/// What a slide prints, and what is computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// what it is
    pub what: String,
    /// as the slide prints it
    pub slide: String,
    /// as it comes out
    pub computed: f64,
    /// as it comes out, at the slide's precision
    pub shown: String,
    /// whether they agree at that precision
    pub verdict: Verdict,
}

/// Whether a slide is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// every number comes out as printed
    Equal,
    /// the slide rounds, and the difference is no larger than that
    Rounds,
    /// the slide is wrong, and the text says why
    Errs,
    /// nothing to compare with: worth knowing
    Note,
}

impl Verdict {
    /// The sign before it, which is there with and without colour.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Rounds => "≈",
            Self::Errs => "≠",
            Self::Note => "→",
        }
    }

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Rounds => "the slide rounds",
            Self::Errs => "the slide errs",
            Self::Note => "note",
        }
    }
}

impl Cell {
    /// A number with so many decimals.
    pub fn number(value: f64, decimals: usize) -> Self {
        Self::Number { value, decimals }
    }

    /// As a person reads it.
    ///
    /// ```
    /// use qkv_insight::page::Cell;
    /// assert_eq!(Cell::number(f64::NEG_INFINITY, 3).shown(), "−∞");
    /// assert_eq!(Cell::number(-0.0001, 2).shown(), "0.00");
    /// assert_eq!(Cell::Count(1_435_500_544).shown(), "1,435,500,544");
    /// ```
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number { value, decimals } => shown(*value, *decimals),
            Self::Count(n) => qkv_base::format::grouped(*n),
        }
    }

    /// The number in it.
    pub fn value(&self) -> Option<f64> {
        match self {
            Self::Text(_) => None,
            Self::Number { value, .. } => Some(*value),
            Self::Count(n) => Some(*n as f64),
        }
    }
}

/// A number with so many decimals, a true minus sign, and no minus before a zero.
pub fn shown(value: f64, decimals: usize) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "∞".into() } else { "−∞".into() };
    }
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_string(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

impl Serialize for Cell {
    /// A number with what is shown of it; words as words.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => to.serialize_str(text),
            _ => {
                let mut cell = to.serialize_struct("Cell", 2)?;
                cell.serialize_field("value", &self.value())?; // JSON knows no infinity: then it is null
                cell.serialize_field("shown", &self.shown())?;
                cell.end()
            }
        }
    }
}

impl Comparison {
    /// A number as a slide prints it, beside what comes out. They are equal if rounding to the slide's last digit gives
    /// the slide's digits.
    ///
    /// ```
    /// use qkv_insight::page::{Comparison, Verdict};
    /// assert_eq!(Comparison::new("a", "0.475", 0.47502).verdict, Verdict::Equal);
    /// assert_eq!(Comparison::new("b", "0.476", 0.47502).verdict, Verdict::Errs);
    /// ```
    pub fn new(what: impl Into<String>, slide: &str, computed: f64) -> Self {
        let plain = slide.trim_start_matches('~').replace('−', "-").replace(',', "");
        let decimals = plain.split_once('.').map_or(0, |(_, digits)| digits.len());
        let off = (plain.parse::<f64>().unwrap_or(f64::NAN) - computed).abs();
        let unit = 10f64.powi(-(decimals as i32));
        // A computed number that lies on the half between two prints agrees with both. What a slide itself calls rough
        // may be off by two in a hundred.
        let verdict = match off {
            off if off <= 0.5 * unit + 1e-9 => Verdict::Equal,
            off if slide.starts_with('~') && off <= 0.02 * computed.abs() => Verdict::Rounds,
            _ => Verdict::Errs,
        };
        let shown = match slide.contains(',') && computed >= 0.0 && decimals == 0 {
            true => qkv_base::format::grouped(computed.round() as u64),
            false => shown(computed, decimals),
        };
        Self { what: what.into(), slide: slide.into(), computed, shown, verdict }
    }
}

impl Page {
    /// An empty page.
    pub fn new(topic: &str, title: &str, idea: &str) -> Self {
        Self { topic: topic.into(), title: title.into(), idea: idea.into(), blocks: vec![] }
    }

    /// With a heading.
    pub fn section(mut self, title: &str) -> Self {
        self.blocks.push(Block::Section { title: title.into() });
        self
    }

    /// With a paragraph.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text { text: text.into() });
        self
    }

    /// With a formula; several, eight blanks apart, stand one below the other.
    pub fn formula(mut self, formula: &str) -> Self {
        let lines: Vec<&str> = formula.split("        ").map(str::trim).collect();
        self.blocks.push(Block::Formula { formula: lines.join("\n") });
        self
    }

    /// With shapes.
    pub fn shapes<S: Into<String> + Clone>(mut self, shapes: &[(&str, S)]) -> Self {
        let shape = |(name, shape): &(&str, S)| Shape { name: name.to_string(), shape: shape.clone().into() };
        self.blocks.push(Block::Shapes { shapes: shapes.iter().map(shape).collect() });
        self
    }

    /// With a table.
    pub fn table(mut self, table: Table) -> Self {
        self.blocks.push(Block::Table(table));
        self
    }

    /// With one cell worked out.
    pub fn expand(mut self, of: impl Into<String>, steps: Vec<String>) -> Self {
        self.blocks.push(Block::Expansion { of: of.into(), steps });
        self
    }

    /// With a slide's numbers beside what comes out.
    pub fn compare(mut self, comparisons: Vec<Comparison>) -> Self {
        self.blocks.push(Block::Comparisons { comparisons });
        self
    }

    /// With what to make of it.
    pub fn verdict(mut self, verdict: Verdict, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Verdict { verdict, text: text.into() });
        self
    }

    /// Every table, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None })
    }

    /// Every comparison, in order.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let all = self.blocks.iter().filter_map(|block| match block {
            Block::Comparisons { comparisons } => Some(comparisons),
            _ => None,
        });
        all.flatten()
    }
}

impl Table {
    /// A table of numbers with the same decimals everywhere.
    pub fn matrix<S: ToString, C: ToString>(
        title: &str,
        rows: &[S],
        columns: &[C],
        values: &[Vec<f64>],
        decimals: usize,
    ) -> Self {
        let row = |(label, values): (&S, &Vec<f64>)| Row {
            label: label.to_string(),
            cells: values.iter().map(|v| Cell::number(*v, decimals)).collect(),
        };
        Self {
            title: title.into(),
            corner: String::new(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.iter().zip(values).map(row).collect(),
            heat: false,
        }
    }

    /// A table of any cells.
    pub fn of<S: ToString, C: ToString>(title: &str, corner: &str, columns: &[C], rows: Vec<(S, Vec<Cell>)>) -> Self {
        Self {
            title: title.into(),
            corner: corner.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.into_iter().map(|(label, cells)| Row { label: label.to_string(), cells }).collect(),
            heat: false,
        }
    }

    /// The same with what stands above the names of the rows.
    pub fn corner(self, corner: &str) -> Self {
        Self { corner: corner.into(), ..self }
    }

    /// The same as weights between 0 and 1, with the sum of each row behind it.
    pub fn weights(mut self, decimals: usize) -> Self {
        self.heat = true;
        self.columns.push("Σ".into());
        for row in &mut self.rows {
            let sum = row.cells.iter().filter_map(Cell::value).sum();
            row.cells.push(Cell::number(sum, decimals));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_decided_at_the_precision_of_the_slide() {
        let verdict = |slide, computed| Comparison::new("x", slide, computed).verdict;
        assert_eq!(verdict("1,050,624", 1_050_624.0), Verdict::Equal);
        assert_eq!(verdict("1,050,624", 1_050_626.0), Verdict::Errs);
        assert_eq!(verdict("−1.279", -1.27872), Verdict::Equal);
        assert_eq!(verdict("0.90", 0.906), Verdict::Errs);
        assert_eq!(verdict("340", 339.6), Verdict::Equal);
        assert_eq!((verdict("~340", 335.2), verdict("~340", 300.0)), (Verdict::Rounds, Verdict::Errs));
        assert_eq!(Comparison::new("x", "12,288", 12_288.0).shown, "12,288");
    }

    #[test]
    fn the_sums_of_rows_stand_behind_weights() {
        let table = Table::matrix("w", &["a"], &["x", "y"], &[vec![0.25, 0.75]], 2).weights(3);
        assert_eq!(table.columns, ["x", "y", "Σ"]);
        assert_eq!(table.rows[0].cells[2].shown(), "1.000");
    }
}
