//! `qkv explain` and `qkv see` as a person meets them, and the pages of the documentation that show them: every command of
//! docs/explain.md and docs/see.md is run.

mod common;

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

fn qkv(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args).current_dir(root()).env("NO_COLOR", "1").env("COLUMNS", "100").env_remove("RAYON_NUM_THREADS");
    command
}

fn answer(args: &str) -> String {
    let done = qkv(&args.split_whitespace().collect::<Vec<_>>()).assert().success().stderr("");
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
}

fn refusal(args: &str) -> String {
    let done = qkv(&args.split_whitespace().collect::<Vec<_>>()).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8")
}

fn json(args: &str) -> Value {
    serde_json::from_str(&answer(args)).expect("one line of JSON")
}

const GPT2: &str = "fixtures/tiny/gpt2 --ids 5,17,23,42,9,61";

#[test]
fn help_and_the_list_of_topics() {
    assert_snapshot!("help_explain", answer("explain --help"));
    assert_snapshot!("help_see", answer("see --help"));
    assert_snapshot!("explain_topics", answer("explain"));
    assert_eq!(json("explain --json").as_array().map(Vec::len), Some(24));
}

/// Every page in the terminal, as JSON, as CSV and as HTML.
#[test]
fn every_topic_in_every_form() {
    let folder = tempfile::tempdir().expect("a folder");
    for topic in json("explain --json").as_array().expect("topics") {
        let name = topic["topic"].as_str().expect("a name");
        assert!(answer(&format!("explain {name}")).contains(&format!("┌─ {name} ─")));
        assert_eq!(json(&format!("explain {name} --json"))["topic"], name);
        assert!(answer(&format!("explain {name} --csv")).lines().count() > 2);
        let file = folder.path().join(format!("{name}.html"));
        answer(&format!("explain {name} --html {}", file.display()));
        let html = std::fs::read_to_string(&file).expect("a page");
        assert!(html.contains("default-src 'none'") && !html.contains("<script"), "{name}");
    }
    assert_snapshot!("explain_mask", answer("explain mask"));
}

#[test]
fn a_quiz_checks_what_is_answered() {
    let page = json("explain mask --json");
    let ask = |answers: &str| {
        let done = qkv(&["explain", "mask", "--quiz", "2", "--seed", "3"]).write_stdin(answers).assert().success();
        String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
    };
    let wrong = ask("17\nno number\n17\n");
    assert!(wrong.contains("`no number` is no number") && wrong.contains("0 of 2 right"), "{wrong}");
    // It tells the right answers, and takes them.
    let told: Vec<&str> = wrong.lines().filter_map(|l| l.strip_prefix("≠ it is ")).collect();
    let right = ask(&format!("{}\n{}\n", told[0], told[1]));
    assert!(right.contains("2 of 2 right"), "{right}");
    assert!(ask("").contains("the rest was not answered"));
    assert!(page["blocks"].as_array().is_some_and(|b| b.len() > 5));
}

/// The same number on the page of `explain`, in `see` and in `logits --attentions`, to the last digit that is printed.
#[test]
fn explain_see_and_logits_agree() {
    let logits = json("logits fixtures/tiny/gpt2 --ids 5,17,23,42,9,61 --attentions --json");
    let seen = json(&format!("see {GPT2} --layer 1 --head 2 --json"));
    let page = json("explain attention --model fixtures/tiny/gpt2 --ids 5,17,23,42,9,61 --layer 1 --head 2 --json");
    let blocks = page["blocks"].as_array().expect("blocks");
    let map = blocks.iter().rfind(|b| b["block"] == "table").expect("the map");
    for i in 0..6 {
        for j in 0..6 {
            let want = logits["attentions"][1][0][2][i][j].as_f64().expect("a weight");
            assert_eq!(seen["maps"][0]["weights"][1][2][i][j].as_f64(), Some(want));
            assert_eq!(map["rows"][i]["cells"][j]["shown"], format!("{want:.4}"));
        }
    }
    // And the loss is that of `score`.
    let score = json("score fixtures/tiny/gpt2 --ids 5,17,23,42,9,61 --json");
    let loss = json(&format!("see {GPT2} --view loss --json"));
    let first = loss["tables"][0][1]["rows"][0]["cells"][1]["value"].as_f64().expect("a loss");
    assert!((first + score["tokens"][0]["logprob"].as_f64().expect("a logprob")).abs() < 1e-6);
}

#[test]
fn see_in_a_terminal() {
    assert_snapshot!("see_gpt2", answer(&format!("see {GPT2}")));
    assert_snapshot!("see_gpt2_lens_loss", answer(&format!("see {GPT2} --view lens,loss")));
    let gradients = answer(&format!("see {GPT2} --view gradients"));
    assert!(gradients.contains("completeness error") && gradients.contains("integrated gradients"), "{gradients}");
    assert_snapshot!(
        "see_marian",
        answer("see fixtures/tiny/marian --ids 5,17,23,42 --target-ids 31,8,77 --view align")
    );
}

/// Every view of every shape of model.
#[test]
fn every_model_can_be_looked_at() {
    let names = "bart bert-answer bert-classify bert-mlm bert-tag distilbert-mlm electra-detect gemma2 gemma3 gpt2 llama qwen3 roberta-mlm t5 t5-gated";
    for name in names.split(' ') {
        let seen = json(&format!("see fixtures/tiny/{name} --ids 5,17,23,42 --view all --steps 8 --json"));
        assert!(seen["maps"].as_array().is_some_and(|m| !m.is_empty()), "{name}");
        assert_eq!(seen["tokens"].as_array().map(Vec::len), Some(4), "{name}");
        assert!(seen["attribution"]["integrated"].as_array().is_some_and(|a| a.len() == 4), "{name}");
        assert!(seen["planes"].as_array().is_some_and(|p| p.len() >= 3), "{name}");
    }
}

/// The products of the features sum to the dot product that is shown, of the row that is asked for.
#[test]
fn neurons_sum_to_the_score() {
    let seen = json(&format!("see {GPT2} --view neurons --layer 1 --head 2 --row 3 --json"));
    let table = &seen["tables"][0][1];
    assert!(table["title"].as_str().is_some_and(|t| t.contains("row 3, `42`")), "{table}");
    for row in table["rows"].as_array().expect("rows") {
        let numbers: Vec<Option<f64>> =
            row["cells"].as_array().expect("cells").iter().map(|c| c["value"].as_f64()).collect();
        let sum: f64 = numbers[3..].iter().flatten().sum();
        assert!((sum - numbers[2].expect("q·k")).abs() < 1e-5, "{row}");
    }
}

#[test]
fn see_writes_files_by_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, more: &str| {
        let path = folder.path().join(name);
        let done = qkv(&format!("see {GPT2} {more} -o {}", path.display()).split_whitespace().collect::<Vec<_>>())
            .assert()
            .success();
        assert!(String::from_utf8_lossy(&done.get_output().stdout).contains("bytes"));
        std::fs::read_to_string(path).expect("a file")
    };
    assert!(write("x.html", "").contains("DecompressionStream"));
    assert!(write("x.svg", "--layer 0 --head 1").starts_with("<svg"));
    assert!(write("all.svg", "--view maps").matches("<g><title>").count() == 8);
    assert!(write("pca.svg", "--view pca").contains("of the variance"));
    assert!(
        write("x.csv", "--view heads").lines().nth(1).is_some_and(|l| l == "layer.head,entropy,previous,first,same")
    );
    let windowed: Value = serde_json::from_str(&write("x.json", "--window 1..3")).expect("JSON");
    assert_eq!(windowed["maps"][0]["weights"][0][0].as_array().map(Vec::len), Some(2));
    assert!(windowed["notes"].to_string().contains("tokens 1 to 2 are shown, of 6"));
}

#[test]
fn a_picture_is_seen_in_patches() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.png");
    image::RgbImage::from_fn(12, 12, |x, y| image::Rgb([(x * 20) as u8, (y * 20) as u8, 90]))
        .save(&file)
        .expect("a picture");
    let seen = json(&format!("see fixtures/tiny/vit {} --view all --steps 8 --json", file.display()));
    assert_eq!(seen["tokens"].as_array().map(Vec::len), Some(10));
    assert_eq!(seen["attribution"]["integrated"].as_array().map(Vec::len), Some(9));
    let svg = folder.path().join("x.svg");
    qkv(&["see", "fixtures/tiny/vit", &file.display().to_string(), "-o", &svg.display().to_string()])
        .assert()
        .success();
    assert!(std::fs::read_to_string(&svg).expect("a file").contains("patch 2,2"));
    let refused = refusal(&format!("see fixtures/tiny/gpt2 {}", file.display()));
    assert!(refused.contains("is a picture, but this model reads text") && refused.contains("hint: "), "{refused}");
    let refused = refusal("see fixtures/tiny/vit hello");
    assert!(refused.contains("is no picture file") && refused.contains("hint: "), "{refused}");
}

#[test]
fn what_cannot_be_seen_is_refused_with_a_hint() {
    let long = (0..70).map(|i| (i % 90 + 3).to_string()).collect::<Vec<_>>().join(",");
    for (name, args) in [
        ("refuse_see_long", format!("see fixtures/tiny/gpt2 --ids {long}")),
        ("refuse_see_head", format!("see {GPT2} --head 9")),
        ("refuse_see_window", format!("see {GPT2} --window 9..12")),
        ("refuse_see_view", format!("see {GPT2} --view align")),
        ("refuse_see_file", format!("see {GPT2} -o x.bmp")),
        ("refuse_see_text_without_tokenizer", "see fixtures/tiny/gpt2 hello".into()),
        ("refuse_see_svg_of_a_table", format!("see {GPT2} --view loss -o x.svg")),
        ("refuse_see_kind", format!("see {GPT2} --kind cross")),
        ("refuse_explain_topic", "explain atention".into()),
        ("refuse_explain_model", "explain norms --model fixtures/tiny/gpt2 --ids 5,6".into()),
        ("refuse_explain_row", "explain attention --model fixtures/tiny/gpt2 --ids 5,6 --row 7".into()),
        ("refuse_explain_cross", "explain cross --model fixtures/tiny/gpt2 --ids 5,6".into()),
    ] {
        assert_snapshot!(name, refusal(&args));
    }
}

/// docs/lectures.md has a row for each topic, in the order of the program.
#[test]
fn every_topic_stands_in_the_order_of_the_lectures() {
    let text = std::fs::read_to_string(root().join("docs/lectures.md")).expect("a page");
    let rows: Vec<&str> = text.split("`qkv explain ").skip(1).filter_map(|t| t.split('`').next()).collect();
    let topics = json("explain --json");
    let names: Vec<&str> = topics.as_array().expect("topics").iter().filter_map(|t| t["topic"].as_str()).collect();
    assert_eq!(rows, names);
}

/// Every `$ qkv explain …` and `$ qkv see …` of the pages prints what the page says; `…` stands for lines left out.
#[test]
fn the_pages_show_what_the_program_prints() {
    let mut ran = 0;
    for page in ["docs/explain.md", "docs/see.md"] {
        let text = std::fs::read_to_string(root().join(page)).expect("a page");
        for block in text.split("```console\n").skip(1) {
            let block = block.split("\n```").next().unwrap_or_default();
            let (command, want) = block.split_once('\n').unwrap_or((block, ""));
            let args: Vec<&str> = command.strip_prefix("$ qkv ").expect("a command").split_whitespace().collect();
            let done = qkv(&args).assert().success();
            let got = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
            let mut rest = got.as_str();
            for part in want.split("\n…\n") {
                let part = part.strip_prefix("…\n").unwrap_or(part);
                let part = part.strip_suffix("\n…").unwrap_or(part);
                let at = rest
                    .find(part)
                    .unwrap_or_else(|| panic!("{page}: `{command}` no longer prints:\n{part}\nbut\n{got}"));
                rest = &rest[at + part.len()..];
            }
            ran += 1;
        }
    }
    assert!(ran >= 5, "only {ran} commands were found");
}

/// A run that kept its checkpoints shows how its maps came about, in every format; what cannot be is refused.
#[test]
fn see_through_the_checkpoints_of_a_run() {
    let place = common::place("");
    let dir = place.path();
    common::done(dir, &["train", "tiny.toml", "--set", "checkpoint.keep=5", "--quiet", "--out", "run"]);
    let told = common::done(dir, &["see", "run", "a wonderful film", "--through"]);
    let table = told.split("through training: attention, layer 0, mean of 2 heads").nth(1).expect("the table");
    for step in ["step 2", "step 3", "step 4", "step 6"] {
        assert!(table.contains(step) && told.contains(&format!("{step}: attention")), "{step}\n{told}");
    }
    let json = common::done(dir, &["see", "run", "a wonderful film", "--through", "2,6", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let names: Vec<&str> = json["maps"].as_array().expect("maps").iter().filter_map(|m| m["name"].as_str()).collect();
    assert_eq!(names, ["step 2", "step 6"]);
    // The map of the last checkpoint is that of the checkpoint by its name.
    let alone = common::done(dir, &["see", "run@6", "a wonderful film", "--json"]);
    let alone: Value = serde_json::from_str(&alone).expect("JSON");
    assert_eq!(alone["maps"][0]["weights"], json["maps"][1]["weights"]);
    common::done(dir, &["see", "run", "a film", "--through", "-o", "t.svg"]);
    let svg = std::fs::read_to_string(dir.join("t.svg")).expect("a picture");
    assert!(svg.contains(">step 2<") && svg.contains(">step 6<"));
    common::done(dir, &["see", "run", "a film", "--through", "-o", "t.html"]);
    let refused = |args: &[&str]| {
        let (code, _, err) = common::qkv(dir, args);
        assert_eq!(code, 2, "{err}");
        err
    };
    assert!(refused(&["see", "run", "a film", "--through", "5"]).contains("there are @2, @3, @4, @6"));
    assert!(refused(&["see", "run", "a film", "--through", "two"]).contains("`two` is no step"));
    assert!(refused(&["see", "run/model", "a film", "--through"]).contains("is no run with checkpoints"));
}

/// The ancestors have no attention, but for Bahdanau's: what they keep of a text is shown instead of an empty map.
#[test]
fn ancestors_are_seen_by_their_states() {
    for model in ["qkv-rnn", "qkv-gru", "qkv-lstm", "qkv-nplm", "qkv-gru-classify", "qkv-lstm-tag"] {
        let told = answer(&format!("see fixtures/tiny/{model} --ids 5,6,7,8"));
        assert!(told.contains("hidden states in two dimensions, which hold ") && told.contains("input x"), "{told}");
        assert!(told.contains("layer 0 x"), "{model}: every layer has its plane\n{told}");
        let words = ["qkv-rnn", "qkv-gru", "qkv-lstm", "qkv-nplm"].contains(&model);
        assert_eq!(told.contains("loss"), words, "{model}\n{told}");
        let refused = refusal(&format!("see fixtures/tiny/{model} --ids 5,6,7,8 --view maps"));
        assert!(refused.contains("cannot be looked at so") && refused.contains("pca"), "{refused}");
    }
    let seen = json("logits fixtures/tiny/qkv-bahdanau --ids 5,6,7 --decoder-ids 1,8 --attentions --hidden --json");
    let weights = seen["cross_attentions"][0][0][0].as_array().expect("the one layer that looks");
    for row in weights {
        let sum: f64 = row.as_array().expect("a row").iter().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{row}");
    }
    assert!(seen["decoder_hidden_states"].as_array().is_some_and(|layers| layers.len() >= 2));
}
