//! Key/value cache: what attention has already computed for the tokens before, so that each new token costs one row.
//!
//! Room for `capacity` tokens is made once per layer, `[B, G, capacity, D]`, and filled in place. Layers find their room
//! by their path, so the cache needs to know nothing about the network. Cross-attention keeps the projected memory, which
//! does not grow; rows that read the same source next to each other (beams) share one. Beam search reorders rows: the
//! tokens held are copied into a second room of the same size, and the two change places, so that nothing is allocated.

use burn::tensor::Tensor;
use std::collections::BTreeMap;

/// Keys and values of the tokens before.
#[derive(Clone, Debug)]
pub struct Cache {
    len: usize,
    capacity: usize,
    own: BTreeMap<String, [Tensor<4>; 2]>,
    spare: BTreeMap<String, [Tensor<4>; 2]>,
    memory: BTreeMap<String, Tensor<3>>,
    state: BTreeMap<String, Tensor<3>>,
}

impl Cache {
    /// Room for `capacity` tokens.
    pub fn new(capacity: usize) -> Self {
        Self {
            len: 0,
            capacity,
            own: BTreeMap::new(),
            spare: BTreeMap::new(),
            memory: BTreeMap::new(),
            state: BTreeMap::new(),
        }
    }

    /// How many tokens are held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tokens there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many rows are held, once there are any.
    pub fn rows(&self) -> Option<usize> {
        let own = self.own.values().map(|[k, _]| k.dims()[0]);
        own.chain(self.memory.values().map(|m| m.dims()[0])).next()
    }

    /// Writes keys and values `[B, G, T, D]` of new tokens of the layer at `path` behind those held, and returns all so
    /// far as views `[B, G, len + T, D]`.
    ///
    /// # Panics
    /// If there is no room: the model checks the length at its door.
    pub(crate) fn append(&mut self, path: &str, k: Tensor<4>, v: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let [b, g, t, d] = k.dims();
        let (from, to) = (self.len, self.len + t);
        assert!(to <= self.capacity, "cache: {to} tokens do not fit in {}", self.capacity);
        let device = k.device();
        let room = || Tensor::<4>::zeros([b, g, self.capacity, d], &device);
        // Taken out, so that nobody else holds the storage and the write is in place.
        let [held_k, held_v] = self.own.remove(path).unwrap_or_else(|| [room(), room()]);
        let write = |held: Tensor<4>, new| held.slice_assign([0..b, 0..g, from..to, 0..d], new);
        let (k, v) = (write(held_k, k), write(held_v, v));
        let views = (k.clone().narrow(2, 0, to), v.clone().narrow(2, 0, to));
        self.own.insert(path.to_string(), [k, v]);
        views
    }

    /// The projected memory of the layer at `path`, computed on first use.
    pub(crate) fn memory(&mut self, path: &str, project: impl FnOnce() -> Tensor<3>) -> Tensor<3> {
        self.memory.entry(path.to_string()).or_insert_with(project).clone()
    }

    /// The state `[layers, B, H]` of the recurrent network at `path`, if it has run before.
    pub fn state(&self, path: &str) -> Option<Tensor<3>> {
        self.state.get(path).cloned()
    }

    /// Keeps the state of a recurrent network for the next token.
    pub fn set_state(&mut self, path: &str, state: Tensor<3>) {
        self.state.insert(path.to_string(), state);
    }

    /// Counts `t` more tokens as held: called once per pass, after every layer has written them.
    pub fn advance(&mut self, t: usize) {
        self.len += t;
    }

    /// Forgets all tokens from position `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Row b becomes what row `rows[b]` was: the survivors of a beam search step, or one row made many.
    pub fn reorder(&mut self, rows: &[usize]) {
        let states = self.state.values().map(|s| s.dims()[1]).next();
        let Some(before) = self.rows().or(states) else { return };
        let same = |n: usize, rows: &[usize]| rows.len() == n && rows.iter().enumerate().all(|(i, &r)| i == r);
        let index = |rows: &[usize], device: &burn::tensor::Device| {
            let rows: Vec<i64> = rows.iter().map(|&r| r as i64).collect();
            Tensor::<1, burn::tensor::Int>::from_data(rows.as_slice(), device)
        };
        if !same(before, rows) {
            self.reorder_own(before, rows, index);
        }
        let shared = |memory: &Tensor<3>| sources(rows, before / memory.dims()[0].max(1));
        for t in self.memory.values_mut() {
            let rows = shared(t);
            if !same(t.dims()[0], &rows) {
                *t = t.clone().select(0, index(&rows, &t.device()));
            }
        }
        for t in self.state.values_mut().filter(|t| !same(t.dims()[1], rows)) {
            *t = t.clone().select(1, index(rows, &t.device()));
        }
    }

    fn reorder_own(
        &mut self,
        before: usize,
        rows: &[usize],
        index: impl Fn(&[usize], &burn::tensor::Device) -> Tensor<1, burn::tensor::Int>,
    ) {
        if rows.len() != before {
            // As many rows as never before: new rooms.
            self.spare.clear();
            for t in self.own.values_mut().flatten() {
                *t = t.clone().select(0, index(rows, &t.device()));
            }
            return;
        }
        for (path, held) in &mut self.own {
            let rooms = || held.each_ref().map(|t| t.zeros_like());
            let spare = self.spare.remove(path).unwrap_or_else(rooms);
            let [k, v] = spare;
            let moved = [gather(k, &held[0], rows, self.len), gather(v, &held[1], rows, self.len)];
            self.spare.insert(path.clone(), std::mem::replace(held, moved));
        }
    }
}

/// Writes what row `rows[b]` of `from` `[B, G, capacity, D]` holds for the first `len` tokens to row b of `to`.
fn gather(to: Tensor<4>, from: &Tensor<4>, rows: &[usize], len: usize) -> Tensor<4> {
    let [_, g, capacity, d] = from.dims();
    let (row, head, held) = (g * capacity * d, capacity * d, len * d);
    qkv_kernels::fused::update(to, from.clone(), |to, from| {
        qkv_kernels::threads::for_rows(to, row, |first, chunk| {
            for (i, to) in chunk.chunks_exact_mut(row).enumerate() {
                let from = &from[rows[first + i] * row..][..row];
                for (to, from) in to.chunks_exact_mut(head).zip(from.chunks_exact(head)) {
                    to[..held].copy_from_slice(&from[..held]);
                }
            }
        });
    })
}

/// Which source rows are left when row b becomes row `rows[b]` and each `share` rows next to each other read one source:
/// one for each group of neighbours that read the same, in groups of one size.
///
/// ```
/// use qkv_nn::cache::sources;
/// assert_eq!(sources(&[0, 0, 1, 1], 1), [0, 1]); // each of two rows made two: they share
/// assert_eq!(sources(&[1, 0, 3, 3], 2), [0, 1]); // beams trade places within their source
/// assert_eq!(sources(&[2, 3], 2), [1]); // the first source is done
/// assert_eq!(sources(&[0, 1, 1], 1), [0, 1, 1]);
/// ```
pub fn sources(rows: &[usize], share: usize) -> Vec<usize> {
    let of: Vec<usize> = rows.iter().map(|r| r / share.max(1)).collect();
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let size = of.chunk_by(|a, b| a == b).map(<[usize]>::len).fold(0, gcd).max(1);
    of.into_iter().step_by(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    fn rows(v: [f32; 2]) -> Tensor<4> {
        Tensor::<1>::from_floats(v, &Device::flex()).reshape([2, 1, 1, 1])
    }

    #[test]
    fn appends_in_order_and_reorders_rows() {
        let mut cache = Cache::new(4);
        cache.append("a", rows([1.0, 2.0]), rows([10.0, 20.0]));
        cache.advance(1);
        let (k, v) = cache.append("a", rows([3.0, 4.0]), rows([30.0, 40.0]));
        assert_eq!((k.dims(), values(k), values(v)), ([2, 1, 2, 1], vec![1., 3., 2., 4.], vec![10., 30., 20., 40.]));
        cache.advance(1);
        cache.reorder(&[1, 1]);
        let (k, _) = cache.append("a", rows([5.0, 6.0]), rows([0.0, 0.0]));
        assert_eq!(values(k), [2., 4., 5., 2., 4., 6.]);
        cache.truncate(1);
        assert_eq!((cache.len(), cache.rows()), (1, Some(2)));
    }

    #[test]
    fn one_row_becomes_many_and_many_become_few() {
        let mut cache = Cache::new(3);
        cache.append("a", rows([1.0, 2.0]), rows([10.0, 20.0]));
        cache.memory("x", || Tensor::<1>::from_floats([7.0, 8.0], &Device::flex()).reshape([2, 1, 1]));
        cache.advance(1);
        let held =
            |cache: &Cache| (values(cache.own["a"][0].clone().narrow(2, 0, 1)), values(cache.memory["x"].clone()));
        cache.reorder(&[0, 0, 1, 1]);
        assert_eq!(held(&cache), (vec![1.0, 1.0, 2.0, 2.0], vec![7.0, 8.0])); // two beams read one source
        cache.reorder(&[1, 0, 3, 2]);
        cache.reorder(&[2, 3]);
        assert_eq!(held(&cache), (vec![2.0, 2.0], vec![8.0]));
    }

    /// After the first reordering the two rooms of a layer change places for ever.
    #[test]
    fn steps_of_a_beam_search_stay_in_two_rooms() {
        let mut cache = Cache::new(8);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..8 {
            cache.append("a", rows([1.0, 2.0]), rows([3.0, 4.0]));
            cache.advance(1);
            cache.reorder(&[1, 0]);
            let held = cache.own["a"][0].clone();
            qkv_kernels::fused::update(held.clone().detach(), held, |_, data| {
                seen.insert(data.as_ptr() as usize);
            });
        }
        assert!(seen.len() <= 2, "{} rooms", seen.len());
    }

    /// A recurrent network has no keys; its states are reordered all the same.
    #[test]
    fn states_are_reordered_without_keys() {
        let mut cache = Cache::new(4);
        cache.set_state("gru", Tensor::<1>::from_floats([1.0, 2.0], &Device::flex()).reshape([1, 2, 1]));
        cache.reorder(&[1, 1, 0]);
        assert_eq!(cache.state("gru").map(values), Some(vec![2.0, 2.0, 1.0]));
    }

    #[test]
    fn memory_is_projected_once() {
        let mut cache = Cache::new(1);
        let one = || Tensor::<3>::ones([1, 1, 1], &Device::flex());
        cache.memory("x", one);
        let again = cache.memory("x", || unreachable!("projected twice"));
        assert_eq!(values(again), [1.0]);
    }
}
