//! Recurrent networks, the Transformer's ancestors: read a sequence step by step and carry a state along.
//!
//! | cell | idea | file |
//! |---|---|---|
//! | RNN | mix state and input, squash | [`rnn`] |
//! | GRU | two gates decide what to overwrite | [`gru`] |
//! | LSTM | three gates around a cell that is only added to | [`lstm`] |
//!
//! and beside them the first attention, [`additive_attention`]. All three cells run in the same [`Recurrent`] network:
//! one or more layers, forward or both ways. x `[B, T, C]`, states `[B, S]` (S = H, or 2H for the LSTM's `[h | c]`) →
//! outputs `[B, T, H]` (2H both ways: forward beside reverse) and the last states `[layers·ways, B, S]`, ordered as
//! PyTorch's.
//!
//! What the input contributes does not depend on the state, so it is projected for all steps in one product before the
//! loop; only the state's small product is left inside, and the loop is one node of the graph
//! ([`qkv_kernels::recurrent_layer()`]). Padded steps leave the state as it is and put out 0, so that
//! padding changes nothing: the reverse run meets it first and still starts from a clean state.
//!
//! The lecture's point, asserted at the foot of this file: over 50 steps the gradient of a plain RNN with small weights
//! vanishes, because each step multiplies it by less than one; the LSTM's forget gate lets far more of it through.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, Init, recurrent::Rnn};
//! let device = Device::flex();
//! let rnn = Rnn::new(&Build::new(&device, 0), 1, 1, Init::Ones); // h′ = tanh(x + h)
//! let x = Tensor::<3>::from_floats([[[0.5], [0.0]]], &device);
//! let (y, state) = rnn.forward(x, None, None, &mut Cx::eval());
//! let y: Vec<f32> = y.into_data().try_to_vec().unwrap();
//! assert!((y[0] - 0.4621).abs() < 1e-4 && (y[1] - 0.4318).abs() < 1e-4); // tanh ½, then tanh of that
//! assert_eq!(state.dims(), [1, 1, 1]);
//! ```

pub mod additive_attention;
pub mod attending;
pub mod gru;
pub mod lstm;
pub mod rnn;

pub use additive_attention::AdditiveAttention;
pub use attending::{Attended, AttendingDecoder, Prepared};
pub use gru::{Gru, GruCell};
pub use lstm::{Lstm, LstmCell};
pub use rnn::{Rnn, RnnCell};

use crate::{Build, Cx, Init, Linear};
use burn::module::{Module, ModuleDisplay, Param};
use burn::tensor::{Bool, Device, Tensor, TensorData};
use qkv_kernels::recurrent_layer::{RecurrentCell, Steps, recurrent_layer};
use std::sync::Arc;

/// One step of a recurrent network: two projections, and what is done with their gates.
pub trait Cell: Module + ModuleDisplay {
    /// How many gates are packed in a projection: each weight has `GATES·H` rows.
    const GATES: usize;
    /// How many vectors of width H make up the state; the first is the output.
    const PARTS: usize;

    /// Which cell the kernel runs.
    const KIND: RecurrentCell;

    /// The cell of an input projection `[GATES·H, C]` and a state projection `[GATES·H, H]`.
    fn of(input: Linear, state: Linear) -> Self;

    /// The projection of the input, PyTorch's `weight_ih` and `bias_ih`.
    fn input(&self) -> &Linear;

    /// The projection of the state, PyTorch's `weight_hh` and `bias_hh`.
    fn state(&self) -> &Linear;

    /// The next state `[B, PARTS·H]` from the projected input `[B, GATES·H]` and the state.
    fn step(&self, gx: Tensor<2>, state: Tensor<2>) -> Tensor<2>;

    /// H
    fn hidden(&self) -> usize {
        self.input().dims()[0] / Self::GATES
    }
}

/// In which direction a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// from the first token to the last: language models and decoders
    Forward,
    /// that, and from the last to the first: encoders
    Both,
}

/// One layer: a cell, and when it reads both ways a second one.
#[derive(Module, Debug)]
pub struct Layer<C: Cell> {
    /// reads from the first token on
    pub forward: C,
    /// reads from the last token back
    pub reverse: Option<C>,
}

impl<C: Cell> Layer<C> {
    fn new(build: &Build, input: usize, hidden: usize, ways: Ways, init: Init) -> Self {
        let cell = |way: &str| {
            let linear = |name, from| Linear::new(&build.at(way).at(name), from, C::GATES * hidden, true, init);
            C::of(linear("input", input), linear("state", hidden))
        };
        Self { forward: cell("forward"), reverse: (ways == Ways::Both).then(|| cell("reverse")) }
    }

    /// Its cells, each with whether it reads backwards.
    fn cells(&self) -> impl Iterator<Item = (&C, bool)> {
        std::iter::once((&self.forward, false)).chain(self.reverse.iter().map(|cell| (cell, true)))
    }
}

/// A recurrent network of one or more layers of one kind of cell.
#[derive(Module, Debug)]
pub struct Recurrent<C: Cell> {
    /// from the input up
    pub layers: Vec<Layer<C>>,
    /// probability of dropping an output between layers
    #[module(skip)]
    dropout: f64,
}

impl<C: Cell> Recurrent<C> {
    /// One layer C → H, reading forward.
    pub fn new(build: &Build, input: usize, hidden: usize, init: Init) -> Self {
        Self::with(build, input, hidden, 1, Ways::Forward, init)
    }

    /// `layers` layers of width H, at least one; biases start at 0. Every layer but the first reads what the one below
    /// puts out.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use qkv_nn::{Build, Cx, Init, recurrent::{Lstm, Ways}};
    /// let net = Lstm::with(&Build::new(&Device::flex(), 0), 3, 5, 2, Ways::Both, Init::FanIn);
    /// let x = Tensor::<3>::ones([4, 7, 3], &Device::flex());
    /// let (y, state) = net.forward(x, None, None, &mut Cx::eval());
    /// assert_eq!(y.dims(), [4, 7, 2 * 5]); // forward beside reverse
    /// assert_eq!(state.dims(), [2 * 2, 4, 2 * 5]); // layers · ways, batch, [h | c]
    /// ```
    pub fn with(build: &Build, input: usize, hidden: usize, layers: usize, ways: Ways, init: Init) -> Self {
        let inner = if ways == Ways::Both { 2 * hidden } else { hidden };
        let layer = |i| Layer::new(&build.at("layers").at(i), if i == 0 { input } else { inner }, hidden, ways, init);
        Self { layers: (0..layers).map(layer).collect(), dropout: 0.0 }
    }

    /// The same with dropout between layers.
    pub fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// x `[B, T, C]` → outputs `[B, T, H]` (2H both ways) and the last states `[layers·ways, B, S]`.
    ///
    /// `real` `[B·T]` is false at padding ([`crate::mask::from_lengths`]). `state` is where to start, 0 if it is not
    /// given: tokens read one at a time, each call given the state of the one before, put out what one call would
    /// (forward only: the reverse run needs the future).
    ///
    /// # Panics
    /// If there are no steps or no layers, or `real` or `state` does not fit x: the model checks them at its door.
    pub fn forward(
        &self,
        x: Tensor<3>,
        real: Option<&[bool]>,
        state: Option<Tensor<3>>,
        cx: &mut Cx,
    ) -> (Tensor<3>, Tensor<3>) {
        self.forward_above(0, x, real, state, cx)
    }

    /// The same above so many other layers, which says under which number its outputs are handed out.
    pub(crate) fn forward_above(
        &self,
        below: usize,
        x: Tensor<3>,
        real: Option<&[bool]>,
        state: Option<Tensor<3>>,
        cx: &mut Cx,
    ) -> (Tensor<3>, Tensor<3>) {
        let [b, t, _] = x.dims();
        assert!(t > 0, "recurrent: a sequence has at least one step");
        let padding = real.map(|real| Padding::new(real, b, t, &x.device()));
        // Time first from here on, so that a step is one piece of memory. What stands at padding never enters a
        // product: even a NaN there reaches neither output nor gradient.
        let mut y = cleared(x.swap_dims(0, 1), padding.as_ref()); // [T, B, C]
        let mut starts = self.starts(state, &y).into_iter();
        let mut ends = vec![];
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                y = cx.within(i, |cx| cx.dropout("input", y, self.dropout));
            }
            let mut outputs = vec![];
            for ((cell, reverse), start) in layer.cells().zip(&mut starts) {
                let states = run(cell, y.clone(), padding.as_ref(), start, reverse); // [T, B, S]
                let [_, _, s] = states.dims();
                ends.push(states.clone().narrow(0, if reverse { 0 } else { t - 1 }, 1).reshape([b, s]));
                outputs.push(cleared(output(cell, states), padding.as_ref()));
            }
            y = Tensor::cat(outputs, 2); // [T, B, H or 2H]
            if cx.taps.is_some() {
                cx.within(below + i, |cx| cx.tap("hidden", &y.clone().swap_dims(0, 1)));
            }
        }
        (y.swap_dims(0, 1), Tensor::stack(ends, 0))
    }

    /// The state each cell starts from, `[B, S]`, for x `[T, B, C]`.
    fn starts(&self, state: Option<Tensor<3>>, x: &Tensor<3>) -> Vec<Tensor<2>> {
        let cells: Vec<&C> = self.layers.iter().flat_map(Layer::cells).map(|(cell, _)| cell).collect();
        let width = cells.first().map_or(0, |cell| C::PARTS * cell.hidden());
        let fit = [cells.len(), x.dims()[1], width];
        match state {
            Some(state) => {
                assert_eq!(state.dims(), fit, "recurrent: the state does not fit [layers·ways, B, S]");
                steps(state)
            }
            None => vec![Tensor::zeros([fit[1], fit[2]], (&x.device(), x.dtype())); cells.len()],
        }
    }
}

/// The state after each step `[T, B, S]`, in the order of time, of one cell over x `[T, B, C]`: one node of the graph, or,
/// where an adapter stands in the state's projection, a node for each step.
fn run<C: Cell>(cell: &C, x: Tensor<3>, padding: Option<&Padding>, start: Tensor<2>, reverse: bool) -> Tensor<3> {
    let (gx, state) = (cell.input().forward(x), cell.state());
    if state.lora.is_some() {
        return Tensor::stack(run_by_steps(cell, gx, padding, start, reverse), 0);
    }
    let real = padding.map(|padding| padding.by_time.clone());
    let (weight, bias) = (state.weight.val(), state.bias.as_ref().map(Param::val));
    recurrent_layer(C::KIND, gx, weight, bias, start, Steps { real, reverse })
}

/// The same, step by step.
fn run_by_steps<C: Cell>(
    cell: &C,
    gx: Tensor<3>,
    padding: Option<&Padding>,
    start: Tensor<2>,
    reverse: bool,
) -> Vec<Tensor<2>> {
    let mut projected: Vec<_> = steps(gx).into_iter().enumerate().collect();
    if reverse {
        projected.reverse();
    }
    let mut state = start;
    let next = |(t, gx): (usize, Tensor<2>)| {
        state = match padding {
            Some(padding) => padding.step(t, state.clone(), |state| cell.step(gx, state)),
            None => cell.step(gx, state.clone()),
        };
        state.clone()
    };
    let mut states: Vec<_> = projected.into_iter().map(next).collect();
    if reverse {
        states.reverse();
    }
    states
}

/// The outputs `[T, B, H]`: the first H features of each state.
fn output<C: Cell>(cell: &C, states: Tensor<3>) -> Tensor<3> {
    if C::PARTS == 1 { states } else { states.narrow(2, 0, cell.hidden()) }
}

/// The T tensors `[B, F]` of x `[T, B, F]`.
///
/// By halving, because the backward of a slice fills a tensor as large as its source: T slices of the whole would cost
/// T², halves of halves cost T·log T.
fn steps(x: Tensor<3>) -> Vec<Tensor<2>> {
    let [t, b, f] = x.dims();
    if t <= 1 {
        return (0..t).map(|_| x.clone().reshape([b, f])).collect();
    }
    let half = t / 2;
    let mut all = steps(x.clone().narrow(0, 0, half));
    all.extend(steps(x.narrow(0, half, t - half)));
    all
}

/// Which steps are padding.
struct Padding {
    /// `[T, B, 1]`, true at padding
    hidden: Tensor<3, Bool>,
    /// `[T·B]`, true where real
    by_time: Arc<[bool]>,
    /// how many rows have a real token at each step
    real: Vec<usize>,
}

impl Padding {
    fn new(real: &[bool], b: usize, t: usize, device: &Device) -> Self {
        assert_eq!(real.len(), b * t, "recurrent: the padding mask does not fit [B, T]");
        let by_time = |t_: usize| (0..b).map(move |row| real[row * t + t_]);
        let real: Vec<bool> = (0..t).flat_map(by_time).collect();
        let hidden = TensorData::new(real.iter().map(|real| !real).collect(), [t, b, 1]);
        let counts = (0..t).map(|t| by_time(t).filter(|real| *real).count()).collect();
        Self { hidden: Tensor::from_data(hidden, device), by_time: real.into(), real: counts }
    }

    /// `step(state)` in the rows where step `t` is real, `state` in the others.
    fn step(&self, t: usize, state: Tensor<2>, step: impl FnOnce(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
        let [b, s] = state.dims();
        // Most steps are real in every row, and in a batch of unequal lengths some may be in none: those cost nothing.
        match self.real[t] {
            0 => state,
            n if n == b => step(state),
            _ => {
                let hidden = self.hidden.clone().narrow(0, t, 1).reshape([b, 1]).expand([b, s]);
                step(state.clone()).mask_where(hidden, state)
            }
        }
    }
}

/// x `[T, B, F]` with 0 at padding.
fn cleared(x: Tensor<3>, padding: Option<&Padding>) -> Tensor<3> {
    match padding {
        Some(padding) => {
            let dims = x.dims();
            x.mask_fill(padding.hidden.clone().expand(dims), 0.0)
        }
        None => x,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mask::from_lengths;
    use burn::module::Param;
    use qkv_testkit::{max_diff, values, with_threads};

    /// The network with all parameters, in PyTorch's order, set to 0.5·sin 0, 0.5·sin 1, 0.5·sin 2, …
    pub(crate) fn sines<C: Cell>(input: usize, hidden: usize, layers: usize, ways: Ways) -> Recurrent<C> {
        let device = Device::flex();
        let mut next = 0;
        let mut draw = |n: usize| {
            next += n;
            (next - n..next).map(|i| ((i as f64).sin() * 0.5) as f32).collect::<Vec<f32>>()
        };
        let mut cell = |input: usize| {
            let rows = C::GATES * hidden;
            let mut weight = |width: usize| TensorData::new(draw(rows * width), [rows, width]);
            let (ih, hh) = (weight(input), weight(hidden));
            let mut linear = |weight: TensorData| Linear {
                weight: Param::from_data(weight, &device),
                bias: Some(Param::from_data(TensorData::new(draw(rows), [rows]), &device)),
                lora: None,
                bank: None,
                stored: crate::Stored::default(),
            };
            C::of(linear(ih), linear(hh))
        };
        let mut net = Recurrent::<C>::with(&Build::new(&device, 0), input, hidden, layers, ways, Init::Zeros);
        for layer in &mut net.layers {
            let width = layer.forward.input().dims()[1];
            layer.forward = cell(width);
            if let Some(reverse) = &mut layer.reverse {
                *reverse = cell(width);
            }
        }
        net
    }

    /// `[B, T, C]` of cos 0, cos 1, cos 2, …
    pub(crate) fn cosines(shape: [usize; 3]) -> Tensor<3> {
        let data: Vec<f32> = (0..shape.iter().product::<usize>()).map(|i| (i as f64).cos() as f32).collect();
        Tensor::from_data(TensorData::new(data, shape), &Device::flex())
    }

    /// Outputs and last states over `cosines([2, 3, 2])`, with the second row one or no step shorter.
    pub(crate) fn over_cosines<C: Cell>(layers: usize, ways: Ways, lengths: [usize; 2]) -> (Vec<f32>, Vec<f32>) {
        let net = sines::<C>(2, 2, layers, ways);
        let real = from_lengths(&lengths, 3);
        let (y, state) = net.forward(cosines([2, 3, 2]), Some(&real), None, &mut Cx::eval());
        (values(y), values(state))
    }

    /// Close to numbers given with six digits.
    pub(crate) fn assert_close(got: &[f32], want: &[f32]) {
        assert!(max_diff(got, want) < 2e-6, "{got:?} is not {want:?}");
    }

    /// Runs a property for every kind of cell.
    macro_rules! for_each_cell {
        ($property:ident) => {
            $property::<RnnCell>();
            $property::<GruCell>();
            $property::<LstmCell>();
        };
    }

    #[test]
    fn padding_changes_nothing() {
        fn property<C: Cell>() {
            let net = sines::<C>(3, 5, 2, Ways::Both);
            let x = cosines([2, 4, 3]);
            let run = |x, real: Option<&[bool]>| net.forward(x, real, None, &mut Cx::eval());
            let (short, short_state) = run(x.clone().narrow(1, 0, 2), None);
            for junk in [0.0, 1e6, f32::NAN] {
                let padded = Tensor::cat(vec![x.clone().narrow(1, 0, 2), x.clone().narrow(1, 2, 2) * junk], 1);
                let (long, state) = run(padded, Some(&from_lengths(&[2, 2], 4)));
                assert_eq!(values(long.clone().narrow(1, 0, 2)), values(short.clone()));
                assert_eq!(values(state), values(short_state.clone()));
                assert!(values(long.narrow(1, 2, 2)).iter().all(|v| *v == 0.0));
            }
        }
        for_each_cell!(property);
    }

    #[test]
    fn a_row_of_a_ragged_batch_is_the_row_alone() {
        fn property<C: Cell>() {
            let net = sines::<C>(3, 4, 2, Ways::Both);
            let (x, lengths) = (cosines([3, 5, 3]), [5, 1, 3]);
            let real = from_lengths(&lengths, 5);
            let (y, state) = net.forward(x.clone(), Some(&real), None, &mut Cx::eval());
            for (row, n) in lengths.into_iter().enumerate() {
                let alone = x.clone().narrow(0, row, 1).narrow(1, 0, n);
                let (y_alone, state_alone) = net.forward(alone, None, None, &mut Cx::eval());
                assert_close(&values(y.clone().narrow(0, row, 1).narrow(1, 0, n)), &values(y_alone));
                assert_close(&values(state.clone().narrow(1, row, 1)), &values(state_alone));
            }
        }
        for_each_cell!(property);
    }

    #[test]
    fn left_padding_changes_nothing_either() {
        fn property<C: Cell>() {
            let net = sines::<C>(3, 4, 1, Ways::Both);
            let x = cosines([1, 4, 3]);
            let real = crate::mask::from_lengths_left(&[3], 4);
            let (y, state) = net.forward(x.clone(), Some(&real), None, &mut Cx::eval());
            let (short, short_state) = net.forward(x.narrow(1, 1, 3), None, None, &mut Cx::eval());
            assert_close(&values(y.narrow(1, 1, 3)), &values(short));
            assert_close(&values(state), &values(short_state));
        }
        for_each_cell!(property);
    }

    #[test]
    fn step_by_step_equals_the_whole() {
        fn property<C: Cell>() {
            let net = sines::<C>(3, 4, 2, Ways::Forward);
            let x = cosines([2, 7, 3]);
            let (whole, end) = net.forward(x.clone(), None, None, &mut Cx::eval());
            let (mut parts, mut state) = (vec![], None);
            for t in 0..7 {
                let (y, next) = net.forward(x.clone().narrow(1, t, 1), None, state, &mut Cx::eval());
                parts.push(y);
                state = Some(next);
            }
            assert_close(&values(Tensor::cat(parts, 1)), &values(whole));
            assert_close(&values(state.expect("seven steps")), &values(end));
        }
        for_each_cell!(property);
    }

    #[test]
    fn both_ways_is_a_forward_run_beside_a_reversed_one() {
        fn property<C: Cell>() {
            let both = sines::<C>(3, 4, 1, Ways::Both);
            let one =
                |cell: &C| Recurrent { layers: vec![Layer { forward: cell.clone(), reverse: None }], dropout: 0.0 };
            let x = cosines([2, 5, 3]);
            let run = |net: &Recurrent<C>, x| net.forward(x, None, None, &mut Cx::eval());
            let (y, state) = run(&both, x.clone());
            let (ahead, ahead_state) = run(&one(&both.layers[0].forward), x.clone());
            let reverse = both.layers[0].reverse.as_ref().expect("both ways");
            let (back, back_state) = run(&one(reverse), x.flip([1]));
            assert_close(&values(y), &values(Tensor::cat(vec![ahead, back.flip([1])], 2)));
            assert_close(&values(state), &values(Tensor::cat(vec![ahead_state, back_state], 0)));
        }
        for_each_cell!(property);
    }

    #[test]
    fn the_gradient_reaches_every_parameter() {
        fn property<C: Cell>() {
            let build = Build::new(&Device::flex().autodiff(), 3);
            let net = Recurrent::<C>::with(&build, 3, 4, 2, Ways::Both, Init::Normal { std: 0.5 });
            let junk = Tensor::full([1, 2, 3], f32::NAN, &Device::flex()); // at padding, and it must stay there
            let x = cosines([2, 5, 3]).slice_assign([1..2, 3..5, 0..3], junk);
            let x = Tensor::from_inner(x).require_grad();
            let real = from_lengths(&[5, 3], 5);
            let (y, state) = net.forward(x.clone(), Some(&real), None, &mut Cx::eval());
            let grads = (y.square().sum() + state.sum()).backward();
            assert_eq!(reached(&net, &grads), [true; 16]); // two layers, two ways, two projections, weight and bias
            let dx = x.grad(&grads).expect("the input is tracked");
            assert!(values(dx.clone().narrow(0, 1, 1).narrow(1, 3, 2)).iter().all(|v| *v == 0.0)); // padding
            assert!(values(dx.narrow(0, 1, 1).narrow(1, 0, 3)).iter().all(|v| *v != 0.0));
        }
        for_each_cell!(property);
    }

    /// For each parameter, whether a finite gradient other than 0 has reached it.
    pub(crate) fn reached<M: Module>(net: &M, grads: &burn::tensor::Gradients) -> Vec<bool> {
        let mut seen = vec![];
        crate::walk(net, |p| {
            let grad = p.grad(grads).map(values).unwrap_or_default();
            seen.push(grad.iter().all(|g| g.is_finite()) && grad.iter().any(|g| *g != 0.0));
        });
        seen
    }

    #[test]
    fn dropout_stands_between_layers_only() {
        fn property<C: Cell>() {
            let x = cosines([2, 3, 3]);
            let run = |layers, cx: &mut Cx| {
                let net = sines::<C>(3, 4, layers, Ways::Forward).with_dropout(0.5);
                values(net.forward(x.clone(), None, None, cx).0)
            };
            assert_eq!(run(1, &mut Cx::train(1, 1)), run(1, &mut Cx::eval()));
            assert_eq!(run(2, &mut Cx::train(1, 1)), run(2, &mut Cx::train(1, 1)));
            assert_ne!(run(2, &mut Cx::train(1, 1)), run(2, &mut Cx::train(1, 2)));
        }
        for_each_cell!(property);
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
        fn property<C: Cell>() {
            let run = || {
                let build = Build::new(&Device::flex().autodiff(), 9);
                let net = Recurrent::<C>::with(&build, 61, 67, 2, Ways::Both, Init::FanIn);
                let x = Tensor::from_inner(cosines([17, 13, 61])).require_grad();
                let real = from_lengths(&(0..17).map(|row| 13 - row % 5).collect::<Vec<_>>(), 13);
                let (y, _) = net.forward(x.clone(), Some(&real), None, &mut Cx::eval());
                let grads = y.clone().square().sum().backward();
                let dw = net.layers[0].forward.input().weight.val().grad(&grads).expect("tracked");
                (values(y), values(x.grad(&grads).expect("tracked")), values(dw))
            };
            let one = with_threads(1, run);
            for threads in [2, 3, 8] {
                assert!(with_threads(threads, run) == one, "{threads} threads");
            }
        }
        for_each_cell!(property);
    }

    /// How much the last output of a network with small weights depends on the first of 50 inputs.
    fn reach<C: Cell>(adapt: impl FnOnce(Recurrent<C>) -> Recurrent<C>) -> f32 {
        let build = Build::new(&Device::flex().autodiff(), 7);
        let net = adapt(Recurrent::new(&build, 8, 16, Init::Normal { std: 0.1 }));
        let x = Tensor::from_inner(cosines([1, 50, 8])).require_grad();
        let (y, _) = net.forward(x.clone(), None, None, &mut Cx::eval());
        let grads = y.narrow(1, 49, 1).sum().backward();
        values(x.grad(&grads).expect("tracked").narrow(1, 0, 1)).iter().map(|v| v.abs()).fold(0.0, f32::max)
    }

    #[test]
    fn the_gradient_of_a_plain_rnn_vanishes_and_the_lstms_far_less() {
        let (rnn, lstm) = (reach::<RnnCell>(|net| net), reach::<LstmCell>(|net| net.with_forget_bias(1.0)));
        assert!(rnn < 1e-15, "rnn {rnn:e}");
        assert!(lstm > 1e-9 && lstm > 1e6 * rnn, "rnn {rnn:e}, lstm {lstm:e}");
    }
}
