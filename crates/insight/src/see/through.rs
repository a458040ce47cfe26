//! How maps came about: one text, read by one checkpoint of a run after the other.
//!
//! Each checkpoint is looked at by itself; here their maps are put side by side, with the numbers that say what a head has
//! become: how spread its weights are, how much it looks at the token before, at the first and at itself, and how far its map
//! has moved since the checkpoint before (the mean over rows of `½·Σ|Δw|`, the share of the weight that went elsewhere).

use super::given::{Ask, Given};
use super::heads::numbers;
use super::look::{Grid, Maps};
use super::svg;
use super::view::{Options, Seen, View};
use crate::page::{Cell, Table};
use qkv_base::{Error, Result};
use qkv_tasks::TextModel;

/// What all checkpoints are to read beside `ask`: a translator's target is the one that the last of them writes, or each would
/// be looked at over another text.
pub fn common_target(last: &TextModel, ask: &Ask, second: Option<&Ask>) -> Result<Option<Ask>> {
    if second.is_some() || !last.is_pair() {
        return Ok(second.cloned());
    }
    let Given::Pair { target, .. } = Given::new(last, ask, None)? else { return Ok(None) };
    let before = last.start()?.len().saturating_sub(1);
    Ok(Some(Ask::Ids(target.get(before..).unwrap_or(&[]).to_vec())))
}

/// What was seen of each checkpoint, with its step, as one look.
pub fn through(stages: Vec<(u64, Seen)>, options: &Options) -> Result<Seen> {
    let Some((_, last)) = stages.last() else {
        return Err(Error::new("--through", "there is no checkpoint", "let the run learn first: qkv train --resume"));
    };
    let mut seen = Seen {
        model: last.model.clone(),
        family: last.family.clone(),
        tokens: last.tokens.clone(),
        target: last.target.clone(),
        shown: last.shown.clone(),
        notes: last.notes.clone(),
        ..Seen::default()
    };
    let steps: Vec<String> = stages.iter().map(|(step, _)| format!("step {step}")).collect();
    seen.notes.push(format!("the same text at {} checkpoints: {}", steps.len(), steps.join(", ")));
    let mut rows: Vec<(String, Vec<Cell>)> = vec![];
    let (mut drawn, mut before): (Option<Maps>, Option<Grid>) = (None, None);
    for (name, (_, stage)) in steps.iter().zip(stages) {
        // A pair has several kinds; the one that is asked for, or the last, is followed.
        let kind = options.kind.as_deref();
        let maps = stage.maps.iter().rfind(|maps| kind.is_none_or(|kind| maps.name == kind));
        let maps = maps.ok_or_else(|| Error::internal("--through", "a checkpoint has no maps"))?;
        let layer = options.layer.unwrap_or(maps.layers.saturating_sub(1));
        let grid = match options.head {
            Some(head) => maps.grid(layer, head)?,
            None => maps.mean(layer)?,
        };
        let told = numbers(&grid);
        let moved = before.as_ref().map(|before| moved(before, &grid));
        let all = [told.entropy, told.previous, told.first, told.same].map(|v| Cell::number(v, 3));
        let moved = moved.map_or(Cell::Text("–".into()), |v| Cell::number(v, 3));
        rows.push((name.clone(), all.into_iter().chain([moved]).collect()));
        put_beside(&mut drawn, maps, layer)?;
        for maps in &stage.maps {
            let name = if stage.maps.len() > 1 { format!("{name}, {}", maps.name) } else { name.clone() };
            seen.maps.push(Maps { name, ..maps.clone() });
        }
        seen.grids.push((View::Maps, Grid { title: format!("{name}: {}", grid.title), ..grid.clone() }));
        before = Some(grid);
    }
    let followed = before.map_or(String::new(), |grid| grid.title);
    let title = format!("through training: {followed}");
    seen.tables.push((View::Heads, Table::of(&title, "", &["entropy", "previous", "first", "same", "moved"], rows)));
    // The picture has every head of the layer, also where the table follows their mean.
    let every = |maps: &Maps| format!("through training: {}, {} heads of a layer", maps.name, maps.heads);
    seen.picture = drawn.map(|maps| svg::small_maps(&maps, &every(&maps), &steps)).transpose()?;
    Ok(seen)
}

/// The heads of one layer as one more row of a picture.
fn put_beside(drawn: &mut Option<Maps>, maps: &Maps, layer: usize) -> Result<()> {
    let heads: Vec<f32> =
        (0..maps.heads).map(|head| Ok(maps.grid(layer, head)?.values)).collect::<Result<Vec<_>>>()?.concat();
    match drawn {
        Some(all) if all.values.iter().all(|layer| layer.len() == heads.len()) => {
            all.layers += 1;
            all.values.push(heads);
        }
        Some(_) => return Err(Error::internal("--through", "checkpoints of one run have maps of different sizes")),
        None => {
            let (name, queries, keys) = (maps.name.clone(), maps.queries.clone(), maps.keys.clone());
            *drawn = Some(Maps { name, queries, keys, layers: 1, heads: maps.heads, values: vec![heads] });
        }
    }
    Ok(())
}

/// The share of the weight that went elsewhere, over all rows.
fn moved(before: &Grid, now: &Grid) -> f64 {
    let way: f64 = before.values.iter().zip(&now.values).map(|(a, b)| f64::from((a - b).abs())).sum();
    way / 2.0 / now.rows.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(values: Vec<f32>) -> Seen {
        let names = vec!["a".to_string(), "b".to_string()];
        let maps = Maps {
            name: "attention".into(),
            queries: names.clone(),
            keys: names,
            layers: 1,
            heads: 1,
            values: vec![values],
        };
        Seen { maps: vec![maps], ..Seen::default() }
    }

    fn options() -> Options {
        let (kind, layer, head, row, window, place) = (None, None, None, None, None, None);
        Options { views: vec![View::Maps], kind, layer, head, row, window, steps: 1, place }
    }

    /// The second row moves a quarter of its weight: an eighth over both.
    #[test]
    fn checkpoints_stand_side_by_side_with_how_far_they_moved() {
        let stages = vec![(10, stage(vec![1.0, 0.0, 0.5, 0.5])), (20, stage(vec![1.0, 0.0, 0.75, 0.25]))];
        let seen = through(stages, &options()).expect("a look");
        let names: Vec<&str> = seen.maps.iter().map(|maps| maps.name.as_str()).collect();
        assert_eq!(names, ["step 10", "step 20"]);
        assert_eq!(seen.grids[1].1.title, "step 20: attention, layer 0, mean of 1 heads");
        let (_, table) = &seen.tables[0];
        assert_eq!(table.rows[0].cells[4], Cell::Text("–".into()));
        assert_eq!(table.rows[1].cells[4], Cell::number(0.125, 3));
        let picture = seen.picture.expect("drawn");
        assert!(picture.contains(">step 10<") && picture.contains(">step 20<"), "{picture}");
        assert!(through(vec![], &options()).is_err());
        let odd = vec![(1, stage(vec![1.0; 4])), (2, stage(vec![1.0; 3]))];
        assert!(through(odd, &options()).is_err());
    }
}
