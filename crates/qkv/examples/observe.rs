//! Trains with an observer of its own: `cargo run --release --example observe -- 40`

use qkv::{Event, Observer, Recipe, Result};

/// Keeps what it was told.
#[derive(Default)]
struct Curve {
    losses: Vec<f32>,
    best: Option<f64>,
}

impl Observer for Curve {
    fn see(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Began(run) => println!("{} with {} parameters", run.family, run.parameters),
            Event::Step(step) => self.losses.push(step.loss),
            Event::Valid { loss, best: true, .. } => self.best = Some(*loss),
            _ => {}
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let steps: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(40);
    let small = Recipe::named("char-gpt")?.set("model.width", 32)?.set("model.layers", 1)?.set("data.examples", 200)?;
    let recipe = small.set("train.steps", steps)?.set("eval.goal", 0.0)?.set("eval.every", steps / 2)?;
    let mut curve = Curve::default();
    let run = recipe.out(std::env::temp_dir().join(format!("qkv-observe-{}", std::process::id()))).run(&mut curve)?;
    let (first, last) = (curve.losses[0], curve.losses[curve.losses.len() - 1]);
    println!(
        "loss {first:.3} → {last:.3} in {} steps, best on validation {:.3}",
        steps,
        curve.best.unwrap_or(f64::NAN)
    );
    println!("kept in {}", run.dir().display());
    Ok(())
}
