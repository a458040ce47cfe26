//! What the server has done, counted, in the text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets of times, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Counters of the whole server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// answers by path and status
    answers: Mutex<BTreeMap<(String, u16), u64>>,
    /// tokens of prompts that were read
    pub prompt_tokens: AtomicU64,
    /// tokens that were said
    pub completion_tokens: AtomicU64,
    /// requests whose client went away
    pub cancelled: AtomicU64,
    /// panics that were caught
    pub panics: AtomicU64,
    /// requests refused because everything was taken
    pub refused: AtomicU64,
    /// adapters that were put in while serving
    pub adapters_loaded: AtomicU64,
    /// adapters that were taken out
    pub adapters_unloaded: AtomicU64,
    /// connections that are open
    pub connections: AtomicU64,
    /// from a request's arrival to its first token
    pub first_token: Histogram,
    /// between two tokens of a text
    pub between_tokens: Histogram,
}

/// Times in buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    /// One more time.
    pub fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        for (bucket, _) in self.buckets.iter().zip(BOUNDS).filter(|(_, bound)| seconds <= *bound) {
            bucket.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.micros.fetch_add(time.as_micros() as u64, Relaxed);
    }

    fn write(&self, name: &str, help: &str, out: &mut String) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {}", bucket.load(Relaxed));
        }
        let (count, sum) = (self.count.load(Relaxed), self.micros.load(Relaxed) as f64 / 1e6);
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
    }
}

/// A name, what it means, and where it is found.
type Gauge = (&'static str, &'static str, fn(&EngineLoad) -> u64);

/// What a model is doing right now.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineLoad {
    /// requests that were taken in and are not done
    pub pending: u64,
    /// rows that are computed side by side
    pub rows: u64,
    /// tokens that the rows hold
    pub tokens: u64,
    /// adapters that can be asked for
    pub adapters: u64,
    /// bytes of prompts that are kept for those who begin alike
    pub prefix_bytes: u64,
}

impl Metrics {
    /// One more answer.
    pub fn answered(&self, path: &str, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *answers.entry((path.to_string(), status)).or_default() += 1;
    }

    /// Everything as text; `loads` are those of the models by name.
    pub fn text(&self, loads: &[(String, EngineLoad)]) -> String {
        let mut out = String::new();
        let answers = self.answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ =
            writeln!(out, "# HELP qkv_requests_total Answers by path and status.\n# TYPE qkv_requests_total counter");
        for ((path, status), n) in answers.iter() {
            let _ = writeln!(out, "qkv_requests_total{{path=\"{path}\",status=\"{status}\"}} {n}");
        }
        let counters = [
            ("prompt_tokens_total", "Tokens of prompts that were read.", &self.prompt_tokens),
            ("completion_tokens_total", "Tokens that were said.", &self.completion_tokens),
            ("cancelled_total", "Requests whose client went away.", &self.cancelled),
            ("panics_total", "Panics that were caught.", &self.panics),
            ("refused_total", "Requests refused because everything was taken.", &self.refused),
            ("adapters_loaded_total", "Adapters that were put in while serving.", &self.adapters_loaded),
            ("adapters_unloaded_total", "Adapters that were taken out.", &self.adapters_unloaded),
        ];
        for (name, help, value) in counters {
            let _ = writeln!(
                out,
                "# HELP qkv_{name} {help}\n# TYPE qkv_{name} counter\nqkv_{name} {}",
                value.load(Relaxed)
            );
        }
        let _ = writeln!(out, "# HELP qkv_connections Connections that are open.\n# TYPE qkv_connections gauge");
        let _ = writeln!(out, "qkv_connections {}", self.connections.load(Relaxed));
        let gauges: [Gauge; 5] = [
            ("pending_requests", "Requests that were taken in and are not done.", |l| l.pending),
            ("rows", "Rows that are computed side by side.", |l| l.rows),
            ("cache_tokens", "Tokens that the rows hold.", |l| l.tokens),
            ("adapters", "Adapters that can be asked for.", |l| l.adapters),
            ("prefix_cache_bytes", "Bytes of prompts kept for those who begin alike.", |l| l.prefix_bytes),
        ];
        for (name, help, value) in gauges {
            let _ = writeln!(out, "# HELP qkv_{name} {help}\n# TYPE qkv_{name} gauge");
            for (model, load) in loads {
                let label = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
                let _ = writeln!(out, "qkv_{name}{{model=\"{label}\"}} {}", value(load));
            }
        }
        self.first_token.write("qkv_first_token_seconds", "From a request's arrival to its first token.", &mut out);
        self.between_tokens.write("qkv_between_tokens_seconds", "Between two tokens of a text.", &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_counter_and_cumulative_buckets() {
        let metrics = Metrics::default();
        metrics.answered("/health", 200);
        metrics.first_token.observe(Duration::from_millis(3));
        let text =
            metrics.text(&[("a\"b".into(), EngineLoad { pending: 2, rows: 1, tokens: 9, ..EngineLoad::default() })]);
        assert!(text.contains("qkv_requests_total{path=\"/health\",status=\"200\"} 1"));
        assert!(text.contains("qkv_first_token_seconds_bucket{le=\"0.0025\"} 0"));
        assert!(text.contains("qkv_first_token_seconds_bucket{le=\"0.005\"} 1"));
        assert!(text.contains("qkv_pending_requests{model=\"a\\\"b\"} 2"));
    }
}
