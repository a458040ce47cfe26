//! Continues a text and shows it as it comes: `cargo run --release --example stream -- runs/gpt "Once upon a time"`

use qkv::{Model, Result};
use std::io::Write;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, prompt] = args.as_slice() else { panic!("usage: stream MODEL PROMPT") };
    let chain = "repetition_penalty 1.1, top_k 40, top_p 0.95, temperature 0.8";
    for piece in Model::load(model)?.generate(prompt).chain(chain)?.seed(1).max_tokens(40).stream()? {
        print!("{}", piece?);
        std::io::stdout().flush().expect("stdout");
    }
    println!();
    Ok(())
}
