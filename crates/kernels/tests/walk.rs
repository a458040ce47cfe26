//! Walks [`qkv_kernels::ALL`]: every kernel against its twin, the twin against central differences, any thread count
//! against one thread, and the scalar path against the vector path.

use qkv_kernels::{ALL, Key, plain, registry::Case};
use qkv_testkit::{forward_backward, gradcheck, nmse, tolerance, with_threads};

/// The random inputs of a case, and a direction to project its output on.
fn inputs(name: &str, case: &Case) -> (Vec<Vec<f32>>, Vec<f32>) {
    let key = Key::new(1, 0, 0).named(name).named(&case.label);
    let input =
        |(i, &n): (usize, &usize)| key.child(i as u64).normals(n).into_iter().map(|v| v * case.spread).collect();
    (case.sizes.iter().enumerate().map(input).collect(), key.child(99).normals(1 << 17))
}

fn each(f: impl Fn(&str, &Case, &[Vec<f32>], &[f32])) {
    for op in ALL {
        for case in (op.cases)() {
            let (x, direction) = inputs(op.name, &case);
            f(op.name, &case, &x, &direction);
        }
    }
}

/// Forward and, where there are any, gradients.
fn run(case: &Case, x: &[Vec<f32>], direction: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
    if case.differentiable {
        return forward_backward(&case.run, x, direction);
    }
    let device = burn::tensor::Device::flex();
    let tensors: Vec<_> = x.iter().map(|x| burn::tensor::Tensor::from_floats(x.as_slice(), &device)).collect();
    (qkv_testkit::values((case.run)(&tensors)), vec![])
}

#[test]
fn the_twin_has_the_right_gradient() {
    each(|name, case, x, direction| {
        // Twins are the same code at every size: small cases tell all, large ones only cost time.
        if !case.differentiable || case.sizes.iter().sum::<usize>() > 2000 || case.spread > 10.0 {
            return;
        }
        // A gradient that is held back on purpose is not the derivative; that both ways hold it back is told below.
        if case.label == "one row is fixed" {
            return;
        }
        let x: Vec<Vec<f64>> = x.iter().map(|x| x.iter().map(|v| *v as f64).collect()).collect();
        if let Err(why) = gradcheck(&|x| plain(|| (case.run)(x)), &x, direction) {
            panic!("{name}, {}: {why}", case.label);
        }
    });
}

#[test]
fn fused_equals_its_twin_forward_and_backward() {
    each(|name, case, x, direction| {
        let (y, dx) = run(case, x, direction);
        let (want, want_dx) = plain(|| run(case, x, direction));
        let error = nmse(&y, &want);
        assert!(error <= tolerance::NMSE, "{name}, {}: forward NMSE {error:e}", case.label);
        for (i, (dx, want)) in dx.iter().zip(&want_dx).enumerate() {
            let error = nmse(dx, want);
            assert!(error <= tolerance::NMSE, "{name}, {}: gradient {i} NMSE {error:e}", case.label);
        }
    });
}

#[test]
fn the_same_bits_at_any_thread_count() {
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    for op in ALL {
        let cases = || (op.cases)().into_iter().chain([(op.bench)().case]);
        let at = |threads: usize| {
            with_threads(threads, || {
                cases()
                    .map(|case| {
                        let (x, mut direction) = inputs(op.name, &case);
                        let n = direction.len();
                        direction.extend((n..4_000_000).map(|i| ((i * 7919) % 257) as f32 / 257.0 - 0.5));
                        let (y, dx) = run(&case, &x, &direction);
                        (case.label, bits(&y), dx.iter().map(|dx| bits(dx)).collect::<Vec<_>>())
                    })
                    .collect::<Vec<_>>()
            })
        };
        let one = at(1);
        for threads in [2, 3, 8] {
            for (a, b) in one.iter().zip(at(threads)) {
                assert!(*a == b, "{}, {}: {threads} threads differ from one", op.name, a.0);
            }
        }
    }
}

/// The scalar path is chosen by an environment variable when the process starts, so it is tested in a process of its own.
#[test]
fn the_scalar_path_passes_the_same_comparison() {
    let me = std::env::current_exe().expect("the path of this test");
    let run = std::process::Command::new(me)
        .args(["--exact", "fused_equals_its_twin_forward_and_backward", "scalar_is_in_force"])
        .env("QKV_SIMD", "scalar")
        .env("QKV_EXPECT_SCALAR", "1")
        .output()
        .expect("running this test again");
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success() && said.contains("2 passed"), "{said}{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn scalar_is_in_force() {
    if std::env::var_os("QKV_EXPECT_SCALAR").is_some() {
        assert_eq!(qkv_kernels::simd::Level::current(), qkv_kernels::simd::Level::Scalar);
    }
}

#[test]
fn every_kernel_file_is_registered() {
    // `weight` has no backward: its products are compared with their twins in its own tests, and so are those of `bf16`.
    let not_kernels = [
        "lib", "alloc", "bf16", "registry", "skinny", "fused", "pack", "product", "random", "simd", "threads", "weight",
    ];
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(src).expect("the sources of this crate") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let known = ALL.iter().any(|op| op.name == name);
        assert!(known || not_kernels.contains(&name.as_str()), "{name} has no row in ALL");
    }
}
