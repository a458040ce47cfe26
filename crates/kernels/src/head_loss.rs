//! Cross-entropy of a head without all of its scores: `ℓ(h·Wᵀ + b)`, some rows at a time.
//!
//! A vocabulary is wide: the scores of a batch are often the largest tensor of a whole step, `[N, V]` beside states `[N, C]`, and
//! they are needed for a moment only. So rows are taken in parts: their scores are computed, become their own gradient where they
//! lie (`cross_entropy.rs`), and are multiplied with W and h at once: `dh = dz·W`, `dW += dzᵀ·h`, `db += Σ dz`. What is kept for the
//! backward is these gradients, and of the scores there is never more than one part.
//!
//! Shapes: h `[N, C]`, W `[V, C]`, b `[V]`, loss `[1]`. A batch of one part has the bits of the two operations one after the other;
//! with more parts dW and db are sums of sums.

use crate::bf16::ProductPrecision;
use crate::cross_entropy::{CrossEntropy, Loss, cross_entropies};
use crate::fused::{Fused, apply, contiguous, elements, elements_mut, rows_and_width, tensor, uninit};
use crate::linear::{Projection, linear_in};
use crate::product::{Accumulate, Piece, Strided, rowwise};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::axpy;
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

/// Rows of a part: scores of about 16 MB, and enough rows that packing W for each part costs little beside multiplying.
pub fn part_rows(vocabulary: usize) -> usize {
    ((1 << 22) / vocabulary.max(1)).max(512)
}

/// The loss of the scores `h·Wᵀ + b`, and beside it the same without smoothing, outside of the graph.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{CrossEntropy, ProductPrecision, Projection, head_cross_entropies};
///
/// // Two words whose vectors are alike: each has probability ½, whatever the state.
/// let device = Device::flex();
/// let words = Projection::new(Tensor::from_floats([[1.0, 2.0], [1.0, 2.0]], &device), None);
/// let h = Tensor::from_floats([[0.3, -0.1]], &device);
/// let (loss, _) = head_cross_entropies(ProductPrecision::F32, h, &words, &CrossEntropy::mean([1]));
/// assert!((loss.into_scalar::<f32>() - std::f32::consts::LN_2).abs() < 1e-6);
/// ```
///
/// # Panics
/// As [`cross_entropies`]; or if W is not as wide as h.
pub fn head_cross_entropies(
    products: ProductPrecision,
    h: Tensor<2>,
    head: &Projection,
    how: &CrossEntropy,
) -> (Tensor<1>, Tensor<1>) {
    let ([n, c], [v, width]) = (h.dims(), head.weight.dims());
    assert_eq!(c, width, "head: states are {c} wide, the vectors of words are not");
    how.check(n, v);
    let learns = head.weight.is_tracked();
    let op = HeadLoss { how: how.clone(), products, learns };
    let bias = head.bias.clone().map(Tensor::into_dispatch);
    match apply(op, [Some(h.into_dispatch()), Some(head.weight.clone().into_dispatch()), bias]) {
        Ok(both) => {
            let both = Tensor::<1>::from_dispatch(both); // [2]
            (both.clone().narrow(0, 0, 1), both.detach().narrow(0, 1, 1))
        }
        Err([h, ..]) => {
            let h = Tensor::<2>::from_dispatch(h.expect("a head has states"));
            cross_entropies(linear_in(products, h, std::slice::from_ref(head), None), how)
        }
    }
}

#[derive(Clone, Debug)]
struct HeadLoss {
    how: CrossEntropy,
    products: ProductPrecision,
    /// whether dW is asked for: by far the largest of the products that could be left out
    learns: bool,
}

impl HeadLoss {
    fn product(&self, size: [usize; 3], dst: &mut [f32], onto: Accumulate, lhs: &[f32], a: Strided, piece: Piece) {
        self.products.product()(size, dst, rowwise(size[2]), onto, lhs, a, &[piece]);
    }
}

impl Fused<3> for HeadLoss {
    /// The gradients of h, W and b, for an incoming gradient of 1.
    type Saved = [Option<FlexTensor>; 3];

    fn forward(&self, inputs: [Option<FlexTensor>; 3], keep: bool) -> (FlexTensor, Option<Self::Saved>) {
        let [h, w, b] = inputs.map(|t| t.map(contiguous));
        let (h, w) = (h.expect("a head has states"), w.expect("a head has a matrix"));
        let ((n, c), (v, _)) = (rows_and_width(&h), rows_and_width(&w));
        let (h, w, bias) = (elements(&h), elements(&w), b.as_ref().map(elements));
        let factors = self.how.factors();
        let mut dh = uninit(if keep { n * c } else { 0 });
        let mut dw = if keep && self.learns { uninit(v * c) } else { vec![] };
        let mut db = vec![0.0; if keep && bias.is_some() { v } else { 0 }];
        let (mut loss, most) = (Loss::default(), part_rows(v));
        let mut scores = uninit(most.min(n) * v);
        for first in (0..n).step_by(most) {
            let (rows, h) = (most.min(n - first), &h[first * c..]);
            let (h, z) = (&h[..rows * c], &mut scores[..rows * v]);
            let onto = bias.map_or(Accumulate::Fresh, Accumulate::Bias);
            let turned = Strided { start: 0, row: 1, column: c }; // Wᵀ
            self.product([rows, c, v], z, onto, h, rowwise(c), Piece { data: w, at: turned, k: 0..c, n: 0..v });
            if !keep {
                loss += self.how.loss_of_rows(first, &factors, v, z);
                continue;
            }
            loss += self.how.gradient_of_rows(first, &factors, v, z, None);
            let out = &mut dh[first * c..][..rows * c];
            let whole = Piece { data: w, at: rowwise(c), k: 0..v, n: 0..c };
            self.product([rows, v, c], out, Accumulate::Fresh, z, rowwise(v), whole);
            if self.learns {
                let onto = if first == 0 { Accumulate::Fresh } else { Accumulate::Sum };
                let turned = Strided { start: 0, row: 1, column: v }; // dzᵀ
                let states = Piece { data: h, at: rowwise(c), k: 0..rows, n: 0..c };
                self.product([v, rows, c], &mut dw, onto, z, turned, states);
            }
            if !db.is_empty() {
                axpy(1.0, &threads::column_sums(z, v), &mut db);
            }
        }
        if n == 0 {
            dw.fill(0.0);
        }
        let saved = keep.then(|| {
            let dw = self.learns.then(|| tensor(dw, [v, c]));
            [Some(tensor(dh, [n, c])), dw, bias.map(|_| tensor(db, [v]))]
        });
        (loss.tensor(), saved)
    }

    fn backward(&self, saved: Self::Saved, grad: FlexTensor, wants: [bool; 3]) -> [Option<FlexTensor>; 3] {
        // Of the second, which is the loss without smoothing, there is none.
        let by = elements(&contiguous(grad))[0];
        let mut wants = wants.into_iter();
        saved.map(|gradient| {
            let mut gradient = gradient.filter(|_| wants.next() == Some(true))?;
            if by != 1.0 {
                threads::for_rows(elements_mut(&mut gradient), 1, |_, g| g.iter_mut().for_each(|g| *g *= by));
            }
            Some(gradient)
        })
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "head_loss", formula: "cross-entropy of h·Wᵀ + b, part by part", cases, bench };

fn case(n: usize, c: usize, v: usize, bias: bool, smoothing: f32) -> Case {
    let sizes: Vec<usize> = [n * c, v * c].into_iter().chain(bias.then_some(v)).collect();
    Case::new(format!("[{n}, {c}] → {v}, bias {bias}, smoothing {smoothing}"), sizes, move |x| {
        let targets: Vec<i64> = (0..n).map(|i| if i % 5 == 3 { -100 } else { ((i * 7) % v) as i64 }).collect();
        let how = CrossEntropy { smoothing, ..CrossEntropy::mean(targets) };
        let head = Projection::new(x[1].clone().reshape([v, c]), x.get(2).cloned());
        head_cross_entropies(ProductPrecision::F32, x[0].clone().reshape([n, c]), &head, &how).0
    })
}

fn cases() -> Vec<Case> {
    vec![
        case(1, 1, 2, false, 0.0),
        case(5, 3, 7, true, 0.0),
        case(6, 4, 9, true, 0.1),
        case(40, 24, 65, false, 0.1),
        case(700, 8, 10_000, true, 0.0).spread(0.3), // two parts
    ]
}

fn bench() -> Bench {
    Bench { case: case(2048, 384, 4096, false, 0.0), work: Work::Flops(3.0 * 2.0 * 2048.0 * 384.0 * 4096.0) }
}
