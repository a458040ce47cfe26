//! Ranks that meet seldom, for slow networks: each learns alone for H steps, then all take one step of an outer optimiser
//! towards the mean of where they arrived (Douillard et al., 2023, "DiLoCo").
//!
//! ```text
//! Δ = mean over ranks of (θ − θᵣ)      θ: where all set out; θᵣ: where rank r arrived
//! v ← μ·v + Δ
//! θ ← θ − η·(Δ + μ·v)                  Nesterov's momentum
//! ```
//!
//! The traffic is H times less than with the exact way; and what is learnt depends on the number of ranks.

use super::sum::sum;
use super::tree::TreeNode;
use super::{Team, Wire, flat};
use burn::module::Module;
use qkv_base::{Error, Result};
use qkv_optim::Optimizer;

/// The outer optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outer {
    /// η
    pub rate: f32,
    /// μ
    pub momentum: f32,
    /// how differences travel
    pub wire: Wire,
}

/// Where all set out, and how fast the outer optimiser moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    start: Vec<f32>,
    velocity: Vec<f32>,
}

impl Replica {
    /// Sets out from here, at rest.
    pub fn new<M: Module>(model: &M) -> Self {
        let start = flat::weights(model);
        Self { velocity: vec![0.0; start.len()], start }
    }

    /// Sets out from here with what an earlier meeting left.
    pub fn moving<M: Module>(model: &M, velocity: Vec<f32>) -> Result<Self> {
        let start = flat::weights(model);
        match velocity.len() == start.len() {
            true => Ok(Self { start, velocity }),
            false => Err(Error::new("dist", "the outer momentum is of another network", "was the model changed?")),
        }
    }

    /// How fast the outer optimiser moves: what a checkpoint keeps.
    pub fn velocity(&self) -> &[f32] {
        &self.velocity
    }

    /// All ranks meet: the network from which they set out again.
    pub fn meet<M: Module>(&mut self, model: M, team: &Team, outer: Outer) -> Result<M> {
        let arrived = flat::weights(&model);
        let difference = self.start.iter().zip(arrived).map(|(start, arrived)| start - arrived).collect();
        let mean = mean(team, difference, outer.wire)?;
        let Outer { rate, momentum, .. } = outer;
        for ((start, velocity), delta) in self.start.iter_mut().zip(&mut self.velocity).zip(mean) {
            *velocity = momentum * *velocity + delta;
            *start -= rate * (delta + momentum * *velocity);
        }
        flat::with_weights(model, &self.start)
    }
}

/// The mean of a vector over all ranks.
pub fn mean(team: &Team, mine: Vec<f32>, wire: Wire) -> Result<Vec<f32>> {
    let (n, size) = (mine.len(), team.size() as f32);
    let node = TreeNode { start: team.rank(), level: 0, value: Some(mine) };
    let mut mean = sum(team, &vec![true; team.size()], vec![node], n, wire)?;
    mean.iter_mut().for_each(|v| *v /= size);
    Ok(mean)
}

/// All ranks go on with the mean of what their optimisers remember, so that a checkpoint needs to hold one memory only.
pub fn share_memory(optimizer: &mut Optimizer, team: &Team) -> Result<()> {
    if team.size() == 1 {
        return Ok(());
    }
    optimizer.change_memory(|memory| mean(team, memory, Wire::F32))
}

#[cfg(test)]
mod tests {
    use super::super::tests::each;
    use super::*;
    use burn::tensor::Device;
    use qkv_nn::{Build, Init, Linear};

    /// One weight at 1; rank r moves it to 1 − (r + 1)/2: Δ = ¾ on two ranks.
    #[test]
    fn a_meeting_is_a_step_of_nesterov() {
        let got = each(2, |team| {
            let build = Build::new(&Device::flex().autodiff(), 0);
            let layer = Linear::new(&build, 1, 1, false, Init::Ones);
            let mut replica = Replica::new(&layer);
            let outer = Outer { rate: 0.5, momentum: 0.5, wire: Wire::Bf16 };
            let moved = |layer: Linear, by: f32| {
                let to: Vec<f32> = flat::weights(&layer).iter().map(|w| w - by).collect();
                flat::with_weights(layer, &to).expect("as many")
            };
            let by = (team.rank() + 1) as f32 / 2.0;
            let layer = replica.meet(moved(layer, by), team, outer).expect("a meeting");
            let first = flat::weights(&layer);
            let layer = replica.meet(moved(layer, 0.0), team, outer).expect("a meeting");
            (first, flat::weights(&layer), replica.velocity().to_vec())
        });
        // v = ¾, θ = 1 − ½(¾ + ½·¾) = 0.4375; then Δ = 0, v = ⅜, θ = 0.4375 − ½·½·⅜ = 0.34375
        assert_eq!(got, vec![(vec![0.4375], vec![0.34375], vec![0.375]); 2]);
    }
}
