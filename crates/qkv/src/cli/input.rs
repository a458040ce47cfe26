//! What a person gives a verb: a model or the newest run, texts, lines of a file or of stdin, columns of a table.

use super::fail::Fail;
use super::terminal::talk;
use qkv_base::Error;
use qkv_model::Precision;
use qkv_tasks::{TextModel, locate};
use qkv_text::Tokenizer;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

/// How a model is loaded.
#[derive(clap::Args, Clone, Copy, Default)]
pub(crate) struct LoadArgs {
    /// Refuse weights that are not finite, instead of warning of them
    #[arg(long)]
    strict: bool,
    /// How many bits the matrices take: stored (as the file has them), f32, bf16, f16, int8 or int4. Fewer are faster
    #[arg(long, value_name = "PRECISION", default_value_t, hide_default_value = true)]
    weights: Precision,
}

impl LoadArgs {
    /// For a server: clients cannot see a warning.
    #[cfg(feature = "serve")]
    pub(crate) fn strict(weights: Precision) -> Self {
        Self { strict: true, weights }
    }
}

/// Loads a model, and tells on stderr what was not as expected.
pub(crate) fn open(path: &Path, how: LoadArgs) -> Result<TextModel, Fail> {
    let model = qkv::raw::load_packed(path, how.weights)?;
    let finite = &model.network.report.finite;
    if how.strict && !finite.is_clean() {
        let hint = "`qkv inspect` shows them; leave out --strict to load it all the same";
        return Err(Fail::usage(format!("{}: {finite}", path.display()), hint));
    }
    model.warnings.iter().for_each(|warning| talk(format_args!("warning: {warning}")));
    Ok(model)
}

/// Where to find the model: the first word if it is a path, else the newest run under `runs/`. The rest are texts.
pub(crate) fn resolve(words: &[String]) -> Result<(PathBuf, Vec<String>), Fail> {
    if let Some((first, rest)) = words.split_first() {
        if locate::exists(Path::new(first)) {
            return Ok((PathBuf::from(first), rest.to_vec()));
        }
        let path = ["runs/", "./", "../", "/", "~"].iter().any(|start| first.starts_with(start));
        if path && !first.contains(char::is_whitespace) {
            return Err(Fail::usage(format!("{first}: there is no such model"), "give the path of a model or a run"));
        }
    }
    let run = locate::newest_with_model().map_err(|e| match words.first() {
        Some(first) => {
            let what = format!("{first}: there is no such model, and {}", e.what);
            Fail::usage(what, format!("give the path of a model first; or {}", e.hint))
        }
        None => Fail::usage(format!("no model was named, and {}", e.what), e.hint),
    })?;
    talk(format_args!("model: {}, the newest run", run.display()));
    Ok((run, words.to_vec()))
}

/// The model that was named, or the newest run.
pub(crate) fn model_or_newest(given: Option<&Path>) -> Result<PathBuf, Fail> {
    match given {
        Some(path) if locate::exists(path) => Ok(path.to_path_buf()),
        Some(path) => {
            let what = format!("{}: there is no such model", path.display());
            Err(Fail::usage(
                what,
                "name a run (a checkpoint of it: RUN@last, RUN@1200), a model directory or a GGUF file",
            ))
        }
        None => Ok(resolve(&[])?.0),
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

/// The texts to work on: those given, or the lines of a file (`-` is stdin), or of standard input.
pub(crate) fn texts(given: Vec<String>, file: Option<&Path>) -> Result<Vec<String>, Fail> {
    match file {
        Some(_) if !given.is_empty() => Err(Fail::usage("both a text and --file are given", "give one of them")),
        Some(path) => lines(path),
        None if !given.is_empty() => Ok(given),
        None if std::io::stdin().is_terminal() => {
            Err(Fail::usage("there is no text", "give a text, --file F, or lines on stdin"))
        }
        None => lines(Path::new("-")),
    }
}

/// The most bytes of a file of lines.
const MOST_INPUT: u64 = 1 << 30;

/// The lines of a file, or of stdin for `-`.
pub(crate) fn lines(path: &Path) -> Result<Vec<String>, Fail> {
    let place = if path == Path::new("-") { "stdin".to_string() } else { path.display().to_string() };
    // A pipe or a device may be named: it is read to its end, or to the bound.
    let (mut bytes, most) = (vec![], MOST_INPUT + 1);
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    read.map_err(|e| Error::read(&place, &e, "check the path"))?;
    if bytes.len() as u64 > MOST_INPUT {
        return Err(Fail::usage(format!("{place}: more than 1 GiB of text"), "split it: all of it is held in memory"));
    }
    let bytes = qkv_base::without_bom(&bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Fail::usage(format!("{place}, line {line}: byte {} is not UTF-8", e.valid_up_to()), "save the file as UTF-8")
    })?;
    Ok(text.lines().map(str::to_string).collect())
}

/// `label=stars` taken apart.
pub(crate) fn columns(given: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let pair = |text: &String| {
        let (field, name) = text.split_once('=').ok_or_else(|| {
            Error::new(format!("--column {text}"), "is not an assignment", "write field=name, as in label=stars")
        })?;
        Ok((field.trim().to_string(), name.trim().to_string()))
    };
    given.iter().map(pair).collect()
}

/// Refuses numbers that must not be 0.
pub(crate) fn not_zero(sizes: &[(&str, usize)]) -> Result<(), Fail> {
    match sizes.iter().find(|(_, value)| *value == 0) {
        Some((name, _)) => Err(Fail::usage(format!("--{name} must not be 0"), "use 1 or more")),
        None => Ok(()),
    }
}

/// The tokenizer of a file, of a model directory, or of the directory or inside of a file of weights.
pub(crate) fn tokenizer(path: &Path) -> Result<Tokenizer, Fail> {
    if !locate::exists(path) {
        let what = format!("{}: no such file or directory", path.display());
        return Err(Fail::usage(what, "name a tokenizer.json, a model directory or a GGUF file"));
    }
    let weights = ["gguf", "safetensors", "bin", "pt", "pth"];
    let is_weights = path.extension().is_some_and(|e| weights.iter().any(|w| e.eq_ignore_ascii_case(w)));
    Ok(if path.is_dir() || is_weights || !path.exists() { qkv_tasks::tokenizer(path)? } else { Tokenizer::load(path)? })
}
