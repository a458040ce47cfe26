//! Sums whose order does not depend on who made their parts.
//!
//! Leaves `0..n` stand under an aligned binary tree: node `(start, level)` is the sum of leaves `start..start + 2^level`, and
//! is made of its two halves. Whoever has a stretch of neighbouring leaves adds up the largest nodes inside it; the nodes
//! of all are then joined in the same tree. A leaf that is empty adds nothing, not a zero: `x + 0` could turn −0 into 0.

/// A tree that is being added up from left to right. Holds one value for each level at most, and the newest.
#[derive(Clone, Debug)]
pub struct TreeSum<T> {
    nodes: Vec<TreeNode<T>>,
}

/// The sum of leaves `start..start + 2^level`; none where all of them are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode<T> {
    /// the first leaf
    pub start: usize,
    /// 2^level leaves
    pub level: u32,
    /// their sum
    pub value: Option<T>,
}

impl<T> Default for TreeSum<T> {
    fn default() -> Self {
        Self { nodes: vec![] }
    }
}

impl<T> TreeSum<T> {
    /// Takes the node that follows the last one.
    pub fn push(&mut self, node: TreeNode<T>, mut add: impl FnMut(T, T) -> T) {
        self.nodes.push(node);
        while let [.., left, right] = self.nodes.as_slice() {
            if left.level != right.level || !left.start.is_multiple_of(2 << left.level) {
                return;
            }
            let (right, left) = (self.nodes.pop(), self.nodes.pop());
            let (Some(right), Some(left)) = (right, left) else { return };
            let value = match (left.value, right.value) {
                (Some(left), Some(right)) => Some(add(left, right)),
                (left, right) => left.or(right),
            };
            self.nodes.push(TreeNode { start: left.start, level: left.level + 1, value });
        }
    }

    /// The largest nodes of what was pushed, from left to right.
    pub fn nodes(self) -> Vec<TreeNode<T>> {
        self.nodes
    }

    /// The sum of all leaves from 0 on.
    pub fn total(mut self, mut add: impl FnMut(T, T) -> T) -> Option<T> {
        // Empty leaves fill the tree up.
        while self.nodes.len() > 1 {
            let Some(last) = self.nodes.last() else { break };
            // Leaves from 0 on leave no right half without its left one: the last node is a left half.
            let (start, level) = (last.start + (1 << last.level), last.level);
            self.push(TreeNode { start, level, value: None }, &mut add);
        }
        self.nodes.pop().and_then(|node| node.value)
    }
}

/// The leaves of one rank out of `size`.
pub fn leaves_of(rank: usize, size: usize, leaves: usize) -> std::ops::Range<usize> {
    rank * leaves / size..(rank + 1) * leaves / size
}

/// The largest nodes inside a stretch of leaves, from left to right: `(start, level)`.
pub fn nodes_of(leaves: std::ops::Range<usize>) -> Vec<(usize, u32)> {
    let mut tree = TreeSum::default();
    leaves.for_each(|start| tree.push(TreeNode { start, level: 0, value: None::<()> }, |(), ()| ()));
    tree.nodes().into_iter().map(|node| (node.start, node.level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sum that shows its brackets.
    fn shown(a: String, b: String) -> String {
        format!("({a}{b})")
    }

    fn leaf(i: usize) -> Option<String> {
        Some(format!("{i:x}"))
    }

    fn alone(n: usize, leaf: impl Fn(usize) -> Option<String>) -> Option<String> {
        let mut tree = TreeSum::default();
        (0..n).for_each(|start| tree.push(TreeNode { start, level: 0, value: leaf(start) }, shown));
        tree.total(shown)
    }

    #[test]
    fn the_tree_is_aligned() {
        assert_eq!(alone(1, leaf).as_deref(), Some("0"));
        assert_eq!(alone(5, leaf).as_deref(), Some("(((01)(23))4)"));
        assert_eq!(alone(8, leaf).as_deref(), Some("(((01)(23))((45)(67)))"));
        assert_eq!(alone(6, |i| leaf(i).filter(|_| i != 3)).as_deref(), Some("(((01)2)(45))"));
        assert_eq!(alone(4, |_| None), None);
    }

    /// Any number of ranks, any number of leaves, any of them empty.
    #[test]
    fn the_sum_has_the_same_brackets_on_any_number_of_ranks() {
        for leaves in 1..=17 {
            for empty in [usize::MAX, 0, 2, 5] {
                let leaf = |i: usize| leaf(i).filter(|_| i != empty);
                let want = alone(leaves, leaf);
                for size in 1..=leaves {
                    let mut whole = TreeSum::default();
                    for rank in 0..size {
                        let mine = leaves_of(rank, size, leaves);
                        let mut part = TreeSum::default();
                        mine.clone()
                            .for_each(|start| part.push(TreeNode { start, level: 0, value: leaf(start) }, shown));
                        let nodes = part.nodes();
                        let places: Vec<(usize, u32)> = nodes.iter().map(|n| (n.start, n.level)).collect();
                        assert_eq!(places, nodes_of(mine), "{leaves} leaves, rank {rank} of {size}");
                        nodes.into_iter().for_each(|node| whole.push(node, shown));
                    }
                    assert_eq!(whole.total(shown), want, "{leaves} leaves on {size} ranks, leaf {empty} empty");
                }
            }
        }
    }
}
