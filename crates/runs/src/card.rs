//! The model card: `README.md` in a model's directory, with the head that model hubs read. What it is, what it learnt from, its
//! scores, its recipe, and how it is used here and in Python.

use crate::baseline::BaselineBeside;
use crate::plan::Plan;
use qkv_base::Task;
use qkv_tasks::{Scores, sheet};
use std::fmt::Write as _;

/// The pipeline of transformers that a task is, and what it is asked in a line of Python.
pub fn pipeline(task: Task) -> Option<(&'static str, &'static str)> {
    Some(match task {
        Task::Classify => ("text-classification", "ask(\"a text\")"),
        Task::ClassifyPair => ("text-classification", "ask({\"text\": \"one\", \"text_pair\": \"another\"})"),
        Task::Tag => ("token-classification", "ask(\"a text\")"),
        Task::Answer => ("question-answering", "ask(question=\"what?\", context=\"a text\")"),
        Task::Masked => ("fill-mask", "ask(\"a [MASK] text\")"),
        Task::NextToken => ("text-generation", "ask(\"a beginning\")"),
        Task::Image => ("image-classification", "ask(\"picture.png\")"),
        // Pipelines of pairs are gone from transformers 5; the classes are there.
        Task::Translate | Task::SpanCorruption | Task::Denoise => return None,
    })
}

/// The text of the card.
pub fn card(
    plan: &Plan,
    name: &str,
    recipe: &str,
    scores: &[(String, Scores)],
    baseline: Option<&BaselineBeside>,
) -> String {
    let task = plan.recipe.data.objective;
    let family = plan.pretrained.sheet.name;
    let mut text = String::from("---\nlicense: other # say yours\nlibrary_name: transformers\n");
    // A String takes whatever is written to it.
    let _ = match pipeline(task) {
        Some((tag, _)) => writeln!(text, "pipeline_tag: {tag}"),
        None => Ok(()),
    };
    let _ = writeln!(text, "tags: [{family}, qkv]");
    if !plan.recipe.model.from.is_empty() {
        let _ = writeln!(text, "base_model: {:?}", base_name(&plan.recipe.model.from));
    }
    let _ = writeln!(text, "---\n\n# {name}\n");
    let start = match plan.recipe.model.from.as_str() {
        "" => "from scratch".to_string(),
        from => format!("from {}", base_name(from)),
    };
    let _ = writeln!(
        text,
        "A {family} that learnt the task {} {start}, from {}.\n",
        task.name(),
        file_name(&plan.recipe.data.name())
    );
    let _ = writeln!(
        text,
        "Data: {}; {} to validate, {} to test.",
        plan.train.counts(),
        plan.splits.valid.len(),
        plan.splits.test.len()
    );
    if !plan.labels.is_empty() {
        let _ = writeln!(text, "Labels: {}.", plan.labels.names().join(", "));
    }
    let _ = writeln!(
        text,
        "\n## Scores\n\nOn examples that were never learnt from.\n\n| side | score | value |\n|---|---|---|"
    );
    for (side, scores) in scores {
        for (metric, value) in &scores.values {
            let _ = writeln!(text, "| {side} | {metric} | {value:.3} |");
        }
    }
    if let Some(baseline) = baseline {
        let _ = writeln!(text, "\n{baseline}.");
    }
    let _ = writeln!(text, "\n## Use\n");
    if let Some((verb, _)) = sheet::of(task).verb {
        let _ = writeln!(text, "```sh\nqkv {verb} PATH …\n```\n");
    }
    let _ = match pipeline(task) {
        Some((tag, ask)) => {
            writeln!(
                text,
                "```python\nfrom transformers import pipeline\nask = pipeline({tag:?}, \"PATH\")\nprint({ask})\n```"
            )
        }
        None => writeln!(
            text,
            "```python\nfrom transformers import AutoModelForSeq2SeqLM, AutoTokenizer\n\
             tokenizer, model = AutoTokenizer.from_pretrained(\"PATH\"), AutoModelForSeq2SeqLM.from_pretrained(\"PATH\")\n\
             print(tokenizer.decode(model.generate(**tokenizer(\"a text\", return_tensors=\"pt\"))[0], skip_special_tokens=True))\n```"
        ),
    };
    let _ = writeln!(text, "\n## Recipe\n\n```toml\n{}\n```", recipe.trim_end());
    text
}

/// A model's name without where it stood: a card travels, and paths do not.
fn base_name(path: &str) -> &str {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    match (parts.next(), parts.next()) {
        // The model of a run is called `model`; the run has the name.
        (Some("model"), Some(run)) => run,
        (Some(name), _) => name,
        _ => path,
    }
}

fn file_name(data: &str) -> &str {
    if data.starts_with("builtin:") { data } else { base_name(data) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    #[test]
    fn a_card_says_what_it_is_how_good_and_how_to_use_it() {
        let text = "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfamily = \"bert\"\nwidth = 16\nlayers = 1\nheads = 2\n[eval]\nmetric = \"accuracy\"";
        let plan = Plan::new(&Recipe::parse("test", text).expect("a recipe"), None).expect("a plan");
        let mut test = Scores::default();
        test.values.insert("accuracy".into(), 91.25);
        let card = card(&plan, "sentiment", text, &[("test".into(), test)], None);
        for part in [
            "---\nlicense: other",
            "pipeline_tag: text-classification",
            "# sentiment",
            "A bert that learnt the task classify from scratch, from builtin:reviews.",
            "| test | accuracy | 91.250 |",
            "qkv classify PATH",
            "pipeline(\"text-classification\", \"PATH\")",
            "corpus = \"builtin:reviews\"",
        ] {
            assert!(card.contains(part), "{part}\n{card}");
        }
        assert_eq!((base_name("/home/me/runs/x/model"), base_name("a/minilm/")), ("x", "minilm"));
    }
}
