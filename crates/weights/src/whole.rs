//! A small file, written whole or not at all.

use crate::atomic::Pending;
use qkv_base::Result;
use std::path::Path;

/// Writes `bytes` to `path`: into a temporary file first, flushed to the disk, then renamed. Whoever reads `path` sees
/// the old file or the new one, never half of it.
///
/// ```
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("config.json");
/// qkv_weights::write_atomically(&path, b"{}")?;
/// assert_eq!(std::fs::read(path).unwrap(), b"{}");
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Pending::create(path)?;
    file.write(bytes)?;
    file.commit()
}
