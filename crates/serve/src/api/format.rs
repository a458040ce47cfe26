//! Answers of a form: `response_format` with a JSON schema, `json_object`, `regex` (and vLLM's `guided_regex` and
//! `guided_json`). The form becomes a pattern, and the pattern the first step of the chain.

use crate::error::{ApiError, Result};
use crate::fields::Fields;
use crate::served::Served;
use qkv_decode::pattern::Pattern;
use qkv_decode::{Chain, schema};
use serde_json::Value;

/// What the answer must look like.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// any JSON object
    AnyObject,
    /// JSON that a schema holds for
    Schema(Value),
    /// a text that a regular expression matches
    Regex(String),
}

impl Format {
    /// Takes the fields that say it, and the name of the one that did.
    pub fn of(fields: &Fields) -> Result<Option<(&'static str, Self)>> {
        let mut found = vec![];
        if let Some(format) = fields.object("response_format")? {
            let name = "response_format";
            match format.text("type")?.as_deref() {
                None | Some("text") => {}
                Some("json_object") => match format.value("schema") {
                    Some(schema) => found.push((name, Self::Schema(schema))),
                    None => found.push((name, Self::AnyObject)),
                },
                Some("json_schema") => {
                    let missing = || ApiError::field(name, "of type `json_schema` wants `json_schema.schema`");
                    let inner = format.object("json_schema")?.ok_or_else(missing)?;
                    found.push((name, Self::Schema(inner.value("schema").ok_or_else(missing)?)));
                }
                Some(other) => {
                    let shown: String = other.chars().take(40).collect();
                    let what = format!("of type `{shown}` is not supported here");
                    return Err(ApiError::field(name, what).code("unsupported_parameter"));
                }
            }
        }
        for name in ["regex", "guided_regex"] {
            if let Some(regex) = fields.text(name)? {
                found.push((name, Self::Regex(regex)));
            }
        }
        for name in ["json_schema", "guided_json"] {
            match fields.value(name) {
                None => {}
                // vLLM's clients send the schema as an object or as its text.
                Some(Value::String(text)) => {
                    let schema =
                        serde_json::from_str(&text).map_err(|e| ApiError::field(name, format!("is not JSON: {e}")))?;
                    found.push((name, Self::Schema(schema)));
                }
                Some(schema) => found.push((name, Self::Schema(schema))),
            }
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(ApiError::field(found[1].0, format!("and `{}` cannot both be held to", found[0].0))),
        }
    }

    /// Puts the form before all other steps of a chain.
    pub fn hold(&self, name: &str, chain: &mut Chain, served: &Served, ends: &[u32]) -> Result<()> {
        if ends.is_empty() {
            return Err(ApiError::field(name, "wants a model with an end token, and no `ignore_eos`"));
        }
        let pattern = match self {
            Self::AnyObject => schema::any_object(),
            Self::Schema(schema) => schema::pattern(schema).map_err(|e| served.error(e).of(name))?,
            Self::Regex(regex) => regex.clone(),
        };
        let tokens = served.model.token_bytes().map_err(|e| served.error(e))?;
        let pattern = Pattern::new(&pattern, tokens).map_err(|e| served.error(e).of(name))?;
        chain.steps.insert(0, pattern.into());
        Ok(())
    }
}
