//! How much memory the process holds and may still have, where the system tells it (Linux does).

use crate::{Error, Result, format};

/// Bytes that the process holds, where the system says so.
pub fn resident() -> Option<u64> {
    in_kib("/proc/self/status", "VmRSS:")
}

/// The most that it has ever held.
pub fn peak() -> Option<u64> {
    in_kib("/proc/self/status", "VmHWM:")
}

/// Bytes that can still be had: what the machine has free, within what this process is allowed.
pub fn available() -> Option<u64> {
    let free = in_kib("/proc/meminfo", "MemAvailable:");
    let allowed = std::fs::read_to_string("/proc/self/limits").ok().and_then(|limits| {
        let line = limits.lines().find_map(|l| l.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let left = allowed.map(|most| most.saturating_sub(in_kib("/proc/self/status", "VmSize:").unwrap_or(0)));
    // The group of processes that a container is.
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse::<u64>().ok());
    let used = std::fs::read_to_string("/sys/fs/cgroup/memory.current").ok().and_then(|t| t.trim().parse::<u64>().ok());
    let within = group.map(|most| most.saturating_sub(used.unwrap_or(0)));
    [free, left, within].into_iter().flatten().min()
}

fn in_kib(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Refuses what needs `bytes` more than there are, before they are asked for: the system gives addresses freely, and ends
/// the process later, where nothing can be said any more.
///
/// ```
/// assert!(qkv_base::memory::ensure(1, "model", "the weights need", "").is_ok());
/// ```
pub fn ensure(bytes: u64, place: &str, what: &str, hint: &str) -> Result<()> {
    let human = |n: u64| format::scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
    match available() {
        Some(most) if bytes > most => {
            let what = format!("{what} {}, but only {} can be had", human(bytes), human(most));
            Err(Error::new(place, what, hint))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_machine_has_is_refused() {
        if available().is_some() {
            let error = ensure(u64::MAX, "model", "the weights need", "use a smaller one").unwrap_err();
            assert!(error.what.starts_with("the weights need ") && error.what.contains("can be had"), "{error}");
        }
    }
}
