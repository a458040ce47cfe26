//! Messages → one prompt, by the Jinja template that a model was trained with.
//!
//! A template is a program from a stranger. It is read only if it is short and shallow enough for a parser that calls
//! itself, and both reading and rendering happen on a thread of their own, with a stack, a memory and a time that end
//! before those of the process do; within them it runs with fuel, a bound on depth and a bound on what it writes.

use crate::special::Said;
use crate::tokenizer::Tokenizer;
use crate::validate;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, ErrorKind};
use qkv_base::budget::{self, Budget};
use qkv_base::{Error, Result};
use regex::Regex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Instructions a template may run: a thousand messages take about a hundredth of this.
const FUEL: u64 = 10_000_000;
/// Calls within calls.
const DEPTH: usize = 64;
/// Bytes a template may write.
const OUTPUT: usize = 16 << 20;
/// Bytes of a template.
const SOURCE: usize = 1 << 20;
/// What reading or rendering may take. Parsers, trees and their ends call themselves: the stack is for the deepest
/// template that [`shallow`] lets pass.
const BUDGET: Budget = Budget { memory: 256 << 20, stack: 64 << 20, time: Duration::from_secs(10) };
/// Operators and words of one `{{ … }}` or `{% … %}`: the longest in use have some hundred.
const WORDS: usize = 4000;
/// Brackets in brackets, blocks in blocks, and branches of one `if`.
const NESTED: usize = 200;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// system, user, assistant, …
    pub role: String,
    /// what was said
    pub content: String,
}

impl Message {
    /// A message of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// A chat template, ready to be rendered.
///
/// ```
/// use qkv_text::{Chat, Message};
/// let chat = Chat::new("{% for m in messages %}<{{ m.role }}>{{ m.content.strip() }}{% endfor %}")?;
/// assert_eq!(chat.render(&[Message::new("user", " hi ")], true)?, "<user>hi");
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Chat {
    environment: Environment<'static>,
    /// bos_token, eos_token, … as the template sees them
    tokens: Vec<(String, String)>,
}

impl Chat {
    /// A template given as text.
    pub fn new(template: &str) -> Result<Self> {
        if template.len() > SOURCE {
            let what = format!("a template of {} bytes", template.len());
            return Err(Error::new("chat template", what, "at most a megabyte is believed"));
        }
        let template = plain(template);
        shallow(&template)?;
        let environment = budget::run("chat template", BUDGET, move || {
            let mut environment = environment();
            environment.add_template_owned("chat", template).map_err(said)?;
            Ok(environment)
        })??;
        Ok(Self { environment, tokens: Vec::new() })
    }

    /// The template of a tokenizer, the default one or one by name, with its special tokens.
    pub fn of(tokenizer: &Tokenizer, name: Option<&str>) -> Result<Self> {
        let Some(template) = tokenizer.chat_template(name) else {
            let known: Vec<&str> = tokenizer.chats.iter().map(|(n, _)| n.as_str()).collect();
            let what = name.map_or("no chat template".to_string(), |n| format!("no chat template `{n}`"));
            let hint = match known.as_slice() {
                [] => "this model was not made for chats; give a template, or use plain text".to_string(),
                known => format!("there are: {}", known.join(", ")),
            };
            return Err(Error::new(&tokenizer.place, what, hint));
        };
        let mut chat = Self::new(template)?;
        let roles = tokenizer.special().roles();
        let token = |(role, id): (&str, Option<u32>)| Some((format!("{role}_token"), tokenizer.piece(id?)?));
        chat.tokens = roles.into_iter().filter_map(token).collect();
        Ok(chat)
    }

    /// Names a special token for the template, such as `bos_token`.
    pub fn token(mut self, name: &str, piece: &str) -> Self {
        self.tokens.retain(|(n, _)| n != name);
        self.tokens.push((name.to_string(), piece.to_string()));
        self
    }

    /// The prompt; with `generation`, it ends where the assistant begins to speak.
    pub fn render(&self, messages: &[Message], generation: bool) -> Result<String> {
        self.render_json(&serde_json::to_string(messages).unwrap_or_default(), generation, &[])
    }

    /// The prompt of messages given as JSON (with tool calls, parts, or whatever the template knows), and other
    /// variables by name, each as JSON: `("tools", "[…]")`.
    pub fn render_json(&self, messages: &str, generation: bool, others: &[(&str, &str)]) -> Result<String> {
        // Straight to the template's values: they keep the order of keys, which `tojson` shows.
        let read = |name: &str, json: &str| -> Result<Value> {
            let wrong =
                |e: serde_json::Error| Error::new(name, e.to_string(), "messages are a JSON list of {role, content}");
            serde_json::from_str(json).map_err(wrong)
        };
        let mut context: BTreeMap<String, Value> =
            self.tokens.iter().map(|(name, piece)| (name.clone(), Value::from(piece.clone()))).collect();
        context.insert("messages".into(), read("messages", messages)?);
        context.insert("add_generation_prompt".into(), Value::from(generation));
        for (name, json) in others {
            context.insert(name.to_string(), read(name, json)?);
        }
        let environment = self.environment.clone();
        let text = budget::run("chat template", BUDGET, move || {
            let mut out = Capped(Vec::new());
            let template = environment.get_template("chat").map_err(said)?;
            template.render_captured_to(Value::from(context), &mut out).map_err(said)?;
            Ok(out.0)
        })??;
        String::from_utf8(text).map_err(|_| Error::new("chat template", "its text is not UTF-8", "mend the template"))
    }
}

/// Refuses a template that is too deep for a parser that calls itself: it counts operators and words in each block,
/// brackets in brackets, blocks in blocks, and branches, without understanding any of them.
fn shallow(template: &str) -> Result<()> {
    let refuse = |line: usize, what: &str| {
        let place = format!("chat template, line {line}");
        Err(Error::new(place, what, "it is damaged or hostile: give another template"))
    };
    let bytes = template.as_bytes();
    let (mut line, mut at, mut open, mut branches) = (1, 0, 0usize, 0usize);
    while at < bytes.len() {
        let inside = matches!(&bytes[at..], [b'{', b'{' | b'%', ..]);
        if !inside {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let statement = bytes[at + 1] == b'%';
        at += 2 + usize::from(bytes.get(at + 2) == Some(&b'-'));
        let (mut words, mut nested, mut quote, mut first) = (0, 0usize, None, String::new());
        while at < bytes.len() {
            let c = bytes[at];
            line += usize::from(c == b'\n');
            match (quote, c) {
                (Some(_), b'\\') => at += 1,
                (Some(q), c) if q == c => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(c),
                (None, b'}' | b'%') if nested == 0 && bytes.get(at + 1) == Some(&b'}') => break,
                (None, b'(' | b'[' | b'{') => {
                    nested += 1;
                    words += 1;
                }
                (None, b')' | b']' | b'}') => nested = nested.saturating_sub(1),
                (None, c) if c.is_ascii_alphanumeric() || c == b'_' => {
                    let start = at;
                    while bytes.get(at + 1).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_') {
                        at += 1;
                    }
                    if words == 0 {
                        first = template.get(start..=at).unwrap_or_default().to_string();
                    }
                    words += 1;
                }
                (None, c) if c.is_ascii_whitespace() => {}
                (None, _) => words += 1,
            }
            if nested > NESTED {
                return refuse(line, "brackets are nested too deeply");
            }
            if words > WORDS {
                return refuse(line, "an expression is far too long");
            }
            at += 1;
        }
        match first.as_str() {
            _ if !statement => {}
            "if" | "for" | "macro" | "call" | "filter" | "with" | "autoescape" | "block" => open += 1,
            "elif" => branches += 1,
            word if word.starts_with("end") => {
                open = open.saturating_sub(1);
                branches = if open == 0 { 0 } else { branches };
            }
            _ => {}
        }
        if open > NESTED || branches > NESTED {
            return refuse(line, "blocks are nested too deeply");
        }
    }
    Ok(())
}

/// Templates of a directory: `chat_template.jinja`, or in `tokenizer_config.json` one text or a list of named ones.
pub(crate) fn read(dir: &Path, said: &Said) -> Result<Vec<(String, String)>> {
    let mut chats = match said.tokenizer.get("chat_template") {
        Some(serde_json::Value::String(template)) => vec![("default".to_string(), template.clone())],
        Some(serde_json::Value::Array(list)) => {
            let text = |row: &serde_json::Value, key: &str| row.get(key)?.as_str().map(str::to_string);
            list.iter().filter_map(|row| Some((text(row, "name")?, text(row, "template")?))).collect()
        }
        _ => Vec::new(),
    };
    let file = dir.join("chat_template.jinja");
    if file.is_file() {
        chats.retain(|(name, _)| name != "default");
        chats.insert(0, ("default".to_string(), validate::read_text(&file)?));
    }
    Ok(chats)
}

/// Jinja as templates expect it: Python's methods, its `True`, its JSON.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default());
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEPTH);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }).map_err(Into::into),
        ValueKind::None => out.write_str("None").map_err(Into::into),
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_function("raise_exception", |message: String| -> std::result::Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        strftime(&format, now.map_or(0, |d| d.as_secs()))
    });
    environment.add_filter(
        "tojson",
        |value: &Value, options: Kwargs| -> std::result::Result<Value, minijinja::Error> {
            let indent: Option<usize> = options.get("indent")?;
            let mut out = String::new();
            to_json(value, indent.map(|n| n.min(16)), 0, &mut out)?;
            Ok(Value::from_safe_string(out))
        },
    );
    environment
}

/// `{% generation %}` only marks what the assistant said, for training: as good as `{% if true %}`.
fn plain(template: &str) -> String {
    let Ok(marks) = Regex::new(r"\{%(-?)\s*(end)?generation\s*(-?)%\}") else { return template.to_string() };
    marks
        .replace_all(template, |m: &regex::Captures<'_>| {
            let word = if m.get(2).is_some() { "endif" } else { "if true" };
            format!("{{%{} {word} {}%}}", &m[1], &m[3])
        })
        .into_owned()
}

/// JSON as Python writes it: a space after `:` and, without indent, after `,`; nothing escaped that need not be.
fn to_json(
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
) -> std::result::Result<(), minijinja::Error> {
    let wrong = |what: &str| minijinja::Error::new(ErrorKind::BadSerialization, what.to_string());
    if depth > DEPTH {
        return Err(wrong("nested too deeply for JSON"));
    }
    let scalar = |v: &Value| serde_json::to_string(v).map_err(|e| wrong(&e.to_string()));
    let line = |depth: usize| indent.map_or(String::new(), |n| format!("\n{}", " ".repeat(n * depth)));
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                out.push_str(if i > 0 { comma } else { "" });
                out.push_str(&line(depth + 1));
                out.push_str(&scalar(&Value::from(key.to_string()))?);
                out.push_str(": ");
                to_json(&value.get_item(&key)?, indent, depth + 1, out)?;
            }
            out.push_str(&if value.len() == Some(0) { String::new() } else { line(depth) });
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut any = false;
            for (i, item) in value.try_iter()?.enumerate() {
                any = true;
                out.push_str(if i > 0 { comma } else { "" });
                out.push_str(&line(depth + 1));
                to_json(&item, indent, depth + 1, out)?;
            }
            out.push_str(&if any { line(depth) } else { String::new() });
            out.push(']');
        }
        ValueKind::Undefined => return Err(wrong("an undefined value has no JSON")),
        _ => out.push_str(&scalar(value)?),
    }
    if out.len() > OUTPUT { Err(wrong("the JSON is too long")) } else { Ok(()) }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// The date (UTC) as templates ask for it: `%d %b %Y` and its like.
fn strftime(format: &str, seconds: u64) -> String {
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March 0000, counted in 400-year cycles, so that the leap day comes last in its year.
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let (month, day) = ((5 * day + 2) / 153, day - (153 * ((5 * day + 2) / 153) + 2) / 5 + 1);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * cycle + year + u64::from(month <= 2);
    let (month_name, day_name) = (MONTHS[(month as usize - 1) % 12], DAYS[(days % 7) as usize]);
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(c) = letters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match letters.next() {
            Some('Y') => out.push_str(&year.to_string()),
            Some('y') => out.push_str(&format!("{:02}", year % 100)),
            Some('m') => out.push_str(&format!("{month:02}")),
            Some('d') => out.push_str(&format!("{day:02}")),
            Some('B') => out.push_str(month_name),
            Some('b') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(day_name),
            Some('a') => out.push_str(&day_name[..3]),
            Some('H') => out.push_str(&format!("{:02}", clock / 3600)),
            Some('M') => out.push_str(&format!("{:02}", clock / 60 % 60)),
            Some('S') => out.push_str(&format!("{:02}", clock % 60)),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// Takes so many bytes and no more.
struct Capped(Vec<u8>);

impl std::io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT {
            return Err(std::io::Error::other("it writes too much"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The template's own words, and the line.
fn said(error: minijinja::Error) -> Error {
    let place = error.line().map_or("chat template".to_string(), |line| format!("chat template, line {line}"));
    let what = match error.kind() {
        ErrorKind::OutOfFuel => "it runs too long".to_string(),
        _ => error.detail().map_or_else(|| error.to_string(), str::to_string),
    };
    Error::new(place, what, "check the order and the roles of the messages, or give another template")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(template: &str) -> Error {
        match Chat::new(template) {
            Ok(chat) => chat.render(&[Message::new("user", "x")], false).unwrap_err(),
            Err(error) => error,
        }
    }

    /// Fault 15.
    #[test]
    fn fault_15_templates_that_never_end_are_stopped() {
        let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a %}{% endfor %}{% endfor %}";
        assert_eq!(refused(nested).what, "it runs too long");
        assert!(refused("{% for a in range(1000000000) %}{% endfor %}").what.contains("too many"));
        assert!(refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").what.contains("recursion"));
        let long = "{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}";
        assert!(!refused(long).what.is_empty());
        assert!(refused("{% if %}").place.contains("line 1"));
        assert_eq!(refused("{{ raise_exception('roles must alternate') }}").what, "roles must alternate");
    }

    /// What would overflow the stack of a parser that calls itself, or take all memory, is refused.
    #[test]
    fn templates_that_are_too_deep_or_too_hungry_are_refused() {
        let many = |text: &str, n: usize| text.repeat(n);
        let deep = [
            format!("{{{{ 1{} }}}}", many(" + 1", 30_000)),
            format!("{{{{ {}1 }}}}", many("not ", 30_000)),
            format!("{{{{ {}1 }}}}", many("-", 30_000)),
            format!("{{{{ x{} }}}}", many("|upper", 30_000)),
            format!("{{{{ x{} }}}}", many(".a", 30_000)),
            format!("{{{{ {}1{} }}}}", many("(", 30_000), many(")", 30_000)),
            format!("{}{}", many("{% if 1 %}", 30_000), many("{% endif %}", 30_000)),
            format!("{{% if 0 %}}{}{{% endif %}}", many("{% elif 1 %}x", 30_000)),
            format!("{}{}", many("{% for a in [1] %}", 300), many("{% endfor %}", 300)),
        ];
        for template in deep {
            let said = refused(&template).what;
            assert!(said.contains("deeply") || said.contains("too long"), "{}: {said}", &template[..40]);
        }
        // Just within the bounds: it must fit the stack.
        for template in [
            format!("{{{{ 1{} }}}}", many(" + 1", 1_900)),
            format!("{{{{ {}1 }}}}", many("not ", 3_900)),
            format!("{{{{ {}1{} }}}}", many("(", 199), many(")", 199)),
            format!("{}{}", many("{% if 1 %}", 199), many("{% endif %}", 199)),
        ] {
            // It may be refused by its own parser, which is fine; it must not end the process.
            let _ = Chat::new(&template).and_then(|chat| chat.render(&[Message::new("user", "x")], false));
        }
    }

    #[test]
    fn json_as_python_writes_it() {
        let chat = Chat::new("{{ messages | tojson }}|{{ messages[0] | tojson(indent=2) }}").unwrap();
        let json = r#"[{"role": "user", "content": "è <b>", "n": [1, 2.5, null, true], "e": {}}]"#;
        let want = format!(
            "{json}|{}",
            "{\n  \"role\": \"user\",\n  \"content\": \"è <b>\",\n  \"n\": [\n    1,\n    2.5,\n    null,\n    true\n  ],\n  \"e\": {}\n}"
        );
        assert_eq!(chat.render_json(json, false, &[]).unwrap(), want);
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(strftime("%d %b %Y, %A %H:%M:%S", 0), "01 Jan 1970, Thursday 00:00:00");
        assert_eq!(strftime("%Y-%m-%d %a", 951_782_400), "2000-02-29 Tue");
        assert_eq!(strftime("%B %d, %y%%", 1_735_689_599), "December 31, 24%");
    }

    #[test]
    fn generation_marks_are_ignored() {
        let template = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
        assert_eq!(Chat::new(template).unwrap().render(&[Message::new("user", "x")], false).unwrap(), "x");
    }
}
