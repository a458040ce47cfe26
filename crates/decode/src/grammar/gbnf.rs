//! Grammars as people write them for llama.cpp (GBNF):
//!
//! ```text
//! root  ::= "yes" | "no" | list      # the answer is one `root`
//! list  ::= "[" item ("," item)* "]"
//! item  ::= [0-9]+ | list
//! ```
//!
//! Texts stand in quotation marks, one character of several in brackets, `.` is any character; `*`, `+`, `?`, `{2,5}` repeat what
//! stands before them; parentheses group. A rule goes on over line ends until the next name with `::=`.

use super::expr::Expr;
use qkv_base::{Error, Result, nearest};
use std::collections::BTreeMap;

/// Groups within groups.
const DEPTH: usize = 100;

/// The most rules.
const RULES: usize = 1000;

/// How often something may be repeated.
const REPEATS: usize = 10_000;

/// The rules of a grammar, the first of which is `root`, and their names.
pub(crate) fn parse(text: &str) -> Result<(Vec<Expr>, Vec<String>)> {
    let mut reader = Reader { text, at: 0, names: vec!["root".into()], places: BTreeMap::new(), depth: 0 };
    reader.places.insert("root".into(), 0);
    let mut rules: BTreeMap<usize, Expr> = BTreeMap::new();
    reader.space();
    while !reader.rest().is_empty() {
        let name = reader.name().ok_or_else(|| reader.wrong("a rule begins with its name"))?;
        reader.space();
        if !reader.take("::=") {
            return Err(reader.wrong("`::=` stands behind the name of a rule"));
        }
        let rule = reader.number(&name);
        let right = reader.alternatives()?;
        if rules.insert(rule, right).is_some() {
            return Err(reader.wrong(&format!("there are two rules `{name}`")));
        }
        reader.space();
    }
    if reader.names.len() > RULES {
        return Err(reader.wrong(&format!("there are more than {RULES} rules")));
    }
    let names = reader.names;
    let known: Vec<&str> = rules.keys().map(|r| names[*r].as_str()).collect();
    if let Some(lost) = (0..names.len()).find(|rule| !rules.contains_key(rule)) {
        let near = nearest(&names[lost], known.iter().copied()).map_or(String::new(), |n| format!("; is `{n}` meant?"));
        let what = format!("there is no rule `{}`{near}", names[lost]);
        return Err(Error::new(
            "grammar",
            what,
            "the whole answer is the rule `root`; every rule that is named must be there",
        ));
    }
    Ok((rules.into_values().collect(), names))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    names: Vec<String>,
    places: BTreeMap<String, usize>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &str) -> Error {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let hint = "write rules as: root ::= \"yes\" | \"no\" | [0-9]+";
        Error::new(format!("grammar, line {line}, column {column}"), what, hint)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// Spaces, line ends and comments.
    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn name(&mut self) -> Option<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let rest = self.rest();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then(|| rest[..length].to_string())
    }

    /// The number of a rule; a new one gets the next.
    fn number(&mut self, name: &str) -> usize {
        let next = self.names.len();
        let number = *self.places.entry(name.to_string()).or_insert(next);
        if number == next {
            self.names.push(name.to_string());
        }
        number
    }

    /// Whether the next rule begins here: a name, and then `::=`.
    fn is_rule(&self) -> bool {
        let mut ahead = Reader { text: self.text, at: self.at, names: vec![], places: BTreeMap::new(), depth: 0 };
        ahead.name().is_some() && {
            ahead.space();
            ahead.take("::=")
        }
    }

    fn alternatives(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.wrong(&format!("groups are nested more than {DEPTH} deep")));
        }
        let mut ways = vec![self.sequence()?];
        while self.take("|") {
            ways.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if ways.len() == 1 { ways.remove(0) } else { Expr::Alt(ways) })
    }

    fn sequence(&mut self) -> Result<Expr> {
        let mut parts = vec![];
        loop {
            self.space();
            let Some(c) = self.rest().chars().next() else { break };
            if c == '|' || c == ')' || self.is_rule() {
                break;
            }
            let part = self.part(c)?;
            parts.push(self.repeated(part)?);
        }
        Ok(Expr::Seq(parts))
    }

    fn part(&mut self, first: char) -> Result<Expr> {
        match first {
            '"' => {
                self.at += 1;
                let mut text = String::new();
                loop {
                    match self.next() {
                        Some('"') => return Ok(Expr::Literal(text.into_bytes())),
                        Some('\\') => text.push(self.escape()?),
                        Some('\n') | None => return Err(self.wrong("a text in quotation marks does not end")),
                        Some(c) => text.push(c),
                    }
                }
            }
            '[' => {
                self.at += 1;
                self.class()
            }
            '.' => {
                self.at += 1;
                Ok(Expr::Class(vec![('\0', char::MAX)]))
            }
            '(' => {
                self.at += 1;
                let inner = self.alternatives()?;
                self.space();
                if self.take(")") { Ok(inner) } else { Err(self.wrong("a group does not end: `)` is missing")) }
            }
            _ => match self.name() {
                Some(name) => Ok(Expr::Call(self.number(&name))),
                None => Err(self.wrong(&format!("`{}` means nothing here", first.escape_debug()))),
            },
        }
    }

    fn repeated(&mut self, mut part: Expr) -> Result<Expr> {
        loop {
            let (least, most) = match self.rest().chars().next() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.at += 1;
                    let (least, most) = self.bounds()?;
                    part = Expr::Repeat(Box::new(part), least, most);
                    continue;
                }
                _ => return Ok(part),
            };
            self.at += 1;
            part = Expr::Repeat(Box::new(part), least, most);
        }
    }

    /// `{2}`, `{2,}`, `{2,5}`, behind the brace.
    fn bounds(&mut self) -> Result<(usize, Option<usize>)> {
        let end = self.rest().find('}').ok_or_else(|| self.wrong("`}` is missing"))?;
        let inner = &self.rest()[..end];
        let number = |word: &str| word.trim().parse::<usize>().ok().filter(|n| *n <= REPEATS);
        let found = match inner.split_once(',') {
            None => number(inner).map(|n| (n, Some(n))),
            Some((least, most)) if most.trim().is_empty() => number(least).map(|n| (n, None)),
            Some((least, most)) => number(least).zip(number(most)).map(|(a, b)| (a, Some(b))),
        };
        let found = found.filter(|(least, most)| most.is_none_or(|most| most >= *least));
        let what = format!("a repetition is {{2}}, {{2,}} or {{2,5}}, up to {REPEATS}");
        let bounds = found.ok_or_else(|| self.wrong(&what))?;
        self.at += end + 1;
        Ok(bounds)
    }

    fn escape(&mut self) -> Result<char> {
        let hex = |reader: &mut Self, digits: usize| {
            let word = reader.rest().get(..digits).unwrap_or_default();
            let found = u32::from_str_radix(word, 16).ok().and_then(char::from_u32);
            reader.at += if found.is_some() { digits } else { 0 };
            found.ok_or_else(|| reader.wrong(&format!("{digits} digits of a character's number belong here")))
        };
        match self.next() {
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('x') => hex(self, 2),
            Some('u') => hex(self, 4),
            Some('U') => hex(self, 8),
            Some(c) if c.is_ascii_punctuation() => Ok(c),
            _ => Err(self.wrong("a backslash stands before n, r, t, x, u, U, or a sign")),
        }
    }

    /// `a-z\n]`, behind the bracket.
    fn class(&mut self) -> Result<Expr> {
        let not = self.take("^");
        let mut ranges = vec![];
        loop {
            let one = |reader: &mut Self| match reader.next() {
                Some('\\') => reader.escape(),
                Some(c) => Ok(c),
                None => Err(reader.wrong("`]` is missing")),
            };
            if self.take("]") {
                break;
            }
            let low = one(self)?;
            let to = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            let high = if to {
                self.at += 1;
                one(self)?
            } else {
                low
            };
            if high < low {
                return Err(self.wrong(&format!("`{low}-{high}` runs backwards")));
            }
            ranges.push((low, high));
        }
        ranges.sort_unstable();
        if not {
            ranges = outside(&ranges);
        }
        if ranges.is_empty() {
            return Err(self.wrong("no character is in these brackets"));
        }
        Ok(Expr::Class(ranges))
    }
}

/// All characters that are in none of these ranges, which are sorted.
fn outside(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let after = |c: char| char::from_u32(if c as u32 == 0xD7FF { 0xE000 } else { c as u32 + 1 });
    let before = |c: char| char::from_u32(if c as u32 == 0xE000 { 0xD7FF } else { (c as u32).wrapping_sub(1) });
    let (mut found, mut from) = (vec![], Some('\0'));
    for (low, high) in ranges {
        let Some(begin) = from else { break };
        if let Some(end) = before(*low).filter(|end| *end >= begin && *low > begin) {
            found.push((begin, end));
        }
        if *high >= begin {
            from = after(*high);
        }
    }
    found.extend(from.map(|begin| (begin, char::MAX)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grammar_is_read_as_llama_cpp_reads_it() {
        let text = "# a comment\nroot ::= value | (\n  \"a\" value{2,3}\n) # another\n  | [^x-z\\]]+\nvalue ::= \"\\n\\x41\" .?";
        let (rules, names) = parse(text).unwrap();
        assert_eq!(names, ["root", "value"]);
        let Expr::Alt(ways) = &rules[0] else { panic!("three ways") };
        assert_eq!(ways.len(), 3);
        let Expr::Seq(value) = &rules[1] else { panic!("a sequence") };
        assert_eq!(value[0], Expr::Literal(b"\nA".to_vec()));
        assert_eq!(value[1], Expr::Repeat(Box::new(Expr::Class(vec![('\0', char::MAX)])), 0, Some(1)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = |text: &str| parse(text).unwrap_err().to_string();
        assert!(wrong("root ::= \"a").contains("line 1"), "{}", wrong("root ::= \"a"));
        assert!(wrong("root = x").contains("`::=`"));
        assert!(wrong("root ::= valeu\nvalue ::= \"a\"").contains("`value` meant"));
        assert!(wrong("list ::= \"a\"").contains("no rule `root`"));
        assert!(wrong("root ::= (\"a\"").contains("`)` is missing"));
        assert!(wrong("root ::= [z-a]").contains("backwards") && wrong("root ::= \"a\"{3,2}").contains("{2,5}"));
        assert!(wrong("root ::= \"a\"\nroot ::= \"b\"").contains("two rules"));
        assert!(wrong(&format!("root ::= {}", "(".repeat(200))).contains("nested"));
        assert!(wrong("root ::= \"a\" )").contains("a rule begins"));
        assert!(wrong("root ::= [^\\U00000000-\\U0010FFFF]").contains("no character"));
    }

    #[test]
    fn the_rest_of_all_characters() {
        assert_eq!(outside(&[('b', 'c'), ('c', 'e')]), [('\0', 'a'), ('f', char::MAX)]);
        assert_eq!(outside(&[('\0', '\u{D7FF}')]), [('\u{E000}', char::MAX)]);
        assert!(outside(&[('\0', char::MAX)]).is_empty());
    }
}
