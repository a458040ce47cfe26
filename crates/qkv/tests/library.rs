//! The front door, as a program uses it: networks of a few thousand numbers, a few steps, no binary.

use qkv::{Evaluate, Event, Model, Recipe, Result, Run, Task, Translate, Writing, evaluate};
use std::path::Path;
use tempfile::TempDir;

/// A recipe of a few steps.
fn small(corpus: &str, task: &str, family: &str, kind: &str) -> Recipe {
    let text = format!(
        "[data]\ncorpus = \"builtin:{corpus}\"\nobjective = \"{task}\"\nexamples = 40\nvalid = 8\ntest = 8\nlength = 48\n\
         [tokenizer]\nkind = \"{kind}\"\nvocab = 300\n\
         [model]\nfamily = \"{family}\"\nwidth = 16\nlayers = 1\nheads = 2\n\
         [train]\nsteps = 3\nrows = 4\n[schedule]\nwarmup = 1\n[eval]\nevery = 0\nsamples = 1\n"
    );
    Recipe::parse("small", &text).unwrap()
}

fn trained(recipe: Recipe) -> (TempDir, Run) {
    let dir = tempfile::tempdir().unwrap();
    let run = recipe.out(dir.path().join("run")).run(&mut ()).unwrap();
    (dir, run)
}

fn greedy() -> Evaluate {
    Evaluate { writing: Writing::greedy(), ..Evaluate::default() }
}

/// What `evaluate` judges is what `translate` says: by a beam where nothing else is said, greedily where that is asked for.
#[test]
fn evaluation_answers_as_the_verb_would() -> Result<()> {
    let (_dir, run) = trained(small("copy", "translate", "marian", "unigram").set("train.steps", 30)?);
    let model = run.model()?;
    for (how, asked) in [(Evaluate::default(), Translate::beam(4)), (greedy(), Translate::greedy())] {
        let done = evaluate(run.dir(), "builtin:copy", &Evaluate { examples: 12, ..how })?;
        assert_eq!((done.task, done.scores.judged.len()), (Task::Translate, 12));
        let sources: Vec<&str> = done.scores.judged.iter().map(|j| j.source.as_str()).collect();
        for (texts, judged) in model.translate(&sources, &asked)?.iter().zip(&done.scores.judged) {
            assert_eq!(texts[0].text.trim(), judged.got);
        }
    }
    // What the run said about itself, evaluation says too.
    let again = evaluate(run.dir(), "builtin:copy", &Evaluate { examples: 8, ..Evaluate::default() })?;
    assert_eq!(again.scores.values.get("bleu").copied(), run.score("bleu"));
    assert!(model.translate(&["", "a b"], &Translate::beam(2).n_best(2))?.iter().map(Vec::len).eq([0, 2]));
    Ok(())
}

#[test]
fn a_stream_says_what_a_run_says() -> Result<()> {
    let (_dir, run) = trained(small("stories", "next-token", "gpt2", "bpe"));
    let model = run.model()?;
    let ask = || model.generate("Once upon").chain("top_k 20, temperature 0.9").map(|g| g.seed(7).max_tokens(12));
    let whole = &ask()?.run()?[0];
    let pieces: String = ask()?.stream()?.collect::<Result<Vec<_>>>()?.concat();
    assert_eq!((pieces, whole.ids.len()), (whole.text.clone(), 12));
    assert_ne!(ask()?.seed(8).run()?[0].ids, whole.ids);
    // A reader that goes away ends the writing; nothing hangs and nothing panics.
    drop(ask()?.stream()?.next());
    assert!(ask()?.beam(2).stream().is_err());
    let score = model.score("Once upon a time")?;
    assert!((score.tokens.iter().map(|(_, p)| p).sum::<f64>() - score.logprob).abs() < 1e-9);
    assert_eq!(model.logits(&[1, 2, 3])?.len(), 3);
    assert!(model.classify(&["x"]).unwrap_err().what.contains("`classify` needs a head that classifies"));
    Ok(())
}

#[test]
fn an_observer_is_told_what_happens_in_order() -> Result<()> {
    let mut seen: Vec<&str> = vec![];
    let recipe = small("reviews", "classify", "bert", "wordpiece").out(tempfile::tempdir().unwrap().keep().join("run"));
    let run = recipe.run(&mut |event: &Event| {
        seen.push(match event {
            Event::Began(beginning) => {
                assert_eq!((beginning.family, beginning.labels.len()), ("bert", 2));
                "began"
            }
            Event::Step(_) => "step",
            Event::Valid { .. } => "valid",
            Event::Samples { .. } => "samples",
            Event::Saved { .. } => "saved",
            Event::Baseline(_) => "baseline",
            _ => "other",
        });
        Ok(())
    })?;
    assert_eq!(seen, ["began", "step", "step", "step", "valid", "samples", "saved", "baseline"]);
    assert_eq!(run.model()?.task(), Some(Task::Classify));
    // An observer that fails ends the run with its own words.
    let other = recipe.out(run.dir().with_extension("two"));
    let failed = other.run(&mut |event: &Event| match event {
        Event::Step(_) => Err(qkv::Error::new("observer", "has seen enough", "")),
        _ => Ok(()),
    });
    assert_eq!(failed.unwrap_err().to_string(), "observer: has seen enough");
    Ok(())
}

/// A base with an adapter answers as the merged model of the same run.
#[test]
fn an_adapter_is_loaded_over_its_base() -> Result<()> {
    let (dir, base) = trained(small("stories", "masked", "bert", "wordpiece"));
    let tuned = Recipe::finetune(base.dir(), Task::Classify, "builtin:reviews")?.lora(2)?;
    let tuned = tuned.set("train.steps", 5)?.set("train.rows", 4)?.set("data.examples", 40)?.set("data.length", 48)?;
    let run = tuned.set("eval.every", 0)?.out(dir.path().join("tuned")).run(&mut ())?;
    let texts = ["a fine film", "a dull and empty film"];
    let (whole, adapted) = (run.model()?, Model::load(run.dir().join("adapter"))?);
    for (a, b) in whole.classify(&texts)?.iter().flatten().zip(adapted.classify(&texts)?.iter().flatten()) {
        assert!(a.label == b.label && (a.score - b.score).abs() < 1e-5, "{a:?} {b:?}");
    }
    std::fs::rename(base.dir(), dir.path().join("gone")).unwrap();
    let lost = Model::load(run.dir().join("adapter")).err().expect("the base is gone");
    assert!(lost.what.contains("is not there"), "{lost}");
    Ok(())
}

/// A GGUF file is judged and taught like the directory it was made of.
#[test]
fn a_gguf_file_is_judged_and_learns() -> Result<()> {
    let (dir, run) = trained(small("stories", "next-token", "gpt2", "bpe"));
    let file = dir.path().join("model.gguf");
    qkv::convert::convert(run.dir(), &file, &Default::default())?;
    let how = Evaluate { examples: 5, length: 32, ..Evaluate::default() };
    let loss = |path: &Path| Ok::<_, qkv::Error>(evaluate(path, "builtin:stories", &how)?.scores.values["loss"]);
    let (a, b) = (loss(&run.dir().join("model"))?, loss(&file)?);
    assert!((a - b).abs() < 1e-6, "{a} {b}");
    let tuned = Recipe::finetune(&file, Task::NextToken, "builtin:stories")?.set("train.steps", 2)?;
    let tuned = tuned.set("train.rows", 4)?.set("data.examples", 40)?.set("data.length", 32)?.set("eval.every", 0)?;
    let run = tuned.out(dir.path().join("tuned")).run(&mut ())?;
    assert!(!run.model()?.generate("Once").max_tokens(3).greedy().run()?[0].ids.is_empty());
    Ok(())
}

/// A model with a weight that is not a number answers with an error, never with a number.
#[test]
fn weights_that_are_not_finite_are_no_answer() -> Result<()> {
    let (dir, run) = trained(small("reviews", "classify", "bert", "wordpiece"));
    let broken = dir.path().join("broken");
    let model = qkv::raw::load(run.dir())?;
    let path = "head.out.weight";
    let mut values = qkv_model::pretrained::Values::of(&model.network.model).read(path);
    values.fill(f32::NAN);
    let mut network = model.network.clone();
    network.model = qkv_model::pretrained::fill(network.model, [(path.to_string(), values)].into());
    network.save(&broken, qkv_weights::Dtype::F32, u64::MAX)?;
    qkv_model::pretrained::carry(&run.dir().join("model"), &broken)?;
    let model = Model::load(&broken)?;
    assert!(model.warnings().iter().any(|w| w.contains("not finite") || w.contains("NaN")), "{:?}", model.warnings());
    assert!(model.classify(&["fine"]).unwrap_err().what.contains("not finite"));
    let judged = evaluate(&broken, "builtin:reviews", &Evaluate { examples: 4, ..Evaluate::default() });
    assert!(judged.unwrap_err().what.contains("not finite"));
    Ok(())
}

/// How texts are written means nothing to a task that writes none: that is said, not passed over.
#[test]
fn a_beam_is_refused_where_nothing_is_written() -> Result<()> {
    let (_dir, run) = trained(small("reviews", "classify", "bert", "wordpiece"));
    let error = evaluate(run.dir(), "builtin:reviews", &Evaluate { examples: 4, ..greedy() }).unwrap_err();
    assert_eq!(error.to_string(), "a chain or a beam: is asked for, but classify is judged without writing a text");
    Ok(())
}

/// Pictures are prepared as the model's own file says, whoever asks.
#[test]
fn pictures_are_prepared_in_one_place() -> Result<()> {
    let (dir, run) = trained(small("shapes", "image", "vit", "char").set("model.patch", 8)?);
    let how = Evaluate { examples: 8, ..Evaluate::default() };
    let loss = || Ok::<_, qkv::Error>(evaluate(run.dir(), "builtin:shapes", &how)?.scores.values["loss"]);
    let before = loss()?;
    let file = run.dir().join("model/preprocessor_config.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("0.5", "0.25")).unwrap();
    assert_ne!(loss()?, before, "another mean and deviation are other pictures");
    let picture = dir.path().join("a.png");
    let shape = qkv_data::builtin::Corpus::Shapes.example(1, qkv_data::builtin::Split::Test, 0);
    std::fs::write(&picture, shape.png()?).unwrap();
    let model = Model::load(run.dir())?;
    let labels = &model.image(&[&picture])?[0];
    assert!((labels.iter().map(|l| l.score).sum::<f64>() - 1.0).abs() < 1e-9);
    std::fs::write(&file, text.replace("0.5", "0")).unwrap();
    assert!(Model::load(run.dir())?.image(&[picture]).unwrap_err().place.ends_with("image_std"));
    Ok(())
}
