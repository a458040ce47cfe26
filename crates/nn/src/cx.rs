//! The context of one forward pass: mode, randomness, positions, cache and taps, in one value that every block is handed.
//!
//! One `forward` therefore serves training (dropout, no cache), evaluation, and cached decoding; and any tensor on the
//! way can be tapped by name without a second code path.
//!
//! ```
//! use qkv_nn::Cx;
//! let mut cx = Cx::train(1, 0); // seed, step
//! cx.within("encoder", |cx| cx.within(3, |cx| assert_eq!(cx.path(), "encoder.3")));
//! assert_eq!(cx.path(), "");
//! ```

use crate::{Adapting, Cache, RowCache};
use burn::tensor::Tensor;
use qkv_kernels::{Key, Positions, ProductPrecision};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;

/// What the pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is random.
    Eval,
    /// Dropout is on, drawn from this stream (seed and step; the place is the path).
    Train(Key),
}

/// Which positions the head answers for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Answers {
    /// every one
    #[default]
    Every,
    /// the last of each row: all that decoding asks of a prompt
    Last,
    /// these of the tokens, counted through all rows `[B·T]`: in decoding the last of each row that asks, in training those
    /// with a target; heads that do not choose among words answer for every one
    At(Arc<[usize]>),
}

/// The context of one forward pass.
#[derive(Debug)]
pub struct Cx<'a> {
    /// what the pass is for
    pub mode: Mode,
    /// the position of each token
    pub positions: Positions,
    /// keys and values of the tokens before, when decoding
    pub cache: Option<&'a mut Cache>,
    /// what is kept of rows that join and leave; their tokens lie one behind the other, `[1, N, C]`
    pub rows: Option<&'a mut RowCache>,
    /// what to hand out
    pub taps: Option<&'a mut Taps>,
    /// where the head answers
    pub answers: Answers,
    /// blocks are run again in the backward instead of keeping what they computed
    pub recompute: bool,
    /// what linear layers round the factors of their products to
    pub products: ProductPrecision,
    /// a head that chooses words hands out what its scores are computed from: the loss computes them, part by part
    pub scores_deferred: bool,
    path: String,
}

/// A place of a pass that can be gone to again: the same mode, positions and path, hence the same numbers.
#[derive(Clone, Debug)]
pub struct Place {
    mode: Mode,
    positions: Positions,
    products: ProductPrecision,
    path: String,
}

impl Place {
    /// The context as it was, without cache and taps.
    pub fn cx(&self) -> Cx<'static> {
        let Self { mode, positions, products, path } = self.clone();
        Cx { mode, positions, products, path, ..Cx::eval() }
    }
}

impl<'a> Cx<'a> {
    /// Whole sequences, nothing random.
    pub fn eval() -> Self {
        Self {
            mode: Mode::Eval,
            positions: Positions::From(0),
            cache: None,
            rows: None,
            taps: None,
            answers: Answers::Every,
            recompute: false,
            products: ProductPrecision::F32,
            scores_deferred: false,
            path: String::new(),
        }
    }

    /// One training step: dropout is a function of seed, step and place.
    pub fn train(seed: u64, step: u64) -> Self {
        Self { mode: Mode::Train(Key::new(seed, step, 0)), ..Self::eval() }
    }

    /// The next tokens after those in `cache`.
    pub fn decode(cache: &'a mut Cache) -> Self {
        Self { positions: Positions::From(cache.len()), cache: Some(cache), ..Self::eval() }
    }

    /// The tokens of the pass that `rows` has begun, with an answer for those at `answers` among them.
    pub fn ragged(rows: &'a mut RowCache, answers: Arc<[usize]>) -> Self {
        let positions = Positions::Each(rows.positions());
        Self { positions, rows: Some(rows), answers: Answers::At(answers), ..Self::eval() }
    }

    /// The same pass, with these tensors handed out.
    pub fn with_taps(self, taps: &'a mut Taps) -> Self {
        Self { taps: Some(taps), ..self }
    }

    /// The same pass, with these positions.
    pub fn with_positions(self, positions: Positions) -> Self {
        Self { positions, ..self }
    }

    /// The same pass, with an answer for the last position of each row only.
    pub fn last(self) -> Self {
        Self { answers: Answers::Last, ..self }
    }

    /// The same pass, with an answer for these of all tokens only.
    pub fn answering(self, at: Arc<[usize]>) -> Self {
        Self { answers: Answers::At(at), ..self }
    }

    /// The same pass, with blocks run again in the backward if `recompute` says so.
    pub fn recomputing(self, recompute: bool) -> Self {
        Self { recompute, ..self }
    }

    /// The same pass, with the factors of linear layers' products rounded.
    pub fn with_products(self, products: ProductPrecision) -> Self {
        Self { products, ..self }
    }

    /// A pass of the same mode and taps over another sequence, from its start and without the cache: the source that a
    /// decoder reads.
    pub fn afresh(&mut self) -> Cx<'_> {
        let (mode, recompute, products, path) = (self.mode, self.recompute, self.products, self.path.clone());
        Cx { mode, recompute, products, path, taps: self.taps.as_deref_mut(), ..Cx::eval() }
    }

    /// Whether blocks are to be run again in the backward. Who fills a cache or looks inside needs them as they are.
    pub fn recomputes(&self) -> bool {
        self.recompute && self.cache.is_none() && self.rows.is_none() && self.taps.is_none()
    }

    /// This place, to be gone to again.
    pub fn place(&self) -> Place {
        let (mode, positions, products) = (self.mode, self.positions.clone(), self.products);
        Place { mode, positions, products, path: self.path.clone() }
    }

    /// Where in the network the pass is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Runs `f` one level further down.
    pub fn within<T>(&mut self, name: impl Display, f: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        let dot = if len == 0 { "" } else { "." };
        write!(self.path, "{dot}{name}").expect("writing to a string");
        let out = f(self);
        self.path.truncate(len);
        out
    }

    /// The random stream of this place, if the pass is random.
    pub fn key(&self) -> Option<Key> {
        match self.mode {
            Mode::Train(key) => Some(key.named(&self.path)),
            Mode::Eval => None,
        }
    }

    /// The random stream of `name` at this place, if the pass is random.
    pub fn noise(&self, name: &str) -> Option<Key> {
        match self.mode {
            Mode::Train(key) => Some(key.named(&join(&self.path, name))),
            Mode::Eval => None,
        }
    }

    /// What linear layers at `name` of this place need: the precision of products; for adapters the random stream, and the
    /// adapter of each token.
    pub fn adapting(&self, name: &str) -> Adapting {
        Adapting { rows: self.rows.as_ref().and_then(|rows| rows.adapters()), ..self.adapting_apart(name) }
    }

    /// The same for a layer whose rows are not the tokens of the pass: a head that answers for some of them, patches.
    pub fn adapting_apart(&self, name: &str) -> Adapting {
        Adapting { noise: self.noise(name), rows: None, products: self.products }
    }

    /// Drops elements of `x` with probability `p` when training; `name` tells this place from others in the block.
    ///
    /// Those that stay are divided by 1 − p, so that the expected value is that of evaluation, where nothing is dropped.
    /// Blocks call this instead of holding a dropout layer: what is drawn belongs to the pass, not to the network.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use qkv_nn::Cx;
    /// let x = Tensor::<1>::ones([8], &Device::flex());
    /// let y: Vec<f32> = Cx::train(1, 0).dropout("out", x.clone(), 0.5).into_data().try_to_vec().unwrap();
    /// assert!(y.iter().all(|v| [0.0, 2.0].contains(v))); // dropped, or 1 / (1 − ½)
    /// assert_eq!(Cx::eval().dropout("out", x.clone(), 0.5).into_data(), x.into_data());
    /// ```
    pub fn dropout<const D: usize>(&mut self, name: &str, x: Tensor<D>, p: f64) -> Tensor<D> {
        if p == 0.0 || self.mode == Mode::Eval {
            return x;
        }
        match self.within(name, |cx| cx.key()) {
            Some(key) => qkv_kernels::dropout(x, p as f32, key),
            None => x,
        }
    }

    /// Whether somebody wants the tensor `name` of this place.
    pub fn wants(&self, name: &str) -> bool {
        self.taps.as_ref().is_some_and(|taps| taps.wants(&join(&self.path, name)))
    }

    /// Hands out a tensor, if somebody wants it.
    pub fn tap<const D: usize>(&mut self, name: &str, x: &Tensor<D>) {
        if let Some(taps) = self.taps.as_mut() {
            let path = join(&self.path, name);
            if taps.wants(&path) {
                taps.got.insert(path, Tapped { dims: x.dims().to_vec(), flat: x.clone().reshape([-1]) });
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// Which tensors to hand out, and those handed out.
#[derive(Clone, Debug, Default)]
pub struct Taps {
    wanted: Vec<String>,
    got: BTreeMap<String, Tapped>,
}

/// A tensor that was handed out, flat, with its shape.
#[derive(Clone, Debug)]
pub struct Tapped {
    /// the shape
    pub dims: Vec<usize>,
    /// the elements, row by row; still part of the graph when training
    pub flat: Tensor<1>,
}

impl Taps {
    /// Hands out every tensor whose last name is one of `names`: `weights` (attention), `hidden` (after each block)…
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { wanted: names.into_iter().map(Into::into).collect(), got: BTreeMap::new() }
    }

    fn wants(&self, path: &str) -> bool {
        let last = path.rsplit('.').next().unwrap_or(path);
        self.wanted.iter().any(|w| w == last || w == path)
    }

    /// What was handed out, by path.
    pub fn got(&self) -> &BTreeMap<String, Tapped> {
        &self.got
    }

    /// The tensor at `path`, if it was handed out, and kept here no longer: for who takes many large ones.
    pub fn take<const D: usize>(&mut self, path: &str) -> Option<Tensor<D>> {
        let dims: [usize; D] = self.got.get(path)?.dims.clone().try_into().ok()?;
        self.got.remove(path).map(|tapped| tapped.flat.reshape(dims))
    }

    /// The tensor at `path`, if it was handed out.
    pub fn get<const D: usize>(&self, path: &str) -> Option<Tensor<D>> {
        let tapped = self.got.get(path)?;
        let dims: [usize; D] = tapped.dims.clone().try_into().ok()?;
        Some(tapped.flat.clone().reshape(dims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn taps_hand_out_what_was_asked_for() {
        let mut taps = Taps::new(["weights"]);
        let mut cx = Cx::eval().with_taps(&mut taps);
        let x = Tensor::<2>::ones([2, 3], &Device::flex());
        cx.within("decoder", |cx| {
            assert!(cx.wants("weights") && !cx.wants("hidden"));
            cx.tap("weights", &x);
            cx.tap("hidden", &x);
        });
        assert_eq!(taps.got().keys().collect::<Vec<_>>(), ["decoder.weights"]);
        assert_eq!(taps.get::<2>("decoder.weights").map(|t| t.dims()), Some([2, 3]));
        assert!(taps.get::<3>("decoder.weights").is_none() && taps.take::<3>("decoder.weights").is_none());
        assert_eq!(taps.take::<2>("decoder.weights").map(|t| t.dims()), Some([2, 3]));
        assert!(taps.take::<2>("decoder.weights").is_none());
    }

    #[test]
    fn dropout_depends_on_seed_step_and_place() {
        let x = Tensor::<1>::ones([64], &Device::flex());
        let draw = |seed, step, place: &str| {
            let mut cx = Cx::train(seed, step);
            let y = cx.within(place, |cx| cx.dropout("out", x.clone(), 0.5));
            y.into_data().try_to_vec::<f32>().unwrap()
        };
        assert_eq!(draw(1, 1, "a"), draw(1, 1, "a"));
        for other in [draw(2, 1, "a"), draw(1, 2, "a"), draw(1, 1, "b")] {
            assert_ne!(draw(1, 1, "a"), other);
        }
        assert_eq!(Cx::eval().dropout("out", x.clone(), 0.5).into_data(), x.into_data());
    }
}
