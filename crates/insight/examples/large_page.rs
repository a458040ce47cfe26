//! Writes `page.html` and `maps.json` of 12 layers × 12 heads × 64 tokens with made-up weights into a folder: the size that
//! the browser test holds to its budget.

use qkv_base::Key;
use qkv_insight::arithmetic::softmax;
use qkv_insight::see::{Maps, Seen, html};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let (layers, heads, t) = (12, 12, 64);
    let mut values = vec![vec![]; layers];
    for row in 0..layers * heads * t {
        // Causal rows of random scores: none of it compresses better than a real model's.
        let scores: Vec<f64> =
            Key::new(5, 0, row as u64).normals(row % t + 1).iter().map(|x| 2.5 * f64::from(*x)).collect();
        let weights = softmax(&scores);
        values[row / (heads * t)].extend((0..t).map(|j| weights.get(j).copied().unwrap_or(0.0) as f32));
    }
    let tokens: Vec<String> = (0..t).map(|i| format!("token{i}")).collect();
    let maps = Maps { name: "attention".into(), queries: tokens.clone(), keys: tokens.clone(), layers, heads, values };
    let seen = Seen { model: "made up".into(), family: "gpt2".into(), tokens, maps: vec![maps], ..Seen::default() };
    let page = html::page(&seen)?;
    println!("{} bytes", page.len());
    std::fs::write(format!("{folder}/page.html"), page)?;
    std::fs::write(format!("{folder}/maps.json"), serde_json::to_string(&seen)?)?;
    Ok(())
}
