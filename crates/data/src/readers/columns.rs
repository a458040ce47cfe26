//! Which column of a table is what: as said, else by name, else by order where there are as many columns as fields.
//!
//! Names that are not understood are never guessed: `id,Review Body,Stars (0-1),date` is refused, and the hint says what looks
//! like the text and like the label. A first row that is a header of other names (`comment,stars`) is told from data by its
//! label, which no other row has while theirs repeat.

use super::{Column, Header, Reader, fields};
use crate::example::Field;
use crate::{Error, Result, Task};
use std::collections::BTreeSet;

/// So many rows are looked at for a guess.
pub(super) const SAMPLE: usize = 200;

/// Is the first row a header?
pub(super) fn is_header(reader: &Reader, columns: &[String]) -> bool {
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    match reader.header {
        Header::Yes => true,
        Header::No => false,
        Header::Detect if reader.columns.values().any(|c| matches!(c, Column::Named(_))) => true,
        Header::Detect => crate::fields(reader.task).iter().any(|field| fields::find(field, &columns).is_some()),
    }
}

/// What was decided about the first row, in words.
pub(super) fn header_note(said: Header, header: bool, columns: &[String]) -> String {
    let how = if said == Header::Detect { "taken" } else { "read as told" };
    match header {
        true => format!("first row {how} as a header: {}", columns.join(", ")),
        false => format!("first row {how} as data: no header"),
    }
}

/// The column of each field. `sample` gives some rows behind the first, and is asked only where something is not clear.
pub(super) fn pick(
    reader: &Reader,
    place: &str,
    columns: &[String],
    header: bool,
    sample: &dyn Fn() -> Vec<Vec<String>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<usize>>> {
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let wanted = crate::fields(reader.task);
    let by_order = !header || (reader.columns.is_empty() && wanted.iter().all(|f| fields::find(f, &names).is_none()));
    if by_order && reader.columns.is_empty() {
        refuse_guess(reader, place, columns, header, sample)?;
    }
    if header && by_order {
        let pairs: Vec<String> = wanted.iter().zip(&names).map(|(f, c)| format!("{c} → {}", f.name)).collect();
        notes.push(format!("columns taken in order: {}", pairs.join(", ")));
    }
    let mut picks = Vec::with_capacity(wanted.len());
    for (i, field) in wanted.iter().enumerate() {
        let found = match reader.columns.get(field.name) {
            Some(Column::At(at)) => Some(*at).filter(|at| *at < columns.len()),
            Some(Column::Named(name)) => names.iter().position(|c| c.trim() == name),
            None if by_order => Some(i).filter(|i| *i < columns.len()),
            None => fields::find(field, &names),
        };
        if found.is_none() && (!field.optional || reader.columns.contains_key(field.name)) {
            return Err(match reader.columns.get(field.name) {
                Some(Column::Named(name)) => fields::missing(place, name, field, &names),
                Some(Column::At(at)) => too_few(place, *at, columns.len(), field.name),
                None if by_order => too_few(place, i, columns.len(), field.name),
                None => not_named(place, field.name, &names, &guess(wanted, columns, header, &sample())),
            });
        }
        picks.push(found);
    }
    Ok(picks)
}

/// Refuses a table whose columns nothing tells apart.
fn refuse_guess(
    reader: &Reader,
    place: &str,
    columns: &[String],
    header: bool,
    sample: &dyn Fn() -> Vec<Vec<String>>,
) -> Result<()> {
    let wanted = crate::fields(reader.task);
    if columns.len() > wanted.len() {
        let rows = sample();
        let what = format!(
            "{} columns, and none is called {}: {}",
            columns.len(),
            listed(wanted.iter().filter(|f| !f.optional).map(|f| format!("`{}`", f.name))),
            columns.join(", ")
        );
        let header = header || (reader.header == Header::Detect && has_names(columns, &rows));
        return Err(Error::new(place, what, told(&guess(wanted, columns, header, &rows))));
    }
    let labelled = matches!(reader.task, Task::Classify | Task::ClassifyPair) && reader.header == Header::Detect;
    let label = wanted.iter().position(|f| f.name == "label");
    if let (true, false, Some(at)) = (labelled, header, label.filter(|at| *at < columns.len())) {
        let rows = sample();
        let others: Vec<&str> = rows.iter().filter_map(|row| row.get(at)).map(|c| c.trim()).collect();
        let distinct: BTreeSet<&str> = others.iter().copied().collect();
        let first = columns.get(at).map_or("", |c| c.trim());
        // Labels repeat, the name of their column does not.
        if others.len() >= 10 && distinct.len() * 3 <= others.len() && !distinct.contains(first) {
            let what =
                format!("is the first row a header? no other row has the label `{first}`: {}", columns.join(", "));
            let number = |(i, f): (usize, &Field)| format!("--column {}={}", f.name, i + 1);
            let numbers: Vec<String> = wanted.iter().enumerate().map(number).collect();
            let names = told(&guess(wanted, columns, true, &rows));
            let hint = format!("{names}; if it is a row like the others: {}", numbers.join(" "));
            return Err(Error::new(place, what, hint));
        }
    }
    Ok(())
}

/// A header holds short names that all differ, and no numbers.
fn has_names(columns: &[String], rows: &[Vec<String>]) -> bool {
    let differ = columns.iter().collect::<BTreeSet<_>>().len() == columns.len();
    let plain = |c: &String| !c.trim().is_empty() && c.len() < 40 && c.trim().parse::<f64>().is_err();
    let again = rows.iter().any(|row| row.iter().zip(columns).any(|(cell, name)| cell == name));
    differ && columns.iter().all(plain) && !again
}

/// For each field the column that looks most like it, by its name (or its number, where there is no header).
///
/// A label is the column with the fewest different values, a text one with the longest cells.
fn guess<'a>(wanted: &'a [Field], columns: &[String], header: bool, rows: &[Vec<String>]) -> Vec<(&'a str, String)> {
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(|c| c.trim());
    let different = |at: usize| cells(at).collect::<BTreeSet<_>>().len();
    let length = |at: usize| cells(at).map(str::len).sum::<usize>();
    let mut free: Vec<usize> = (0..columns.len()).collect();
    let mut found: Vec<(usize, usize)> = vec![];
    let needed: Vec<(usize, &Field)> = wanted.iter().enumerate().filter(|(_, f)| !f.optional).collect();
    let (labels, texts): (Vec<_>, Vec<_>) = needed.into_iter().partition(|(_, f)| f.name == "label");
    // Texts first, in the order of the file: the longest columns.
    let mut longest = free.clone();
    longest.sort_by_key(|at| std::cmp::Reverse(length(*at)));
    longest.truncate(texts.len());
    longest.sort_unstable();
    for ((field, _), at) in texts.iter().zip(longest) {
        found.push((*field, at));
        free.retain(|f| *f != at);
    }
    for (field, _) in labels {
        // Of as many values the nearer to the end: labels stand behind what they label. One value tells nothing.
        let best = free.iter().copied().min_by_key(|at| (different(*at) < 2, different(*at), std::cmp::Reverse(*at)));
        found.extend(best.map(|at| (field, at)));
    }
    found.sort_unstable();
    let name = |at: usize| match columns.get(at) {
        Some(name) if header => name.trim().to_string(),
        _ => (at + 1).to_string(),
    };
    found.into_iter().filter_map(|(field, at)| Some((wanted.get(field)?.name, name(at)))).collect()
}

/// A guess as flags.
fn told(guess: &[(&str, String)]) -> String {
    let flag = |(field, name): &(&str, String)| match name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    {
        true => format!("--column {field}={name}"),
        false => format!("--column \"{field}={name}\""),
    };
    format!("say which is which; perhaps {}", guess.iter().map(flag).collect::<Vec<_>>().join(" "))
}

fn not_named(place: &str, field: &str, names: &[&str], guess: &[(&str, String)]) -> Error {
    let what = format!("no column `{field}`; there are: {}", names.join(", "));
    let one: Vec<(&str, String)> = guess.iter().filter(|(name, _)| *name == field).cloned().collect();
    Error::new(place, what, told(&one))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(" or ")
}

fn too_few(place: &str, at: usize, width: usize, name: &str) -> Error {
    let what = format!("`{name}` should be column {} but the row has {width}", at + 1);
    let hint = "is it separated by tabs (.tsv) or commas (.csv)? name the format, or the column: --column NAME=N";
    Error::new(format!("{place}, column {}", at + 1), what, hint)
}

#[cfg(test)]
mod tests {
    use crate::{Example, Reader, Task, read};

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("rows.csv");
        std::fs::write(&path, text).expect("written");
        (dir, path)
    }

    fn reviews(header: &str) -> String {
        let row = |i: usize| format!("{i},the film number {i} was long,{},2024-01-{:02}\n", i % 2, 1 + i % 28);
        format!("{header}{}", (0..40).map(row).collect::<String>())
    }

    #[test]
    fn names_that_are_not_understood_are_refused_with_a_guess() {
        let (_dir, path) = file(&reviews("id,Review Body,Stars (0-1),date\n"));
        let error = read(&path, Task::Classify).expect_err("not guessed");
        assert!(error.what.starts_with("4 columns, and none is called `text` or `label`: id, Review Body"), "{error}");
        assert_eq!(
            error.hint,
            "say which is which; perhaps --column \"text=Review Body\" --column \"label=Stars (0-1)\""
        );
        let said =
            Reader::new(Task::Classify).column("text", "Review Body").and_then(|r| r.column("label", "Stars (0-1)"));
        let opened = said.expect("fields").open(&path).expect("read");
        assert_eq!(opened.corpus.get(1).expect("a row"), Example::labelled("the film number 1 was long", "1"));
    }

    #[test]
    fn without_a_header_columns_are_named_by_number() {
        let (_dir, path) = file(&reviews(""));
        let error = read(&path, Task::Classify).expect_err("not guessed");
        assert!(error.hint.ends_with("--column text=2 --column label=3"), "{}", error.hint);
        let said = Reader::new(Task::Classify).column("text", "2").and_then(|r| r.column("label", "3"));
        assert_eq!(said.expect("fields").open(&path).expect("read").tally.rows, 40);
    }

    #[test]
    fn one_name_of_two_gives_a_guess_for_the_other() {
        let (_dir, path) = file(&reviews("id,text,Stars,date\n"));
        let error = read(&path, Task::Classify).expect_err("not guessed");
        assert!(error.what.starts_with("no column `label`"), "{error}");
        assert!(error.hint.ends_with("--column label=Stars"), "{}", error.hint);
    }

    #[test]
    fn a_header_of_two_other_names_is_not_taken_as_a_row() {
        let rows: String = (0..30).map(|i| format!("film {i},{}\n", i % 2)).collect();
        let (_dir, path) = file(&format!("comment,stars\n{rows}"));
        let error = read(&path, Task::Classify).expect_err("a header");
        assert!(error.what.contains("no other row has the label `stars`"), "{error}");
        assert!(error.hint.contains("--column text=comment --column label=stars"), "{}", error.hint);
        let (_dir, path) = file(&rows);
        assert_eq!(read(&path, Task::Classify).expect("plain rows").tally.rows, 30);
    }
}
