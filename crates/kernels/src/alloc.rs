//! An allocator that keeps large blocks for the next step instead of giving them back to the system.
//!
//! A training step allocates the same activations again and again. A general allocator returns blocks of megabytes to
//! the system, which hands them out again page by page, zeroed: measured at 14 % of a training step. [`Reuse`] takes
//! memory from the system in slabs of 32 MiB and more, cuts blocks off them, and puts freed blocks together again:
//!
//! ```text
//! slab   │ a ││ b │········│ c ││ d │···············│        │ block, with its header      · free
//! free b │ a │·············│ c ││ d │···············│        neighbours become one
//! ```
//!
//! A request gets the shortest free range that is long enough (the first of equals), so short ones do not eat into long
//! ones. Batches of one shape need nothing new from the second step on; batches of text, which have many shapes, share
//! what the largest of them needed. Before a new slab is taken, those that are free in whole go back to the system if more
//! would be held than was ever asked for at one time and half of it.
//!
//! Slabs ask for huge pages: five to eight per cent of a training step. (Blocks kept by length, each with pages of its own,
//! were tried before: most activations of a small network are shorter than a huge page, and batches of many shapes left
//! twice what was in use.) Requests below 16 KiB are the system's business.
//!
//! Every request is charged to the budget of its thread, where it has one (`qkv_base::budget`): a stranger's template that
//! asks for too much is stopped here.
//!
//! ```no_run
//! #[global_allocator]
//! static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();
//! # fn main() {}
//! ```

use qkv_base::budget;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

const SMALLEST: usize = 1 << 14;
/// Blocks start on a multiple of this (two cache lines, as `gemm` wants its buffers), and their header is as long.
const LINE: usize = 128;
/// A huge page: slabs start on one and are whole ones.
const HUGE: usize = 1 << 21;
const SLAB: usize = 1 << 25;
/// Free ranges and slabs, at most.
const RANGES: usize = 8192;
const SLABS: usize = 1024;

/// Bytes from `start` to `start + size`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Range {
    start: usize,
    size: usize,
}

impl Range {
    const NONE: Self = Self { start: 0, size: 0 };

    fn end(self) -> usize {
        self.start + self.size
    }
}

/// Ranges in the order of their addresses; an array, because the allocator itself must not allocate.
struct Ordered<const N: usize> {
    ranges: [Range; N],
    count: usize,
}

impl<const N: usize> Ordered<N> {
    const EMPTY: Self = Self { ranges: [Range::NONE; N], count: 0 };

    fn all(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// The place of the first range behind `start`.
    fn place(&self, start: usize) -> usize {
        self.all().partition_point(|range| range.start < start)
    }

    fn insert(&mut self, at: usize, range: Range) -> bool {
        if self.count == N {
            return false;
        }
        self.ranges.copy_within(at..self.count, at + 1);
        self.ranges[at] = range;
        self.count += 1;
        true
    }

    fn remove(&mut self, at: usize) -> Range {
        let range = self.ranges[at];
        self.ranges.copy_within(at + 1..self.count, at);
        self.count -= 1;
        range
    }
}

struct State {
    free: Ordered<RANGES>,
    slabs: Ordered<SLABS>,
    /// bytes asked for and not given back, and the most of them
    asked: usize,
    most_asked: usize,
    /// bytes of all slabs
    held: usize,
}

impl State {
    fn ask(&mut self, needed: usize) {
        self.asked += needed;
        self.most_asked = self.most_asked.max(self.asked);
    }

    /// Cuts a block off the shortest free range that is long enough.
    fn take(&mut self, needed: usize) -> Option<Range> {
        let long = self.free.all().iter().enumerate().filter(|(_, range)| range.size >= needed);
        let (at, found) = long.min_by_key(|(_, range)| range.size).map(|(at, range)| (at, *range))?;
        // A rest too short for any request stays with the block.
        if found.size - needed <= SMALLEST {
            return Some(self.free.remove(at));
        }
        self.free.ranges[at] = Range { start: found.start + needed, size: found.size - needed };
        Some(Range { start: found.start, size: needed })
    }

    /// Puts a block back and joins it with free neighbours of the same slab.
    fn put(&mut self, block: Range) {
        let at = self.free.place(block.start);
        let apart = |edge: usize| self.slabs.all().binary_search_by_key(&edge, |slab| slab.start).is_ok();
        let before = at > 0 && self.free.ranges[at - 1].end() == block.start && !apart(block.start);
        let behind = at < self.free.count && self.free.ranges[at].start == block.end() && !apart(block.end());
        match (before, behind) {
            (true, true) => self.free.ranges[at - 1].size += block.size + self.free.remove(at).size,
            (true, false) => self.free.ranges[at - 1].size += block.size,
            (false, true) => {
                self.free.ranges[at] = Range { start: block.start, size: block.size + self.free.ranges[at].size }
            }
            // Thousands of holes, and no place to note one more: it stays unused.
            (false, false) => _ = self.free.insert(at, block),
        }
    }

    /// A new slab for a request, as a free range; `false` if the system has none.
    fn grow(&mut self, needed: usize) -> bool {
        let Some(size) = needed.max(SLAB).checked_next_multiple_of(HUGE) else { return false };
        let bound = self.most_asked + self.most_asked / 2;
        for at in (0..self.slabs.count).rev() {
            if self.held + size <= bound {
                break;
            }
            let slab = self.slabs.ranges[at];
            if let Some(free) = self.free.all().iter().position(|range| *range == slab) {
                self.free.remove(free);
                self.slabs.remove(at);
                self.held -= slab.size;
                // SAFETY: a slab of `pages::map`, whole, of which nobody holds a part.
                unsafe { pages::unmap(slab.start as *mut u8, slab.size) };
            }
        }
        if self.slabs.count == SLABS || self.free.count == RANGES {
            return false;
        }
        let Some(start) = pages::map(size) else { return false };
        let slab = Range { start: start as usize, size };
        self.slabs.insert(self.slabs.place(slab.start), slab);
        self.free.insert(self.free.place(slab.start), slab);
        self.held += size;
        true
    }
}

/// The allocator: see the module's head.
pub struct Reuse(Mutex<State>);

impl Reuse {
    /// Nothing held yet.
    #[allow(clippy::new_without_default)] // a static wants a const
    pub const fn new() -> Self {
        Self(Mutex::new(State { free: Ordered::EMPTY, slabs: Ordered::EMPTY, asked: 0, most_asked: 0, held: 0 }))
    }

    /// The length of the block that a request needs, header included; `None`: the system's business.
    fn needed(layout: Layout) -> Option<usize> {
        let large = layout.size() > SMALLEST && layout.align() <= LINE;
        large.then(|| layout.size().checked_add(LINE)?.checked_next_multiple_of(LINE)).flatten()
    }

    fn get(&self, needed: usize) -> *mut u8 {
        let Ok(mut state) = self.0.lock() else { return std::ptr::null_mut() };
        let Some(block) = state.take(needed).or_else(|| state.grow(needed).then(|| state.take(needed)).flatten())
        else {
            return std::ptr::null_mut();
        };
        state.ask(needed);
        drop(state);
        // SAFETY: the block is nobody else's, and longer than its header.
        unsafe {
            let data = (block.start as *mut u8).add(LINE);
            data.cast::<Range>().sub(1).write(block);
            data
        }
    }

    /// The block that `data` stands in.
    ///
    /// # Safety
    /// `data` came from [`Reuse::get`] and has not been given back.
    unsafe fn block(data: *mut u8) -> Range {
        // SAFETY: the header stands before the data.
        unsafe { data.cast::<Range>().sub(1).read() }
    }
}

/// Memory from the system.
#[cfg(unix)]
mod pages {
    use super::HUGE;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// New memory of `size` bytes that starts on a huge page and asks for them.
    pub(super) fn map(size: usize) -> Option<*mut u8> {
        let (access, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory at an address that the system chooses.
        let whole = unsafe { mmap_anonymous(std::ptr::null_mut(), size.checked_add(HUGE)?, access, how) }.ok()?;
        let before = (whole as usize).next_multiple_of(HUGE) - whole as usize;
        // SAFETY: what stands before and behind the slab are whole pages of the same mapping, which nobody uses. Advice
        // changes nothing but speed.
        unsafe {
            let start = whole.cast::<u8>().add(before);
            if before > 0 {
                unmap(whole.cast(), before);
            }
            unmap(start.add(size), HUGE - before);
            #[cfg(target_os = "linux")]
            let _ = rustix::mm::madvise(start.cast(), size, rustix::mm::Advice::LinuxHugepage);
            Some(start)
        }
    }

    /// Gives pages back. If the system refuses, they stay where they are, unused.
    ///
    /// # Safety
    /// Pages of [`map`] that nobody uses any more.
    pub(super) unsafe fn unmap(start: *mut u8, size: usize) {
        // SAFETY: as above.
        let _ = unsafe { munmap(start.cast(), size) };
    }
}

/// Memory from the system's allocator, where there is no other way.
#[cfg(not(unix))]
mod pages {
    use super::HUGE;
    use std::alloc::{GlobalAlloc, Layout, System};

    pub(super) fn map(size: usize) -> Option<*mut u8> {
        let layout = Layout::from_size_align(size, HUGE).ok()?;
        // SAFETY: a slab is never empty.
        Some(unsafe { System.alloc(layout) }).filter(|start| !start.is_null())
    }

    /// # Safety
    /// A whole slab of [`map`] that nobody uses any more.
    pub(super) unsafe fn unmap(start: *mut u8, size: usize) {
        if let Ok(layout) = Layout::from_size_align(size, HUGE) {
            // SAFETY: the layout it was made with.
            unsafe { System.dealloc(start, layout) };
        }
    }
}

// SAFETY: small requests go to `System` and back with their layout. Large ones get a range of a slab, as long as needed, on
// a multiple of `LINE`, with the range itself in its header; a range is free or with one caller, never both (the lock). No
// method allocates or unwinds.
unsafe impl GlobalAlloc for Reuse {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        budget::charge(layout.size());
        match Self::needed(layout) {
            Some(needed) => self.get(needed),
            // SAFETY: the caller promises a layout of non-zero size.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        budget::charge(layout.size());
        let Some(needed) = Self::needed(layout) else {
            // SAFETY: as above.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let data = self.get(needed);
        if !data.is_null() {
            // SAFETY: the block has the bytes that were asked for.
            unsafe { data.write_bytes(0, layout.size()) };
        }
        data
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        budget::refund(layout.size());
        let Some(needed) = Self::needed(layout) else {
            // SAFETY: small blocks came from `System`, with this layout.
            return unsafe { System.dealloc(data, layout) };
        };
        // SAFETY: large blocks came from `get`.
        let block = unsafe { Self::block(data) };
        if let Ok(mut state) = self.0.lock() {
            state.asked -= needed;
            state.put(block);
        }
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        if let (None, None) = (Self::needed(layout), Self::needed(wanted)) {
            budget::charge(size);
            budget::refund(layout.size());
            // SAFETY: the system's business before and after.
            return unsafe { System.realloc(data, layout, size) };
        }
        // SAFETY: the new block is another one; each has at least the bytes that are copied; the old one is given back
        // with the layout it was asked for with.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                new.copy_from_nonoverlapping(data, layout.size().min(size));
                self.dealloc(data, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 4).expect("a layout")
    }

    /// (asked, most asked, held, free ranges)
    fn counts(all: &Reuse) -> (usize, usize, usize, usize) {
        let state = all.0.lock().expect("no panic");
        (state.asked, state.most_asked, state.held, state.free.count)
    }

    #[test]
    fn contents_survive_growth_and_shrinking() {
        let all = Reuse::new();
        // SAFETY: layouts are not empty; blocks are written within their size and given back with their layout.
        unsafe {
            let a = all.alloc(layout(300_000));
            assert_eq!(a as usize % LINE, 0);
            a.write_bytes(7, 300_000);
            all.dealloc(a, layout(300_000));
            let b = all.alloc_zeroed(layout(280_000));
            assert_eq!(a, b, "what was freed is taken again");
            assert!((0..280_000).all(|i| b.add(i).read() == 0));
            b.write_bytes(3, 280_000);
            let c = all.realloc(b, layout(280_000), 900_000);
            assert!((0..280_000).all(|i| c.add(i).read() == 3));
            let d = all.realloc(c, layout(900_000), 1000);
            assert!((0..1000).all(|i| d.add(i).read() == 3));
            all.dealloc(d, layout(1000));
        }
        assert_eq!(counts(&all), (0, 900_224 + 280_192, SLAB, 1));
    }

    #[test]
    fn neighbours_become_one_and_the_shortest_hole_is_taken() {
        let all = Reuse::new();
        let size = layout(1_000_000);
        // SAFETY: as above.
        unsafe {
            let blocks: Vec<_> = (0..6).map(|_| all.alloc(size)).collect();
            all.dealloc(blocks[1], size);
            all.dealloc(blocks[3], size);
            all.dealloc(blocks[4], size);
            assert_eq!(counts(&all).3, 3, "one, two together, and the rest of the slab");
            assert_eq!(all.alloc(size), blocks[1]);
            let two = all.alloc(layout(2_000_000));
            assert_eq!(two, blocks[3]);
            all.dealloc(two, layout(2_000_000));
            [0, 1, 2, 5].iter().for_each(|n| all.dealloc(blocks[*n], size));
        }
        assert_eq!((counts(&all).0, counts(&all).3), (0, 1));
    }

    #[test]
    fn idle_slabs_go_back_when_others_are_needed() {
        let all = Reuse::new();
        for megabytes in [40, 50, 60, 70, 80, 90, 100] {
            let size = layout(megabytes << 20);
            // SAFETY: as above.
            unsafe { all.dealloc(all.alloc(size), size) };
            let (_, most, held, _) = counts(&all);
            assert!(held <= most + most / 2 + HUGE, "{held} for {most}");
        }
    }

    #[test]
    fn threads_never_share_a_block() {
        static ALL: Reuse = Reuse::new();
        std::thread::scope(|s| {
            for t in 0..4usize {
                s.spawn(move || {
                    let mut mine: Vec<(*mut u8, usize, u8)> = Vec::new();
                    for n in 0..3000usize {
                        let draw = (n * 7919 + t * 104_729) % 1009;
                        if mine.len() > 20 || (draw % 3 == 0 && !mine.is_empty()) {
                            let (data, size, mark) = mine.swap_remove(draw % mine.len());
                            // SAFETY: as above.
                            unsafe {
                                assert!((0..size).step_by(997).all(|i| data.add(i).read() == mark));
                                ALL.dealloc(data, layout(size));
                            }
                        } else {
                            let (size, mark) = (17_000 + 997 * draw, (n % 251) as u8);
                            // SAFETY: as above.
                            unsafe {
                                let data = ALL.alloc(layout(size));
                                data.write_bytes(mark, size);
                                mine.push((data, size, mark));
                            }
                        }
                    }
                    // SAFETY: as above.
                    mine.into_iter().for_each(|(data, size, _)| unsafe { ALL.dealloc(data, layout(size)) });
                });
            }
        });
        let state = ALL.0.lock().expect("no panic");
        assert_eq!(state.asked, 0);
        assert_eq!(state.free.all(), state.slabs.all(), "everything is together again");
    }
}
