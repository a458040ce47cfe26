//! The threads that training runs on.

use qkv_base::{Error, Result};

/// Runs `f` on this many threads; 0: as many as `RAYON_NUM_THREADS` says, or as there are cores.
///
/// Each thread keeps to a core of its own while there are enough: a thread that is woken is otherwise put beside the one
/// that woke it, and the two share a core until the system notices.
///
/// ```
/// assert_eq!(qkv_train::on_threads(3, rayon::current_num_threads).unwrap(), 3);
/// ```
pub fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let threads = if threads == 0 { asked.unwrap_or(cores.len()) } else { threads };
    let own = threads <= cores.len();
    let settle = move |i: usize| {
        if let Some(core) = cores.get(i).filter(|_| own) {
            core_affinity::set_for_current(*core);
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(settle).build();
    let pool = pool.map_err(|e| Error::new("threads", e.to_string(), "use fewer threads"))?;
    Ok(pool.install(f))
}
