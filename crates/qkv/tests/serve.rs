//! `qkv serve` as a person meets it: the first lines, refusals with hints, and an end when it is asked to end.
#![cfg(all(unix, feature = "serve"))]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tiny/gpt2");

fn qkv(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.arg("serve").args(args).env("NO_COLOR", "1").stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn refusal(args: &[&str]) -> String {
    let done = qkv(args).output().expect("qkv");
    assert_eq!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stderr).expect("UTF-8")
}

#[test]
fn it_says_where_it_listens_answers_and_ends_when_asked() {
    let mut child = qkv(&[TINY, "--port", "0"]).spawn().expect("qkv");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().starts_with("model: gpt2 (gpt2, next-token, "));
    let listening = next();
    let at = listening.strip_prefix("listening on http://").and_then(|l| l.split(',').next()).expect("an address");
    let example = next();
    assert!(example.starts_with(&format!("ask it: curl http://{at}/v1/completions -d '")), "{example}");

    // The line that it prints works: the same path and the same body.
    let body = example.split('\'').nth(1).expect("a body");
    let mut stream = std::net::TcpStream::connect(at).expect("a connection");
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"token_ids\":["), "{answer}");

    // Another program cannot have the same address, and is told so before it loads anything.
    let port = at.rsplit(':').next().expect("a port");
    assert!(refusal(&[TINY, "--port", port]).contains("hint: another program listens there"));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn refusals_say_what_and_give_a_hint() {
    for (args, said, hint) in [
        (&[TINY, "--host", "0.0.0.0"][..], "no key is asked for", "--api-key-file FILE, or --insecure"),
        (&["nowhere"], "there is no such model", "name a run"),
        (&[TINY, TINY], "the name `gpt2` is empty or taken", "NAME=PATH"),
        (&[TINY, "--rows", "0"], "rows: must not be 0", "use 1 or more"),
        (&[TINY, "--api-key-file", "/dev/null"], "there is no key in it", "one key a line"),
        (&[TINY, "--adapter", "shy"], "has no name", "NAME=DIR"),
        (&[TINY, "--adapter", "other+shy=x"], "a model that is not served", "MODEL+NAME=DIR"),
        (&[TINY, "--adapter", "shy=nowhere"], "nowhere", "hint: "),
        (&[TINY, "--adapters", "nowhere"], "nowhere", "name a directory with --adapters"),
        (&["--config", "nowhere.toml"], "nowhere.toml", "check the path"),
    ] {
        // Any port, unless one is named: that another program has the usual one is not what is asked here.
        let text = refusal(&[args, &["--port", "0"]].concat());
        assert!(text.contains(said) && text.contains(hint), "{args:?}: {text}");
    }
    let printed = qkv(&["--print-openapi"]).output().expect("qkv");
    assert!(String::from_utf8_lossy(&printed.stdout).contains("\"/v1/chat/completions\""));
}
