//! A load generator that speaks server-sent events: so many clients at once, each asking for one text after the other, and how
//! long everybody waited for the first token and for each next one.

use qkv_base::{Error, Kind, Result};
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What is asked.
#[derive(Clone, Debug)]
pub struct LoadTest {
    /// the server
    pub at: SocketAddr,
    /// the model, where not the first
    pub model: Option<String>,
    /// the key, where one is needed
    pub key: Option<String>,
    /// clients at once
    pub clients: usize,
    /// requests in all
    pub requests: usize,
    /// tokens of each prompt
    pub prompt: usize,
    /// tokens of each answer
    pub tokens: usize,
    /// ids go up to this
    pub vocabulary: usize,
    /// one more client asks beside them, whose prompts have so many tokens and whose answers one: what it does to the others
    pub beside: Option<usize>,
}

/// Times in milliseconds: half, nineteen of twenty, ninety-nine of a hundred were as fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// the middle
    pub p50: f64,
    /// 95 %
    pub p95: f64,
    /// 99 %
    pub p99: f64,
}

impl Percentiles {
    /// Those of some times (the nearest rank).
    ///
    /// ```
    /// let times = (1..=100).map(f64::from).collect();
    /// let p = qkv_serve::load::Percentiles::of(times);
    /// assert_eq!((p.p50, p.p95, p.p99), (50.0, 95.0, 99.0));
    /// ```
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct LoadTestReport {
    /// clients at once
    pub clients: usize,
    /// requests that were answered whole
    pub answered: usize,
    /// and those that were not
    pub failed: usize,
    /// why, the first of them
    pub failure: Option<String>,
    /// answers a second
    pub requests_per_s: f64,
    /// tokens a second, of all clients
    pub tokens_per_s: f64,
    /// from the request to the first token, in milliseconds
    pub first_token_ms: Percentiles,
    /// from one token to the next, in milliseconds
    pub between_tokens_ms: Percentiles,
}

/// When the tokens of one answer came.
struct Heard {
    began: Instant,
    tokens: Vec<Instant>,
}

/// Asks and measures. Blocks.
pub fn run(load: &LoadTest) -> Result<LoadTestReport> {
    let io = |e: std::io::Error| Error::read(load.at.to_string(), &e, "does the server run?").of_kind(Kind::Failed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io)?;
    runtime.block_on(async {
        let clients = load.clients.max(1);
        let beside = load.beside.map(|prompt| {
            let long = LoadTest { prompt, tokens: 1, ..load.clone() };
            tokio::spawn(async move {
                let mut number = load_number(&long);
                // What becomes of them is not measured; a server that refuses them says so to the others as well.
                while one(&long, number).await.is_ok() {
                    number += 1;
                }
            })
        });
        if beside.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await; // until the first of them is being read
        }
        let began = Instant::now();
        let mut tasks = vec![];
        for client in 0..clients {
            let load = load.clone();
            tasks.push(tokio::spawn(async move {
                let mut heard = vec![];
                for number in (client..load.requests).step_by(clients) {
                    heard.push(one(&load, number).await);
                }
                heard
            }));
        }
        let mut all = vec![];
        for task in tasks {
            all.extend(task.await.map_err(|e| Error::internal("load", e.to_string()))?);
        }
        let took = began.elapsed();
        if let Some(beside) = beside {
            beside.abort();
        }
        Ok(report(clients, all, took))
    })
}

/// The number of the first long prompt: no short one begins like it.
fn load_number(load: &LoadTest) -> usize {
    load.requests + 1
}

fn report(clients: usize, all: Vec<std::result::Result<Heard, String>>, took: Duration) -> LoadTestReport {
    let failure = all.iter().find_map(|heard| heard.as_ref().err().cloned());
    let asked = all.len();
    let good: Vec<Heard> = all.into_iter().flatten().collect();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let first = good.iter().filter_map(|h| Some(ms(*h.tokens.first()? - h.began))).collect();
    let between = good.iter().flat_map(|h| h.tokens.windows(2).map(|pair| ms(pair[1] - pair[0]))).collect();
    let tokens: usize = good.iter().map(|h| h.tokens.len()).sum();
    LoadTestReport {
        clients,
        answered: good.len(),
        failed: asked - good.len(),
        failure,
        requests_per_s: good.len() as f64 / took.as_secs_f64(),
        tokens_per_s: tokens as f64 / took.as_secs_f64(),
        first_token_ms: Percentiles::of(first),
        between_tokens_ms: Percentiles::of(between),
    }
}

/// One request; the words of what went wrong otherwise.
async fn one(load: &LoadTest, number: usize) -> std::result::Result<Heard, String> {
    let few = load.vocabulary.saturating_sub(3).max(1);
    let ids: Vec<usize> = (0..load.prompt.max(1))
        .map(|t| (3 + (number * load.prompt + t + 1) * 7919 % few) % load.vocabulary.max(1))
        .collect();
    let mut body = serde_json::json!({"prompt": ids, "max_tokens": load.tokens, "temperature": 0, "ignore_eos": true,
        "stream": true, "return_token_ids": true});
    if let Some(model) = &load.model {
        body["model"] = model.as_str().into();
    }
    let body = body.to_string();
    let key = load.key.as_ref().map_or(String::new(), |key| format!("authorization: Bearer {key}\r\n"));
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: close\r\n{key}content-length: {}\r\n\r\n",
        load.at,
        body.len()
    );
    let words = |e: std::io::Error| e.to_string();
    let began = Instant::now();
    let mut stream = TcpStream::connect(load.at).await.map_err(words)?;
    stream.set_nodelay(true).map_err(words)?;
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).await.map_err(words)?;
    let mut lines = BufReader::new(stream).lines();
    let status = lines.next_line().await.map_err(words)?.unwrap_or_default();
    if !status.contains(" 200 ") {
        return Err(status);
    }
    let mut tokens = vec![];
    while let Some(line) = lines.next_line().await.map_err(words)? {
        match line.strip_prefix("data: ") {
            Some("[DONE]") => return Ok(Heard { began, tokens }),
            Some(event) if event.starts_with("{\"error\"") => return Err(event.to_string()),
            // The last event of a text says why it ended and has no token.
            Some(event) if event.contains("\"token_ids\":[") => tokens.push(Instant::now()),
            _ => {}
        }
    }
    Err("the stream ended before it was whole".into())
}
