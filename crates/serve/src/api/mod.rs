//! What is asked over HTTP, one file for a family of paths.

pub mod adapters;
pub mod ask;
pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod format;
pub mod hugging_face;
pub mod inference;
pub mod info;
pub mod libre_translate;
pub mod llama_cpp;
pub mod logprobs;
pub mod ollama;
pub mod runs;
pub mod see;
pub mod session;
pub mod stream;
pub mod tasks;
pub mod tools;

use crate::body::Reply;
use crate::error::json_response;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;

/// An answer of any shape.
pub type Answer = crate::error::ApiResult<Response<Reply>>;

/// A JSON answer, with the names of the fields that were passed over.
pub fn reply(value: &Value, ignored: &[String]) -> Response<Reply> {
    with_ignored(json_response(StatusCode::OK, value), ignored)
}

/// A text that is no JSON.
pub fn text(content_type: &'static str, body: impl Into<bytes::Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The same answer with the names of the fields that were passed over.
pub fn with_ignored(mut response: Response<Reply>, ignored: &[String]) -> Response<Reply> {
    let plain = |name: &String| name.chars().all(|c| c.is_ascii_graphic() && c != ',').then(|| name.clone());
    let names: Vec<String> = ignored.iter().filter_map(plain).collect();
    if let (false, Ok(value)) = (names.is_empty(), HeaderValue::from_str(&names.join(","))) {
        response.headers_mut().insert("x-qkv-ignored", value);
    }
    response
}
