//! A run that learns from shards: broken off and taken up again it is the unbroken run, at any number of threads; what it
//! is given beside them is refused or read; and its model is judged by texts like any other.

use qkv_base::Result;
use qkv_data::shards::{ShardSpec, TokenizerChoice, build};
use qkv_data::{Reader, Task, builtin};
use qkv_runs::run_dir::{Expect, RunDir};
use qkv_runs::session::{self, RunOptions};
use qkv_runs::{Ended, Evaluation, Plan, Recipe, recipe::RecipeFile};
use qkv_tasks::{TextModel, Writing};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Some stories as shards of 2,000 tokens, and the file that they were made of.
fn shards(dir: &Path, family: &str) -> (PathBuf, PathBuf) {
    let corpus = builtin::Corpus::find("builtin:stories").unwrap();
    let text: String =
        corpus.examples(1, builtin::Split::Train).take(300).map(|story| format!("{}\n\n", story.text())).collect();
    let (file, out) = (dir.join("stories.txt"), dir.join(format!("shards-{family}")));
    std::fs::write(&file, text).unwrap();
    let (how, start) = qkv_runs::shards::new_tokenizer(Some(family), 400).unwrap();
    let spec = ShardSpec {
        reader: Reader::new(Task::NextToken),
        files: vec![file.clone()],
        tokenizer: TokenizerChoice::Learn(how),
        start,
        shard_tokens: 2000,
        out: out.clone(),
    };
    let built = build(&spec, &mut |_| Ok(())).unwrap();
    assert!(built.index.shards.len() > 5, "{}", built.index.shards.len());
    (out, file)
}

fn recipe(data: &Path, family: &str, more: &str) -> RecipeFile {
    let text = format!(
        "[data]\ncorpus = {data:?}\nobjective = \"next-token\"\nlength = 24\nvalid = 12\ntest = 9\n{more}\n\
         [model]\nfamily = {family:?}\nwidth = 32\nlayers = 1\nheads = 2\ndropout = 0.1\n\
         [train]\nsteps = 12\nrows = 4\nlog = 1\n[schedule]\nwarmup = 3\n[checkpoint]\nevery = 4\n\
         [eval]\nevery = 4\nsamples = 1\nbatches = 2\nmetric = \"perplexity\""
    );
    RecipeFile::parse("test", text).unwrap()
}

fn go(dir: &Path, file: &RecipeFile, threads: usize, stop_at: Option<u64>) -> session::Outcome {
    let expect = if dir.join("recipe.toml").exists() { Expect::Run } else { Expect::Nothing };
    let run = RunDir::open(dir, expect).unwrap();
    let stop = AtomicBool::new(false);
    let mut watch = |event: &qkv_runs::observe::Event| -> Result<()> {
        if let qkv_runs::observe::Event::Step(step) = event
            && Some(step.step) == stop_at
        {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    };
    session::go(&run, file, RunOptions { threads, stop: Some(&stop), ..RunOptions::default() }, &mut watch).unwrap()
}

#[test]
fn a_run_from_shards_resumes_to_the_bit_and_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let (data, text) = shards(dir.path(), "gpt2");
    let file = recipe(&data, "gpt2", "");
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    let outcome = go(&whole, &file, 2, None);
    assert_eq!(outcome.ended, Ended::Done);
    let perplexity = outcome.scores[0].1.values["perplexity"];
    assert!(perplexity.is_finite() && outcome.scores[0].1.values["bits-per-byte"] > 0.0, "{perplexity}");
    assert_eq!(outcome.samples.len(), 9, "a continuation of every row of the test");
    assert_eq!(go(&broken, &file, 1, Some(5)).ended, Ended::Asked);
    assert_eq!(go(&broken, &file, 3, None).ended, Ended::Done);
    for name in ["checkpoints/ckpt-000012/model.safetensors", "model/model.safetensors", "model/tokenizer.json"] {
        let read = |dir: &Path| std::fs::read(dir.join(name)).unwrap();
        assert!(read(&whole) == read(&broken), "{name}");
    }
    assert_eq!(
        std::fs::read(whole.join("model/tokenizer.json")).unwrap(),
        std::fs::read(data.join("tokenizer/tokenizer.json")).unwrap()
    );
    // Judged by a file of texts, as any other run.
    let judged = Evaluation::new(TextModel::load(&whole.join("model")).unwrap(), &whole, 0, "").unwrap();
    let corpus = judged.corpus(&text.display().to_string(), &Default::default(), 20).unwrap();
    let scores = judged.scores(&*corpus, &Writing::default()).unwrap();
    assert!(scores.values["perplexity"].is_finite());
    // Other shards in the same place are other data.
    let mut index = std::fs::read_to_string(data.join("index.json")).unwrap();
    let at = index.rfind("\"crc32c\": ").unwrap() + "\"crc32c\": ".len();
    index.replace_range(at..=at, "1");
    std::fs::write(data.join("index.json"), index).unwrap();
    let run = RunDir::open(&broken, Expect::Run).unwrap();
    let longer = RecipeFile::parse("test", file.text.replace("steps = 12", "steps = 14")).unwrap();
    let refused = session::go(&run, &longer, RunOptions::default(), &mut ()).unwrap_err();
    assert!(refused.what.contains("the data are not those"), "{refused}");
}

#[test]
fn a_network_learns_the_same_from_shards_as_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (data, text) = shards(dir.path(), "gpt2");
    let file = recipe(&data, "gpt2", &format!("valid_file = {text:?}\ntest_file = {text:?}"));
    let plan = Plan::new(&file.recipe, None).unwrap();
    // All rows are for training where files judge.
    let tokens: u64 =
        qkv_data::shards::Shards::open(&data).unwrap().index().shards.iter().map(|s| (s.tokens - 1).div_ceil(24)).sum();
    assert_eq!(plan.train.items().lengths().len() as u64, tokens);
    assert_eq!((plan.splits.valid.len(), plan.splits.test.len()), (300, 300));
    assert!(plan.splits.notes.iter().any(|n| n.starts_with("split: ") && n.contains("drawn by a key")));
    let few = Recipe { data: qkv_runs::recipe::Data { examples: 40, ..file.recipe.data.clone() }, ..file.recipe };
    assert_eq!(Plan::new(&few, None).unwrap().train.items().lengths().len(), 40);
}

#[test]
fn what_shards_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (data, text) = shards(dir.path(), "gpt2");
    let refuse = |recipe: &Recipe| Plan::new(recipe, None).err().expect("refused");
    let plain = recipe(&data, "gpt2", "").recipe;
    let masked = format!(
        "[data]\ncorpus = {data:?}\nobjective = \"masked\"\n[model]\nfamily = \"bert\"\nwidth = 32\nlayers = 1\nheads = 2"
    );
    let error = refuse(&Recipe::parse("test", &masked).unwrap());
    assert!(error.what.contains("not for masked"), "{error}");
    let with = |change: fn(&mut Recipe, &Path), path: &Path| {
        let mut recipe = plain.clone();
        change(&mut recipe, path);
        refuse(&recipe)
    };
    assert_eq!(with(|r, p| r.data.more = vec![p.display().to_string()], &text).place, "data.more");
    let other = dir.path().join("other");
    qkv_text::train(["another text".to_string()], &qkv_runs::shards::new_tokenizer(None, 300).unwrap().0, &mut |_| {})
        .unwrap()
        .tokenizer
        .save(&other)
        .unwrap();
    let error = with(|r, p| r.tokenizer.path = p.display().to_string(), &other);
    assert!(error.what.contains("is not the tokenizer of the shards"), "{error}");
    // Documents of another family begin otherwise.
    let error = with(|r, _| r.model.family = "llama".into(), &text);
    assert!(error.what.contains("but those of this family"), "{error}");
    let (llama, _) = shards(dir.path(), "llama");
    assert!(Plan::new(&recipe(&llama, "llama", "").recipe, None).is_ok());
}
