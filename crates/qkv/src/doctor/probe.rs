//! The measurements: products, memory, disk, and who else was at work.

use super::{Load, Product};
use burn::tensor::{Tensor, TensorData};
use qkv_kernels::simd::sum;
use qkv_kernels::{Float, PackedProjection, Projection, Quants, Weight, linear, packed_linear};
use qkv_nn::device;
use rayon::prelude::*;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long each product is measured.
const EACH: Duration = Duration::from_millis(120);
const SIDE: usize = 1024;

/// The speed of products at the level in force, in each precision.
pub fn products() -> Vec<Product> {
    let at = device::default();
    let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 251) as f32 / 251.0 - 0.5).collect();
    let of = |rows: usize| Tensor::<2>::from_data(TensorData::new(values[..rows * SIDE].to_vec(), [rows, SIDE]), &at);
    let speed = |rows: usize, once: &dyn Fn()| {
        once(); // asks the system for memory
        let (begun, mut best) = (Instant::now(), f64::INFINITY);
        while begun.elapsed() < EACH || best.is_infinite() {
            let start = Instant::now();
            once();
            best = best.min(start.elapsed().as_secs_f64());
        }
        2.0 * (rows * SIDE * SIDE) as f64 / best.max(1e-9) / 1e9
    };
    let (square, few) = (of(SIDE), of(SIDE / 4));
    let weight = [Projection::new(square.clone(), None)];
    let f32 = speed(SIDE, &|| drop(linear(square.clone(), &weight, None)));
    let packed = [
        ("bf16", Some(Weight::plain(&values, SIDE, SIDE, Float::Bf16))),
        ("int8", Quants::int8(&values, SIDE).and_then(|q| Weight::grouped(q).ok())),
        ("int4", Quants::int4(&values, SIDE).and_then(|q| Weight::grouped(q).ok())),
    ];
    let mut all = vec![Product { precision: "f32".into(), gflops: f32 }];
    for (name, weight) in packed {
        let Some(weight) = weight else { continue };
        let parts = [PackedProjection { weight: Arc::new(weight), bias: None }];
        let gflops = speed(SIDE / 4, &|| drop(packed_linear(few.clone(), &parts, None)));
        all.push(Product { precision: name.into(), gflops });
    }
    all
}

pub(super) fn extras() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let has = [
            ("VNNI", std::arch::is_x86_feature_detected!("avx512vnni")),
            ("BF16", std::arch::is_x86_feature_detected!("avx512bf16")),
            ("F16C", std::arch::is_x86_feature_detected!("f16c")),
        ];
        has.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![]
}

/// Bytes that are read a second: the best of some passes over more than any cache holds, or a quarter of what there is.
pub(super) fn bandwidth() -> f64 {
    let most = qkv_base::memory::available().unwrap_or(1 << 30) / 4;
    let data = vec![1f32; (most / 4).clamp(1 << 20, 1 << 27) as usize];
    let pass = || {
        let start = Instant::now();
        let all: f32 = data.par_chunks(1 << 18).map(sum).sum();
        std::hint::black_box(all);
        4.0 * data.len() as f64 / start.elapsed().as_secs_f64().max(1e-9)
    };
    (0..5).map(|_| pass()).fold(0.0, f64::max)
}

/// Bytes that are written and synced a second in the current directory.
pub(super) fn disk() -> Option<f64> {
    const BYTES: usize = 32 << 20;
    let place = format!(".qkv-doctor.tmp-{}", std::process::id());
    let write = || -> std::io::Result<f64> {
        let data: Vec<u8> = (0..BYTES).map(|i| (i * 31 % 255) as u8).collect();
        let start = Instant::now();
        let mut file = std::fs::File::create(&place)?;
        file.write_all(&data)?;
        file.sync_all()?;
        Ok(BYTES as f64 / start.elapsed().as_secs_f64().max(1e-9))
    };
    let speed = write();
    let _ = std::fs::remove_file(&place); // it may never have been there
    speed.ok()
}

pub(super) fn total_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?.trim().trim_end_matches("kB").trim().parse().ok()?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse().ok());
    Some(group.map_or(kib * 1024, |most: u64| most.min(kib * 1024)))
}

/// Ticks of all cores since the system started, and of this process and those that it has waited for.
pub(super) struct Ticks {
    busy: f64,
    stolen: f64,
    all: f64,
    own: f64,
    cores: usize,
}

pub(super) fn ticks() -> Option<Ticks> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    // user nice system idle iowait irq softirq steal
    let cpu: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, wait, irq, soft, stolen] = cpu.try_into().ok()?;
    let busy = user + nice + system + irq + soft;
    let own = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold blanks, utime and the three after it are the 12th to the 15th.
    let own = own.rsplit(')').next()?.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<f64>().ok()).sum();
    let cores = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
    Some(Ticks { busy, stolen, all: busy + idle + wait + stolen, own, cores })
}

pub(super) fn load(before: Option<Ticks>, cores: usize) -> Load {
    let last_minute = std::fs::read_to_string("/proc/loadavg").ok().and_then(|t| t.split(' ').next()?.parse().ok());
    // In a container the system may tell of more cores than this process has: then nothing can be said.
    let (Some(a), Some(b)) = (before, ticks().filter(|t| t.cores == cores)) else {
        return Load { last_minute, ..Load::default() };
    };
    let whole = ((b.all - a.all) / cores.max(1) as f64).max(1.0);
    let others = ((b.busy - a.busy) - (b.own - a.own)).max(0.0) / whole;
    Load { last_minute, others: Some(others), stolen: Some((b.stolen - a.stolen).max(0.0) / whole) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the system tells of itself grows with the work that is done.
    #[test]
    #[cfg(target_os = "linux")]
    fn work_of_this_process_is_its_own() {
        let before = ticks().expect("the system tells");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(start.elapsed());
        }
        let after = ticks().expect("the system tells");
        assert!(after.own > before.own && after.busy > before.busy && after.all > before.all);
        assert!(total_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
