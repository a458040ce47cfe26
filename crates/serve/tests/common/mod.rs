//! A server on a free port over the tiny reference checkpoints, each with a tokenizer of single characters beside it, and a
//! client that speaks just enough HTTP to be rude.

#![allow(dead_code)] // each test file uses its own part

use qkv_serve::{Access, App, Limits, Metrics, Served, Server};
use qkv_tasks::TextModel;
use qkv_text::{Kind, Shape, TrainSpec, train};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::oneshot;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tiny");

/// Copies of the checkpoints with tokenizers, made once for all tests of a file.
static MODELS: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A tiny checkpoint with a tokenizer.
pub(crate) fn model_dir(name: &str, shape: Shape) -> PathBuf {
    let dir = MODELS.path().join(format!("{name}-{:?}", std::thread::current().id()));
    if dir.exists() {
        return dir;
    }
    std::fs::create_dir_all(&dir).unwrap();
    for file in ["config.json", "generation_config.json", "model.safetensors"] {
        let from = Path::new(TINY).join(name).join(file);
        if from.exists() {
            std::fs::copy(from, dir.join(file)).unwrap();
        }
    }
    if name != "vit" {
        let lines = [
            "the quick brown fox jumps over the lazy dog.",
            "Ada Lives In Rome? è 0123456789",
            "user assistant: <>{}[],\"-",
        ];
        let spec = TrainSpec { shape, vocab_size: 97, ..TrainSpec::new(Kind::Char) };
        train(lines.map(String::from), &spec, &mut |_| {}).unwrap().tokenizer.save(&dir).unwrap();
        let file = dir.join("tokenizer_config.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        // One of them knows tools, in as few tokens as may be: its context is short.
        let tools = if name == "llama" { "{% if tools %}{{ tools | length }}{% endif %}" } else { "" };
        let messages = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}>";
        config["chat_template"] = json!(format!("{tools}{messages}"));
        std::fs::write(&file, config.to_string()).unwrap();
    }
    dir
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) at: SocketAddr,
    pub(crate) app: Arc<App>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What the checkpoints are called, and what is put around their texts.
pub(crate) const ALL: [(&str, Shape); 8] = [
    ("gpt2", Shape::Gpt2),
    ("llama", Shape::Llama),
    ("marian", Shape::Marian),
    ("bert-classify", Shape::Bert),
    ("bert-tag", Shape::Bert),
    ("bert-answer", Shape::Bert),
    ("bert-mlm", Shape::Bert),
    ("vit", Shape::Plain),
];

impl Running {
    /// All checkpoints by the usual limits.
    pub(crate) fn all() -> Self {
        Self::with(&ALL, Limits::default(), Access::open(true))
    }

    /// GPT-2 alone.
    pub(crate) fn gpt2(limits: Limits) -> Self {
        Self::with(&ALL[..1], limits, Access::open(true))
    }

    pub(crate) fn with(names: &[(&str, Shape)], limits: Limits, access: Access) -> Self {
        let metrics = Arc::new(Metrics::default());
        let load = |(name, shape): &(&str, Shape)| {
            let model = Arc::new(TextModel::load(&model_dir(name, *shape)).unwrap());
            Served::new(*name, model, &limits, metrics.clone())
        };
        let models = names.iter().map(load).collect();
        Self::of(App::new(models, limits.clone(), metrics, access, false))
    }

    pub(crate) fn of(app: App) -> Self {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), app).unwrap();
        let (at, app) = (server.address().unwrap(), server.app.clone());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || server.run(async { drop(stopped.await) }).unwrap());
        Self { at, app, stop: Some(stop), thread: Some(thread) }
    }

    /// Asks the server to end, as SIGTERM does, without waiting.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends bytes as they are and reads one answer.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes); // the server may refuse before it has read all
        Reply::read(BufReader::new(stream))
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Reply {
        self.raw(&self.request(method, path, headers, body))
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let host =
            if headers.to_lowercase().contains("host:") { String::new() } else { format!("host: {}\r\n", self.at) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", b"")
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, "content-type: application/json\r\n", body.to_string().as_bytes())
    }

    /// The JSON of an answer that must be good.
    pub(crate) fn ok(&self, path: &str, body: Value) -> Value {
        let reply = self.post(path, body);
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    /// Status and message of a refusal, whose shape is looked at.
    pub(crate) fn refused(&self, path: &str, body: Value) -> (u16, String) {
        self.post(path, body).error()
    }

    /// A counter of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')).unwrap();
        line.parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn read(mut from: impl BufRead) -> Self {
        let mut line = String::new();
        from.read_line(&mut line).unwrap_or(0);
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let mut headers = vec![];
        loop {
            let mut line = String::new();
            from.read_line(&mut line).unwrap_or(0);
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_lowercase(), value.to_string())),
                None => break,
            }
        }
        let mut rest = vec![];
        let _ = from.read_to_end(&mut rest); // a connection that is cut off has said what it has said
        let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
        let body = if chunked { unchunk(&rest) } else { rest };
        Self { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Status and message; every error must have OpenAI's shape and no path in it.
    pub(crate) fn error(&self) -> (u16, String) {
        let value = self.json();
        let error = &value["error"];
        assert!(self.status >= 400, "{}", self.text());
        assert!(error["message"].is_string() && error["type"].is_string(), "{value}");
        assert!(error.get("param").is_some() && error.get("code").is_some(), "{value}");
        let message = error["message"].as_str().unwrap().to_string();
        assert!(!message.contains("/tmp") && !message.contains(TINY), "a path is told: {message}");
        (self.status, message)
    }

    /// The events of a stream, without the last, which is `[DONE]`.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = self.text();
        let data: Vec<&str> = text.split("\n\n").filter_map(|e| e.strip_prefix("data: ")).collect();
        let (last, rest) = data.split_last().expect("events");
        assert_eq!(*last, "[DONE]", "{text}");
        rest.iter().map(|e| serde_json::from_str(e).unwrap()).collect()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    while let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap_or("0").trim(), 16).unwrap_or(0);
        let from = end + 2;
        if size == 0 || bytes.len() < from + size {
            break;
        }
        out.extend_from_slice(&bytes[from..from + size]);
        bytes = bytes.get(from + size + 2..).unwrap_or_default();
    }
    out
}
