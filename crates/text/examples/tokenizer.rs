//! Trains a tokenizer, or encodes the lines of a file: what `tests/check_with_transformers.py` and `tests/speed.py` call.
//!
//!     cargo run --release -p qkv-text --example tokenizer -- train bpe gpt2 16000 lines.txt out
//!     cargo run --release -p qkv-text --example tokenizer -- encode out lines.txt        (ids of each line, as JSON)
//!     cargo run --release -p qkv-text --example tokenizer -- gguf vocab.json lines.txt   (a GGUF vocabulary, dumped)

use qkv_base::{Error, Result};
use qkv_text::{GgufVocab, Kind, Shape, Tokenizer, TrainSpec, train};
use std::io::{BufRead, BufReader, Write};
use std::time::Instant;

const USAGE: &str = "train KIND SHAPE VOCAB FILE OUT; encode TOKENIZER FILE; gguf DUMP FILE";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["train", kind, shape, vocab, file, out] => learn(kind, shape, vocab, file, out),
        ["encode", tokenizer, file] => Tokenizer::load(tokenizer).and_then(|t| encode(&t, file)),
        ["gguf", dump, file] => gguf(dump).and_then(|t| encode(&t, file)),
        _ => Err(Error::new("arguments", "not understood", USAGE)),
    };
    if let Err(error) = done {
        eprintln!("error: {error}\nhint: {}", error.hint);
        std::process::exit(2);
    }
}

fn lines(file: &str) -> Result<impl Iterator<Item = String>> {
    let opened = std::fs::File::open(file).map_err(|e| Error::new(file, e.to_string(), "give a file of lines"))?;
    Ok(BufReader::with_capacity(1 << 20, opened).lines().map_while(std::result::Result::ok))
}

fn learn(kind: &str, shape: &str, vocab: &str, file: &str, out: &str) -> Result<()> {
    let kind = match kind {
        "bpe" => Kind::Bpe,
        "wordpiece" => Kind::WordPiece,
        "unigram" => Kind::Unigram,
        "char" => Kind::Char,
        _ => return Err(Error::new(kind, "no such kind", "bpe, wordpiece, unigram or char")),
    };
    let shape = match shape {
        "plain" => Shape::Plain,
        "gpt2" => Shape::Gpt2,
        "bert" => Shape::Bert,
        "t5" => Shape::T5 { sentinels: 100 },
        "marian" => Shape::Marian,
        "llama" => Shape::Llama,
        _ => return Err(Error::new(shape, "no such shape", "plain, gpt2, bert, t5, marian or llama")),
    };
    let vocab_size = vocab.parse().map_err(|_| Error::new(vocab, "not a number", USAGE))?;
    let spec = TrainSpec { shape, vocab_size, ..TrainSpec::new(kind) };
    let start = Instant::now();
    let mut counted = None;
    let trained = train(lines(file)?, &spec, &mut |p| {
        if matches!(p, qkv_text::Progress::Counted { .. }) {
            counted = Some(start.elapsed());
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let counted = counted.map_or(0.0, |d| d.as_secs_f64());
    println!(
        "{} pieces from {} lines, {} bytes, {} words: {seconds:.2} s, of which counting {counted:.2} s",
        trained.tokenizer.vocab_size(),
        trained.lines,
        trained.bytes,
        trained.words
    );
    trained.tokenizer.save(out)
}

fn gguf(dump: &str) -> Result<Tokenizer> {
    let wrong = |e: String| Error::new(dump, e, "give the fields of GgufVocab as JSON");
    let text = std::fs::read_to_string(dump).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str::<GgufVocab>(&text).map_err(|e| wrong(e.to_string()))?.tokenizer(dump)
}

fn encode(tokenizer: &Tokenizer, file: &str) -> Result<()> {
    let lines: Vec<String> = lines(file)?.collect();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for encoding in tokenizer.encode_batch(&lines, true)? {
        let text = tokenizer.decode(&encoding.ids, true)?;
        let row = serde_json::json!({"ids": encoding.ids, "chars": encoding.chars, "decoded": text});
        writeln!(out, "{row}").map_err(|e| Error::new("output", e.to_string(), "is the disk full?"))?;
    }
    Ok(())
}
