//! Ranks as threads of one process: the same calls as over a network, for tests and for programs that want to try the
//! arithmetic of many ranks on one machine.

use super::Collective;
use qkv_base::{Error, Result};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// One of several ranks in one process.
pub struct Local {
    rank: usize,
    to: Vec<Mutex<Sender<Vec<u8>>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

/// `n` ranks, each for a thread of its own.
///
/// ```
/// use qkv_train::dist::{Collective, local};
/// let sums: Vec<u8> = std::thread::scope(|scope| {
///     let each = |rank: local::Local| move || rank.exchange(&[&[1], &[2]]).unwrap().concat().iter().sum::<u8>();
///     let threads: Vec<_> = local::ranks(2).into_iter().map(|rank| scope.spawn(each(rank))).collect();
///     threads.into_iter().map(|t| t.join().unwrap()).collect()
/// });
/// assert_eq!(sums, [2, 4]);
/// ```
pub fn ranks(n: usize) -> Vec<Local> {
    let mut all: Vec<Local> = (0..n).map(|rank| Local { rank, to: vec![], from: vec![] }).collect();
    for sender in 0..n {
        for receiver in 0..n {
            let (to, from) = channel();
            all[sender].to.push(Mutex::new(to));
            all[receiver].from.push(Mutex::new(from));
        }
    }
    all
}

impl Collective for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn host(&self) -> String {
        "here".into()
    }

    fn exchange(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        let gone = || Error::new("ranks", "another rank has ended", "its own message says why");
        for (to, part) in self.to.iter().zip(parts) {
            let to = to.lock().map_err(|_| gone())?;
            to.send(part.to_vec()).map_err(|_| gone())?;
        }
        let receive = |from: &Mutex<Receiver<Vec<u8>>>| {
            let from = from.lock().map_err(|_| gone())?;
            from.recv().map_err(|_| gone())
        };
        self.from.iter().map(receive).collect()
    }
}
