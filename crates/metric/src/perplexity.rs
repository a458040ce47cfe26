//! How surprised a language model is: per token, which only compares models with one tokenizer, and per byte, which
//! compares any two.
//!
//! ```text
//! perplexity = exp(Σ −ln p(token) / tokens)        bits per byte = Σ −ln p(token) / (ln 2 · bytes)
//! ```

use serde::Serialize;

/// Sums that perplexities are made of; parts of a corpus add up.
///
/// ```
/// use qkv_metric::Perplexity;
/// // A fair coin per token, two bytes each.
/// let coin = Perplexity { nll: 10.0 * 2f64.ln(), tokens: 10, bytes: 20 };
/// assert!((coin.per_token().unwrap() - 2.0).abs() < 1e-12);
/// assert!((coin.bits_per_byte().unwrap() - 0.5).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Perplexity {
    /// negative log-likelihood of all tokens, in nats
    pub nll: f64,
    /// how many tokens were predicted
    pub tokens: u64,
    /// how many bytes of text they spell
    pub bytes: u64,
}

impl Perplexity {
    /// Adds another part.
    pub fn add(&mut self, part: Self) {
        self.nll += part.nll;
        self.tokens += part.tokens;
        self.bytes += part.bytes;
    }

    /// Mean loss per token in nats; `None` where nothing was predicted.
    pub fn loss(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.nll / self.tokens as f64)
    }

    /// Perplexity per token.
    pub fn per_token(&self) -> Option<f64> {
        self.loss().map(f64::exp)
    }

    /// Perplexity per byte.
    pub fn per_byte(&self) -> Option<f64> {
        (self.bytes > 0).then(|| (self.nll / self.bytes as f64).exp())
    }

    /// Bits per byte: what a compressor built on the model would write.
    pub fn bits_per_byte(&self) -> Option<f64> {
        self.per_byte().map(f64::log2)
    }

    /// A row for [`crate::interval`]: `[nll, tokens, bytes]`.
    pub fn row(&self) -> Vec<f64> {
        vec![self.nll, self.tokens as f64, self.bytes as f64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let mut whole = Perplexity::default();
        assert_eq!((whole.per_token(), whole.per_byte()), (None, None));
        whole.add(Perplexity { nll: 3.0, tokens: 1, bytes: 4 });
        whole.add(Perplexity { nll: 1.0, tokens: 3, bytes: 4 });
        assert_eq!(whole.loss(), Some(1.0));
        assert_eq!(whole.per_byte(), Some(0.5f64.exp()));
        assert_eq!(whole.row(), [4.0, 4.0, 8.0]);
    }

    #[test]
    fn a_hopeless_model_is_infinite_and_not_a_panic() {
        assert_eq!(Perplexity { nll: f64::INFINITY, tokens: 1, bytes: 1 }.per_token(), Some(f64::INFINITY));
    }
}
