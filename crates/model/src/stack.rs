//! A stack: positions and norm at the front, N equal blocks, a final norm when blocks are pre-normed. Or, in place of the blocks,
//! recurrent layers of one kind of cell.

use crate::block::{Block, Seen};
use crate::recompute;
use crate::recurrent::{attend, attending, fixed, hands, look_back, memory_of, recur, recurrent};
use crate::spec::{self, Handover, Input, Place, Position, Spec, Window};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Ids, Mask, Sight};
use qkv_nn::position::{Learned, Relative, Sinusoidal, alibi, alibi_at};
use qkv_nn::recurrent::{AttendingDecoder, Gru, Lstm, Rnn};
use qkv_nn::{Build, Cx, Embedding, FixedWindow, Linear, Norm};

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
    /// a vector for each type of token (segment)
    pub token_types: Option<Embedding>,
    /// learned positions at the input
    pub positions: Option<Learned>,
    /// norm of the embeddings
    pub norm_input: Option<Norm>,
    /// from the width of the tables to that of the blocks, where they differ
    pub project: Option<Linear>,
    /// learned positions of each layer
    pub each: Vec<Learned>,
    /// learned bias of the scores
    pub relative: Option<Relative>,
    /// the blocks
    pub layers: Vec<Block>,
    /// plain recurrent layers in place of blocks
    pub rnn: Option<Rnn>,
    /// layers of gated recurrent units in place of blocks
    pub gru: Option<Gru>,
    /// layers of long short-term memory in place of blocks
    pub lstm: Option<Lstm>,
    /// one layer over the last few inputs in place of blocks
    pub fixed: Option<FixedWindow>,
    /// recurrent layers that look at a memory before each step
    pub attending: Option<AttendingDecoder>,
    /// final norm
    pub norm: Option<Norm>,
    #[module(skip)]
    waves: Option<Sinusoidal>,
    #[module(skip)]
    sight: Sight,
    #[module(skip)]
    window: Window,
    #[module(skip)]
    alibi: Option<usize>,
    #[module(skip)]
    dropout: f64,
    /// whether what comes out are the last states of recurrent layers, and not their outputs
    #[module(skip)]
    hands_state: bool,
}

impl Stack {
    /// The stack of a checked spec.
    pub fn new(build: &Build, spec: &Spec, stack: &spec::Stack, role: Role) -> Self {
        let (c, e) = (spec.width, spec.table_width());
        let norm = |name: &str, width| Norm::new(&build.at(name), width, spec.norm);
        let embedding = spec.init.embedding(e);
        let (token_types, normed) = match spec.input {
            Input::Tokens { token_types, normed, .. } => (token_types, normed),
            Input::Patches { .. } => (0, false),
        };
        let learned = |name: String, place| match spec.position {
            Position::Learned { max, offset, place: at, padding_id } if at == place => {
                // Where some tokens are not counted, the row before the first is a position too: theirs.
                let own = usize::from(padding_id.is_some());
                let width = if place == Place::Input { e } else { c };
                let table = Learned::new(&build.at(name), max + own, width, offset - own, embedding);
                Some(table.fixing(padding_id.map(|_| 0)))
            }
            _ => None,
        };
        let relative = match spec.position {
            Position::Relative(buckets) => {
                let buckets = buckets.looking(role == Role::Encoder);
                Some(Relative::new(&build.at("relative"), buckets, stack.heads, spec.init.embedding(c)))
            }
            _ => None,
        };
        Self {
            token_types: (token_types > 0).then(|| Embedding::new(&build.at("token_types"), token_types, e, embedding)),
            positions: learned("positions".into(), Place::Input),
            norm_input: normed.then(|| norm("norm_input", e)),
            project: (e != c).then(|| Linear::new(&build.at("project"), e, c, true, spec.init.linear())),
            each: (0..stack.layers).filter_map(|i| learned(format!("each.{i}"), Place::EachLayer)).collect(),
            relative,
            layers: (0..if stack.recurrent.is_none() { stack.layers } else { 0 })
                .map(|i| Block::new(&build.at("layers").at(i), spec, stack, role, i))
                .collect(),
            rnn: recurrent(build, spec, stack, role),
            gru: recurrent(build, spec, stack, role),
            // Half open, a forget gate loses what it holds within a few steps.
            lstm: recurrent(build, spec, stack, role).map(|lstm: Lstm| lstm.with_forget_bias(1.0)),
            fixed: fixed(build, spec, stack),
            attending: attending(build, spec, stack, role),
            hands_state: role == Role::Encoder && hands(stack, Handover::State),
            norm: spec.wiring.has_final_norm().then(|| norm("norm", c)),
            waves: match spec.position {
                Position::Sinusoidal { waves, .. } => Some(Sinusoidal::new(e, waves)),
                _ => None,
            },
            sight: match (role, stack.window.size()) {
                (Role::Encoder, _) => Sight::Both,
                _ if stack.window == Window::Unmasked => Sight::Both,
                (_, Some(n)) => Sight::Window(n),
                (_, None) => Sight::Causal,
            },
            window: stack.window,
            alibi: matches!(spec.position, Position::Alibi).then_some(stack.heads),
            dropout: spec.dropout.input,
        }
    }

    /// What the blocks of a pair's decoder look at of a memory `[B, Tm, C]`, by path within the stack: `[B, Tm, 2G·D]`.
    pub fn project_memory(&self, memory: &Tensor<3>) -> Vec<(String, Tensor<3>)> {
        if let Some(attending) = &self.attending {
            return vec![("memory".into(), memory.clone()), ("keys".into(), attending.keys(memory.clone()))];
        }
        if self.rnn.is_some() || self.gru.is_some() || self.lstm.is_some() {
            return vec![("states".into(), memory.clone())];
        }
        let crosses = self.layers.iter().enumerate().filter_map(|(i, block)| Some((i, block.cross.as_ref()?)));
        crosses.map(|(i, cross)| (format!("{i}.cross"), cross.project(memory.clone()))).collect()
    }

    /// How far the blocks see; where windows alternate, those with a window.
    pub fn sight(&self) -> Sight {
        self.sight.clone()
    }

    /// Embeddings `[B, T, E]` → `[B, T, C]`, with token types, positions and norm.
    fn front(&self, mut x: Tensor<3>, token_types: Option<&Ids>, cx: &mut Cx) -> Tensor<3> {
        if let Some(table) = &self.token_types {
            let [b, t, _] = x.dims();
            // Left out, every token is of the first type.
            let first = Ids::new(vec![0; b * t], b);
            x = x + table.forward(token_types.unwrap_or(&first));
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
        let x = cx.dropout("input", x, self.dropout);
        self.project.as_ref().map_or(x.clone(), |project| project.activated(x, None, cx.adapting("project")))
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

    /// Embeddings `[B, T, E]` → hidden states `[B, T, C]`.
    pub fn forward(
        &self,
        x: Tensor<3>,
        token_types: Option<&Ids>,
        mask: &Mask,
        seen: Option<&Seen>,
        cx: &mut Cx,
    ) -> Tensor<3> {
        let t = x.dims()[1];
        let mut x = self.front(x, token_types, cx);
        cx.tap("hidden", &x);
        if let Some(y) = self.recur(&x, mask, seen, cx) {
            return y;
        }
        let bias = self.bias(&x, cx);
        // Where windows alternate, some layers see to the beginning.
        let whole = Mask { sight: Sight::Causal, ..mask.clone() };
        for (i, block) in self.layers.iter().enumerate() {
            if let Some(positions) = self.each.get(i) {
                x = positions.add(x, &cx.positions);
            }
            let alternates = matches!(self.window, Window::Alternating { .. });
            let mask = if alternates && self.window.of_layer(i).is_none() { &whole } else { mask };
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

    /// The recurrent layers over x `[B, T, C]`, where there are such.
    fn recur(&self, x: &Tensor<3>, mask: &Mask, seen: Option<&Seen>, cx: &mut Cx) -> Option<Tensor<3>> {
        if let Some(net) = &self.attending {
            return Some(attend(net, x, seen, cx));
        }
        if let Some(net) = &self.fixed {
            return Some(look_back(net, x, cx));
        }
        let (y, states, layers) = match (&self.rnn, &self.gru, &self.lstm) {
            (Some(net), ..) => recur(net, x, mask, seen, cx),
            (_, Some(net), _) => recur(net, x, mask, seen, cx),
            (.., Some(net)) => recur(net, x, mask, seen, cx),
            _ => return None,
        };
        cx.within(layers.saturating_sub(1), |cx| cx.tap("hidden", &y));
        Some(if self.hands_state { memory_of(states, x.dims()[2]) } else { y })
    }
}
