//! The sum of vectors that lie on several ranks, with the bits of the sum on one.
//!
//! Each rank brings the nodes of its stretch of the tree, a vector of n numbers each. In turns that fit a message, rank q is
//! sent slice q of every node, adds them up in the order of the tree, and all ranks gather the sums.

use super::tree::{TreeNode, TreeSum, leaves_of, nodes_of};
use super::{MOST, Team, Wire};
use half::bf16;
use qkv_base::{Error, Result};
use std::ops::Range;

/// The sum over all leaves; `filled` says which of them are not empty, on whatever rank. `mine` are the nodes of this
/// rank. Every rank gets the same numbers.
pub fn sum(team: &Team, filled: &[bool], mine: Vec<TreeNode<Vec<f32>>>, n: usize, wire: Wire) -> Result<Vec<f32>> {
    if team.size() == 1 {
        let mut tree = TreeSum::default();
        mine.into_iter().for_each(|node| tree.push(node, added));
        return Ok(tree.total(added).unwrap_or_else(|| vec![0.0; n]));
    }
    let places: Vec<Vec<Place>> = (0..team.size()).map(|rank| places(rank, team.size(), filled)).collect();
    let most = places.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let turn = (MOST / 4 / most).max(1) * team.size();
    let mut all = vec![0.0; n];
    for start in (0..n).step_by(turn) {
        let slice = |rank: usize| {
            let leaves = leaves_of(rank, team.size(), turn.min(n - start));
            start + leaves.start..start + leaves.end
        };
        let parts: Vec<Vec<u8>> = (0..team.size()).map(|to| encoded_nodes(&mine, slice(to), wire)).collect();
        let got = team.exchange(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        let total = joined(&got, &places, slice(team.rank()).len(), wire)?;
        for (rank, part) in team.gather(&encode(&total, wire))?.iter().enumerate() {
            let here = all.get_mut(slice(rank)).ok_or_else(torn)?;
            here.copy_from_slice(&decode(part, here.len(), wire)?);
        }
    }
    Ok(all)
}

/// A node without its value, and whether it has one.
struct Place {
    start: usize,
    level: u32,
    filled: bool,
}

/// The nodes that a rank brings.
fn places(rank: usize, size: usize, filled: &[bool]) -> Vec<Place> {
    let nodes = nodes_of(leaves_of(rank, size, filled.len())).into_iter();
    let place = |(start, level): (usize, u32)| {
        let filled = filled[start..(start + (1 << level)).min(filled.len())].contains(&true);
        Place { start, level, filled }
    };
    nodes.map(place).collect()
}

/// A slice of all nodes that have a value, one after the other.
fn encoded_nodes(nodes: &[TreeNode<Vec<f32>>], slice: Range<usize>, wire: Wire) -> Vec<u8> {
    let values = nodes.iter().filter_map(|node| node.value.as_ref()?.get(slice.clone()));
    values.flat_map(|values| encode(values, wire)).collect()
}

/// The sum of what all ranks sent of one slice.
fn joined(got: &[Vec<u8>], places: &[Vec<Place>], length: usize, wire: Wire) -> Result<Vec<f32>> {
    let mut tree = TreeSum::default();
    for (bytes, places) in got.iter().zip(places) {
        let mut left = bytes.as_slice();
        for Place { start, level, filled } in places {
            let value = match filled {
                true => {
                    let (now, later) = left.split_at_checked(length * wire.bytes()).ok_or_else(torn)?;
                    left = later;
                    Some(decode(now, length, wire)?)
                }
                false => None,
            };
            tree.push(TreeNode { start: *start, level: *level, value }, added);
        }
        if !left.is_empty() {
            return Err(torn());
        }
    }
    Ok(tree.total(added).unwrap_or_else(|| vec![0.0; length]))
}

/// `a + b`, number by number.
pub fn added(mut a: Vec<f32>, b: Vec<f32>) -> Vec<f32> {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

impl Wire {
    /// The bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Numbers as bytes.
pub fn encode(values: &[f32], wire: Wire) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * wire.bytes()];
    match wire {
        Wire::F32 => bytes.chunks_exact_mut(4).zip(values).for_each(|(b, v)| b.copy_from_slice(&v.to_le_bytes())),
        Wire::Bf16 => bytes
            .chunks_exact_mut(2)
            .zip(values)
            .for_each(|(b, v)| b.copy_from_slice(&bf16::from_f32(*v).to_le_bytes())),
    }
    bytes
}

/// `n` numbers from bytes.
pub fn decode(bytes: &[u8], n: usize, wire: Wire) -> Result<Vec<f32>> {
    if bytes.len() != n * wire.bytes() {
        return Err(torn());
    }
    Ok(match wire {
        Wire::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Wire::Bf16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
    })
}

fn torn() -> Error {
    let hint = "do all ranks run the same version of qkv with the same recipe?";
    Error::new("ranks", "another rank sent something of another length", hint)
}

#[cfg(test)]
mod tests {
    use super::super::tests::each;
    use super::*;

    /// Numbers whose sum depends on the order: large ones that cancel beside small ones.
    fn leaf(i: usize, n: usize) -> Vec<f32> {
        let value = |k: usize| ((i * 7919 + k * 104_729) % 1000) as f32 * 10f32.powi((i % 5) as i32 * 2 - 4) - 500.0;
        (0..n).map(value).collect()
    }

    fn summed(size: usize, leaves: usize, empty: usize, n: usize, wire: Wire) -> Vec<f32> {
        let filled: Vec<bool> = (0..leaves).map(|i| i != empty).collect();
        let got = each(size, |team| {
            let mut tree = TreeSum::default();
            for start in leaves_of(team.rank(), size, leaves) {
                tree.push(TreeNode { start, level: 0, value: filled[start].then(|| leaf(start, n)) }, added);
            }
            sum(team, &filled, tree.nodes(), n, wire).unwrap()
        });
        assert!(got.iter().all(|g| *g == got[0]), "every rank has the same");
        got.into_iter().next().unwrap()
    }

    #[test]
    fn any_number_of_ranks_gets_the_same_bits() {
        for (leaves, empty) in [(8, 99), (8, 3), (12, 0), (5, 4)] {
            for n in [1, 2, 1001] {
                let want = summed(1, leaves, empty, n, Wire::F32);
                for size in 2..=leaves.min(5) {
                    assert_eq!(summed(size, leaves, empty, n, Wire::F32), want, "{leaves} {empty} {n} {size}");
                }
            }
        }
    }

    #[test]
    fn half_the_bytes_cost_little() {
        let (exact, rounded) = (summed(1, 8, 99, 100, Wire::F32), summed(4, 8, 99, 100, Wire::Bf16));
        // Eight bits of a number are kept: each of the two roundings is off by 1/256 of what is rounded at most.
        let size = |k: usize| (0..8).map(|i| leaf(i, 100)[k].abs()).sum::<f32>();
        assert!((0..100).all(|k| (exact[k] - rounded[k]).abs() <= size(k) / 64.0), "{exact:?}\n{rounded:?}");
        assert_ne!(exact, rounded);
        let bytes = |wire| {
            each(2, |team| {
                sum(
                    team,
                    &[true; 2],
                    vec![TreeNode { start: team.rank(), level: 0, value: Some(leaf(0, 1000)) }],
                    1000,
                    wire,
                )
                .unwrap();
                team.traffic().bytes
            })[0]
        };
        assert_eq!((bytes(Wire::F32), bytes(Wire::Bf16)), (4000, 2000));
    }

    #[test]
    fn a_message_of_another_length_is_an_error() {
        assert!(decode(&[0; 7], 2, Wire::F32).is_err());
        let place = || vec![Place { start: 0, level: 0, filled: true }];
        assert!(joined(&[vec![0; 12]], &[place()], 2, Wire::F32).is_err());
        assert!(joined(&[vec![0; 4]], &[place()], 2, Wire::F32).is_err());
    }
}
