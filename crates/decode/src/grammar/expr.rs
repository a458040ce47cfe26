//! What the right side of a rule says, and its states: an expression becomes a small automaton over bytes whose moves are to read
//! a byte, to part, to call another rule, and to return from this one.

use qkv_base::{Error, Result};
use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// The most states of all rules together.
const MOST: usize = 1 << 17;

/// A character that nobody uses: a group of it alone, repeated a number of times, calls a rule, so that patterns can call rules.
pub(crate) const CALL: char = '\u{F0000}';

/// What stands for the rule of a number within a pattern.
pub(crate) fn call(rule: usize) -> String {
    format!("({CALL}{{{}}})", rule + 2) // once would be the character itself
}

/// The rule that a group calls.
fn called(group: &Hir) -> Option<usize> {
    let HirKind::Repetition(repeat) = group.kind() else { return None };
    let is_mark = matches!(repeat.sub.kind(), HirKind::Literal(literal) if *literal.0 == *CALL.to_string().as_bytes());
    (is_mark && repeat.max == Some(repeat.min)).then_some(repeat.min as usize).and_then(|n| n.checked_sub(2))
}

/// The right side of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    /// exactly these bytes
    Literal(Vec<u8>),
    /// one character of these ranges
    Class(Vec<(char, char)>),
    /// one behind the other
    Seq(Vec<Expr>),
    /// one of these
    Alt(Vec<Expr>),
    /// at least, and at most
    Repeat(Box<Expr>, usize, Option<usize>),
    /// another rule, by its number
    Call(usize),
}

impl Expr {
    /// A regular expression as an expression; groups as [`call`] writes them are calls.
    pub(crate) fn of_regex(pattern: &str) -> Result<Self> {
        let wrong = |e: Box<dyn std::error::Error>| {
            let last = e.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
            Error::new("pattern", last, "write a regular expression without look-around")
        };
        let tree = regex_syntax::parse(pattern).map_err(|e| wrong(Box::new(e)))?;
        Self::of_hir(&tree)
    }

    fn of_hir(tree: &Hir) -> Result<Self> {
        let all = |parts: &[Hir]| parts.iter().map(Self::of_hir).collect::<Result<Vec<_>>>();
        Ok(match tree.kind() {
            HirKind::Empty => Self::Seq(vec![]),
            HirKind::Literal(literal) => Self::Literal(literal.0.to_vec()),
            HirKind::Class(Class::Unicode(class)) => {
                Self::Class(class.ranges().iter().map(|r| (r.start(), r.end())).collect())
            }
            HirKind::Class(Class::Bytes(class)) => {
                Self::Class(class.ranges().iter().map(|r| (r.start() as char, r.end() as char)).collect())
            }
            HirKind::Repetition(repeat) => {
                let inner = Self::of_hir(&repeat.sub)?;
                Self::Repeat(Box::new(inner), repeat.min as usize, repeat.max.map(|n| n as usize))
            }
            HirKind::Capture(group) => match called(&group.sub) {
                Some(rule) => Self::Call(rule),
                None => Self::of_hir(&group.sub)?,
            },
            HirKind::Concat(parts) => Self::Seq(all(parts)?),
            HirKind::Alternation(parts) => Self::Alt(all(parts)?),
            HirKind::Look(_) => {
                let what = "looks around, or asks for the beginning or end of a text";
                return Err(Error::new("pattern", what, "leave out ^, $ and \\b: the whole answer is meant"));
            }
        })
    }
}

/// A state of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// reads a byte from this one to that one, and goes on there
    Byte(u8, u8, u32),
    /// goes on at each of these
    Split(Vec<u32>),
    /// goes through a rule, and then on there
    Call(u32, u32),
    /// the rule is through
    Return,
}

/// All rules as states.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// the states
    pub(crate) nodes: Vec<Node>,
    /// where each rule begins
    pub(crate) starts: Vec<u32>,
}

impl Program {
    /// The states of some rules; the first is the whole.
    pub(crate) fn new(rules: &[Expr]) -> Result<Self> {
        let mut program = Self { nodes: vec![Node::Return], starts: vec![] };
        for rule in rules {
            let start = program.compile(rule, 0)?;
            program.starts.push(start);
        }
        Ok(program)
    }

    fn push(&mut self, node: Node) -> Result<u32> {
        if self.nodes.len() >= MOST {
            let what = format!("comes to more than {MOST} states");
            return Err(Error::new("grammar", what, "make it simpler, or repeat less often"));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// The first state of an expression behind which `next` comes.
    fn compile(&mut self, expr: &Expr, next: u32) -> Result<u32> {
        match expr {
            Expr::Literal(bytes) => bytes.iter().rev().try_fold(next, |next, b| self.push(Node::Byte(*b, *b, next))),
            Expr::Class(ranges) => {
                let mut ways = vec![];
                for (low, high) in ranges {
                    for sequence in Utf8Sequences::new(*low, *high) {
                        let bytes = sequence.as_slice().iter().rev();
                        ways.push(bytes.into_iter().try_fold(next, |n, r| self.push(Node::Byte(r.start, r.end, n)))?);
                    }
                }
                self.split(ways)
            }
            Expr::Seq(parts) => parts.iter().rev().try_fold(next, |next, part| self.compile(part, next)),
            Expr::Alt(parts) => {
                let ways = parts.iter().map(|part| self.compile(part, next)).collect::<Result<Vec<_>>>()?;
                self.split(ways)
            }
            Expr::Repeat(inner, least, most) => {
                let mut at = next;
                match most {
                    Some(most) => {
                        for _ in *least..*most {
                            let once = self.compile(inner, at)?;
                            at = self.push(Node::Split(vec![once, next]))?;
                        }
                    }
                    None => {
                        at = self.push(Node::Split(vec![]))?;
                        let once = self.compile(inner, at)?;
                        self.nodes[at as usize] = Node::Split(vec![once, next]);
                    }
                }
                (0..*least).try_fold(at, |at, _| self.compile(inner, at))
            }
            Expr::Call(rule) => self.push(Node::Call(*rule as u32, next)),
        }
    }

    fn split(&mut self, ways: Vec<u32>) -> Result<u32> {
        match ways[..] {
            [one] => Ok(one),
            _ => self.push(Node::Split(ways)),
        }
    }

    /// Rules that can be gone through at all, or, where no byte is to be read, without one.
    fn passable(&self, reads: bool) -> Vec<bool> {
        let mut known = vec![false; self.starts.len()];
        let mut visits = Visits::new(self.nodes.len());
        loop {
            let mut changed = false;
            for (rule, start) in self.starts.iter().enumerate() {
                if known[rule] {
                    continue;
                }
                let mut todo = visits.begin(*start);
                while let Some(at) = todo.pop() {
                    if visits.again(at) {
                        continue;
                    }
                    match &self.nodes[at as usize] {
                        Node::Return => {
                            (known[rule], changed) = (true, true);
                            break;
                        }
                        Node::Byte(_, _, next) if reads => todo.push(*next),
                        Node::Byte(..) => {}
                        Node::Split(ways) => todo.extend(ways),
                        Node::Call(rule, next) if known[*rule as usize] => todo.push(*next),
                        Node::Call(..) => {}
                    }
                }
            }
            if !changed {
                return known;
            }
        }
    }

    /// The rules that each rule may begin with.
    fn begins(&self, empty: &[bool]) -> Vec<Vec<usize>> {
        let mut visits = Visits::new(self.nodes.len());
        let one = |start: &u32| {
            let (mut todo, mut called) = (visits.begin(*start), vec![]);
            while let Some(at) = todo.pop() {
                if visits.again(at) {
                    continue;
                }
                match &self.nodes[at as usize] {
                    Node::Split(ways) => todo.extend(ways),
                    Node::Call(rule, next) => {
                        called.push(*rule as usize);
                        if empty[*rule as usize] {
                            todo.push(*next);
                        }
                    }
                    Node::Byte(..) | Node::Return => {}
                }
            }
            called.sort_unstable();
            called.dedup();
            called
        };
        self.starts.iter().map(one).collect()
    }

    /// Refuses rules that never end, and rules that begin with themselves: a walk through those would never read a byte.
    pub(crate) fn check(&self, names: &dyn Fn(usize) -> String) -> Result<()> {
        let wrong =
            |rule: usize, what: &str, hint: &str| Err(Error::new(format!("rule `{}`", names(rule)), what, hint));
        if let Some(rule) = self.passable(true).iter().position(|ends| !ends) {
            return wrong(rule, "never ends: every way through it leads to itself again", "add a way without itself");
        }
        let empty = self.passable(false);
        let begins = self.begins(&empty);
        for (rule, first) in begins.iter().enumerate() {
            let (mut todo, mut seen) = (first.clone(), vec![false; begins.len()]);
            while let Some(at) = todo.pop() {
                if at == rule {
                    return wrong(rule, "begins with itself", "write it from the left: list ::= item list | item");
                }
                if !std::mem::replace(&mut seen[at], true) {
                    todo.extend(&begins[at]);
                }
            }
        }
        Ok(())
    }
}

/// Which states were seen on the walk under way.
struct Visits {
    walk: u32,
    seen: Vec<u32>,
}

impl Visits {
    fn new(nodes: usize) -> Self {
        Self { walk: 0, seen: vec![0; nodes] }
    }

    /// Begins another walk.
    fn begin(&mut self, at: u32) -> Vec<u32> {
        self.walk += 1;
        vec![at]
    }

    /// Whether this walk has been here before.
    fn again(&mut self, at: u32) -> bool {
        std::mem::replace(&mut self.seen[at as usize], self.walk) == self.walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(rule: usize) -> Expr {
        Expr::Call(rule)
    }

    fn text(text: &str) -> Expr {
        Expr::Literal(text.into())
    }

    fn what(rules: &[Expr]) -> String {
        Program::new(rules).unwrap().check(&|rule| rule.to_string()).map_or_else(|e| e.to_string(), |()| "good".into())
    }

    #[test]
    fn rules_that_never_end_or_begin_with_themselves_are_named() {
        assert_eq!(what(&[Expr::Alt(vec![Expr::Seq(vec![text("("), call(0), text(")")]), text("x")])]), "good");
        assert!(what(&[Expr::Seq(vec![text("a"), call(0)])]).contains("never ends"));
        assert!(
            what(&[Expr::Alt(vec![Expr::Seq(vec![call(0), text("a")]), text("a")])]).contains("begins with itself")
        );
        // By way of another, and behind something that may be nothing.
        let optional = Expr::Repeat(Box::new(text("x")), 0, Some(1));
        let round = [Expr::Alt(vec![call(1), text("a")]), Expr::Seq(vec![call(2), call(0), text("b")]), optional];
        assert!(what(&round).contains("begins with itself"));
    }

    #[test]
    fn a_pattern_is_an_expression_and_may_call() {
        let found = Expr::of_regex(&format!("a{}?[bc]{}", super::call(3), super::call(3))).unwrap();
        let Expr::Seq(parts) = found else { panic!("a sequence") };
        assert_eq!(parts[1], Expr::Repeat(Box::new(Expr::Call(3)), 0, Some(1)));
        assert_eq!(parts[3], Expr::Call(3));
        let either = Expr::of_regex(&format!("{}|{}|x", super::call(0), super::call(1))).unwrap();
        assert_eq!(either, Expr::Alt(vec![Expr::Call(0), Expr::Call(1), text("x")]));
        assert!(Expr::of_regex("^a").is_err() && Expr::of_regex("(").is_err());
        assert!(Program::new(&[Expr::of_regex("((a{1000}){1000})").unwrap()]).is_err());
    }
}
