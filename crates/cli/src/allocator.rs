//! The program's allocator: the shelves of [`Reuse`], with few sizes.
//!
//! Batches of text have many shapes, and a block that fits one does not fit the next: on shelves of eight sizes for each
//! power of two, blocks of all sizes gather beside each other until a run holds nearly twice what it uses. So large
//! requests are rounded up first, to a power of two. What is asked for in vain is never touched, and what is never
//! touched takes no memory; a shelf's blocks grow to the largest request they have served, and stay there.

use qkv_kernels::alloc::Reuse;
use std::alloc::{GlobalAlloc, Layout};

/// From here on the shelves begin.
const SMALLEST: usize = 1 << 16;
const LARGEST: usize = 1 << 28;

/// [`Reuse`] with few sizes.
pub(crate) struct Few(Reuse);

impl Few {
    pub(crate) const fn new() -> Self {
        Self(Reuse::new())
    }

    /// What is asked of the shelves for a request.
    fn rounded(layout: Layout) -> Layout {
        if layout.size() <= SMALLEST || layout.size() > LARGEST {
            return layout;
        }
        // Both are above 0, and at most 2²⁸: always a layout.
        Layout::from_size_align(layout.size().next_power_of_two(), layout.align()).unwrap_or(layout)
    }
}

// SAFETY: every request goes to `Reuse` with the layout that `rounded` derives from it, which has its alignment and at
// least its size; the same request is given back with the same layout.
unsafe impl GlobalAlloc for Few {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: not empty, because `layout` is not.
        unsafe { self.0.alloc(Self::rounded(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let rounded = Self::rounded(layout);
        if rounded.size() == layout.size() {
            // SAFETY: as above.
            return unsafe { self.0.alloc_zeroed(layout) };
        }
        // Only what was asked for is made zero: the rest shall stay untouched.
        // SAFETY: as above; the block has at least `layout.size()` bytes.
        unsafe {
            let block = self.0.alloc(rounded);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was asked for with this layout, hence from `Reuse` with the rounded one.
        unsafe { self.0.dealloc(block, Self::rounded(layout)) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        let (old, new) = (Self::rounded(layout), Self::rounded(wanted));
        if old == new && old.size() > SMALLEST {
            return block; // it has the room already
        }
        // SAFETY: as for `dealloc`; the new size is not 0.
        unsafe { self.0.realloc(block, old, new.size()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_serves_all_sizes_of_its_power_and_keeps_its_content() {
        let few = Few::new();
        let layout = |size| Layout::from_size_align(size, 4).expect("a layout");
        // SAFETY: layouts are not empty; blocks are written within their size and given back with their layout.
        unsafe {
            let a = few.alloc(layout(70_000));
            a.write_bytes(7, 70_000);
            let b = few.realloc(a, layout(70_000), 130_000);
            assert_eq!(a, b);
            few.dealloc(b, layout(130_000));
            let c = few.alloc_zeroed(layout(100_000));
            assert_eq!(a, c);
            assert!((0..100_000).all(|i| c.add(i).read() == 0));
            c.write_bytes(3, 100_000);
            let d = few.realloc(c, layout(100_000), 300_000);
            assert!((0..100_000).all(|i| d.add(i).read() == 3));
            let e = few.realloc(d, layout(300_000), 1000);
            assert!((0..1000).all(|i| e.add(i).read() == 3));
            few.dealloc(e, layout(1000));
        }
    }
}
