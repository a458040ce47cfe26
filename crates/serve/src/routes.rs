//! Every path in one table: the router, the errors for other methods, and `/openapi.json` read it.

use crate::api::{self, Answer};
use crate::app::App;
use crate::body::{Call, Reply};
use crate::error::{ApiError, ApiResult};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

/// An answer that is being made.
pub type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One path.
pub struct Route {
    /// `GET` or `POST`
    pub method: Method,
    /// the path; one that ends in `{model}` or `{run}` takes a name there
    pub path: &'static str,
    /// whether it is answered without a key
    pub open: bool,
    /// what it does, in a line
    pub about: &'static str,
    /// how
    pub answer: fn(Arc<App>, Call) -> Pending,
}

macro_rules! routes {
    ($($method:ident $path:literal $open:literal $answer:path, $about:literal;)*) => {
        /// Every path.
        pub const ROUTES: &[Route] = &[$(Route {
            method: Method::$method,
            path: $path,
            open: $open,
            about: $about,
            answer: |app, call| Box::pin($answer(app, call)),
        }),*];
    };
}

routes! {
    GET "/" true crate::page::answer, "A page for people";
    GET "/health" true api::info::health, "The process is alive";
    GET "/v1/health" true api::info::health, "The process is alive";
    GET "/ping" true api::info::health, "The process is alive";
    GET "/version" true api::ollama::version, "The version";
    GET "/info" false api::inference::info, "text-embeddings-inference: what is served";
    GET "/ready" true api::info::ready, "Another request would be taken";
    GET "/metrics" false api::info::metrics, "Counters for Prometheus";
    GET "/props" false api::info::props, "Limits, and what each model is";
    GET "/v1/models" false api::info::models, "The models by name";
    GET "/models" false api::info::models, "The models by name";
    GET "/v1/models/{model}" false api::info::one_model, "One model";
    POST "/v1/load_lora_adapter" false api::adapters::load, "Put in an adapter of the directory that --adapters names";
    POST "/v1/unload_lora_adapter" false api::adapters::unload, "Take an adapter out; who has it ends with it";
    POST "/v1/completions" false api::completions::answer, "Go on with a text";
    POST "/v1/chat/completions" false api::chat::answer, "The next turn of a conversation";
    POST "/v1/embeddings" false api::embeddings::answer, "A vector for each text";
    POST "/v1/rerank" false api::embeddings::rerank, "Which texts a query is nearest to";
    POST "/v1/classify" false api::tasks::classify, "Which class a text belongs to";
    POST "/v1/tag" false api::tasks::tag, "Names, places and dates in a text, or a label for each word";
    POST "/v1/answer" false api::tasks::answer, "The part of a text that answers a question";
    POST "/v1/fill" false api::tasks::fill, "What may stand in the gaps of a text";
    POST "/v1/image" false api::tasks::image, "What is in a picture";
    POST "/v1/score" false api::tasks::score, "How probable a text is, token by token";
    POST "/v1/translate" false api::tasks::translate, "Translations by beam search, with scores and alignments";
    POST "/v1/see" false api::see::answer, "What a model does with a text: maps, lens, losses, gradients, what a chain does";
    GET "/v1/runs" false api::runs::all, "What is trained on this machine, the newest first";
    GET "/v1/runs/{run}" false api::runs::one, "One run, with its curves as far as they have come";
    POST "/completion" false api::llama_cpp::completion, "llama.cpp: go on with a text";
    POST "/completions" false api::llama_cpp::completion, "llama.cpp: the same";
    POST "/chat/completions" false api::chat::answer, "llama.cpp: the next turn of a conversation";
    POST "/apply-template" false api::llama_cpp::apply_template, "llama.cpp: a conversation as the model will read it";
    POST "/embed" false api::inference::embed, "text-embeddings-inference: a vector for each text";
    POST "/predict" false api::inference::predict, "text-embeddings-inference: which class a text belongs to";
    POST "/similarity" false api::inference::similarity, "text-embeddings-inference: how near texts are to one";
    POST "/rerank" false api::inference::rerank, "Which texts a query is nearest to, as others have it";
    POST "/v2/rerank" false api::embeddings::rerank, "Which texts a query is nearest to, as Cohere has it";
    POST "/tokenize" false api::tasks::tokenize, "The tokens of a text";
    POST "/detokenize" false api::tasks::detokenize, "The text of tokens";
    POST "/translate" false api::libre_translate::translate, "LibreTranslate: translate";
    GET "/languages" false api::libre_translate::languages, "LibreTranslate: which languages";
    POST "/" false api::hugging_face::answer, "Hugging Face's InferenceClient: the first model";
    POST "/models/{model}" false api::hugging_face::answer, "Hugging Face's InferenceClient: a model by name";
    POST "/api/generate" false api::ollama::generate, "Ollama: go on with a text";
    POST "/api/chat" false api::ollama::chat, "Ollama: the next turn of a conversation";
    POST "/api/embed" false api::ollama::embed, "Ollama: a vector for each text";
    POST "/api/embeddings" false api::ollama::embed, "Ollama: a vector for a text";
    GET "/api/tags" false api::ollama::tags, "Ollama: the models";
    GET "/api/ps" false api::ollama::tags, "Ollama: the models that are loaded, which all are";
    POST "/api/show" false api::ollama::show, "Ollama: one model";
    GET "/api/version" true api::ollama::version, "Ollama: the version";
    GET "/openapi.json" true api::info::openapi, "This description";
}

/// The name at the end of a path.
pub fn tail(path: &str, prefix: &str) -> ApiResult<String> {
    let encoded = path.strip_prefix(prefix).unwrap_or_default();
    let wrong = || ApiError::bad("the name in the path is not UTF-8");
    let mut bytes = vec![];
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let hex: Vec<u8> = rest.by_ref().take(2).collect();
                let hex = std::str::from_utf8(&hex).map_err(|_| wrong())?;
                u8::from_str_radix(hex, 16).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl Route {
    /// The name of what stands at the end of the path, if anything may stand there.
    pub fn parameter(&self) -> Option<&'static str> {
        self.path.strip_suffix('}')?.rsplit_once('{').map(|(_, name)| name)
    }

    fn matches(&self, path: &str) -> bool {
        match self.parameter().and_then(|_| self.path.rsplit_once('{')).map(|(prefix, _)| prefix) {
            Some(prefix) => path.strip_prefix(prefix).is_some_and(|name| !name.is_empty()),
            None => self.path == path,
        }
    }
}

/// Answers any request.
pub async fn answer(app: Arc<App>, call: Call) -> Response<Reply> {
    let (method, path) = (call.parts.method.clone(), call.path().to_string());
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { &path };
    let here: Vec<&Route> = ROUTES.iter().filter(|route| route.matches(trimmed)).collect();
    let asked = if method == Method::HEAD { &Method::GET } else { &method };
    let route = here.iter().copied().find(|route| route.method == *asked);
    let given = call.header("x-request-id").filter(|id| id.len() <= 128).map(str::to_string);
    let id = given.unwrap_or_else(|| app.id("req"));
    let access = app.access.check(&call, route.is_some_and(|r| r.open) || method == Method::OPTIONS);
    let (origin, made) = match access {
        Err(error) => (None, Err(error)),
        Ok(origin) if method == Method::OPTIONS && origin.is_some() => (origin, Ok(preflight())),
        Ok(origin) => (origin, routed(&app, call, route, &here).await),
    };
    let mut response = made.unwrap_or_else(|error| error.response());
    app.metrics.answered(route.map_or("other", |r| r.path), response.status().as_u16());
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin.and_then(|o| HeaderValue::from_str(&o).ok()) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    if method == Method::HEAD {
        *response.body_mut() = Reply::empty();
    }
    response
}

async fn routed(app: &Arc<App>, call: Call, route: Option<&Route>, here: &[&Route]) -> Answer {
    let Some(route) = route else {
        if here.is_empty() {
            let shown: String = call.path().chars().take(100).collect();
            return Err(ApiError::new(StatusCode::NOT_FOUND, format!("there is nothing at {shown}")).code("not_found"));
        }
        let allowed: Vec<&str> = here.iter().map(|route| route.method.as_str()).collect();
        let what = format!("{} is not answered here, {} is", call.parts.method, allowed.join(" and "));
        let error = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, what).code("method_not_allowed");
        let mut response = error.response();
        if let Ok(value) = HeaderValue::from_str(&allowed.join(", ")) {
            response.headers_mut().insert(header::ALLOW, value);
        }
        return Ok(response);
    };
    if app.is_draining() && !route.open {
        return Err(ApiError::unavailable("the server is about to end"));
    }
    let deadline = app.deadline(call.arrived);
    let guarded = guarded(app.clone(), (route.answer)(app.clone(), call));
    let late = |_| {
        let what = format!("the request took longer than {} s", app.limits.request_timeout.as_secs());
        ApiError::new(StatusCode::GATEWAY_TIMEOUT, what).code("timeout")
    };
    tokio::time::timeout_at(deadline, guarded).await.map_err(late)?
}

/// A handler that panics is an answer, too.
async fn guarded(app: Arc<App>, mut pending: Pending) -> Answer {
    std::future::poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| pending.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(_) => {
            app.metrics.panics.fetch_add(1, Relaxed);
            Poll::Ready(Err(ApiError::internal("the request broke off")))
        }
    })
    .await
}

/// What a browser asks before a page of another server may ask.
fn preflight() -> Response<Reply> {
    let mut response = Response::new(Reply::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    let allowed = HeaderValue::from_static("authorization, content-type, x-api-key, x-request-id");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_decoded_and_nothing_else() {
        assert_eq!(tail("/v1/models/a%2Fb", "/v1/models/").unwrap(), "a/b");
        assert!(tail("/v1/models/%ff", "/v1/models/").is_err() && tail("/v1/models/%4", "/v1/models/").is_ok());
        assert!(tail("/v1/models/%zz", "/v1/models/").is_err());
    }
}
