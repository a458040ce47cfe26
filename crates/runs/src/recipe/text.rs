//! A recipe as text: a key is set and the comments stay; what the parser complains of is said in our words.

use qkv_base::{Error, Result, nearest};

/// The text with `section.key` set to `value`, comments kept. The value is TOML where it can be read as such, and a
/// string otherwise.
///
/// ```
/// let text = qkv_runs::recipe::set("[train]\nsteps = 9 # how many\n", "train.steps=12")?;
/// assert_eq!(text, "[train]\nsteps = 12 # how many\n");
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn set(text: &str, assignment: &str) -> Result<String> {
    let usage = || {
        Error::new(
            format!("--set {assignment}"),
            "is not an assignment",
            "write section.key=value, as in train.steps=100",
        )
    };
    let (path, value) = assignment.split_once('=').ok_or_else(usage)?;
    let (section, key) = path.trim().split_once('.').ok_or_else(usage)?;
    let value = value.trim();
    let known = toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok();
    let value = if known { value.to_string() } else { toml::Value::String(value.into()).to_string() };
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let header = format!("[{section}]");
    let start = lines.iter().position(|line| line.trim() == header);
    let Some(start) = start else {
        lines.extend(["".into(), header, format!("{key} = {value}")]);
        return Ok(lines.join("\n") + "\n");
    };
    let end =
        lines.iter().skip(start + 1).position(|l| l.trim().starts_with('[')).map_or(lines.len(), |n| start + 1 + n);
    let is_key = |line: &String| line.split_once('=').is_some_and(|(k, _)| k.trim() == key);
    match lines[start + 1..end].iter().position(is_key) {
        Some(at) => {
            let line = &mut lines[start + 1 + at];
            let comment = comment_of(line).map_or(String::new(), |c| format!(" {c}"));
            *line = format!("{key} = {value}{comment}");
        }
        None => lines.insert(start + 1, format!("{key} = {value}")),
    }
    Ok(lines.join("\n") + "\n")
}

/// A recipe with every key: the head of `text`, then all that there is to say, with the values of `recipe` and what they mean.
pub fn full(text: &str, recipe: &super::Recipe) -> Result<String> {
    let broken = |e: toml::ser::Error| Error::internal("recipe", e.to_string());
    let values = toml::Table::try_from(recipe).map_err(broken)?;
    let mut lines: Vec<String> = text.lines().take_while(|line| line.starts_with('#')).map(String::from).collect();
    let mut section = String::new();
    for line in super::EVERY_KEY.lines().skip_while(|line| line.starts_with('#')) {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_string();
        }
        let key = line.split_once(" = ").map(|(key, _)| key.trim());
        let value = key.and_then(|key| values.get(&section)?.get(key));
        lines.push(match (key, value) {
            (Some(key), Some(value)) => {
                let value = match value {
                    toml::Value::Float(number) => shortest(*number),
                    other => other.to_string(),
                };
                let said = format!("{key} = {value}");
                format!("{said:<27} {}", comment_of(line).unwrap_or_default()).trim_end().to_string()
            }
            _ => line.to_string(),
        });
    }
    Ok(lines.join("\n") + "\n")
}

/// The fewest digits that are this number again: 0.9 that was kept in 32 bits is 0.9, not 0.8999999761581421.
fn shortest(number: f64) -> String {
    let short = number as f32;
    if f64::from(short) == number { format!("{short:?}") } else { format!("{number:?}") }
}

/// The comment at the end of a line, outside of quotes.
pub(super) fn comment_of(line: &str) -> Option<&str> {
    let mut quoted = false;
    let at = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    at.map(|(i, _)| line[i..].trim_end())
}

/// A parser's complaint in our words: which line, what, and the nearest name.
pub(super) fn told(place: &str, text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|s| text.get(..s.start).unwrap_or("").lines().count().max(1));
    let line = match error.span() {
        Some(span) if text.get(..span.start).is_some_and(|t| t.ends_with('\n')) => line.map(|n| n + 1),
        _ => line,
    };
    let place = line.map_or(place.to_string(), |line| format!("{place}, line {line}"));
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field") || message.starts_with("unknown variant"), quoted.next()) {
        (true, Some(wrong)) => {
            let known: Vec<&str> = quoted.collect();
            let near = nearest(wrong, known.iter().copied()).unwrap_or_default();
            let kind = if message.starts_with("unknown field") { "key" } else { "choice" };
            let hint = format!("did you mean `{near}`? there are {}", known.join(", "));
            Error::new(place, format!("there is no {kind} `{wrong}` here"), hint)
        }
        _ => Error::new(place, message.to_string(), "a recipe is TOML: [section], then key = value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_finds_its_place() {
        let text = "[a]\nx = 1\n[train]\nseed = 3\n";
        assert_eq!(set(text, "train.steps=5").unwrap(), "[a]\nx = 1\n[train]\nsteps = 5\nseed = 3\n");
        assert_eq!(set(text, "data.corpus=my file.tsv").unwrap().lines().last(), Some("corpus = \"my file.tsv\""));
        assert_eq!(set("[d]\nc = \"a#b\" # why", "d.c=\"z\"").unwrap(), "[d]\nc = \"z\" # why\n");
        assert!(set(text, "steps").is_err() && set(text, "steps=1").is_err());
    }
}
