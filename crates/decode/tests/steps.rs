//! Memory of decoding: after the first tokens every step allocates as often as the one before, and nothing larger. The cache
//! is made once; what a step needs does not grow with how much was said.

use burn::tensor::Device;
use qkv_decode::{Chain, Engine, EngineConfig, Request};
use qkv_model::{Transformer, presets};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller's promise is the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is the system's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a step allocates, and its largest block.
fn step(engine: &mut Engine) -> (usize, usize) {
    COUNT.store(0, Relaxed);
    LARGEST.store(0, Relaxed);
    engine.step().unwrap();
    (COUNT.load(Relaxed), LARGEST.load(Relaxed))
}

#[test]
fn a_late_step_allocates_what_an_early_one_does() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        for name in ["tiny-decoder", "tiny-llama"] {
            let model = Transformer::new(&presets::find(name).unwrap().spec(), 1, &Device::flex()).unwrap();
            let mut engine = Engine::new(Arc::new(model), EngineConfig::default());
            let chain: Chain = "greedy".parse().unwrap();
            engine.admit(Request { chain, max_tokens: 61, ..Request::new(vec![5, 6, 7]) }).unwrap();
            let steps: Vec<(usize, usize)> = (0..60).map(|_| step(&mut engine)).collect();
            // Rotary angles are made for twice as many positions when they run out: at 8, 16 and 32; what was said grows
            // by doubling too. Never between.
            assert_eq!(steps[12], steps[22], "{name}");
            assert_eq!(steps[22], steps[55], "{name}");
        }
    });
}
