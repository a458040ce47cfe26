//! Several processes learn one network: each takes a part of every step, and all of them take the same update.
//!
//! A step is cut into pieces (`dist.shards`), whoever computes them. The gradients of the pieces are added in the order of
//! an aligned binary tree ([`tree`]), `((g₀+g₁)+(g₂+g₃))+…`, and a rank owns a stretch of its leaves: so the sum has the same
//! bits on one process, on two or on eight. `all_reduce` of MPI promises no order, which is why it is not called: ranks
//! exchange slices of their partial sums, each adds up one slice, and the slices are gathered ([`sum`]). That is what a
//! ring does, too: `2·(p−1)/p·n` numbers leave each of p ranks, for n parameters.
//!
//! [`Collective`] is all that is asked of a way to talk: [`Single`] has nobody to talk to, [`local`] are threads of one
//! process, and the crate `qkv-mpi` speaks MPI.

pub mod diloco;
pub mod flat;
pub mod local;
pub mod sum;
pub mod tree;

use qkv_base::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The most bytes of one part of an exchange: MPI counts in 32 bits. Longer things are sent in turns.
pub const MOST: usize = 1 << 25;

/// Processes that can talk to each other. All of them make the same calls in the same order.
pub trait Collective: Sync {
    /// Which of them this is, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// On which machine this one runs: ranks of one machine share its cores.
    fn host(&self) -> String;

    /// Sends a part to each rank (at most [`MOST`] bytes), and hands out what each sent to this one.
    fn exchange(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>>;
}

/// One process alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Collective for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn host(&self) -> String {
        String::new()
    }

    fn exchange(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        Ok(parts.iter().map(|part| part.to_vec()).collect())
    }
}

/// How numbers travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// as they are
    #[default]
    F32,
    /// rounded to their upper half: half the bytes; what is learnt then depends on the number of ranks
    Bf16,
}

/// A collective with what it was used for so far.
pub struct Team<'a> {
    collective: &'a dyn Collective,
    sent: AtomicU64,
    nanoseconds: AtomicU64,
}

/// What a team has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// bytes that this rank sent to others
    pub bytes: u64,
    /// seconds in which it talked, or waited for others to talk
    pub seconds: f64,
}

impl std::fmt::Debug for Team<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

impl<'a> Team<'a> {
    /// The team of these processes.
    pub fn new(collective: &'a dyn Collective) -> Self {
        Self { collective, sent: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) }
    }

    /// Which of them this is, from 0.
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.collective.size()
    }

    /// Whether this is the one that writes.
    pub fn is_root(&self) -> bool {
        self.rank() == 0
    }

    /// What was said so far.
    pub fn traffic(&self) -> Traffic {
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        Traffic { bytes: self.sent.load(Ordering::Relaxed), seconds }
    }

    /// How many ranks share this machine and these of its cores, and which of those this one is.
    pub fn beside(&self, cores: &str) -> Result<(usize, usize)> {
        let host = format!("{} {cores}", self.collective.host());
        let hosts = self.gather(host.as_bytes())?;
        let here = |hosts: &[Vec<u8>]| hosts.iter().filter(|h| h.as_slice() == host.as_bytes()).count();
        Ok((here(&hosts), here(&hosts[..self.rank().min(hosts.len())])))
    }

    /// A part for each rank; what each rank had for this one.
    pub fn exchange(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>> {
        if parts.len() != self.size() || parts.iter().any(|part| part.len() > MOST) {
            return Err(Error::internal("exchange", "not a part for each rank, or one that is too long"));
        }
        let start = Instant::now();
        let got = self.collective.exchange(parts)?;
        let others = parts.iter().enumerate().filter(|(to, _)| *to != self.rank());
        self.sent.fetch_add(others.map(|(_, part)| part.len() as u64).sum(), Ordering::Relaxed);
        self.nanoseconds.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(got)
    }

    /// What every rank has, by rank.
    pub fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(&vec![mine; self.size()])
    }

    /// Whether any rank says yes.
    pub fn any(&self, yes: bool) -> Result<bool> {
        if self.size() == 1 {
            return Ok(yes);
        }
        Ok(self.gather(&[u8::from(yes)])?.iter().any(|said| said.first() == Some(&1)))
    }

    /// What rank 0 has, of any length; what others bring is not looked at.
    pub fn from_root(&self, mine: Vec<u8>) -> Result<Vec<u8>> {
        if self.size() == 1 {
            return Ok(mine);
        }
        let length = self.tell_root(&(mine.len() as u64).to_le_bytes())?;
        let length = length.try_into().map(u64::from_le_bytes).map_err(|_| Error::internal("exchange", "no length"))?;
        if self.is_root() {
            mine.chunks(MOST).try_for_each(|turn| self.tell_root(turn).map(drop))?;
            return Ok(mine);
        }
        let mut all = vec![];
        while (all.len() as u64) < length {
            all.extend(self.tell_root(&[])?);
        }
        Ok(all)
    }

    /// What rank 0 says in one turn.
    fn tell_root(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let part = if self.is_root() { mine } else { &[] };
        let mut got = self.gather(part)?;
        Ok(std::mem::take(&mut got[0]))
    }

    /// Refuses to begin where ranks have different facts of this kind: they would learn different networks.
    pub fn ensure_same(&self, what: &str, mine: &str, hint: &str) -> Result<()> {
        let all = self.gather(mine.as_bytes())?;
        let first = all.first().cloned().unwrap_or_default();
        match all.iter().position(|other| *other != first) {
            None => Ok(()),
            Some(rank) => {
                let said = |rank: usize| String::from_utf8_lossy(&all[rank]).to_string();
                let told = format!("{what} of rank {rank} is {}, that of rank 0 is {}", said(rank), said(0));
                Err(Error::new("ranks", told, hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of `n` ranks makes of `f`.
    pub(crate) fn each<T: Send>(n: usize, f: impl Fn(&Team) -> T + Sync) -> Vec<T> {
        let f = &f;
        std::thread::scope(|scope| {
            let ranks: Vec<_> =
                local::ranks(n).into_iter().map(|rank| scope.spawn(move || f(&Team::new(&rank)))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn what_rank_0_has_reaches_all_of_them_in_turns() {
        for length in [0, 1, MOST, MOST + 1] {
            let long: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let got = each(3, |team| team.from_root(if team.is_root() { long.clone() } else { vec![9] }).unwrap());
            assert!(got.iter().all(|g| *g == long), "{length}");
        }
    }

    #[test]
    fn a_rank_that_differs_is_named() {
        let got = each(3, |team| team.ensure_same("the version", if team.rank() == 2 { "b" } else { "a" }, "hint"));
        let errors: Vec<String> = got.into_iter().map(|r| r.unwrap_err().to_string()).collect();
        assert_eq!(errors, vec!["ranks: the version of rank 2 is b, that of rank 0 is a"; 3]);
    }

    #[test]
    fn one_yes_is_enough_and_traffic_is_counted() {
        let got = each(4, |team| (team.any(team.rank() == 3).unwrap(), team.any(false).unwrap(), team.traffic().bytes));
        assert_eq!(got, vec![(true, false, 6); 4]);
        assert_eq!(each(4, |team| team.beside("0").unwrap()), [(4, 0), (4, 1), (4, 2), (4, 3)]);
    }
}
