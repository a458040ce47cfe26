//! `qkv serve` under many connections and for a long time: for the slow tier.
//!
//! `QKV_SOAK_SECONDS` says how long the mixed load lasts (60 where it is not set), `QKV_SOAK_CLIENTS` how many ask (8).
#![cfg(all(target_os = "linux", feature = "serve"))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tiny");

/// A server in a process of its own, so that its files and its memory are its own.
struct Serving {
    child: Child,
    at: String,
}

impl Serving {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
        command.arg("serve").args(args).args(["--port", "0"]).env("NO_COLOR", "1").stderr(Stdio::piped());
        let mut child = command.spawn().expect("qkv");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let at = loop {
            let line = lines.next().expect("a line").expect("text");
            if let Some(rest) = line.strip_prefix("listening on http://") {
                break rest.split(',').next().expect("an address").to_string();
            }
        };
        // Somebody has to read what it says, or it would stop saying it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, at }
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.at)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    fn head(&self, method: &str, path: &str, length: usize) -> String {
        let at = &self.at;
        format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
    }

    /// Status and body of an answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
        let mut stream = self.connect().map_err(|e| e.to_string())?;
        let request = self.head(method, path, body.len()) + body;
        stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
        read(stream)
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.ask("GET", "/metrics", "").expect("counters");
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')).expect("the counter");
        line.trim().parse().expect("a number")
    }

    /// Kilobytes that the process holds in memory.
    fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut stream: TcpStream) -> Result<(u16, String), String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|e| e.to_string())?;
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or("no status")?;
    Ok((status, text))
}

const ASK: &str = r#"{"prompt": [5, 6, 7], "max_tokens": 8, "temperature": 0, "return_token_ids": true}"#;

#[test]
#[ignore = "opens eleven thousand connections"]
fn ten_thousand_idle_and_a_thousand_slow_connections_are_held_while_answers_go_on() {
    let server = Serving::start(&[&format!("{TINY}/gpt2")]);
    let (_, want) = server.ask("POST", "/v1/completions", ASK).expect("an answer");
    let ids = |text: &str| text.split("\"token_ids\":").nth(1).map(|t| t.split(']').next().unwrap_or("").to_string());
    // Idle ones: as many as this process may open, ten thousand at most.
    let mut idle = vec![];
    while idle.len() < 10_000 {
        match server.connect() {
            Ok(stream) => idle.push(stream),
            Err(e) => {
                println!("{} idle connections, then: {e}", idle.len());
                idle.truncate(idle.len().saturating_sub(1016)); // room for the slow ones and for the requests below
                break;
            }
        }
    }
    // Slow ones: a head, and then a byte of the body now and then.
    let head = server.head("POST", "/v1/completions", ASK.len());
    let mut slow = vec![];
    for _ in 0..1000 {
        let mut stream = server.connect().expect("a slow connection");
        stream.write_all(head.as_bytes()).expect("a head");
        slow.push(stream);
    }
    // The kernel says "connected" before the server has taken the connection up: it is given time to.
    let opened = idle.len() + slow.len();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut held = server.metric("qkv_connections") as usize;
    while held < opened && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
        held = server.metric("qkv_connections") as usize;
    }
    assert!(held >= opened, "{held} of {opened} are held");
    let (mut sent, mut times) = (0, vec![]);
    for _ in 0..40 {
        for stream in &mut slow {
            stream.write_all(&ASK.as_bytes()[sent..sent + 1]).expect("a byte");
        }
        sent += 1;
        let began = Instant::now();
        let (status, text) = server.ask("POST", "/v1/completions", ASK).expect("an answer beside them");
        times.push(began.elapsed());
        assert_eq!((status, ids(&text)), (200, ids(&want)));
    }
    times.sort();
    println!(
        "{} idle and {} slow connections; an answer beside them took {:?} in the middle and {:?} at most; {} MB",
        idle.len(),
        slow.len(),
        times[times.len() / 2],
        times[times.len() - 1],
        server.memory() / 1024
    );
    // The slow ones are answered, once they have said all.
    for stream in slow.iter_mut().take(20) {
        stream.write_all(&ASK.as_bytes()[sent..]).expect("the rest");
    }
    for stream in slow.into_iter().take(20) {
        let (status, text) = read(stream).expect("an answer to a slow one");
        assert_eq!((status, ids(&text)), (200, ids(&want)));
    }
}

/// An adapter for the tiny GPT-2, in PEFT's format.
fn write_adapter(out: &std::path::Path) {
    use qkv_model::{Pretrained, count, pretrained::fill};
    let it = Pretrained::load(format!("{TINY}/gpt2").as_ref(), &burn::tensor::Device::flex().autodiff()).expect("gpt2");
    let size = qkv_nn::LoraSize { rank: 2, alpha: 4.0, dropout: 0.0 };
    let adapted = it.model.clone().with_lora(&["q", "v"], size, 1).expect("an adapter");
    let some = count::parameters(&adapted).into_iter().filter(|p| p.path.ends_with("lora.b"));
    let noise = some.map(|p| (p.path.clone(), vec![0.1; p.elements() as usize])).collect();
    let about = qkv_train::adapter::About { base: "gpt2".into(), rank: 2, alpha: 4.0, dropout: 0.0 };
    std::fs::create_dir_all(out).expect("a directory");
    qkv_train::adapter::save(&it, &fill(adapted, noise), &about, out).expect("its files");
}

/// Requests of every kind, good and bad, and clients that go away; each with the status that it must have.
fn mixed(server: &Serving, number: u64) -> Result<(), String> {
    let n = number as usize;
    let ids = format!("[{}, {}, {}]", 5 + n % 80, 6 + n % 70, 7 + n % 60);
    let (path, body, want) = match number % 12 {
        // Long prompts, some of which begin alike, more than are kept.
        9 | 10 => {
            let (kind, last) = (n / 12 % 300, n % 90);
            let prompt: Vec<String> = (0..30).map(|i| (5 + (i * 7 + kind * 13) % 85).to_string()).collect();
            let prompt = format!("[{}, {}]", prompt.join(", "), 5 + last);
            let model = if number % 24 < 12 { "gpt2" } else { "gpt2+shy" };
            let body = format!(r#"{{"model": "{model}", "prompt": {prompt}, "max_tokens": 8, "temperature": 0}}"#);
            // The adapter comes and goes.
            let (status, text) = server.ask("POST", "/v1/completions", &body)?;
            let gone = model != "gpt2" && status == 404;
            return if gone || status == 200 { Ok(()) } else { Err(format!("{body}: {status}, {text}")) };
        }
        11 if number % 60 == 11 => {
            // Of several who put it in one is the first, and so it is with taking it out.
            let verb = if number % 120 == 11 { "load" } else { "unload" };
            let (status, text) = server.ask("POST", &format!("/v1/{verb}_lora_adapter"), r#"{"lora_name": "shy"}"#)?;
            return if [200, 400, 404].contains(&status) { Ok(()) } else { Err(format!("{verb}: {status}, {text}")) };
        }
        0 => {
            ("/v1/completions", format!(r#"{{"model": "gpt2", "prompt": {ids}, "max_tokens": 24, "seed": {n}}}"#), 200)
        }
        1 => (
            "/v1/completions",
            format!(r#"{{"model": "gpt2", "prompt": {ids}, "max_tokens": 16, "stream": true, "temperature": 0}}"#),
            200,
        ),
        2 => ("/v1/completions", format!(r#"{{"model": "gpt2", "prompt": {ids}, "beam": 3, "max_tokens": 12}}"#), 200),
        3 => (
            "/v1/completions",
            format!(r#"{{"model": "gpt2", "prompt": {ids}, "echo": true, "logprobs": 2, "max_tokens": 1}}"#),
            200,
        ),
        4 => ("/v1/completions", format!(r#"{{"model": "marian", "prompt": {ids}, "max_tokens": 8, "n": 2}}"#), 200),
        5 => ("/v1/completions", r#"{"model": "gpt2", "prompt": [99999]}"#.to_string(), 400),
        6 => ("/v1/completions", r#"{"model": "nobody", "prompt": "x"}"#.to_string(), 404),
        7 => ("/v1/see", format!(r#"{{"model": "gpt2", "input": {ids}, "views": ["maps"]}}"#), 200),
        8 => ("/v1/completions", "{{{{".to_string(), 400),
        _ => {
            // Goes away after the first bytes of the answer.
            let body = format!(
                r#"{{"model": "gpt2", "prompt": {ids}, "max_tokens": 50, "stream": true, "ignore_eos": true}}"#
            );
            let mut stream = server.connect().map_err(|e| e.to_string())?;
            let request = server.head("POST", "/v1/completions", body.len()) + &body;
            stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
            let mut some = [0; 64];
            let got = stream.read(&mut some).map_err(|e| e.to_string())?;
            return if got > 0 { Ok(()) } else { Err("no answer began".into()) };
        }
    };
    let (status, text) = server.ask("POST", path, &body)?;
    // One looks at a time; who comes meanwhile is told so.
    let busy = path == "/v1/see" && status == 429;
    if busy || status == want && (status != 200 || !text.contains("\"error\"")) {
        return Ok(());
    }
    Err(format!("{path} {body}: {status}, {}", text.lines().last().unwrap_or_default()))
}

#[test]
#[ignore = "lasts as long as QKV_SOAK_SECONDS says, a minute where it says nothing"]
fn a_long_mixed_load_has_no_failures_and_flat_memory() {
    let seconds = std::env::var("QKV_SOAK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60);
    let clients = std::env::var("QKV_SOAK_CLIENTS").ok().and_then(|s| s.parse().ok()).unwrap_or(8);
    let adapters = tempfile::tempdir().expect("a directory");
    write_adapter(&adapters.path().join("shy"));
    let adapters = adapters.path().display().to_string();
    let models = [format!("{TINY}/gpt2"), format!("{TINY}/marian")];
    let server = Serving::start(&[&models[0], &models[1], "--adapters", &adapters, "--prefix-cache", "1"]);
    let (began, numbers) = (Instant::now(), AtomicU64::new(0));
    let end = Duration::from_secs(seconds);
    let mut memory = vec![];
    let failures: Vec<String> = std::thread::scope(|scope| {
        let client = || {
            let mut failed = vec![];
            while began.elapsed() < end {
                if let Err(why) = mixed(&server, numbers.fetch_add(1, Relaxed)) {
                    failed.push(why);
                }
            }
            failed
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        while began.elapsed() < end {
            std::thread::sleep(Duration::from_millis(500));
            memory.push(server.memory());
        }
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    // The first third is warm-up; then the mean of one third is compared with that of the next.
    let third = memory.len() / 3;
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let (before, after) = (mean(&memory[third..2 * third]), mean(&memory[2 * third..]));
    println!(
        "{clients} clients, {} requests in {seconds} s, {} failures; memory {:.1} MB, then {:.1} MB ({:+.2} %), {:.1} MB at most",
        numbers.load(Relaxed),
        failures.len(),
        before / 1024.0,
        after / 1024.0,
        100.0 * (after / before - 1.0),
        memory.iter().copied().max().unwrap_or(0) as f64 / 1024.0
    );
    assert!(failures.is_empty(), "{} failures, the first: {}", failures.len(), failures[0]);
    assert!(after <= before * 1.02, "memory grew from {before:.0} to {after:.0} kB");
    assert_eq!(server.metric("qkv_panics_total"), 0);
}
