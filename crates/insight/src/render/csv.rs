//! Tables for a spreadsheet: each with its title, the names of its columns and its rows; an empty line between two. What a
//! slide says beside what comes out is a table too. Numbers stand as computed, not as shown.

use crate::page::{Block, Cell, Page, Table};
use qkv_base::{Error, Result};

/// Every table of a page.
pub fn page(page: &Page) -> Result<String> {
    let mut parts = vec![];
    for block in &page.blocks {
        match block {
            Block::Table(table) => parts.push(rows(table)),
            Block::Comparisons { comparisons } => {
                let head = ["what", "slide", "computed", "verdict"].map(String::from).to_vec();
                let lines = comparisons
                    .iter()
                    .map(|c| vec![c.what.clone(), c.slide.clone(), c.computed.to_string(), c.verdict.word().into()]);
                parts.push(std::iter::once(head).chain(lines).collect());
            }
            _ => {}
        }
    }
    write(&parts)
}

/// Some tables.
pub fn tables(tables: &[Table]) -> Result<String> {
    write(&tables.iter().map(rows).collect::<Vec<_>>())
}

fn rows(table: &Table) -> Vec<Vec<String>> {
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number { value, .. } => value.to_string(),
        Cell::Count(n) => n.to_string(),
    };
    let mut all = if table.title.is_empty() { vec![] } else { vec![vec![table.title.clone()]] };
    all.push(std::iter::once(table.corner.clone()).chain(table.columns.iter().cloned()).collect());
    let row = |r: &crate::page::Row| std::iter::once(r.label.clone()).chain(r.cells.iter().map(cell)).collect();
    all.extend(table.rows.iter().map(row));
    all
}

fn write(parts: &[Vec<Vec<String>>]) -> Result<String> {
    let fault = |e: String| Error::internal("csv", e);
    let mut texts = vec![];
    for part in parts {
        let mut out = csv::WriterBuilder::new().flexible(true).from_writer(vec![]);
        for line in part {
            out.write_record(line).map_err(|e| fault(e.to_string()))?;
        }
        let bytes = out.into_inner().map_err(|e| fault(e.to_string()))?;
        texts.push(String::from_utf8(bytes).map_err(|e| fault(e.to_string()))?);
    }
    Ok(texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_quotes_stay_in_their_cell() {
        let table = Table::of("a, b", "row", &["x"], vec![("say \"hi\"", vec![Cell::number(0.1, 2)])]);
        assert_eq!(tables(&[table]).unwrap(), "\"a, b\"\nrow,x\n\"say \"\"hi\"\"\",0.1\n");
    }
}
