//! A run as one page: its curves, its scores, what it says beside what it should say, and the recipe.

use crate::chart::{self, Chart};
use crate::frame::Frame;
use crate::table::Table;
use qkv_base::escape_html;
use std::fmt::Write;

/// What the page shows; empty parts are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// what made it, a small line at the top: `qkv train`
    pub kind: String,
    /// the name of the run
    pub title: String,
    /// one sentence under it
    pub summary: String,
    /// the few numbers that matter most, large
    pub facts: Vec<(String, String)>,
    /// curves
    pub charts: Vec<Chart>,
    /// scores
    pub tables: Vec<Table>,
    /// outputs
    pub samples: Vec<Sample>,
    /// the recipe as it was run
    pub recipe: String,
}

/// One example.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// what went in
    pub source: String,
    /// what should come out, where known
    pub expected: Option<String>,
    /// what came out
    pub got: String,
}

impl Report {
    /// The whole page.
    ///
    /// ```
    /// let page = qkv_report::Report { title: "a < b".into(), ..Default::default() }.html();
    /// assert!(page.starts_with("<!doctype html>") && page.contains("<h1>a &lt; b</h1>"));
    /// ```
    pub fn html(&self) -> String {
        let mut body = String::new();
        self.facts(&mut body);
        section(&mut body, "Curves", &self.charts, Chart::html);
        section(&mut body, "Scores", &self.tables, Table::html);
        section(&mut body, "Samples", &self.samples, Sample::html);
        if !self.recipe.is_empty() {
            let _ = writeln!(body, "<section><h2>Recipe</h2><pre>{}</pre></section>", escape_html(&self.recipe));
        }
        let frame = Frame::new(&self.kind, &self.title).lead(&self.summary);
        frame.style(&chart::style()).style(STYLE).page(&body)
    }

    fn facts(&self, out: &mut String) {
        if self.facts.is_empty() {
            return;
        }
        out.push_str("<dl class=\"facts\">");
        for (name, value) in &self.facts {
            let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape_html(name), escape_html(value));
        }
        out.push_str("</dl>\n");
    }
}

fn section<T>(out: &mut String, title: &str, parts: &[T], html: impl Fn(&T) -> String) {
    if !parts.is_empty() {
        let parts: String = parts.iter().map(html).collect();
        let _ = writeln!(out, "<section><h2>{title}</h2>{parts}</section>");
    }
}

impl Sample {
    fn html(&self) -> String {
        let line = |name: &str, text: &str| {
            let text = if text.is_empty() { "<i>(empty)</i>".to_string() } else { escape_html(text) };
            // Scripts written from the right stand as they should: each line finds its own direction.
            format!("<div><dt>{name}</dt><dd dir=\"auto\">{text}</dd></div>")
        };
        // A sign beside the colour, for who does not see it.
        let (class, sign, expected) = match &self.expected {
            None => ("", "got", String::new()),
            Some(expected) if *expected == self.got => (" right", "✓ got", line("expected", expected)),
            Some(expected) => (" wrong", "✗ got", line("expected", expected)),
        };
        let got = line(sign, &self.got);
        format!("<dl class=\"sample{class}\">{}{expected}{got}</dl>", line("source", &self.source))
    }
}

const STYLE: &str = "
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .7rem; margin: 1.4rem 0 0; }
.facts div, .sample { background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
.facts div { padding: .6rem .8rem; }
.facts dt { color: var(--soft); font-size: .85rem; }
.facts dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.sample { margin: 0 0 .7rem; padding: .6rem .8rem; border-left: 4px solid var(--line); }
.sample.right { border-left-color: var(--good); }
.sample.wrong { border-left-color: var(--bad); }
.sample div { display: flex; gap: .8rem; }
.sample dt { flex: 0 0 4.5rem; color: var(--soft); font-size: .85rem; line-height: 1.75; }
.sample dd { flex: 1; margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
@media (max-width: 34rem) { .sample div { display: block; } }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, Series};

    fn page() -> String {
        let evil = "<script>alert('x')</script>\" onload=\"\0";
        let points = (0..50).map(|i| (f64::from(i), f64::from(i).sin())).collect();
        Report {
            kind: evil.into(),
            title: evil.into(),
            summary: evil.into(),
            facts: vec![(evil.into(), evil.into())],
            charts: vec![Chart {
                title: evil.into(),
                series: vec![Series { name: evil.into(), points }; 2],
                scale: Scale::Linear,
                across: evil.into(),
            }],
            tables: vec![Table {
                title: evil.into(),
                head: vec![evil.into()],
                rows: vec![vec![evil.into(), "93.1 %".into()]],
            }],
            samples: vec![Sample { source: evil.into(), expected: Some(evil.into()), got: evil.into() }],
            recipe: evil.into(),
        }
        .html()
    }

    #[test]
    fn fault_45_text_stays_text() {
        let page = page();
        assert!(!page.contains("<script") && !page.contains("\" onload") && !page.contains('\0'));
    }

    #[test]
    fn nothing_is_fetched() {
        let page = page();
        assert!(["http:", "https:", "src=", "href=", "url(", "@import"].iter().all(|word| !page.contains(word)));
    }

    #[test]
    fn every_tag_is_closed() {
        let (page, mut open) = (page(), vec![]);
        for tag in page.split('<').skip(1).filter_map(|part| part.split('>').next()) {
            let name = tag.split_whitespace().next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{open:?}"),
                None if tag.ends_with('/') || ["meta", "!doctype"].contains(&name) => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn right_and_wrong_differ() {
        let sample = |expected: Option<&str>| {
            Sample { source: "a".into(), expected: expected.map(str::to_string), got: "b".into() }.html()
        };
        assert!(sample(Some("b")).contains("sample right") && sample(Some("c")).contains("sample wrong"));
        assert!(sample(None).contains("\"sample\""));
    }
}
