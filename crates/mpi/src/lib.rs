//! Ranks over MPI.
//!
//! MPI wants to be called by the thread that started it (`MPI_THREAD_FUNNELED`), and its handles stay on that thread. So
//! [`with_world`] keeps the thread it is called on for MPI alone: the work runs on another one, hands over what is to be
//! exchanged, and waits for the answer.
//!
//! Built without the feature `mpi`, the crate needs nothing and says what to do.

use qkv_base::Error;
use qkv_train::dist::Collective;

#[cfg(feature = "mpi")]
mod world;

/// Runs `f` as one rank of an MPI job. A rank that fails says so by `failed`, which gives its exit code, and ends the whole
/// job: the others would wait for it for ever.
#[cfg(feature = "mpi")]
pub fn with_world<T: Send, E: From<Error> + Send>(
    f: impl FnOnce(&dyn Collective) -> std::result::Result<T, E> + Send,
    failed: impl FnOnce(usize, &E) -> i32,
) -> std::result::Result<T, E> {
    world::with_world(f, failed)
}

/// Without the feature `mpi` there is no world.
#[cfg(not(feature = "mpi"))]
pub fn with_world<T: Send, E: From<Error> + Send>(
    f: impl FnOnce(&dyn Collective) -> std::result::Result<T, E> + Send,
    failed: impl FnOnce(usize, &E) -> i32,
) -> std::result::Result<T, E> {
    let (_, _) = (f, failed);
    Err(not_built().into())
}

/// What is said where MPI was not built in.
#[cfg(not(feature = "mpi"))]
fn not_built() -> Error {
    let what = "this qkv was built without MPI";
    let hint =
        "install an MPI and libclang, then: cargo build --release --features mpi (docs/ranks.md has the packages)";
    Error::new("--dist mpi", what, hint).of_kind(qkv_base::Kind::Usage)
}

/// Whether MPI is built in.
pub const BUILT: bool = cfg!(feature = "mpi");
