//! Threads: how work is cut so that the cut never shows in the result.
//!
//! Two rules give the same bits at 1, 2, 3 or 8 threads. Work whose rows do not depend on each other may be cut
//! anywhere. A sum *across* rows is cut into chunks whose size depends on the shape alone, and the chunks are added in
//! order; which thread took which chunk is then invisible.
//!
//! The pool is rayon's current one: `rayon::ThreadPool::install` (or `RAYON_NUM_THREADS`) sets the number of threads.

use rayon::prelude::*;
use std::ops::Range;

/// Below this many elements a loop stays on its thread: waking another one costs more than it saves.
pub const SERIAL: usize = 16 * 1024;

/// Runs `f` on a thread of the pool, whoever calls. A pass through a network is hundreds of small regions; from outside of the
/// pool each of them would be handed over to it and waited for, from inside it is begun where it stands.
pub fn on_pool<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    match rayon::current_thread_index() {
        Some(_) => f(),
        None => rayon::scope(|_| f()),
    }
}

/// Rows per chunk for rows of `width` elements: about 32 Ki elements, a function of the shape alone.
pub fn chunk_rows(width: usize) -> usize {
    (32 * 1024 / width.max(1)).clamp(1, 4096)
}

/// `f(first_row, rows)` over chunks of rows of `out`, in parallel when there is enough to do. Rows must be independent.
pub fn for_rows(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if width == 0 || out.is_empty() {
        return;
    }
    let rows = chunk_rows(width);
    if out.len() <= SERIAL {
        out.chunks_mut(rows * width).enumerate().for_each(|(i, chunk)| f(i * rows, chunk));
    } else {
        out.par_chunks_mut(rows * width).enumerate().for_each(|(i, chunk)| f(i * rows, chunk));
    }
}

/// Like [`for_rows`], with `sums` further accumulators of `width` elements that every row may add to; returns their
/// totals, chunk by chunk in order: the gradients of gains and biases.
pub fn for_rows_and_sums(
    out: &mut [f32],
    width: usize,
    sums: usize,
    f: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    if width == 0 || out.is_empty() {
        return vec![0.0; sums * width];
    }
    let rows = chunk_rows(width);
    let chunks = out.len().div_ceil(rows * width);
    let mut partial = vec![0.0; chunks * sums * width];
    let step = |(i, (chunk, sum)): (usize, (&mut [f32], &mut [f32]))| f(i * rows, chunk, sum);
    if out.len() <= SERIAL {
        out.chunks_mut(rows * width).zip(partial.chunks_mut(sums * width)).enumerate().for_each(step);
    } else {
        out.par_chunks_mut(rows * width).zip(partial.par_chunks_mut(sums * width)).enumerate().for_each(step);
    }
    fold(partial, sums * width)
}

/// `Σ_rows x[row, :]`, in a fixed order at any thread count.
pub fn column_sums(x: &[f32], width: usize) -> Vec<f32> {
    if width == 0 || x.is_empty() {
        return vec![0.0; width];
    }
    let rows = chunk_rows(width);
    let add = |chunk: &[f32]| {
        let mut sum = vec![0.0; width];
        chunk.chunks_exact(width).for_each(|row| crate::simd::axpy(1.0, row, &mut sum));
        sum
    };
    let partial: Vec<Vec<f32>> = if x.len() <= SERIAL {
        x.chunks(rows * width).map(add).collect()
    } else {
        x.par_chunks(rows * width).map(add).collect()
    };
    fold(partial.concat(), width)
}

/// Adds the chunks of `partial`, first to last.
fn fold(mut partial: Vec<f32>, width: usize) -> Vec<f32> {
    let (total, rest) = partial.split_at_mut(width);
    rest.chunks_exact(width).for_each(|chunk| crate::simd::axpy(1.0, chunk, total));
    partial.truncate(width);
    partial
}

/// A matrix that several threads write, each its own part.
#[derive(Clone, Copy)]
pub(crate) struct Parts(*mut f32, usize);

// SAFETY: `part` says what its callers owe.
unsafe impl Send for Parts {}
// SAFETY: as above.
unsafe impl Sync for Parts {}

impl Parts {
    /// The whole, before it is handed out.
    pub(crate) fn of(all: &mut [f32]) -> Self {
        Self(all.as_mut_ptr(), all.len())
    }

    /// Some of its elements, to write.
    ///
    /// # Safety
    /// While it lives nobody else reads or writes these elements, and the matrix outlives it.
    pub(crate) unsafe fn part<'a>(self, range: Range<usize>) -> &'a mut [f32] {
        assert!(range.start <= range.end && range.end <= self.1, "a part out of bounds");
        // SAFETY: within the matrix, by the assertion; the rest is the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }

    /// All of it, to read.
    ///
    /// # Safety
    /// Nobody writes the matrix while this lives, and the matrix outlives it.
    pub(crate) unsafe fn whole<'a>(self) -> &'a [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_the_same_bits_at_any_thread_count() {
        let x: Vec<f32> = (0..700 * 129).map(|i| ((i * 7919) % 1013) as f32 * 1e-3 - 0.4).collect();
        let at = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(|| column_sums(&x, 129));
        let one = at(1);
        for n in [2, 3, 8] {
            assert_eq!(one, at(n), "{n} threads");
        }
    }

    #[test]
    fn nothing_in_nothing_out() {
        assert_eq!(column_sums(&[], 3), [0.0; 3]);
        assert_eq!(for_rows_and_sums(&mut [], 2, 2, |_, _, _| ()), [0.0; 4]);
    }
}
