//! Text as it comes in and goes out: the mark that some editors put before UTF-8, and the letters that HTML and terminals
//! take for their own.

use std::borrow::Cow;

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

/// Text that a terminal takes for text. A control character could move the cursor, change the title, hide what stands
/// before it or answer for the person; one that turns the direction of writing could show a name that is another. They
/// are shown as they would be written in a program; line ends and tabs stay.
///
/// ```
/// assert_eq!(qkv_base::printable("a\tè\n"), "a\tè\n");
/// assert_eq!(qkv_base::printable("\u{1b}[31mred\u{9b}0m\u{202e}"), "\\u{1b}[31mred\\u{9b}0m\\u{202e}");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    Cow::Owned(out)
}
