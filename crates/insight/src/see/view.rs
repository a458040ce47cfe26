//! Which views are wanted, and what they come to: maps, grids, tables, planes. How they are written (terminal, SVG, CSV,
//! JSON, HTML) is decided behind this.

use super::given::{Ask, Given};
use super::gradients::{Attribution, attribute};
use super::look::{Grid, Look, Maps, Wanted};
use super::pca::{Plane, planes};
use super::scores::{Scores, scores};
use super::{heads, lens, svg};
use crate::page::{Cell, Table};
use qkv_base::{Error, Result};
use qkv_model::spec::{Handover, Head};
use qkv_tasks::TextModel;
use serde::Serialize;
use std::ops::Range;

/// One way to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// attention maps
    Maps,
    /// numbers per head
    Heads,
    /// what each layer would say
    Lens,
    /// loss and likeliest five for each token
    Loss,
    /// input × gradient and integrated gradients
    Gradients,
    /// attention rollout
    Rollout,
    /// hidden states in two dimensions
    Pca,
    /// which source token each written token looked at
    Align,
    /// the class token over the picture
    Patches,
    /// one row of one head, feature by feature: the products q∘k that sum to each score
    Neurons,
}

impl View {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Maps,
        Self::Align,
        Self::Patches,
        Self::Heads,
        Self::Loss,
        Self::Lens,
        Self::Gradients,
        Self::Rollout,
        Self::Pca,
        Self::Neurons,
    ];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maps => "maps",
            Self::Heads => "heads",
            Self::Lens => "lens",
            Self::Loss => "loss",
            Self::Gradients => "gradients",
            Self::Rollout => "rollout",
            Self::Pca => "pca",
            Self::Align => "align",
            Self::Patches => "patches",
            Self::Neurons => "neurons",
        }
    }

    /// The view of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// Whether a model can be looked at so.
    pub fn fits(self, model: &TextModel) -> bool {
        let (head, recurrence) = (&model.spec().head, model.spec().recurrence());
        match self {
            Self::Pca => true,
            // Recurrent layers have no attention, but for the decoder that looks at its source.
            Self::Maps | Self::Heads => recurrence.is_none_or(|(_, cells)| cells.handover == Some(Handover::Attention)),
            Self::Rollout | Self::Neurons => recurrence.is_none(),
            Self::Align if recurrence.is_some() => Self::Maps.fits(model),
            Self::Lens | Self::Loss => matches!(head, Head::Language { .. } | Head::Masked { .. }),
            Self::Gradients => !matches!(head, Head::None | Head::Pool),
            Self::Align => model.is_pair(),
            Self::Patches => model.spec().patches().is_some(),
        }
    }
}

impl View {
    /// What of a pass it is made of.
    fn wants(self) -> Wanted {
        let (maps, states, answer) = match self {
            Self::Maps | Self::Heads | Self::Rollout | Self::Align | Self::Patches | Self::Neurons => {
                (true, false, false)
            }
            Self::Pca => (false, true, false),
            Self::Lens => (false, true, true),
            Self::Loss | Self::Gradients => (false, false, true),
        };
        Wanted { maps, states, answer }
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// the views, in order
    pub views: Vec<View>,
    /// which maps of a pair: encoder, decoder, cross
    pub kind: Option<String>,
    /// which layer, from 0; the last where none is named
    pub layer: Option<usize>,
    /// which head, from 0
    pub head: Option<usize>,
    /// which query the neurons are of, from 0; the last where none is named
    pub row: Option<usize>,
    /// which tokens, where not all are wanted
    pub window: Option<Range<usize>>,
    /// how many steps integrated gradients take
    pub steps: usize,
    /// which place of the answer gradients explain
    pub place: Option<usize>,
}

/// What was seen.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Seen {
    /// which model
    pub model: String,
    /// its family
    pub family: String,
    /// what was read
    pub tokens: Vec<String>,
    /// what was written, where the model writes beside reading
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<String>,
    /// those of them that are shown, where the stack that answers reads them
    #[serde(skip)]
    pub shown: Vec<String>,
    /// what a reader should know
    pub notes: Vec<String>,
    /// attention maps, where they are wanted
    pub maps: Vec<Maps>,
    /// grids, each with its view
    pub grids: Vec<(View, Grid)>,
    /// tables, each with its view
    pub tables: Vec<(View, Table)>,
    /// hidden states in two dimensions
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planes: Vec<Plane>,
    /// what the answer hangs on
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// the class token over the picture, drawn
    #[serde(skip)]
    pub picture: Option<String>,
}

/// Looks. `with_gradients` loads the same model so that gradients can be had, where they are wanted.
pub fn see(
    model: &TextModel,
    ask: &Ask,
    second: Option<&Ask>,
    options: &Options,
    with_gradients: &dyn Fn() -> Result<TextModel>,
) -> Result<Seen> {
    for view in &options.views {
        if !view.fits(model) {
            let has = model.network.config.architecture().unwrap_or(model.network.sheet.name);
            let what = format!("a {has} cannot be looked at so");
            let can: Vec<String> =
                View::ALL.iter().filter(|v| v.fits(model)).map(|v| format!("{v:?}").to_lowercase()).collect();
            return Err(Error::new(
                format!("--view {}", format!("{view:?}").to_lowercase()),
                what,
                format!("this model has {}", can.join(", ")),
            ));
        }
    }
    let given = Given::new(model, ask, second)?;
    let any = |of: fn(Wanted) -> bool| options.views.iter().any(|view| of(view.wants()));
    let wanted = Wanted { maps: any(|w| w.maps), states: any(|w| w.states), answer: any(|w| w.answer) };
    let look = Look::with(model, &given, wanted)?;
    let window = window(options.window.clone(), look.read().len().max(look.tokens.len()))?;
    let mut seen = Seen {
        model: model.path.display().to_string(),
        family: model.network.sheet.name.to_string(),
        tokens: look.tokens.clone(),
        target: look.target.clone(),
        notes: notes(&given, &look, options),
        ..Seen::default()
    };
    let read = look.read().len();
    let shown = window.clone().map_or(0..read, |w| w.start.min(read)..w.end.min(read));
    for view in &options.views {
        one(*view, model, &given, &look, options, &shown, with_gradients, &mut seen)?;
    }
    seen.shown = look.read()[shown].to_vec();
    if options.views.contains(&View::Maps) {
        // Moved, not copied: they are the largest thing here.
        let wanted = |m: &Maps| options.kind.as_ref().is_none_or(|kind| m.name == *kind);
        seen.maps = look.maps.into_iter().filter(wanted).collect();
    }
    if let Some(window) = window {
        seen.maps = seen.maps.iter().map(|m| m.window(window.clone())).collect::<Result<_>>()?;
        for (_, grid) in &mut seen.grids {
            let columns = if grid.rows == grid.columns { window.clone() } else { 0..grid.columns.len() };
            *grid = grid.window(window.clone(), columns);
        }
        for plane in &mut seen.planes {
            let clipped = window.start.min(plane.points.len())..window.end.min(plane.points.len());
            plane.points = plane.points[clipped].to_vec();
        }
        // The lens was made for these tokens alone.
        let per_token = |view: View| matches!(view, View::Loss | View::Pca);
        for (_, table) in seen.tables.iter_mut().filter(|(view, _)| per_token(*view)) {
            let clipped = window.start.min(table.rows.len())..window.end.min(table.rows.len());
            table.rows = table.rows[clipped].to_vec();
        }
        seen.notes.push(format!("tokens {} to {} are shown, of {}", window.start, window.end - 1, read));
    }
    Ok(seen)
}

fn window(asked: Option<Range<usize>>, n: usize) -> Result<Option<Range<usize>>> {
    match asked {
        Some(w) if w.start >= w.end || w.start >= n => {
            let what = format!("holds none of the {n} tokens");
            Err(Error::new(format!("--window {}..{}", w.start, w.end), what, format!("give FROM..TO within 0..{n}")))
        }
        Some(w) => Ok(Some(w.start..w.end.min(n))),
        None => Ok(None),
    }
}

fn notes(given: &Given, look: &Look, options: &Options) -> Vec<String> {
    let mut notes = vec![];
    if let Given::Pair { written: true, .. } = given {
        notes.push(
            "the target was written by the model itself, the likeliest token each time; --target gives another".into(),
        );
    }
    if options.views.iter().any(|v| matches!(v, View::Maps | View::Rollout | View::Align | View::Patches)) {
        notes.push(super::CAUTION.into());
        let worst = look.maps.iter().map(Maps::row_error).fold(0.0, f64::max);
        // How far below the bound depends on the machine's vector instructions: nobody needs to know.
        notes.push(match worst {
            worst if worst <= 1e-5 => "every row of weights sums to 1 within 0.00001".into(),
            worst => format!("the rows of weights sum to 1 within {worst:.1e} only: is a weight not finite?"),
        });
    }
    notes
}

fn one(
    view: View,
    model: &TextModel,
    given: &Given,
    look: &Look,
    options: &Options,
    shown: &Range<usize>,
    with_gradients: &dyn Fn() -> Result<TextModel>,
    seen: &mut Seen,
) -> Result<()> {
    let chosen = || look.named(options.kind.as_deref());
    match view {
        View::Maps => {
            let maps = chosen()?;
            let layer = options.layer.unwrap_or(maps.layers.saturating_sub(1));
            seen.grids.push((
                view,
                match options.head {
                    Some(head) => maps.grid(layer, head)?,
                    None => maps.mean(layer)?,
                },
            ));
        }
        View::Neurons => {
            let maps = chosen()?;
            let layer = options.layer.unwrap_or(maps.layers.saturating_sub(1));
            let row = options.row.unwrap_or(maps.queries.len().saturating_sub(1));
            let found = scores(model, given, &maps.name, layer, options.head.unwrap_or(0), row)?;
            let query = maps.queries.get(row).cloned().unwrap_or_default();
            let head = options.head.unwrap_or(0);
            let title = format!("{}, layer {layer}, head {head}: the products q∘k of row {row}, `{query}`", maps.name);
            seen.tables.push((view, products(&title, &maps.keys, &found)));
        }
        View::Heads => {
            let all = if options.kind.is_some() { vec![chosen()?] } else { look.maps.iter().collect() };
            for maps in all {
                seen.tables.push((view, heads::table(maps)?));
            }
        }
        View::Lens => seen.tables.extend(lens::lens(model, given, look, shown.clone())?.into_iter().map(|t| (view, t))),
        View::Loss => seen.tables.push((view, lens::losses(model, given, look)?)),
        View::Gradients => {
            let tracked = with_gradients()?;
            let found = attribute(&tracked, given, options.place, None, options.steps)?;
            if found.relative_error > 0.01 {
                let off = 100.0 * found.relative_error;
                let steps = 4 * found.steps;
                seen.notes
                    .push(format!("the attributions miss their sum by {off:.1} %: take more steps (--steps {steps})"));
            }
            seen.tables.push((view, attributed(model, look, &found)?));
            seen.attribution = Some(found);
        }
        View::Rollout => {
            let own = match options.kind.as_deref() {
                Some(kind) => look.named(Some(kind))?,
                None => look.named(None)?,
            };
            seen.grids.push((view, heads::rollout(own)?));
        }
        View::Pca => {
            seen.planes = planes(&look.states)?;
            seen.tables.push((view, placed(look, &seen.planes)));
        }
        View::Align => {
            let cross = look.named(Some("cross"))?;
            let mut grid = cross.mean(options.layer.unwrap_or(cross.layers.saturating_sub(1)))?;
            if let Given::Pair { target, .. } = given {
                // A row is where the model looked when it said the next token: that is the token's alignment.
                grid.rows = target.iter().map(|id| super::look::label(model, *id)).collect();
            }
            seen.tables.push((view, aligned(&grid)));
            seen.grids.push((view, Grid { title: format!("alignment: {}", grid.title), ..grid }));
        }
        View::Patches => {
            let maps = look.named(None)?;
            let layer = options.layer.unwrap_or(maps.layers.saturating_sub(1));
            seen.picture = Some(svg::patches(given, maps, layer)?);
            for head in 0..maps.heads {
                seen.grids.push((view, on_patches(&maps.grid(layer, head)?)?));
            }
        }
    }
    Ok(())
}

/// The class token's row as the square of patches that it looks at.
fn on_patches(grid: &Grid) -> Result<Grid> {
    let seen = grid.row(0).get(1..).unwrap_or(&[]).to_vec();
    let side = seen.len().isqrt();
    if side * side != seen.len() {
        return Err(Error::internal("patches", format!("{} patches are no square", seen.len())));
    }
    let names: Vec<String> = (0..side).map(|i| i.to_string()).collect();
    Ok(Grid {
        title: format!("{}: the class token over the patches", grid.title),
        rows: names.clone(),
        columns: names,
        values: seen,
    })
}

/// The products of each feature of a query with that of every key, which sum to the dot product.
fn products(title: &str, keys: &[String], found: &Scores) -> Table {
    let d = found.query.len();
    let columns: Vec<String> =
        ["weight", "score", "q·k"].map(String::from).into_iter().chain((0..d).map(|i| format!("f{i}"))).collect();
    let row = |(j, key): (usize, &Vec<f64>)| {
        let numbers = [found.weights[j], found.scores[j], found.dots[j]];
        let parts = found.query.iter().zip(key).map(|(q, k)| q * k);
        let cells = numbers.into_iter().chain(parts).map(|v| Cell::number(v, 4)).collect();
        (keys.get(j).cloned().unwrap_or_default(), cells)
    };
    Table::of(title, "key", &columns, found.keys.iter().enumerate().map(row).collect())
}

/// For each written token the source token that it looked at most.
fn aligned(grid: &Grid) -> Table {
    let row = |i: usize| {
        let row = grid.row(i);
        let best = (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap_or(0);
        (grid.rows[i].clone(), vec![Cell::Text(grid.columns[best].clone()), Cell::number(f64::from(row[best]), 4)])
    };
    Table::of(
        "alignment: where the model looked most when it said each token",
        "said",
        &["source", "weight"],
        (0..grid.rows.len()).map(row).collect(),
    )
}

fn attributed(model: &TextModel, look: &Look, found: &Attribution) -> Result<Table> {
    let names: Vec<String> = match model.spec().patches() {
        Some(_) => look.tokens[1..].to_vec(),
        None => look.tokens.clone(),
    };
    let what = match &model.spec().head {
        Head::Language { .. } | Head::Masked { .. } => super::look::label(model, found.target),
        Head::Classify { labels, .. } | Head::Tag { labels } => {
            model.labels(*labels)?.get(found.target as usize).cloned().unwrap_or_default()
        }
        _ => format!("score {}", found.target),
    };
    let title = format!(
        "what `{what}` at place {} hangs on: score {:.4}, of the baseline {:.4}; {} steps, completeness error \
        {:.2e} ({:.3} %)",
        found.place,
        found.score,
        found.baseline,
        found.steps,
        found.error,
        100.0 * found.relative_error
    );
    let rows = names.into_iter().enumerate().map(|(i, name)| {
        let at = |v: &[f64]| Cell::number(v.get(i).copied().unwrap_or(0.0), 4);
        (name, vec![at(&found.input_gradient), at(&found.integrated)])
    });
    Ok(Table::of(&title, "token", &["input × gradient", "integrated gradients"], rows.collect()))
}

fn placed(look: &Look, planes: &[Plane]) -> Table {
    let columns: Vec<String> = planes
        .iter()
        .flat_map(|p| {
            let name = if p.layer == 0 { "input".to_string() } else { format!("layer {}", p.layer - 1) };
            [format!("{name} x"), format!("{name} y")]
        })
        .collect();
    let row = |(i, token): (usize, &String)| {
        (
            token.clone(),
            planes
                .iter()
                .flat_map(|p| p.points.get(i).copied().unwrap_or_default())
                .map(|v| Cell::number(v, 2))
                .collect(),
        )
    };
    let shares: Vec<String> = planes.iter().map(|p| format!("{:.0} %", 100.0 * (p.share[0] + p.share[1]))).collect();
    let title = format!("hidden states in two dimensions, which hold {} of the variance", shares.join(", "));
    Table::of(&title, "token", &columns, look.read().iter().enumerate().map(row).collect())
}
