//! One HTML file that loads nothing: the frame (head, style, policy) that pages and pictures of models share, and a page
//! in it. Opens from a disk, light or dark as the reader likes, prints, and reads well without colour.

use crate::page::{Block, Cell, Page, Table};
use crate::render::color::{cividis, hex, lightness};
use qkv_base::escape_html;
use std::fmt::Write;

/// The looks of every page.
const STYLE: &str = include_str!("page.css");

/// A whole file around `body`; `scripts` says whether the page has any of its own.
pub fn frame(title: &str, body: &str, scripts: bool) -> String {
    let allowed = if scripts { "script-src 'unsafe-inline'; " } else { "" };
    let title = escape_html(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {allowed}style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
}

/// A page as one file.
pub fn page(page: &Page) -> String {
    let mut out = format!(
        "<main>\n<header><p class=\"topic\">{}</p><h1>{}</h1><p class=\"idea\">{}</p></header>\n",
        escape_html(&page.topic),
        escape_html(&page.title),
        escape_html(&page.idea)
    );
    for block in &page.blocks {
        self::block(block, &mut out);
    }
    let _ = write!(out, "<footer>qkv {}</footer>\n</main>", env!("CARGO_PKG_VERSION"));
    frame(&page.title, &out, false)
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

/// A table that scrolls by itself where the window is narrow, so that the page does not.
pub fn table(table: &Table) -> String {
    let head = |name: &String| format!("<th scope=\"col\">{}</th>", escape_html(name));
    let cell = |(j, cell): (usize, &Cell)| {
        let shown = escape_html(&cell.shown());
        let sum = table.columns.get(j).is_some_and(|name| name == "Σ");
        match cell.value() {
            Some(v) if table.heat && v.is_finite() && !sum => {
                let colour = cividis(v);
                let ink = if lightness(colour) > 0.5 { "#000" } else { "#fff" };
                format!("<td class=\"n\" style=\"background:{};color:{ink}\">{shown}</td>", hex(colour))
            }
            Some(_) => format!("<td class=\"n\">{shown}</td>"),
            None => format!("<td>{shown}</td>"),
        }
    };
    let row = |row: &crate::page::Row| {
        let cells: String = row.cells.iter().enumerate().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escape_html(&row.label))
    };
    let title = if table.title.is_empty() {
        String::new()
    } else {
        format!("<caption>{}</caption>", escape_html(&table.title))
    };
    let name = if table.title.is_empty() { "numbers" } else { &table.title };
    let corner = if table.corner.is_empty() { "<td></td>".into() } else { head(&table.corner) };
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" \
        aria-label=\"{}\"><table>{title}<thead><tr>{corner}{}</tr></thead><tbody>{}</tbody></table></div>",
        escape_html(name),
        table.columns.iter().map(head).collect::<String>(),
        table.rows.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_for_nothing_and_escapes_what_it_is_given() {
        let table = Table::matrix("<b>", &["a&b"], &["x"], &[vec![0.5]], 1).weights(1);
        let html = page(&Page::new("t", "a < b", "\"idea\"").table(table));
        assert!(html.contains("a &lt; b") && html.contains("a&amp;b") && !html.contains("<b>"));
        assert!(
            html.contains("default-src 'none'; style-src") && !html.contains("http://") && !html.contains("<script")
        );
    }
}
