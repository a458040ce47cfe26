//! Damaged files of every format: whatever a byte becomes, opening and reading end soon, in values or in an error, and
//! take no more memory than a multiple of the file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use qkv_weights::{Array, Checkpoint, Dtype, Finiteness, Metadata, Tensor, Value, save_gguf, save_safetensors};

/// Counts the bytes that are held now, and the most that ever were.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One at a time, so that what is counted is what one file took.
static TURN: Mutex<()> = Mutex::new(());

/// An expanded view may say in few bytes what takes 4 MB, and the first use of the threads takes some.
const ALLOWANCE: usize = 6 << 20;
const MULTIPLE: usize = 200;
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens a file or directory of `size` bytes and reads all of it.
fn survives(path: &Path, size: usize) {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let begin = Instant::now();
    if let Ok(checkpoint) = Checkpoint::open(path) {
        let mut seen = Finiteness::default();
        for entry in checkpoint.entries() {
            let values = checkpoint.read_f32_counting(&entry.name, &mut seen).unwrap();
            assert_eq!(values.len(), entry.shape.iter().product::<usize>());
            assert_eq!(checkpoint.read_raw(&entry.name).unwrap().len() as u64, entry.bytes);
        }
    }
    let taken = MOST.load(Ordering::Relaxed) - before;
    assert!(taken <= MULTIPLE * size + ALLOWANCE, "{taken} bytes of memory for a file of {size}");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    /// a number that is too large, too small or at an edge
    Number(prop::sample::Index, u64, usize),
    /// some of the file again, elsewhere
    Copy(prop::sample::Index, prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    use Damage::*;
    let at = any::<prop::sample::Index>;
    let edge = prop::sample::select(vec![0, 1, 0x7f, 0xff, 0xffff, 1 << 31, 0xffff_ffff, 1 << 40, 1 << 63, u64::MAX]);
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(i, b)| Set(i, b)),
        (at(), 0..8u8).prop_map(|(i, b)| Flip(i, b)),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(i, b)| Insert(i, b)),
        (at(), 1..9usize).prop_map(|(i, n)| Remove(i, n)),
        at().prop_map(Cut),
        (at(), edge, prop::sample::select(vec![1, 2, 4, 8])).prop_map(|(i, n, w)| Number(i, n, w)),
        (at(), at(), 1..40usize).prop_map(|(i, j, n)| Copy(i, j, n)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Set(i, b) => bytes[i.index(length)] = b,
        Damage::Flip(i, b) => bytes[i.index(length)] ^= 1 << b,
        Damage::Insert(i, more) => drop(bytes.splice(i.index(length)..i.index(length), more)),
        Damage::Remove(i, n) => drop(bytes.drain(i.index(length)..(i.index(length) + n).min(length))),
        Damage::Cut(i) => bytes.truncate(i.index(length)),
        Damage::Number(i, n, width) => {
            let i = i.index(length);
            bytes[i..].iter_mut().zip(&n.to_le_bytes()[..width]).for_each(|(b, n)| *b = *n);
        }
        Damage::Copy(i, j, n) => {
            let piece = bytes[i.index(length)..(i.index(length) + n).min(length)].to_vec();
            bytes[j.index(length)..].iter_mut().zip(piece).for_each(|(b, p)| *b = p);
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Tries `bytes` with one to four damages each, many times.
fn try_damages(name: &str, bytes: &[u8], cases: u32, dir: &Path) {
    let path = dir.join(name);
    let size: usize = bytes.len() + 64;
    let config =
        ProptestConfig { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(20), ..ProptestConfig::default() };
    proptest!(config, |(damages in prop::collection::vec(damage(), 1..5))| {
        let mut bad = bytes.to_vec();
        damages.into_iter().for_each(|damage| apply(&mut bad, damage));
        // A new file, because some file systems flush one that is written over, which takes longer than all the rest.
        if path.exists() {
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::write(&path, &bad).unwrap();
        survives(&path, size);
    });
}

fn safetensors(dir: &Path, most: u64) {
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let tensors = [
        Tensor::values("layers.0.weight", [3, 4], &values),
        Tensor::values("layers.0.bias", [3], &values[..3]),
        Tensor::values("none", [0, 4], &[]),
        Tensor::raw("ids", [2], Dtype::I64, || Ok(vec![1; 16].into())),
    ];
    save_safetensors(dir, &tensors, Dtype::BF16, most).unwrap();
}

fn all(times: u32) {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    safetensors(dir.path(), u64::MAX);
    try_damages("model.safetensors", &read("model.safetensors"), 15 * times, dir.path());
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    safetensors(dir.path(), 20);
    let index = "model.safetensors.index.json";
    try_damages(index, &read(index), 10 * times, dir.path());

    let mut metadata = Metadata::new("");
    let words = Array::String(["a", "b"].map(str::to_owned).to_vec());
    metadata.set("lists", Value::Array(Array::Array(vec![words, Array::Array(vec![Array::U8(vec![1; 30])])])));
    let tensors = [Tensor::values("w", [2, 32], &[0.5; 64])];
    save_gguf(&dir.path().join("lists.gguf"), &metadata, &tensors, Dtype::Q8_0).unwrap();
    try_damages("lists.gguf", &read("lists.gguf"), 10 * times, dir.path());

    for name in ["tiny.gguf", "zip.bin", "legacy.bin", "protocol4.bin", "deflated.bin"] {
        try_damages(name, &std::fs::read(fixture(name)).unwrap(), 10 * times, dir.path());
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    all(40);
}

#[test]
#[ignore = "slow: fifty times as many damages"]
fn many_more_damaged_files_are_read_or_refused() {
    all(2000);
}
