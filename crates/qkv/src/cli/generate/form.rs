//! The form that an answer of `qkv generate` must have: a schema, a regular expression or a grammar.

use crate::cli::fail::Fail;
use qkv_base::Error;
use qkv_decode::grammar::Grammar;
use qkv_decode::pattern::Pattern;
use qkv_decode::{Step, schema};
use qkv_tasks::TextModel;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct FormArgs {
    /// Say JSON that this schema holds for; the file of the schema
    #[arg(long, value_name = "FILE", conflicts_with_all = ["regex", "grammar"])]
    schema: Option<PathBuf>,
    /// Say a text that this regular expression matches
    #[arg(long, value_name = "PATTERN", conflicts_with = "grammar")]
    regex: Option<String>,
    /// Say a text that follows this grammar (llama.cpp's GBNF); the file of the grammar
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
}

impl FormArgs {
    /// The first step of the chain, if there is to be a form.
    pub(super) fn step(&self, model: &TextModel) -> Result<Option<Step>, Fail> {
        if let Some(regex) = &self.regex {
            return Ok(Some(Pattern::new(regex, model.token_bytes()?)?.into()));
        }
        let Some(file) = self.schema.as_ref().or(self.grammar.as_ref()) else { return Ok(None) };
        let place = file.display().to_string();
        let bytes = std::fs::read(file).map_err(|e| Error::read(&place, &e, "check the path"))?;
        let bytes = qkv_base::without_bom(&bytes);
        let named = |e: Error| Error { place: format!("{place}: {}", e.place), ..e };
        let step = if self.schema.is_some() {
            let wrong = |e| Error::new(&place, format!("is not JSON: {e}"), "give a JSON schema");
            schema::step(&serde_json::from_slice(bytes).map_err(wrong)?, model.token_bytes()?).map_err(named)?
        } else {
            let wrong = |_| Error::new(&place, "is not UTF-8", "give a grammar as text");
            let text = std::str::from_utf8(bytes).map_err(wrong)?;
            Grammar::new(text, model.token_bytes()?).map_err(named)?.into()
        };
        Ok(Some(step))
    }
}
