//! Opening a model for a verb: weights, configuration and tokenizer, whatever format they are in; the texts to work on;
//! and batches of them, longest with longest.

use crate::fail::Fail;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv_kernels::Ids;
use qkv_model::{Pretrained, Tokens};
use qkv_nn::device;
use qkv_text::{Encoding, GgufVocab, Tokenizer};
use qkv_train::run_dir::model_of;
use qkv_weights::{Checkpoint, Format, Metadata, Value};
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

/// A model with its tokenizer.
pub(crate) struct Model {
    pub(crate) it: Pretrained,
    pub(crate) path: PathBuf,
}

impl Model {
    /// Loads it, and tells on stderr what was not as expected.
    pub(crate) fn open(path: &Path) -> Result<Self, Fail> {
        let path = &model_of(path);
        let it = Pretrained::load(path, &device::default())?;
        for warning in &it.report.warnings {
            eprintln!("warning: {}: {warning}", path.display());
        }
        if !it.report.unused.is_empty() {
            let (n, first) = (it.report.unused.len(), &it.report.unused[0]);
            eprintln!("warning: {}: {n} tensors are not used by this network, the first is `{first}`", path.display());
        }
        Ok(Self { it, path: path.to_owned() })
    }

    /// Its tokenizer.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, Fail> {
        tokenizer(&self.path)
    }

    /// How many tokens it can read at once.
    pub(crate) fn longest(&self) -> usize {
        self.it.spec().position.max().unwrap_or(usize::MAX)
    }

    /// The names of its labels.
    pub(crate) fn labels(&self, n: usize) -> Result<Vec<String>, Fail> {
        let named = self.it.config.labels()?;
        Ok(named.filter(|l| l.len() == n).unwrap_or_else(|| (0..n).map(|i| format!("LABEL_{i}")).collect()))
    }

    /// Refuses a model without the head that a verb needs.
    pub(crate) fn needs(&self, ok: bool, verb: &str, head: &str) -> Result<(), Fail> {
        if ok {
            return Ok(());
        }
        let has = self.it.config.architecture().unwrap_or(self.it.sheet.name).to_string();
        let what = format!("{}: `{verb}` needs {head}, but this is a {has}", self.path.display());
        Err(Fail::usage(what, "choose a model made for this task, or fine-tune this one"))
    }
}

/// The tokenizer of a directory, of a file's directory, or inside a GGUF file.
pub(crate) fn tokenizer(path: &Path) -> Result<Tokenizer, Fail> {
    let path = &model_of(path);
    let gguf = if path.is_dir() { lone_gguf(path) } else { Some(path.to_owned()) };
    if let Some(file) = gguf {
        let checkpoint = Checkpoint::open(&file)?;
        if matches!(checkpoint.format(), Format::Gguf { .. }) {
            return Ok(vocabulary(checkpoint.metadata())?.tokenizer(&file.display().to_string())?);
        }
    }
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    Ok(Tokenizer::load(dir)?)
}

/// The GGUF file of a directory that has nothing else to load.
fn lone_gguf(dir: &Path) -> Option<PathBuf> {
    let has = |name: &str| dir.join(name).is_file();
    if has("tokenizer.json") || has("vocab.txt") || has("vocab.json") || has("config.json") {
        return None;
    }
    let files = std::fs::read_dir(dir).ok()?.filter_map(|e| Some(e.ok()?.path()));
    let mut found: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == "gguf")).collect();
    found.sort();
    if found.len() == 1 { found.pop() } else { None }
}

/// What a GGUF file says about its vocabulary.
pub(crate) fn vocabulary(m: &Metadata) -> Result<GgufVocab, Fail> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| m.get(&key(name)).and_then(Value::as_i64).and_then(|n| u32::try_from(n).ok());
    let flag = |name: &str| m.get(&key(name)).and_then(Value::as_bool);
    let text = |name: &str| m.get(name).and_then(Value::as_str).map(str::to_string);
    let has = |name: &str| m.get(&key(name)).is_some();
    Ok(GgufVocab {
        model: m.text(&key("model"))?.to_string(),
        pre: text(&key("pre")),
        tokens: m.texts(&key("tokens"))?.to_vec(),
        scores: if has("scores") { m.floats(&key("scores"))? } else { vec![] },
        types: if has("token_type") { m.ints(&key("token_type"))?.iter().map(|t| *t as i32).collect() } else { vec![] },
        merges: if has("merges") { m.texts(&key("merges"))?.to_vec() } else { vec![] },
        bos: id("bos_token_id"),
        eos: id("eos_token_id"),
        unk: id("unknown_token_id"),
        pad: id("padding_token_id"),
        add_bos: flag("add_bos_token"),
        add_eos: flag("add_eos_token"),
        add_space_prefix: flag("add_space_prefix"),
        chat_template: text("tokenizer.chat_template"),
    })
}

/// Where to find the model: the first word if it is a path, else the newest run under `runs/`. The rest are texts.
pub(crate) fn resolve(words: &[String]) -> Result<(PathBuf, Vec<String>), Fail> {
    if let Some((first, rest)) = words.split_first() {
        if Path::new(first).exists() {
            return Ok((PathBuf::from(first), rest.to_vec()));
        }
        let path = ["runs/", "./", "../", "/", "~"].iter().any(|start| first.starts_with(start));
        if path && !first.contains(char::is_whitespace) {
            return Err(Fail::usage(format!("{first}: there is no such model"), "give the path of a model or a run"));
        }
    }
    match (newest_run(), words.first()) {
        (Some(run), _) => {
            eprintln!("model: {}, the newest run", run.display());
            Ok((run, words.to_vec()))
        }
        (None, Some(first)) => Err(Fail::usage(
            format!("{first}: there is no such model, and no run under runs/"),
            "give the path of a model directory or file first",
        )),
        (None, None) => {
            Err(Fail::usage("no model was named, and there is no run under runs/", "give the path of a model"))
        }
    }
}

/// The one text that a verb wants, where there is one.
pub(crate) fn only(texts: Vec<String>) -> Result<Option<String>, Fail> {
    match texts.len() {
        0 | 1 => Ok(texts.into_iter().next()),
        n => Err(Fail::usage(format!("{n} texts are given, one is wanted"), "put quotes around it")),
    }
}

/// Refuses texts beside another way to give them.
pub(crate) fn instead(texts: &[String], flag: &str, given: bool) -> Result<(), Fail> {
    if given && !texts.is_empty() {
        let what = format!("both {flag} and a text are given: {}", texts[0]);
        return Err(Fail::usage(what, "give one of them; a model's path comes first"));
    }
    Ok(())
}

/// The model of the run that was written last.
fn newest_run() -> Option<PathBuf> {
    let runs = std::fs::read_dir("runs").ok()?.filter_map(|e| Some(e.ok()?.path().join("model")));
    let dated = runs.filter_map(|dir| Some((dir.join("config.json").metadata().ok()?.modified().ok()?, dir)));
    dated.max().map(|(_, dir)| dir)
}

/// The texts to work on: those given, or the lines of a file, or of standard input.
pub(crate) fn texts(given: Vec<String>, file: Option<&Path>) -> Result<Vec<String>, Fail> {
    let fail = |place: &Path, e: std::io::Error| Fail::usage(format!("{}: {e}", place.display()), "is it a text file?");
    match file {
        Some(_) if !given.is_empty() => Err(Fail::usage("both a text and --file are given", "give one of them")),
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|e| fail(path, e))?;
            let text = String::from_utf8(bytes).map_err(|e| {
                let at = e.utf8_error().valid_up_to();
                Fail::usage(format!("{}: byte {at} is no UTF-8", path.display()), "save the file as UTF-8")
            })?;
            Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).lines().map(str::to_string).collect())
        }
        None if given.is_empty() && !std::io::stdin().is_terminal() => {
            std::io::stdin().lock().lines().collect::<Result<_, _>>().map_err(|e| fail(Path::new("stdin"), e))
        }
        None if given.is_empty() => Err(Fail::usage("there is no text", "give a text, --file F, or lines on stdin")),
        None => Ok(given),
    }
}

/// A bar on a terminal, when there is something to wait for.
pub(crate) fn progress(n: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(n as u64), ProgressDrawTarget::stderr());
    if n < 2 || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_message(what)
}

/// Works through `encodings` in batches of similar length; answers come back in the order of the questions.
pub(crate) fn in_batches<T>(
    encodings: &[Encoding],
    rows: usize,
    bar: &ProgressBar,
    mut work: impl FnMut(&[usize], Tokens) -> Result<Vec<T>, Fail>,
) -> Result<Vec<T>, Fail> {
    let mut order: Vec<usize> = (0..encodings.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(encodings[*i].len()), *i));
    let mut answers: Vec<Option<T>> = encodings.iter().map(|_| None).collect();
    for batch in order.chunks(rows.max(1)) {
        let made = work(batch, tokens(batch.iter().map(|i| &encodings[*i])))?;
        for (i, answer) in batch.iter().zip(made) {
            answers[*i] = Some(answer);
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(answers.into_iter().flatten().collect())
}

/// Rows padded on the right, with kinds where there are any but the first.
fn tokens<'a>(rows: impl Iterator<Item = &'a Encoding> + Clone) -> Tokens {
    let width = rows.clone().map(Encoding::len).max().unwrap_or(0);
    let n = rows.clone().count();
    let padded = |list: &[u32]| {
        let mut row = list.to_vec();
        row.resize(width, 0);
        row
    };
    let ids: Vec<u32> = rows.clone().flat_map(|e| padded(&e.ids)).collect();
    let lengths: Vec<usize> = rows.clone().map(Encoding::len).collect();
    let mut tokens = Tokens::new(Ids::new(ids, n));
    if lengths.iter().any(|l| *l != width) {
        tokens = tokens.with_padding(qkv_nn::mask::from_lengths(&lengths, width));
    }
    if rows.clone().any(|e| e.type_ids.iter().any(|k| *k != 0)) {
        tokens = tokens.with_kinds(Ids::new(rows.flat_map(|e| padded(&e.type_ids)).collect::<Vec<_>>(), n));
    }
    tokens
}

/// Encodes texts, cut to `longest` tokens (the special ones at the end kept); how many were cut is told on stderr.
pub(crate) fn encode(tokenizer: &Tokenizer, texts: &[String], longest: usize) -> Result<Vec<Encoding>, Fail> {
    let mut encodings = tokenizer.encode_batch(texts, true)?;
    let mut cut = 0;
    for encoding in encodings.iter_mut().filter(|e| e.len() > longest) {
        shorten(encoding, longest);
        cut += 1;
    }
    if cut > 0 {
        eprintln!("note: {cut} of {} texts were cut to {longest} tokens", texts.len());
    }
    Ok(encodings)
}

/// Takes tokens out before the special ones at the end.
fn shorten(encoding: &mut Encoding, longest: usize) {
    let tail = encoding.special_mask.iter().rev().take_while(|s| **s).count().min(longest);
    let (from, to) = (longest - tail, encoding.len() - tail);
    encoding.ids.drain(from..to);
    encoding.pieces.drain(from..to);
    encoding.bytes.drain(from..to);
    encoding.chars.drain(from..to);
    encoding.type_ids.drain(from..to);
    encoding.special_mask.drain(from..to);
    encoding.word_ids.drain(from..to);
    encoding.sequence_ids.drain(from..to);
}

/// `softmax(x)`, in f64.
pub(crate) fn softmax(x: &[f32]) -> Vec<f64> {
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f64> = x.iter().map(|v| ((v - most) as f64).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.into_iter().map(|v| v / sum).collect()
}

/// The places of the `k` largest, largest first; ties by place.
pub(crate) fn largest(x: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    let by = |a: &usize, b: &usize| x[*b].total_cmp(&x[*a]).then(a.cmp(b));
    let k = k.min(order.len());
    if k > 0 && k < order.len() {
        order.select_nth_unstable_by(k - 1, by);
        order.truncate(k);
    }
    order.sort_by(by);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_in_order() {
        assert_eq!(largest(&[0.1, 0.5, 0.5, 0.2], 3), [1, 2, 3]);
        assert_eq!(largest(&[0.1], 5), [0]);
        assert!(largest(&[], 5).is_empty());
        assert_eq!(softmax(&[0.0, 0.0]), [0.5, 0.5]);
    }

    #[test]
    fn cutting_keeps_the_end_mark() {
        let n = 6;
        let mut e = Encoding {
            ids: (0..n).collect(),
            pieces: vec![String::new(); 6],
            bytes: vec![(0, 0); 6],
            chars: vec![(0, 0); 6],
            type_ids: vec![0; 6],
            special_mask: vec![true, false, false, false, false, true],
            word_ids: vec![None; 6],
            sequence_ids: vec![None; 6],
        };
        shorten(&mut e, 4);
        assert_eq!(e.ids, [0, 1, 2, 5]);
    }
}
