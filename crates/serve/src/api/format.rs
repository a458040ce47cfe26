//! Answers of a form: `response_format` with a JSON schema, `json_object`, `regex` (and vLLM's `guided_regex` and
//! `guided_json`), `grammar`, and one of several texts (`guided_choice`). The form becomes the first step of the chain.

use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use qkv_decode::grammar::Grammar;
use qkv_decode::pattern::{Pattern, escape};
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
    /// a text that follows a grammar, in llama.cpp's notation
    Grammar(String),
}

/// Every field that says a form.
const NAMES: [&str; 8] = [
    "response_format",
    "regex",
    "guided_regex",
    "grammar",
    "guided_grammar",
    "guided_choice",
    "json_schema",
    "guided_json",
];

impl Format {
    /// Whether a form is asked for.
    pub fn is_asked(fields: &Fields) -> bool {
        NAMES.iter().any(|name| fields.has(name))
    }

    /// Takes the fields that say it, and the name of the one that did.
    pub fn of(fields: &Fields) -> ApiResult<Option<(&'static str, Self)>> {
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
        for name in ["grammar", "guided_grammar"] {
            match fields.text(name)? {
                None => {}
                Some(text) if text.is_empty() => {} // llama.cpp's clients send it so
                Some(text) => found.push((name, Self::Grammar(text))),
            }
        }
        if let Some(choices) = fields.texts("guided_choice", 1024)? {
            let choices: Vec<String> = choices.iter().map(|text| escape(text)).collect();
            found.push(("guided_choice", Self::Regex(choices.join("|"))));
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
    pub fn hold(&self, name: &str, chain: &mut Chain, served: &Served, ends: &[u32]) -> ApiResult<()> {
        if ends.is_empty() {
            return Err(ApiError::field(name, "wants a model with an end token, and no `ignore_eos`"));
        }
        let tokens = served.model.token_bytes().map_err(|e| served.error(e))?;
        let step = match self {
            Self::AnyObject => schema::any_object(tokens),
            Self::Schema(schema) => schema::step(schema, tokens),
            Self::Regex(regex) => Pattern::new(regex, tokens).map(Into::into),
            Self::Grammar(text) => Grammar::new(text, tokens).map(Into::into),
        };
        chain.steps.insert(0, step.map_err(|e| served.error(e).of(name))?);
        Ok(())
    }
}
