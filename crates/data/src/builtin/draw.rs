//! Choices read off one key, one after the other, and the ledger of combinations that training must not see.
//!
//! Every generator is a function of a [`Draw`] alone. Whether a combination of two words belongs to the compositional
//! test is decided by a hash of the two words, never by the seed: what one seed holds out, no other seed trains on.

use qkv_base::Key;

/// One in this many combinations is kept for the compositional test.
const HELD_OUT: u64 = 24;

/// A reader of random choices.
pub(super) struct Draw {
    key: Key,
    next: u64,
    words: [u32; 4],
    /// whether a combination that is kept from training has been used
    pub(super) novel: bool,
}

impl Draw {
    pub(super) fn new(key: Key) -> Self {
        Self { key, next: 0, words: [0; 4], novel: false }
    }

    /// The next 32 random bits; Philox gives four words at a time.
    pub(super) fn word(&mut self) -> u32 {
        let place = (self.next % 4) as usize;
        if place == 0 {
            self.words = self.key.block(self.next / 4);
        }
        self.next += 1;
        self.words[place]
    }

    /// A whole number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        ((self.word() as u64 * n as u64) >> 32) as usize
    }

    /// A whole number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f32 {
        qkv_base::random::unit(self.word())
    }

    /// True `percent` times in a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, each as likely.
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// One of `choices`, each as likely as its weight says.
    pub(super) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for &(weight, choice) in choices {
            if left < weight {
                return choice;
            }
            left -= weight;
        }
        choices[0].1
    }

    /// Two different ones of `choices`.
    pub(super) fn two<T: Copy>(&mut self, choices: &[T]) -> (T, T) {
        let first = self.below(choices.len());
        let second = (first + 1 + self.below(choices.len() - 1)) % choices.len();
        (choices[first], choices[second])
    }

    /// Notes that `a` and `b` stand together here.
    pub(super) fn join(&mut self, a: &str, b: &str) {
        self.novel |= held_out(a, b);
    }
}

/// Whether the combination of `a` and `b` is kept for the compositional test.
pub(super) fn held_out(a: &str, b: &str) -> bool {
    hash(&[a, b]).is_multiple_of(HELD_OUT)
}

/// A hash that is the same on every machine and in every release: FNV-1a, then a finisher that mixes the high bits down.
pub(super) fn hash(parts: &[&str]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for &byte in part.as_bytes() {
            h = (h ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        }
        h = (h ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3); // no UTF-8 text holds this byte: parts do not run together
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_eq!(hash(&["ab", "c"]), hash(&["ab", "c"]));
    }

    #[test]
    fn weights_are_kept_and_two_differ() {
        let mut draw = Draw::new(Key::new(1, 0, 0));
        let heavy = (0..4000).filter(|_| draw.weighted(&[(3, true), (1, false)])).count();
        assert!((2850..3150).contains(&heavy), "{heavy} of 4000");
        assert!((0..100).all(|_| {
            let (a, b) = draw.two(&[1, 2, 3]);
            a != b
        }));
        assert!((0..100).all(|_| (3..=5).contains(&draw.between(3, 5))));
    }

    #[test]
    fn about_one_combination_in_twenty_four_is_held_out() {
        let words: Vec<String> = (0..100).map(|i| format!("w{i}")).collect();
        let held = words.iter().flat_map(|a| words.iter().map(move |b| held_out(a, b))).filter(|&h| h).count();
        assert!((340..500).contains(&held), "{held} of 10,000");
    }
}
