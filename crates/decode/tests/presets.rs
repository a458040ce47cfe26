//! The presets give their tools' answers. transformers' stand in `golden.rs`; here llama.cpp's and KoboldCpp's samplers are
//! written down once more the way those tools work, on a list of candidates that is sorted and cut short, and run in the tools' order.

use qkv_base::Key;
use qkv_decode::{History, Preset, Row};

/// Candidates as the tools hold them.
struct List(Vec<(u32, f64)>);

impl List {
    fn of(logits: &[f32]) -> Self {
        List((0..).zip(logits.iter().map(|x| *x as f64)).collect())
    }

    fn sort(&mut self) {
        self.0.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    }

    fn probabilities(&mut self) -> Vec<f64> {
        self.sort();
        let weights: Vec<f64> = self.0.iter().map(|(_, x)| (x - self.0[0].1).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    fn penalties(&mut self, said: &[u32], last: usize, repeat: f64, frequency: f64, presence: f64) {
        let said = &said[said.len().saturating_sub(last)..];
        for (id, x) in &mut self.0 {
            let count = said.iter().filter(|other| *other == id).count() as f64;
            if count > 0.0 {
                *x = if *x <= 0.0 { *x * repeat } else { *x / repeat } - count * frequency - presence;
            }
        }
    }

    fn top_k(&mut self, k: usize) {
        self.sort();
        self.0.truncate(k);
    }

    fn top_n_sigma(&mut self, n: f64) {
        let count = self.0.len() as f64;
        let mean = self.0.iter().map(|c| c.1).sum::<f64>() / count;
        let deviation = (self.0.iter().map(|c| (c.1 - mean).powi(2)).sum::<f64>() / count).sqrt();
        self.sort();
        let floor = self.0[0].1 - n * deviation;
        self.0.retain(|c| c.1 >= floor);
    }

    fn typical(&mut self, p: f64) {
        let probabilities = self.probabilities();
        let entropy: f64 = probabilities.iter().map(|p| -p * p.ln()).sum();
        let mut all: Vec<_> =
            probabilities.iter().zip(&self.0).map(|(p, c)| ((-p.ln() - entropy).abs(), *p, *c)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let last = all.iter().position(|c| {
            sum += c.1;
            sum > p
        });
        self.0 = all[..last.map_or(all.len(), |i| i + 1)].iter().map(|c| c.2).collect();
    }

    fn top_p(&mut self, p: f64) {
        let mut sum = 0.0;
        let last = self.probabilities().iter().position(|q| {
            sum += q;
            sum >= p
        });
        self.0.truncate(last.map_or(self.0.len(), |i| i + 1));
    }

    fn min_p(&mut self, p: f64) {
        self.sort();
        let floor = self.0[0].1 + p.ln();
        self.0.retain(|c| c.1 >= floor);
    }

    fn top_a(&mut self, a: f64) {
        let probabilities = self.probabilities();
        let keep = probabilities.iter().filter(|p| **p >= a * probabilities[0].powi(2)).count();
        self.0.truncate(keep.max(1));
    }

    fn tail_free(&mut self, z: f64) {
        let p = self.probabilities();
        if p.len() < 3 {
            return;
        }
        let first: Vec<f64> = p.windows(2).map(|w| w[0] - w[1]).collect();
        let second: Vec<f64> = first.windows(2).map(|w| (w[0] - w[1]).abs()).collect();
        let (total, mut sum) = (second.iter().sum::<f64>(), 0.0);
        for (i, bend) in second.iter().enumerate() {
            sum += bend / total;
            if sum > z && i >= 1 {
                self.0.truncate(i);
                return;
            }
        }
    }

    fn temperature(&mut self, t: f64) {
        self.0.iter_mut().for_each(|c| c.1 /= t);
    }

    fn smooth(&mut self, factor: f64, curve: f64) {
        self.sort();
        let high = self.0[0].1;
        let (k, s) = ((3.0 - curve) / 2.0, (curve - 1.0) / 2.0);
        for (_, x) in &mut self.0 {
            let d = *x - high;
            *x = -(k * factor * d * d) + s * factor * d * d * d + high;
        }
    }
}

const VOCABULARY: usize = 120;

/// Both on 300 rows: the same tokens left, the same probabilities.
fn agree(preset: Preset, flags: &[&str], tool: impl Fn(&mut List, &[u32])) {
    let chain = preset.with(flags).unwrap();
    for row in 0..300 {
        let key = Key::new(9, row, 0);
        let logits: Vec<f32> = key.normals(VOCABULARY).iter().map(|x| x * 2.5).collect();
        let said: Vec<u32> = (0..400).map(|i| key.child(1).below(i, VOCABULARY - 20) as u32).collect();
        let mut list = List::of(&logits);
        tool(&mut list, &said);
        let want = list.probabilities();

        let mut ours = Row::of(&logits).unwrap();
        chain.apply(&mut ours, &History { prompt: &said, ..History::default() }).unwrap();
        let ids: Vec<u32> = list.0.iter().map(|c| c.0).collect();
        assert_eq!(ours.ranked(VOCABULARY), ids, "{preset}: {chain} on row {row}");
        let scale = ours.scale();
        for (id, want) in ids.iter().zip(want) {
            let got = scale.probability(ours.logit(*id));
            assert!((got - want).abs() < 1e-5 * want.max(1e-2), "{preset}: {chain} on row {row}: {got}, not {want}");
        }
    }
}

#[test]
fn llama_cpps_answer() {
    agree(Preset::LlamaCpp, &[], |list, _| {
        list.top_k(40);
        list.top_p(0.95);
        list.min_p(0.05);
        list.temperature(0.8);
    });
    let flags = [
        "temperature 1.4",
        "min_p 0.02",
        "typical 0.7",
        "repetition_penalty 1.3",
        "frequency_penalty 0.2",
        "presence_penalty 0.3",
        "top_n_sigma 1.8",
        "top_k 25",
    ];
    agree(Preset::LlamaCpp, &flags, |list, said| {
        list.penalties(said, 64, 1.3, 0.2, 0.3);
        list.top_n_sigma(1.8);
        list.top_k(25);
        list.typical(0.7);
        list.top_p(0.95);
        list.min_p(0.02);
        list.temperature(1.4);
    });
}

#[test]
fn koboldcpps_answer() {
    agree(Preset::Kobold, &[], |list, _| {
        list.top_k(100);
        list.top_p(0.92);
        list.temperature(0.75);
    });
    let flags = [
        "rep_pen 1.2",
        "presence_penalty 0.1",
        "top_k 60",
        "top_a 0.05",
        "tfs 0.97",
        "typical 0.95",
        "min_p 0.01",
        "smoothing 0.3 curve=1.5",
        "temperature 1.1",
        "nsigma 2",
    ];
    agree(Preset::Kobold, &flags, |list, said| {
        list.penalties(said, 320, 1.2, 0.0, 0.1);
        list.top_k(60);
        list.top_a(0.05);
        list.tail_free(0.97);
        list.typical(0.95);
        list.top_p(0.92);
        list.min_p(0.01);
        list.temperature(1.1);
        list.smooth(0.3, 1.5);
        list.top_n_sigma(2.0);
    });
}

/// The same flags, other orders, other tokens: temperature before top_p in one tool and after it in the other.
#[test]
fn the_presets_differ() {
    let flags = ["temperature 3", "top_k 50", "top_p 0.6", "min_p 0"];
    let left = |preset: Preset| {
        let mut row = Row::of(&Key::new(9, 1, 0).normals(VOCABULARY)).unwrap();
        preset.with(&flags).unwrap().apply(&mut row, &History::default()).unwrap();
        row.alive().len()
    };
    assert!(left(Preset::Hf) > left(Preset::LlamaCpp));
}
