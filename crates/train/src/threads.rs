//! The threads that training runs on.

use qkv_base::{Error, Kind, Result};

/// The most threads: each takes a stack, and more than there are cores only wait for each other.
const MOST: usize = 1024;

/// Runs `f` on this many threads; 0: as many as `RAYON_NUM_THREADS` says, or as there are cores.
///
/// Each thread keeps to a core of its own while there are enough: a thread that is woken is otherwise put beside the one
/// that woke it, and the two share a core until the system notices.
///
/// ```
/// assert_eq!(qkv_train::on_threads(3, rayon::current_num_threads).unwrap(), 3);
/// assert!(qkv_train::on_threads(1_000_000, || ()).is_err());
/// ```
pub fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let threads = if threads == 0 { asked.unwrap_or(cores.len()) } else { threads };
    if threads > MOST {
        let what = format!("{threads} threads are more than any machine has");
        return Err(
            Error::new("threads", what, format!("use at most {MOST}; 0: one for each core")).of_kind(Kind::Usage)
        );
    }
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
