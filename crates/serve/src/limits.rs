//! Bounds: everything that a stranger can make large has one.

use std::time::Duration;

/// How much of everything is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// bytes of a request's body
    pub body_bytes: usize,
    /// bytes of a request's head
    pub header_bytes: usize,
    /// how long the head of a request may take to come
    pub header_timeout: Duration,
    /// how long its body may take
    pub body_timeout: Duration,
    /// how long a request may take in all
    pub request_timeout: Duration,
    /// connections at once
    pub connections: usize,
    /// rows that a model computes side by side: texts, or beams of texts
    pub rows: usize,
    /// tokens that a row may come to hold, where the network itself has no smaller context
    pub row_tokens: usize,
    /// bytes of keys and values that the rows of one model may hold together
    pub cache_bytes: u64,
    /// bytes of keys and values of ended requests that a model keeps for those who begin alike; 0: none
    pub prefix_bytes: u64,
    /// requests of a model that wait for a row
    pub queue: usize,
    /// tokens of prompts that are read in one step beside rows that speak
    pub prefill_chunk: usize,
    /// adapters of a model at once
    pub adapters: usize,
    /// texts in one request
    pub inputs: usize,
    /// how long running requests may go on once the server was asked to end
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 2_000_000,
            header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(300),
            connections: 16_384,
            rows: 32,
            row_tokens: 32_768,
            cache_bytes: 2 << 30,
            prefix_bytes: 256 << 20,
            queue: 256,
            prefill_chunk: 32,
            adapters: 64,
            inputs: 2048,
            grace: Duration::from_secs(30),
        }
    }
}
