//! SIMD by run-time dispatch: one body per kernel, compiled for AVX-512, AVX2 + FMA, NEON and scalar, chosen when the
//! program starts. A plain `cargo build --release` is therefore fast, and one binary runs everywhere.
//!
//! The bodies are generic over [`pulp::Simd`], so they contain no `unsafe` and no intrinsics; the scalar twin is the
//! same body with vectors of one lane. `QKV_SIMD=scalar|avx2|avx512|neon` overrides the choice; a program checks it at its
//! door with [`Level::check`].
//!
//! Bits: on every level results are the same at any thread count; they may differ in the last place between levels,
//! because the number of lanes decides the order of a sum. One lane adds all numbers one after the other, so the scalar
//! level rounds two to three times worse than the others (measured on the gradients of the reference checkpoints); that
//! is enough to turn the sign of a gradient that is next to nothing, which Adam makes a full step of.

use pulp::{Simd, WithSimd};
use std::sync::OnceLock;

/// The instruction set a kernel body is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// One lane; the twin that every other level is compared with.
    Scalar,
    /// 128-bit vectors on 64-bit ARM.
    Neon,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

impl Level {
    /// The level in force: `QKV_SIMD` if it names one that this machine has, else the best this machine has.
    pub fn current() -> Self {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| Self::check().unwrap_or(Self::best()))
    }

    /// What `QKV_SIMD` asks for; an error if it is not a level, or one that this machine lacks.
    pub fn check() -> Result<Self, String> {
        Self::asked(std::env::var("QKV_SIMD").ok().as_deref(), Self::best())
    }

    /// What a wish comes to on a machine whose best is `best`.
    fn asked(wish: Option<&str>, best: Self) -> Result<Self, String> {
        let here: &[(&str, Self)] = match best {
            Self::Avx512 => &[("scalar", Self::Scalar), ("avx2", Self::Avx2), ("avx512", Self::Avx512)],
            Self::Avx2 => &[("scalar", Self::Scalar), ("avx2", Self::Avx2)],
            Self::Neon => &[("scalar", Self::Scalar), ("neon", Self::Neon)],
            Self::Scalar => &[("scalar", Self::Scalar)],
        };
        let Some(wish) = wish else { return Ok(best) };
        let names = || here.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = here.iter().find(|(name, _)| *name == wish).map(|(_, level)| *level);
        found.ok_or_else(|| format!("QKV_SIMD={wish}: this machine has {}", names()))
    }

    /// The widest level this machine has.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if pulp::x86::V4::try_new().is_some() {
                return Self::Avx512;
            }
            if pulp::x86::V3::try_new().is_some() {
                return Self::Avx2;
            }
        }
        #[cfg(target_arch = "aarch64")]
        if pulp::aarch64::Neon::try_new().is_some() {
            return Self::Neon;
        }
        Self::Scalar
    }

    /// Runs `op` compiled for this level; a level this machine lacks falls back to scalar.
    #[inline]
    pub fn run<Op: WithSimd>(self, op: Op) -> Op::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => match pulp::x86::V4::try_new() {
                Some(simd) => Simd::vectorize(simd, op),
                None => op.with_simd(pulp::Scalar::new()),
            },
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => match pulp::x86::V3::try_new() {
                Some(simd) => Simd::vectorize(simd, op),
                None => op.with_simd(pulp::Scalar::new()),
            },
            #[cfg(target_arch = "aarch64")]
            Self::Neon => match pulp::aarch64::Neon::try_new() {
                Some(simd) => Simd::vectorize(simd, op),
                None => op.with_simd(pulp::Scalar::new()),
            },
            _ => op.with_simd(pulp::Scalar::new()),
        }
    }
}

/// Declares a function whose body is compiled once per SIMD level and dispatched at run time.
///
/// ```text
/// simd! { fn scale<'a, S>(simd, x: &'a mut [f32], by: f32) { … simd.mul_f32s(…) … } }
/// ```
/// Borrowed arguments name the lifetime `'a`, because they travel in a struct.
macro_rules! simd {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<'a, S>($simd:ident $(, $arg:ident : $ty:ty)* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<'a>($($arg: $ty),*) $(-> $ret)? {
            struct Op<'a> { $($arg: $ty,)* life: core::marker::PhantomData<&'a ()> }
            impl<'a> pulp::WithSimd for Op<'a> {
                type Output = simd!(@ret $($ret)?);
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, $simd: S) -> Self::Output {
                    let Op { $($arg,)* life: _ } = self;
                    $body
                }
            }
            $crate::simd::Level::current().run(Op { $($arg,)* life: core::marker::PhantomData })
        }
    };
    (@ret) => { () };
    (@ret $ret:ty) => { $ret };
}
pub(crate) use simd;

/// Asks for the line of `data` that holds number `at`, to be there when it is read.
#[inline(always)]
pub(crate) fn prefetch(data: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; it is a hint.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

/// `eˣ` in every lane: 2ⁿ · p(r) with n = round(x / ln 2), |r| ≤ ln 2 / 2, p of degree 6; relative error ≤ 2e-7.
/// −∞ and everything below −87.3 give 0, everything above 88.3 gives ∞, NaN stays NaN.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let at = |v: f32| simd.splat_f32s(v);
    // Adding 1.5·2²³ leaves round(x / ln 2) in the low mantissa bits: rounding and conversion in one addition.
    let magic = at(12_582_912.0);
    let shifted = simd.mul_add_f32s(x, at(std::f32::consts::LOG2_E), magic);
    let n = simd.sub_f32s(shifted, magic);
    let r = simd.mul_add_f32s(n, at(-0.693_359_4), x);
    let r = simd.mul_add_f32s(n, at(2.121_944_4e-4), r);
    let mut p = at(1.388_888_9e-3);
    for c in [8.333_334e-3, 4.166_666_6e-2, 0.166_666_67, 0.5, 1.0, 1.0] {
        p = simd.mul_add_f32s(p, r, at(c));
    }
    let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let scale = simd.transmute_f32s_u32s(simd.add_u32s(power, simd.splat_u32s(0x3f80_0000)));
    let y = simd.mul_f32s(p, scale);
    let y = simd.select_f32s(simd.less_than_f32s(x, at(-87.3)), at(0.0), y);
    let y = simd.select_f32s(simd.greater_than_f32s(x, at(88.3)), at(f32::INFINITY), y);
    simd.select_f32s(simd.equal_f32s(x, x), y, x)
}

/// `1 / (1 + e⁻ˣ)` in every lane.
#[inline(always)]
pub fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    simd.div_f32s(one, simd.add_f32s(one, exp(simd, simd.neg_f32s(x))))
}

/// `tanh x = 1 − 2 / (e²ˣ + 1)` in every lane; absolute error ≤ 2e-7.
#[inline(always)]
pub fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let e = exp(simd, simd.add_f32s(x, x));
    simd.sub_f32s(one, simd.div_f32s(simd.splat_f32s(2.0), simd.add_f32s(e, one)))
}

/// `erf x` in every lane, by Abramowitz and Stegun 7.1.26: absolute error ≤ 1.5e-7 in exact arithmetic, ≤ 5e-7 in f32.
#[inline(always)]
pub fn erf<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let at = |v: f32| simd.splat_f32s(v);
    let size = simd.abs_f32s(x);
    let t = simd.div_f32s(at(1.0), simd.mul_add_f32s(at(0.327_591_1), size, at(1.0)));
    let mut p = at(1.061_405_4);
    for c in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6, 0.0] {
        p = simd.mul_add_f32s(p, t, at(c));
    }
    let y = simd.sub_f32s(at(1.0), simd.mul_f32s(p, exp(simd, simd.neg_f32s(simd.mul_f32s(size, size)))));
    simd.select_f32s(simd.less_than_f32s(x, at(0.0)), simd.neg_f32s(y), y)
}

simd! {
    /// `Σ xᵢ`.
    pub fn sum<'a, S>(simd, x: &'a [f32]) -> f32 {
        let (head, tail) = S::as_simd_f32s(x);
        let mut total = simd.splat_f32s(0.0);
        for &v in head {
            total = simd.add_f32s(total, v);
        }
        total = simd.add_f32s(total, simd.partial_load_f32s(tail));
        simd.reduce_sum_f32s(total)
    }
}

simd! {
    /// `Σ xᵢ yᵢ` over two slices of one length.
    pub fn dot<'a, S>(simd, x: &'a [f32], y: &'a [f32]) -> f32 {
        let ((xs, xt), (ys, yt)) = (S::as_simd_f32s(x), S::as_simd_f32s(y));
        let mut total = [simd.splat_f32s(0.0); 4];
        let mut pairs = xs.chunks_exact(4).zip(ys.chunks_exact(4));
        for (a, b) in &mut pairs {
            for i in 0..4 {
                total[i] = simd.mul_add_f32s(a[i], b[i], total[i]);
            }
        }
        let done = xs.len() / 4 * 4;
        for (&a, &b) in xs[done..].iter().zip(&ys[done..]) {
            total[0] = simd.mul_add_f32s(a, b, total[0]);
        }
        total[1] = simd.mul_add_f32s(simd.partial_load_f32s(xt), simd.partial_load_f32s(yt), total[1]);
        simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(total[0], total[1]), simd.add_f32s(total[2], total[3])))
    }
}

simd! {
    /// `y ← y + a·x` over two slices of one length.
    pub fn axpy<'a, S>(simd, a: f32, x: &'a [f32], y: &'a mut [f32]) {
        let ((xs, xt), (ys, yt)) = (S::as_simd_f32s(x), S::as_mut_simd_f32s(y));
        let a = simd.splat_f32s(a);
        for (x, y) in xs.iter().zip(ys) {
            *y = simd.mul_add_f32s(a, *x, *y);
        }
        let last = simd.mul_add_f32s(a, simd.partial_load_f32s(xt), simd.partial_load_f32s(yt));
        simd.partial_store_f32s(yt, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    simd! {
        fn map<'a, S>(simd, what: &'a str, x: &'a mut [f32]) {
            let f = |v| match what { "exp" => exp(simd, v), "tanh" => tanh(simd, v), "erf" => erf(simd, v), _ => sigmoid(simd, v) };
            let (head, tail) = S::as_mut_simd_f32s(x);
            for v in head { *v = f(*v); }
            let last = f(simd.partial_load_f32s(tail));
            simd.partial_store_f32s(tail, last);
        }
    }

    #[test]
    fn vector_functions_follow_the_exact_ones() {
        let x: Vec<f32> = (-8000..8000).map(|i| i as f32 * 0.01).collect();
        let check = |what: &str, exact: &dyn Fn(f64) -> f64, relative: bool| {
            let mut y = x.clone();
            map(what, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let want = exact(x as f64);
                let error = (y as f64 - want).abs() / if relative { want.abs() } else { 1.0 };
                assert!(error < 6e-7, "{what}({x}) = {y}, exactly {want}");
            }
        };
        check("exp", &f64::exp, true);
        check("tanh", &f64::tanh, false);
        check("sigmoid", &|x| 1.0 / (1.0 + (-x).exp()), false);
    }

    #[test]
    fn exp_keeps_infinities_and_nan() {
        let mut x = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -1e30, 1e30];
        map("exp", &mut x);
        assert_eq!((x[0], x[1], x[3], x[4], x[5]), (0.0, f32::INFINITY, 1.0, 0.0, f32::INFINITY));
        assert!(x[2].is_nan());
    }

    #[test]
    fn a_wish_never_exceeds_the_machine() {
        assert_eq!(Level::asked(Some("scalar"), Level::Avx512), Ok(Level::Scalar));
        assert_eq!(Level::asked(Some("avx2"), Level::Avx512), Ok(Level::Avx2));
        assert_eq!(Level::asked(None, Level::Neon), Ok(Level::Neon));
        let lacking = Level::asked(Some("avx512"), Level::Avx2);
        assert_eq!(lacking, Err("QKV_SIMD=avx512: this machine has scalar, avx2".into()));
        assert!(Level::asked(Some("fast"), Level::Neon).is_err());
    }

    #[test]
    fn dot_and_axpy_by_hand() {
        let x: Vec<f32> = (1..=37).map(|i| i as f32).collect();
        assert_eq!(dot(&x, &x), (37 * 38 * 75 / 6) as f32);
        assert_eq!(sum(&x), (37 * 38 / 2) as f32);
        let mut y = vec![1.0; 37];
        axpy(2.0, &x, &mut y);
        assert!(y.iter().zip(&x).all(|(y, x)| *y == 1.0 + 2.0 * x));
    }
}
