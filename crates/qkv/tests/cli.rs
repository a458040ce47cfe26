//! The binary as a person meets it: help, answers, errors with hints, exit codes. Snapshots are in `snapshots/`; set
//! `INSTA_UPDATE=always` to write them anew.

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;

fn qkv(args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args.split_whitespace()).env("NO_COLOR", "1").env_remove("RAYON_NUM_THREADS");
    command
}

/// stdout of a run that succeeds and says nothing else.
fn answer(args: &str) -> String {
    let done = qkv(args).assert().success().stderr("");
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
}

/// stderr of a run that is refused with exit code 2 and says nothing on stdout.
fn refusal(args: &str) -> String {
    let done = qkv(args).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8")
}

#[test]
fn help_of_every_verb() {
    assert_snapshot!("help", answer("--help"));
    assert_snapshot!("help_inspect", answer("inspect --help"));
    assert_snapshot!("help_runs", answer("runs --help"));
    assert_snapshot!("help_bench", answer("bench --help"));
    assert_snapshot!("help_bench_train", answer("bench train --help"));
    assert_snapshot!("help_bench_ops", answer("bench ops --help"));
    assert_eq!(answer("--version"), format!("qkv {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn inspect_says_what_a_network_is_made_of() {
    assert_snapshot!("inspect_bert_large", answer("inspect --preset bert-large"));
    assert_snapshot!("inspect_tiny_t5_deep", answer("inspect --preset tiny-t5 --depth 4 --length 16"));
    assert_snapshot!("inspect_tiny_vit", answer("inspect --preset tiny-vit --depth 1"));
    assert_snapshot!("inspect_tiny_alibi", answer("inspect --preset tiny-alibi --depth 1"));
}

#[test]
fn inspect_lists_all_presets() {
    assert_snapshot!("inspect_list", answer("inspect"));
}

#[test]
fn inspect_in_json_has_the_numbers_of_the_page() {
    let json = |args: &str| serde_json::from_str::<Value>(&answer(args)).expect("one line of JSON");
    let gpt2 = json("inspect --preset gpt2 --length 100 --json");
    assert_eq!(gpt2["parameters"], 124_439_808);
    assert_eq!(gpt2["memory"]["training_adamw"], 16 * 124_439_808u64);
    // Two vectors of 768 for each of 12 layers, in f32.
    let cache = &gpt2["memory"]["cache"];
    assert_eq!((&cache["per_token"], &cache["total"]), (&(2 * 768 * 12 * 4).into(), &(2 * 768 * 12 * 4 * 100).into()));
    assert_eq!(gpt2["flops_per_token"]["read"], Value::Null);
    let parts = gpt2["tree"].as_array().expect("a tree");
    assert_eq!(parts.iter().map(|p| p["parameters"].as_u64().expect("a number")).sum::<u64>(), 124_439_808);
    let list = json("inspect --json");
    assert!(list.as_array().expect("a list").iter().any(|p| p["name"] == "gpt3"));
}

#[test]
fn inspect_refuses_with_a_hint() {
    assert_snapshot!("refuse_preset", refusal("inspect --preset bert-larg"));
    assert_snapshot!("refuse_length_beyond_positions", refusal("inspect --preset gpt2 --length 1025"));
    assert_snapshot!("refuse_length_of_an_image", refusal("inspect --preset vit-base --length 5"));
    assert_snapshot!("refuse_length_0", refusal("inspect --preset tiny-t5 --length 0"));
    assert_snapshot!("refuse_length_absurd", refusal("inspect --preset tiny-t5 --length 18446744073709551615"));
    assert_snapshot!("refuse_depth_0", refusal("inspect --preset gpt2 --depth 0"));
    assert_snapshot!("refuse_depth_without_preset", refusal("inspect --depth 3"));
}

/// 175 billion parameters within 100 MB of address space, which bounds what is resident, and within a second.
#[test]
#[cfg(target_os = "linux")]
fn inspect_allocates_no_network() {
    let within = |kib: usize| {
        let script = format!("ulimit -v {kib} && exec \"$0\" inspect --preset gpt3");
        let start = std::time::Instant::now();
        let done = std::process::Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_qkv")]).output();
        (done.expect("a shell"), start.elapsed().as_secs_f64())
    };
    let (done, seconds) = within(100_000);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stdout).contains("174,604,259,328"));
    assert!(seconds < 1.0, "{seconds} s");
    assert!(!within(1000).0.status.success(), "the limit is not in force");
}

/// What `qkv inspect | head -1` meets when head has gone.
#[test]
fn a_closed_pipe_is_no_error() {
    for args in [&["inspect"][..], &["inspect", "--preset", "gpt2", "--depth", "9"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_qkv"));
        let done = command.args(args).stdout(writer).stderr(std::process::Stdio::piped()).spawn().expect("qkv");
        let done = done.wait_with_output().expect("qkv ends");
        assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""), "{args:?}");
    }
}

/// Exit codes follow the kind of an error: a full disk and a limit on the size of files are failures (1), a place that was
/// named wrongly is bad input (2), and so is a wrong word. 130 after Ctrl-C is tested where programs run long enough.
#[test]
#[cfg(target_os = "linux")]
fn exit_codes_follow_the_kind_of_the_error() {
    for args in ["inspect --preset gpt2", "data make facts --n 2000", "data make facts --n 3 --json"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the device that is always full");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_qkv"));
        let done = command.args(args.split(' ')).stdout(full).output().expect("qkv ends");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{args}: {said}");
        assert!(said.contains("error: stdout: No space left on device") && said.contains("hint: "), "{args}: {said}");
    }
    // No file may grow beyond 1 KiB.
    let dir = tempfile::tempdir().expect("a directory");
    let done = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" data make facts --n 2000 --out \"$1\""])
        .args([std::ffi::OsStr::new(env!("CARGO_BIN_EXE_qkv")), dir.path().join("f.jsonl").as_os_str()])
        .output()
        .expect("qkv ends");
    assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stderr));
    for args in ["data make facts --n 3 --out /nowhere/at/all.tsv", "inspect /nowhere/at/all", "inspect --nothing"] {
        qkv(args).assert().code(2);
    }
}

#[test]
fn an_unknown_level_of_vectors_is_refused() {
    let out = qkv("inspect").env("QKV_SIMD", "fast").assert().code(2);
    let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
    assert!(said.starts_with("error: QKV_SIMD=fast: this machine has scalar") && said.contains("hint: "), "{said}");
}

#[test]
fn what_is_not_a_verb_is_refused() {
    assert_snapshot!("refuse_verb", refusal("inspekt"));
    assert_snapshot!("refuse_nothing_to_measure", refusal("bench nothing"));
    qkv("").assert().code(2);
}

#[test]
fn bench_train_refuses_with_a_hint() {
    assert_snapshot!("refuse_heads", refusal("bench train --heads 5"));
    assert_snapshot!("refuse_heads_0", refusal("bench train --heads 0"));
    assert_snapshot!("refuse_batch_0", refusal("bench train --batch 0"));
    assert_snapshot!("refuse_layers_0", refusal("bench train --layers 0"));
    assert_snapshot!("refuse_layers_0_pair", refusal("bench train --shape pair --layers 0"));
    assert_snapshot!("refuse_vocab_0", refusal("bench train --vocab 0"));
    assert_snapshot!("refuse_steps_0", refusal("bench train --steps 0"));
    assert_snapshot!("refuse_width_absurd", refusal("bench train --width 12345678901234567"));
}

#[test]
fn bench_train_has_the_fields_of_the_pytorch_side() {
    for shape in ["gpt", "pair"] {
        let size = "--layers 1 --width 16 --heads 2 --context 8 --batch 2 --vocab 20 --steps 2 --threads 1";
        let line = answer(&format!("bench train --shape {shape} {size} --json"));
        let report: Value = serde_json::from_str(&line).expect("one line of JSON");
        let mut fields: Vec<_> = report.as_object().expect("an object").keys().map(String::as_str).collect();
        fields.sort_unstable();
        let mut want = "system shape params threads median_step_s best_step_s tokens_per_s loss peak_rss_mb"
            .split(' ')
            .collect::<Vec<_>>();
        want.sort_unstable();
        assert_eq!(fields, want);
        assert_eq!((&report["shape"], &report["threads"]), (&shape.into(), &1.into()));
        let number = |key: &str| report[key].as_f64().unwrap_or(f64::NAN);
        assert!(number("median_step_s") >= number("best_step_s") && number("best_step_s") > 0.0);
        let tokens = if shape == "pair" { 2.0 * 16.0 } else { 16.0 };
        assert!((number("tokens_per_s") * number("median_step_s") / tokens - 1.0).abs() < 1e-9);
        // Random targets of 20 words: about ln 20, whatever a few steps have learned.
        assert!((number("loss") - 20f64.ln()).abs() < 1.5, "{}", number("loss"));
    }
}

#[test]
fn bench_ops_measures_what_is_asked_for() {
    let lines = answer("bench ops --only recurrent adamw --rounds 1 --threads 1 --json");
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.iter().map(|row| &row["op"]).collect::<Vec<_>>(), ["adamw", "recurrent"]);
    assert_eq!((&rows[0]["forward_backward"], &rows[0]["threads"]), (&Value::Null, &1.into()));
    for pair in [&rows[0]["forward"], &rows[1]["forward"], &rows[1]["forward_backward"]] {
        let number = |key: &str| pair[key].as_f64().expect("a number");
        assert!(number("kernel_s") > 0.0 && number("kernel_rate") > 0.0);
        assert!((number("ratio") * number("kernel_s") / number("plain_s") - 1.0).abs() < 1e-9);
    }
    let table = answer("bench ops --only rms_norm --rounds 1 --threads 1");
    assert!(table.lines().count() == 3 && table.contains("rms_norm       GB/s"), "{table}");
}

#[test]
fn bench_ops_refuses_with_the_list() {
    assert_snapshot!("refuse_op", refusal("bench ops --only linear nothing"));
    assert_snapshot!("refuse_rounds_0", refusal("bench ops --rounds 0"));
}
