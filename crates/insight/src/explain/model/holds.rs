//! What a model holds before it reads anything: its table of tokens, its tokenizer, its positions, what adapters would add,
//! and what it all weighs.

use super::Asked;
use crate::arithmetic::{cosine, norm};
use crate::page::{Cell, Page, Table, Verdict};
use crate::see::look::label;
use crate::see::{Ask, Given};
use qkv_base::{Error, Result};
use qkv_kernels::Ids;
use qkv_model::count::{Count, parameters};
use qkv_model::spec::Position;
use qkv_tasks::TextModel;

pub(super) fn embeddings(page: Page, model: &TextModel, given: &Given) -> Result<Page> {
    let ids = given.ids();
    let x = model.network.model.embed(&Ids::one(ids.to_vec()))?;
    let width = x.dims()[2];
    let values: Vec<f64> = crate::see::look::numbers(x)?.into_iter().map(f64::from).collect();
    let rows: Vec<&[f64]> = values.chunks(width.max(1)).collect();
    let names: Vec<String> = ids.iter().map(|id| label(model, *id)).collect();
    let shown_features = width.min(6);
    let columns: Vec<String> = std::iter::once("id".to_string())
        .chain((0..shown_features).map(|i| format!("x{i}")))
        .chain(["length".into()])
        .collect();
    let cells = rows.iter().zip(ids).map(|(row, id)| {
        std::iter::once(Cell::Count(u64::from(*id)))
            .chain(row[..shown_features].iter().map(|v| Cell::number(*v, 4)))
            .chain([Cell::number(norm(row), 4)])
            .collect()
    });
    let mut page = page.table(Table::of(
        &format!("the first {shown_features} of {width} features of each token"),
        "token",
        &columns,
        names.iter().cloned().zip(cells).collect(),
    ));
    if names.len() <= 12 {
        let near: Vec<Vec<f64>> = rows.iter().map(|a| rows.iter().map(|b| cosine(a, b)).collect()).collect();
        page = page.table(Table::matrix("cosine of each two, before any attention", &names, &names, &near, 3));
    }
    let v = model.spec().vocabulary().unwrap_or(0) as u64;
    Ok(page.verdict(
        Verdict::Note,
        format!(
            "the table has {} × {} = {} numbers.",
            v,
            model.spec().table_width(),
            qkv_base::format::grouped(v * model.spec().table_width() as u64)
        ),
    ))
}

pub(super) fn tokens(page: Page, asked: &Asked) -> Result<Page> {
    let Ask::Text(text) = &asked.text else {
        return Err(Error::new("tokens", "ids are cut already", "give --text"));
    };
    let tokenizer = asked.model.tokenizer()?;
    let told = tokenizer.explain(text, true)?;
    let row = |r: &qkv_text::ExplainRow| {
        (
            r.piece.clone(),
            vec![Cell::Count(u64::from(r.id)), Cell::Text(if r.special { "special".into() } else { r.text.clone() })],
        )
    };
    let title = format!(
        "{}: {} pieces for {} characters, vocabulary {}",
        tokenizer.model_name(),
        told.rows.len(),
        text.chars().count(),
        tokenizer.vocab_size()
    );
    let page = page.table(Table::of(&title, "piece", &["id", "text"], told.rows.iter().map(row).collect()));
    // The word that was cut into most pieces: its merges, its tries, or its best ways.
    let cut = told.words.iter().filter(|w| !w.lines().is_empty()).max_by_key(|w| w.pieces().len());
    Ok(match cut {
        Some(word) => page.expand(word.word.clone(), word.lines()),
        None => page,
    })
}

pub(super) fn positions(page: Page, model: &TextModel) -> Result<Page> {
    let words = match model.spec().position {
        Position::Learned { max, .. } => format!("learned: a vector for each of {max} positions"),
        Position::Sinusoidal { .. } => "sinusoids, computed and not learned".into(),
        Position::Rotary { theta, .. } => {
            format!("rotary: queries and keys are turned, the slowest by 1/{theta} of a radian a place")
        }
        Position::Relative(_) => "relative: a learned number is added to the scores for each distance".into(),
        Position::Alibi => "ALiBi: the scores fall with the distance, each head by its own slope".into(),
        _ => "none".into(),
    };
    let page = page.text(format!("this model's positions are {words}."));
    let network = &model.network.model;
    let table = [&network.decoder, &network.encoder].into_iter().flatten().find_map(|s| s.positions.as_ref());
    let Some(learned) = table else { return Ok(page) };
    let weight = learned.table.weight.val();
    let (rows, width) = (weight.dims()[0], weight.dims()[1]);
    let values: Vec<f64> = crate::see::look::numbers(weight)?.into_iter().map(f64::from).collect();
    let at = |p: usize| &values[p * width..(p + 1) * width];
    let steps: Vec<usize> = [0usize, 1, 2, 4, 8, 16].into_iter().filter(|k| k + 8 < rows).collect();
    let near: Vec<Vec<f64>> =
        [0usize, 4, 8].iter().map(|p| steps.iter().map(|k| cosine(at(*p), at(p + k))).collect()).collect();
    let columns: Vec<String> = steps.iter().map(|k| format!("k={k}")).collect();
    Ok(page.table(Table::matrix(
        "cosine of row p and row p+k of the learned table",
        &["p = 0", "p = 4", "p = 8"],
        &columns,
        &near,
        3,
    )))
}

pub(super) fn lora(page: Page, model: &TextModel) -> Page {
    let all = parameters(&model.network.model);
    let total: u64 = all.iter().map(|p| p.elements()).sum();
    let adapted = |rank: u64| -> u64 {
        let matrix = |path: &str| ["attention.q.weight", "attention.v.weight"].iter().any(|end| path.ends_with(end));
        all.iter().filter(|p| matrix(&p.path)).map(|p| rank * p.shape.iter().map(|n| *n as u64).sum::<u64>()).sum()
    };
    let row = |rank: u64| {
        (
            format!("rank {rank}"),
            vec![Cell::Count(adapted(rank)), Cell::number(100.0 * adapted(rank) as f64 / total.max(1) as f64, 3)],
        )
    };
    page.table(Table::of(
        &format!("adapters on every q and v of this model, which has {} parameters", qkv_base::format::grouped(total)),
        "",
        &["parameters that learn", "% of all"],
        [1, 4, 8, 16, 64].map(row).to_vec(),
    ))
}

pub(super) fn cost(page: Page, model: &TextModel, tokens: usize) -> Result<Page> {
    let count = Count::of(model.spec(), tokens.max(1))?;
    let rows = count
        .by_part(1)
        .into_iter()
        .map(|(name, n)| (name, vec![Cell::Count(n), Cell::number(100.0 * n as f64 / count.total().max(1) as f64, 1)]));
    let page = page.table(Table::of(
        &format!("{} parameters", qkv_base::format::grouped(count.total())),
        "part",
        &["parameters", "%"],
        rows.collect(),
    ));
    let flops = [("to read a token", count.encode_flops), ("to write a token", count.decode_flops)];
    let rows: Vec<_> = flops
        .iter()
        .filter(|f| f.1 > 0.0)
        .map(|f| (f.0, vec![Cell::Count(f.1 as u64)]))
        .chain([("bytes of cache for each token", vec![Cell::Count(count.cache_bytes)])])
        .collect();
    Ok(page.table(Table::of(&format!("arithmetic at {} tokens", tokens.max(1)), "", &["operations"], rows)))
}
