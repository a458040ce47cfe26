//! A page in a terminal: a box for the idea, aligned columns, lines as wide as the window and no wider. Colour helps and
//! is never the only sign: headings have a rule, verdicts a sign and a word, weights their digits.

use crate::page::{Block, Cell, Comparison, Page, Row, Table, Verdict};
use crate::render::color::{cividis, lightness};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a terminal is to be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// columns
    pub width: usize,
    /// whether colour is wanted
    pub color: bool,
}

impl Style {
    /// As wide as asked, but never too narrow to hold a number.
    pub fn new(width: usize, color: bool) -> Self {
        Self { width: width.clamp(32, 120), color }
    }

    /// Text in a colour of the terminal's own.
    pub fn paint(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

const BOLD: &str = "1";
const CYAN: &str = "36";
const DIM: &str = "2";

/// The whole page.
pub fn page(page: &Page, style: Style) -> String {
    let mut lines = boxed(&page.topic, &format!("{}\n{}", page.title, page.idea), style);
    for block in &page.blocks {
        // A heading stands apart by its own rule; everything else by an empty line.
        lines.push(String::new());
        match block {
            Block::Section { title } => lines.push(rule(title, style)),
            Block::Text { text } => lines.extend(wrap(text, style.width)),
            Block::Formula { formula } => {
                let wrapped = formula.lines().flat_map(|line| wrap(line, style.width.saturating_sub(4)));
                lines.extend(wrapped.map(|line| format!("    {}", style.paint(CYAN, &line))));
            }
            Block::Shapes { shapes } => {
                let widest = shapes.iter().map(|s| s.name.width()).max().unwrap_or(0);
                for shape in shapes {
                    let name = pad_right(&shape.name, widest);
                    lines.extend(hanging(&format!("  {name}  "), &shape.shape, style.width));
                }
            }
            Block::Table(table) => lines.extend(self::table(table, style)),
            Block::Expansion { of, steps } => {
                lines.extend(wrap(&format!("one cell worked out: {of}"), style.width));
                lines.extend(steps.iter().flat_map(|step| hanging("  ", step, style.width)));
            }
            Block::Comparisons { comparisons } => lines.extend(compared(comparisons, style)),
            Block::Verdict { verdict, text } => {
                let head = format!("{} {}: ", verdict.sign(), verdict.word());
                let mut told = hanging("", &format!("{head}{text}"), style.width);
                if let Some(first) = told.first_mut()
                    && let Some(rest) = first.strip_prefix(&head)
                {
                    *first = format!("{}{rest}", style.paint(colour_of(*verdict), &head));
                }
                lines.extend(told);
            }
        }
    }
    lines.iter().map(|line| line.trim_end().to_string() + "\n").collect()
}

fn colour_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "1;32",
        Verdict::Rounds => "1;33",
        Verdict::Errs => "1;31",
        Verdict::Note => "1;36",
    }
}

/// `── title ─────`
fn rule(title: &str, style: Style) -> String {
    let title = clip(title, style.width.saturating_sub(6));
    let rest = style.width.saturating_sub(title.width() + 4);
    format!("── {} {}", style.paint(BOLD, &title), "─".repeat(rest))
}

/// Text in a box with a name in its upper edge; the first line is bold.
fn boxed(name: &str, text: &str, style: Style) -> Vec<String> {
    let inner = style.width.saturating_sub(4);
    let name = clip(name, inner.saturating_sub(2));
    let mut lines = vec![format!("┌─ {name} {}┐", "─".repeat(style.width.saturating_sub(name.width() + 5)))];
    for (i, paragraph) in text.lines().enumerate() {
        for line in wrap(paragraph, inner) {
            let blank = " ".repeat(inner.saturating_sub(line.width()));
            let line = if i == 0 { style.paint(BOLD, &line) } else { line };
            lines.push(format!("│ {line}{blank} │"));
        }
    }
    lines.push(format!("└{}┘", "─".repeat(style.width.saturating_sub(2))));
    lines
}

/// A table; one that is too wide is cut into groups of columns, and each group says which columns it has.
pub fn table(table: &Table, style: Style) -> Vec<String> {
    let mut lines = if table.title.is_empty() { vec![] } else { wrap(&table.title, style.width) };
    let label_room = style.width / 3;
    let label = |row: &Row| clip(&row.label, label_room);
    let labels = table.rows.iter().map(|r| label(r).width()).chain([table.corner.width().min(label_room)]);
    let first = labels.max().unwrap_or(0);
    let room = style.width.saturating_sub(first + 2);
    let width_of = |j: usize| {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(j)).map(|c| c.shown().width());
        cells.chain([table.columns[j].width()]).max().unwrap_or(0).min(room.saturating_sub(2).max(4))
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width_of).collect();
    let mut start = 0;
    while start < widths.len().max(1) {
        let mut end = start;
        let mut used = 0;
        while end < widths.len() && (end == start || used + widths[end] + 2 <= room) {
            used += widths[end] + 2;
            end += 1;
        }
        if start > 0 {
            let (from, to) = (start + 1, end);
            lines.push(style.paint(DIM, &format!("columns {from} to {to} of {}", widths.len())));
        }
        let mut head = format!("  {}", pad_right(&clip(&table.corner, first), first));
        for j in start..end {
            let name = clip(&table.columns[j], widths[j]);
            let numeric = table.rows.iter().filter_map(|r| r.cells.get(j)).any(|c| c.value().is_some());
            head += "  ";
            head += &if numeric { pad_left(&name, widths[j]) } else { pad_right(&name, widths[j]) };
        }
        lines.push(style.paint(DIM, head.trim_end()));
        for row in &table.rows {
            let mut line = format!("  {}", pad_right(&label(row), first));
            for j in start..end {
                line += "  ";
                line += &row.cells.get(j).map_or(String::new(), |cell| drawn(cell, widths[j], table, j, style));
            }
            lines.push(line.trim_end().to_string());
        }
        start = end.max(start + 1);
    }
    lines
}

/// One cell in its place: numbers to the right, words to the left, weights on their colour where there is colour.
fn drawn(cell: &Cell, width: usize, table: &Table, column: usize, style: Style) -> String {
    let text = clip(&cell.shown(), width);
    let Some(value) = cell.value() else { return pad_right(&text, width) };
    let text = pad_left(&text, width);
    let sum = table.columns.get(column).is_some_and(|name| name == "Σ");
    if !(style.color && table.heat && value.is_finite()) || sum {
        return text;
    }
    let [r, g, b] = cividis(value);
    let ink = if lightness([r, g, b]) > 0.5 { "30" } else { "97" };
    format!("\x1b[{ink};48;2;{r};{g};{b}m{text}\x1b[0m")
}

fn compared(comparisons: &[Comparison], style: Style) -> Vec<String> {
    let row = |c: &Comparison| {
        let cells = [c.slide.clone(), c.shown.clone(), format!("{} {}", c.verdict.sign(), c.verdict.word())];
        (c.what.clone(), cells.map(Cell::Text).to_vec())
    };
    let columns = ["the slide", "computed", ""];
    table(&Table::of("", "", &columns, comparisons.iter().map(row).collect()), style)
}

/// Cut to so many columns, with a sign that something is missing.
pub fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut out = String::new();
    let mut used = 1; // the sign
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out + "…"
}

/// Blanks behind, up to so many columns.
pub fn pad_right(text: &str, width: usize) -> String {
    text.to_string() + &" ".repeat(width.saturating_sub(text.width()))
}

/// Blanks before, up to so many columns.
pub fn pad_left(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.width())) + text
}

/// Words in lines of at most `width` columns; a word that is longer is broken.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_string();
        loop {
            let line = lines.last_mut().expect("there is a line");
            let space = usize::from(!line.is_empty());
            if line.width() + space + word.width() <= width {
                if space == 1 {
                    line.push(' ');
                }
                line.push_str(&word);
                break;
            }
            if line.is_empty() {
                let fits = word
                    .chars()
                    .scan(0, |w, c| {
                        *w += c.width().unwrap_or(0);
                        Some(*w)
                    })
                    .take_while(|w| *w <= width);
                let at = word.char_indices().nth(fits.count().max(1)).map_or(word.len(), |(i, _)| i);
                line.push_str(&word[..at]);
                word = word[at..].to_string();
            }
            lines.push(String::new());
            if word.is_empty() {
                lines.pop();
                break;
            }
        }
    }
    lines
}

/// Wrapped text behind `head`, further lines indented as far.
fn hanging(head: &str, text: &str, width: usize) -> Vec<String> {
    let indent = head.width().min(width / 2);
    let wrapped = wrap(text, width.saturating_sub(indent));
    let line = |(i, line): (usize, String)| if i == 0 { format!("{head}{line}") } else { " ".repeat(indent) + &line };
    wrapped.into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Page {
        let long = "word ".repeat(60);
        let columns: Vec<String> = (0..30).map(|i| format!("k{i}")).collect();
        let values = vec![(0..30).map(|i| i as f64 / 30.0).collect::<Vec<_>>(); 3];
        Page::new("topic", "A title", &long)
            .section("numbers")
            .table(
                Table::matrix(
                    "wide",
                    &["एक", "two", "a very very very very very long name of a row"],
                    &columns,
                    &values,
                    3,
                )
                .weights(2),
            )
            .formula(&long)
            .expand("a cell", vec![long.clone()])
            .compare(vec![Comparison::new("x", "1.5", 1.5)])
            .verdict(Verdict::Errs, long)
    }

    #[test]
    fn no_line_is_wider_than_the_window() {
        for width in [32, 40, 60, 80, 120] {
            let text = page(&example(), Style::new(width, false));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(text.contains("k29") && text.contains("Σ"), "every column is there: {text}");
        }
        for topic in crate::explain::TOPICS {
            let page = topic.page().unwrap();
            for width in [60, 80, 120] {
                let text = self::page(&page, Style::new(width, false));
                let wide = text.lines().find(|line| line.width() > width);
                assert!(wide.is_none(), "{} in {width}: {wide:?}", topic.name);
            }
        }
    }

    #[test]
    fn without_colour_there_is_no_escape_and_with_it_the_same_words() {
        let (plain, coloured) = (page(&example(), Style::new(80, false)), page(&example(), Style::new(80, true)));
        assert!(!plain.contains('\x1b') && coloured.contains('\x1b'));
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            stripped += before;
            rest = after.split_once('m').map_or("", |(_, after)| after);
        }
        stripped += rest;
        let trim = |s: &str| s.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>();
        assert_eq!(trim(&stripped), trim(&plain));
    }
}
