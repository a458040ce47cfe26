//! A page of `explain` as one HTML file, in the frame that all pages share.

use crate::page::{Block, Cell, Page, Table};
use crate::render::color::{cividis, hex, lightness};
use qkv_base::escape_html;
use qkv_report::{Frame, Shown, scrolling};
use std::fmt::Write;

const STYLE: &str = "
.shapes { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-family: ui-monospace, monospace; }
.shapes dt { color: var(--soft); } .shapes dd { margin: 0; }
";

/// A page as one file, with a picture (SVG) where there is one: under the formula and the shapes, before the numbers.
pub fn page(page: &Page, picture: Option<&str>) -> String {
    let mut out = String::new();
    let before = |b: &Block| matches!(b, Block::Formula { .. } | Block::Shapes { .. });
    let numbers = page.blocks.iter().position(|b| !before(b)).unwrap_or(page.blocks.len());
    for (i, block) in page.blocks.iter().enumerate() {
        if let (true, Some(svg)) = (i == numbers, picture) {
            out += &scrolling(&format!("{}, drawn", page.title), &format!("<div class=\"picture\">{svg}</div>"));
        }
        self::block(block, &mut out);
    }
    Frame::new(&format!("qkv explain {}", page.topic), &page.title).lead(&page.idea).style(STYLE).page(&out)
}

fn block(block: &Block, out: &mut String) {
    let text = |t: &str| escape_html(t);
    let _ = match block {
        Block::Section { title } => writeln!(out, "<h2>{}</h2>", text(title)),
        Block::Text { text: words } => writeln!(out, "<p>{}</p>", text(words)),
        Block::Formula { formula } => writeln!(out, "<pre class=\"formula\">{}</pre>", text(formula)),
        Block::Shapes { shapes } => {
            let each = |s: &crate::page::Shape| format!("<dt>{}</dt><dd>{}</dd>", text(&s.name), text(&s.shape));
            writeln!(out, "<dl class=\"shapes\">{}</dl>", shapes.iter().map(each).collect::<String>())
        }
        Block::Table(table) => writeln!(out, "{}", self::table(table)),
        Block::Expansion { of, steps } => {
            let lines: Vec<String> = steps.iter().map(|s| text(s)).collect();
            writeln!(
                out,
                "<figure class=\"expansion\"><figcaption>{}</figcaption><pre>{}</pre></figure>",
                text(of),
                lines.join("\n")
            )
        }
        Block::Comparisons { comparisons } => {
            let row = |c: &crate::page::Comparison| {
                let sign = format!("{} {}", c.verdict.sign(), c.verdict.word());
                (c.what.clone(), [c.slide.clone(), c.shown.clone(), sign].map(Cell::Text).to_vec())
            };
            let columns = ["the slide", "computed", "verdict"];
            let all = Table::of("The slide's numbers", "number", &columns, comparisons.iter().map(row).collect());
            writeln!(out, "{}", self::table(&all))
        }
        Block::Verdict { verdict, text: words } => {
            let (sign, word) = (verdict.sign(), verdict.word());
            writeln!(out, "<p class=\"verdict\"><strong>{sign} {word}:</strong> {}</p>", text(words))
        }
    };
}

/// A table; weights are coloured too.
pub fn table(table: &Table) -> String {
    let cell = |(j, cell): (usize, &Cell)| {
        let sum = table.columns.get(j).is_some_and(|name| name == "Σ");
        let shade = cell.value().filter(|v| table.heat && v.is_finite() && !sum).map(|v| {
            let colour = cividis(v);
            [hex(colour), if lightness(colour) > 0.5 { "#000000" } else { "#ffffff" }.into()]
        });
        Shown { text: cell.shown(), number: cell.value().is_some(), shade }
    };
    let row = |row: &crate::page::Row| (row.label.clone(), row.cells.iter().enumerate().map(cell).collect());
    let head: Vec<String> = std::iter::once(&table.corner).chain(&table.columns).cloned().collect();
    qkv_report::table(&table.title, &head, table.rows.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_for_nothing_and_escapes_what_it_is_given() {
        let table = Table::matrix("<b>", &["a&b"], &["x"], &[vec![0.5]], 1).weights(1);
        let html = page(&Page::new("t", "a < b", "\"idea\"").table(table), None);
        assert!(html.contains("a &lt; b") && html.contains("a&amp;b") && !html.contains("<b>"));
        assert!(
            html.contains("default-src 'none'; style-src") && !html.contains("http://") && !html.contains("<script")
        );
    }
}
