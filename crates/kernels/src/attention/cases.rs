//! What attention is tested and measured on: every form and mask, odd lengths, shared heads, biases, dropout.

use super::{Attend, Mask, Qkv, Sight, attention};
use crate::Key;
use crate::registry::{Bench, Case, Work};
use burn::tensor::Tensor;

/// The sizes of a case.
#[derive(Clone, Copy, Debug)]
struct Size {
    b: usize,
    h: usize,
    g: usize,
    tq: usize,
    tk: usize,
    d: usize,
}

impl Size {
    /// Self-attention with a key head for every query head.
    fn of(b: usize, h: usize, t: usize, d: usize) -> Self {
        Self { b, h, g: h, tq: t, tk: t, d }
    }

    fn how(self, mask: Mask) -> Attend {
        let scale = 1.0 / (self.d as f32).sqrt();
        Attend { heads: self.h, kv_heads: self.g, scale, soft_cap: None, mask, dropout: None }
    }
}

fn run(qkv: Qkv, bias: Option<Tensor<4>>, how: &Attend) -> Tensor<1> {
    attention(qkv, bias, how).flatten(0, 2)
}

fn packed(label: &str, size: Size, how: Attend) -> Case {
    let Size { b, h, g, tk: t, d, .. } = size;
    let c = (h + 2 * g) * d;
    Case::new(format!("packed {label} {size:?}"), [b * t * c], move |x| {
        run(Qkv::Packed(x[0].clone().reshape([b, t, c])), None, &how)
    })
}

fn cross(label: &str, size: Size, how: Attend) -> Case {
    let Size { b, h, g, tq, tk, d } = size;
    Case::new(format!("cross {label} {size:?}"), [b * tq * h * d, b * tk * 2 * g * d], move |x| {
        let (q, kv) = (x[0].clone().reshape([b, tq, h * d]), x[1].clone().reshape([b, tk, 2 * g * d]));
        run(Qkv::Cross { q, kv }, None, &how)
    })
}

/// Queries as `[B, T, H, D]` turned, keys with their features turned last, values straight: three kinds of strides.
fn views(label: &str, size: Size, how: Attend) -> Case {
    let Size { b, h, g, tq, tk, d } = size;
    let sizes = [b * h * tq * d, b * g * tk * d, b * g * tk * d];
    Case::new(format!("views {label} {size:?}"), sizes, move |x| {
        let q = x[0].clone().reshape([b, tq, h, d]).swap_dims(1, 2);
        let k = x[1].clone().reshape([b, g, d, tk]).swap_dims(2, 3);
        let v = x[2].clone().reshape([b, g, tk, d]);
        run(Qkv::Views { q, k, v }, None, &how)
    })
}

/// With a bias of `batches` (1 or B) and `heads` (1 or H); turned, so that it is not contiguous.
fn biased(size: Size, batches: usize, heads: usize, how: Attend) -> Case {
    let Size { b, h, g, tq, tk, d } = size;
    let sizes = [b * tq * h * d, b * tk * 2 * g * d, batches * heads * tq * tk];
    Case::new(format!("bias [{batches}, {heads}] {size:?} {:?}", how.mask.sight), sizes, move |x| {
        let (q, kv) = (x[0].clone().reshape([b, tq, h * d]), x[1].clone().reshape([b, tk, 2 * g * d]));
        let bias = x[2].clone().reshape([batches, heads, tk, tq]).swap_dims(2, 3);
        run(Qkv::Cross { q, kv }, Some(bias), &how)
    })
}

/// Every kind of mask for `b` rows of `tk` keys: sights, with and without padding and documents.
fn masks(b: usize, tk: usize) -> Vec<(&'static str, Mask)> {
    let sight = |sight| Mask { sight, ..Mask::none() };
    let prefix: Vec<usize> = (0..b).map(|b| (b + 2).min(tk)).collect();
    let real: Vec<bool> = (0..b * tk).map(|i| i % tk < tk - (i / tk + 1) % tk).collect();
    let document: Vec<u32> = (0..b * tk).map(|i| (i % tk * 3 / tk) as u32).collect();
    vec![
        ("both", Mask::none()),
        ("causal", Mask::causal()),
        ("window 1", sight(Sight::Window(1))),
        ("window 3", sight(Sight::Window(3))),
        ("prefix", sight(Sight::Prefix(prefix.into()))),
        ("padded", Mask { padding: Some(real.clone().into()), ..Mask::none() }),
        ("packed documents", Mask { documents: Some(document.clone().into()), ..Mask::causal() }),
        ("all of it", Mask { padding: Some(real.into()), documents: Some(document.into()), sight: Sight::Window(4) }),
        // Left padding under a causal mask: the first queries see nothing at all.
        ("blind", Mask { padding: Some((0..b * tk).map(|i| i % tk > 1).collect()), ..Mask::causal() }),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = vec![];
    let (own, apart) = (Size { g: 2, ..Size::of(2, 4, 7, 5) }, Size { b: 2, h: 2, g: 1, tq: 5, tk: 11, d: 3 });
    for (label, mask) in masks(2, 7) {
        all.push(packed(label, own, own.how(mask)));
    }
    // With one key in sight the weight is 1 whatever the scores are: dq and dk are 0, and NMSE has nothing to divide by.
    // Packed with dv they can be compared; on their own they have a unit test.
    for (label, mask) in masks(2, 11).into_iter().filter(|(label, _)| *label != "window 1") {
        all.push(cross(label, apart, apart.how(mask.clone())));
        all.push(views(label, apart, apart.how(mask)));
    }
    all.extend(lengths());
    all.extend(biases());
    all.extend(others());
    all
}

/// Length one, more queries than keys, one query (decoding), primes, and lengths across the borders of tiles.
fn lengths() -> Vec<Case> {
    let single = Size::of(3, 2, 1, 4);
    let more = Size { b: 1, h: 2, g: 2, tq: 9, tk: 4, d: 8 };
    let decode = Size { b: 2, h: 6, g: 2, tq: 1, tk: 37, d: 16 };
    let few = Size { b: 1, h: 2, g: 1, tq: 3, tk: 290, d: 41 };
    let prime = Size::of(1, 3, 67, 13);
    let long = Size { b: 1, h: 2, g: 1, tq: 131, tk: 300, d: 8 };
    let wide = |n| Mask { sight: Sight::Window(n), ..Mask::none() };
    vec![
        packed("single", single, single.how(Mask::causal())),
        packed("single", single, single.how(Mask::none())),
        cross("more queries", more, more.how(Mask::none())),
        cross("more queries, causal", more, more.how(Mask::causal())),
        views("more queries, windowed", more, more.how(wide(2))),
        views("decoding", decode, decode.how(Mask::causal())),
        views("decoding, all", decode, decode.how(Mask::none())),
        views("few queries", few, few.how(Mask::causal())),
        packed("prime", prime, prime.how(Mask::causal())),
        packed("prime", prime, prime.how(wide(5))),
        cross("long", long, long.how(Mask::none())),
        views("long, causal", long, long.how(Mask::causal())),
        views("long, windowed", long, long.how(wide(270))),
        packed("across tiles", Size::of(2, 2, 300, 8), Size::of(2, 2, 300, 8).how(Mask::causal())),
    ]
}

fn biases() -> Vec<Case> {
    let size = Size { b: 2, h: 4, g: 2, tq: 5, tk: 7, d: 3 };
    let long = Size { b: 2, h: 2, g: 2, tq: 70, tk: 300, d: 4 };
    let mut all: Vec<Case> =
        [(1, 1), (1, 4), (2, 1), (2, 4)].map(|(b, h)| biased(size, b, h, size.how(Mask::none()))).into();
    all.push(biased(size, 1, 4, size.how(Mask::causal())));
    all.push(biased(long, 1, 2, long.how(Mask::causal())));
    let dropout = Some((0.25, Key::new(5, 0, 0)));
    all.push(biased(size, 1, 1, Attend { dropout, ..size.how(Mask { sight: Sight::Window(3), ..Mask::none() }) }));
    all
}

/// Dropout, soft caps, large logits, another scale, views of views.
fn others() -> Vec<Case> {
    let dropped = |size: Size, p, mask| Attend { dropout: Some((p, Key::new(3, 1, 4))), ..size.how(mask) };
    let capped = |size: Size, mask| Attend { soft_cap: Some(2.0), ..size.how(mask) };
    let (small, odd, long) = (Size::of(2, 2, 6, 4), Size::of(2, 3, 11, 5), Size::of(1, 2, 300, 4));
    let decode = Size { b: 2, h: 2, g: 1, tq: 1, tk: 13, d: 8 };
    let sharp = Size::of(2, 2, 19, 8);
    let narrowed = Case::new("a narrowed packed tensor", [2 * 9 * 20], |x| {
        // One more time step and one more channel on either side than the 7 × 18 that count.
        let view = x[0].clone().reshape([2, 9, 20]).narrow(1, 1, 7).narrow(2, 1, 18);
        run(Qkv::Packed(view), None, &Size::of(2, 2, 7, 3).how(Mask::causal()))
    });
    let turned = Case::new("a turned packed tensor", [2 * 7 * 18], |x| {
        let view = x[0].clone().reshape([18, 7, 2]).swap_dims(0, 2);
        run(Qkv::Packed(view), None, &Size::of(2, 2, 7, 3).how(Mask::causal()))
    });
    vec![
        packed("dropout", small, dropped(small, 0.3, Mask::causal())),
        packed("dropout 0", small, dropped(small, 0.0, Mask::none())),
        views("dropout", odd, dropped(odd, 0.5, Mask::none())),
        views("dropout, decoding", decode, dropped(decode, 0.2, Mask::causal())),
        packed("dropout, long", long, dropped(long, 0.1, Mask::causal())),
        packed("capped", sharp, capped(sharp, Mask::causal())).spread(3.0),
        views("capped, decoding", decode, capped(decode, Mask::causal())).spread(3.0),
        packed(
            "capped, long",
            long,
            Attend { dropout: Some((0.1, Key::new(3, 1, 4))), ..capped(long, Mask::causal()) },
        ),
        biased(sharp, 1, 2, capped(sharp, Mask { sight: Sight::Window(5), ..Mask::none() })),
        packed("unscaled", small, Attend { scale: 1.0, ..small.how(Mask::none()) }),
        packed("large logits", sharp, sharp.how(Mask::causal())).spread(30.0),
        cross("large logits", sharp, sharp.how(Mask::none())).spread(30.0),
        narrowed,
        turned,
    ]
}

pub(super) fn bench() -> Bench {
    let size = Size::of(8, 6, 256, 64);
    let pairs = (size.b * size.h * size.tq * (size.tq + 1) / 2) as f64;
    Bench { case: packed("causal", size, size.how(Mask::causal())), work: Work::Flops(4.0 * pairs * size.d as f64) }
}
