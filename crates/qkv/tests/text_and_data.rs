//! `qkv tokenizer` and `qkv data` as a person meets them: help, answers, refusals with hints, exit codes; and their two
//! pages of the documentation, every command of which is run. `INSTA_UPDATE=always` writes the snapshots anew.

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

fn qkv(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args).current_dir(dir).env("NO_COLOR", "1").env_remove("RAYON_NUM_THREADS");
    command
}

fn words(args: &str) -> Vec<&str> {
    args.split_whitespace().collect()
}

/// stdout of a run that succeeds and says nothing else.
fn answer(dir: &Path, args: &[&str]) -> String {
    let done = qkv(dir, args).assert().success().stderr("");
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
}

/// stdout and stderr of a run that ends with this code.
fn both(dir: &Path, args: &[&str], code: i32) -> String {
    let done = qkv(dir, args).assert().code(code);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    format!("{}--- stderr\n{}", text(&done.get_output().stdout), text(&done.get_output().stderr))
}

/// stderr of a run that is refused with exit code 2 and says nothing on stdout.
fn refusal(dir: &Path, args: &str) -> String {
    let done = qkv(dir, &words(args)).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8")
}

const LINES: &str =
    "low lower lowest\nnew newer newest\nwide wider widest\nthe newest and the widest\nlà città è nuova\n";

/// A directory with `lines.txt` and a tokenizer `t.json` learnt from it.
fn with_tokenizer() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("lines.txt"), LINES.repeat(3)).expect("lines.txt");
    let train = "tokenizer train --kind bpe --vocab 280 --data lines.txt --out t.json";
    qkv(dir.path(), &words(train)).assert().success().stdout("t.json: 280 pieces\n");
    dir
}

fn here() -> &'static Path {
    Path::new(".")
}

#[test]
fn help_of_every_job() {
    for job in ["tokenizer", "tokenizer train", "tokenizer encode", "tokenizer decode", "tokenizer compare"] {
        assert_snapshot!(format!("help_{}", job.replace(' ', "_")), answer(here(), &words(&format!("{job} --help"))));
    }
    for job in ["data", "data make", "data shard", "data check"] {
        assert_snapshot!(format!("help_{}", job.replace(' ', "_")), answer(here(), &words(&format!("{job} --help"))));
    }
}

#[test]
fn encode_and_decode_go_there_and_back() {
    let dir = with_tokenizer();
    let dir = dir.path();
    let text = "the lowest città 😀";
    let ids = answer(dir, &["tokenizer", "encode", "t.json", text]);
    let mut decode = vec!["tokenizer", "decode", "t.json"];
    decode.extend(ids.split_whitespace());
    assert_eq!(answer(dir, &decode), format!("{text}\n"));
    assert_snapshot!("encode_explain", answer(dir, &["tokenizer", "encode", "t.json", "the lowest", "--explain"]));
    assert_snapshot!("encode_json", answer(dir, &["tokenizer", "encode", "t.json", "new città", "--json"]));
}

#[test]
fn a_file_gives_a_line_of_json_for_each_line() {
    let dir = with_tokenizer();
    let dir = dir.path();
    let out = answer(dir, &words("tokenizer encode t.json --file lines.txt --json"));
    assert_eq!(out.lines().count(), LINES.lines().count() * 3);
    for (line, text) in out.lines().zip(LINES.lines()) {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let list = |key: &str| value[key].as_array().expect(key).clone();
        assert_eq!(list("ids").len(), list("pieces").len());
        // Offsets count characters: together the pieces cover the line.
        let last = list("offsets").last().expect("a piece")[1].as_u64().expect("a number");
        assert_eq!(last as usize, text.chars().count());
        assert_eq!(list("bytes").last().expect("a piece")[1].as_u64(), Some(text.len() as u64));
    }
    let back = qkv(dir, &words("tokenizer decode t.json")).write_stdin(out).assert().success();
    assert_eq!(String::from_utf8_lossy(&back.get_output().stdout), LINES.repeat(3));
}

/// Special tokens are put around and taken away as asked.
#[test]
fn special_tokens_are_the_familys() {
    let dir = with_tokenizer();
    let dir = dir.path();
    let train = "tokenizer train --kind wordpiece --vocab 120 --data lines.txt --special <me> --normal nfc,lowercase --out bert";
    qkv(dir, &words(train)).assert().success();
    assert!(dir.join("bert/tokenizer_config.json").is_file());
    let pieces = |more: &[&str]| {
        let args = [&["tokenizer", "encode", "bert", "<me> New", "--json"], more].concat();
        let value: Value = serde_json::from_str(&answer(dir, &args)).expect("JSON");
        value["pieces"].as_array().expect("pieces").iter().map(|p| p.as_str().expect("text").to_string()).collect()
    };
    let (with, without): (Vec<String>, Vec<String>) = (pieces(&[]), pieces(&["--no-special"]));
    assert_eq!((with[0].as_str(), with[1].as_str(), with.last().map(String::as_str)), ("[CLS]", "<me>", Some("[SEP]")));
    assert_eq!(with[1..with.len() - 1], without);
    assert_eq!(without.concat(), "<me>new");
    let ids = answer(dir, &["tokenizer", "encode", "bert", "new"]);
    let ids: Vec<&str> = ids.split_whitespace().collect();
    assert_eq!(answer(dir, &[&["tokenizer", "decode", "bert"], &ids[..]].concat()), "new\n");
    let kept = answer(dir, &[&["tokenizer", "decode", "bert", "--keep-special"], &ids[..]].concat());
    assert!(kept.starts_with("[CLS]") && kept.ends_with("[SEP]\n"), "{kept}");
}

#[test]
fn compare_puts_tokenizers_side_by_side() {
    let dir = with_tokenizer();
    let dir = dir.path();
    qkv(dir, &words("tokenizer train --kind char --vocab 60 --data lines.txt --out c.json")).assert().success();
    let text = "the lowest of all";
    assert_snapshot!("compare", answer(dir, &["tokenizer", "compare", "t.json", "c.json", text]));
    let json = answer(dir, &words("tokenizer compare t.json c.json --file lines.txt --json"));
    let value: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["bytes"].as_u64(), Some(LINES.len() as u64 * 3 - 1));
    let tokens = |i: usize| value["tokenizers"][i]["tokens"].as_u64().expect("a number");
    assert!(tokens(0) < tokens(1), "{json}");
    assert_snapshot!("refuse_compare", refusal(dir, "tokenizer compare t.json d.json --file lines.txt"));
}

/// The texts of a table are learnt from, not its labels; a corpus that is made needs no file.
#[test]
fn tokenizers_are_learnt_from_tables_and_made_corpora() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    std::fs::write(dir.join("rows.tsv"), "text\tlabel\nabc abc\tZZZ\nabd abd\tQQQ\n").expect("rows.tsv");
    let done = qkv(dir, &words("tokenizer train --kind char --data rows.tsv --task classify --out a.json")).assert();
    let said = String::from_utf8_lossy(&done.success().get_output().stderr).into_owned();
    assert!(
        said.contains("note: ") && said.contains("learnt from 2 lines, 16 B, 5 different characters, in "),
        "{said}"
    );
    assert!(said.contains(" of memory at most") || !cfg!(target_os = "linux"), "{said}");
    let json = std::fs::read_to_string(dir.join("a.json")).expect("a.json");
    assert!(json.contains("\"d\"") && !json.contains("\"Z\"") && !json.contains("\"Q\""));
    let made =
        "tokenizer train --kind unigram --vocab 300 --data builtin:add --shape marian --sample 500 --out b --json";
    let done = qkv(dir, &words(made)).assert().success();
    let value: Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    assert_eq!((value["lines"].as_u64(), value["kept"].as_u64()), (Some(40_000), Some(500)));
    // The same seed draws the same lines.
    let again = made.replace("--out b", "--out c");
    qkv(dir, &words(&again)).assert().success();
    let read = |name: &str| std::fs::read(dir.join(name).join("tokenizer.json")).expect("tokenizer.json");
    assert_eq!(read("b"), read("c"));
}

#[test]
fn tokenizer_refuses_with_a_hint() {
    let dir = with_tokenizer();
    let dir = dir.path();
    std::fs::write(dir.join("latin.txt"), b"fine\ncaf\xe9\n").expect("latin.txt");
    for (name, args) in [
        ("train_exists", "tokenizer train --kind bpe --data lines.txt --out t.json"),
        ("train_no_file", "tokenizer train --kind bpe --data line.txt --out u.json"),
        ("train_latin", "tokenizer train --kind bpe --data lines.txt latin.txt --out u.json"),
        ("train_too_few", "tokenizer train --kind bpe --vocab 10 --data lines.txt --out u.json"),
        ("train_pictures", "tokenizer train --kind bpe --corpus builtin:shapes --out u.json"),
        ("train_corpus", "tokenizer train --kind bpe --corpus builtin:en-ti --out u.json"),
        ("encode_no_tokenizer", "tokenizer encode u.json x"),
        ("encode_both", "tokenizer encode t.json x --file lines.txt"),
        ("encode_no_json", "tokenizer encode lines.txt x"),
        ("decode_negative", "tokenizer decode t.json 5 -6"),
        ("decode_beyond", "tokenizer decode t.json 5 280"),
    ] {
        assert_snapshot!(format!("refuse_{name}"), refusal(dir, args));
    }
    assert!(!dir.join("u.json").exists());
}

#[test]
fn data_make_prints_rows() {
    assert_snapshot!("make_list", answer(here(), &words("data make")));
    for corpus in [
        "en-it",
        "en-hi",
        "idioms",
        "reviews",
        "entities",
        "people",
        "facts",
        "pronouns",
        "stories",
        "markup",
        "typos",
        "corrections",
        "style",
        "programs",
        "summaries",
        "sort",
        "add",
    ] {
        let args = format!("data make builtin:{corpus} --n 3");
        assert_snapshot!(format!("make_{corpus}"), answer(here(), &words(&args)));
    }
    assert_snapshot!("make_conll", answer(here(), &words("data make entities --n 2 --format conll --split test")));
    assert_snapshot!(
        "make_jsonl",
        answer(here(), &words("data make facts --n 2 --json --split compositional --seed 7"))
    );
    let header = answer(here(), &words("data make en-it --n 1 --header"));
    assert!(header.starts_with("source\ttarget\n"), "{header}");
    assert_eq!(answer(here(), &words("data make en-hi --n 1000")).lines().count(), 1000);
}

/// What is made is read again, whatever it is written as.
#[test]
fn made_data_is_checked_as_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    for (make, out, task) in [
        ("entities --n 60", "tags.conll", "tag"),
        ("reviews --n 60", "reviews.jsonl", "classify"),
        ("facts --n 60", "facts.tsv", "answer"),
        ("shapes --n 60", "shapes", "image"),
    ] {
        let said = answer(dir, &words(&format!("data make builtin:{make} --out {out}")));
        assert_eq!(said, format!("{out}: 60 examples\n"));
        let done = qkv(dir, &words(&format!("data check {out} --task {task} --json"))).assert().success();
        let value: Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
        assert_eq!((value["usable"].as_u64(), value["can_train"].as_bool()), (Some(60), Some(true)), "{out}: {value}");
    }
    assert_snapshot!("refuse_make_exists", refusal(dir, "data make builtin:add --out facts.tsv"));
}

#[test]
fn data_check_says_whether_training_can_start() {
    let dir = with_tokenizer();
    let dir = dir.path();
    let write = |name: &str, text: String| std::fs::write(dir.join(name), text).expect("a file");
    let row = |i: usize| format!("{} line {i}\t{}\n", ["good", "bad"][i % 2], ["pos", "neg"][i % 2]);
    let rows: String = (0..30).map(row).collect();
    write("train.tsv", format!("text\tlabel\n{rows}bad line 1\tpos\ngood line 2\tpos\n"));
    write("valid.tsv", format!("text\tlabel\n{}good line 99\tneutral\n", row(3)));
    write("one.tsv", "text\tlabel\na b\tx\nc d\tx\n".into());
    write(
        "bad.jsonl",
        "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\"\n{\"text\": \"c\", \"label\": \"y\"}\n".into(),
    );
    let check = |args: &str, code| both(dir, &words(&format!("data check {args}")), code);
    assert_snapshot!("check_good", check("train.tsv --task classify --valid valid.tsv", 0));
    let cut = "train.tsv --task classify --tokenizer t.json --max-length 8 --column text=text";
    assert_snapshot!("check_tokens", check(cut, 0));
    assert_snapshot!("check_one_label", check("one.tsv --task classify", 1));
    assert_snapshot!("check_bad_row", check("bad.jsonl --task classify", 2));
    assert_snapshot!("check_skip_bad_row", check("bad.jsonl --task classify --skip-bad-rows", 0));
    let json = answer(dir, &words("data check one.tsv --task text --header no --column text=1 --json").to_vec());
    let value: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((value["rows"].as_u64(), value["can_train"].as_bool()), (Some(3), Some(true)), "{json}");
}

#[test]
fn data_check_looks_at_built_in_corpora_too() {
    assert_snapshot!("check_builtin", answer(here(), &words("data check builtin:reviews")));
    let done = both(here(), &words("data check builtin:reviews --task tag"), 1);
    assert!(done.contains("training cannot start: 20000 rows not for the task tag"), "{done}");
}

#[test]
fn data_refuses_with_a_hint() {
    for (name, args) in [
        ("make_corpus", "data make builtin:storeys"),
        ("make_split", "data make builtin:stories --split tset"),
        ("make_conll", "data make builtin:stories --format conll"),
        ("make_png", "data make builtin:shapes --format png"),
        ("make_name", "data make builtin:stories --out stories.pdf"),
        ("make_header", "data make builtin:stories --header --json"),
        ("make_nothing", "data make --n 3"),
        ("check_no_task", "data check rows.tsv"),
        ("check_task", "data check rows.tsv --task clasify"),
        ("check_no_file", "data check rows.tsv --task classify"),
        ("check_column", "data check rows.tsv --task classify --column lable=x"),
        ("check_column_form", "data check rows.tsv --task classify --column label"),
        ("check_length", "data check rows.tsv --task classify --max-length 5"),
        ("check_made", "data check builtin:reviews --skip-bad-rows"),
    ] {
        assert_snapshot!(format!("refuse_{name}"), refusal(here(), args));
    }
}

/// What `qkv data make … | head -1` meets when head has gone.
#[test]
fn a_closed_pipe_is_no_error() {
    for args in ["data make builtin:copy --n 2000", "data make", "data check builtin:copy"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_qkv"));
        let command = command.args(words(args)).stdout(writer).stderr(std::process::Stdio::piped());
        let done = command.spawn().expect("qkv").wait_with_output().expect("qkv ends");
        assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""), "{args}");
    }
}

/// Every command of these pages is run, in their order and in one directory, and prints what the page says.
#[test]
#[cfg(unix)]
fn the_pages_show_what_is_printed() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let bin = Path::new(env!("CARGO_BIN_EXE_qkv")).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    for page in ["text.md", "data.md", "shards.md", "decoding.md"] {
        let text = std::fs::read_to_string(docs.join(page)).expect(page);
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink(docs.join("../fixtures"), dir.path().join("fixtures")).expect("a link");
        let mut seen = 0;
        for block in text.split("```console\n").skip(1) {
            let block = format!("\n{}", block.split("```").next().unwrap_or_default());
            for part in block.split("\n$ ").skip(1) {
                let (command, want) = part.split_once('\n').unwrap_or((part, ""));
                let mut shell = std::process::Command::new("sh");
                let shell = shell.args(["-c", command]).current_dir(dir.path()).env("PATH", &path).env("NO_COLOR", "1");
                let done = shell.output().expect("a shell");
                assert_eq!(String::from_utf8_lossy(&done.stdout).trim_end(), want.trim_end(), "{page}: {command}");
                seen += 1;
            }
        }
        assert!(seen > 5, "{page}: only {seen} commands were found: is the search broken?");
    }
}
