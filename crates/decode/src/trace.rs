//! What a chain did, token by token: the data behind `--trace`, and its three faces (terminal, JSON, one HTML file).
//!
//! A token's stages are the row before the first step and after each step; what one step did is the difference of two
//! neighbours. A stage lists its best tokens, the one that was chosen in the end, and those of the stage before that are still possible, so that a token which is
//! missing in the next stage was taken out there.

use std::fmt::Write;

use qkv_base::{Error, Result, escape_html};
use qkv_report::{Frame, scrolling};
use serde::{Deserialize, Serialize};

use crate::pick::Picked;
use crate::row::Row;

/// A whole run.
///
/// ```
/// use qkv_decode::{Chain, Row, History, trace::{TokenTrace, Trace}};
/// let chain: Chain = "top_k 2, greedy".parse().unwrap();
/// let mut row = Row::of(&[1.0, 3.0, 2.0]).unwrap();
/// let said = History::default();
/// let stages = chain.apply_traced(&mut row, &said, 5, None).unwrap();
/// let (picked, _) = chain.pick.choose(&mut row, said.key, chain.pick.start()).unwrap();
/// let mut trace = Trace::new(&chain);
/// trace.tokens.push(TokenTrace { stages, picked, text: None });
/// trace.name(|id| ["a", "b", "c"][id as usize].to_string());
/// assert!(trace.table().contains("\"b\""));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// the chain, in its canonical form
    pub chain: String,
    /// one entry a token said
    pub tokens: Vec<TokenTrace>,
}

/// How one token came to be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenTrace {
    /// the row before the first step and after each
    pub stages: Vec<Stage>,
    /// what was said
    pub picked: Picked,
    /// its text, where there is a tokenizer
    pub text: Option<String>,
}

/// A row between two steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// the step that led here; `logits` before the first
    pub step: String,
    /// how many tokens are possible
    pub left: usize,
    /// how many tokens the step took out
    pub removed: usize,
    /// what probability they had before it
    pub mass_removed: f64,
    /// the entropy of what is left, in nats
    pub entropy: f64,
    /// the best tokens, best first
    pub candidates: Vec<TracedCandidate>,
}

/// A token in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedCandidate {
    /// its id
    pub id: u32,
    /// its text, where there is a tokenizer
    pub text: Option<String>,
    /// its logit
    pub logit: f32,
    /// its probability
    pub probability: f64,
}

impl Stage {
    /// The row before the first step.
    pub(crate) fn first(row: &mut Row, watched: Option<u32>, top: usize) -> Self {
        Self::of("logits".into(), row, None, watched, top)
    }

    /// The row after a step.
    pub(crate) fn after(
        step: String,
        mut before: Row,
        row: &mut Row,
        previous: Option<&Stage>,
        watched: Option<u32>,
        top: usize,
    ) -> Self {
        let scale = before.scale();
        let gone = || before.alive().iter().filter(|id| row.logit(**id) == f32::NEG_INFINITY);
        let mass_removed = gone().fold(0.0, |sum, id| sum + scale.probability(before.logit(*id)));
        let removed = gone().count();
        Self { removed, mass_removed, ..Self::of(step, row, previous, watched, top) }
    }

    fn of(step: String, row: &mut Row, previous: Option<&Stage>, watched: Option<u32>, top: usize) -> Self {
        let scale = row.scale();
        let mut ids = row.ranked(top).to_vec();
        let still = |id: &u32| row.logit(*id) > f32::NEG_INFINITY && !ids.contains(id);
        let more: Vec<u32> =
            previous.iter().flat_map(|stage| &stage.candidates).map(|c| c.id).chain(watched).filter(still).collect();
        ids.extend(more);
        ids.sort_by(|a, b| row.logit(*b).total_cmp(&row.logit(*a)).then(a.cmp(b)));
        ids.dedup(); // the one that is watched may have been listed before
        let candidate = |id: u32| {
            let logit = row.logit(id);
            TracedCandidate { id, text: None, logit, probability: scale.probability(logit) }
        };
        let candidates = ids.into_iter().map(candidate).collect();
        Self { step, left: row.alive().len(), removed: 0, mass_removed: 0.0, entropy: row.entropy(), candidates }
    }

    /// The candidate with this id, if it is listed.
    pub fn candidate(&self, id: u32) -> Option<&TracedCandidate> {
        self.candidates.iter().find(|candidate| candidate.id == id)
    }
}

impl TokenTrace {
    /// All candidates of all stages: id, text and where it is first listed, in the order in which they come up.
    fn listed(&self) -> Vec<(u32, Option<&str>, usize)> {
        let mut all: Vec<(u32, Option<&str>, usize)> = Vec::new();
        for (i, stage) in self.stages.iter().enumerate() {
            for candidate in &stage.candidates {
                if !all.iter().any(|(id, ..)| *id == candidate.id) {
                    all.push((candidate.id, candidate.text.as_deref(), i));
                }
            }
        }
        all
    }

    /// What a stage says of a token: its probability, or a dash (out), or nothing (not yet listed).
    fn cell(&self, stage: usize, id: u32, first: usize) -> String {
        match self.stages[stage].candidate(id) {
            Some(candidate) => format!("{:.4}", candidate.probability),
            None if stage < first => String::new(),
            None => "–".into(),
        }
    }
}

impl Trace {
    /// An empty trace of a chain.
    pub fn new(chain: &crate::chain::Chain) -> Self {
        Self { chain: chain.to_string(), tokens: Vec::new() }
    }

    /// Gives every token its text.
    pub fn name(&mut self, text: impl Fn(u32) -> String) {
        for token in &mut self.tokens {
            token.text = Some(text(token.picked.id));
            for candidate in token.stages.iter_mut().flat_map(|stage| &mut stage.candidates) {
                candidate.text = Some(text(candidate.id));
            }
        }
    }

    /// As JSON.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::new("trace", e.to_string(), "a trace holds finite numbers only; please report this"))
    }

    /// As tables for the terminal: one of the steps, one of the tokens under each step.
    pub fn table(&self) -> String {
        let mut out = format!("chain: {}\n", self.chain);
        for (i, token) in self.tokens.iter().enumerate() {
            let _ = writeln!(out, "\ntoken {}: {}, probability {:.4}", i + 1, said(token), token.picked.probability);
            out += &grid(&steps_grid(token));
            out += &grid(&tokens_grid(token));
        }
        out
    }

    /// As one HTML file that needs nothing else.
    pub fn html(&self) -> String {
        let mut out = String::new();
        for (i, token) in self.tokens.iter().enumerate() {
            let open = if i == 0 { " open" } else { "" };
            let probability = token.picked.probability;
            let _ = writeln!(
                out,
                "<details{open}><summary>{} <code>{}</code> <small>p {probability:.4}</small></summary>\n<div class=\"stages\">",
                i + 1,
                escape_html(&said(token)),
            );
            for stage in &token.stages {
                stage_html(&mut out, stage, token.picked.id);
            }
            out += "</div></details>\n";
        }
        let chain = format!("<p class=\"chain\">{}</p>", escape_html(&self.chain));
        Frame::new("qkv generate --trace", "What the chain did").header(&chain).style(STYLE).page(&out)
    }
}

/// The token said, as text and id.
fn said(token: &TokenTrace) -> String {
    named(token.text.as_deref(), token.picked.id)
}

fn named(text: Option<&str>, id: u32) -> String {
    // Escaped, so that a line break or a control character of a token cannot break the page or the terminal.
    text.map_or_else(|| id.to_string(), |text| format!("\"{}\" ({id})", text.escape_debug()))
}

fn steps_grid(token: &TokenTrace) -> Vec<Vec<String>> {
    let mut rows = vec![["", "step", "left", "taken out", "mass", "entropy"].map(String::from).to_vec()];
    for (i, stage) in token.stages.iter().enumerate() {
        let (removed, mass) = match i {
            0 => (String::new(), String::new()),
            _ => (stage.removed.to_string(), format!("{:.4}", stage.mass_removed)),
        };
        let entropy = format!("{:.4}", stage.entropy);
        rows.push(vec![format!("[{i}]"), stage.step.clone(), stage.left.to_string(), removed, mass, entropy]);
    }
    rows
}

fn tokens_grid(token: &TokenTrace) -> Vec<Vec<String>> {
    let numbers = (0..token.stages.len()).map(|i| format!("[{i}]"));
    let mut rows = vec![[String::new(), "token".into()].into_iter().chain(numbers).collect::<Vec<_>>()];
    for (id, text, first) in token.listed() {
        let mark = if id == token.picked.id { ">" } else { "" };
        let cells = (0..token.stages.len()).map(|stage| token.cell(stage, id, first));
        rows.push([mark.to_string(), named(text, id)].into_iter().chain(cells).collect());
    }
    rows
}

/// Columns side by side: the first two to the left, numbers to the right.
fn grid(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(width(column).unwrap_or(0) - cell.chars().count());
            line += &if column < 2 { format!("{cell}{pad}  ") } else { format!("{pad}{cell}  ") };
        }
        let _ = writeln!(out, "  {}", line.trim_end());
    }
    out
}

fn stage_html(out: &mut String, stage: &Stage, picked: u32) {
    let mut rows = String::new();
    for candidate in &stage.candidates {
        let (class, mark) = if candidate.id == picked { (" class=\"said\"", "▸ ") } else { ("", "") };
        let _ = writeln!(
            rows,
            "<tr{class}><th scope=\"row\">{mark}<code>{}</code></th><td class=\"n\">{:.3}</td><td class=\"n\">{:.4}</td><td class=\"bar\"><i style=\"width:{:.1}%\"></i></td></tr>",
            escape_html(&named(candidate.text.as_deref(), candidate.id)),
            candidate.logit,
            candidate.probability,
            100.0 * candidate.probability
        );
    }
    let head = [("", "token"), (" class=\"n\"", "logit"), (" class=\"n\"", "p"), ("", "share")]
        .map(|(class, name)| format!("<th scope=\"col\"{class}>{name}</th>"))
        .concat();
    let table = format!("<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>");
    let _ = writeln!(
        out,
        "<section><h2>{}</h2><p class=\"note\">{} left, {} taken out with {:.4} of the mass, entropy {:.4}</p>{}</section>",
        escape_html(&stage.step),
        stage.left,
        stage.removed,
        stage.mass_removed,
        stage.entropy,
        scrolling(&stage.step, &table)
    );
}

const STYLE: &str = "
.chain { font-family: ui-monospace, monospace; margin: 0 0 1rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
.stages { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr)); gap: 1.2rem; padding: .8rem 0; }
.stages section { min-width: 0; }
.stages h2 { font: 600 .95rem ui-monospace, monospace; margin: 0; border: 0; padding: 0; }
.stages .note { margin: 0; } .stages .scroll { margin: .4rem 0 0; }
.stages table { width: 100%; }
.stages tbody th { font-weight: normal; background: none; }
.stages .said th, .stages .said td { font-weight: 600; background: var(--card); }
.bar { width: 40%; min-width: 5rem; } .bar i { display: block; height: .7rem; margin-top: .35rem; background: var(--s0); border-radius: 2px; min-width: 1px; }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chain, History};

    /// p = 0.5, 0.25, 0.125, 0.125; texts with everything that could break a page.
    fn trace() -> Trace {
        let chain: Chain = "top_k 3, min_p 0.4, temperature 0.5, greedy".parse().unwrap();
        let mut row = Row::of(&[0.5f32, 0.25, 0.125, 0.0625, 0.0625].map(f32::ln)).unwrap();
        let stages = chain.apply_traced(&mut row, &History::default(), 4, None).unwrap();
        let (picked, _) = chain.pick.choose(&mut row, History::default().key, chain.pick.start()).unwrap();
        let mut trace = Trace::new(&chain);
        trace.tokens.push(TokenTrace { stages, picked, text: None });
        trace.name(|id| ["<b>", "\n&", "\u{1b}[2J", "d", "e"][id as usize].to_string());
        trace
    }

    #[test]
    fn stages_by_hand() {
        let trace = trace();
        let stages = &trace.tokens[0].stages;
        assert_eq!(stages.iter().map(|s| s.left).collect::<Vec<_>>(), [5, 3, 2, 2]);
        assert_eq!(stages.iter().map(|s| s.removed).collect::<Vec<_>>(), [0, 2, 1, 0]);
        for (stage, mass) in stages.iter().zip([0.0, 0.125, 1.0 / 7.0, 0.0]) {
            assert!((stage.mass_removed - mass).abs() < 1e-6, "{}", stage.step);
        }
        // 1.875 bits; after all, 0.8 and 0.2.
        assert!((stages[0].entropy - 1.875 * 2f64.ln()).abs() < 1e-6);
        let last: Vec<(u32, f64)> = stages[3].candidates.iter().map(|c| (c.id, c.probability)).collect();
        assert!(last[0].0 == 0 && (last[0].1 - 0.8).abs() < 1e-6 && last[1].0 == 1 && last.len() == 2);
        assert!((trace.tokens[0].picked.probability - 0.8).abs() < 1e-6);
    }

    #[test]
    fn the_table_is_this() {
        let want = r#"chain: top_k 3, min_p 0.4, temperature 0.5, greedy

token 1: "<b>" (0), probability 0.8000
       step             left  taken out    mass  entropy
  [0]  logits              5                      1.2997
  [1]  top_k 3             3          2  0.1250   0.9557
  [2]  min_p 0.4           2          1  0.1429   0.6365
  [3]  temperature 0.5     2          0  0.0000   0.5004
     token               [0]     [1]     [2]     [3]
  >  "<b>" (0)        0.5000  0.5714  0.6667  0.8000
     "\n&" (1)        0.2500  0.2857  0.3333  0.2000
     "\u{1b}[2J" (2)  0.1250  0.1429       –       –
     "d" (3)          0.0625       –       –       –
"#;
        assert_eq!(trace().table(), want);
    }

    #[test]
    fn json_makes_the_round_trip() {
        let trace = trace();
        let read: Trace = serde_json::from_str(&trace.json().unwrap()).unwrap();
        assert_eq!((read.html(), read.table()), (trace.html(), trace.table()));
    }

    #[test]
    fn the_page_stands_alone_and_shows_tokens_as_text() {
        let html = trace().html();
        assert!(html.contains("&quot;&lt;b&gt;&quot; (0)") && html.contains("\\n&amp;"));
        for bad in ["<b>", "http:", "https:", "<script", "src=", "@import", "url(", "\u{1b}"] {
            assert!(!html.contains(bad), "{bad}");
        }
        assert_eq!(html.matches("<section>").count(), 4);
        assert_eq!(html.matches("class=\"said\"").count(), 4);
    }

    #[test]
    fn a_traced_chain_gives_the_same_row() {
        for step in 0..20 {
            let logits = qkv_base::Key::new(4, step, 0).normals(200);
            let chain: Chain =
                "repetition_penalty 1.3, top_k 50, typical 0.9, xtc 0.05 probability=0.5, top_p 0.9".parse().unwrap();
            let said = History { prompt: &[1, 2, 3], key: qkv_base::Key::new(4, step, 1), ..History::default() };
            let (mut plain, mut traced) = (Row::of(&logits).unwrap(), Row::of(&logits).unwrap());
            chain.apply(&mut plain, &said).unwrap();
            let stages = chain.apply_traced(&mut traced, &said, 10, None).unwrap();
            assert_eq!((plain.logits(), plain.alive()), (traced.logits(), traced.alive()));
            assert_eq!(stages.len(), 6);
        }
    }
}
