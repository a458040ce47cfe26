//! Every parser that reads a stranger's bytes: where the file stands, what stands beside it, and what reads it.
//!
//! The table has two readers: the tier of tests beside it, and the targets of `cargo fuzz` in `fuzz/`.

use qkv_data::{Corpus, Reader, Task};
use std::path::{Path, PathBuf};

/// The project's root, above whichever package includes this file.
fn root() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|p| p.join("fixtures").is_dir());
    above.expect("the project's fixtures").to_path_buf()
}

fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// One kind of file: where it stands, what stands beside it, and what reads it.
pub(crate) struct Parser {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) seeds: Vec<Vec<u8>>,
    pub(crate) beside: Vec<(&'static str, Vec<u8>)>,
    pub(crate) read: fn(&Path),
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
    let place =
        all.save(&model, &qkv_optim::Optimizer::default(), Default::default(), &state, true).expect("a checkpoint");
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

impl Parser {
    /// Puts `bytes` at the parser's place in `dir`, and what belongs beside it.
    pub(crate) fn write(&self, dir: &Path, bytes: &[u8]) {
        let beside = self.beside.iter().map(|(name, bytes)| (*name, &bytes[..]));
        for (name, bytes) in beside.chain([(self.file, bytes)]) {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, bytes).expect("written");
        }
    }
}

/// A directory in memory where there is one: the cases are many and small.
pub(crate) fn place() -> tempfile::TempDir {
    let place = if Path::new("/dev/shm").is_dir() { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
    place.expect("a place")
}

/// Every parser.
pub(crate) fn parsers() -> Vec<Parser> {
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
