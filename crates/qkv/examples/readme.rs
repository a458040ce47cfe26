//! The program of the README: trains a few steps, and asks what came of them.

use qkv::{Event, Model, Recipe, Result, Translate};

fn main() -> Result<()> {
    let small = Recipe::named("translate")?.set("train.steps", 20)?.set("data.examples", 500)?.set("eval.goal", 0.0)?;
    let run = small.out("runs/readme").run(&mut |event: &Event| {
        if let Event::Step(step) = event {
            println!("step {}: loss {:.3}", step.step, step.loss);
        }
        Ok(())
    })?;
    let model = Model::load(run.dir())?; // or a Hugging Face directory, a .gguf file, an adapter
    for texts in model.translate(&["The king is reading a book."], &Translate::beam(4).n_best(2))? {
        println!("{}", texts[0].text);
    }
    Ok(())
}
