//! The threads that training runs on.

use crate::dist::Team;
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
    on_cores(threads, 0, f)
}

/// The same of one of several ranks on this machine: its threads keep to the cores from `first` on.
fn on_cores<T: Send>(threads: usize, first: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let threads = if threads == 0 { asked().unwrap_or(cores.len()) } else { threads };
    if threads > MOST {
        let what = format!("{threads} threads are more than any machine has");
        return Err(
            Error::new("threads", what, format!("use at most {MOST}; 0: one for each core")).of_kind(Kind::Usage)
        );
    }
    let own = first + threads <= cores.len();
    let settle = move |i: usize| {
        if let Some(core) = cores.get(first + i).filter(|_| own) {
            core_affinity::set_for_current(*core);
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(settle).build();
    let pool = pool.map_err(|e| Error::new("threads", e.to_string(), "use fewer threads"))?;
    Ok(pool.install(f))
}

/// What `RAYON_NUM_THREADS` says.
fn asked() -> Option<usize> {
    std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0)
}

/// Runs `f` on the threads of one rank. Those that may use the same cores of one machine share them out; a launcher that
/// has bound each rank to cores of its own has done so already.
pub fn on_threads_of<T: Send>(team: &Team, threads: usize, f: impl FnOnce() -> T + Send) -> Result<T> {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let (ranks, index) = team.beside(&format!("{cores:?}"))?;
    match if threads == 0 { asked() } else { Some(threads) } {
        Some(threads) => on_cores(threads, index * threads, f),
        None => {
            let threads = (cores.len() / ranks.max(1)).max(1);
            on_cores(threads, index * threads, f)
        }
    }
}
