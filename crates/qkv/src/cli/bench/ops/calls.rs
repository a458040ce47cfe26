//! What is timed: a kernel's forward pass alone, and with its backward.

use burn::tensor::Tensor;
use qkv_kernels::Key;
use qkv_kernels::registry::Case;
use qkv_nn::device;
use std::hint::black_box;
use std::time::Instant;

/// Seconds of one call: a short one is repeated until the clock can tell.
pub(super) fn seconds(repeats: usize, call: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| call());
    start.elapsed().as_secs_f64() / repeats as f64
}

/// The same random inputs for every run.
pub(super) fn inputs(name: &str, case: &Case) -> Vec<Vec<f32>> {
    let key = Key::new(1, 0, 0).named(name);
    let input = |(i, &n): (usize, &usize)| {
        let normals = key.child(i as u64).normals(n);
        normals.into_iter().map(|v| v * case.spread).collect()
    };
    case.sizes.iter().enumerate().map(input).collect()
}

/// The operation alone, outside of any graph.
pub(super) fn forward<'a>(case: &'a Case, values: &[Vec<f32>]) -> impl Fn() + 'a {
    let device = device::default();
    let inputs: Vec<_> = values.iter().map(|x| Tensor::<1>::from_floats(x.as_slice(), &device)).collect();
    move || {
        black_box((case.run)(&inputs));
    }
}

/// The operation in a graph, its output weighed in a random direction, and the gradient of every input.
pub(super) fn forward_backward<'a>(case: &'a Case, values: &[Vec<f32>]) -> impl Fn() + 'a {
    let device = device::default().autodiff();
    let inputs: Vec<_> =
        values.iter().map(|x| Tensor::<1>::from_floats(x.as_slice(), &device).require_grad()).collect();
    let [n] = (case.run)(&inputs).dims();
    let direction = Tensor::<1>::from_floats(Key::new(1, 0, 1).normals(n).as_slice(), &device);
    move || {
        black_box(((case.run)(&inputs) * direction.clone()).sum().backward());
    }
}
