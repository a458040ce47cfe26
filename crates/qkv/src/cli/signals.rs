//! Ctrl-C and its relatives: the first asks to come to an end, the second ends at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// Set by Ctrl-C.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on Ctrl-C asks instead of kills; asked a second time it kills.
pub(crate) fn catch_interrupts() {
    use signal_hook::{consts::SIGINT, flag};
    static ONCE: Once = Once::new();
    // Refused only where there are no signals: then Ctrl-C ends the program, as everywhere.
    ONCE.call_once(|| {
        let _ = flag::register_conditional_shutdown(SIGINT, 130, INTERRUPTED.clone());
        let _ = flag::register(SIGINT, INTERRUPTED.clone());
    });
}

/// Whether Ctrl-C was pressed since the last time that was forgotten.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Forgets a Ctrl-C: the answer was stopped, the program goes on.
pub(crate) fn forget_interrupt() {
    INTERRUPTED.store(false, Ordering::SeqCst);
}

/// For a run: the first Ctrl-C (or kill, or a terminal that is closed, or USR1, which Slurm and mpirun pass on) asks to
/// finish the step and save.
pub(crate) fn asked_to_stop() -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] {
        if signal == SIGHUP && is_ignored(signal) {
            continue; // `nohup` asked for that
        }
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Whether whoever started the program wants it to ignore a signal; yes where the system does not say.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}
