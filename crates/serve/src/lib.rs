//! Models over HTTP: OpenAI's conventions where they exist, our own where nobody has any.
//!
//! One thread computes for each model ([`engine_thread`]); requests of many clients go through it side by side, one token further
//! at each step, and what one says depends on nobody else. Everything that a stranger can make large is bounded
//! ([`limits`]), every error has OpenAI's shape ([`error`]), and every path stands in one table ([`routes`]).
//!
//! ```no_run
//! use qkv_serve::{Access, App, Limits, Metrics, Served, Server, asked_to_end};
//! use std::sync::Arc;
//!
//! let model = Arc::new(qkv_tasks::TextModel::load("runs/gpt".as_ref())?);
//! let (limits, metrics) = (Limits::default(), Arc::new(Metrics::default()));
//! let served = Served::new("gpt", model, &limits, metrics.clone());
//! let app = App::new(vec![served], limits, metrics, Access::open(true), false);
//! let server = Server::bind(([127, 0, 0, 1], 8080).into(), app)?;
//! server.run(asked_to_end())?;
//! # Ok::<(), qkv_base::Error>(())
//! ```

pub mod access;
pub mod adapters;
pub mod api;
pub mod app;
pub mod body;
pub mod engine_thread;
pub mod error;
pub mod fields;
pub mod limits;
pub mod listen;
pub mod load;
pub mod metrics;
pub mod openapi;
pub mod page;
pub mod routes;
pub mod served;
pub mod settings;

pub use access::Access;
pub use adapters::AdapterDirectory;
pub use app::App;
pub use error::ApiError;
pub use limits::Limits;
pub use listen::{Server, Socket, asked_to_end};
pub use metrics::Metrics;
pub use openapi::openapi;
pub use served::Served;
pub use settings::{ModelPlace, ServeSettings};

use qkv_base::Task;
use std::net::SocketAddr;
use std::path::Path;

/// What a model is called by: the last part of its path that means something.
///
/// ```
/// let name = |path: &str| qkv_serve::name_of(path.as_ref());
/// assert_eq!([name("runs/tale/model/"), name("models/tiny.gguf"), name("bert")], ["tale", "tiny", "bert"]);
/// ```
pub fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let part = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let own = part(&path);
    match own.strip_suffix(".gguf").or(own.strip_suffix(".safetensors")) {
        // A path that is not there has no directory to be named after; what it is is said when it is loaded.
        Some("model") => path.parent().map(name_of).filter(|n| !n.is_empty()).unwrap_or_else(|| "model".into()),
        Some(stem) => stem.to_string(),
        None if own == "model" => path.parent().map(part).unwrap_or(own),
        None => own,
    }
}

/// A line for a shell that asks the first model something.
pub fn example(app: &App, at: SocketAddr) -> String {
    let Some(model) = app.models.first() else { return String::new() };
    let text = model.model.maybe_tokenizer().is_some();
    let (path, body) = match model.task() {
        Some(Task::NextToken) if model.chat.is_ok() => {
            ("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": "Hello"}]}"#)
        }
        Some(Task::NextToken) if text => ("/v1/completions", r#"{"prompt": "Once upon a time"}"#),
        Some(Task::NextToken) => ("/v1/completions", r#"{"prompt": [5, 6, 7], "return_token_ids": true}"#),
        Some(Task::Translate) if text => ("/v1/translate", r#"{"input": "The king is reading a book."}"#),
        Some(Task::Classify) if text => ("/v1/classify", r#"{"input": "what a wonderful film"}"#),
        Some(Task::Tag) if text => ("/v1/tag", r#"{"input": "Ada lives in Rome"}"#),
        Some(Task::Answer) if text => ("/v1/answer", r#"{"question": "Who?", "context": "Ada lives in Rome"}"#),
        Some(Task::Masked) if text => ("/v1/fill", r#"{"input": "Ada [MASK] in Rome"}"#),
        None if model.embeds() && text => ("/v1/embeddings", r#"{"input": "a text"}"#),
        _ => ("/v1/models", ""),
    };
    let key = if app.access.has_keys() { " -H \"Authorization: Bearer $KEY\"" } else { "" };
    let data = if body.is_empty() { String::new() } else { format!(" -d '{body}'") };
    format!("curl http://{at}{path}{key}{data}")
}
