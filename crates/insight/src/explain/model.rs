//! A topic's page with a real model's numbers: the same idea, in a network of one's own, on a text of one's own. The maps
//! are those that `qkv see` and `qkv logits --attentions` give.

mod holds;

use crate::page::{Cell, Page, Table, Verdict, shown};
use crate::see::look::label;
use crate::see::scores::{Scores, scores};
use crate::see::{Ask, Given, Look, heads, lens};
use qkv_base::{Error, Result};
use qkv_decode::{Chain, History, Row as LogitRow};
use qkv_model::spec::Head;
use qkv_tasks::TextModel;

/// Which model, which text, and where to look.
pub struct Asked<'a> {
    /// the model
    pub model: &'a TextModel,
    /// the text
    pub text: Ask,
    /// what a translation model writes, where it is given
    pub target: Option<Ask>,
    /// from 0; the first where none is named
    pub layer: usize,
    /// from 0
    pub head: usize,
    /// which query, from 0; the last where none is named
    pub row: Option<usize>,
}

/// The topics that have something to show of a model.
pub const WITH_MODEL: &[&str] = &[
    "embeddings",
    "tokens",
    "softmax",
    "attention",
    "heads",
    "positions",
    "mask",
    "cross",
    "loss",
    "product-rule",
    "cost",
    "lora",
    "sampling",
];

/// The page with a section about the model behind it.
pub fn with_model(page: Page, asked: &Asked) -> Result<Page> {
    let topic = page.topic.clone();
    if !WITH_MODEL.contains(&topic.as_str()) {
        let what = "this topic has nothing to show of a model";
        return Err(Error::new(topic, what, format!("leave --model out, or choose {}", WITH_MODEL.join(", "))));
    }
    let model = asked.model;
    let page = page.section(&format!("In {} ({})", model.path.display(), model.network.sheet.name));
    match topic.as_str() {
        "tokens" => return holds::tokens(page, asked),
        "lora" => return Ok(holds::lora(page, model)),
        _ => {}
    }
    let given = Given::new(model, &asked.text, asked.target.as_ref())?;
    if topic == "embeddings" {
        return holds::embeddings(page, model, &given);
    }
    if topic == "cost" {
        return holds::cost(page, model, given.ids().len());
    }
    let look = Look::new(model, &given)?;
    match topic.as_str() {
        "attention" | "softmax" => attention(page, asked, &given, &look),
        "mask" => mask(page, asked, &look),
        "heads" => Ok(page.text(sizes(model)).table(heads::table(look.named(None)?)?).verdict(
            Verdict::Note,
            "what each head looks at is drawn by `qkv see`; that a head has a job is for experiments to show.",
        )),
        "cross" => cross(page, asked, &given, &look),
        "positions" => holds::positions(page, model),
        "loss" => Ok(page.table(lens::losses(model, &given, &look)?)),
        "product-rule" => product(page, model, &given, &look),
        _ => sampling(page, model, &look),
    }
}

fn sizes(model: &TextModel) -> String {
    let stack = model.spec().decoder().or(model.spec().encoder());
    stack.map_or(String::new(), |s| {
        let h = s.heads(model.spec().width);
        format!(
            "C = {}, {} layers, {} heads of width {} ({} heads of keys)",
            model.spec().width,
            s.layers,
            h.heads,
            h.dim,
            h.kv_heads
        )
    })
}

/// The kind of maps that a topic is about: a decoder's own in a pair, the only ones elsewhere.
fn own(model: &TextModel) -> &'static str {
    if model.is_pair() { "decoder" } else { "attention" }
}

/// A dot product with its first terms written out.
fn written(a: &[f64], b: &[f64]) -> String {
    let shown_terms = a.len().min(6);
    let terms = crate::arithmetic::dot_in_words(&a[..shown_terms], &b[..shown_terms], 4);
    if a.len() > shown_terms { format!("{terms} + … ({} terms)", a.len()) } else { terms }
}

fn row_table(title: &str, names: &[String], found: &Scores) -> Table {
    let row = |j: usize| {
        let numbers = [found.dots[j], found.scores[j], found.weights[j]];
        (names.get(j).cloned().unwrap_or_default(), numbers.iter().map(|v| Cell::number(*v, 4)).collect())
    };
    Table::of(title, "key", &["q·k", "score", "weight"], (0..found.weights.len()).map(row).collect())
}

fn attention(page: Page, asked: &Asked, given: &Given, look: &Look) -> Result<Page> {
    let kind = own(asked.model);
    let maps = look.named(Some(kind))?;
    let row = asked.row.unwrap_or(maps.queries.len().saturating_sub(1));
    let found = scores(asked.model, given, kind, asked.layer, asked.head, row)?;
    let query = maps.queries.get(row).cloned().unwrap_or_default();
    let best =
        (0..found.weights.len()).reduce(|a, b| if found.weights[b] > found.weights[a] { b } else { a }).unwrap_or(0);
    let again = crate::arithmetic::softmax(&found.scores);
    let worst = again.iter().zip(&found.weights).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let title = format!("layer {}, head {}, row {row}: how `{query}` looks at each token", asked.layer, asked.head);
    let mut steps = vec![
        format!("q·k = {}", written(&found.query, &found.keys[best])),
        format!("= {}", shown(found.dots[best], 4)),
        format!("· {} = {}", shown(found.scale, 6), shown(found.dots[best] * found.scale, 4)),
    ];
    if let Some(bias) = &found.bias {
        steps.push(format!("+ {} for the distance", shown(bias.get(best).copied().unwrap_or(0.0), 4)));
    }
    steps.push(format!("softmax over the row → {}", shown(found.weights[best], 4)));
    let mut page = page
        .text(sizes(asked.model))
        .table(row_table(&title, &maps.keys, &found))
        .expand(format!("`{query}` → `{}`", maps.keys.get(best).cloned().unwrap_or_default()), steps);
    if maps.keys.len() <= 12 {
        page = page.table(maps.grid(asked.layer, asked.head)?.table(4));
    }
    // How far below the bound depends on the machine's vector instructions: nobody needs to know.
    Ok(match worst <= 1e-5 {
        true => {
            page.verdict(Verdict::Equal, "the softmax of these scores is what the network computed, within 0.00001.")
        }
        false => page.verdict(
            Verdict::Note,
            format!("the softmax of these scores misses the network's weights by {worst:.1e}."),
        ),
    })
}

fn mask(page: Page, asked: &Asked, look: &Look) -> Result<Page> {
    let maps = look.named(Some(own(asked.model)))?;
    let grid = maps.grid(asked.layer, asked.head)?;
    let t = grid.rows.len();
    let future = (0..t).flat_map(|i| grid.row(i)[i + 1..].iter()).filter(|w| **w != 0.0).count();
    let hidden = (0..t).flat_map(|i| grid.row(i).iter()).filter(|w| **w == 0.0).count();
    let page = if t <= 12 {
        page.table(grid.table(4))
    } else {
        page.text(format!("{t} × {t} weights; `qkv see` draws them"))
    };
    let pairs = t * t.saturating_sub(1) / 2;
    Ok(match future {
        0 if pairs > 0 => page.verdict(
            Verdict::Equal,
            format!("all {pairs} weights on later tokens are exactly 0 ({hidden} zeros in all): this stack is causal."),
        ),
        _ => page.verdict(
            Verdict::Note,
            format!(
                "{future} of {pairs} weights on later tokens are not 0: this stack looks both ways, as an encoder \
        does."
            ),
        ),
    })
}

fn cross(page: Page, asked: &Asked, given: &Given, look: &Look) -> Result<Page> {
    if !asked.model.is_pair() {
        let hint = "choose a model that reads one text and writes another: Marian, BART, T5";
        return Err(Error::new("cross", "this model has no cross-attention", hint));
    }
    let maps = look.named(Some("cross"))?;
    let row = asked.row.unwrap_or(maps.queries.len().saturating_sub(1));
    let found = scores(asked.model, given, "cross", asked.layer, asked.head, row)?;
    let grid = maps.grid(asked.layer, asked.head)?;
    let query = maps.queries.get(row).cloned().unwrap_or_default();
    Ok(page
        .text(format!(
            "{} tokens are written, {} were read: weights ({}, {})",
            maps.queries.len(),
            maps.keys.len(),
            maps.queries.len(),
            maps.keys.len()
        ))
        .table(grid.table(3))
        .table(row_table(
            &format!("layer {}, head {}, row {row}: `{query}`", asked.layer, asked.head),
            &maps.keys,
            &found,
        )))
}

fn product(page: Page, model: &TextModel, given: &Given, look: &Look) -> Result<Page> {
    if matches!(model.spec().head, Head::Masked { .. }) {
        let hint = "choose a model that continues texts: GPT-2, LLaMA, or a translation model";
        return Err(Error::new(
            "product-rule",
            "a masked language model sees both sides, so its probabilities do not multiply",
            hint,
        ));
    }
    let labels = lens::labels(model, given)?;
    let mut sum = 0.0;
    let mut rows = vec![];
    for (i, id) in labels.iter().enumerate() {
        let Some((id, p, _)) = lens::place(look.scores(i), *id, 1).label else { continue };
        sum += p.ln();
        rows.push((label(model, id), [p, p.ln(), sum, sum.exp()].iter().map(|v| Cell::number(*v, 6)).collect()));
    }
    let n = rows.len().max(1) as f64;
    Ok(page
        .table(Table::of("each token given all before it", "token", &["p", "ln p", "sum of ln p", "product"], rows))
        .verdict(
            Verdict::Note,
            format!(
                "ln Pr = {}, perplexity e^({} / {n}) = {}; `qkv score` says the same of the same ids.",
                shown(sum, 4),
                shown(-sum, 4),
                shown((-sum / n).exp(), 4)
            ),
        ))
}

fn sampling(page: Page, model: &TextModel, look: &Look) -> Result<Page> {
    if !matches!(model.spec().head, Head::Language { .. }) {
        return Err(Error::new("sampling", "this model writes no text", "choose a language model"));
    }
    let last = look.scores(look.read().len().saturating_sub(1));
    let chains = ["temperature 1", "temperature 0.5", "temperature 2", "top_k 3", "top_p 0.9"];
    let best: Vec<u32> = lens::place(last, None, 8).top.iter().map(|t| t.0).collect();
    let mut columns = vec![];
    for text in chains {
        let chain: Chain = text.parse()?;
        let mut row = LogitRow::of(last)?;
        chain.apply(&mut row, &History::default())?;
        let scale = row.scale();
        columns.push(best.iter().map(|id| scale.probability(row.logit(*id))).collect::<Vec<f64>>());
    }
    let rows = best
        .iter()
        .enumerate()
        .map(|(i, id)| (label(model, *id), columns.iter().map(|c| Cell::number(c[i], 4)).collect()));
    let mut table = Table::of("the eight likeliest next tokens, behind each chain", "token", &chains, rows.collect());
    table.heat = true;
    Ok(page.table(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{TOPICS, find};
    use crate::page::Block;
    use std::path::Path;

    fn tiny(name: &str) -> TextModel {
        TextModel::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name)).unwrap()
    }

    fn asked(model: &TextModel) -> Asked<'_> {
        let text = Ask::Ids(vec![5, 17, 23, 42]);
        Asked {
            model,
            text,
            target: Some(Ask::Ids(vec![31, 8, 77])).filter(|_| model.is_pair()),
            layer: 1,
            head: 2,
            row: None,
        }
    }

    /// Every topic that takes a model shows something of each of three shapes, or says why not; every other refuses.
    #[test]
    fn topics_with_a_model_show_its_numbers_and_the_others_refuse() {
        for name in ["gpt2", "bert-mlm", "marian"] {
            let model = tiny(name);
            for topic in TOPICS {
                let bare = topic.page().unwrap();
                let got = with_model(bare.clone(), &asked(&model));
                match got {
                    Ok(page) => {
                        assert!(WITH_MODEL.contains(&topic.name), "{}", topic.name);
                        assert!(page.blocks.len() > bare.blocks.len() + 1, "{name} {}: nothing is shown", topic.name);
                    }
                    Err(error) => assert!(!error.hint.is_empty(), "{name} {}: {error:?}", topic.name),
                }
            }
        }
        let gpt2 = tiny("gpt2");
        let error = with_model(find("norms").unwrap().page().unwrap(), &asked(&gpt2)).unwrap_err();
        assert!(error.hint.contains("attention"), "{error:?}");
    }

    /// The map on the page is the map of `see`, digit for digit.
    #[test]
    fn attention_agrees_with_the_maps() {
        let model = tiny("gpt2");
        let asked = asked(&model);
        let page = with_model(find("attention").unwrap().page().unwrap(), &asked).unwrap();
        let Some(Block::Table(shown)) = page.blocks.iter().rfind(|b| matches!(b, Block::Table(_))) else {
            panic!("a table")
        };
        let given = Given::new(&model, &asked.text, None).unwrap();
        let grid = Look::new(&model, &given).unwrap().named(None).unwrap().grid(1, 2).unwrap();
        assert_eq!(*shown, grid.table(4));
        // The worked-out row is the last row of that map.
        let rows = page.tables().find(|t| t.title.contains("row 3")).unwrap();
        let weights: Vec<String> = rows.rows.iter().map(|r| r.cells[2].shown()).collect();
        let want: Vec<String> = grid.row(3).iter().map(|w| shown_four(*w)).collect();
        assert_eq!(weights, want);
    }

    fn shown_four(w: f32) -> String {
        shown(f64::from(w), 4)
    }
}
