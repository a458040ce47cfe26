//! An allocator that keeps large blocks for the next step instead of giving them back to the system.
//!
//! A training step allocates the same activations again and again. A general allocator returns blocks of megabytes to
//! the system, which hands them out again page by page, zeroed: measured at 14 % of a training step. [`Reuse`] keeps
//! freed blocks of 64 KiB to 256 MiB on shelves by size and hands them out as they are; everything else goes to the
//! system. Blocks start on cache lines.
//!
//! Eight shelves for each power of two, so at most an eighth of a block is unused. What is kept is bounded: by the number
//! of places on a shelf, and in total by what has been in use at one time.
//!
//! ```no_run
//! #[global_allocator]
//! static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();
//! # fn main() {}
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SMALLEST: u32 = 16; // 2¹⁶ bytes
const LARGEST: u32 = 28;
const STEPS: usize = 8;
const SHELVES: usize = (LARGEST - SMALLEST) as usize * STEPS;
const PLACES: usize = 128;
const LINE: usize = 64;

/// Freed blocks of one size; addresses, because the allocator itself must not allocate.
struct Shelf {
    blocks: [usize; PLACES],
    count: usize,
}

/// The allocator: see the module's head.
pub struct Reuse {
    shelves: [Mutex<Shelf>; SHELVES],
    in_use: AtomicUsize,
    most_in_use: AtomicUsize,
    kept: AtomicUsize,
}

impl Reuse {
    /// Nothing kept yet.
    #[allow(clippy::new_without_default)] // a static wants a const
    pub const fn new() -> Self {
        Self {
            shelves: [const { Mutex::new(Shelf { blocks: [0; PLACES], count: 0 }) }; SHELVES],
            in_use: AtomicUsize::new(0),
            most_in_use: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
        }
    }

    /// The shelf for a request, and the size of its blocks; `None`: the system's business.
    fn shelf(layout: Layout) -> Option<(usize, Layout)> {
        let size = layout.size();
        if size <= 1 << SMALLEST || size > 1 << LARGEST || layout.align() > LINE {
            return None;
        }
        // 2ᵖ < size ≤ 2ᵖ⁺¹: rounded up to one of the eight steps of that octave.
        let power = (size - 1).ilog2();
        let step = 1usize << (power - 3);
        let rounded = size.next_multiple_of(step);
        let index = (power - SMALLEST) as usize * STEPS + (rounded - (1 << power)) / step - 1;
        Some((index, Layout::from_size_align(rounded, LINE).ok()?))
    }

    fn take(&self, index: usize) -> Option<*mut u8> {
        let mut shelf = self.shelves[index].lock().ok()?;
        shelf.count = shelf.count.checked_sub(1)?;
        Some(shelf.blocks[shelf.count] as *mut u8)
    }

    /// Keeps a block; `false` if there is no place for it.
    fn keep(&self, index: usize, block: *mut u8, size: usize) -> bool {
        if self.kept.load(Relaxed) + size > self.most_in_use.load(Relaxed) {
            return false;
        }
        let Ok(mut shelf) = self.shelves[index].lock() else { return false };
        if shelf.count == PLACES {
            return false;
        }
        let place = shelf.count;
        shelf.blocks[place] = block as usize;
        shelf.count += 1;
        self.kept.fetch_add(size, Relaxed);
        true
    }

    fn get(&self, layout: Layout, zeroed: bool) -> *mut u8 {
        let Some((index, block)) = Self::shelf(layout) else {
            // SAFETY: the caller of `alloc` promises a layout of non-zero size.
            return unsafe { if zeroed { System.alloc_zeroed(layout) } else { System.alloc(layout) } };
        };
        let now = self.in_use.fetch_add(block.size(), Relaxed) + block.size();
        self.most_in_use.fetch_max(now, Relaxed);
        if let Some(found) = self.take(index) {
            self.kept.fetch_sub(block.size(), Relaxed);
            if zeroed {
                // SAFETY: the block has `block.size() ≥ layout.size()` bytes and nobody else holds it.
                unsafe { found.write_bytes(0, layout.size()) };
            }
            return found;
        }
        // SAFETY: a shelf's blocks are at least 2¹⁶ bytes.
        unsafe { if zeroed { System.alloc_zeroed(block) } else { System.alloc(block) } }
    }
}

// SAFETY: every block comes from `System` with the layout that `shelf` derives from the request, and goes back to it with
// the layout derived from the same request; a block is on a shelf or with one caller, never both (the shelf's lock). No
// method allocates or unwinds.
unsafe impl GlobalAlloc for Reuse {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.get(layout, false)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.get(layout, true)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((index, whole)) = Self::shelf(layout) else {
            // SAFETY: blocks outside the shelves came from `System` with this layout.
            return unsafe { System.dealloc(block, layout) };
        };
        self.in_use.fetch_sub(whole.size(), Relaxed);
        if !self.keep(index, block, whole.size()) {
            // SAFETY: blocks of the shelves came from `System` with the shelf's layout.
            unsafe { System.dealloc(block, whole) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        match (Self::shelf(layout), Self::shelf(wanted)) {
            // SAFETY: both the system's business.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (Some((a, _)), Some((b, _))) if a == b => block, // it has the room already
            _ => {
                let new = self.get(wanted, false);
                if !new.is_null() {
                    // SAFETY: the two blocks are different and each has at least the bytes that are copied; the old one
                    // is given back with the layout it was asked for with.
                    unsafe {
                        new.copy_from_nonoverlapping(block, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 4).expect("a layout")
    }

    #[test]
    fn every_size_fits_its_shelf_and_wastes_little() {
        let mut sizes = [0; SHELVES];
        for size in ((1 << SMALLEST) + 1..1 << 21).step_by(61).chain([1 << 20, (1 << 20) + 1, 1 << LARGEST]) {
            let (index, block) = Reuse::shelf(layout(size)).expect("a shelf");
            assert!(block.size() >= size && block.size() - size <= size / 8 + 1, "{size} → {}", block.size());
            assert!([0, block.size()].contains(&sizes[index]), "one shelf, one size ({size})");
            sizes[index] = block.size();
        }
        assert!(Reuse::shelf(layout(1 << SMALLEST)).is_none());
        assert!(Reuse::shelf(layout((1 << LARGEST) + 1)).is_none());
    }

    #[test]
    fn a_freed_block_is_handed_out_again_and_zeroed_on_demand() {
        let pool = Reuse::new();
        let l = layout(100_000);
        // SAFETY: the layout is not empty; blocks are written within their size and given back with their layout.
        unsafe {
            let a = pool.alloc(l);
            a.write_bytes(7, 100_000);
            pool.dealloc(a, l);
            let b = pool.alloc_zeroed(l);
            assert_eq!(a, b);
            assert!((0..100_000).all(|i| b.add(i).read() == 0));
            assert_eq!(b as usize % LINE, 0);
            pool.dealloc(b, l);
            let big = layout(110_000);
            let c = pool.realloc(pool.alloc(l), l, 110_000);
            assert!(!c.is_null());
            pool.dealloc(c, big);
        }
        assert_eq!(pool.in_use.load(Relaxed), 0);
    }

    #[test]
    fn what_is_kept_is_bounded_by_what_was_in_use() {
        let pool = Reuse::new();
        // SAFETY: as above.
        unsafe {
            for size in [70_000, 90_000, 200_000, 1 << 20] {
                pool.dealloc(pool.alloc(layout(size)), layout(size));
            }
        }
        assert!(pool.kept.load(Relaxed) <= pool.most_in_use.load(Relaxed));
    }

    #[test]
    fn contents_survive_growth_and_threads() {
        static POOL: Reuse = Reuse::new();
        std::thread::scope(|s| {
            for t in 0..4u8 {
                s.spawn(move || {
                    for n in 0..200usize {
                        let (from, to) = (layout(66_000 + 999 * n), 40_000 + 7001 * (n % 50));
                        // SAFETY: as above; `to` is not 0.
                        unsafe {
                            let a = POOL.alloc(from);
                            a.write_bytes(t, 40_000);
                            let b = POOL.realloc(a, from, to);
                            assert!((0..40_000).all(|i| b.add(i).read() == t));
                            POOL.dealloc(b, layout(to));
                        }
                    }
                });
            }
        });
    }
}
