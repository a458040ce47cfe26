//! Where made examples go: rows of text, or pictures.

use crate::cli::fail::Fail;
use qkv_base::Error;
use qkv_data::Example;
use std::io::{ErrorKind, Write};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MadeForm {
    /// columns separated by tabs
    Tsv,
    /// an object a line
    Jsonl,
    /// a word and its tag a line, a blank line between sentences
    Conll,
    /// a directory with a subdirectory of pictures for each class
    Png,
}

/// Writes examples as rows; how many.
pub(super) fn rows(
    examples: impl Iterator<Item = Example>,
    form: MadeForm,
    header: bool,
    place: &Path,
    out: &mut dyn Write,
) -> Result<usize, Fail> {
    let mut written = 0;
    let mut put = |text: String| out.write_all(text.as_bytes()).map_err(|e| cannot(place, &e));
    for example in examples {
        if header && written == 0 {
            put(example.header().join("\t") + "\n")?;
        }
        put(match form {
            MadeForm::Jsonl => format!("{}\n", example.json()),
            MadeForm::Conll => example.conll()?,
            MadeForm::Tsv | MadeForm::Png => example.row().join("\t") + "\n",
        })?;
        written += 1;
    }
    out.flush().map_err(|e| cannot(place, &e))?;
    Ok(written)
}

/// `DIR/LABEL/00001.png`
pub(super) fn pictures(examples: impl Iterator<Item = Example>, out: &Path) -> Result<usize, Fail> {
    let mut written = 0;
    for example in examples {
        let Example::Image { label, .. } = &example else { continue };
        let folder = out.join(label);
        std::fs::create_dir_all(&folder).map_err(|e| cannot(&folder, &e))?;
        written += 1;
        let path = folder.join(format!("{written:05}.png"));
        std::fs::write(&path, example.png()?).map_err(|e| cannot(&path, &e))?;
    }
    Ok(written)
}

/// A reader that has gone (`| head`) is no error.
pub(super) fn cannot(place: &Path, error: &std::io::Error) -> Fail {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    Error::write(place.display().to_string(), error, "name a place that can be written to").into()
}
