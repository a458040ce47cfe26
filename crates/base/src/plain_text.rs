//! Text as it comes in and goes out: the mark that some editors put before UTF-8, and the letters that HTML takes for its
//! own.

/// U+FEFF in UTF-8.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// The bytes of a text without the mark before them.
///
/// ```
/// assert_eq!(qkv_base::without_bom(b"\xef\xbb\xbftext"), b"text");
/// assert_eq!(qkv_base::without_bom(b"text"), b"text");
/// ```
pub fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// Text that HTML takes for text, in an attribute too. Control characters, which HTML forbids, are shown as a box.
///
/// ```
/// assert_eq!(qkv_base::escape_html("a < \"b\"\u{7}"), "a &lt; &quot;b&quot;\u{fffd}");
/// ```
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
