//! Teaches a BERT a task from a table and asks it:
//! `cargo run --release --example finetune_classify -- bert/ reviews.csv "what a wonderful film"`

use qkv::{Recipe, Result, Task};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, data, text] = args.as_slice() else { panic!("usage: finetune_classify MODEL DATA TEXT") };
    let recipe = Recipe::finetune(model, Task::Classify, data)?.set("train.steps", 100)?;
    let run = recipe.out(std::env::temp_dir().join(format!("qkv-classify-{}", std::process::id()))).run(&mut ())?;
    println!("accuracy on unseen examples: {:.1} %", run.score("accuracy").unwrap_or(f64::NAN));
    for label in &run.model()?.classify(&[text])?[0] {
        println!("{:>6.2} %  {}", 100.0 * label.score, label.label);
    }
    Ok(())
}
