//! A stack: positions and norm at the front, N equal blocks, a final norm when blocks are pre-normed.

use crate::block::{Block, Seen};
use crate::recompute;
use crate::spec::{self, Input, Place, Position, Spec};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Ids, Mask, Sight};
use qkv_nn::position::{Learned, Relative, Sinusoidal, alibi, alibi_at};
use qkv_nn::{Build, Cx, Embedding, Norm, Wiring};

/// What a stack is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// sees both ways
    Encoder,
    /// sees the past
    Decoder,
    /// sees the past, and a memory
    CrossDecoder,
}

/// N blocks with what stands before and behind them.
#[derive(Module, Debug)]
pub struct Stack {
    /// a vector for each kind of token
    pub kinds: Option<Embedding>,
    /// learned positions at the input
    pub positions: Option<Learned>,
    /// norm of the embeddings
    pub norm_input: Option<Norm>,
    /// learned positions of each layer
    pub each: Vec<Learned>,
    /// learned bias of the scores
    pub relative: Option<Relative>,
    /// the blocks
    pub layers: Vec<Block>,
    /// final norm
    pub norm: Option<Norm>,
    #[module(skip)]
    waves: Option<Sinusoidal>,
    #[module(skip)]
    sight: Sight,
    #[module(skip)]
    alibi: Option<usize>,
    #[module(skip)]
    dropout: f64,
}

impl Stack {
    /// The stack of a checked spec.
    pub fn new(build: &Build, spec: &Spec, stack: &spec::Stack, role: Role) -> Self {
        let c = spec.width;
        let norm = |name: &str| Norm::new(&build.at(name), c, spec.norm);
        let embedding = spec.start.embedding(c);
        let (kinds, normed) = match spec.input {
            Input::Tokens { kinds, normed, .. } => (kinds, normed),
            Input::Patches { .. } => (0, false),
        };
        let learned = |name: String, place| match spec.position {
            Position::Learned { max, offset, place: at, uncounted } if at == place => {
                // Where some tokens are not counted, the row before the first is a position too: theirs.
                let own = usize::from(uncounted.is_some());
                let table = Learned::new(&build.at(name), max + own, c, offset - own, embedding);
                Some(table.fixing(uncounted.map(|_| 0)))
            }
            _ => None,
        };
        let relative = match spec.position {
            Position::Relative(buckets) => {
                let buckets = buckets.looking(role == Role::Encoder);
                Some(Relative::new(&build.at("relative"), buckets, stack.heads, spec.start.embedding(c)))
            }
            _ => None,
        };
        Self {
            kinds: (kinds > 0).then(|| Embedding::new(&build.at("kinds"), kinds, c, embedding)),
            positions: learned("positions".into(), Place::Input),
            norm_input: normed.then(|| norm("norm_input")),
            each: (0..stack.layers).filter_map(|i| learned(format!("each.{i}"), Place::EachLayer)).collect(),
            relative,
            layers: (0..stack.layers).map(|i| Block::new(&build.at("layers").at(i), spec, stack, role)).collect(),
            norm: (spec.wiring == Wiring::Pre).then(|| norm("norm")),
            waves: match spec.position {
                Position::Sinusoidal { waves, .. } => Some(Sinusoidal::new(c, waves)),
                _ => None,
            },
            sight: match (role, stack.window) {
                (Role::Encoder, _) => Sight::Both,
                (_, Some(n)) => Sight::Window(n),
                (_, None) => Sight::Causal,
            },
            alibi: matches!(spec.position, Position::Alibi).then_some(stack.heads),
            dropout: spec.dropout.input,
        }
    }

    /// What the blocks of a pair's decoder look at of a memory `[B, Tm, C]`, by path within the stack: `[B, Tm, 2G·D]`.
    pub fn project(&self, memory: &Tensor<3>) -> Vec<(String, Tensor<3>)> {
        let crosses = self.layers.iter().enumerate().filter_map(|(i, block)| Some((i, block.cross.as_ref()?)));
        crosses.map(|(i, cross)| (format!("{i}.cross"), cross.project(memory.clone()))).collect()
    }

    /// How far the blocks see.
    pub fn sight(&self) -> Sight {
        self.sight.clone()
    }

    /// Embeddings `[B, T, C]` with kinds, positions and norm.
    fn front(&self, mut x: Tensor<3>, kinds: Option<&Ids>, cx: &mut Cx) -> Tensor<3> {
        if let Some(table) = &self.kinds {
            let [b, t, _] = x.dims();
            // Left out, every token is of the first kind.
            let first = Ids::new(vec![0; b * t], b);
            x = x + table.forward(kinds.unwrap_or(&first));
        }
        if let Some(positions) = &self.positions {
            x = positions.add(x, &cx.positions);
        }
        if let Some(waves) = &self.waves {
            x = waves.add(x, &cx.positions);
        }
        if let Some(norm) = &self.norm_input {
            x = norm.forward(x);
        }
        cx.dropout("input", x, self.dropout)
    }

    /// The bias of the scores `[1, H, Tq, Tk]`, one for all layers.
    fn bias(&self, x: &Tensor<3>, cx: &Cx) -> Option<Tensor<4>> {
        if self.relative.is_none() && self.alibi.is_none() {
            return None;
        }
        if let Some(rows) = &cx.rows {
            let (positions, keys) = (rows.positions(), rows.segments().iter().map(|s| s.keys).max().unwrap_or(0));
            let fixed = || self.alibi.map(|heads| alibi_at(heads, &positions, keys, &x.device()));
            return self.relative.as_ref().map(|relative| relative.bias_at(&positions, keys)).or_else(fixed);
        }
        let tq = x.dims()[1];
        let tk = tq + cx.cache.as_ref().map_or(0, |cache| cache.len());
        let fixed = || self.alibi.map(|heads| alibi(heads, tq, tk, &x.device()));
        self.relative.as_ref().map(|relative| relative.bias(tq, tk)).or_else(fixed)
    }

    /// Embeddings `[B, T, C]` → hidden states `[B, T, C]`.
    pub fn forward(
        &self,
        x: Tensor<3>,
        kinds: Option<&Ids>,
        mask: &Mask,
        seen: Option<&Seen>,
        cx: &mut Cx,
    ) -> Tensor<3> {
        let t = x.dims()[1];
        let mut x = self.front(x, kinds, cx);
        cx.tap("hidden", &x);
        let bias = self.bias(&x, cx);
        for (i, block) in self.layers.iter().enumerate() {
            if let Some(positions) = self.each.get(i) {
                x = positions.add(x, &cx.positions);
            }
            let run = if cx.recomputes() { recompute::forward } else { Block::forward };
            x = cx.within(i, |cx| run(block, x, mask, bias.clone(), seen, cx));
        }
        if let Some(cache) = &mut cx.cache {
            cache.advance(t);
        }
        let Some(norm) = &self.norm else { return x };
        let x = norm.forward(x);
        cx.tap("normed", &x);
        x
    }
}
