//! Translates a file line by line: `cargo run --release --example translate_file -- runs/translate in.txt`

use qkv::{Model, Result, Translate};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, file] = args.as_slice() else { panic!("usage: translate_file MODEL FILE") };
    let model = Model::load(model)?;
    let text = std::fs::read_to_string(file).expect("a text file");
    let lines: Vec<&str> = text.lines().collect();
    for texts in model.translate(&lines, &Translate::beam(4).n_best(1))? {
        println!("{}", texts.first().map_or("", |best| &best.text)); // a blank line stays one
    }
    Ok(())
}
