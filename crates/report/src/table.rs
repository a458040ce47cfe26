//! Tables. The first column names the rows; numbers align to the right; a table that is wider than the window scrolls by itself,
//! so that the page does not, and can be reached by keys.

use qkv_base::escape_html;

/// A table of texts; cells that are numbers align to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// what it shows
    pub title: String,
    /// the names of the columns
    pub head: Vec<String>,
    /// the rows; the first cell is the name of its row
    pub rows: Vec<Vec<String>>,
}

/// A cell as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// its text
    pub text: String,
    /// whether it stands to the right
    pub number: bool,
    /// ground and ink (`#rrggbb`), where its value is shown by a colour too
    pub shade: Option<[String; 2]>,
}

impl Shown {
    /// A text, to the right if it is a number.
    pub fn of(text: &str) -> Self {
        let word = text.trim_end_matches([' ', '%']).split_whitespace().next().map(|t| t.replace([',', '−'], ""));
        Self { text: text.into(), number: word.is_some_and(|t| t.parse::<f64>().is_ok()), shade: None }
    }

    fn html(&self) -> String {
        // A sentence may be broken, a number or a word must not.
        let class = match (self.number, self.text.chars().count() > 64) {
            (true, _) => " class=\"n\"",
            (false, true) => " class=\"words\"",
            (false, false) => "",
        };
        let style = self.shade.as_ref().map(|[ground, ink]| format!(" style=\"background:{ground};color:{ink}\""));
        format!("<td{class}{}>{}</td>", style.unwrap_or_default(), escape_html(&self.text))
    }
}

impl Table {
    /// As HTML.
    pub fn html(&self) -> String {
        let row = |cells: &Vec<String>| {
            let shown = cells.iter().skip(1).map(|text| Shown::of(text)).collect();
            (cells.first().cloned().unwrap_or_default(), shown)
        };
        table(&self.title, &self.head, self.rows.iter().map(row))
    }
}

/// Rows with their names under these heads (the first is that of the names; none: no heads at all).
pub fn table(title: &str, head: &[String], rows: impl Iterator<Item = (String, Vec<Shown>)>) -> String {
    let rows: Vec<(String, Vec<Shown>)> = rows.collect();
    // The head of a column of numbers stands to the right as they do; a head without words is no head.
    let numbers = |j: usize| j > 0 && rows.iter().any(|(_, cells)| cells.get(j - 1).is_some_and(|cell| cell.number));
    let name = |(j, text): (usize, &String)| match (text.is_empty(), numbers(j)) {
        (true, _) => "<td></td>".to_string(),
        (false, true) => format!("<th scope=\"col\" class=\"n\">{}</th>", escape_html(text)),
        (false, false) => format!("<th scope=\"col\">{}</th>", escape_html(text)),
    };
    let row = |(name, cells): &(String, Vec<Shown>)| {
        let cells: String = cells.iter().map(Shown::html).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>", escape_html(name))
    };
    let caption = if title.is_empty() { String::new() } else { format!("<caption>{}</caption>", escape_html(title)) };
    let head = match head {
        [] => String::new(),
        head => format!("<thead><tr>{}</tr></thead>", head.iter().enumerate().map(name).collect::<String>()),
    };
    let rows: String = rows.iter().map(row).collect();
    let label = if title.is_empty() { "numbers" } else { title };
    scrolling(label, &format!("<table>{caption}{head}<tbody>{rows}</tbody></table>"))
}

/// Something wide (HTML) that scrolls by itself, with a name for who cannot see it.
pub fn scrolling(label: &str, html: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{html}</div>\n", escape_html(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_rows_have_names() {
        let words = |cells: &[&str]| cells.iter().map(|c| c.to_string()).collect::<Vec<_>>();
        let table = Table {
            title: "<t>".into(),
            head: words(&["", "score"]),
            rows: vec![words(&["test", "93.1 %"]), words(&["other", "not a number"])],
        };
        let html = table.html();
        assert!(html.contains("<caption>&lt;t&gt;</caption>") && html.contains("aria-label=\"&lt;t&gt;\""));
        assert!(html.contains("<td></td><th scope=\"col\" class=\"n\">score</th>"));
        assert!(html.contains("<th scope=\"row\">test</th><td class=\"n\">93.1 %</td>"));
        assert!(html.contains("<td>not a number</td>"));
        assert!(Shown::of("−1,234.5").number && Shown::of("3 min").number && !Shown::of("e").number);
    }
}
