//! What every page has: a head that allows nothing to be fetched, one set of colours (light, dark, print), one type, a
//! header, a footer. One file, opened from a disk.
//!
//! The policy is the strictest that a page can live with: `default-src 'none'`, styles of its own, pictures that it carries,
//! and scripts only where it has one.

use qkv_base::escape_html;

/// The looks of every page; a page may add its own rules ([`Frame::style`]).
const STYLE: &str = include_str!("frame.css");

/// A page about to be filled.
///
/// ```
/// let page = qkv_report::Frame::new("qkv explain", "a < b").lead("Why?").page("<p>Because.</p>");
/// assert!(page.starts_with("<!doctype html>") && page.contains("<h1>a &lt; b</h1>"));
/// assert!(page.contains("default-src 'none'; style-src") && !page.contains("script-src"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    kind: String,
    title: String,
    header: String,
    style: String,
    script: Option<String>,
}

impl Frame {
    /// A page of this kind (a small line at its top: the command that made it) with this title.
    pub fn new(kind: &str, title: &str) -> Self {
        Self { kind: escape_html(kind), title: escape_html(title), ..Self::default() }
    }

    /// With a sentence under the title.
    pub fn lead(self, text: &str) -> Self {
        if text.is_empty() { self } else { self.header(&format!("<p class=\"lead\">{}</p>", escape_html(text))) }
    }

    /// With more under the title, as HTML.
    pub fn header(mut self, html: &str) -> Self {
        self.header += html;
        self
    }

    /// With rules of its own.
    pub fn style(mut self, css: &str) -> Self {
        self.style += css;
        self
    }

    /// With a script; `data` stands before it as plain text that it finds under the id `data`, so that the browser does not
    /// read what it need not understand.
    pub fn script(mut self, data: &str, code: &str) -> Self {
        self.script =
            Some(format!("<script type=\"text/plain\" id=\"data\">{data}</script>\n<script>\n{code}</script>\n"));
        self
    }

    /// The whole file around `body`, which is HTML.
    pub fn page(&self, body: &str) -> String {
        let Self { kind, title, header, style, script } = self;
        let allowed = if script.is_some() { "script-src 'unsafe-inline'; " } else { "" };
        let kind = if kind.is_empty() { String::new() } else { format!("<p class=\"kind\">{kind}</p>") };
        let script = script.as_deref().unwrap_or_default();
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; {allowed}style-src 'unsafe-inline'; img-src data:\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}{style}</style></head>\n\
             <body>\n<main>\n<header>{kind}<h1>{title}</h1>{header}</header>\n{body}<footer>qkv {}</footer>\n</main>\n{script}</body></html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// A paragraph.
pub fn prose(text: &str) -> String {
    format!("<p>{}</p>\n", escape_html(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_with_a_script_allows_one() {
        let plain = Frame::new("k", "t").page("");
        assert!(!plain.contains("<script") && !plain.contains("script-src"));
        let lively = Frame::new("k", "t").script("abc", "1;").page("");
        assert!(lively.contains("script-src 'unsafe-inline'") && lively.contains("id=\"data\">abc</script>"));
    }

    #[test]
    fn the_style_asks_for_nothing_and_knows_paper_night_and_rest() {
        assert!(["url(", "@import", "http"].iter().all(|word| !STYLE.contains(word)));
        for wish in ["prefers-color-scheme: dark", "@media print", "prefers-reduced-motion"] {
            assert!(STYLE.contains(wish), "{wish}");
        }
    }

    /// Every colour that text is written in stands out from paper and card by 4.5 to 1 (WCAG AA), light and dark.
    #[test]
    fn text_can_be_read() {
        let channel = |c: u32| {
            let c = f64::from(c & 255) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        let light = |c: u32| 0.2126 * channel(c >> 16) + 0.7152 * channel(c >> 8) + 0.0722 * channel(c);
        let mut seen = 0;
        for theme in STYLE.split(":root {").skip(1).filter_map(|t| t.split('}').next()).take(2) {
            let colour = |name: &str| {
                let hex = theme.split(&format!("--{name}: #")).nth(1).unwrap_or_else(|| panic!("no {name}"));
                light(u32::from_str_radix(&hex[..6], 16).expect("a colour"))
            };
            for ink in ["ink", "soft", "mark", "good", "bad"] {
                for ground in ["paper", "card"] {
                    let (a, b) = (colour(ink), colour(ground));
                    let ratio = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                    assert!(ratio >= 4.5, "{ink} on {ground}: {ratio:.2}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 20);
    }
}
