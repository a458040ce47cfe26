//! Learning in small: tasks that make their own examples, a training loop, and greedy decoding with a cache.
//!
//! All is a function of the seed. What is tested on is left out of training.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use qkv_kernels::{CrossEntropy, IGNORED, Ids, Key, Positions, cross_entropy};
use qkv_model::{CausalLm, Memory, Seq2Seq, Spec, Tokens, Transformer};
use qkv_nn::{Cache, Cx, mask};
use qkv_testkit::values;
use qkv_train::{Optimizer, Settings, refuse_unreached};
use std::collections::HashSet;
use std::time::Instant;

const PAD: u32 = 0;
/// Stands before every answer.
const START: u32 = 1;
/// Stands behind every answer.
const END: u32 = 2;
const DIGIT: u32 = 3;
/// Everything that can be said: the three marks, ten digits.
pub(crate) const VOCABULARY: usize = 13;
/// The most tokens of a question, and of an answer with its end.
const LONGEST: usize = 8;
/// The longest row of a decoder alone: question, start and answer.
pub(crate) const CONTEXT: usize = 2 * LONGEST + 2;

const SEED: u64 = 1;
const BATCH: usize = 64;
/// How many unseen examples are asked.
const ASKED: usize = 512;

/// What is to be learnt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// three to eight digits, the same again
    Copy,
    /// three to eight digits, backwards
    Reverse,
    /// two numbers of up to three digits, written with all three, and their sum in four, ones first: carrying goes from
    /// the ones to the thousands, and so can a decoder that writes in that order
    Add,
}

/// A question and its answer.
type Example = (Vec<u32>, Vec<u32>);

impl Task {
    /// Example `i` of the stream of step `step`.
    fn example(self, step: u64, i: usize) -> Example {
        let key = Key::new(SEED, step, i as u64);
        let digits = |n: u32| -> Vec<u32> { (1..=u64::from(n)).map(|j| DIGIT + key.word(j) % 10).collect() };
        match self {
            Self::Copy | Self::Reverse => {
                let question = digits(3 + key.word(0) % (LONGEST as u32 - 2));
                let mut answer = question.clone();
                if let Self::Reverse = self {
                    answer.reverse();
                }
                (question, answer)
            }
            Self::Add => {
                let question = digits(6);
                let number = |digits: &[u32]| digits.iter().fold(0, |n, d| 10 * n + d - DIGIT);
                let sum = number(&question[..3]) + number(&question[3..]);
                (question, (0..4).map(|place| DIGIT + sum / 10u32.pow(place) % 10).collect())
            }
        }
    }

    /// What is asked in the end: step 0 of the stream, each once.
    fn asked(self) -> Vec<Example> {
        let mut seen = HashSet::new();
        (0..).map(|i| self.example(0, i)).filter(|e| seen.insert(e.clone())).take(ASKED).collect()
    }
}

/// What came of it.
#[derive(Debug)]
#[allow(dead_code)] // printed
pub(crate) struct Outcome {
    steps: u64,
    seconds: f64,
    loss: f32,
    /// the share of unseen questions whose answer is right from its first token to its end
    pub(crate) right: f64,
}

/// Trains the network of `spec` on `task` for `steps` steps with the highest learning rate `rate`, and asks it.
pub(crate) fn learn(task: Task, spec: &Spec, steps: u64, rate: f32) -> Outcome {
    let clock = Instant::now();
    let asked = task.asked();
    let held_out: HashSet<&Example> = asked.iter().collect();
    let mut model = Transformer::new(spec, SEED, &Device::flex().autodiff()).expect("a valid spec");
    let mut optimizer = Optimizer::new(Settings { beta2: 0.98, clip: Some(1.0), ..Settings::default() });
    let mut loss = f32::NAN;
    for step in 1..=steps {
        let examples = (0..).map(|i| task.example(step, i)).filter(|e| !held_out.contains(e)).take(BATCH);
        let value = objective(&model, &examples.collect::<Vec<_>>(), &mut Cx::train(SEED, step));
        loss = value.clone().into_scalar();
        let grads = value.backward();
        if step == 1 {
            refuse_unreached(&model, &grads).expect("every parameter is reached");
        }
        model = optimizer.step(model, grads, rate * schedule(step, steps)).0;
    }
    let model = model.no_grad();
    let said = asked.chunks(BATCH).flat_map(|part| answers(&model, part));
    let right = said.zip(&asked).filter(|(said, (_, answer))| said == answer).count() as f64 / ASKED as f64;
    Outcome { steps, seconds: clock.elapsed().as_secs_f64(), loss, right }
}

/// Up in a straight line for a tenth of the steps, then down to zero along a cosine.
fn schedule(step: u64, steps: u64) -> f32 {
    let (step, steps) = (step as f32, steps as f32);
    let warm = steps / 10.0;
    match step < warm {
        true => step / warm,
        false => 0.5 + 0.5 * (std::f32::consts::PI * (step - warm) / (steps - warm)).cos(),
    }
}

/// Rows filled up to the longest with `fill` on the right.
fn rectangle<T: Copy>(rows: &[Vec<T>], fill: T) -> Vec<T> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat(fill)).take(width)).collect()
}

/// Rows of unequal length as a batch, padded on the right.
fn batch(rows: &[Vec<u32>]) -> Tokens {
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let width = lengths.iter().copied().max().unwrap_or(0);
    Tokens::new(Ids::new(rectangle(rows, PAD), rows.len())).with_padding(mask::from_lengths(&lengths, width))
}

fn sources(examples: &[Example]) -> Tokens {
    batch(&examples.iter().map(|(question, _)| [question.as_slice(), &[END]].concat()).collect::<Vec<_>>())
}

/// The cross-entropy of the answers and their ends. The question is given, not learnt: there the target is ignored.
fn objective(model: &Transformer, examples: &[Example], cx: &mut Cx) -> Tensor<1> {
    let pair = model.encoder.is_some();
    let given = |question: &Vec<u32>| if pair { vec![] } else { question.clone() };
    let input = |(q, a): &Example| [given(q), vec![START], a.clone()].concat();
    let target = |(q, a): &Example| {
        let ignored = vec![IGNORED; given(q).len()];
        [ignored, a.iter().chain([&END]).map(|id| i64::from(*id)).collect()].concat()
    };
    let targets = rectangle(&examples.iter().map(target).collect::<Vec<_>>(), IGNORED);
    let input = batch(&examples.iter().map(input).collect::<Vec<_>>());
    let logits = match pair {
        true => model.encode(&sources(examples), cx).and_then(|memory| model.decode(&input, &memory, cx)),
        false => model.logits(&input, cx),
    };
    let logits = logits.expect("an input that fits");
    let [b, t, v] = logits.dims();
    cross_entropy(logits.reshape([b * t, v]), &CrossEntropy::mean(targets))
}

/// What the network says to each question, greedily: up to its end, or as far as an answer may go.
fn answers(model: &Transformer, examples: &[Example]) -> Vec<Vec<u32>> {
    let mut cache = Cache::new(CONTEXT + 1);
    let memory = model.encoder.is_some().then(|| model.encode(&sources(examples), &mut Cx::eval()).expect("it fits"));
    let prompts: Vec<Vec<u32>> = match &memory {
        Some(_) => vec![vec![START]; examples.len()],
        None => examples.iter().map(|(q, _)| [q.as_slice(), &[START]].concat()).collect(),
    };
    let mut lengths: Vec<usize> = prompts.iter().map(Vec::len).collect();
    let width = lengths.iter().copied().max().unwrap_or(0);
    let mut real: Vec<Vec<bool>> =
        mask::from_lengths_left(&lengths, width).chunks(width).map(<[bool]>::to_vec).collect();
    let mut positions = mask::positions(&real.concat(), width);
    // Prompts end together, so that what is said next stands in one column.
    let fill = |row: &Vec<u32>| [vec![PAD; width - row.len()], row.clone()].concat();
    let mut next = prompts.iter().flat_map(fill).collect::<Vec<_>>();
    let mut said: Vec<Vec<u32>> = vec![vec![]; examples.len()];
    for _ in 0..=LONGEST {
        let tokens = Tokens::new(Ids::new(next, examples.len())).with_padding(real.concat());
        let cx = Cx::decode(&mut cache).with_positions(Positions::Each(positions.into()));
        next = best(model, &tokens, memory.as_ref(), cx);
        for (row, id) in said.iter_mut().zip(&next) {
            row.push(*id);
        }
        positions = lengths.clone();
        lengths.iter_mut().for_each(|n| *n += 1);
        real.iter_mut().for_each(|row| row.push(true));
    }
    said.iter().map(|row| row.iter().copied().take_while(|id| *id != END).collect()).collect()
}

/// The likeliest token after the last of each row.
fn best(model: &Transformer, tokens: &Tokens, memory: Option<&Memory>, mut cx: Cx) -> Vec<u32> {
    let logits = match memory {
        Some(memory) => model.decode(tokens, memory, &mut cx),
        None => model.logits(tokens, &mut cx),
    };
    let logits = logits.expect("an input that fits");
    let t = logits.dims()[1];
    let last = values(logits.narrow(1, t - 1, 1));
    let largest = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0) as u32;
    last.chunks(VOCABULARY).map(largest).collect()
}
