//! What a client hears when something is wrong: OpenAI's shape, `{"error": {"message", "type", "param", "code"}}`, with the
//! status that belongs to it. No path of this machine is ever in a message.

use crate::body::Reply;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use qkv_base::{Error, Kind};
use serde_json::{Value, json};

/// A refusal or a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// the HTTP status
    pub status: StatusCode,
    /// what is wrong, and what to do
    pub message: String,
    /// the field that is meant
    pub param: Option<String>,
    /// a word for programs
    pub code: Option<&'static str>,
    /// seconds after which another try makes sense
    pub retry_after: Option<u64>,
}

/// Shorthand.
pub type ApiResult<T> = std::result::Result<T, ApiError>;

impl ApiError {
    /// An error with a status alone.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// 400: a field that will not do.
    pub fn field(param: &str, message: impl std::fmt::Display) -> Self {
        let message = format!("`{param}` {message}");
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    /// 400: a request that will not do.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The same with a word for programs.
    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same about a field.
    pub fn of(self, param: &str) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// 429: everything is taken.
    pub fn overloaded(message: impl Into<String>, retry_after: u64) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, message).code("rate_limit_exceeded");
        Self { retry_after: Some(retry_after), ..error }
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
        Self { retry_after: Some(1), ..error }
    }

    /// 500: a fault of this program.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message).code("internal_error")
    }

    /// What the library says; its words are for a person at a terminal, so hints that name flags are left out.
    pub fn library(error: Error) -> Self {
        let status = match error.kind {
            Kind::Usage | Kind::Input => StatusCode::BAD_REQUEST,
            Kind::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Io | Kind::DiskFull | Kind::Failed | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let hint = match error.hint.as_str() {
            "" => String::new(),
            hint if hint.contains("--") || hint.contains("qkv ") => String::new(),
            hint => format!(" ({hint})"),
        };
        Self::new(status, format!("{}: {}{hint}", error.place, error.what))
    }

    /// The family of errors that it belongs to.
    pub fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body.
    pub fn json(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind(), "param": self.param, "code": self.code}})
    }

    /// The whole answer.
    pub fn response(&self) -> Response<Reply> {
        let mut response = json_response(self.status, &self.json());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A JSON answer.
pub fn json_response(status: StatusCode, value: &Value) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_openais() {
        let error = ApiError::field("top_p", "must be between 0 and 1");
        let want = json!({"error": {"message": "`top_p` must be between 0 and 1", "type": "invalid_request_error",
            "param": "top_p", "code": null}});
        assert_eq!((error.json(), error.status.as_u16()), (want, 400));
        assert_eq!(ApiError::overloaded("full", 2).response().headers()["retry-after"], "2");
    }

    #[test]
    fn hints_for_a_terminal_are_not_for_a_client() {
        let error = |hint: &str| ApiError::library(Error::new("prompt", "is empty", hint)).message;
        assert_eq!(error("say something"), "prompt: is empty (say something)");
        assert_eq!(error("add --ids 5"), "prompt: is empty");
    }
}
