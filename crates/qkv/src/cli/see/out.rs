//! Where what was seen goes: the terminal, or a file by its extension.

use super::Args;
use crate::cli::fail::Fail;
use crate::cli::terminal::{say, say_json, say_painted, style, talk};
use qkv_insight::render::{csv, terminal};
use qkv_insight::see::view::Options;
use qkv_insight::see::{Seen, View, heat, html, svg};
use qkv_tasks::TextModel;
use std::path::Path;

/// The name that stands for every view that fits the model.
pub(super) const ALL_VIEWS: &str = "all";

/// What kind of file is asked for.
pub(super) fn kind_of(path: &Path) -> Result<&'static str, Fail> {
    let given = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    ["html", "svg", "csv", "json"].into_iter().find(|known| *known == given).ok_or_else(|| {
        Fail::usage(format!("{}: `.{given}` is not written", path.display()), "name a file .html, .svg, .csv or .json")
    })
}

/// The views that are asked for, or those that are usual.
pub(super) fn views(args: &Args, model: &TextModel, whole: bool) -> Vec<View> {
    let fitting = |skip: &[View]| View::ALL.into_iter().filter(|v| v.fits(model) && !skip.contains(v)).collect();
    match (args.view.iter().any(|name| name == ALL_VIEWS), args.view.is_empty(), whole) {
        (true, _, _) => fitting(&[]),
        (_, false, _) => args.view.iter().filter_map(|name| View::parse(name)).collect(),
        // Gradients take many passes, and neurons are of one row: they are for who asks.
        (_, _, true) => fitting(&[View::Gradients, View::Neurons]),
        // Without attention, what the network keeps of the text and how surprised it is.
        _ if !View::Maps.fits(model) => fitting(&[View::Gradients, View::Lens]),
        _ => fitting(&[View::Gradients, View::Neurons, View::Lens, View::Loss, View::Rollout, View::Pca]),
    }
}

pub(super) fn write(args: &Args, kind: Option<&str>, seen: &Seen, options: &Options) -> Result<(), Fail> {
    let (Some(kind), Some(path)) = (kind, &args.output) else {
        return if args.json { say_json(seen) } else { show(seen) };
    };
    let text = match kind {
        "html" => html::page(seen)?,
        "svg" => picture(args, seen, options)?,
        "csv" => csv::tables(&tables(seen))?,
        _ => serde_json::to_string(seen).map_err(|e| Fail::failed("json", e, ""))?,
    };
    qkv_weights::write_atomically(path, text.as_bytes())?;
    seen.notes.iter().for_each(|note| talk(format_args!("note: {note}")));
    say(format!("{}: {} bytes", path.display(), text.len()))
}

/// Every grid and table, for a spreadsheet.
fn tables(seen: &Seen) -> Vec<qkv_insight::page::Table> {
    seen.grids.iter().map(|(_, g)| g.table(6)).chain(seen.tables.iter().map(|(_, t)| t.clone())).collect()
}

/// What can be drawn of what was asked for: patches, the alignment, hidden states, else one map where a layer or a head is
/// named, and all heads where none is.
fn picture(args: &Args, seen: &Seen, options: &Options) -> Result<String, Fail> {
    let wanted = |view: View| options.views.contains(&view);
    let one = args.layer.is_some() || args.head.is_some();
    let grid = |view: View| seen.grids.iter().find(|(v, _)| *v == view).map(|(_, g)| svg::grid(g));
    let maps = || seen.maps.first().map(svg::heads).transpose();
    let found = match &seen.picture {
        Some(picture) => Some(picture.clone()),
        None if wanted(View::Align) && !one => grid(View::Align),
        None if wanted(View::Pca) => Some(svg::planes(&seen.shown, &seen.planes)),
        None if wanted(View::Rollout) => grid(View::Rollout),
        None if wanted(View::Maps) && one => grid(View::Maps),
        None if wanted(View::Maps) => maps()?,
        None => grid(View::Align),
    };
    let hint = "write .csv, .json or .html, or choose maps, rollout, align, patches or pca";
    found.ok_or_else(|| Fail::usage("these views are tables, not pictures", hint))
}

fn show(seen: &Seen) -> Result<(), Fail> {
    let style = style();
    let read = seen.tokens.len();
    let wrote = if seen.target.is_empty() { String::new() } else { format!(", {} written", seen.target.len()) };
    say(format!("{} {}: {read} tokens{wrote}", seen.family, seen.model))?;
    for (view, grid) in &seen.grids {
        say("")?;
        // Where the numbers fit they are shown: they say more than shades.
        let small = *view != View::Patches && grid.columns.len() <= 12 && grid.rows.len() <= 12;
        let lines = if small { terminal::table(&grid.table(3), style) } else { heat::lines(grid, style) };
        say_painted(&lines.join("\n"))?;
    }
    for (_, table) in &seen.tables {
        say("")?;
        say_painted(&terminal::table(table, style).join("\n"))?;
    }
    for note in &seen.notes {
        say(format!("\n{}", terminal::wrap(note, style.width).join("\n")))?;
    }
    Ok(())
}
