//! The tree of a beam search: every continuation that was considered, what became of it, and what it grew from.

use qkv_base::escape_html;
use qkv_report::{Frame, scrolling};
use serde::Serialize;
use std::fmt::Write;

/// What became of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// it went on
    Kept,
    /// it ended
    Finished {
        /// what it counts against the other finished ones
        score: f64,
    },
    /// others were better
    Pruned,
}

/// One token of the tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// how many tokens stand before it
    pub step: usize,
    /// what it grew from; none: from the prompt
    pub parent: Option<usize>,
    /// the token
    pub id: u32,
    /// the model's log-probability of it
    pub logprob: f32,
    /// the score of the whole continuation so far
    pub total: f64,
    /// what became of it
    #[serde(flatten)]
    pub fate: Fate,
    /// the token as text, where there is a tokenizer
    pub text: Option<String>,
}

/// Everything that one search considered.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tree {
    /// parents before children
    pub nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The nodes at which continuations ended.
    pub fn finished(&self) -> Vec<usize> {
        let ended = |i: &usize| matches!(self.nodes[*i].fate, Fate::Finished { .. });
        (0..self.nodes.len()).filter(ended).collect()
    }

    /// The tokens from the prompt to a node.
    pub fn path(&self, node: usize) -> Vec<u32> {
        let mut path: Vec<u32> =
            std::iter::successors(self.nodes.get(node), |n| self.nodes.get(n.parent?)).map(|n| n.id).collect();
        path.reverse();
        path
    }

    /// Gives every token its text.
    pub fn name(&mut self, text: impl Fn(u32) -> String) {
        self.nodes.iter_mut().for_each(|node| node.text = Some(text(node.id)));
    }

    fn children(&self) -> (Vec<usize>, Vec<Vec<usize>>) {
        let (mut roots, mut children) = (vec![], vec![vec![]; self.nodes.len()]);
        for (i, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        (roots, children)
    }

    fn label(&self, i: usize) -> String {
        let node = &self.nodes[i];
        let text = node.text.as_ref().map_or(node.id.to_string(), |t| format!("{t:?}"));
        let fate = match node.fate {
            Fate::Kept => String::new(),
            Fate::Finished { score } => format!("  ■ {score:.4}"),
            Fate::Pruned => "  ✗".to_string(),
        };
        format!("{text}  {:.4}{fate}", node.total)
    }

    /// As a tree in the terminal: `■` ended with this score, `✗` was pruned.
    pub fn table(&self) -> String {
        let (roots, children) = self.children();
        let mut out = String::new();
        // (node, what stands before its branch, whether it is the last of its siblings)
        let mut todo: Vec<(usize, String, bool)> = siblings(&roots, "");
        while let Some((i, before, last)) = todo.pop() {
            let _ = writeln!(out, "{before}{}{}", if last { "└ " } else { "├ " }, self.label(i));
            todo.extend(siblings(&children[i], &format!("{before}{}", if last { "  " } else { "│ " })));
        }
        out
    }

    /// As one HTML page: branches that open and close, what was pruned in grey.
    pub fn html(&self) -> String {
        let (roots, children) = self.children();
        let mut out = String::new();
        enum Do {
            Open(usize),
            Close,
        }
        let mut todo: Vec<Do> = roots.iter().rev().map(|i| Do::Open(*i)).collect();
        while let Some(next) = todo.pop() {
            let Do::Open(i) = next else {
                out.push_str("</details>");
                continue;
            };
            let class = match self.nodes[i].fate {
                Fate::Kept => "kept",
                Fate::Finished { .. } => "ended",
                Fate::Pruned => "pruned",
            };
            let label = escape_html(&self.label(i));
            if children[i].is_empty() {
                let _ = write!(out, "<div class=\"leaf {class}\">{label}</div>"); // nothing that could be opened
                continue;
            }
            let _ = write!(out, "<details open class=\"{class}\"><summary>{label}</summary>");
            todo.push(Do::Close);
            todo.extend(children[i].iter().rev().map(|c| Do::Open(*c)));
        }
        let count = |fate: fn(&Fate) -> bool| self.nodes.iter().filter(|n| fate(&n.fate)).count();
        let lead = format!(
            "{} continuations were considered: {} ended (■, with their score), {} were pruned (✗). Beside each token stands the \
             log-probability so far.",
            self.nodes.len(),
            count(|f| matches!(f, Fate::Finished { .. })),
            count(|f| *f == Fate::Pruned)
        );
        let tree = scrolling("the tree of the search", &format!("<div class=\"tree\">{out}</div>"));
        Frame::new("--beam --trace", "Beam search").lead(&lead).style(STYLE).page(&tree)
    }
}

fn siblings(all: &[usize], before: &str) -> Vec<(usize, String, bool)> {
    all.iter().enumerate().rev().map(|(n, i)| (*i, before.to_string(), n + 1 == all.len())).collect()
}

const STYLE: &str = "
.tree { font: .9rem/1.5 ui-monospace, monospace; white-space: nowrap; min-width: max-content; }
.tree details, .leaf { margin-left: .5rem; border-left: 1px solid var(--line); padding-left: .5rem; }
.leaf { padding-left: 1.5rem; }
.pruned, .pruned > summary { color: var(--soft); } .ended, .ended > summary { color: var(--good); font-weight: bold; }
";

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let node = |step, parent, id, total, fate| Node { step, parent, id, logprob: -0.5, total, fate, text: None };
        Tree {
            nodes: vec![
                node(0, None, 5, -0.5, Fate::Kept),
                node(0, None, 6, -2.0, Fate::Pruned),
                node(1, Some(0), 2, -1.0, Fate::Finished { score: -0.5 }),
                node(1, Some(0), 7, -1.5, Fate::Kept),
            ],
        }
    }

    #[test]
    fn branches_are_drawn() {
        assert_eq!(tree().table(), "├ 5  -0.5000\n│ ├ 2  -1.0000  ■ -0.5000\n│ └ 7  -1.5000\n└ 6  -2.0000  ✗\n");
        assert_eq!((tree().path(2), tree().finished()), (vec![5, 2], vec![2]));
    }

    #[test]
    fn the_page_is_whole_and_tokens_are_text() {
        let mut tree = tree();
        tree.name(|id| format!("<{id}>"));
        let html = tree.html();
        assert_eq!((html.matches("<details").count(), html.matches("</details>").count()), (1, 1));
        assert_eq!(html.matches("class=\"leaf ").count(), 3, "what has no branches cannot be opened");
        assert!(html.contains("4 continuations were considered: 1 ended (■, with their score), 1 were pruned"));
        assert!(html.contains("&lt;5&gt;") && !html.contains("<5>"));
        let json = serde_json::to_value(&tree).unwrap();
        assert_eq!((&json["nodes"][2]["fate"], &json["nodes"][2]["parent"]), (&"finished".into(), &0.into()));
    }
}
