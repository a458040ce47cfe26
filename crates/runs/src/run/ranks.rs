//! What a run does where it is one of several ranks: they agree on when to stop, on scores and on what is saved, and take outer
//! steps together where they meet seldom. Alone, each of these is what it would be without ranks.

use super::{Run, broken};
use crate::hooks::ValidScore;
use qkv_base::{Error, Result};
use qkv_nn::walk;
use qkv_optim::numbers;
use qkv_tasks::Metric;
use qkv_train::Trainable;
use qkv_train::dist::diloco::share_memory;
use qkv_train::dist::sum::encode;
use qkv_train::dist::{Single, Team, Wire};

impl<'a, N: Trainable> Run<'a, N> {
    /// The same run among several ranks: each computes a part of every step, and rank 0 alone writes. They must all begin
    /// with the same weights.
    pub fn among(mut self, team: &'a Team<'a>) -> Result<Self> {
        self.team = Some(team);
        self.ensure_same_weights()?;
        Ok(self)
    }

    /// The same run without the others, who have ended.
    pub fn alone(&mut self) {
        self.team = None;
    }

    /// Ranks whose weights are not the same bits would learn different networks in silence.
    fn ensure_same_weights(&self) -> Result<()> {
        let Some(team) = self.team.filter(|team| team.size() > 1) else { return Ok(()) };
        let mut hash = blake3::Hasher::new();
        walk(self.network.as_ref().ok_or_else(broken)?, |p| {
            hash.update(&encode(&numbers(&p.values()), Wire::F32));
        });
        let hint = "do all ranks read the same files, with the same version of qkv?";
        team.ensure_same("the hash of the weights", &hash.finalize().to_hex()[..16], hint)
    }

    pub(super) fn any(&self, yes: bool) -> Result<bool> {
        self.team.map_or(Ok(yes), |team| team.any(yes))
    }

    /// Where ranks learn apart, they take the outer step together.
    pub(super) fn meet(&mut self) -> Result<()> {
        if self.settings.meet_every <= 1 {
            return Ok(());
        }
        let alone = Team::new(&Single);
        let team = self.team.unwrap_or(&alone);
        let network = self.take()?;
        let mut replica = self.replica.take().ok_or_else(broken)?;
        self.network = Some(replica.meet(network, team, self.settings.outer)?);
        self.replica = Some(replica);
        Ok(())
    }

    /// What the hooks say of a network; rank 0 asks them and tells the others.
    pub(super) fn score(&self, network: &N) -> Result<Option<ValidScore>> {
        let Some(team) = self.team.filter(|team| team.size() > 1) else { return self.hooks.score(network) };
        let mine = match team.is_root() {
            true => self.hooks.score(network)?.map(|ValidScore { metric, value }| (metric.name(), value.to_bits())),
            false => None,
        };
        let told = serde_json::to_vec(&mine).map_err(|e| Error::internal("score", e.to_string()))?;
        let told: Option<(String, u64)> =
            serde_json::from_slice(&team.from_root(told)?).map_err(|e| Error::internal("score", e.to_string()))?;
        let score =
            |(name, bits): (String, u64)| Ok(ValidScore { metric: Metric::parse(&name)?, value: f64::from_bits(bits) });
        told.map(score).transpose()
    }

    /// Whether this process writes: alone, or as rank 0.
    pub(super) fn writes(&self) -> bool {
        self.team.is_none_or(Team::is_root)
    }

    /// A checkpoint has no rank in it: before one is written, ranks that learnt apart go on with one memory and one guard,
    /// and all make sure that they have the same network.
    pub(super) fn agree(&mut self) -> Result<()> {
        let Some(team) = self.team.filter(|team| team.size() > 1) else { return Ok(()) };
        if self.settings.meet_every > 1 {
            share_memory(&mut self.optimizer, team)?;
            let state = serde_json::to_vec(&self.state).map_err(|e| Error::internal("state", e.to_string()))?;
            let most = self.state.guard.most;
            self.state =
                serde_json::from_slice(&team.from_root(state)?).map_err(|e| Error::internal("state", e.to_string()))?;
            self.state.guard.most = most; // a setting, not a memory
        }
        self.ensure_same_weights()
    }
}
