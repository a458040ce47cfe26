//! The verbs that speak, as a person meets them: answers of the reference checkpoints, refusals with hints, exit codes.
//! Snapshots are in `snapshots/`; set `INSTA_UPDATE=always` to write them anew.

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tiny/");

/// `args` are parted by spaces; `tiny/x` names a reference checkpoint.
fn qkv(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args.split_whitespace().map(|a| a.replace("tiny/", TINY).replace('_', " ").replace("\u{1}", "_")));
    command.env("NO_COLOR", "1").env_remove("RAYON_NUM_THREADS");
    command
}

fn json(args: &str) -> Value {
    let done = qkv(args).assert().success();
    serde_json::from_slice(&done.get_output().stdout).expect("one line of JSON")
}

fn stdout(args: &str) -> String {
    String::from_utf8(qkv(args).assert().success().get_output().stdout.clone()).expect("UTF-8")
}

/// What a run that is refused says, the place of the checkpoints left out.
fn refusal(args: &str) -> String {
    let done = qkv(args).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8").replace(TINY, "tiny/")
}

#[test]
fn help_of_every_verb() {
    for verb in ["generate", "translate", "score", "chat"] {
        assert_snapshot!(format!("help_{verb}"), stdout(&format!("{verb} --help")));
    }
}

#[test]
fn refusals_say_what_and_give_a_hint() {
    for (name, args) in [
        ("nothing", "generate tiny/gpt2"),
        ("empty", "generate tiny/gpt2 --ids ,"),
        ("no_tokenizer", "generate tiny/gpt2 hello"),
        ("no_id", "generate tiny/gpt2 --ids 5,x"),
        ("outside", "generate tiny/gpt2 --ids 5,97"),
        ("too_long", "generate tiny/gpt2 --ids 5,6,7 --max-tokens 62"),
        ("max_0", "generate tiny/gpt2 --ids 5 --max-tokens 0"),
        ("temperature_negative", "generate tiny/gpt2 --ids 5 --temperature -1"),
        ("temperature_nan", "generate tiny/gpt2 --ids 5 --temperature NaN"),
        ("unknown_step", "generate tiny/gpt2 --ids 5 --chain temprature_1"),
        ("contrastive_with_beams", "generate tiny/gpt2 --ids 5 --contrastive 4 --beam 4"),
        ("n_greedy", "generate tiny/gpt2 --ids 5 --n 3"),
        ("beam_that_draws", "generate tiny/gpt2 --ids 5 --beam 4 --temperature 0.7"),
        ("n_best", "generate tiny/gpt2 --ids 5 --beam 4 --n-best 5"),
        ("groups", "generate tiny/gpt2 --ids 5 --beam 4 --diverse 3"),
        ("length_penalty", "generate tiny/gpt2 --ids 5 --length-penalty 2"),
        ("coverage", "generate tiny/gpt2 --ids 5 --beam 4 --coverage 1"),
        ("no_decoder", "generate tiny/bert-mlm --ids 5"),
        ("no_source", "translate tiny/gpt2 --ids 5"),
        ("source_outside", "translate tiny/marian --ids 97"),
        ("score_one", "score tiny/gpt2 --ids 5"),
        ("score_without_source", "score tiny/marian --ids 5,2"),
        ("chat_without_tokenizer", "chat tiny/gpt2"),
    ] {
        assert_snapshot!(format!("refuse_{name}"), refusal(args));
    }
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_counts_or_cut() {
    let ids: Vec<String> = (1..=70).map(|i| i.to_string()).collect();
    let long = format!("generate tiny/gpt2 --max-tokens 4 --ids {}", ids.join(","));
    let said = refusal(&long);
    assert!(
        said.contains("70 tokens long") && said.contains("context of 64") && said.contains("--truncate left"),
        "{said}"
    );
    let cut = json(&format!("{long} --truncate left --json"));
    let same = json(&format!("generate tiny/gpt2 --max-tokens 4 --json --ids {}", ids[10..].join(",")));
    assert_eq!(cut["sequences"], same["sequences"]);
}

#[test]
fn the_answer_in_json_is_the_reference_s() {
    let one = &json("generate tiny/gpt2 --ids 14,14,15,31,22 --max-tokens 12 --json")["sequences"][0];
    assert_eq!(
        (&one["ids"], &one["end"], &one["text"]),
        (&serde_json::json!([55, 82, 80, 2]), &"token".into(), &Value::Null)
    );
    let beam = "translate tiny/marian --ids 14,14,15,31,22,28,14,50,26 --max-tokens 12 --beam 4 --length-penalty 0.8 --early-stopping true --n-best 3 --json";
    let found = json(beam);
    let scores: Vec<f64> =
        found["sequences"].as_array().expect("a list").iter().map(|s| s["score"].as_f64().expect("a score")).collect();
    for (score, want) in scores.iter().zip([-2.9401023, -2.9716029, -2.9852252]) {
        assert!((score - want).abs() < 1e-4, "{score} is not {want}");
    }
}

#[test]
fn the_same_seed_says_the_same_at_any_thread_count() {
    let args = "generate tiny/llama --ids 5,6 --ids 7 --max-tokens 9 --temperature 1.5 --n 2 --seed 1";
    let at = |threads: &str| qkv(args).env("RAYON_NUM_THREADS", threads).assert().success().get_output().stdout.clone();
    assert_eq!(at("1"), at("3"));
    assert_eq!(String::from_utf8(at("1")).expect("UTF-8").lines().count(), 4);
}

#[test]
fn traces_and_scores() {
    assert_snapshot!("score", stdout("score tiny/gpt2 --ids 5,6,7"));
    let done = qkv("translate tiny/marian --ids 5,6,7 --max-tokens 3 --beam 2 --trace").assert().success();
    let tree = String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8");
    assert!(tree.contains('■') && tree.contains('✗') && tree.contains("└ "), "{tree}");
    let trace = &json("generate tiny/gpt2 --ids 5,6 --max-tokens 2 --step top\u{1}k_3 --trace --json")["trace"];
    assert_eq!(trace["tokens"].as_array().map(Vec::len), Some(2));
}

#[test]
fn blank_lines_and_alignments_are_kept() {
    let out = stdout("translate tiny/marian --ids 5,6,7 --ids 8 --max-tokens 4 --alignments");
    assert_eq!(out.lines().count(), 2);
    let pairs = |line: &str| line.split('\t').nth(3).map(|p| p.split(' ').count());
    assert!(out.lines().all(|line| pairs(line) == Some(4)), "{out}");
}

#[test]
fn chain_help_lists_every_step() {
    let help = stdout("generate tiny/gpt2 --chain help");
    for step in ["temperature", "top_p", "mirostat", "dry", "xtc"] {
        assert!(help.contains(step), "{step}");
    }
}

/// A reference checkpoint with a tokenizer of its 97 tokens beside it.
fn speaking(family: &str) -> String {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("speaking-{family}-{:?}", std::thread::current().id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    for name in ["config.json", "generation_config.json", "model.safetensors"] {
        std::fs::copy(format!("{TINY}{family}/{name}"), dir.join(name)).expect("copied");
    }
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let from = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(from, dir.join(name)).expect("copied");
    }
    dir.display().to_string()
}

/// Runs with these arguments as they are.
fn run(args: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    let done = command.args(args).write_stdin(input).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn what_streams_is_what_json_says_and_batches_are_singles() {
    let model = speaking("llama");
    let flags = ["--max-tokens", "12", "--temperature", "0.9", "--seed", "3"];
    let told = |prompt: &str, more: &[&str]| run(&[&["generate", &model, prompt][..], &flags, more].concat(), "");
    let text = told("the cat", &[]);
    let json: Value = serde_json::from_str(&told("the cat", &["--json"])).expect("JSON");
    assert_eq!(text.trim_end_matches('\n'), json["sequences"][0]["text"].as_str().expect("a text"));
    let lines = run(&[&["generate", &model, "--file", "-"][..], &["--max-tokens", "12"]].concat(), "the cat\na\n");
    let single = |prompt| run(&["generate", &model, prompt, "--max-tokens", "12"], "");
    assert_eq!(lines, single("the cat") + &single("a"));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let model = speaking("llama");
    let whole = run(&["generate", &model, "the cat", "--max-tokens", "12"], "");
    let stop: String = whole.chars().skip(3).take(2).collect();
    let cut: Value = serde_json::from_str(&run(
        &["generate", &model, "the cat", "--max-tokens", "12", "--stop", &stop, "--json"],
        "",
    ))
    .expect("JSON");
    let (text, end) = (&cut["sequences"][0]["text"], &cut["sequences"][0]["end"]);
    assert_eq!((text.as_str(), end.as_str()), (whole.split(&stop).next(), Some("text")));
}

#[test]
fn translation_keeps_the_order_and_blank_lines() {
    let model = speaking("marian");
    let out = run(&["translate", &model, "--max-tokens", "5"], "the cat\n\nin\n");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, ""));
    assert_eq!(out, run(&["translate", &model, "--max-tokens", "5", "--batch", "1"], "the cat\n\nin\n"));
}

#[test]
fn a_chat_answers_every_turn_and_survives_a_slip() {
    let model = speaking("llama");
    let out = run(&["chat", &model, "--max-tokens", "6"], "hi\n/sed 3\n\"\"\"two\nlines\"\"\"\n/exit\nnever\n");
    assert_eq!(out.matches('\n').count(), 2, "{out:?}");
}

/// Ctrl-C in a batch: what is finished is written, whole lines, and the program says that it was interrupted.
#[test]
#[cfg(unix)]
fn ctrl_c_leaves_finished_lines() {
    use std::io::{BufRead, BufReader, Read};
    let prompts = ["--ids", "5,6,7"].repeat(5000);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_qkv"))
        .args(["generate", &format!("{TINY}gpt2"), "--batch", "1", "--max-tokens", "40"])
        .args(&prompts)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("qkv");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut seen: Vec<String> = lines.by_ref().take(3).map(|line| line.expect("a line")).collect();
    let sent = std::process::Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(sent.expect("a shell").success());
    seen.extend(lines.map(|line| line.expect("a line")));
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
    assert_eq!(child.wait().expect("an end").code(), Some(130), "{told}");
    assert!(told.contains("interrupted"), "{told}");
    assert!((3..5000).contains(&seen.len()), "{} lines", seen.len());
    assert!(seen.iter().all(|line| line.split(',').count() == 40), "a line was cut");
}

/// A tiny checkpoint with a tokenizer of single characters beside it.
fn spelling(dir: &std::path::Path) -> String {
    for file in ["config.json", "generation_config.json", "model.safetensors"] {
        std::fs::copy(format!("{TINY}llama/{file}"), dir.join(file)).expect("a copy");
    }
    let lines = dir.join("lines.txt");
    std::fs::write(&lines, "the quick brown fox jumps over the lazy dog.\nuser: <>{}[]()\",0123456789\n")
        .expect("lines");
    let mut train = Command::new(env!("CARGO_BIN_EXE_qkv"));
    train.args(["tokenizer", "train", "--kind", "char", "--shape", "llama", "--vocab", "97", "--data"]);
    train.arg(&lines).arg("--out").arg(dir).assert().success();
    dir.display().to_string()
}

#[test]
fn answers_of_a_form() {
    let dir = tempfile::tempdir().expect("a directory");
    let (model, file) = (spelling(dir.path()), dir.path().join("form.txt"));
    let ask = |flag: &str, form: &str| {
        std::fs::write(&file, form).expect("a form");
        let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
        command
            .args(["generate", &model, "the fox", "--max-tokens", "50", "--temperature", "1", "--json", flag])
            .arg(&file);
        command.env("NO_COLOR", "1");
        command
    };
    let said = |flag: &str, form: &str| {
        let done = ask(flag, form).assert().success();
        let value: Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
        value["sequences"][0]["text"].as_str().expect("a text").trim().to_string()
    };
    let text = said("--grammar", "root ::= \"(\" root \")\" | [0-9]{1,3} # brackets\n");
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    assert!(text.matches('(').count() == text.matches(')').count() && inner.parse::<u32>().is_ok(), "{text}");
    let list = r##"{"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"const": 7}]}, "maxItems": 1}"##;
    assert!(serde_json::from_str::<Value>(&said("--schema", list)).expect("JSON").is_array());
    for (flag, form, what) in [
        ("--grammar", "root ::= root \"a\" | \"a\"", "begins with itself"),
        ("--grammar", "root ::= (", "line 1"),
        ("--schema", "{\"not\": {}}", "`not`"),
        ("--schema", "{", "is not JSON"),
    ] {
        let done = ask(flag, form).assert().code(2);
        let text = String::from_utf8_lossy(&done.get_output().stderr).to_string();
        assert!(text.contains(what) && text.contains("hint: ") && text.contains("form.txt"), "{form}: {text}");
    }
}
