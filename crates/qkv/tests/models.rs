//! The verbs that load a model: what they print for the reference checkpoints, and how they refuse.

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name).display().to_string()
}

fn qkv(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args).env("NO_COLOR", "1").env_remove("RAYON_NUM_THREADS").current_dir(std::env::temp_dir());
    command
}

fn answer(args: &[&str]) -> String {
    let done = qkv(args).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8").replace(&fixture(""), "")
}

fn refusal(args: &[&str]) -> String {
    let done = qkv(args).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8").replace(&fixture(""), "")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one line of JSON")
}

#[test]
fn logits_under_the_names_of_the_reference() {
    for name in ["bert-answer", "gpt2", "marian", "vit"] {
        let dir = fixture(name);
        let reference: Value = json(&std::fs::read_to_string(Path::new(&dir).join("reference.json")).expect("a file"));
        let file = tempfile::NamedTempFile::new().expect("a place");
        std::fs::write(file.path(), reference["inputs"].to_string()).expect("written");
        let path = file.path().display().to_string();
        let got = json(&answer(&["logits", &dir, "--inputs", &path, "--hidden", "--attentions"]));
        for (key, want) in reference["outputs"].as_object().expect("an object") {
            if want.as_array().is_some_and(|a| a.is_empty()) {
                continue;
            }
            let shape = |v: &Value| {
                let mut shape = vec![];
                let mut v = v;
                while let Some(list) = v.as_array() {
                    shape.push(list.len());
                    v = &list[0];
                }
                shape
            };
            assert_eq!(shape(&got[key]), shape(want), "{name}: {key}");
        }
    }
    let one = json(&answer(&["logits", &fixture("gpt2"), "--ids", "5,6,7", "--json"]));
    assert_eq!(one["logits"][0].as_array().map(Vec::len), Some(3));
    let pair = json(&answer(&["logits", &fixture("t5"), "--ids", "5,6,7"]));
    assert_eq!(pair["logits"][0].as_array().map(Vec::len), Some(1)); // the start token alone
}

#[test]
fn inspect_shows_what_is_on_disk() {
    assert_snapshot!("inspect_llama_fixture", answer(&["inspect", &fixture("llama"), "--depth", "1"]));
    assert_snapshot!(
        "diff_bert_roberta",
        answer(&["inspect", &fixture("bert-mlm"), "--diff", &fixture("roberta-mlm")])
    );
    assert_snapshot!("diff_presets", answer(&["inspect", "--preset", "gpt2", "--diff", "bert-base"]));
    let all = json(&answer(&["inspect", &fixture("vit"), "--json"]));
    assert_eq!(all["family"], "vit");
    assert_eq!(all["network"]["parameters"].as_u64(), all["types"]["F32"][1].as_u64().map(|b| b / 4));
}

#[test]
fn convert_goes_round() {
    let dir = tempfile::tempdir().expect("a place");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let logits = |model: &str| json(&answer(&["logits", model, "--ids", "5,6,7", "--json"]));
    let want = logits(&fixture("llama"));
    answer(&["convert", &fixture("llama"), &at("a.gguf")]);
    answer(&["convert", &at("a.gguf"), &at("back")]);
    assert_eq!(logits(&at("a.gguf")), want);
    assert_eq!(logits(&at("back")), want);
    answer(&["convert", &fixture("llama"), &at("half"), "--dtype", "bf16"]);
    let small =
        |name: &str| std::fs::metadata(PathBuf::from(at(name)).join("model.safetensors")).expect("a file").len();
    assert!(small("half") < small("back") * 6 / 10);
    assert!(refusal(&["convert", &fixture("llama"), &at("half")]).contains("exists already"));
    assert!(
        refusal(&["convert", &fixture("llama"), &at("new"), "--dtype", "q8_0"])
            .contains("f32, f16, bf16, int8 or int4")
    );
    assert!(refusal(&["convert", &fixture("vit"), &at("new.gguf")]).contains("supported in GGUF: bert, gpt2, llama"));
}

/// A reference checkpoint with a tokenizer that was learnt on the spot.
fn with_tokenizer(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a place");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(Path::new(&fixture(name)).join(file), dir.path().join(file)).expect("copied");
    }
    let text = dir.path().join("lines.txt");
    std::fs::write(&text, "the cat sat on the mat\nthe dog ran to the red house\nwho is it that sat\n")
        .expect("written");
    let (data, out) = (text.display().to_string(), dir.path().display().to_string());
    let kind = ["--kind", "wordpiece", "--shape", "bert", "--vocab", "97", "--min-frequency", "1"];
    answer(&[&["tokenizer", "train", "--data", &data, "--out", &out], &kind[..]].concat());
    dir
}

/// The ids of `text`, as `tokenizer encode` prints them, and what `logits` says of them.
fn logits_of(dir: &str, text: &str) -> (Vec<u64>, Value) {
    let ids = answer(&["tokenizer", "encode", dir, text]);
    let ids: Vec<u64> = ids.split_whitespace().map(|id| id.parse().expect("an id")).collect();
    let list = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let seen = json(&answer(&["logits", dir, "--ids", &list, "--json"]));
    (ids, seen)
}

fn softmax(row: &Value) -> Vec<f64> {
    let row: Vec<f64> = row.as_array().expect("a row").iter().map(|v| v.as_f64().expect("a number")).collect();
    let most = row.iter().cloned().fold(f64::MIN, f64::max);
    let all: f64 = row.iter().map(|v| (v - most).exp()).sum();
    row.iter().map(|v| (v - most).exp() / all).collect()
}

fn near(got: &Value, want: f64) -> bool {
    (got.as_f64().expect("a number") - want).abs() < 1e-5
}

#[test]
fn fill_names_what_the_logits_prefer() {
    let place = with_tokenizer("bert-mlm");
    let dir = place.path().display().to_string();
    let text = "the [MASK] sat on the [MASK]";
    let got = json(&answer(&["fill", &dir, text, "--top", "3", "--json"]));
    let (ids, seen) = logits_of(&dir, text);
    let mask = json(&std::fs::read_to_string(place.path().join("tokenizer.json")).unwrap())["added_tokens"]
        .as_array()
        .and_then(|all| all.iter().find(|t| t["content"] == "[MASK]"))
        .and_then(|t| t["id"].as_u64())
        .expect("a mask");
    let gaps: Vec<usize> = (0..ids.len()).filter(|i| ids[*i] == mask).collect();
    assert_eq!(gaps.len(), 2);
    assert_eq!(got["gaps"].as_array().map(Vec::len), Some(2));
    for (gap, at) in got["gaps"].as_array().unwrap().iter().zip(gaps) {
        let p = softmax(&seen["logits"][0][at]);
        let named = gap.as_array().expect("candidates");
        assert_eq!(named.len(), 3);
        for pair in named.windows(2) {
            assert!(pair[0]["probability"].as_f64() >= pair[1]["probability"].as_f64());
        }
        for candidate in named {
            assert!(near(&candidate["probability"], p[candidate["id"].as_u64().unwrap() as usize]));
            assert!(!candidate["text"].as_str().unwrap().is_empty());
        }
    }
    let shown = answer(&["fill", &dir, "the [MASK] sat", "--top", "2"]);
    assert_eq!(shown.lines().count(), 3);
    let refused = refusal(&["fill", &dir, "no gap"]);
    assert!(refused.contains("no gap") && refused.contains("hint: write [MASK]"), "{refused}");
}

#[test]
fn classify_gives_every_label_its_probability() {
    let place = with_tokenizer("bert-classify");
    let dir = place.path().display().to_string();
    let file = place.path().join("texts.txt");
    std::fs::write(&file, "the cat sat on the mat\nwho is it\n").unwrap();
    let lines = answer(&["classify", &dir, "--file", &file.display().to_string(), "--json"]);
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(lines.len(), 2);
    for (line, text) in lines.iter().zip(["the cat sat on the mat", "who is it"]) {
        let p = softmax(&logits_of(&dir, text).1["logits"][0]);
        let scores = line["labels"].as_array().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(scores.len(), p.len());
        for score in scores {
            let label: usize = score["label"].as_str().unwrap().trim_start_matches("LABEL_").parse().unwrap();
            assert!(near(&score["score"], p[label]), "{line} for {p:?}");
        }
    }
}

#[test]
fn tag_gives_each_word_the_label_of_its_first_piece() {
    let place = with_tokenizer("bert-tag");
    let dir = place.path().display().to_string();
    let got = json(&answer(&["tag", &dir, "the cat sat", "--words", "--json"]));
    let (_, seen) = logits_of(&dir, "the cat sat");
    let words = got["words"].as_array().unwrap_or_else(|| panic!("{got}"));
    assert_eq!(words.len(), 3);
    for (i, (word, text)) in words.iter().zip(["the", "cat", "sat"]).enumerate() {
        let p = softmax(&seen["logits"][0][i + 1]);
        let label: usize = word["label"].as_str().unwrap().trim_start_matches("LABEL_").parse().unwrap();
        assert_eq!(word["text"], text);
        assert!(p.iter().all(|q| *q <= p[label]) && near(&word["score"], p[label]), "{word} for {p:?}");
    }
}

#[test]
fn answer_is_a_part_of_the_context() {
    let place = with_tokenizer("bert-answer");
    let dir = place.path().display().to_string();
    let context = "the dog ran to the red house";
    let args = ["answer", &dir, "--context", context, "--question", "who ran", "--top", "4", "--json"];
    let got = json(&answer(&args));
    let answers = got["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 4);
    for one in answers {
        let (start, end) = (one["start"].as_u64().unwrap() as usize, one["end"].as_u64().unwrap() as usize);
        assert_eq!(one["text"], context[start..end]);
    }
    let scores: Vec<f64> = answers.iter().map(|a| a["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b) && scores[0] <= 1.0, "{scores:?}");
    // What is longer than the model can read is read in windows.
    let long = [context; 12].join(" ");
    let wide = json(&answer(&["answer", &dir, "--context", &long, "--question", "who ran", "--json"]));
    assert!(long.contains(wide["answers"][0]["text"].as_str().expect("an answer")));
}

#[test]
fn a_picture_gets_classes() {
    let dir = fixture("vit");
    let file = tempfile::Builder::new().suffix(".png").tempfile().expect("a place");
    let picture = image::RgbImage::from_fn(12, 12, |x, y| image::Rgb([x as u8 * 20, y as u8 * 20, 128]));
    picture.save(file.path()).expect("saved");
    let name = file.path().display().to_string();
    let got = json(&answer(&["image", &dir, &name, "--top", "9", "--json"]));
    // At the model's own size nothing is resized: the pixels are those of the picture, from -1 to 1.
    let plane = |c: usize| -> Vec<Vec<f64>> {
        let at = |x: usize, y: usize| picture.get_pixel(x as u32, y as u32).0[c] as f64 / 127.5 - 1.0;
        (0..12).map(|y| (0..12).map(|x| at(x, y)).collect()).collect()
    };
    let inputs = tempfile::NamedTempFile::new().expect("a place");
    let pixels = serde_json::json!({"pixel_values": [[plane(0), plane(1), plane(2)]]});
    std::fs::write(inputs.path(), pixels.to_string()).expect("written");
    let seen = json(&answer(&["logits", &dir, "--inputs", &inputs.path().display().to_string(), "--json"]));
    let p = softmax(&seen["logits"][0]);
    let scores = got["labels"].as_array().unwrap_or_else(|| panic!("{got}"));
    assert_eq!(scores.len(), p.len());
    for score in scores {
        let label: usize = score["label"].as_str().unwrap().trim_start_matches("LABEL_").parse().unwrap();
        assert!(near(&score["score"], p[label]), "{got} for {p:?}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    assert_snapshot!("refuse_no_model", refusal(&["logits", "nowhere", "--ids", "1"]));
    assert_snapshot!("refuse_id_outside", refusal(&["logits", &fixture("gpt2"), "--ids", "1,97"]));
    assert_snapshot!("refuse_wrong_head", refusal(&["classify", &fixture("bert-mlm"), "text"]));
    assert_snapshot!("refuse_no_tokenizer", refusal(&["fill", &fixture("bert-mlm"), "a [MASK]"]));
    assert_snapshot!("refuse_no_run", refusal(&["embed", "just a text"]));
    assert_snapshot!("refuse_diff_unknown", refusal(&["inspect", "--preset", "gpt2", "--diff", "brt-base"]));
}
