//! Writing over HTTP: what a request says depends on the request alone, streams say what wholes say, who goes away is forgotten.

mod common;

use common::Running;
use qkv_decode::{Decoder, PassInput, PassOutput};
use qkv_nn::RowCache;
use qkv_serve::{Access, App, Limits, Metrics, Served};
use qkv_tasks::TextModel;
use qkv_text::Shape;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn ids(value: &Value) -> Vec<u64> {
    value["choices"][0]["token_ids"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
}

fn ask(i: u64, temperature: f64) -> Value {
    json!({"prompt": [5 + i % 7, 6, 7 + i % 3], "max_tokens": 20, "temperature": temperature, "seed": i,
        "return_token_ids": true, "ignore_eos": true})
}

/// With 1, 3 and 16 others in flight, greedily and by seeded sampling, everybody says what they say alone.
#[test]
fn batched_is_single_token_for_token() {
    let server = Running::gpt2(Limits::default());
    for temperature in [0.0, 1.0] {
        let alone: Vec<Vec<u64>> = (0..17).map(|i| ids(&server.ok("/v1/completions", ask(i, temperature)))).collect();
        assert!(alone.iter().all(|ids| ids.len() == 20));
        for others in [1, 3, 16] {
            std::thread::scope(|scope| {
                let server = &server;
                let each =
                    (0..=others).map(|i| scope.spawn(move || ids(&server.ok("/v1/completions", ask(i, temperature)))));
                for (handle, alone) in each.collect::<Vec<_>>().into_iter().zip(&alone) {
                    assert_eq!(handle.join().unwrap(), *alone);
                }
            });
        }
    }
}

#[test]
fn a_stream_says_what_the_whole_says() {
    let server = Running::gpt2(Limits::default());
    let body = json!({"prompt": "the fox", "max_tokens": 24, "seed": 3, "n": 2, "logprobs": 2, "ignore_eos": true});
    let whole = server.ok("/v1/completions", body.clone());
    let mut streamed = body;
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    let events = server.post("/v1/completions", streamed).events();
    let (last, parts) = events.split_last().unwrap();
    assert_eq!((last["choices"].as_array().unwrap().len(), &last["usage"]), (0, &whole["usage"]));
    assert!(parts.iter().all(|p| p["usage"].is_null() && p["object"] == "text_completion"));
    for index in 0..2 {
        let own: Vec<&Value> = parts.iter().map(|p| &p["choices"][0]).filter(|c| c["index"] == index).collect();
        let text: String = own.iter().map(|c| c["text"].as_str().unwrap()).collect();
        assert_eq!(text, whole["choices"][index]["text"].as_str().unwrap());
        let logprobs: Vec<Value> =
            own.iter().filter_map(|c| c["logprobs"]["token_logprobs"].as_array().cloned()).flatten().collect();
        assert_eq!(Value::from(logprobs), whole["choices"][index]["logprobs"]["token_logprobs"]);
        assert_eq!(own.last().unwrap()["finish_reason"], "length");
    }
    let chat = json!({"messages": [{"role": "user", "content": "the fox"}], "max_tokens": 9, "seed": 1, "logprobs": true, "top_logprobs": 2});
    let whole = server.ok("/v1/chat/completions", chat.clone());
    assert_eq!(whole["choices"][0]["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap().len(), 2);
    let mut streamed = chat;
    streamed["stream"] = json!(true);
    let events = server.post("/v1/chat/completions", streamed).events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = events.iter().filter_map(|e| e["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, whole["choices"][0]["message"]["content"].as_str().unwrap());
}

/// What `lm-eval` asks: the log-probabilities of the prompt itself, and of one more token.
#[test]
fn echo_tells_the_log_probabilities_of_the_prompt() {
    let server = Running::gpt2(Limits::default());
    let body =
        json!({"prompt": [[5, 6, 7, 8], [9, 10]], "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": true});
    let value = server.ok("/v1/completions", body);
    let score = qkv_decode::score(&server.app.models[0].model.network.model, &[5, 6, 7, 8]).unwrap();
    let told = value["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap();
    assert_eq!((told.len(), &told[0]), (5, &Value::Null));
    for (told, score) in told[1..4].iter().zip(&score.tokens) {
        assert!((told.as_f64().unwrap() - score.logprob).abs() < 1e-4);
    }
    assert_eq!(value["choices"][1]["logprobs"]["tokens"].as_array().unwrap().len(), 3);
    // The greedy token is the most probable one, to the bit.
    let (own, top) = (&told[4], &value["choices"][0]["logprobs"]["top_logprobs"][4]);
    assert!(top.as_object().unwrap().values().any(|v| v == own));
    let none = server.ok("/v1/completions", json!({"prompt": "the fox", "max_tokens": 0, "echo": true, "logprobs": 0}));
    assert_eq!((&none["choices"][0]["text"], &none["usage"]["completion_tokens"]), (&json!("the fox"), &json!(0)));
}

#[test]
fn chain_beam_best_of_stop_and_bias() {
    let server = Running::all();
    let base =
        json!({"model": "gpt2", "prompt": "the fox", "max_tokens": 12, "return_token_ids": true, "ignore_eos": true});
    let with = |more: Value| {
        let mut body = base.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.ok("/v1/completions", body)
    };
    let greedy = with(json!({"temperature": 0}));
    assert_eq!(ids(&greedy), ids(&with(json!({"chain": "greedy"}))));
    assert_eq!(ids(&greedy), ids(&with(json!({"beam": 1}))));
    assert_eq!(with(json!({"beam": 4, "n": 2}))["choices"].as_array().unwrap().len(), 2);
    let mean = |v: &Value| {
        let all: Vec<f64> = v["choices"][0]["logprobs"]["token_logprobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p.as_f64().unwrap())
            .collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let best = with(json!({"best_of": 6, "seed": 1, "logprobs": 0}));
    let all = with(json!({"n": 6, "seed": 1, "logprobs": 0}));
    let most = (0..6).map(|i| mean(&json!({"choices": [all["choices"][i]]}))).fold(f64::MIN, f64::max);
    assert!((mean(&best) - most).abs() < 1e-9);
    let first = ids(&greedy)[0].to_string();
    assert_ne!(ids(&with(json!({"temperature": 0, "logit_bias": {first: -100}})))[0], ids(&greedy)[0]);
    let text = greedy["choices"][0]["text"].as_str().unwrap().to_string();
    let stop: String = text.chars().skip(3).take(2).collect();
    let stopped = with(json!({"temperature": 0, "stop": stop}));
    assert_eq!(stopped["choices"][0]["text"].as_str().unwrap(), &text[..text.find(&stop).unwrap()]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    // Without a seed every request draws anew.
    let drawn: std::collections::BTreeSet<Vec<u64>> = (0..4).map(|_| ids(&with(json!({})))).collect();
    assert!(drawn.len() > 1);
    assert!(
        server
            .refused("/v1/completions", json!({"model": "gpt2", "prompt": "a", "chain": "greedy", "top_k": 4}))
            .1
            .contains("leave out `top_k`")
    );
    let pair =
        server.ok("/v1/completions", json!({"model": "marian", "prompt": "the fox", "beam": 2, "max_tokens": 8}));
    assert!(pair["choices"][0]["score"].is_number());
}

/// The reference checkpoints say nonsense; held to a form, they say nonsense of that form.
#[test]
fn answers_keep_the_form_that_was_asked_for() {
    let server = Running::all();
    let schema = json!({"type": "object", "required": ["n", "s"], "properties": {
        "n": {"type": "integer"}, "s": {"enum": ["fox", "dog"]}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    for seed in 0..6 {
        let chat = json!({"model": "llama", "messages": [{"role": "user", "content": "hi"}], "seed": seed, "max_tokens": 50,
            "response_format": format});
        let value = server.ok("/v1/chat/completions", chat);
        let text = value["choices"][0]["message"]["content"].as_str().unwrap();
        let made: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(made["n"].is_i64() && ["fox", "dog"].contains(&made["s"].as_str().unwrap()), "{text}");
        assert_eq!(value["choices"][0]["finish_reason"], "stop");
        let body = json!({"model": "llama", "prompt": "the fox", "seed": seed, "max_tokens": 30, "regex": "[0-9]{3}-(a|e){2}"});
        let value = server.ok("/v1/completions", body);
        let text = value["choices"][0]["text"].as_str().unwrap();
        assert!(
            text.len() == 6 && text[..3].parse::<u32>().is_ok() && text[4..].chars().all(|c| "ae".contains(c)),
            "{text}"
        );
    }
    let beam = json!({"model": "llama", "prompt": "the fox", "beam": 3, "max_tokens": 9, "regex": "(yes|no)"});
    assert!(["yes", "no"].contains(&server.ok("/v1/completions", beam)["choices"][0]["text"].as_str().unwrap()));
    let body = json!({"model": "llama", "prompt": "the fox", "stream": false, "format": schema, "options": {"num_predict": 50}});
    assert!(serde_json::from_str::<Value>(server.ok("/api/generate", body)["response"].as_str().unwrap()).is_ok());
}

/// A network whose every step takes a while, so that tests can come in between; one token breaks it.
struct Slow(Arc<TextModel>, Duration);

const POISON: u32 = 96;

impl Decoder for Slow {
    fn vocabulary(&self) -> usize {
        Decoder::vocabulary(&self.0.network.model)
    }
    fn context(&self) -> Option<usize> {
        Decoder::context(&self.0.network.model)
    }
    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> qkv_base::Result<PassOutput> {
        std::thread::sleep(self.1);
        assert!(!input.ids.contains(&POISON), "poison");
        Decoder::forward(&self.0.network.model, input, rows)
    }
}

fn slow(limits: Limits, step: Duration) -> Running {
    let model = Arc::new(TextModel::load(&common::model_dir("gpt2", Shape::Gpt2)).unwrap());
    let metrics = Arc::new(Metrics::default());
    let decoder: Arc<dyn Decoder> = Arc::new(Slow(model.clone(), step));
    let served = Served::with_decoder("gpt2", model, Some(decoder), &limits, metrics.clone());
    Running::of(App::new(vec![served], limits, metrics, Access::open(true), false))
}

fn long(n: usize) -> Value {
    json!({"prompt": [5, 6, 7], "max_tokens": n, "temperature": 0, "ignore_eos": true, "stream": true, "return_token_ids": true})
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn fault_36_a_client_that_goes_away_frees_its_row() {
    let step = Duration::from_millis(20);
    let server = slow(Limits::default(), step);
    for stream in [true, false] {
        let before = server.metric("qkv_cancelled_total");
        let mut connection = server.connect();
        let mut body = long(60);
        body["stream"] = json!(stream);
        connection.write_all(&server.request("POST", "/v1/completions", "", body.to_string().as_bytes())).unwrap();
        until("it runs", || server.app.models[0].engine.load().rows == 1);
        drop(connection);
        let began = Instant::now();
        until("its row is free", || server.app.models[0].engine.load().rows == 0);
        // It would have gone on for more than a second.
        assert!(began.elapsed() < 10 * step, "{:?}", began.elapsed());
        assert_eq!(server.metric("qkv_cancelled_total"), before + 1);
    }
}

#[test]
fn fault_35_more_than_there_is_room_for_is_told_to_come_later() {
    let server = slow(Limits { rows: 2, queue: 1, ..Limits::default() }, Duration::from_millis(10));
    let mut held = vec![];
    for n in 1..=3 {
        let mut connection = server.connect();
        connection.write_all(&server.request("POST", "/v1/completions", "", long(50).to_string().as_bytes())).unwrap();
        held.push(connection);
        until("it is taken in", || server.app.models[0].engine.load().pending == n);
    }
    let reply = server.post("/v1/completions", long(2));
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!((reply.error().0, server.get("/ready").status, server.get("/health").status), (429, 503, 200));
    assert_eq!(server.metric("qkv_refused_total"), 1);
    for connection in held {
        let reply = common::Reply::read(BufReader::new(connection));
        assert_eq!(reply.status, 200);
        assert!(reply.events().len() > 50);
    }
    assert_eq!(server.get("/ready").status, 200);
}

#[test]
fn fault_37_asked_to_end_it_finishes_what_runs_and_takes_no_more() {
    let mut server = slow(Limits::default(), Duration::from_millis(10));
    let mut connection = server.connect();
    connection.write_all(&server.request("POST", "/v1/completions", "", long(40).to_string().as_bytes())).unwrap();
    until("it runs", || server.app.models[0].engine.load().rows == 1);
    server.ask_to_end();
    until("it drains", || server.app.is_draining());
    assert!(std::net::TcpStream::connect(server.at).is_err());
    assert!(common::Reply::read(BufReader::new(connection)).events().len() > 40);
    server.ended();
}

#[test]
fn fault_37_what_outlasts_the_grace_ends_with_an_error_event() {
    let limits = Limits { grace: Duration::from_millis(100), ..Limits::default() };
    let mut server = slow(limits, Duration::from_millis(40));
    let mut connection = server.connect();
    connection.write_all(&server.request("POST", "/v1/completions", "", long(60).to_string().as_bytes())).unwrap();
    until("it runs", || server.app.models[0].engine.load().rows == 1);
    server.ask_to_end();
    let began = Instant::now();
    let text = common::Reply::read(BufReader::new(connection)).text();
    assert!(text.contains("\"overloaded_error\"") && !text.contains("[DONE]"), "{text}");
    server.ended();
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// Everybody but the one to blame says what they would have said.
#[test]
fn fault_44_a_panic_is_a_500_of_who_caused_it_alone() {
    let server = slow(Limits::default(), Duration::from_millis(3));
    let good = ids(&server.ok("/v1/completions", ask(1, 1.0)));
    std::thread::scope(|scope| {
        let server = &server;
        let others: Vec<_> =
            (0..3).map(|_| scope.spawn(move || ids(&server.ok("/v1/completions", ask(1, 1.0))))).collect();
        until("they run", || server.app.models[0].engine.load().rows > 0);
        let reply = server.post("/v1/completions", json!({"prompt": [5, POISON], "max_tokens": 4}));
        assert_eq!(reply.error().0, 500);
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), good));
    });
    assert!(server.metric("qkv_panics_total") >= 1);
    assert_eq!(ids(&server.ok("/v1/completions", ask(1, 1.0))), good);
}

#[test]
fn a_request_that_takes_too_long_is_ended() {
    let limits = Limits { request_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = slow(limits, Duration::from_millis(30));
    let mut body = long(60);
    body["stream"] = json!(false);
    assert_eq!(server.post("/v1/completions", body).error().0, 504);
    until("its row is free", || server.app.models[0].engine.load().rows == 0);
}

/// The first bytes of a stream are there long before the last.
#[test]
fn tokens_come_as_they_are_chosen() {
    let server = slow(Limits::default(), Duration::from_millis(15));
    let mut connection = server.connect();
    connection.write_all(&server.request("POST", "/v1/completions", "", long(40).to_string().as_bytes())).unwrap();
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    let began = Instant::now();
    while !line.starts_with("data: ") {
        line.clear();
        reader.read_line(&mut line).unwrap();
    }
    let first = began.elapsed();
    let mut rest = vec![];
    reader.read_to_end(&mut rest).unwrap();
    assert!(first * 4 < began.elapsed(), "{first:?} of {:?}", began.elapsed());
}

/// The second request that begins alike says the same, and tells what was not computed again; so does the third, when
/// nobody was there any more.
#[test]
fn a_prompt_that_was_read_before_is_not_read_again() {
    let body = |last: u64| {
        let prompt: Vec<u64> = (0..30).map(|i| 5 + i * 7 % 80).chain([last]).collect();
        json!({"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 3, "return_token_ids": true})
    };
    let cached = |value: &Value| value["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let off = Running::gpt2(Limits { prefix_bytes: 0, ..Limits::default() });
    let on = Running::gpt2(Limits::default());
    for (round, last) in [9, 9, 10, 11].into_iter().enumerate() {
        let (plain, kept) = (off.ok("/v1/completions", body(last)), on.ok("/v1/completions", body(last)));
        assert_eq!(ids(&plain), ids(&kept), "round {round}");
        let logprobs = |value: &Value| value["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap().clone();
        for (a, b) in logprobs(&plain).iter().zip(logprobs(&kept)) {
            assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-4, "round {round}");
        }
        assert_eq!((cached(&plain), cached(&kept)), (0, if round == 0 { 0 } else { 30 }), "round {round}");
    }
    let line = |server: &Running| -> u64 {
        let text = server.get("/metrics").text();
        let line = text.lines().find(|l| l.starts_with("qkv_prefix_cache_bytes{")).unwrap().to_string();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(line(&on) > 0 && line(&off) == 0);
}
