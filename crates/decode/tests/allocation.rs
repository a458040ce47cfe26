//! Untraced choosing allocates nothing: after the first row every buffer is there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use qkv_base::Key;
use qkv_decode::{Chain, History, Row};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches a plain cell of this thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn choosing_allocates_nothing() {
    let steps = "logit_bias 5:-1.5|5+7:2, dry 0.8 breakers=13|5+7, repetition_penalty 1.1, presence_penalty 0.5, frequency_penalty 0.2, \
        no_repeat_ngram 3, encoder_no_repeat_ngram 3, bad_words 5+7|9, min_length 20, length_decay 15 factor=1.05, suppress 3|4, \
        top_k 2000, top_n_sigma 3, dynamic_temperature 0.5 max=1.5, quadratic 0.1, eta_cutoff 0.0001, epsilon_cutoff 0.0001, \
        top_a 0.001, tail_free 0.99, typical 0.95, top_p 0.95, min_p 0.01, xtc 0.1 probability=0.5, temperature 0.7";
    for pick in ["greedy", "random", "mirostat", "mirostat2"] {
        let chain: Chain = format!("{steps}, {pick}").parse().unwrap();
        let (mut row, mut state) = (Row::new(), chain.pick.start());
        let text: Vec<u32> = (0..500).map(|i| Key::new(1, 0, 0).below(i, 900) as u32).collect();
        for step in 0..20 {
            let logits = Key::new(2, step, 0).normals(5000);
            let said = History { prompt: &text, ends: &[0, 1], key: Key::new(3, step, 0), ..History::default() };
            let before = COUNT.with(Cell::get);
            row.fill(&logits).unwrap();
            (_, state) = chain.choose(&mut row, &said, state).unwrap();
            let allocated = COUNT.with(Cell::get) - before;
            assert!(step == 0 || allocated == 0, "{pick}, row {step}: {allocated} allocations");
        }
    }
}
