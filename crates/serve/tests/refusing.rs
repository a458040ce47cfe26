//! What a stranger may try: every refusal has a status, OpenAI's shape and a reason, and the server goes on.

mod common;

use common::{Reply, Running};
use qkv_serve::{Access, Limits};
use serde_json::{Value, json};
use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

fn completion(more: Value) -> Value {
    let mut body = json!({"model": "gpt2", "prompt": "the fox", "max_tokens": 2});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn fault_33_what_is_too_long_is_refused_with_counts() {
    let server = Running::gpt2(Limits::default());
    let (status, message) = server.refused("/v1/completions", completion(json!({"prompt": vec![5; 70]})));
    assert_eq!((status, message.as_str()), (400, "the prompt has 70 tokens, but this model's context holds 64"));
    let reply = server.post("/v1/completions", completion(json!({"prompt": "a".repeat(100_000)})));
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    // Refused by what it says of itself, before a byte of it is read.
    let reply = server.raw(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1073741824\r\n\r\n{");
    assert_eq!(reply.error().0, 413);
    let mut chunked =
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        chunked.extend(b"10000\r\n");
        chunked.extend(vec![b' '; 65536]);
        chunked.extend(b"\r\n");
    }
    assert_eq!(server.raw(&chunked).status, 413);
    let deep = "[".repeat(100_000);
    assert_eq!(server.send("POST", "/v1/completions", "", deep.as_bytes()).error().0, 400);
    let big = format!("x-big: {}\r\n", "a".repeat(100_000));
    assert_eq!(server.send("GET", "/health", &big, b"").status, 431);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn fault_34_slow_clients_are_closed_and_others_served() {
    let limits = Limits {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Running::gpt2(limits);
    let mut heads: Vec<_> = (0..50).map(|_| server.connect()).collect();
    heads.iter_mut().for_each(|c| c.write_all(b"POST /v1/comp").unwrap());
    let mut bodies: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let half = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"prompt\"";
    bodies.iter_mut().for_each(|c| c.write_all(half).unwrap());
    let began = Instant::now();
    assert!(server.ok("/v1/completions", completion(json!({})))["choices"].is_array());
    for mut head in heads {
        let _ = head.read_to_end(&mut vec![]);
    }
    for body in bodies {
        assert_eq!(Reply::read(BufReader::new(body)).status, 408);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn fault_38_keys() {
    let access = Access::open(true).with_keys(["sesame", "", "second"]);
    let server = Running::with(&common::ALL[..1], Limits::default(), access);
    let with = |header: &str| server.send("GET", "/v1/models", header, b"").status;
    assert_eq!(with("authorization: Bearer sesame\r\n"), 200);
    assert_eq!(with("x-api-key: second\r\n"), 200);
    for wrong in [
        "",
        "authorization: Bearer sesam\r\n",
        "authorization: Bearer sesamee\r\n",
        "authorization: sesame\r\n",
        "authorization: Bearer \r\n",
    ] {
        assert_eq!(with(wrong), 401, "{wrong}");
    }
    let reply = server.get("/v1/models?api_key=sesame");
    assert_eq!((reply.error().0, reply.json()["error"]["type"].as_str()), (401, Some("authentication_error")));
    assert_eq!((server.get("/health").status, server.get("/metrics").status), (200, 401));
}

#[test]
fn fault_39_names_of_models_open_no_files() {
    let server = Running::gpt2(Limits::default());
    let long = "a".repeat(10_000);
    for name in ["../../etc/passwd", "/etc/passwd", "..%2f", "CON", "gpt2\0", "…/…", "", long.as_str()] {
        let reply = server.post("/v1/completions", completion(json!({"model": name})));
        assert_eq!((reply.error().0, reply.json()["error"]["code"].as_str()), (404, Some("model_not_found")), "{name}");
    }
    for path in ["/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/gpt3", "/models/%00", "/../../etc/passwd"] {
        assert!([400, 404, 405].contains(&server.get(path).error().0), "{path}");
    }
    assert_eq!(server.get("/v1/models/gpt2").json()["id"], "gpt2");
}

#[test]
fn fault_41_fields_out_of_range_are_named() {
    let server = Running::gpt2(Limits::default());
    for (field, value) in [
        ("temperature", json!(-1)),
        ("temperature", json!(1e308)),
        ("temperature", json!("hot")),
        ("top_p", json!(1.5)),
        ("top_k", json!(-5)),
        ("n", json!(1_000_000)),
        ("n", json!(0)),
        ("best_of", json!(1e12)),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(1.5)),
        ("stop", json!(vec!["x"; 10_000])),
        ("stop", json!([""])),
        ("stop", json!(5)),
        ("logit_bias", json!({"97": 1})),
        ("logit_bias", json!({"x": 1})),
        ("logit_bias", json!({"5": 1e9})),
        ("logprobs", json!(1000)),
        ("beam", json!(100_000)),
        ("length_penalty", json!(1)),
        ("chain", json!("tempratur 1")),
        ("seed", json!(1.5)),
        ("echo", json!("yes")),
        ("prompt", json!([])),
        ("prompt", json!([97])),
        ("prompt", json!([-1])),
        ("prompt", json!([[5], []])),
        ("prompt", json!({"a": 1})),
        ("prompt", json!(vec!["a"; 5000])),
        ("stream_options", json!(true)),
        ("suffix", json!("end")),
        ("tools", json!([{"type": "function"}])),
        ("response_format", json!({"type": "xml"})),
        ("response_format", json!({"type": "json_schema"})),
        ("response_format", json!({"type": "json_schema", "json_schema": {"schema": {"not": {}}}})),
        ("regex", json!("(")),
        ("regex", json!("(((a{1000}){1000}){1000})")),
        ("grammar", json!("root ::= root \"a\" | \"a\"")),
        ("guided_choice", json!(5)),
        ("max_token", json!(5)),
    ] {
        let reply = server.post("/v1/completions", completion(json!({field: value})));
        let (status, message) = reply.error();
        assert_eq!(status, 400, "{field}: {message}");
        assert_eq!(reply.json()["error"]["param"], json!(field), "{message}");
    }
    let reply = server.post("/v1/completions", completion(json!({"user": "me", "store": true, "novel": 1})));
    assert_eq!((reply.status, reply.header("x-qkv-ignored")), (200, Some("novel,store,user")));
}

#[test]
fn fault_42_what_is_not_json_or_not_utf8_is_refused() {
    let server = Running::gpt2(Limits::default());
    for body in [
        &b"{\"prompt\": \"\xff\xfe\"}"[..],
        b"{\"prompt\": \"\\ud800\"}",
        b"{\"prompt\": \"a\", \"temperature\": NaN}",
        b"{\"prompt\": \"a\", \"temperature\": 1e999}",
        b"",
        b"[]",
        b"null",
        b"{\"prompt\": \"a\"",
    ] {
        assert_eq!(
            server.send("POST", "/v1/completions", "", body).error().0,
            400,
            "{:?}",
            String::from_utf8_lossy(body)
        );
    }
    assert_eq!(server.refused("/v1/completions", json!({"model": "gpt2"})).1, "`prompt` is missing");
}

#[test]
fn fault_43_a_picture_that_explodes_is_refused() {
    let server = Running::with(&common::ALL[7..], Limits::default(), Access::open(true));
    // A PNG head that claims 50,000 × 50,000 pixels.
    let mut bomb = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bomb.extend(50_000u32.to_be_bytes());
    bomb.extend(50_000u32.to_be_bytes());
    bomb.extend([8, 2, 0, 0, 0, 1, 2, 3, 4]);
    for body in [&bomb[..], b"no picture", b""] {
        let reply = server.send("POST", "/v1/image", "content-type: image/png\r\n", body);
        assert_eq!(reply.error().0, 400);
    }
    // Nothing is fetched from anywhere.
    for address in ["http://169.254.169.254/latest", "file:///etc/passwd"] {
        let (status, message) = server.refused("/v1/image", json!({"image": address}));
        assert!(status == 400 && message.contains("not fetched"), "{message}");
    }
}

#[test]
fn pages_of_strangers_and_other_names_are_refused() {
    let mut access = Access::open(true);
    access.origins = vec!["https://good.example".into()];
    let server = Running::with(&common::ALL[..1], Limits::default(), access);
    let with = |headers: &str| server.send("GET", "/v1/models", headers, b"");
    assert_eq!(with("host: evil.example\r\n").error().0, 403);
    assert_eq!(with("host: localhost.evil.example:80\r\n").error().0, 403);
    assert_eq!(with("host: localhost:1\r\n").status, 200);
    assert_eq!(with("origin: https://evil.example\r\n").error().0, 403);
    assert_eq!(with("origin: null\r\n").error().0, 403);
    assert_eq!(with(&format!("origin: http://{}\r\n", server.at)).status, 200);
    let good = with("origin: https://good.example\r\n");
    assert_eq!((good.status, good.header("access-control-allow-origin")), (200, Some("https://good.example")));
    let before = server.send("OPTIONS", "/v1/models", "origin: https://good.example\r\n", b"");
    assert_eq!(before.status, 204);
}

#[test]
fn other_paths_and_methods_have_the_same_shape() {
    let server = Running::gpt2(Limits::default());
    assert_eq!(server.get("/v2/nothing").error().0, 404);
    let reply = server.get("/v1/completions");
    assert_eq!((reply.error().0, reply.header("allow")), (405, Some("POST")));
    assert_eq!(server.send("DELETE", "/health", "", b"").error().0, 405);
    let head = server.send("HEAD", "/health", "", b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let reply = server.send("GET", "/health", "x-request-id: mine\r\n", b"");
    assert_eq!(reply.header("x-request-id"), Some("mine"));
    assert_eq!(server.get("/v1/models/").status, 200);
    assert_eq!(server.raw(b"nonsense\r\n\r\n").status, 400);
}

/// A thousand silent connections cost nothing but themselves.
#[test]
fn idle_connections_are_held_while_answers_go_on() {
    let server = Running::gpt2(Limits::default());
    let idle: Vec<_> = (0..400).map(|_| server.connect()).collect();
    assert!(server.ok("/v1/completions", completion(json!({})))["choices"].is_array());
    // The connection that was answered may take a moment to be closed.
    let mut held = server.metric("qkv_connections");
    for _ in 0..100 {
        if held == 401 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        held = server.metric("qkv_connections");
    }
    assert_eq!(held, 401);
    drop(idle);
}
