//! The register of kernels: one row per operation, walked by the parity tests, the gradient checks, the thread and SIMD
//! invariance tests and the benchmarks. A kernel that is not in [`crate::ALL`] is not tested, so a test checks that all
//! files are.

use burn::tensor::Tensor;

/// One operation: its name, its formula, and the cases it is tested and measured on.
pub struct Op {
    /// The file it lives in.
    pub name: &'static str,
    /// What it computes, in one line.
    pub formula: &'static str,
    /// Odd and ordinary shapes for tests.
    pub cases: fn() -> Vec<Case>,
    /// One ordinary size for the benchmark.
    pub bench: fn() -> Bench,
}

/// A function of flat tensors.
pub type Run = Box<dyn Fn(&[Tensor<1>]) -> Tensor<1>>;

/// One way of calling an operation. Inputs and output are flat; the closure gives them their shapes, views included.
pub struct Case {
    /// Which shape or property.
    pub label: String,
    /// The number of elements of each differentiable input.
    pub sizes: Vec<usize>,
    /// The standard deviation of the random inputs.
    pub spread: f32,
    /// Whether the output is a differentiable function of the inputs; an optimiser's update is not asked for gradients.
    pub differentiable: bool,
    /// Runs the operation; inside [`crate::plain`] it is the twin that runs.
    pub run: Run,
}

impl Case {
    /// A case with standard normal inputs.
    pub fn new(
        label: impl Into<String>,
        sizes: impl Into<Vec<usize>>,
        run: impl Fn(&[Tensor<1>]) -> Tensor<1> + 'static,
    ) -> Self {
        Self { label: label.into(), sizes: sizes.into(), spread: 1.0, differentiable: true, run: Box::new(run) }
    }

    /// The same case with larger or smaller inputs.
    pub fn spread(self, spread: f32) -> Self {
        Self { spread, ..self }
    }

    /// The same case, not asked for gradients.
    pub fn without_gradient(self) -> Self {
        Self { differentiable: false, ..self }
    }
}

/// A case with the work it does, so that a rate can be printed.
pub struct Bench {
    /// What is run.
    pub case: Case,
    /// How much work one forward pass is.
    pub work: Work,
}

/// What limits an operation.
pub enum Work {
    /// Floating-point operations of one forward pass.
    Flops(f64),
    /// Bytes that one forward pass must read and write.
    Bytes(f64),
}
