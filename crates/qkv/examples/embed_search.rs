//! Finds the lines of a file that mean most nearly what is asked:
//! `cargo run --release --example embed_search -- MODEL corpus.txt "a query"`

use qkv::{Model, Result, cosine};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, file, query] = args.as_slice() else { panic!("usage: embed_search MODEL FILE QUERY") };
    let model = Model::load(model)?;
    let text = std::fs::read_to_string(file).expect("a text file");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let query = &model.embed(&[query])?[0];
    let vectors = model.embed(&lines)?;
    let mut near: Vec<(f64, &str)> = vectors.iter().map(|v| cosine(v, query)).zip(lines).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (cosine, line) in near.iter().take(5) {
        println!("{cosine:.4}  {line}");
    }
    Ok(())
}
