//! Gradient checkpointing (Chen et al. 2016): a block keeps its input alone, and the backward runs it once more to have
//! what the gradients need. Memory for one block at a time instead of all, for one more forward pass.
//!
//! Nothing changes but the memory: what is dropped is a function of seed, step and place, so the second pass computes
//! the bits of the first, and the gradients are those of a pass that kept everything.
//!
//! burn's own strategies recompute its own light operations and leave the heavy ones, among them all of our kernels.
//! So the block as a whole is one operation of the graph ([`Fused`]): its forward runs the block without a graph; its
//! backward builds the block's own small graph from new leaves, and takes the gradients out of that.

use crate::block::{Block, Seen};
use burn::backend::flex::FlexTensor;
use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use qkv_kernels::Mask;
use qkv_kernels::fused::{Fused, apply};
use qkv_nn::{Cx, Place};

/// Inputs of the operation: x, bias and memory, and every parameter of the block. The largest block (a pair's decoder,
/// gated, all of its layers adapted) has 50.
const SLOTS: usize = 64;
const FIRST: usize = 3;

/// A block that is run twice.
#[derive(Clone, Debug)]
struct Twice {
    /// the block, outside of any graph
    block: Block,
    mask: Mask,
    /// which of the memory is real
    real: Mask,
    place: Place,
}

/// Runs a block so that only its input is kept for the backward.
pub(crate) fn forward(
    block: &Block,
    x: Tensor<3>,
    mask: &Mask,
    bias: Option<Tensor<4>>,
    seen: Option<&Seen>,
    cx: &mut Cx,
) -> Tensor<3> {
    let mut parameters = Parameters(vec![]);
    block.visit(&mut parameters);
    let real = seen.map_or_else(Mask::none, |s| s.mask.clone());
    let op = Twice { block: block.valid(), mask: mask.clone(), real, place: cx.place() };
    // The memory comes after x, so that the graph is walked in the order of a block that keeps everything: sums of
    // several gradients (of the table of tokens) are then made in that order, too.
    let first = [
        Some(x.clone().into_dispatch()),
        bias.clone().map(Tensor::into_dispatch),
        seen.map(|s| s.memory.clone().into_dispatch()),
    ];
    let mut inputs = [const { None }; SLOTS];
    let room = parameters.0.len() + FIRST <= SLOTS;
    inputs.iter_mut().zip(first.into_iter().chain(parameters.0)).for_each(|(slot, input)| *slot = input);
    match if room { apply(op, inputs) } else { Err(inputs) } {
        Ok(y) => Tensor::from_dispatch(y),
        // Another backend: everything is kept, and the numbers are the same.
        Err(_) => block.forward(x, mask, bias, seen, cx),
    }
}

impl Twice {
    fn run(&self, block: &Block, x: Tensor<3>, bias: Option<Tensor<4>>, memory: Option<&Tensor<3>>) -> Tensor<3> {
        let seen = memory.map(|memory| Seen { memory, mask: self.real.clone() });
        block.forward(x, &self.mask, bias, seen.as_ref(), &mut self.place.cx())
    }
}

impl Fused<SLOTS> for Twice {
    type Saved = [Option<FlexTensor>; FIRST];

    fn forward(&self, inputs: [Option<FlexTensor>; SLOTS], keep: bool) -> (FlexTensor, Option<Self::Saved>) {
        let [x, bias, memory, ..] = inputs;
        let saved = keep.then(|| [x.clone(), bias.clone(), memory.clone()]);
        let x = wrapped(x.expect("a block has an input"));
        let memory = memory.map(wrapped);
        (unwrapped(self.run(&self.block, x, bias.map(wrapped), memory.as_ref())), saved)
    }

    fn backward(&self, saved: Self::Saved, grad: FlexTensor, wants: [bool; SLOTS]) -> [Option<FlexTensor>; SLOTS] {
        let [x, bias, memory] = saved;
        let x = leaf(wrapped(x.expect("a block has an input")), wants[0]);
        let bias = bias.map(|bias| leaf(wrapped::<4>(bias), wants[1]));
        let memory = memory.map(|memory| leaf(wrapped::<3>(memory), wants[2]));
        let block = self.block.clone().map(&mut Leaves(wants[FIRST..].iter()));
        let y = self.run(&block, x.clone(), bias.clone(), memory.as_ref());
        // ∂(Σ y·g)/∂y = g, to the bit.
        let grads = (y * Tensor::from_inner(wrapped(grad))).sum().backward();
        let mut found = Found { grads, wants: wants[FIRST..].iter(), gradients: vec![] };
        block.visit(&mut found);
        let Found { grads, gradients, .. } = found;
        let first = [
            x.grad(&grads).map(unwrapped),
            bias.and_then(|b| b.grad(&grads)).map(unwrapped),
            memory.and_then(|m| m.grad(&grads)).map(unwrapped),
        ];
        let mut out = [const { None }; SLOTS];
        out.iter_mut().zip(first.into_iter().chain(gradients)).for_each(|(slot, gradient)| *slot = gradient);
        out
    }
}

/// A tensor at the root of a new graph.
fn leaf<const D: usize>(tensor: Tensor<D>, wants: bool) -> Tensor<D> {
    Tensor::from_inner(tensor).set_require_grad(wants)
}

fn wrapped<const D: usize>(tensor: FlexTensor) -> Tensor<D> {
    let kind = DispatchTensorKind::Flex(BackendTensor::Float(tensor));
    Tensor::from_dispatch(DispatchTensor { kind, autodiff: DispatchAutodiffContext::Disabled })
}

fn unwrapped<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match tensor.into_dispatch().kind {
        DispatchTensorKind::Flex(tensor) => tensor.float(),
        _ => unreachable!("a kernel is given tensors of the CPU, outside of any graph"),
    }
}

/// Every parameter, in order.
struct Parameters(Vec<Option<DispatchTensor>>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(Some(param.val().into_dispatch()));
    }
}

/// Makes every parameter a leaf of a new graph.
struct Leaves<'a>(std::slice::Iter<'a, bool>);

impl ModuleMapper for Leaves<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let wants = self.0.next().is_some_and(|w| *w);
        let (id, tensor, mapper) = param.consume();
        Param::from_mapped_value(id, leaf(tensor, wants), mapper)
    }
}

/// The gradient of every parameter that wants one, in order.
struct Found<'a> {
    grads: Gradients,
    wants: std::slice::Iter<'a, bool>,
    gradients: Vec<Option<FlexTensor>>,
}

impl ModuleVisitor for Found<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let wants = self.wants.next().is_some_and(|w| *w);
        let tensor = param.val();
        self.gradients.push(wants.then(|| tensor.grad_remove(&mut self.grads)).flatten().map(unwrapped));
    }
}
