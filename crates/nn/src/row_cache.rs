//! The state of rows that join and leave: keys and values of attention, the memory of a source, or the state of a recurrent
//! network, for rows of any age side by side.
//!
//! Every row has a slot of the rooms `[S, G, capacity, D]` of each layer, and its own length. A pass gives some rows some more
//! tokens each ([`RowCache::begin`]); they lie one behind the other, `[1, N, C]`, and [`Segment`]s tell which are whose. A row that
//! goes on keeps its slot, wherever it stands in the batch; one that leaves gives it back; only a row that becomes two is
//! copied. Sources have slots too: rows that read the same one share its projected keys and values `[S, Tm, 2G·D]`.
//!
//! ```
//! use qkv_nn::RowCache;
//! let mut cache = RowCache::new(8); // rows of up to eight tokens
//! let (a, b) = (cache.admit(None), cache.admit(None));
//! cache.begin(&[(a, 3), (b, 1)]); // three tokens for one row, one for the other
//! cache.advance();
//! cache.reorder(&[b, a, a]); // one row becomes two, and stands behind the other
//! assert_eq!((cache.rows(), cache.len(0), cache.len(2)), (3, 1, 3));
//! ```

use crate::Adapting;
use burn::tensor::{Tensor, TensorData};
use qkv_kernels::Segment;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Below this many numbers a copy stays on its thread.
const SERIAL: usize = 1 << 17;

/// What is kept of rows of tokens, for the tokens behind them.
#[derive(Clone, Debug)]
pub struct RowCache {
    capacity: usize,
    rows: Vec<Held>,
    /// how many slots the rooms have
    slots: usize,
    free: Vec<usize>,
    keys: BTreeMap<String, [Tensor<4>; 2]>,
    /// by path and slot: `[layers, 1, H]`
    states: BTreeMap<String, Vec<Option<Tensor<3>>>>,
    sources: Sources,
    pass: Pass,
}

/// Keys and values of the first tokens of a row that may be gone, `[1, G, len, D]` of each layer.
#[derive(Clone, Debug)]
pub struct RowPrefix {
    len: usize,
    keys: BTreeMap<String, [Tensor<4>; 2]>,
}

impl RowPrefix {
    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.keys.values().flatten().map(|t| 4 * t.dims().iter().product::<usize>() as u64).sum()
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: usize,
    len: usize,
    source: Option<usize>,
    adapter: u32,
}

/// The projected memories of sources.
#[derive(Clone, Debug, Default)]
struct Sources {
    /// real tokens of each slot; none: it is free
    lengths: Vec<Option<usize>>,
    /// `[S, Tm, 2G·D]`
    memory: BTreeMap<String, Tensor<3>>,
}

/// The pass under way.
#[derive(Clone, Debug)]
struct Pass {
    tokens: Vec<(usize, usize)>,
    own: Arc<[Segment]>,
    cross: Arc<[Segment]>,
    /// the adapter of each token, where a row has one
    adapters: Option<Arc<[u32]>>,
}

impl Default for Pass {
    fn default() -> Self {
        Self { tokens: vec![], own: Arc::new([]), cross: Arc::new([]), adapters: None }
    }
}

impl RowCache {
    /// For rows of up to `capacity` tokens.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            rows: vec![],
            slots: 0,
            free: vec![],
            keys: BTreeMap::new(),
            states: BTreeMap::new(),
            sources: Sources::default(),
            pass: Pass::default(),
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How many tokens a row holds.
    pub fn len(&self, row: usize) -> usize {
        self.rows[row].len
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many tokens a row can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many tokens all rows hold.
    pub fn tokens(&self) -> usize {
        self.rows.iter().map(|row| row.len).sum()
    }

    /// Whether the first tokens of a row can be had without the others: keys and values can, a recurrent state is of all.
    pub fn can_share_prefix(&self) -> bool {
        self.states.is_empty()
    }

    /// A new row behind the others, without tokens, which reads a source; its number.
    pub fn admit(&mut self, source: Option<usize>) -> usize {
        let slot = self.slot();
        // What the row before it in this slot has left is none of its business.
        self.states.values_mut().filter(|states| slot < states.len()).for_each(|states| states[slot] = None);
        self.rows.push(Held { slot, len: 0, source, adapter: Adapting::NONE });
        self.rows.len() - 1
    }

    /// Row `row` and those that come of it are computed with an adapter of the network's
    /// ([`LoraBank`](crate::LoraBank)).
    pub fn adapt(&mut self, row: usize, adapter: u32) {
        self.rows[row].adapter = adapter;
    }

    /// Row `to`, which holds nothing yet, begins with the first `len` tokens of row `from`.
    pub fn share_prefix(&mut self, from: usize, to: usize, len: usize) {
        self.rows[to].len = len;
        self.copy(&[(self.rows[from].slot, self.rows[to].slot, len)]);
    }

    /// The keys and values of the first `len` tokens of a row, copied out for rows that come later; none where there are none
    /// that can be cut.
    pub fn copy_prefix(&self, row: usize, len: usize) -> Option<RowPrefix> {
        let slot = self.rows[row].slot;
        if !self.can_share_prefix() || self.keys.is_empty() || len == 0 || len > self.rows[row].len {
            return None;
        }
        let one = |rooms: &Tensor<4>| copied_out(rooms.clone(), slot, len);
        let keys = self.keys.iter().map(|(path, rooms)| (path.clone(), rooms.each_ref().map(one))).collect();
        Some(RowPrefix { len, keys })
    }

    /// Bytes of the keys and values of one token of a row; 0 while nothing was written.
    pub fn token_bytes(&self) -> u64 {
        let one = |t: &Tensor<4>| 4 * (t.dims()[1] * t.dims()[3]) as u64;
        self.keys.values().flatten().map(one).sum()
    }

    /// Row `row`, which holds nothing yet, begins with the first `len` tokens of a prefix.
    pub fn put_prefix(&mut self, row: usize, prefix: &RowPrefix, len: usize) {
        let (slot, slots, capacity) = (self.rows[row].slot, self.slots, self.capacity);
        assert!(len <= prefix.len && len <= capacity && self.rows[row].len == 0, "cache: {len} tokens do not fit");
        for (path, kept) in &prefix.keys {
            let room = |kept: &Tensor<4>| {
                let [_, g, _, d] = kept.dims();
                Tensor::<4>::zeros([slots, g, capacity, d], &kept.device())
            };
            let [k, v] = self.keys.remove(path).unwrap_or_else(|| kept.each_ref().map(room));
            let rooms = [copied_in(k, kept[0].clone(), slot, len), copied_in(v, kept[1].clone(), slot, len)];
            self.keys.insert(path.clone(), rooms);
        }
        self.rows[row].len = len;
    }

    /// Row b becomes what row `rows[b]` was: rows trade places, leave, or become several.
    pub fn reorder(&mut self, rows: &[usize]) {
        let before = std::mem::take(&mut self.rows);
        let mut stays = vec![false; before.len()];
        rows.iter().for_each(|r| stays[*r] = true);
        self.free.extend(before.iter().zip(&stays).filter(|(_, stays)| !**stays).map(|(held, _)| held.slot));
        let copied = rows.len() - stays.iter().filter(|stays| **stays).count();
        self.reserve(self.slots + copied.saturating_sub(self.free.len()));
        let (mut moved, mut copies) = (vec![false; before.len()], vec![]);
        for &row in rows {
            let held = before[row];
            // The first keeps the slot, the others are copied.
            let slot = if std::mem::replace(&mut moved[row], true) { self.slot() } else { held.slot };
            if slot != held.slot {
                copies.push((held.slot, slot, held.len));
            }
            self.rows.push(Held { slot, ..held });
        }
        self.copy(&copies);
        self.forget_sources();
    }

    /// Makes room for rows of up to `capacity` tokens.
    pub fn grow(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let held = self.rows.iter().map(|row| row.len).max().unwrap_or(0);
        self.capacity = capacity;
        for rooms in self.keys.values_mut().flatten() {
            let [s, g, _, d] = rooms.dims();
            let larger = Tensor::zeros([s, g, capacity, d], &rooms.device());
            *rooms = match held {
                0 => larger,
                held => larger.slice_assign([0..s, 0..g, 0..held, 0..d], rooms.clone().narrow(2, 0, held)),
            };
        }
    }

    /// A slot that nobody has.
    fn slot(&mut self) -> usize {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let rooms = self.keys.values().next().map_or(usize::MAX, |[k, _]| k.dims()[0]);
        self.slots += 1;
        if self.slots > rooms {
            // Rooms that must grow become twice as many, so that they seldom do.
            self.reserve(self.slots.max(2 * rooms));
        }
        self.slots - 1
    }

    /// Rooms for at least so many slots.
    fn reserve(&mut self, slots: usize) {
        for rooms in self.keys.values_mut().flatten() {
            let [s, g, t, d] = rooms.dims();
            if s < slots {
                let larger = Tensor::zeros([slots, g, t, d], &rooms.device());
                *rooms = larger.slice_assign([0..s, 0..g, 0..t, 0..d], rooms.clone());
            }
        }
    }

    /// Copies the first tokens of slots to others: `(from, to, tokens)`. No slot is both.
    fn copy(&mut self, copies: &[(usize, usize, usize)]) {
        if copies.is_empty() {
            return;
        }
        for rooms in self.keys.values_mut().flatten() {
            let nothing = Tensor::zeros([1, 1, 1, 1], &rooms.device());
            let held = std::mem::replace(rooms, nothing.clone());
            *rooms = copied(held, nothing, copies);
        }
        for states in self.states.values_mut() {
            for &(from, to, _) in copies {
                let state = states.get(from).cloned().flatten();
                set(states, to, state);
            }
        }
    }

    /// Begins a pass in which each of these rows gets so many more tokens: `(row, tokens)`.
    ///
    /// # Panics
    /// If there is no room: the engine checks lengths when it admits.
    pub fn begin(&mut self, tokens: &[(usize, usize)]) {
        let by_count: Vec<bool> = tokens.iter().map(|(_, n)| Segment::new(0..*n, 0, 0).tiled).collect();
        self.begin_with(tokens, |at| by_count[at]);
    }

    /// The same, where `tiled(i)` tells whether attention takes the tokens of `tokens[i]` as tiles or row by row: by what they
    /// are, and not by how a prompt happens to be cut.
    pub fn begin_with(&mut self, tokens: &[(usize, usize)], tiled: impl Fn(usize) -> bool) {
        let (mut own, mut cross, mut next): (Vec<Segment>, Vec<Segment>, usize) = (vec![], vec![], 0);
        for (at, &(row, n)) in tokens.iter().enumerate() {
            let Held { slot, len, source, .. } = self.rows[row];
            assert!(len + n <= self.capacity, "cache: {} tokens do not fit in {}", len + n, self.capacity);
            let queries = next..next + n;
            next += n;
            if let Some(slot) = source {
                let keys = self.sources.lengths[slot].unwrap_or(0);
                match cross.last_mut() {
                    // Rows of one source next to each other ask together.
                    Some(last) if last.slot == slot => {
                        *last = Segment::new(last.queries.start..queries.end, slot, keys);
                    }
                    _ => cross.push(Segment::new(queries.clone(), slot, keys)),
                }
            }
            own.push(Segment { tiled: tiled(at), ..Segment::new(queries, slot, len + n) });
        }
        let each = |(row, n): &(usize, usize)| std::iter::repeat_n(self.rows[*row].adapter, *n);
        let adapted = tokens.iter().any(|(row, _)| self.rows[*row].adapter != Adapting::NONE);
        let adapters = adapted.then(|| tokens.iter().flat_map(each).collect());
        self.pass = Pass { tokens: tokens.to_vec(), own: own.into(), cross: cross.into(), adapters };
    }

    /// The adapter of each token of the pass, where a row has one.
    pub fn adapters(&self) -> Option<Arc<[u32]>> {
        self.pass.adapters.clone()
    }

    /// Counts the tokens of the pass as held: called once, after every layer has written them.
    pub fn advance(&mut self) {
        for (row, n) in std::mem::take(&mut self.pass).tokens {
            self.rows[row].len += n;
        }
    }

    /// Forgets the last `tokens` tokens of a row: guesses that were wrong. What they left is written over by what comes.
    ///
    /// # Panics
    /// If the row does not hold so many.
    pub fn forget(&mut self, row: usize, tokens: usize) {
        let held = &mut self.rows[row];
        assert!(tokens <= held.len && self.states.is_empty(), "cache: {tokens} tokens cannot be forgotten");
        held.len -= tokens;
    }

    /// The rows of the pass under way and how many tokens each gets.
    pub fn pass(&self) -> &[(usize, usize)] {
        &self.pass.tokens
    }

    /// Which tokens of the pass look at which keys of their own row.
    pub fn segments(&self) -> Arc<[Segment]> {
        self.pass.own.clone()
    }

    /// Which tokens of the pass look at which source.
    pub fn source_segments(&self) -> Arc<[Segment]> {
        self.pass.cross.clone()
    }

    /// The position of each token of the pass.
    pub fn positions(&self) -> Arc<[usize]> {
        self.pass.own.iter().flat_map(|s| s.keys - s.queries.len()..s.keys).collect()
    }

    /// Writes keys and values of the tokens of the pass, the heads from `first` on of `[1, N, heads, D]`, G of each, and
    /// returns the rooms `[S, G, capacity, D]` of both.
    pub(crate) fn write(&mut self, path: &str, heads: Tensor<4>, first: usize, g: usize) -> (Tensor<4>, Tensor<4>) {
        let d = heads.dims()[3];
        let shape = [self.slots, g, self.capacity, d];
        let room = || Tensor::<4>::zeros(shape, &heads.device());
        let (path, [k, v]) = self.keys.remove_entry(path).unwrap_or_else(|| (path.to_string(), [room(), room()]));
        let segments = self.pass.own.clone();
        let write = |held, first| written(held, heads.clone(), first, &segments);
        let (k, v) = (write(k, first), write(v, first + g));
        self.keys.insert(path, [k.clone(), v.clone()]);
        (k, v)
    }

    /// Keeps the projected memories of new sources, by path `[S, Tm, 2G·D]` with so many real tokens each; their numbers.
    pub fn admit_sources(&mut self, lengths: &[usize], projected: Vec<(String, Tensor<3>)>) -> Vec<usize> {
        let numbers: Vec<usize> = lengths.iter().map(|n| self.sources.slot(*n)).collect();
        let slots = self.sources.lengths.len();
        for (path, new) in projected {
            let [_, t, c] = new.dims();
            let held = self.sources.memory.remove(&path);
            let whole = held.is_none() && numbers.iter().copied().eq(0..slots);
            let kept = match held {
                _ if whole => new,
                held => {
                    let [s, tm, _] = held.as_ref().map_or([0, 0, c], |h| h.dims());
                    let mut room = match held {
                        Some(held) if s >= slots && tm >= t => held,
                        held => {
                            let more = if s < slots { slots.max(2 * s) } else { s };
                            let larger = Tensor::zeros([more, t.max(tm), c], &new.device());
                            held.map_or(larger.clone(), |held| larger.slice_assign([0..s, 0..tm, 0..c], held))
                        }
                    };
                    for (i, slot) in numbers.iter().enumerate() {
                        let one = new.clone().narrow(0, i, 1);
                        room = room.slice_assign([*slot..slot + 1, 0..t, 0..c], one);
                    }
                    room
                }
            };
            self.sources.memory.insert(path, kept);
        }
        numbers
    }

    /// The projected memories of the layer at `path`, `[S, Tm, 2G·D]`.
    pub fn memory(&self, path: &str) -> Option<Tensor<3>> {
        self.sources.memory.get(path).cloned()
    }

    /// Gives back the slots of sources that no row reads any more.
    pub fn forget_sources(&mut self) {
        for (slot, length) in self.sources.lengths.iter_mut().enumerate() {
            if length.is_some() && !self.rows.iter().any(|row| row.source == Some(slot)) {
                *length = None;
            }
        }
    }

    /// The source that a row reads.
    pub fn source(&self, row: usize) -> Option<usize> {
        self.rows[row].source
    }

    /// The state `[layers, 1, H]` of a row in the recurrent network at `path`, if it has run before.
    pub fn state(&self, path: &str, row: usize) -> Option<Tensor<3>> {
        self.states.get(path)?.get(self.rows[row].slot)?.clone()
    }

    /// Keeps the state of a row in a recurrent network for its next token.
    pub fn set_state(&mut self, path: &str, row: usize, state: Tensor<3>) {
        let slot = self.rows[row].slot;
        set(self.states.entry(path.to_string()).or_default(), slot, Some(state));
    }
}

impl Sources {
    /// A slot for a source of so many tokens.
    fn slot(&mut self, length: usize) -> usize {
        let free = self.lengths.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.lengths.push(None);
            self.lengths.len() - 1
        });
        self.lengths[slot] = Some(length);
        slot
    }
}

fn set<T: Clone>(list: &mut Vec<Option<T>>, at: usize, value: Option<T>) {
    if list.len() <= at {
        list.resize(at + 1, None);
    }
    list[at] = value;
}

/// Writes G heads from `first` on of the tokens `[1, N, heads, D]` to their slots of `held` `[S, G, capacity, D]`, each segment
/// at the end of its keys.
fn written(held: Tensor<4>, tokens: Tensor<4>, first: usize, segments: &[Segment]) -> Tensor<4> {
    let ([_, g, capacity, d], [_, _, heads, _]) = (held.dims(), tokens.dims());
    if !qkv_kernels::fused::on_cpu(&held) {
        return segments.iter().fold(held, |held, s| {
            let (n, from) = (s.queries.len(), s.keys - s.queries.len());
            let new = tokens.clone().narrow(1, s.queries.start, n).narrow(2, first, g).swap_dims(1, 2);
            held.slice_assign([s.slot..s.slot + 1, 0..g, from..s.keys, 0..d], new)
        });
    }
    qkv_kernels::fused::update(held, tokens, |held, tokens| {
        for s in segments {
            let from = s.keys - s.queries.len();
            for (i, query) in s.queries.clone().enumerate() {
                for head in 0..g {
                    let to = ((s.slot * g + head) * capacity + from + i) * d;
                    let at = (query * heads + first + head) * d;
                    held[to..to + d].copy_from_slice(&tokens[at..at + d]);
                }
            }
        }
    })
}

/// Copies the first tokens of slots of `held` `[S, G, capacity, D]` to others, where they are.
fn copied(held: Tensor<4>, nothing: Tensor<4>, copies: &[(usize, usize, usize)]) -> Tensor<4> {
    let [_, g, capacity, d] = held.dims();
    if !qkv_kernels::fused::on_cpu(&held) {
        return copies.iter().fold(held, |held, &(from, to, len)| {
            let row = held.clone().narrow(0, from, 1).narrow(2, 0, len);
            held.slice_assign([to..to + 1, 0..g, 0..len, 0..d], row)
        });
    }
    let one = |to: &mut [f32], from: &[f32], len: usize| {
        for (to, from) in to.chunks_exact_mut(capacity * d).zip(from.chunks_exact(capacity * d)) {
            to[..len * d].copy_from_slice(&from[..len * d]);
        }
    };
    qkv_kernels::fused::update(held, nothing, |held, _| {
        let mut slots: Vec<Option<&mut [f32]>> = held.chunks_exact_mut(g * capacity * d).map(Some).collect();
        let targets: Vec<_> = copies.iter().map(|&(from, to, len)| (slots[to].take(), from, len)).collect();
        let slots: Vec<Option<&[f32]>> = slots.into_iter().map(|slot| slot.map(|s| &*s)).collect();
        let copy = |(to, from, len): (Option<&mut [f32]>, usize, usize)| {
            if let (Some(to), Some(from)) = (to, slots[from]) {
                one(to, from, len);
            }
        };
        let numbers: usize = copies.iter().map(|c| c.2 * g * d).sum();
        if numbers > SERIAL { targets.into_par_iter().for_each(copy) } else { targets.into_iter().for_each(copy) }
    })
}

/// The first tokens of a slot of `held` `[S, G, capacity, D]` in a tensor of their own `[1, G, len, D]`.
fn copied_out(held: Tensor<4>, slot: usize, len: usize) -> Tensor<4> {
    let [_, g, capacity, d] = held.dims();
    let room = Tensor::<4>::zeros([1, g, len, d], &held.device());
    if !qkv_kernels::fused::on_cpu(&held) {
        return room.slice_assign([0..1, 0..g, 0..len, 0..d], held.narrow(0, slot, 1).narrow(2, 0, len));
    }
    qkv_kernels::fused::update(room, held, |to, held| {
        let from = held[slot * g * capacity * d..].chunks_exact(capacity * d);
        to.chunks_exact_mut(len * d).zip(from).for_each(|(to, from)| to.copy_from_slice(&from[..len * d]));
    })
}

/// The first tokens of `kept` `[1, G, …, D]` in a slot of `held` `[S, G, capacity, D]`.
fn copied_in(held: Tensor<4>, kept: Tensor<4>, slot: usize, len: usize) -> Tensor<4> {
    let ([_, g, capacity, d], [_, _, long, _]) = (held.dims(), kept.dims());
    if !qkv_kernels::fused::on_cpu(&held) {
        return held.slice_assign([slot..slot + 1, 0..g, 0..len, 0..d], kept.narrow(2, 0, len));
    }
    qkv_kernels::fused::update(held, kept, |held, kept| {
        let to = held[slot * g * capacity * d..].chunks_exact_mut(capacity * d);
        to.zip(kept.chunks_exact(long * d)).for_each(|(to, from)| to[..len * d].copy_from_slice(&from[..len * d]));
    })
}

/// The bias that grows with the distance between queries at `positions` and keys 0 … `keys`, by `value(head, distance)`, as
/// `[1, H, N, keys]`.
pub(crate) fn by_distance(
    heads: usize,
    positions: &[usize],
    keys: usize,
    device: &burn::tensor::Device,
    value: impl Fn(usize, i64) -> f32,
) -> Tensor<4> {
    let n = positions.len();
    let at = |i: usize| value(i / (n * keys), (i % keys) as i64 - positions[i / keys % n] as i64);
    let data: Vec<f32> = (0..heads * n * keys).map(at).collect();
    Tensor::from_data(TensorData::new(data, [1, heads, n, keys]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    /// One head each of queries, keys and values, of one feature: keys are the numbers, values ten times them.
    fn heads(tokens: &[f32]) -> Tensor<4> {
        let data = tokens.iter().flat_map(|x| [0.0, *x, 10.0 * x]).collect();
        Tensor::from_data(TensorData::new(data, [1, tokens.len(), 3, 1]), &Device::flex())
    }

    fn give(cache: &mut RowCache, tokens: &[(usize, usize)], what: &[f32]) {
        cache.begin(tokens);
        cache.write("a", heads(what), 1, 1);
        cache.advance();
    }

    fn held(cache: &RowCache) -> Vec<Vec<f32>> {
        let row = |row: &Held| {
            let at = |i: usize| values(cache.keys["a"][i].clone().narrow(0, row.slot, 1).narrow(2, 0, row.len));
            assert_eq!(at(0).iter().map(|x| x * 10.0).collect::<Vec<_>>(), at(1));
            at(0)
        };
        cache.rows.iter().map(row).collect()
    }

    #[test]
    fn rows_of_unequal_age_join_leave_and_become_several() {
        let mut cache = RowCache::new(4);
        let (a, b) = (cache.admit(None), cache.admit(None));
        give(&mut cache, &[(a, 2), (b, 1)], &[1.0, 2.0, 3.0]);
        give(&mut cache, &[(b, 1)], &[4.0]);
        cache.reorder(&[1, 0, 1, 1]);
        assert_eq!(held(&cache), [vec![3.0, 4.0], vec![1.0, 2.0], vec![3.0, 4.0], vec![3.0, 4.0]]);
        give(&mut cache, &[(0, 1), (1, 1), (2, 1), (3, 1)], &[5.0, 6.0, 7.0, 8.0]);
        cache.reorder(&[3, 1]);
        assert_eq!(held(&cache), [vec![3.0, 4.0, 8.0], vec![1.0, 2.0, 6.0]]);
        let c = cache.admit(None);
        cache.share_prefix(1, c, 2);
        give(&mut cache, &[(c, 1)], &[9.0]);
        assert_eq!(held(&cache)[2], [1.0, 2.0, 9.0]);
        cache.grow(9);
        give(&mut cache, &[(0, 3)], &[1.0, 2.0, 3.0]);
        assert_eq!((held(&cache)[0].len(), cache.tokens(), cache.slots), (6, 12, 4));
    }

    #[test]
    fn a_prefix_outlives_its_row_and_its_cache() {
        let mut cache = RowCache::new(4);
        let (a, b) = (cache.admit(None), cache.admit(None));
        give(&mut cache, &[(a, 1), (b, 3)], &[9.0, 1.0, 2.0, 3.0]);
        assert!(cache.copy_prefix(a, 2).is_none(), "it has one token");
        let prefix = cache.copy_prefix(b, 3).unwrap();
        assert_eq!(prefix.bytes(), 2 * 3 * 4);
        cache.reorder(&[a]);
        let mut later = RowCache::new(6);
        let rows = [later.admit(None), later.admit(None), later.admit(None)];
        later.put_prefix(rows[1], &prefix, 2);
        later.put_prefix(rows[2], &prefix, 3);
        give(&mut later, &[(rows[0], 1), (rows[1], 1)], &[7.0, 8.0]);
        assert_eq!(held(&later), [vec![7.0], vec![1.0, 2.0, 8.0], vec![1.0, 2.0, 3.0]]);
        let next = later.admit(None); // a room that is made after the others
        later.put_prefix(next, &prefix, 1);
        assert_eq!(held(&later)[3], [1.0]);
    }

    #[test]
    fn rows_that_trade_places_are_not_copied() {
        let mut cache = RowCache::new(4);
        for _ in 0..3 {
            cache.admit(None);
        }
        give(&mut cache, &[(0, 1), (1, 1), (2, 1)], &[1.0, 2.0, 3.0]);
        let slots = |cache: &RowCache| cache.rows.iter().map(|r| r.slot).collect::<Vec<_>>();
        cache.reorder(&[2, 0, 1]);
        assert_eq!(slots(&cache), [2, 0, 1]);
        cache.reorder(&[0, 0, 2]); // the slot of the row that leaves is taken by the one that becomes two
        assert_eq!((slots(&cache), cache.slots), (vec![2, 0, 1], 3));
    }

    #[test]
    fn a_recurrent_state_goes_with_its_row() {
        let mut cache = RowCache::new(4);
        let state = |x: f32| Tensor::<3>::full([1, 1, 1], x, &Device::flex());
        for _ in 0..2 {
            cache.admit(None);
        }
        cache.set_state("gru", 0, state(1.0));
        cache.set_state("gru", 1, state(2.0));
        cache.reorder(&[1, 1, 0]);
        let of = |row| cache.state("gru", row).map(values);
        assert_eq!([of(0), of(1), of(2)], [Some(vec![2.0]), Some(vec![2.0]), Some(vec![1.0])]);
        cache.reorder(&[0]);
        let new = cache.admit(None);
        assert!(cache.state("gru", new).is_none(), "a new row has no state, whoever had its slot before");
        assert!(!cache.can_share_prefix());
    }

    #[test]
    fn sources_come_and_go_with_their_rows() {
        let mut cache = RowCache::new(4);
        let memory = |x: &[f32], t: usize| {
            let shape = [x.len() / t, t, 1];
            vec![("x".to_string(), Tensor::from_data(TensorData::new(x.to_vec(), shape), &Device::flex()))]
        };
        let first = cache.admit_sources(&[2, 1], memory(&[1.0, 2.0, 3.0, 0.0], 2));
        for source in &first {
            cache.admit(Some(*source));
        }
        cache.reorder(&[1, 1]); // the first source is done
        let next = cache.admit_sources(&[3], memory(&[7.0, 8.0, 9.0], 3));
        assert_eq!((first, &next[..]), (vec![0, 1], &[0][..]));
        let new = cache.admit(Some(next[0]));
        assert_eq!(values(cache.memory("x").unwrap()), [7.0, 8.0, 9.0, 3.0, 0.0, 0.0]);
        cache.begin(&[(0, 1), (1, 1), (new, 2)]);
        let segments = [Segment::new(0..2, 1, 1), Segment::new(2..4, 0, 3)];
        assert_eq!(cache.source_segments()[..], segments);
        assert_eq!(cache.positions()[..], [0, 0, 0, 1]);
    }
}
