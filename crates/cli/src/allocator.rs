//! The program's allocator: what a training step frees is kept for the next one, and a request takes the smallest kept
//! block that it fits into.
//!
//! Batches of text have many shapes. Shelves by size ([`qkv_kernels::alloc::Reuse`]) then gather blocks of all sizes beside
//! each other, until a run holds nearly twice what it uses. Here a block serves any request down to a quarter of its size,
//! and what is held in all is bounded by what has been asked for at one time, and a quarter: beyond that, the block that has
//! been idle longest goes back to the system. So a run's memory rises to its largest batch and stays there. (An eighth was
//! tried: blocks then come and go at every step, a tenth of its time.)
//!
//! Requests up to 64 KiB are the system's business.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SMALLEST: usize = 1 << 16;
const PAGE: usize = 1 << 12;
/// Before every block stands its size; on a cache line of its own, so that blocks start on one.
const HEADER: usize = 64;
const PLACES: usize = 2048;
/// A block serves requests down to this share of it.
const SPARE: usize = 4;

/// A block that is kept: where it starts (with its header), how long it is, and when it was freed.
#[derive(Clone, Copy)]
struct Block {
    size: usize,
    start: usize,
    freed: usize,
}

/// Blocks that are kept, smallest first; an array, because the allocator itself must not allocate.
struct Kept {
    blocks: [Block; PLACES],
    count: usize,
    clock: usize,
}

impl Kept {
    /// Takes the smallest block of at least `size`, unless it is far larger.
    fn take(&mut self, size: usize) -> Option<Block> {
        let at = self.blocks[..self.count].partition_point(|b| b.size < size);
        let found = self.blocks[..self.count].get(at).copied().filter(|b| b.size / SPARE <= size)?;
        self.remove(at);
        Some(found)
    }

    fn remove(&mut self, at: usize) {
        self.blocks.copy_within(at + 1..self.count, at);
        self.count -= 1;
    }

    /// Keeps a block; `false` if there is no place for it.
    fn put(&mut self, start: usize, size: usize) -> bool {
        if self.count == PLACES {
            return false;
        }
        // Before its equals: what was freed last is warmest, and is taken first.
        let at = self.blocks[..self.count].partition_point(|b| b.size < size);
        self.blocks.copy_within(at..self.count, at + 1);
        self.clock += 1;
        self.blocks[at] = Block { size, start, freed: self.clock };
        self.count += 1;
        true
    }

    /// Takes the block that has been idle longest.
    fn oldest(&mut self) -> Option<Block> {
        let (at, block) = self.blocks[..self.count].iter().copied().enumerate().min_by_key(|(_, b)| b.freed)?;
        self.remove(at);
        Some(block)
    }
}

/// The allocator: see the module's head.
pub(crate) struct Fitting {
    kept: Mutex<Kept>,
    /// bytes asked for and not given back, and the most of them
    asked: AtomicUsize,
    most_asked: AtomicUsize,
    /// bytes of all blocks, kept or not
    held: AtomicUsize,
}

impl Fitting {
    pub(crate) const fn new() -> Self {
        let none = Block { size: 0, start: 0, freed: 0 };
        let kept = Mutex::new(Kept { blocks: [none; PLACES], count: 0, clock: 0 });
        Self { kept, asked: AtomicUsize::new(0), most_asked: AtomicUsize::new(0), held: AtomicUsize::new(0) }
    }

    /// The length of the block that a request needs; `None`: the system's business.
    fn needed(layout: Layout) -> Option<usize> {
        let large = layout.size() > SMALLEST && layout.align() <= HEADER;
        large.then(|| layout.size().checked_add(HEADER)?.checked_next_multiple_of(PAGE)).flatten()
    }

    fn get(&self, needed: usize, zeroed: Option<usize>) -> *mut u8 {
        let asked = self.asked.fetch_add(needed, Relaxed) + needed;
        self.most_asked.fetch_max(asked, Relaxed);
        if let Some(block) = self.kept.lock().ok().and_then(|mut kept| kept.take(needed)) {
            let start = block.start as *mut u8;
            // SAFETY: the block is at least `needed` bytes long, more than the header and what is made zero.
            unsafe {
                let data = start.add(HEADER);
                if let Some(bytes) = zeroed {
                    data.write_bytes(0, bytes);
                }
                return data;
            }
        }
        let (access, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory at an address that the system chooses; its bytes are zero.
        let Ok(start) = (unsafe { mmap_anonymous(std::ptr::null_mut(), needed, access, how) }) else {
            self.asked.fetch_sub(needed, Relaxed);
            return std::ptr::null_mut();
        };
        self.held.fetch_add(needed, Relaxed);
        // SAFETY: the block is longer than its header, and starts on a page.
        unsafe {
            start.cast::<usize>().write(needed);
            start.cast::<u8>().add(HEADER)
        }
    }

    /// Takes back a block of [`Fitting::get`] for a request that needed `needed` bytes.
    ///
    /// # Safety
    /// `data` came from `get` and is not used any more.
    unsafe fn take_back(&self, data: *mut u8, needed: usize) {
        self.asked.fetch_sub(needed, Relaxed);
        // SAFETY: the header stands before the data.
        let (start, size) = unsafe {
            let start = data.sub(HEADER);
            (start as usize, start.cast::<usize>().read())
        };
        let put = self.kept.lock().is_ok_and(|mut kept| kept.put(start, size));
        if !put {
            self.give_back(start, size);
        }
        let bound = self.most_asked.load(Relaxed);
        while self.held.load(Relaxed) > bound + bound / 4 {
            let Some(block) = self.kept.lock().ok().and_then(|mut kept| kept.oldest()) else { break };
            self.give_back(block.start, block.size);
        }
    }

    fn give_back(&self, start: usize, size: usize) {
        self.held.fetch_sub(size, Relaxed);
        // SAFETY: a block of `get`, whole, that nobody holds. If the system refuses, it stays where it is, unused.
        let _ = unsafe { munmap(start as *mut _, size) };
    }
}

// SAFETY: small requests go to `System` and back with their layout. Large ones get a mapping of their own, or one that
// was kept, at least as long as needed, on a cache line, its true size in the header; a block is kept or with one caller,
// never both (the lock). No method allocates or unwinds.
unsafe impl GlobalAlloc for Fitting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Self::needed(layout) {
            Some(needed) => self.get(needed, None),
            // SAFETY: the caller promises a layout of non-zero size.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Self::needed(layout) {
            Some(needed) => self.get(needed, Some(layout.size())),
            // SAFETY: as above.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match Self::needed(layout) {
            // SAFETY: large blocks came from `get`.
            Some(needed) => unsafe { self.take_back(block, needed) },
            // SAFETY: small ones from `System`, with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
        match (Self::needed(layout), Self::needed(wanted)) {
            // SAFETY: both the system's business.
            (None, None) => return unsafe { System.realloc(block, layout, size) },
            // SAFETY: the header stands before a large block.
            (Some(old), Some(new)) if new <= unsafe { block.sub(HEADER).cast::<usize>().read() } => {
                // It has the room already.
                self.asked.fetch_sub(old, Relaxed);
                let asked = self.asked.fetch_add(new, Relaxed) + new;
                self.most_asked.fetch_max(asked, Relaxed);
                return block;
            }
            _ => {}
        }
        // SAFETY: the new block is another one; each has at least the bytes that are copied; the old one is given back
        // with the layout it was asked for with.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
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

    #[test]
    fn a_block_serves_smaller_requests_and_keeps_its_content() {
        let all = Fitting::new();
        // SAFETY: layouts are not empty; blocks are written within their size and given back with their layout.
        unsafe {
            let a = all.alloc(layout(300_000));
            a.write_bytes(7, 300_000);
            all.dealloc(a, layout(300_000));
            let b = all.alloc_zeroed(layout(100_000));
            assert_eq!(a, b);
            assert!((0..100_000).all(|i| b.add(i).read() == 0));
            b.write_bytes(3, 100_000);
            assert_eq!(all.realloc(b, layout(100_000), 290_000), b);
            let c = all.realloc(b, layout(290_000), 900_000);
            assert!(b != c && (0..100_000).all(|i| c.add(i).read() == 3));
            let d = all.realloc(c, layout(900_000), 1000);
            assert!((0..1000).all(|i| d.add(i).read() == 3));
            all.dealloc(d, layout(1000));
            assert_eq!(b as usize % 64, 0);
        }
        assert_eq!(all.asked.load(Relaxed), 0);
    }

    #[test]
    fn what_is_held_is_bounded_by_what_was_asked_for() {
        let all = Fitting::new();
        for step in 0..300usize {
            // A step of ten blocks, each step of another size.
            let size = 100_000 + 7919 * (step * 37 % 101);
            // SAFETY: as above.
            unsafe {
                let blocks = [(); 10].map(|()| all.alloc(layout(size)));
                blocks.iter().for_each(|b| b.write_bytes(1, size));
                blocks.iter().for_each(|b| all.dealloc(*b, layout(size)));
            }
            let (held, most) = (all.held.load(Relaxed), all.most_asked.load(Relaxed));
            assert!(held <= most + most / 4, "{held} for {most}");
        }
        assert!(all.kept.lock().expect("no panic").count >= 10);
    }

    #[test]
    fn contents_survive_growth_and_threads() {
        static ALL: Fitting = Fitting::new();
        std::thread::scope(|s| {
            for t in 0..4u8 {
                s.spawn(move || {
                    for n in 0..200usize {
                        let (from, to) = (layout(66_000 + 999 * n), 40_000 + 7001 * (n % 50));
                        // SAFETY: as above; `to` is not 0.
                        unsafe {
                            let a = ALL.alloc(from);
                            a.write_bytes(t, 40_000);
                            let b = ALL.realloc(a, from, to);
                            assert!((0..40_000).all(|i| b.add(i).read() == t));
                            ALL.dealloc(b, layout(to));
                        }
                    }
                });
            }
        });
        assert_eq!(ALL.asked.load(Relaxed), 0);
    }
}
