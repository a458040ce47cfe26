//! What the tests of every room share: closeness, gradient checks, thread counts. For development only.

use burn::tensor::{DType, Device, Tensor, TensorData};

/// Tolerances, in one place. Each is what the comparison needs with a margin of a few, not what makes it pass.
pub mod tolerance {
    /// Normalised mean squared error of a fused f32 kernel against its twin.
    pub const NMSE: f64 = 1e-7;
    /// Central differences in f64 against a gradient: absolute and relative part.
    pub const GRADCHECK: (f64, f64) = (1e-5, 1e-3);
    /// Step of the central differences.
    pub const STEP: f64 = 1e-6;
    /// Relative closeness of two f32 results of the same formula.
    pub const F32: f64 = 2e-5;
}

/// `Σ(a − b)² / Σb²`, the measure that kernels are compared with. Equal non-finite values in the same place count as
/// equal; different ones as infinitely far apart.
///
/// ```
/// assert_eq!(qkv_testkit::nmse(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
/// assert_eq!(qkv_testkit::nmse(&[0.0, 5.0], &[3.0, 4.0]), 10.0 / 25.0);
/// ```
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len(), "lengths differ");
    let (mut error, mut size) = (0.0, 0.0);
    for (&a, &b) in got.iter().zip(want) {
        if !a.is_finite() || !b.is_finite() {
            if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) {
                return f64::INFINITY;
            }
            continue;
        }
        error += (a as f64 - b as f64).powi(2);
        size += (b as f64).powi(2);
    }
    if error == 0.0 { 0.0 } else { error / size.max(f64::MIN_POSITIVE) }
}

/// The largest absolute difference.
pub fn max_diff(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "lengths differ");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The elements of a tensor.
pub fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().convert_dtype(DType::F32).try_to_vec().expect("floats")
}

/// A function of flat tensors, as a gradient check sees it.
pub type Function<'a> = &'a dyn Fn(&[Tensor<1>]) -> Tensor<1>;

/// Output, and the gradient of `Σ out·direction` for each input.
pub fn forward_backward(f: Function, inputs: &[Vec<f32>], direction: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
    let device = Device::flex().autodiff();
    let tensors: Vec<Tensor<1>> =
        inputs.iter().map(|x| Tensor::from_floats(x.as_slice(), &device).require_grad()).collect();
    let out = f(&tensors);
    let y = values(out.clone().inner());
    let along = Tensor::<1>::from_floats(&direction[..y.len()], &device);
    let grads = (out * along).sum().backward();
    let zero = |x: &Vec<f32>| vec![0.0; x.len()];
    let gradients = tensors.iter().zip(inputs).map(|(t, x)| t.grad(&grads).map_or_else(|| zero(x), values)).collect();
    (y, gradients)
}

/// Checks the gradients of `f` at `inputs` against central differences, all in f64. Returns the worst place on failure.
pub fn gradcheck(f: Function, inputs: &[Vec<f64>], direction: &[f32]) -> Result<(), String> {
    let device = Device::flex().autodiff();
    let as_tensor = |x: &[f64]| Tensor::<1>::from_data(TensorData::new(x.to_vec(), [x.len()]), (&device, DType::F64));
    let score = |tensors: &[Tensor<1>]| {
        let out = f(tensors);
        let n = out.dims()[0];
        let along: Vec<f64> = direction[..n].iter().map(|d| *d as f64).collect();
        (out * as_tensor(&along)).sum()
    };
    let number = |t: Tensor<1>| t.into_data().try_to_vec::<f64>().expect("f64")[0];
    let tensors: Vec<_> = inputs.iter().map(|x| as_tensor(x).require_grad()).collect();
    let grads = score(&tensors).backward();
    let (absolute, relative) = tolerance::GRADCHECK;
    for (i, x) in inputs.iter().enumerate() {
        let gradient = tensors[i].grad(&grads).ok_or(format!("input {i} got no gradient"))?;
        let gradient = gradient.into_data().try_to_vec::<f64>().expect("f64");
        // A stride keeps large inputs affordable; prime, so that every row and column is met.
        let stride = if x.len() > 200 { 37 } else { 1 };
        for j in (0..x.len()).step_by(stride) {
            let at = |d: f64| {
                let moved: Vec<Tensor<1>> = (0..inputs.len())
                    .map(|k| {
                        let mut x = inputs[k].clone();
                        if k == i {
                            x[j] += d;
                        }
                        as_tensor(&x)
                    })
                    .collect();
                number(score(&moved).inner())
            };
            let numeric = (at(tolerance::STEP) - at(-tolerance::STEP)) / (2.0 * tolerance::STEP);
            let allowed = absolute + relative * numeric.abs();
            if (numeric - gradient[j]).abs() > allowed || !gradient[j].is_finite() {
                return Err(format!("input {i} element {j}: gradient {}, central difference {numeric}", gradient[j]));
            }
        }
    }
    Ok(())
}

/// Compares the losses of several steps of Adam with a reference's, and returns how many could be compared.
///
/// Adam divides a gradient by its own size, so one that is nothing but rounding still moves its weight by a full step, up
/// or down by chance, and a network may make much of that within two steps. Two computations of ours that add in different
/// orders, the kernels and their twins, then part: from there on no f32 can say which is right, and the comparison ends.
/// It never ends before the third loss; the caller says how many losses may be left out.
pub fn losses_follow(name: &str, ours: &[f64], twins: &[f64], wanted: &[f64]) -> usize {
    assert_eq!((ours.len(), twins.len()), (wanted.len(), wanted.len()), "{name}: a loss for each step");
    for (i, want) in wanted.iter().enumerate() {
        if i >= 2 && (ours[i] - twins[i]).abs() > 1e-4 {
            return i;
        }
        let allowed = if i == 0 { 1e-5 * want.abs() } else { 1e-4 };
        assert!((ours[i] - want).abs() <= allowed, "{name}: loss {}: {} for {want}", i + 1, ours[i]);
    }
    wanted.len()
}

/// Runs `f` on a pool of `n` threads.
pub fn with_threads<T: Send>(n: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(n).build().expect("a thread pool").install(f)
}

/// The journal of a training run without what a clock said.
pub fn journal(run: &std::path::Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("a journal");
    let line = |line: &str| {
        let mut value: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        if let Some(map) = value.as_object_mut() {
            map.retain(|key, _| !["seconds", "tokens_per_s"].contains(&key.as_str()));
        }
        value
    };
    // What a run was expected to take, and what it took, is time as well.
    let timeless = |value: &serde_json::Value| ["forecast", "checked"].iter().all(|key| value.get(key).is_none());
    text.lines().map(line).filter(timeless).collect()
}
