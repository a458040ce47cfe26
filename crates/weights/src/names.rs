//! Names: one row per module says where its numbers are here, where they are in somebody else's file, and how they lie
//! there. Import, export and the load report all walk the same rows, so what can be read can be written back.
//!
//! A `*` stands for the number of a layer. Several of our modules may be stacked into one of theirs (queries, keys and
//! values in GPT-2), and the layouts are reversible.
//!
//! ```
//! use qkv_weights::names::{Layout, Names, Parameter};
//! let names = Names::new().stacked(&["layers.*.q", "layers.*.k", "layers.*.v"], "h.*.attn").laid(Layout::Transposed);
//! let ours = ["q", "k", "v"].map(|n| Parameter::new(format!("layers.0.{n}.weight"), [1, 2]));
//! let slots = names.slots(&ours).unwrap();
//! assert_eq!((slots[0].theirs.as_str(), slots[0].shape.as_slice()), ("h.0.attn.weight", [2, 3].as_slice()));
//! let parts = slots[0].inward(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]); // rows are inputs there, outputs here
//! assert_eq!(parts, [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]);
//! ```

use qkv_base::{Error, Result};
use std::collections::HashMap;

/// A parameter of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// where it is, such as `decoder.layers.0.attention.q.weight`
    pub path: String,
    /// its shape
    pub shape: Vec<usize>,
}

impl Parameter {
    /// The parameter at `path`.
    pub fn new(path: impl Into<String>, shape: impl Into<Vec<usize>>) -> Self {
        Self { path: path.into(), shape: shape.into() }
    }

    /// How many numbers it has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|n| *n as u64).product()
    }
}

/// How the numbers of a matrix lie in the file. Vectors lie as they are, but for [`Layout::Pairs`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// as here: `[out, in]`
    Same,
    /// `[in, out]`
    Transposed,
    /// the same numbers under other axes, such as the `[C, channels, P, P]` of a convolution
    Shaped(Vec<usize>),
    /// rows of each head in rotary pairs: here `x₀ x₁ … y₀ y₁ …`, there `x₀ y₀ x₁ y₁ …`
    Pairs {
        /// how many heads the rows belong to
        heads: usize,
    },
    /// each number one larger: a gain that is counted from one here and from nothing there
    OneMore,
}

/// One module (or one parameter), here and there.
#[derive(Clone, Debug)]
pub struct Row {
    ours: Vec<String>,
    theirs: String,
    also: Vec<String>,
    layout: Layout,
    exact: bool,
}

/// A table of names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    rows: Vec<Row>,
    ignored: Vec<(String, &'static str)>,
    prefix: &'static str,
    bare: bool,
}

impl Names {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Their names begin with `prefix`, except in a file of the bare network without a head: there it is left out. Import
    /// takes both; `bare` says which is written.
    pub fn under(self, prefix: &'static str, bare: bool) -> Self {
        Self { prefix, bare, ..self }
    }

    /// A module of ours is one of theirs: weights are weights, gains are weights, shifts are biases.
    pub fn module(self, ours: &str, theirs: &str) -> Self {
        self.stacked(&[ours], theirs)
    }

    /// Several modules of ours are one of theirs, outputs stacked.
    pub fn stacked(mut self, ours: &[&str], theirs: &str) -> Self {
        let ours = ours.iter().map(|s| s.to_string()).collect();
        self.rows.push(Row { ours, theirs: theirs.into(), also: vec![], layout: Layout::Same, exact: false });
        self
    }

    /// One parameter of ours is one tensor of theirs.
    pub fn exact(mut self, ours: &str, theirs: &str) -> Self {
        let ours = vec![ours.to_string()];
        self.rows.push(Row { ours, theirs: theirs.into(), also: vec![], layout: Layout::Same, exact: true });
        self
    }

    /// The last row lies like this.
    pub fn laid(mut self, layout: Layout) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.layout = layout;
        }
        self
    }

    /// The last row is also known by this name; for import only.
    pub fn also(mut self, theirs: &str) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.also.push(theirs.into());
        }
        self
    }

    /// Tensors of theirs that match `pattern` (where `*` is anything) are not needed, because of `reason`.
    pub fn ignore(mut self, pattern: &str, reason: &'static str) -> Self {
        self.ignored.push((pattern.into(), reason));
        self
    }

    /// Why a tensor of theirs is not needed, if it is known.
    pub fn why_ignored(&self, theirs: &str) -> Option<&'static str> {
        let bare = theirs.strip_prefix(self.prefix).unwrap_or(theirs);
        let full = format!("{}{bare}", self.prefix);
        let hit = |pattern: &str| [theirs, bare, full.as_str()].iter().any(|name| glob(pattern, name));
        self.ignored.iter().find(|(pattern, _)| hit(pattern)).map(|(_, reason)| *reason)
    }

    /// What each tensor of theirs holds of `parameters`, in the order of ours. Fails if a parameter has no row: the table
    /// would not be complete.
    pub fn slots(&self, parameters: &[Parameter]) -> Result<Vec<Slot>> {
        let mut slots: Vec<Slot> = vec![];
        let mut at: HashMap<String, usize> = HashMap::new();
        for parameter in parameters {
            let Some(found) = self.find(&parameter.path) else {
                let what = format!("no row of the name table is for `{}`", parameter.path);
                return Err(Error::new("names", what, "this network cannot be written in this family's format"));
            };
            let theirs = self.written(&found.theirs);
            match at.get(&theirs) {
                Some(i) => slots[*i].ours.push((found.part, parameter.clone())),
                None => {
                    at.insert(theirs.clone(), slots.len());
                    slots.push(Slot {
                        ours: vec![(found.part, parameter.clone())],
                        also: self.read(&found.theirs, &found.also),
                        theirs,
                        shape: vec![],
                        layout: found.layout,
                    });
                }
            }
        }
        slots.iter_mut().for_each(Slot::settle);
        Ok(slots)
    }

    fn find(&self, path: &str) -> Option<Found> {
        self.rows.iter().find_map(|row| row.find(path))
    }

    /// The name as it is written.
    fn written(&self, theirs: &str) -> String {
        if self.bare { theirs.strip_prefix(self.prefix).unwrap_or(theirs).to_string() } else { theirs.to_string() }
    }

    /// Every other name it may be found under: with or without the prefix, aliases, and the old words for norms.
    fn read(&self, theirs: &str, also: &[String]) -> Vec<String> {
        let mut names = vec![];
        for name in std::iter::once(theirs).chain(also.iter().map(String::as_str)) {
            let bare = name.strip_prefix(self.prefix).unwrap_or(name);
            for name in [name.to_string(), bare.to_string(), format!("{}{bare}", self.prefix)] {
                let old = name
                    .strip_suffix("LayerNorm.weight")
                    .map(|stem| format!("{stem}LayerNorm.gamma"))
                    .or_else(|| name.strip_suffix("LayerNorm.bias").map(|stem| format!("{stem}LayerNorm.beta")));
                for name in std::iter::once(name).chain(old) {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
        }
        names
    }
}

struct Found {
    part: usize,
    theirs: String,
    also: Vec<String>,
    layout: Layout,
}

impl Row {
    fn find(&self, path: &str) -> Option<Found> {
        let (module, leaf) =
            if self.exact { (path, None) } else { path.rsplit_once('.').map(|(m, l)| (m, Some(l)))? };
        let leaf = match leaf {
            None => "",
            Some("weight" | "gain") => ".weight",
            Some("bias" | "shift") => ".bias",
            Some(_) => return None,
        };
        let (part, layer) = self.ours.iter().enumerate().find_map(|(i, ours)| Some((i, star(ours, module)?)))?;
        let fill = |name: &String| format!("{}{leaf}", name.replacen('*', layer, 1));
        let layout = match (&self.layout, leaf) {
            (Layout::Pairs { .. }, _) => self.layout.clone(),
            (_, ".bias") => Layout::Same,
            _ => self.layout.clone(),
        };
        Some(Found { part, theirs: fill(&self.theirs), also: self.also.iter().map(fill).collect(), layout })
    }
}

/// What the one `*` of `pattern` (a number) stands for in `name`; empty if there is none and they are equal.
fn star<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(""),
        Some((before, after)) => {
            let layer = name.strip_prefix(before)?.strip_suffix(after)?;
            (!layer.is_empty() && layer.bytes().all(|b| b.is_ascii_digit())).then_some(layer)
        }
    }
}

/// Whether `name` matches `pattern`, where each `*` is anything.
fn glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .is_some_and(|rest| (0..=rest.len()).any(|i| rest.get(i..).is_some_and(|rest| glob(after, rest)))),
    }
}

/// One tensor of theirs, and what of ours it holds.
#[derive(Clone, Debug)]
pub struct Slot {
    ours: Vec<(usize, Parameter)>,
    /// the name it is written under
    pub theirs: String,
    /// every name it may be read under
    pub also: Vec<String>,
    /// its shape in the file
    pub shape: Vec<usize>,
    layout: Layout,
}

impl Slot {
    /// Puts the parts in their order, and works out the shape.
    fn settle(&mut self) {
        self.ours.sort_by_key(|(part, _)| *part);
        let mut shape = self.ours[0].1.shape.clone();
        shape[0] = self.ours.iter().map(|(_, p)| p.shape[0]).sum();
        self.shape = match &self.layout {
            Layout::Same | Layout::Pairs { .. } | Layout::OneMore => shape,
            Layout::Transposed => shape.into_iter().rev().collect(),
            Layout::Shaped(axes) => axes.clone(),
        };
    }

    /// The parameters of ours it holds, in order.
    pub fn ours(&self) -> impl Iterator<Item = &Parameter> {
        self.ours.iter().map(|(_, p)| p)
    }

    /// How many numbers.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the file holds exactly one parameter's numbers in its order, so that nothing need be copied.
    pub fn is_plain(&self) -> bool {
        self.ours.len() == 1 && matches!(self.layout, Layout::Same | Layout::Shaped(_))
    }

    /// Whether the file has the matrix the other way round.
    pub fn is_turned(&self) -> bool {
        self.layout == Layout::Transposed
    }

    /// Which of their rows (columns, where they are `turned`) make up each parameter of ours, in order; `None` where rows are not
    /// kept whole.
    pub fn row_order(&self, turned: bool) -> Option<Vec<Vec<usize>>> {
        let (rows, _) = self.rows_and_columns();
        let mut all: Vec<usize> = match self.layout {
            Layout::Same if !turned => (0..rows).collect(),
            Layout::Transposed if turned => (0..rows).collect(),
            Layout::Pairs { heads } if !turned => {
                let numbers: Vec<f32> = (0..rows).map(|i| i as f32).collect();
                // Exact: numbers of rows are far below 2²⁴.
                pairs(&numbers, rows, 1, heads, Way::In).into_iter().map(|i| i as usize).collect()
            }
            _ => return None,
        };
        let parts = self.ours().map(|p| all.drain(..p.shape[0]).collect());
        Some(parts.collect())
    }

    /// Their numbers → ours, one list for each parameter.
    pub fn inward(&self, theirs: &[f32]) -> Vec<Vec<f32>> {
        let (rows, columns) = self.rows_and_columns();
        let ours = match self.layout {
            Layout::Same | Layout::Shaped(_) => std::borrow::Cow::Borrowed(theirs),
            Layout::Transposed => transpose(theirs, columns, rows).into(),
            Layout::Pairs { heads } => pairs(theirs, rows, columns, heads, Way::In).into(),
            Layout::OneMore => theirs.iter().map(|x| x - 1.0).collect::<Vec<f32>>().into(),
        };
        let mut rest = ours.as_ref();
        let mut take = |n: usize| {
            let (part, after) = rest.split_at(n);
            rest = after;
            part.to_vec()
        };
        self.ours().map(|p| take(p.elements() as usize)).collect()
    }

    /// Our numbers → theirs.
    pub fn outward(&self, ours: &[&[f32]]) -> Vec<f32> {
        let (rows, columns) = self.rows_and_columns();
        let stacked = ours.concat();
        match self.layout {
            Layout::Same | Layout::Shaped(_) => stacked,
            Layout::Transposed => transpose(&stacked, rows, columns),
            Layout::Pairs { heads } => pairs(&stacked, rows, columns, heads, Way::Out),
            Layout::OneMore => stacked.iter().map(|x| x + 1.0).collect(),
        }
    }

    /// Of ours: stacked outputs, and inputs (1 for a vector).
    fn rows_and_columns(&self) -> (usize, usize) {
        let rows: usize = self.ours().map(|p| p.shape[0]).sum();
        (rows, self.elements() / rows.max(1))
    }
}

/// `[rows, columns]` → `[columns, rows]`, in blocks that stay in the first cache.
fn transpose(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    use rayon::prelude::*;
    const BLOCK: usize = 32;
    let mut y = vec![0.0; x.len()];
    y.par_chunks_mut((BLOCK * rows).max(1)).enumerate().for_each(|(block, y)| {
        let from = block * BLOCK;
        for row in (0..rows).step_by(BLOCK) {
            for (c, y) in y.chunks_exact_mut(rows).enumerate() {
                for r in row..(row + BLOCK).min(rows) {
                    y[r] = x[r * columns + from + c];
                }
            }
        }
    });
    y
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// Reorders the rows of each head between halves (ours) and neighbours (theirs).
fn pairs(x: &[f32], rows: usize, columns: usize, heads: usize, way: Way) -> Vec<f32> {
    let dim = rows / heads.max(1);
    let mut y = vec![0.0; x.len()];
    for head in 0..heads {
        for i in 0..dim {
            let (half, neighbour) = (head * dim + i, head * dim + (i % (dim / 2)) * 2 + i / (dim / 2));
            let (from, to) = match way {
                Way::In => (neighbour, half),
                Way::Out => (half, neighbour),
            };
            y[to * columns..(to + 1) * columns].copy_from_slice(&x[from * columns..(from + 1) * columns]);
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(names: Names, ours: &[(&str, &[usize])]) -> Slot {
        let ours: Vec<_> = ours.iter().map(|(p, s)| Parameter::new(*p, *s)).collect();
        let mut slots = names.slots(&ours).expect("rows for all");
        assert_eq!(slots.len(), 1);
        slots.remove(0)
    }

    #[test]
    fn every_layout_comes_back() {
        let numbers: Vec<f32> = (0..48).map(|i| i as f32).collect();
        let layouts = [Layout::Same, Layout::Transposed, Layout::Shaped(vec![12, 2, 2]), Layout::Pairs { heads: 3 }];
        for layout in layouts {
            let names = Names::new().stacked(&["a", "b"], "t").laid(layout.clone());
            let slot = slot(names, &[("b.weight", &[8, 4]), ("a.weight", &[4, 4])]);
            let parts = slot.inward(&numbers);
            assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [16, 32], "{layout:?}");
            let parts: Vec<&[f32]> = parts.iter().map(Vec::as_slice).collect();
            assert_eq!(slot.outward(&parts), numbers, "{layout:?}");
        }
    }

    #[test]
    fn pairs_are_neighbours_in_the_file() {
        let slot = slot(Names::new().module("q", "q").laid(Layout::Pairs { heads: 1 }), &[("q.bias", &[6])]);
        assert_eq!(slot.inward(&[0.0, 10.0, 1.0, 11.0, 2.0, 12.0]), [[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]]);
    }

    #[test]
    fn large_matrices_are_transposed_like_small_ones() {
        let (rows, columns) = (67, 45);
        let x: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
        let y = transpose(&x, rows, columns);
        for r in 0..rows {
            for c in 0..columns {
                assert_eq!(y[c * rows + r], x[r * columns + c]);
            }
        }
    }

    #[test]
    fn prefixes_and_old_names_are_read() {
        let names = || Names::new().module("encoder.norm", "bert.LayerNorm").also("bert.final.LayerNorm");
        let s = slot(names().under("bert.", true), &[("encoder.norm.shift", &[2])]);
        assert_eq!(s.theirs, "LayerNorm.bias");
        for name in ["bert.LayerNorm.bias", "LayerNorm.beta", "final.LayerNorm.bias"] {
            assert!(s.also.iter().any(|n| n == name), "{name} of {:?}", s.also);
        }
        let names = names().under("bert.", false).ignore("bert.pooler.*", "no head needs it");
        assert_eq!(names.why_ignored("pooler.dense.weight"), Some("no head needs it"));
        assert_eq!(names.why_ignored("bert.other"), None);
    }

    #[test]
    fn a_parameter_without_a_row_is_named() {
        let error = Names::new().module("layers.*.q", "h.*.q").slots(&[Parameter::new("layers.x.q.weight", [1, 1])]);
        assert_eq!(error.unwrap_err().to_string(), "names: no row of the name table is for `layers.x.q.weight`");
    }
}
