//! A thread that may take so much memory and time, and no more: for programs that come from a stranger (chat templates).
//!
//! [`run`] runs a closure on a thread of its own with a large stack. The thread's allocations are counted by an allocator
//! that calls [`charge`] and [`refund`] (`qkv_kernels::alloc::Reuse` does, and the binary uses it). A thread that asks for
//! more than its budget, or that its caller has given up, is stopped inside the allocator: it sleeps for ever, holding
//! what it had, and its caller gets an error. To fail the allocation instead would end the whole process, since Rust has
//! no other answer to memory that cannot be had; to unwind out of an allocator is not allowed.
//!
//! Where another allocator is used (a program of somebody else's), time and stack are bounded, memory is not.

use crate::{Error, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Threads that can be watched at one time. One that was stopped keeps its place: who sends so many bad templates gets no
/// more.
const PLACES: usize = 64;
const NONE: usize = usize::MAX;

struct Place {
    taken: AtomicBool,
    /// bytes that may still be had
    left: AtomicI64,
    /// the caller waits no more
    given_up: AtomicBool,
    /// it sleeps for ever
    stopped: AtomicBool,
}

static ALL: [Place; PLACES] = [const {
    Place {
        taken: AtomicBool::new(false),
        left: AtomicI64::new(0),
        given_up: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
    }
}; PLACES];

thread_local! {
    /// the place of this thread in [`ALL`]
    static MINE: Cell<usize> = const { Cell::new(NONE) };
}

/// Counts memory that this thread is about to take; called by the allocator. A thread past its budget does not return.
pub fn charge(bytes: usize) {
    let Some(place) = ALL.get(MINE.get()) else { return };
    if place.left.fetch_sub(bytes as i64, SeqCst) < bytes as i64 || place.given_up.load(SeqCst) {
        place.stopped.store(true, SeqCst);
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Counts memory that this thread has given back; called by the allocator.
pub fn refund(bytes: usize) {
    if let Some(place) = ALL.get(MINE.get()) {
        place.left.fetch_add(bytes as i64, SeqCst);
    }
}

/// A place in [`ALL`], free again when its thread ends, by a panic too.
struct Taken(usize);

impl Drop for Taken {
    fn drop(&mut self) {
        MINE.set(NONE);
        ALL[self.0].taken.store(false, SeqCst);
    }
}

/// What a thread may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// bytes at one time
    pub memory: usize,
    /// bytes of stack
    pub stack: usize,
    /// how long its caller waits
    pub time: Duration,
}

/// Runs `work` on its own thread under a budget; `place` is named where it takes too much.
///
/// ```
/// use qkv_base::budget::{Budget, run};
/// let budget = Budget { memory: 1 << 20, stack: 1 << 20, time: std::time::Duration::from_secs(5) };
/// assert_eq!(run("sum", budget, || 2 + 2).unwrap(), 4);
/// ```
pub fn run<T: Send + 'static>(place: &str, budget: Budget, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let refuse = |what: &str| Err(Error::new(place, what, "it is damaged or hostile: use another one"));
    let take = |p: &Place| p.taken.compare_exchange(false, true, SeqCst, SeqCst).is_ok();
    let Some(mine) = ALL.iter().position(take) else {
        return refuse("too many have run out of memory or time; nothing more is run in this process");
    };
    let watched = &ALL[mine];
    watched.given_up.store(false, SeqCst); // who waited here before may have given up just as its thread ended
    watched.left.store(budget.memory as i64, SeqCst);
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().name("bounded".into()).stack_size(budget.stack).spawn(move || {
        let _place = Taken(mine);
        MINE.set(mine);
        let done = work();
        MINE.set(NONE);
        let _ = send.send(done); // the caller may have given up
    });
    if let Err(e) = thread {
        watched.taken.store(false, SeqCst);
        return refuse(&format!("no thread can be started: {e}"));
    }
    let since = Instant::now();
    loop {
        match receive.recv_timeout(Duration::from_millis(20)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => return refuse("it broke off"),
            Err(RecvTimeoutError::Timeout) if watched.stopped.load(SeqCst) => {
                return refuse("it takes too much memory");
            }
            Err(RecvTimeoutError::Timeout) if since.elapsed() > budget.time => {
                watched.given_up.store(true, SeqCst);
                return refuse("it runs too long");
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { memory: 1 << 20, stack: 1 << 20, time: Duration::from_millis(200) };

    #[test]
    fn a_thread_that_takes_too_much_is_stopped_and_its_caller_told() {
        // No allocator counts here: the thread does it by hand.
        let greedy = run("template", BUDGET, || (0..100).for_each(|_| charge(1 << 16))).unwrap_err();
        assert_eq!(greedy.to_string(), "template: it takes too much memory");
        let thrifty = run("template", BUDGET, || {
            (0..100).for_each(|_| {
                charge(1 << 16);
                refund(1 << 16);
            });
        });
        assert!(thrifty.is_ok());
        let slow = run("template", BUDGET, || std::thread::sleep(Duration::from_millis(600))).unwrap_err();
        assert_eq!(slow.what, "it runs too long");
        charge(usize::MAX >> 1); // a thread without a budget is not counted
    }

    #[test]
    fn a_thread_that_panics_is_told() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        // More often than there are places: each gives its own back.
        let broken: Vec<_> = (0..2 * PLACES).map(|_| run("template", BUDGET, || panic!("no"))).collect();
        std::panic::set_hook(hook);
        for one in broken {
            assert_eq!(one.map(|(): ()| ()).unwrap_err().what, "it broke off");
        }
    }
}
