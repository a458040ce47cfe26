//! Real files of every format against what their own tools say of them, and every way in which they can be bad.

mod doors;
mod gguf;
mod safetensors;
mod torch;

use std::path::{Path, PathBuf};

use qkv_base::Error;
use qkv_weights::Checkpoint;

/// A file that `make_fixtures.py` wrote.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Opens these bytes under that name and reads every tensor.
fn open(name: &str, bytes: &[u8]) -> Result<Checkpoint, Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let checkpoint = Checkpoint::open(path)?;
    for entry in checkpoint.entries() {
        checkpoint.read_f32(&entry.name)?;
    }
    Ok(checkpoint)
}

/// What is wrong with these bytes.
fn refused(name: &str, bytes: &[u8]) -> String {
    let error = open(name, bytes).expect_err("must be refused");
    assert!(error.place.ends_with(name) && !error.hint.is_empty(), "{error:?}");
    error.what
}
