//! A run as one page: its curves, its scores, what it says beside what it should say, and the recipe. One file with
//! nothing to load, readable on a phone, light or dark as the reader likes.

use qkv_base::escape_html;
use std::fmt::Write;

use crate::chart::{COLOURS, Chart};

/// What the page shows; empty parts are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
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

/// A table; cells that are numbers align to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// what it shows
    pub title: String,
    /// the names of the columns
    pub head: Vec<String>,
    /// the rows
    pub rows: Vec<Vec<String>>,
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
    /// let page = qkv_metric::Report { title: "a < b".into(), ..Default::default() }.html();
    /// assert!(page.starts_with("<!doctype html>") && page.contains("<h1>a &lt; b</h1>"));
    /// ```
    pub fn html(&self) -> String {
        let title = escape_html(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
            <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n<style>{}{}</style></head>\n<body><main>\n<header><h1>{title}</h1>",
            STYLE,
            series_colours()
        );
        if !self.summary.is_empty() {
            let _ = write!(out, "<p>{}</p>", escape_html(&self.summary));
        }
        out.push_str("</header>\n");
        self.facts(&mut out);
        section(&mut out, "Curves", &self.charts, Chart::html);
        section(&mut out, "Scores", &self.tables, Table::html);
        section(&mut out, "Samples", &self.samples, Sample::html);
        if !self.recipe.is_empty() {
            let _ = writeln!(out, "<section><h2>Recipe</h2><pre>{}</pre></section>", escape_html(&self.recipe));
        }
        let _ = write!(out, "<footer>qkv {}</footer>\n</main></body></html>\n", env!("CARGO_PKG_VERSION"));
        out
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

impl Table {
    fn html(&self) -> String {
        let cell = |tag: &str, text: &str| {
            let number =
                text.trim_end_matches([' ', '%']).split_whitespace().next().is_some_and(|t| t.parse::<f64>().is_ok());
            format!("<{tag}{}>{}</{tag}>", if number { " class=\"n\"" } else { "" }, escape_html(text))
        };
        let row = |tag: &str, cells: &[String]| {
            format!("<tr>{}</tr>", cells.iter().map(|text| cell(tag, text)).collect::<String>())
        };
        let rows: String = self.rows.iter().map(|cells| row("td", cells)).collect();
        let head =
            if self.head.is_empty() { String::new() } else { format!("<thead>{}</thead>", row("th", &self.head)) };
        let title = escape_html(&self.title);
        format!("<h3>{title}</h3><div class=\"scroll\"><table>{head}<tbody>{rows}</tbody></table></div>")
    }
}

impl Sample {
    fn html(&self) -> String {
        let line = |name: &str, text: &str| {
            let text = if text.is_empty() { "<i>(empty)</i>".to_string() } else { escape_html(text) };
            // Scripts written from the right stand as they should: each line finds its own direction.
            format!("<div><dt>{name}</dt><dd dir=\"auto\">{text}</dd></div>")
        };
        let (class, expected) = match &self.expected {
            None => ("", String::new()),
            Some(expected) if *expected == self.got => (" right", line("expected", expected)),
            Some(expected) => (" wrong", line("expected", expected)),
        };
        let got = line("got", &self.got);
        format!("<dl class=\"sample{class}\">{}{expected}{got}</dl>", line("source", &self.source))
    }
}

/// One rule per curve: its line, its points and its key in the legend.
fn series_colours() -> String {
    let rule = |i| {
        format!(
            "path.c{i}{{stroke:var(--s{i})}}circle.c{i}:hover{{fill:var(--s{i})}}.key.c{i}::before{{background:var(--s{i})}}\n"
        )
    };
    (0..COLOURS).map(rule).collect()
}

const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fdfdfb;--card:#fff;--ink:#1d2327;--soft:#5d6870;--grid:#e3e6e3;--line:#d5d9d6;
--good:#1a7f4b;--bad:#b3541e;--s0:#2463c4;--s1:#d0671b;--s2:#1f8a5b;--s3:#a83291;--s4:#8a6d10;--s5:#138a9c}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1b1f23;--ink:#e4e7e9;--soft:#9aa5ad;--grid:#2b3136;--line:#343b41;
--good:#5cc48d;--bad:#e8a06a;--s0:#78a9f5;--s1:#f0a063;--s2:#63cb9b;--s3:#de84cb;--s4:#d6bb5a;--s5:#5fcadb}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .8rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:0 0 .4rem}
header p,footer,.note,figcaption{color:var(--soft)}
header p{margin:0}
footer{margin-top:2.5rem;font-size:.85rem}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.7rem;margin:1.4rem 0 0}
.facts div,figure,.sample{background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.facts div{padding:.6rem .8rem}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
figure{margin:0 0 1rem;padding:.8rem}
svg{display:block;width:100%;height:auto}
svg path{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
svg path.faint{stroke-width:1;opacity:.35}
svg circle{fill:transparent}
.grid{stroke:var(--grid)}
.axis{stroke:var(--soft)}
.tick{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin-top:.4rem;font-size:.9rem}
.key::before{content:\"\";display:inline-block;width:1.1rem;height:3px;border-radius:2px;margin-right:.4rem;vertical-align:middle}
.note{font-size:.9rem;margin:.4rem 0 0}
.scroll{overflow-x:auto;margin-bottom:1.2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .9rem .3rem 0;text-align:left;border-bottom:1px solid var(--grid);vertical-align:top}
th{color:var(--soft);font-weight:600;font-size:.9rem}
.n{text-align:right;white-space:nowrap}
td:not(.n){overflow-wrap:anywhere;min-width:6rem}
.sample{margin:0 0 .7rem;padding:.6rem .8rem;border-left:4px solid var(--line)}
.sample.right{border-left-color:var(--good)}
.sample.wrong{border-left-color:var(--bad)}
.sample div{display:flex;gap:.8rem}
.sample dt{flex:0 0 4.5rem;color:var(--soft);font-size:.85rem;line-height:1.75}
.sample dd{flex:1;margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
pre{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;overflow-x:auto;font-size:.85rem;line-height:1.45}
@media (max-width:34rem){.tick{font-size:17px}.sample div{display:block}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scale, Series};

    fn page() -> String {
        let evil = "<script>alert('x')</script>\" onload=\"\0";
        let points = (0..50).map(|i| (f64::from(i), f64::from(i).sin())).collect();
        Report {
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
