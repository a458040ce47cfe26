//! Every parser that reads a stranger's bytes, fed with damaged ones: whatever a file says, reading it ends in values or in
//! an error, soon, and within a bounded memory; never in a panic, a hang or the end of the process.
//!
//! `cargo test --release -p qkv --test fuzz -- --ignored` runs each kind for some seconds; `QKV_FUZZ_SECONDS=60` for
//! longer, `QKV_FUZZ_SEED=7` with other damages. Seeds are our own fixtures. Damages know a little of what they damage:
//! bytes are flipped, cut, doubled; numbers become those that programs get wrong; JSON values become others; two seeds
//! become one. A case that fails is written beside the message, so that it can be read again.
#![cfg(unix)]

use qkv_base::Key;
use qkv_base::budget::{self, Budget};
use qkv_data::{Corpus, Reader, Task};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

// It counts what a case takes.
#[global_allocator]
static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();

/// Cases that one thread takes.
const TOGETHER: u64 = 32;

/// What they may take, at one time and together. Pictures are decoded into at most 256 MiB and resized from there.
const BUDGET: Budget = Budget { memory: 640 << 20, stack: 8 << 20, time: Duration::from_secs(20) };

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Draws numbers for one case.
struct Draw {
    key: Key,
    at: u64,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        self.key.below(self.at, n.max(1))
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let i = self.below(all.len());
        &all[i]
    }
}

/// Numbers that programs get wrong, as bytes and as text.
const EDGES: [u64; 12] = [0, 1, 2, 0x7f, 0xff, 0xffff, 1 << 24, 1 << 31, 0xffff_ffff, 1 << 40, 1 << 63, u64::MAX];
const WORDS: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "9223372036854775807",
    "18446744073709551616",
    "0.1",
    "\"\\u0000\\u001b\"",
    "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]",
];

/// A JSON value with one of its parts replaced.
fn other_json(value: &mut Value, draw: &mut Draw) {
    let strange = |draw: &mut Draw| serde_json::from_str(draw.one::<&str>(&WORDS)).unwrap_or(Value::Null);
    match value {
        Value::Object(map) if !map.is_empty() && draw.below(8) > 0 => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = draw.one(&keys).clone();
            match draw.below(10) {
                0 => drop(map.remove(&key)),
                1 => {
                    let twin = map[&key].clone();
                    map.insert(draw.one(&keys).clone(), twin);
                }
                _ => other_json(&mut map[&key], draw),
            }
        }
        Value::Array(list) if !list.is_empty() && draw.below(8) > 0 => {
            let at = draw.below(list.len());
            match draw.below(10) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.truncate(at),
                _ => other_json(&mut list[at], draw),
            }
        }
        Value::Number(_) => *value = strange(draw),
        Value::String(text) if draw.below(2) == 0 => {
            let at = (0..=text.len()).rev().find(|i| text.is_char_boundary(*i) && *i <= text.len() / 2).unwrap_or(0);
            text.insert_str(at, draw.one::<&str>(&["\u{0}", "\u{1b}[2J", "../../", "é", "{{", "%}", "\n"]));
        }
        other => *other = strange(draw),
    }
}

/// A seed with one to four damages.
fn damaged(seeds: &[Vec<u8>], draw: &mut Draw) -> Vec<u8> {
    let mut out = draw.one(seeds).clone();
    if let (0..=3, Ok(mut value)) = (draw.below(8), serde_json::from_slice::<Value>(&out)) {
        (0..=draw.below(3)).for_each(|_| other_json(&mut value, draw));
        return value.to_string().into_bytes();
    }
    for _ in 0..=draw.below(4) {
        let length = out.len();
        if length == 0 {
            break;
        }
        let at = draw.below(length);
        // The head of a file decides most; it is hit more often than its share.
        let at = if draw.below(2) == 0 { at.min(draw.below(256)) } else { at };
        match draw.below(9) {
            0 => out[at] = draw.below(256) as u8,
            1 => out[at] ^= 1 << draw.below(8),
            2 => out.truncate(at),
            3 => drop(out.drain(at..(at + 1 + draw.below(16)).min(length))),
            4 => {
                let piece = out[at..(at + 1 + draw.below(64)).min(length)].to_vec();
                let to = draw.below(length);
                drop(out.splice(to..to, piece));
            }
            5 => {
                let (edge, width) = (draw.one(&EDGES).to_le_bytes(), *draw.one(&[1, 2, 4, 8]));
                out[at..].iter_mut().zip(&edge[..width]).for_each(|(b, n)| *b = *n);
            }
            6 => {
                // A number in a text becomes another.
                let Some(start) = out[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { continue };
                let end = out[start..].iter().position(|b| !b.is_ascii_digit()).map_or(length, |n| start + n);
                drop(out.splice(start..end, draw.one(&WORDS).bytes()));
            }
            7 => {
                let other = draw.one(seeds);
                let from = draw.below(other.len());
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
            _ => {
                let word =
                    draw.one(&["\u{feff}", "\r\n", "\"", "\t", ",", "\\", "{", "[", "\0", "{%", "}}", "é", "''"]);
                drop(out.splice(at..at, word.bytes()));
            }
        }
    }
    out.truncate(4 << 20);
    out
}

/// One kind of file: where it stands, what stands beside it, and what reads it.
struct Parser {
    name: &'static str,
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    beside: Vec<(&'static str, Vec<u8>)>,
    read: fn(&Path),
}

fn parser(name: &'static str, file: &'static str, seeds: Vec<Vec<u8>>, read: fn(&Path)) -> Parser {
    Parser { name, file, seeds, beside: vec![], read }
}

fn weights(path: &Path) {
    if let Ok(file) = qkv_weights::Checkpoint::open(path) {
        let mut seen = qkv_weights::Finiteness::default();
        for entry in file.entries() {
            let _ = file.read_f32_counting(&entry.name, &mut seen);
        }
    }
}

fn network(dir: &Path) {
    let _ = qkv_model::Pretrained::load(dir, &qkv_nn::device::default());
}

fn tokenizer(dir: &Path) {
    if let Ok(tokenizer) = qkv_tasks::tokenizer(dir) {
        let _ = tokenizer.encode("the cat sat on the mat, è vero 😀\n", true).map(|e| tokenizer.decode(&e.ids, true));
        let _ = qkv_text::Chat::of(&tokenizer, None);
    }
}

fn template(path: &Path) {
    let Ok(text) = std::fs::read(path) else { return };
    if let Ok(chat) = qkv_text::Chat::new(&String::from_utf8_lossy(&text)) {
        let say = |role: &str| qkv_text::Message::new(role, "hi {{ x }}");
        let _ = chat.render(&[say("system"), say("user"), say("assistant"), say("user")], true);
    }
}

fn examples(path: &Path, task: Task) {
    if let Ok(opened) = Reader::new(task).open(path) {
        let corpus: &dyn Corpus = &*opened.corpus;
        corpus.examples().take(200).for_each(|e| drop(e.map(|e| e.texts())));
        let _ = qkv_data::check(corpus, task, qkv_data::Against::default());
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    // Stored, not packed: what is damaged is the frame and the text, both.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
    let n = bytes.len() as u16;
    out.extend(n.to_le_bytes());
    out.extend((!n).to_le_bytes());
    out.extend(bytes);
    let mut crc = u32::MAX;
    for b in bytes {
        crc ^= u32::from(*b);
        (0..8).for_each(|_| crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 });
    }
    out.extend((!crc).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

fn pictures() -> Vec<Vec<u8>> {
    let picture = image::RgbImage::from_fn(9, 7, |x, y| image::Rgb([x as u8 * 20, y as u8 * 30, 7]));
    let as_format = |format| {
        let mut out = std::io::Cursor::new(vec![]);
        image::DynamicImage::ImageRgb8(picture.clone()).write_to(&mut out, format).expect("a picture");
        out.into_inner()
    };
    vec![as_format(image::ImageFormat::Png), as_format(image::ImageFormat::Jpeg)]
}

/// A small run with two checkpoints, made once.
fn checkpoint_files() -> Vec<(&'static str, Vec<u8>)> {
    use burn::tensor::Device;
    let dir = tempfile::tempdir().expect("a place");
    let spec = qkv_model::presets::find("tiny-decoder").expect("a preset").spec();
    let model = qkv_model::Transformer::new(&spec, 1, &Device::flex().autodiff()).expect("a network");
    let all = qkv_runs::checkpoint::Checkpoints::open(dir.path(), 2);
    let state = qkv_runs::checkpoint::State { step: 1, data: "abc".into(), ..Default::default() };
    let place = all.save(&model, &qkv_optim::Optimizer::default(), None, &state, true).expect("a checkpoint");
    let read = |name: &str| std::fs::read(place.join(name)).expect("a file");
    vec![
        ("ckpt-000001/state.json", read("state.json")),
        ("ckpt-000001/MANIFEST.json", read("MANIFEST.json")),
        ("ckpt-000001/model.safetensors", read("model.safetensors")),
        ("ckpt-000001/optimizer.safetensors", read("optimizer.safetensors")),
        ("latest", b"ckpt-000001".to_vec()),
        ("best", b"ckpt-000001".to_vec()),
    ]
}

fn run_directory(dir: &Path) {
    let all = qkv_runs::checkpoint::Checkpoints::open(dir, 2);
    let _ = (all.latest(), all.best());
}

/// Every parser.
fn parsers() -> Vec<Parser> {
    let tiny = |name: &str| format!("fixtures/tiny/{name}");
    let weight = |name: &str| bytes(&format!("crates/weights/tests/fixtures/{name}"));
    let config = |family: &str| bytes(&format!("{}/config.json", tiny(family)));
    let text = |name: &str| bytes(&format!("crates/text/tests/data/{name}"));
    let small = qkv_weights::Tensor::values("layers.0.weight", [3, 4], &[0.5; 12]);
    let made = tempfile::tempdir().expect("a place");
    qkv_weights::save_safetensors(made.path(), &[small], qkv_weights::Dtype::F16, u64::MAX).expect("a file");
    let table = b"label,text\ngood,\"a fine, \"\"film\"\"\"\nbad,\"no\nway\"\ngood,yes\n".to_vec();
    let conll = b"Ada B-PER\nleft O\nRome B-LOC\n\nBob I-PER\nsaw O\n".to_vec();
    let squad = br#"{"data":[{"paragraphs":[{"context":"Ada left Rome","qas":[{"id":"1","question":"Who?","answers":[{"text":"Ada","answer_start":0}]}]}]}]}"#;
    let jsonl = b"{\"text\":\"fine\",\"label\":\"good\"}\n{\"text\":\"no\",\"label\":\"bad\"}\n".to_vec();
    let checkpoint = checkpoint_files();
    let mut all = vec![
        parser("safetensors", "model.safetensors", vec![std::fs::read(made.path().join("model.safetensors")).expect("it")], |d| {
            weights(&d.join("model.safetensors"));
        }),
        parser("pickle, zip", "a.bin", ["zip.bin", "protocol4.bin", "deflated.bin", "module.bin"].map(weight).to_vec(), |d| {
            weights(&d.join("a.bin"));
        }),
        parser("pickle, legacy", "a.bin", vec![weight("legacy.bin")], |d| weights(&d.join("a.bin"))),
        parser("GGUF", "a.gguf", vec![weight("tiny.gguf")], |d| {
            weights(&d.join("a.gguf"));
            tokenizer(&d.join("a.gguf"));
        }),
        parser("tokenizer.json", "tokenizer.json", vec![bytes("crates/qkv/tests/data/tokenizer.json")], tokenizer),
        parser("template", "t.jinja", vec![
            b"{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% if not loop.last %}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}".to_vec(),
            b"{%- set ns = namespace(i=0) -%}{%- for m in messages -%}{%- set ns.i = ns.i + 1 -%}{{ m['content'].split(' ')[0] ~ ns.i ~ (m | tojson) }}{%- endfor -%}".to_vec(),
        ], |d| template(&d.join("t.jinja"))),
        parser("recipe", "r.toml", qkv_runs::recipe::ALL.iter().map(|(_, text)| text.as_bytes().to_vec()).collect(), |d| {
            if let Ok(text) = std::fs::read_to_string(d.join("r.toml")) {
                let _ = qkv_runs::recipe::Recipe::parse("r.toml", &text);
                let _ = qkv_runs::recipe::set(&text, "train.steps=3");
            }
        }),
        parser("table", "a.csv", vec![table.clone(), b"text\tlabel\nx\ty\n".to_vec()], |d| examples(&d.join("a.csv"), Task::Classify)),
        parser("CoNLL", "a.conll", vec![conll], |d| examples(&d.join("a.conll"), Task::Tag)),
        parser("SQuAD", "a.json", vec![squad.to_vec()], |d| examples(&d.join("a.json"), Task::Answer)),
        parser("JSONL", "a.jsonl", vec![jsonl.clone()], |d| examples(&d.join("a.jsonl"), Task::Classify)),
        parser("gzip", "a.csv.gz", vec![gzip(&table), gzip(&jsonl)], |d| examples(&d.join("a.csv.gz"), Task::Classify)),
        parser("picture", "a/1.png", pictures(), |d| {
            let size = qkv_data::readers::Picture { width: 8, height: 8, channels: 3 };
            let _ = qkv_data::readers::read_picture(&d.join("a/1.png"), size);
        }),
        parser("IDX", "train-images-idx3-ubyte", vec![vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6]], |d| {
            examples(&d.join("train-images-idx3-ubyte"), Task::Image);
        }),
        parser("SentencePiece", "spiece.model", ["t5/spiece.model", "llama/tokenizer.model"].iter().filter_map(|n| std::fs::read(root().join("crates/text/tests/data").join(n)).ok()).collect(), tokenizer),
        parser("preprocessor_config.json", "preprocessor_config.json", vec![br#"{"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"do_rescale":true,"rescale_factor":0.00392,"size":{"height":8,"width":8}}"#.to_vec()], |d| {
            let _ = qkv_data::objective::Normalisation::load(d, 3);
        }),
        parser("generation_config.json", "generation_config.json", vec![br#"{"eos_token_id":[1,2],"do_sample":true,"temperature":0.7,"top_k":5,"num_beams":4,"max_new_tokens":9}"#.to_vec()], |d| {
            let _ = qkv_decode::Defaults::load(d, &serde_json::Map::new());
        }),
    ];
    all.retain(|p| !p.seeds.is_empty());
    let _ = text;
    for (name, family) in [
        ("config.json, bert", "bert-classify"),
        ("config.json, llama", "llama"),
        ("config.json, t5", "t5"),
        ("config.json, vit", "vit"),
        ("config.json, gemma3", "gemma3"),
    ] {
        let beside = vec![("model.safetensors", bytes(&format!("{}/model.safetensors", tiny(family))))];
        all.push(Parser { beside, ..parser(name, "config.json", vec![config(family)], network) });
    }
    let shards = {
        let dir = tempfile::tempdir().expect("a place");
        let tensors =
            [qkv_weights::Tensor::values("a", [8], &[0.5; 8]), qkv_weights::Tensor::values("b", [8], &[0.5; 8])];
        qkv_weights::save_safetensors(dir.path(), &tensors, qkv_weights::Dtype::F32, 40).expect("shards");
        let read = |name: &str| std::fs::read(dir.path().join(name)).expect("a file");
        (
            read("model.safetensors.index.json"),
            read("model-00001-of-00002.safetensors"),
            read("model-00002-of-00002.safetensors"),
        )
    };
    all.push(Parser {
        beside: vec![("model-00001-of-00002.safetensors", shards.1), ("model-00002-of-00002.safetensors", shards.2)],
        ..parser("index", "model.safetensors.index.json", vec![shards.0], weights)
    });
    let adapter = |name: &str| bytes(&format!("crates/train/tests/adapters/gpt2/{name}"));
    for (name, file, other) in [
        ("adapter_config.json", "adapter_config.json", "adapter_model.safetensors"),
        ("adapter", "adapter_model.safetensors", "adapter_config.json"),
    ] {
        let read: fn(&Path) = |dir| {
            static BASE: std::sync::OnceLock<qkv_model::Pretrained> = std::sync::OnceLock::new();
            let base = BASE.get_or_init(|| {
                let place = root().join("fixtures/tiny/gpt2");
                qkv_model::Pretrained::load(&place, &qkv_nn::device::default()).expect("a fixture")
            });
            let _ = qkv_train::adapter::load(base, dir);
        };
        all.push(Parser { beside: vec![(other, adapter(other))], ..parser(name, file, vec![adapter(file)], read) });
    }
    for (name, file) in [("run: state.json", 0), ("run: MANIFEST.json", 1), ("run: latest", 4)] {
        let (file, seed) = checkpoint[file].clone();
        let beside = checkpoint.iter().filter(|(other, _)| *other != file).cloned().collect();
        all.push(Parser { beside, ..parser(name, file, vec![seed], run_directory) });
    }
    all
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Feeds one parser for so long; returns how many cases there were.
fn feed(parser: &Parser, time: Duration, seed: u64) -> u64 {
    let place = if Path::new("/dev/shm").is_dir() { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
    let place = place.expect("a place");
    let write = |name: &str, bytes: &[u8]| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("written");
    };
    let (read, seeds) = (parser.read, Arc::new(parser.seeds.clone()));
    write(parser.file, &[]);
    let (since, dir) = (Instant::now(), Arc::new(place.path().to_path_buf()));
    let mut cases = 0;
    while since.elapsed() < time {
        // A thread takes some cases, one after the other; where it breaks off, the file of the last one is still there.
        parser.beside.iter().for_each(|(name, bytes)| write(name, bytes));
        let (dir, seeds, name, file) = (dir.clone(), seeds.clone(), parser.name, parser.file);
        let some = move || {
            for case in cases..cases + TOGETHER {
                let mut draw = Draw { key: Key::new(seed, case, 0).named(name), at: 0 };
                std::fs::write(dir.join(file), damaged(&seeds, &mut draw)).expect("written");
                read(&dir);
            }
        };
        if let Err(e) = budget::run(parser.name, BUDGET, some) {
            let kept = std::env::temp_dir().join(format!("fuzz-{seed}-{cases}"));
            std::fs::copy(place.path().join(parser.file), &kept).expect("copied");
            panic!("{}: {}; a case from {cases} on of seed {seed}, in {}", parser.name, e.what, kept.display());
        }
        cases += TOGETHER;
    }
    cases
}

#[test]
#[ignore = "slow: some seconds for every parser"]
fn fuzz_every_parser() {
    let (seconds, seed) = (number("QKV_FUZZ_SECONDS", 2), number("QKV_FUZZ_SEED", 1));
    let only = std::env::var("QKV_FUZZ_ONLY").unwrap_or_default();
    let mut all = 0;
    for parser in parsers().iter().filter(|p| p.name.contains(&only)) {
        let cases = feed(parser, Duration::from_secs(seconds), seed);
        println!("{:>9} {}", cases, parser.name);
        all += cases;
    }
    println!("{all:>9} cases");
    assert!(all > 0);
}

/// The damages reach what they are made for: some cases of each kind are refused, and some are still read.
#[test]
fn fuzz_damages_do_something() {
    let seed = vec![br#"{"a": [1, 2, {"b": "c"}], "d": 7}"#.to_vec()];
    let cases: Vec<Vec<u8>> = (0..300).map(|i| damaged(&seed, &mut Draw { key: Key::new(1, i, 0), at: 0 })).collect();
    let sound = cases.iter().filter(|c| serde_json::from_slice::<Value>(c).is_ok()).count();
    assert!((60..290).contains(&sound), "{sound} of 300 are still JSON");
    assert!(cases.iter().filter(|c| **c == seed[0]).count() < 10);
    let again = damaged(&seed, &mut Draw { key: Key::new(1, 7, 0), at: 0 });
    assert_eq!(again, cases[7], "a case can be made again");
}
