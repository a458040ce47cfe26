//! Word2Vec (Mikolov et al. 2013): a word's vector is learnt by telling its neighbours from words drawn by chance.
//!
//! ```text
//! skip-gram   each word c around the word w:   ln σ(x_c·t_w) + Σ_k ln σ(−x_c·t_k)      K drawn words k, by count^¾
//! CBOW        the mean x of the words around:  ln σ(x·t_w)   + Σ_k ln σ(−x·t_k)
//! thinning    a word of share f stays with probability (√(f/s) + 1)·s/f
//! window      1 to `window` words on each side, drawn anew for each word
//! ```
//! x are the vectors that are kept, t a second table that is thrown away.
//!
//! **Same bits at any number of threads.** Words are taken in small groups. Every window of a group reads the tables as they
//! were before the group, in parallel, and writes down what it wants to add; then each part of a table, in parallel, adds what
//! is for its own rows, in the order of the windows. No row is ever written by two. How large a group may be follows from the
//! text: the most frequent word is expected to change a few dozen times in it. The K drawn words are shared by the words
//! around one w (Ji et al. 2016), so that the rows are read once for a window and not once for each pair.

use crate::kernel::{Lane, Sigmoid, add, combine, dots, lanes, numbers, touch};
use crate::sentences::Sentences;
use crate::word_vectors::WordVectors;
use alias::Alias;
use qkv_base::{Error, Key, Kind, Result};
use rayon::prelude::*;

mod alias;

/// Which way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// the words around tell the word, each by itself
    SkipGram,
    /// the words around tell the word, by their mean
    Cbow,
}

/// How vectors are learnt. The defaults are gensim's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word2Vec {
    /// skip-gram or CBOW
    pub architecture: Architecture,
    /// numbers of a word
    pub width: usize,
    /// words on each side at most
    pub window: usize,
    /// words drawn by chance for each word
    pub negative: usize,
    /// how often the text is read
    pub epochs: usize,
    /// the share above which words are thinned out; 0 thins nothing
    pub sample: f64,
    /// the first step size; it falls to a 250th
    pub rate: f32,
    /// another seed, other vectors
    pub seed: u64,
}

impl Default for Word2Vec {
    fn default() -> Self {
        let architecture = Architecture::SkipGram;
        Self { architecture, width: 100, window: 5, negative: 5, epochs: 5, sample: 1e-3, rate: 0.025, seed: 1 }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainProgress {
    /// words read so far, in all epochs
    pub words: usize,
    /// words to read
    pub all: usize,
    /// the step size
    pub rate: f32,
}

/// Words that are prepared at a time; a line longer than this is cut here.
const STRETCH: usize = 1 << 16;
/// Windows that one task works on.
const TASK: usize = 16;
/// Words around a word and words drawn against it, at most.
const WIDEST: usize = 32;
/// No word.
const NONE: u32 = u32::MAX;

/// A word of the text that was not thinned out.
#[derive(Clone, Copy)]
struct Kept {
    row: u32,
    sentence: u32,
    /// its place in the text
    place: u64,
}

impl Word2Vec {
    /// Learns the vectors of a text. `watch` is told how far it is, and says whether to go on.
    pub fn train(&self, text: &Sentences, watch: &mut dyn FnMut(TrainProgress) -> bool) -> Result<WordVectors> {
        self.check()?;
        let stride = lanes(self.width);
        let rows = Rows::new(text.words().len(), self.seed);
        let counts: Vec<f64> = rows.word.iter().map(|w| text.counts()[*w as usize] as f64).collect();
        let total: f64 = counts.iter().sum();
        let stays: Vec<f32> = counts.iter().map(|n| stays(n / total, self.sample) as f32).collect();
        let drawn = Alias::new(&counts.iter().map(|n| n.powf(0.75)).collect::<Vec<f64>>());
        let mut net = Net {
            how: *self,
            stride,
            input: first(self, &rows, stride),
            output: vec![Lane::ZERO; rows.word.len() * stride],
            sigmoid: Sigmoid::new(),
            drawn,
        };
        let mut group = Group::new(self, stride, windows_in_a_group(self, &counts, &stays));
        let (all, mut done) = (text.len() * self.epochs, 0);
        for epoch in 0..self.epochs as u64 {
            let thin = Key::new(self.seed, epoch, 1).named("thinning");
            let draw = Key::new(self.seed, epoch, 2).named("windows");
            for start in (0..text.len()).step_by(STRETCH) {
                let end = (start + STRETCH).min(text.len());
                let kept = kept(text, start..end, thin, &stays, &rows);
                for (i, part) in (0..kept.len()).step_by(group.windows).enumerate() {
                    let here = done + (end - start) * part / kept.len().max(1);
                    let rate = self.rate * (1.0 - here as f32 / all as f32).max(0.004);
                    let windows = part..(part + group.windows).min(kept.len());
                    group.compute(&net, &kept, windows.clone(), draw, rate);
                    net.apply(&group, windows.len());
                    if i % 16 == 0 && !watch(TrainProgress { words: here, all, rate }) {
                        let error = Error::new("vectors", "interrupted", "nothing was written");
                        return Err(error.of_kind(Kind::Interrupted));
                    }
                }
                done += end - start;
            }
        }
        let values: Vec<f32> = (0..rows.word.len())
            .flat_map(|word| numbers(&net.input[rows.row[word] as usize * stride..][..stride]).take(self.width))
            .copied()
            .collect();
        WordVectors::new(text.words().to_vec(), self.width, values)
    }

    fn check(&self) -> Result<()> {
        let wrong = |name: &str, what: String, hint: &str| Err(Error::new(name, what, hint).of_kind(Kind::Usage));
        let sizes = [
            ("width", self.width, 10_000),
            ("window", self.window, WIDEST / 2),
            ("negative", self.negative, WIDEST - 1),
        ];
        if let Some((name, n, most)) = sizes.into_iter().find(|(_, n, most)| *n == 0 || n > most) {
            return wrong(name, format!("{n} is not from 1 to {most}"), "100, 5 and 5 are customary");
        }
        if self.epochs == 0 {
            return wrong("epochs", "0 learns nothing".into(), "5 is customary");
        }
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return wrong("rate", format!("{} is not between 0 and 1", self.rate), "0.025 is customary");
        }
        if !(0.0..=1.0).contains(&self.sample) {
            return wrong("sample", format!("{} is not a share", self.sample), "1e-3 is customary; 0 thins nothing");
        }
        Ok(())
    }
}

/// Where a word's vector stands: in an order drawn by chance, so that parts of the table have equal work.
struct Rows {
    /// of a word
    row: Vec<u32>,
    /// of a row
    word: Vec<u32>,
}

impl Rows {
    fn new(n: usize, seed: u64) -> Self {
        let key = Key::new(seed, 0, 0).named("rows");
        let mut word: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            word.swap(i, key.below(i as u64, i + 1));
        }
        let mut row = vec![0; n];
        word.iter().zip(0..).for_each(|(word, at)| row[*word as usize] = at);
        Self { row, word }
    }
}

/// Uniform within ±½ over the width; what fills up the last piece of a row is 0 and stays so.
fn first(how: &Word2Vec, rows: &Rows, stride: usize) -> Vec<Lane> {
    let key = Key::new(how.seed, 0, 0).named("first");
    let mut table = vec![Lane::ZERO; rows.word.len() * stride];
    let most = 0.5 / how.width as f32;
    table.par_chunks_mut(stride).zip(&rows.word).with_min_len(256).for_each(|(row, word)| {
        let values = key.child(u64::from(*word)).uniforms(how.width, -most, most);
        let places = row.iter_mut().flat_map(|lane| &mut lane.0);
        places.zip(values).for_each(|(place, value)| *place = value);
    });
    table
}

/// How probably a word of this share stays.
fn stays(share: f64, sample: f64) -> f64 {
    if sample == 0.0 { 1.0 } else { (((share / sample).sqrt() + 1.0) * sample / share).min(1.0) }
}

/// As many windows as let the row that changes most often change about 24 times.
fn windows_in_a_group(how: &Word2Vec, counts: &[f64], stays: &[f32]) -> usize {
    let kept: Vec<f64> = counts.iter().zip(stays).map(|(n, p)| n * f64::from(*p)).collect();
    let share = |x: &[f64]| x.iter().copied().fold(0.0, f64::max) / x.iter().sum::<f64>();
    let drawn: Vec<f64> = counts.iter().map(|n| n.powf(0.75)).collect();
    let (word, chance) = (share(&kept), share(&drawn));
    let most = (word * (how.window + 1) as f64).max(word + how.negative as f64 * chance);
    ((24.0 / most) as usize).clamp(TASK, 256)
}

/// The words of a stretch of text that stay.
fn kept(text: &Sentences, range: std::ops::Range<usize>, key: Key, stays: &[f32], rows: &Rows) -> Vec<Kept> {
    const PART: usize = 4096; // a multiple of 4: a block of random words serves four places
    let parts: Vec<Vec<Kept>> = range
        .clone()
        .into_par_iter()
        .step_by(PART)
        .map(|start| {
            let end = (start + PART).min(range.end);
            let (mut out, mut words) = (Vec::with_capacity(end - start), [0; 4]);
            let mut sentence = text.sentence_of(start);
            for place in start..end {
                if place % 4 == 0 {
                    words = key.block(place as u64 / 4);
                }
                while place >= text.end_of(sentence) {
                    sentence += 1;
                }
                let row = rows.row[text.tokens()[place] as usize];
                if qkv_base::random::unit(words[place % 4]) < stays[row as usize] {
                    out.push(Kept { row, sentence: sentence as u32, place: place as u64 });
                }
            }
            out
        })
        .collect();
    parts.concat()
}

struct Net {
    how: Word2Vec,
    stride: usize,
    /// x `[V, stride]`
    input: Vec<Lane>,
    /// t `[V, stride]`
    output: Vec<Lane>,
    sigmoid: Sigmoid,
    drawn: Alias,
}

/// What a group of windows wants to add.
struct Group {
    windows: usize,
    /// words around, of each window
    around: usize,
    /// the word itself and those drawn, of each window
    targets: usize,
    /// rows of x; [`NONE`] where there is nothing
    input: Vec<u32>,
    /// rows of t
    output: Vec<u32>,
    /// what is added to x: for each word around, or one row for all of a window (CBOW)
    input_add: Vec<Lane>,
    /// what is added to t
    output_add: Vec<Lane>,
    stride: usize,
    adds: usize,
}

impl Group {
    fn new(how: &Word2Vec, stride: usize, windows: usize) -> Self {
        let (around, targets) = (2 * how.window, how.negative + 1);
        let adds = if how.architecture == Architecture::Cbow { 1 } else { around };
        Self {
            windows,
            around,
            targets,
            input: vec![NONE; windows * around],
            output: vec![NONE; windows * targets],
            input_add: vec![Lane::ZERO; windows * adds * stride],
            output_add: vec![Lane::ZERO; windows * targets * stride],
            stride,
            adds,
        }
    }

    /// Every window reads the tables and writes down what it wants to add.
    fn compute(&mut self, net: &Net, kept: &[Kept], windows: std::ops::Range<usize>, draw: Key, rate: f32) {
        let (around, targets, stride, adds) = (self.around, self.targets, self.stride, self.adds);
        let input = self.input.par_chunks_mut(TASK * around).zip(self.output.par_chunks_mut(TASK * targets));
        let added = self.input_add.par_chunks_mut(TASK * adds * stride);
        let added = added.zip(self.output_add.par_chunks_mut(TASK * targets * stride));
        let tasks = windows.len().div_ceil(TASK);
        input.zip(added).take(tasks).enumerate().for_each(|(task, ((input, output), (input_add, output_add)))| {
            let from = windows.start + task * TASK;
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    let mut errors = [0f32; WIDEST * WIDEST];
                    // All windows of the task choose first, so that the rows of one are on their way while another learns.
                    let (mut around_of, mut ready) = ([0; TASK], 0.0);
                    let places = from..(from + TASK).min(windows.end);
                    for (i, at) in places.clone().enumerate() {
                        let (input, output) =
                            (&mut input[i * around..][..around], &mut output[i * targets..][..targets]);
                        around_of[i] = choose(net, kept, at, draw, input, output);
                        ready +=
                            output.iter().filter(|row| **row != NONE).map(|row| touch(net.target(*row))).sum::<f32>();
                    }
                    std::hint::black_box(ready);
                    for i in 0..places.len() {
                        let window = Window {
                            input: &input[i * around..][..around_of[i]],
                            output: &output[i * targets..][..targets],
                            input_add: &mut input_add[i * adds * stride..][..adds * stride],
                            output_add: &mut output_add[i * targets * stride..][..targets * stride],
                        };
                        window.learn(net, &mut errors, rate);
                    }
                },
            );
        });
    }
}

/// Draws how wide the window is and which words stand against it; how many words are around.
#[inline(always)]
fn choose(net: &Net, kept: &[Kept], at: usize, draw: Key, input: &mut [u32], output: &mut [u32]) -> usize {
    let Kept { row, sentence, place } = kept[at];
    let blocks = (net.how.negative as u64 + 1).div_ceil(4);
    let mut words = draw.block(place * blocks);
    let reach = 1 + ((u64::from(words[0]) * net.how.window as u64) >> 32) as usize;
    output[0] = row;
    for k in 1..output.len() {
        if k % 4 == 0 {
            words = draw.block(place * blocks + k as u64 / 4);
        }
        let drawn = net.drawn.at(words[k % 4]);
        output[k] = if drawn == row { NONE } else { drawn };
    }
    let mut n = 0;
    for other in at.saturating_sub(reach)..(at + reach + 1).min(kept.len()) {
        if other != at && kept[other].sentence == sentence {
            input[n] = kept[other].row;
            n += 1;
        }
    }
    input[n..].fill(NONE);
    if n == 0 {
        output.fill(NONE);
    }
    n
}

/// The places of one window in its group.
struct Window<'a> {
    /// the words around
    input: &'a [u32],
    /// the word and those drawn against it
    output: &'a [u32],
    input_add: &'a mut [Lane],
    output_add: &'a mut [Lane],
}

impl Window<'_> {
    /// What is to be added; `errors` is room to write in.
    #[inline(always)]
    fn learn(self, net: &Net, errors: &mut [f32; WIDEST * WIDEST], rate: f32) {
        let (stride, n, m) = (net.stride, self.input.len(), self.output.len());
        if n == 0 {
            return;
        }
        let inputs = rows_of(&net.input, self.input, stride);
        let targets = rows_of(&net.output, self.output, stride);
        let (inputs, targets) = (&inputs[..n], &targets[..m]);
        // A drawn word that is the word itself counts for nothing: its error is 0.
        let error = |score: f32, j: usize| match self.output[j] {
            NONE => 0.0,
            _ => rate * (f32::from(j == 0) - net.sigmoid.at(score)),
        };
        match net.how.architecture {
            Architecture::SkipGram => {
                for (i, x) in inputs.iter().enumerate() {
                    let errors = &mut errors[i * m..][..m];
                    scores(x, targets, errors);
                    errors.iter_mut().enumerate().for_each(|(j, e)| *e = error(*e, j));
                    combine(&mut self.input_add[i * stride..][..stride], targets, |j| errors[j]);
                }
                for (j, out) in self.output_add.chunks_exact_mut(stride).enumerate() {
                    combine(out, inputs, |i| errors[i * m + j]);
                }
            }
            Architecture::Cbow => {
                // The mean stands where its own change will stand, until it has been read for the last time.
                let share = 1.0 / n as f32;
                combine(self.input_add, inputs, |_| share);
                let errors = &mut errors[..m];
                scores(self.input_add, targets, errors);
                errors.iter_mut().enumerate().for_each(|(j, e)| *e = error(*e, j));
                for (j, out) in self.output_add.chunks_exact_mut(stride).enumerate() {
                    combine(out, &[&*self.input_add], |_| errors[j]);
                }
                combine(self.input_add, targets, |j| errors[j]);
            }
        }
    }
}

/// The rows at these places; where there is none, any row.
#[inline(always)]
fn rows_of<'a>(table: &'a [Lane], places: &[u32], stride: usize) -> [&'a [Lane]; WIDEST] {
    let mut rows = [&table[..stride]; WIDEST];
    for (row, place) in rows.iter_mut().zip(places).filter(|(_, place)| **place != NONE) {
        *row = &table[*place as usize * stride..][..stride];
    }
    rows
}

/// `x·tⱼ` for any number of rows, three at a time.
#[inline(always)]
fn scores(x: &[Lane], targets: &[&[Lane]], out: &mut [f32]) {
    for (targets, out) in targets.chunks(3).zip(out.chunks_mut(3)) {
        match targets {
            [a, b, c] => out.copy_from_slice(&dots(x, [a, b, c])),
            [a, b] => out.copy_from_slice(&dots(x, [a, b])),
            [a] => out.copy_from_slice(&dots(x, [a])),
            _ => {}
        }
    }
}

impl Net {
    /// The row of t at this place.
    #[inline(always)]
    fn target(&self, place: u32) -> &[Lane] {
        &self.output[place as usize * self.stride..][..self.stride]
    }

    /// Every part of a table adds what is for its rows, window after window.
    fn apply(&mut self, group: &Group, windows: usize) {
        let (stride, adds, around) = (self.stride, group.adds, group.around);
        let part = (self.input.len() / stride).div_ceil(rayon::current_num_threads()) * stride;
        let input = &group.input[..windows * around];
        let output = &group.output[..windows * group.targets];
        let of_input = |slot: usize| if adds == 1 { slot / around } else { slot };
        let tables = self.input.par_chunks_mut(part).enumerate().map(|(i, rows)| (i, rows, true));
        let tables = tables.chain(self.output.par_chunks_mut(part).enumerate().map(|(i, rows)| (i, rows, false)));
        tables.for_each(|(i, rows, is_input)| {
            let first = i * part / stride;
            let mine = first as u32..(first + rows.len() / stride) as u32;
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    let (slots, added) = if is_input { (input, &group.input_add) } else { (output, &group.output_add) };
                    for (slot, row) in slots.iter().enumerate().filter(|(_, row)| mine.contains(row)) {
                        let from = if is_input { of_input(slot) } else { slot };
                        add(&mut rows[(*row as usize - first) * stride..][..stride], &added[from * stride..][..stride]);
                    }
                },
            );
        });
    }
}
