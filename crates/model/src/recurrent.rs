//! Recurrent layers inside a stack: where they begin, and how rows that join and leave carry their states.
//!
//! A state `[layers, B, S]` (S = C, or 2C for the LSTM's `[h | c]`) is handed from an encoder to a decoder as a memory of a few
//! vectors `[B, layers·S/C, C]`: as many for a long source as for a short one, which is the bottleneck in numbers.

use crate::block::Seen;
use crate::spec::{Handover, Spec, Stack};
use crate::stack::Role;
use burn::tensor::{Int, Tensor};
use qkv_kernels::{Mask, RecurrentCell};
use qkv_nn::recurrent::{AttendingDecoder, Cell, Prepared, Recurrent, Ways};
use qkv_nn::{Build, Cx, FixedWindow, Init, RowCache};

/// Whether a stack of a pair hands this over, or takes it.
pub(crate) fn hands(stack: &Stack, what: Handover) -> bool {
    stack.recurrent.is_some_and(|cells| cells.handover == Some(what))
}

/// The recurrent layers of a stack, where they are of this kind.
pub(crate) fn recurrent<C: Cell>(build: &Build, spec: &Spec, stack: &Stack, role: Role) -> Option<Recurrent<C>> {
    let looks = role == Role::CrossDecoder && hands(stack, Handover::Attention);
    let cells = stack.recurrent.filter(|cells| cells.cell == C::KIND && !looks && cells.window.is_none())?;
    let hidden = if cells.ways == Ways::Both { spec.width / 2 } else { spec.width };
    let net = Recurrent::with(&build.at("cells"), spec.width, hidden, stack.layers, cells.ways, Init::FanIn);
    Some(net.with_dropout(spec.dropout.hidden))
}

/// The layer over the last few inputs, where there is such.
pub(crate) fn fixed(build: &Build, spec: &Spec, stack: &Stack) -> Option<FixedWindow> {
    let window = stack.recurrent?.window?;
    let net = FixedWindow::new(&build.at("fixed"), spec.width, window, Init::FanIn);
    Some(net.with_dropout(spec.dropout.hidden))
}

/// A layer over the last few inputs of x `[B, T, C]`, or of rows that join and leave `[1, N, C]`, each behind its own.
pub(crate) fn look_back(net: &FixedWindow, x: &Tensor<3>, cx: &mut Cx) -> Tensor<3> {
    let path = cx.path().to_string();
    let y = match cx.rows.as_mut() {
        None => net.forward(x.clone(), None, cx).0,
        Some(rows) => {
            let (mut from, mut outputs) = (0, vec![]);
            for (row, n) in rows.pass().to_vec() {
                let here = x.clone().narrow(1, from, n);
                let (y, held) = net.forward(here, rows.state(&path, row), &mut Cx::eval());
                if net.window() > 1 {
                    rows.set_state(&path, row, held);
                }
                outputs.push(y);
                from += n;
            }
            Tensor::cat(outputs, 1)
        }
    };
    cx.within(0, |cx| cx.tap("hidden", &y));
    y
}

/// The layers of a decoder that looks at a memory before each step.
pub(crate) fn attending(build: &Build, spec: &Spec, stack: &Stack, role: Role) -> Option<AttendingDecoder> {
    let cells = stack.recurrent.filter(|cells| cells.cell == RecurrentCell::Gru)?;
    let looks = role == Role::CrossDecoder && cells.handover == Some(Handover::Attention);
    let net = || AttendingDecoder::new(&build.at("cells"), spec.width, stack.layers, Init::FanIn);
    looks.then(|| net().with_dropout(spec.dropout.hidden))
}

/// States `[layers, B, S]` as a memory `[B, layers·S/C, C]`.
pub(crate) fn memory_of(states: Tensor<3>, c: usize) -> Tensor<3> {
    let [layers, b, s] = states.dims();
    states.swap_dims(0, 1).reshape([b, layers * s / c.max(1), c])
}

/// And back: the states of `layers` layers.
fn states_of(memory: Tensor<3>, layers: usize) -> Tensor<3> {
    let [b, n, c] = memory.dims();
    memory.reshape([b, layers, n * c / layers.max(1)]).swap_dims(0, 1)
}

/// Rows of a memory for `rows` rows of a target: those of one source stand next to each other.
fn shared(memory: &Tensor<3>, rows: usize) -> Tensor<3> {
    let b = memory.dims()[0];
    if b == rows { memory.clone() } else { pick(memory, &(0..rows).map(|i| i * b / rows).collect::<Vec<_>>()) }
}

/// The rows at these places.
fn pick(memory: &Tensor<3>, at: &[usize]) -> Tensor<3> {
    let at: Vec<i64> = at.iter().map(|i| *i as i64).collect();
    memory.clone().select(0, Tensor::<1, Int>::from_data(at.as_slice(), &memory.device()))
}

/// Recurrent layers over x `[B, T, C]`, or over rows that join and leave `[1, N, C]`, each from its own state: outputs, states
/// and how many layers there are.
pub(crate) fn recur<C: Cell>(
    net: &Recurrent<C>,
    x: &Tensor<3>,
    mask: &Mask,
    seen: Option<&Seen>,
    cx: &mut Cx,
) -> (Tensor<3>, Tensor<3>, usize) {
    let (path, layers) = (cx.path().to_string(), net.layers.len());
    let Some(rows) = cx.rows.as_mut() else {
        let start = seen.map(|seen| states_of(shared(seen.memory, x.dims()[0]), layers));
        let (y, states) = net.forward(x.clone(), mask.padding.as_deref(), start, cx);
        return (y, states, layers);
    };
    let sources = rows.memory(&format!("{path}.states"));
    let start = |rows: &RowCache, row: usize| {
        let begun = || Some(states_of(pick(sources.as_ref()?, &[rows.source(row)?]), layers));
        rows.state(&path, row).or_else(begun)
    };
    let (pass, [_, all, c]) = (rows.pass().to_vec(), x.dims());
    let states: Vec<Option<Tensor<3>>> = pass.iter().map(|(row, _)| start(rows, *row)).collect();
    let even = states.iter().all(Option::is_some) || states.iter().all(Option::is_none);
    let groups = groups(pass.len(), even && of_one_length(&pass));
    let (mut from, mut outputs, mut last) = (0, vec![], vec![]);
    for group in groups {
        let (rows_here, n) = (&pass[group.clone()], pass[group.start].1);
        let held: Vec<Tensor<3>> = states[group].iter().flatten().cloned().collect();
        let state = (!held.is_empty()).then(|| Tensor::cat(held, 1));
        let together = x.clone().narrow(1, from, n * rows_here.len()).reshape([rows_here.len(), n, c]);
        let (y, state) = net.forward(together, None, state, &mut Cx::eval());
        for (i, (row, _)) in rows_here.iter().enumerate() {
            rows.set_state(&path, *row, state.clone().narrow(1, i, 1));
        }
        outputs.push(y.reshape([1, n * rows_here.len(), c]));
        last.push(state);
        from += n * rows_here.len();
    }
    debug_assert_eq!(from, all);
    (Tensor::cat(outputs, 1), Tensor::cat(last, 1), layers)
}

/// The same for a decoder that looks at a memory before each step.
pub(crate) fn attend(net: &AttendingDecoder, x: &Tensor<3>, seen: Option<&Seen>, cx: &mut Cx) -> Tensor<3> {
    let (path, last) = (cx.path().to_string(), net.upper.as_ref().map_or(0, |upper| upper.layers.len()));
    let (y, weights) = match (cx.rows.as_mut(), seen) {
        (Some(rows), _) => attend_rows(net, x, &path, rows),
        (None, Some(seen)) => {
            let b = x.dims()[0];
            let memory = shared(seen.memory, b);
            let [given, tm, _] = seen.memory.dims();
            let of_row = |row: usize, real: &[bool]| real[row * given / b * tm..][..tm].to_vec();
            let real = seen.mask.padding.as_ref().map(|real| (0..b).flat_map(|row| of_row(row, real)).collect());
            let prepared = Prepared { keys: net.keys(memory.clone()), memory, real };
            let start = net.begin(&prepared.memory);
            let out = net.forward(x.clone(), &prepared, start, cx);
            (out.output, out.weights.unsqueeze_dim::<4>(1)) // [B, 1, T, Tm]
        }
        // The door lets nothing in without a memory.
        (None, None) => return x.clone(),
    };
    cx.within(last, |cx| {
        cx.within("cross", |cx| cx.tap("weights", &weights));
        cx.tap("hidden", &y);
    });
    y
}

fn attend_rows(net: &AttendingDecoder, x: &Tensor<3>, path: &str, rows: &mut RowCache) -> (Tensor<3>, Tensor<4>) {
    let (pass, c) = (rows.pass().to_vec(), x.dims()[2]);
    let segments = rows.source_segments();
    let length = |slot: usize| segments.iter().find(|s| s.slot == slot).map_or(0, |s| s.keys);
    let (Some(memory), Some(keys)) = (rows.memory(&format!("{path}.memory")), rows.memory(&format!("{path}.keys")))
    else {
        // The engine admits no row of a pair without its source.
        return (x.clone(), Tensor::zeros([1, 1, x.dims()[1], 1], &x.device()));
    };
    let tm = memory.dims()[1];
    let groups = groups(pass.len(), of_one_length(&pass));
    let (mut from, mut outputs, mut looked) = (0, vec![], vec![]);
    for group in groups {
        let (rows_here, n) = (&pass[group.clone()], pass[group.start].1);
        let slots: Vec<usize> = rows_here.iter().map(|(row, _)| rows.source(*row).unwrap_or(0)).collect();
        let real = slots.iter().flat_map(|slot| (0..tm).map(|i| i < length(*slot)).collect::<Vec<bool>>()).collect();
        let prepared = Prepared { memory: pick(&memory, &slots), keys: pick(&keys, &slots), real: Some(real) };
        let begun = net.begin(&prepared.memory);
        let state = |i: usize, row: usize| rows.state(path, row).unwrap_or_else(|| begun.clone().narrow(1, i, 1));
        let states: Vec<Tensor<3>> = rows_here.iter().enumerate().map(|(i, (row, _))| state(i, *row)).collect();
        let together = x.clone().narrow(1, from, n * rows_here.len()).reshape([rows_here.len(), n, c]);
        let out = net.forward(together, &prepared, Tensor::cat(states, 1), &mut Cx::eval());
        for (i, (row, _)) in rows_here.iter().enumerate() {
            rows.set_state(path, *row, out.state.clone().narrow(1, i, 1));
        }
        outputs.push(out.output.reshape([1, n * rows_here.len(), c]));
        looked.push(out.weights.reshape([1, 1, n * rows_here.len(), tm]));
        from += n * rows_here.len();
    }
    (Tensor::cat(outputs, 1), Tensor::cat(looked, 2))
}

fn of_one_length(pass: &[(usize, usize)]) -> bool {
    pass.windows(2).all(|pair| pair[0].1 == pair[1].1)
}

/// All rows together, or each by itself.
fn groups(n: usize, together: bool) -> Vec<std::ops::Range<usize>> {
    let size = if together { n.max(1) } else { 1 };
    (0..n).step_by(size).map(|i| i..i + size).collect()
}
