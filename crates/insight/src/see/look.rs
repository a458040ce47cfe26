//! One pass with everything it computes: attention maps `[L, H, Tq, Tk]` of each kind, hidden states `[L + 1][T, C]`, and
//! the answer. What `qkv logits --attentions --hidden` prints, with names on it.

use super::given::Given;
use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_model::outputs::{Array, Inputs, Output, OutputOptions, Outputs, forward_attentions, forward_outputs};
use qkv_tasks::TextModel;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The attention maps of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps {
    /// `attention`, or `encoder`, `decoder`, `cross` of a pair
    pub name: String,
    /// who looks
    pub queries: Vec<String>,
    /// what is looked at
    pub keys: Vec<String>,
    /// L
    pub layers: usize,
    /// H
    pub heads: usize,
    /// for each layer `[H, Tq, Tk]`, row by row: as the pass left them, since one list of all would be a second copy of the largest thing
    /// there is
    pub values: Vec<Vec<f32>>,
}

/// Numbers with names: one map, a rollout, an alignment.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// what it shows
    pub title: String,
    /// the names of the rows
    pub rows: Vec<String>,
    /// the names of the columns
    pub columns: Vec<String>,
    /// `[rows, columns]`
    pub values: Vec<f32>,
}

/// Everything of one pass.
#[derive(Clone, Debug)]
pub struct Look {
    /// what was read, token by token (or patch by patch)
    pub tokens: Vec<String>,
    /// what was written, where the model writes beside reading
    pub target: Vec<String>,
    /// the maps
    pub maps: Vec<Maps>,
    /// the hidden states of the stack that answers, `[L + 1]` of `[T, C]`
    pub states: Vec<Array>,
    /// the answer: `[T, V]`, `[T, labels]`, `[labels]`, whatever the head gives, its last axis last
    pub answer: Array,
}

impl Serialize for Maps {
    /// With the weights as nested lists `[layer][head][query][key]`.
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        struct Layers<'a>(&'a Maps);
        impl Serialize for Layers<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                let dims = vec![self.0.heads, self.0.queries.len(), self.0.keys.len()];
                to.collect_seq(self.0.values.iter().map(|layer| Array { dims: dims.clone(), values: layer.clone() }))
            }
        }
        let mut maps = to.serialize_struct("Maps", 4)?;
        maps.serialize_field("name", &self.name)?;
        maps.serialize_field("queries", &self.queries)?;
        maps.serialize_field("keys", &self.keys)?;
        maps.serialize_field("weights", &Layers(self))?;
        maps.end()
    }
}

impl Serialize for Grid {
    /// With a list for each row.
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let values: Vec<&[f32]> = (0..self.rows.len()).map(|i| self.row(i)).collect();
        let mut grid = to.serialize_struct("Grid", 4)?;
        grid.serialize_field("title", &self.title)?;
        grid.serialize_field("rows", &self.rows)?;
        grid.serialize_field("columns", &self.columns)?;
        grid.serialize_field("values", &values)?;
        grid.end()
    }
}

impl Grid {
    /// One row.
    pub fn row(&self, i: usize) -> &[f32] {
        let n = self.columns.len();
        self.values.get(i * n..(i + 1) * n).unwrap_or(&[])
    }

    /// Only these rows and columns (where rows and columns are the same tokens, the same window of both).
    pub fn window(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        let clip = |r: std::ops::Range<usize>, n: usize| r.start.min(n)..r.end.min(n);
        let (rows, columns) = (clip(rows, self.rows.len()), clip(columns, self.columns.len()));
        let values = rows.clone().flat_map(|i| self.row(i)[columns.clone()].iter().copied()).collect();
        Self {
            title: self.title.clone(),
            rows: self.rows[rows].to_vec(),
            columns: self.columns[columns].to_vec(),
            values,
        }
    }

    /// As a table with so many decimals, and the sum of each row.
    pub fn table(&self, decimals: usize) -> crate::page::Table {
        let n = self.columns.len().max(1);
        let values: Vec<Vec<f64>> =
            self.values.chunks(n).map(|row| row.iter().map(|v| f64::from(*v)).collect()).collect();
        crate::page::Table::matrix(&self.title, &self.rows, &self.columns, &values, decimals).weights(decimals)
    }
}

impl Maps {
    /// The map of one head; layers and heads count from 0.
    pub fn grid(&self, layer: usize, head: usize) -> Result<Grid> {
        let check = |what: &str, i: usize, n: usize| match i < n {
            true => Ok(()),
            false => Err(Error::new(
                format!("--{what} {i}"),
                format!("there are {n} {what}s, counted from 0"),
                format!("give 0 to {}", n.saturating_sub(1)),
            )),
        };
        check("layer", layer, self.layers)?;
        check("head", head, self.heads)?;
        let (tq, tk) = (self.queries.len(), self.keys.len());
        let from = head * tq * tk;
        let values = self.values[layer].get(from..from + tq * tk).unwrap_or(&[]).to_vec();
        let title = format!("{}, layer {layer}, head {head}", self.name);
        Ok(Grid { title, rows: self.queries.clone(), columns: self.keys.clone(), values })
    }

    /// The mean over the heads of a layer.
    pub fn mean(&self, layer: usize) -> Result<Grid> {
        let mut sum = self.grid(layer, 0)?;
        for head in 1..self.heads {
            let other = self.grid(layer, head)?;
            sum.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
        }
        sum.values.iter_mut().for_each(|v| *v /= self.heads.max(1) as f32);
        Ok(Grid { title: format!("{}, layer {layer}, mean of {} heads", self.name, self.heads), ..sum })
    }

    /// How far the rows are from summing to 1, at worst.
    pub fn row_error(&self) -> f64 {
        let tk = self.keys.len().max(1);
        let off = |row: &[f32]| (row.iter().map(|v| f64::from(*v)).sum::<f64>() - 1.0).abs();
        self.values.iter().flat_map(|layer| layer.chunks(tk)).map(off).fold(0.0, f64::max)
    }

    /// Only these tokens, of queries and keys where they are the same sequence.
    pub fn window(&self, tokens: std::ops::Range<usize>) -> Result<Self> {
        let same = self.queries.len() == self.keys.len() && self.name != "cross";
        let rows = tokens.clone();
        let columns = if same { tokens } else { 0..self.keys.len() };
        let mut values = vec![];
        let mut names = (vec![], vec![]);
        for layer in 0..self.layers {
            let mut kept = vec![];
            for head in 0..self.heads {
                let part = self.grid(layer, head)?.window(rows.clone(), columns.clone());
                kept.extend(part.values);
                names = (part.rows, part.columns);
            }
            values.push(kept);
        }
        let (name, layers, heads) = (self.name.clone(), self.layers, self.heads);
        Ok(Self { name, queries: names.0, keys: names.1, layers, heads, values })
    }
}

/// The numbers of a tensor, row by row.
pub(crate) fn numbers<const D: usize>(x: Tensor<D>) -> Result<Vec<f32>> {
    x.into_data().try_into_vec::<f32>().map_err(|e| Error::internal("numbers", format!("{e:?}")))
}

/// A token as it is shown: one line, nothing invisible.
pub(crate) fn label(model: &TextModel, id: u32) -> String {
    let piece = model.piece(id);
    if piece.is_empty() {
        format!("#{id}")
    } else {
        piece
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
            .collect()
    }
}

/// What of a pass is wanted. Of a long text the scores `[T, V]` and the maps `[L, H, T, T]` are each larger than many a model: what
/// nobody looks at is not computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// attention maps
    pub maps: bool,
    /// hidden states
    pub states: bool,
    /// the answer at every place
    pub answer: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Self { maps: true, states: true, answer: true };
}

impl Look {
    /// Runs the model, and keeps everything.
    pub fn new(model: &TextModel, given: &Given) -> Result<Self> {
        Self::with(model, given, Wanted::ALL)
    }

    /// Runs the model, and keeps what is wanted.
    pub fn with(model: &TextModel, given: &Given, wanted: Wanted) -> Result<Self> {
        let name = |ids: &[u32]| ids.iter().map(|id| label(model, *id)).collect::<Vec<_>>();
        let mut inputs = Inputs::default();
        let (tokens, target) = match given {
            Given::Tokens { ids, types } => {
                inputs.input_ids = Some(vec![ids.clone()]);
                inputs.token_type_ids = types.clone().map(|t| vec![t]);
                (name(ids), vec![])
            }
            Given::Pair { source, input, .. } => {
                inputs.input_ids = Some(vec![source.clone()]);
                inputs.decoder_input_ids = Some(vec![input.clone()]);
                (name(source), name(input))
            }
            Given::Picture { pixels, size, channels, patch, .. } => {
                let rows = |plane: &[f32]| plane.chunks(*size).map(<[f32]>::to_vec).collect::<Vec<_>>();
                let planes = pixels.chunks(size * size).take(*channels).map(rows).collect();
                inputs.pixel_values = Some(vec![planes]);
                let side = size / (*patch).max(1);
                let named = (0..side * side).map(|p| format!("{},{}", p / side, p % side));
                (std::iter::once("class".to_string()).chain(named).collect(), vec![])
            }
        };
        let outputs = match wanted {
            Wanted { maps: true, states: false, answer: false } => forward_attentions(&model.network, &inputs)?,
            Wanted { maps: attentions, states: hidden, .. } => {
                forward_outputs(&model.network, &inputs, OutputOptions { hidden, attentions })?
            }
        };
        Self::of(outputs, tokens, target)
    }

    fn of(outputs: Outputs, tokens: Vec<String>, target: Vec<String>) -> Result<Self> {
        let mut look =
            Self { tokens, target, maps: vec![], states: vec![], answer: Array { dims: vec![], values: vec![] } };
        let pair = !look.target.is_empty();
        for (i, (key, output)) in outputs.into_iter().enumerate() {
            match (key.as_str(), output) {
                (_, Output::One(array)) if i == 0 => look.answer = array,
                ("end_logits", Output::One(end)) => look.answer = beside(&look.answer, &end),
                ("hidden_states" | "decoder_hidden_states", Output::Layers(states)) => look.states = states,
                (key, Output::Layers(layers)) => {
                    let (name, queries, keys) = match key {
                        "attentions" => ("attention", &look.tokens, &look.tokens),
                        "encoder_attentions" => ("encoder", &look.tokens, &look.tokens),
                        "decoder_attentions" => ("decoder", &look.target, &look.target),
                        "cross_attentions" => ("cross", &look.target, &look.tokens),
                        _ => continue,
                    };
                    let maps = maps(name, queries, keys, layers)?;
                    look.maps.push(maps);
                }
                _ => {}
            }
        }
        if pair {
            look.maps.sort_by_key(|m| ["encoder", "cross", "decoder"].iter().position(|n| *n == m.name));
        }
        let bad = look.answer.values.iter().any(|v| v.is_nan());
        if bad {
            let hint = "`qkv inspect MODEL` counts weights that are not finite";
            return Err(Error::new("model", "its answer is not a number", hint));
        }
        Ok(look)
    }

    /// What the stack that answers reads: the target of a pair, the tokens of any other.
    pub fn read(&self) -> &[String] {
        if self.target.is_empty() { &self.tokens } else { &self.target }
    }

    /// How many numbers there are in the answer to each token.
    pub fn width(&self) -> usize {
        self.answer.dims.last().copied().unwrap_or(0)
    }

    /// The answer at one place, where there is one for each token.
    pub fn scores(&self, place: usize) -> &[f32] {
        let n = self.width();
        self.answer.values.get(place * n..(place + 1) * n).unwrap_or(&[])
    }

    /// The maps of this name; the first where none is named.
    pub fn named(&self, name: Option<&str>) -> Result<&Maps> {
        let all: Vec<&str> = self.maps.iter().map(|m| m.name.as_str()).collect();
        let found = match name {
            Some(name) => self.maps.iter().find(|m| m.name == name),
            None => self.maps.first(),
        };
        found.ok_or_else(|| {
            let what = format!("there are no maps `{}`", name.unwrap_or_default());
            Error::new("--kind", what, format!("this model has {}", all.join(", ")))
        })
    }
}

/// Start and end scores of an answer span, `[T, 2]`.
fn beside(start: &Array, end: &Array) -> Array {
    let values: Vec<f32> = start.values.iter().zip(&end.values).flat_map(|(a, b)| [*a, *b]).collect();
    Array { dims: vec![1, start.values.len(), 2], values }
}

fn maps(name: &str, queries: &[String], keys: &[String], layers: Vec<Array>) -> Result<Maps> {
    let heads = layers.first().and_then(|l| l.dims.get(1)).copied().unwrap_or(0);
    let want = heads * queries.len() * keys.len();
    if let Some(odd) = layers.iter().find(|layer| layer.values.len() != want) {
        let what = format!("{name}: {} numbers for {heads} × {} × {}", odd.values.len(), queries.len(), keys.len());
        return Err(Error::internal("maps", what));
    }
    let values: Vec<Vec<f32>> = layers.into_iter().map(|layer| layer.values).collect();
    Ok(Maps { name: name.into(), queries: queries.to_vec(), keys: keys.to_vec(), layers: values.len(), heads, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps() -> Maps {
        let names = |n: usize| (0..n).map(|i| format!("t{i}")).collect::<Vec<_>>();
        let values = (0..2).map(|l| (0..2 * 9).map(|i| (18 * l + i) as f32).collect()).collect();
        Maps { name: "attention".into(), queries: names(3), keys: names(3), layers: 2, heads: 2, values }
    }

    #[test]
    fn a_window_holds_the_same_numbers() {
        let all = maps();
        let part = all.window(1..3).unwrap();
        assert_eq!((part.queries.len(), part.values.concat().len()), (2, 16));
        assert_eq!(part.grid(1, 1).unwrap().row(0), &all.grid(1, 1).unwrap().row(1)[1..3]);
        assert!(all.grid(2, 0).unwrap_err().hint.contains("0 to 1"));
        assert_eq!(all.mean(0).unwrap().values[0], (0.0 + 9.0) / 2.0);
    }
}
