//! One thread for MPI, another for the work.

use mpi::datatype::{Partition, PartitionMut};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};
use mpi::{Count, Threading};
use qkv_base::{Error, Kind, Result};
use qkv_train::dist::Collective;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A part for each rank.
type Parts = Vec<Vec<u8>>;

/// A rank as the thread that works sees it.
struct Rank {
    rank: usize,
    size: usize,
    host: String,
    ask: Mutex<Sender<Parts>>,
    answer: Mutex<Receiver<Parts>>,
}

impl Collective for Rank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn exchange(&self, parts: &[&[u8]]) -> Result<Parts> {
        let gone = || Error::internal("MPI", "the thread that talks has ended");
        let parts = parts.iter().map(|part| part.to_vec()).collect();
        self.ask.lock().map_err(|_| gone())?.send(parts).map_err(|_| gone())?;
        self.answer.lock().map_err(|_| gone())?.recv().map_err(|_| gone())
    }
}

pub(crate) fn with_world<T: Send, E: From<Error> + Send>(
    f: impl FnOnce(&dyn Collective) -> std::result::Result<T, E> + Send,
    failed: impl FnOnce(usize, &E) -> i32,
) -> std::result::Result<T, E> {
    let refuse = |what: &str, hint: &str| Error::new("MPI", what, hint).of_kind(Kind::Failed);
    let (universe, threading) = mpi::initialize_with_threading(Threading::Funneled)
        .ok_or_else(|| refuse("could not be started", "start the program by mpirun or srun"))?;
    if threading < Threading::Funneled {
        return Err(refuse("has no support for threads", "use an MPI that was built with threads").into());
    }
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let host = mpi::environment::processor_name().unwrap_or_default();
    let (ask, asked) = channel();
    let (tell, answer) = channel();
    let done = std::thread::scope(|scope| {
        let seen = Rank { rank, size, host, ask: Mutex::new(ask), answer: Mutex::new(answer) };
        // The rank goes with the work, so that `asked` ends when the work does.
        let work = scope.spawn(move || f(&seen));
        while let Ok(parts) = asked.recv() {
            if tell.send(exchange(&world, &parts)).is_err() {
                break; // the work has ended
            }
        }
        work.join()
    });
    match done {
        Ok(Ok(done)) => Ok(done), // MPI is finished when the universe goes
        Ok(Err(error)) if size == 1 => Err(error),
        Ok(Err(error)) => world.abort(failed(rank, &error)),
        Err(_) => world.abort(101), // the panic has been told on stderr
    }
}

/// `MPI_Alltoallv`, after everyone knows how much will come.
fn exchange(world: &SimpleCommunicator, parts: &[Vec<u8>]) -> Parts {
    let sent: Vec<Count> = parts.iter().map(|part| part.len() as Count).collect();
    let mut comes = vec![0 as Count; parts.len()];
    world.all_to_all_into(&sent[..], &mut comes[..]);
    // One byte more than is needed: an empty vector's pointer is 1, which Open MPI takes for `MPI_IN_PLACE`.
    let (mut flat, mut got) = (parts.concat(), vec![0; 1 + comes.iter().map(|n| *n as usize).sum::<usize>()]);
    flat.push(0);
    let from = Partition::new(&flat[..], &sent[..], starts(&sent));
    let mut to = PartitionMut::new(&mut got[..], &comes[..], starts(&comes));
    world.all_to_all_varcount_into(&from, &mut to);
    let mut left = got.as_slice();
    let part = |n: &Count| {
        let (now, later) = left.split_at(*n as usize);
        left = later;
        now.to_vec()
    };
    comes.iter().map(part).collect()
}

/// Where each part begins.
fn starts(counts: &[Count]) -> Vec<Count> {
    counts.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect()
}
