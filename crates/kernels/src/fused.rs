//! From a kernel to a differentiable burn operation: the one place that knows burn's internals.
//!
//! A kernel is a value that says what it computes ([`Fused`]): `forward` on plain CPU tensors, and a hand-written
//! `backward`. [`apply`] runs it under burn's autodiff: it takes the primitives out of the dispatch tensors, calls
//! `forward`, and registers one step in the graph that will call `backward` and hand a gradient to every input that
//! wants one. A kernel without a backward cannot be written, so a gradient cannot stop silently.
//!
//! Why not burn's `#[backend_extension]` trait: it asks for one trait method, one `Flex` body, one `Autodiff` body and
//! one backward type per operation, all with backend primitives. This way an operation is one struct, and its plain
//! twin is written with ordinary `Tensor` methods, as a reader would expect. The promise is the same: on any backend or
//! data type that the kernel does not serve, [`apply`] gives the inputs back and the caller runs the twin, which burn
//! differentiates by itself.

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::{
    Autodiff, BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex, TensorMetadata,
    tensor::FloatTensor,
};
use burn::tensor::{Bytes, DType, Shape, Tensor, TensorData};
use std::cell::Cell;
use std::fmt::Debug;

/// A fused operation of `N` inputs and one output, with its backward.
///
/// Inputs are CPU tensors of f32 in any layout; an absent optional input (a bias, a mask) is `None`.
pub trait Fused<const N: usize>: Clone + Debug + Send + 'static {
    /// What the backward needs: inputs (shared, not copied) and whatever is cheaper to keep than to recompute.
    type Saved: Clone + Debug + Send + 'static;

    /// Computes the output. `keep` says whether a backward will follow; if not, `Saved` may be left out.
    fn forward(&self, inputs: [Option<FlexTensor>; N], keep: bool) -> (FlexTensor, Option<Self::Saved>);

    /// The gradient of each input that `wants` one, from the gradient of the output.
    fn backward(&self, saved: Self::Saved, grad: FlexTensor, wants: [bool; N]) -> [Option<FlexTensor>; N];
}

thread_local! {
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` with every kernel replaced by its plain twin on this thread: for comparing the two, and for teaching.
pub fn plain<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PLAIN.set(self.0);
        }
    }
    let _restore = Restore(PLAIN.replace(true));
    f()
}

/// Whether the caller is inside [`plain`]: for kernels on slices, which [`apply`] never sees.
pub(crate) fn is_plain() -> bool {
    PLAIN.get()
}

/// Runs `op`, or gives the inputs back when a kernel does not serve them (another backend, another data type, or inside
/// [`plain`]): then the caller runs the twin.
pub fn apply<F: Fused<N>, const N: usize>(
    op: F,
    inputs: [Option<DispatchTensor>; N],
) -> Result<DispatchTensor, [Option<DispatchTensor>; N]> {
    if is_plain() || !inputs.iter().flatten().all(served) {
        return Err(inputs);
    }
    let context = inputs.iter().flatten().fold(DispatchAutodiffContext::Disabled, |c, t| c.merge(t.autodiff));
    if context == DispatchAutodiffContext::Disabled {
        let (output, _) = op.forward(inputs.map(|t| t.map(|t| unwrap(t).0)), false);
        return Ok(DispatchTensor { kind: DispatchTensorKind::Flex(BackendTensor::Float(output)), autodiff: context });
    }
    let mut primitives = [const { None }; N];
    let mut slots = primitives.iter_mut();
    let guards = inputs.map(|input| {
        // An absent input takes an untracked node of its own: burn wants a fixed number of parents.
        let (primitive, node) = match input.map(unwrap) {
            Some((primitive, node)) => (Some(primitive), node),
            None => (None, None),
        };
        let node = node.unwrap_or_else(|| Tracked::new(tensor(vec![], [0])).node());
        if let Some(slot) = slots.next() {
            *slot = primitive;
        }
        node
    });
    let output = match Step(op.clone()).prepare::<NoCheckpointing>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let (output, saved) = op.forward(primitives, true);
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(op.forward(primitives, false).0),
    };
    let kind = DispatchTensorKind::Autodiff(Box::new(DispatchTensorKind::Flex(BackendTensor::Autodiff(output))));
    Ok(DispatchTensor { kind, autodiff: context })
}

/// Runs `f` on CPU tensors outside of any graph: an operation that has no backward. The inputs are given back where that is not
/// what they are (a gradient may be asked for, another backend or data type, or inside [`plain`]): then the caller runs the twin.
pub(crate) fn answer(
    inputs: Vec<Option<DispatchTensor>>,
    f: impl FnOnce(Vec<Option<FlexTensor>>) -> FlexTensor,
) -> Result<DispatchTensor, Vec<Option<DispatchTensor>>> {
    let tracked = |t: &DispatchTensor| t.autodiff != DispatchAutodiffContext::Disabled;
    if is_plain() || !inputs.iter().flatten().all(served) || inputs.iter().flatten().any(tracked) {
        return Err(inputs);
    }
    let output = f(inputs.into_iter().map(|t| t.map(|t| contiguous(unwrap(t).0))).collect());
    let kind = DispatchTensorKind::Flex(BackendTensor::Float(output));
    Ok(DispatchTensor { kind, autodiff: DispatchAutodiffContext::Disabled })
}

type Tracked = FloatTensor<Autodiff<Flex>>;
type Node = burn::backend::autodiff::ops::NodeGuard;

/// Whether a kernel can read this tensor: f32 on the CPU backend.
fn served(tensor: &DispatchTensor) -> bool {
    let on_cpu = match &tensor.kind {
        DispatchTensorKind::Flex(_) => true,
        DispatchTensorKind::Autodiff(inner) => matches!(**inner, DispatchTensorKind::Flex(_)),
        #[allow(unreachable_patterns)] // with one backend compiled in there is nothing else
        _ => false,
    };
    on_cpu && tensor.kind.dtype() == DType::F32
}

/// The CPU tensor inside, and its node in the graph if it has one.
fn unwrap(tensor: DispatchTensor) -> (FlexTensor, Option<Node>) {
    let inner = match tensor.kind {
        DispatchTensorKind::Autodiff(inner) => *inner,
        kind => kind,
    };
    match inner {
        DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => {
            let (primitive, node) = tensor.into_parts();
            (primitive, Some(node))
        }
        DispatchTensorKind::Flex(tensor) => (tensor.float(), None),
        #[allow(unreachable_patterns)]
        _ => unreachable!("`served` admits the CPU backend only"),
    }
}

/// One step of the graph: calls the kernel's backward and hands the gradients on.
#[derive(Debug)]
struct Step<F>(F);

impl<F: Fused<N>, const N: usize> Backward<Flex, N> for Step<F> {
    type State = Option<F::Saved>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let wants = ops.parents.each_ref().map(Option::is_some);
        let saved = ops.state.unwrap_or_else(|| panic!("{:?} kept nothing for its backward", self.0));
        let gradients = self.0.backward(saved, grad, wants);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            match (parent, gradient) {
                (Some(node), Some(gradient)) => grads.register::<Flex>(node.id, gradient),
                (Some(_), None) => panic!("{:?} gave no gradient to an input that wants one", self.0),
                (None, _) => (),
            }
        }
    }
}

/// A contiguous tensor of `shape` around `data`.
pub fn tensor(data: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(data), Layout::contiguous(shape.into()), DType::F32)
}

/// The same values laid out contiguously; shared if they already are.
pub fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// The elements of a [`contiguous`] tensor.
pub fn elements(tensor: &FlexTensor) -> &[f32] {
    match tensor.layout().contiguous_offsets() {
        Some((start, end)) => &tensor.storage::<f32>()[start..end],
        None => unreachable!("`elements` is called on contiguous tensors"),
    }
}

/// The elements of a tensor for writing in place; copied first if they are shared or not contiguous.
pub fn elements_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    if !tensor.is_contiguous() {
        *tensor = tensor.to_contiguous();
    }
    let (start, end) = tensor.layout().contiguous_offsets().unwrap_or((0, 0));
    &mut tensor.storage_mut::<f32>()[start..end]
}

/// Whether the kernels serve this tensor where it is: f32 on the CPU backend.
pub fn on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    served(&tensor.clone().into_dispatch())
}

/// Runs `f` on the elements of a tensor, where they are if nobody else holds them, and on those of `other`: the update of
/// a parameter by its gradient. Neither may be part of a graph.
pub fn update<const D: usize>(tensor: Tensor<D>, other: Tensor<D>, f: impl FnOnce(&mut [f32], &[f32])) -> Tensor<D> {
    let (tensor, other) = (tensor.into_dispatch(), other.into_dispatch());
    if served(&tensor) && served(&other) {
        let ((mut tensor, _), (other, _)) = (unwrap(tensor), unwrap(other));
        f(elements_mut(&mut tensor), elements(&contiguous(other)));
        return Tensor::from_dispatch(DispatchTensor {
            kind: DispatchTensorKind::Flex(BackendTensor::Float(tensor)),
            autodiff: DispatchAutodiffContext::Disabled,
        });
    }
    // Any other backend: through host memory.
    let tensor = Tensor::<D>::from_dispatch(tensor);
    let (device, dtype, shape) = (tensor.device(), tensor.dtype(), tensor.shape());
    let host = |t: Tensor<D>| t.into_data().convert_dtype(DType::F32).try_to_vec::<f32>().unwrap_or_default();
    let (mut values, other) = (host(tensor), host(Tensor::from_dispatch(other)));
    f(&mut values, &other);
    Tensor::from_data(TensorData::new(values, shape), (&device, dtype))
}

/// Runs `f` on the elements of `written`, where they are if nobody else holds them, and on those of `read`; none may be part
/// of a graph. All are given back where a kernel does not serve them (another device or data type, or inside [`plain`]):
/// then the caller computes with tensors, which stay where they are.
pub fn update_slices(
    written: Vec<Tensor<1>>,
    read: Tensor<1>,
    f: impl FnOnce(&mut [&mut [f32]], &[f32]),
) -> Result<Vec<Tensor<1>>, Box<(Vec<Tensor<1>>, Tensor<1>)>> {
    let written: Vec<DispatchTensor> = written.into_iter().map(Tensor::into_dispatch).collect();
    let read = read.into_dispatch();
    if is_plain() || !written.iter().chain([&read]).all(served) {
        let written = written.into_iter().map(Tensor::from_dispatch).collect();
        return Err(Box::new((written, Tensor::from_dispatch(read))));
    }
    let mut written: Vec<FlexTensor> = written.into_iter().map(|t| unwrap(t).0).collect();
    let read = contiguous(unwrap(read).0);
    f(&mut written.iter_mut().map(elements_mut).collect::<Vec<_>>(), elements(&read));
    let wrap = |tensor| DispatchTensor {
        kind: DispatchTensorKind::Flex(BackendTensor::Float(tensor)),
        autodiff: DispatchAutodiffContext::Disabled,
    };
    Ok(written.into_iter().map(|tensor| Tensor::from_dispatch(wrap(tensor))).collect())
}

/// `f(first_row, rows)` over chunks of rows of x, each written over; in x's own memory when nobody else holds it, in a
/// copy made on the way when somebody does.
///
/// Not `elements_mut`, which would copy on one thread, and the whole of a storage that x may be a small view of.
pub(crate) fn in_place(x: FlexTensor, width: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> FlexTensor {
    let mut x = contiguous(x);
    if x.is_unique() {
        crate::threads::for_rows(elements_mut(&mut x), width, f);
        return x;
    }
    let from = elements(&x);
    let mut y = uninit(from.len());
    crate::threads::for_rows(&mut y, width, |first, rows| {
        rows.copy_from_slice(&from[first * width..][..rows.len()]);
        f(first, rows);
    });
    tensor(y, x.layout().shape().clone())
}

/// The last axis and the number of rows before it.
pub fn rows_and_width(tensor: &FlexTensor) -> (usize, usize) {
    let shape = tensor.layout().shape();
    let width = shape.last().copied().unwrap_or(1);
    (tensor.layout().num_elements().checked_div(width).unwrap_or(0), width)
}

/// Memory that the caller is about to fill completely.
///
/// Zeroing would cost one more pass over every activation of the network.
#[allow(clippy::uninit_vec)] // the reason is the SAFETY line below
pub(crate) fn uninit(n: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(n);
    // SAFETY: the capacity is n and every bit pattern is an f32. Every caller writes all n elements before any is read;
    // the twin comparison over odd shapes would show an element left out.
    unsafe { out.set_len(n) };
    out
}
