//! Bodies: what comes in is read under a limit of bytes and of time; what goes out is one piece, or comes as it is made.

use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::limits::Limits;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_LENGTH;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// A request on its way to its answer.
pub struct Call {
    /// method, path and headers
    pub parts: Parts,
    body: Incoming,
    /// when it came
    pub arrived: std::time::Instant,
}

impl Call {
    /// One that just came.
    pub fn new(request: Request<Incoming>) -> Self {
        let (parts, body) = request.into_parts();
        Self { parts, body, arrived: std::time::Instant::now() }
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The whole body: too much of it is refused before it is read, too slow a one is given up.
    pub async fn bytes(&mut self, limits: &Limits) -> ApiResult<Bytes> {
        let most = limits.body_bytes;
        let too_large = || {
            let what = format!("the body is larger than {most} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, what).code("request_too_large")
        };
        let said = self.parts.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if said.is_some_and(|n| n > most as u64) {
            return Err(too_large());
        }
        let read = async {
            let mut whole = BytesMut::new();
            while let Some(frame) = self.body.frame().await {
                let broken = |_| ApiError::bad("the body ended before it was whole");
                if let Ok(data) = frame.map_err(broken)?.into_data() {
                    if whole.len() + data.len() > most {
                        return Err(too_large());
                    }
                    whole.extend_from_slice(&data);
                }
            }
            Ok(whole.freeze())
        };
        let late = |_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
        tokio::time::timeout(limits.body_timeout, read).await.map_err(late)?
    }

    /// The body as JSON.
    pub async fn json(&mut self, limits: &Limits) -> ApiResult<Value> {
        let bytes = self.bytes(limits).await?;
        // serde_json refuses what is nested more than 128 deep, NaN, numbers beyond f64, and what is not UTF-8.
        serde_json::from_slice(&bytes).map_err(|e| ApiError::bad(format!("the body is not JSON: {e}")))
    }

    /// The body as the fields of a JSON object.
    pub async fn fields(&mut self, limits: &Limits) -> ApiResult<Fields> {
        Fields::of(self.json(limits).await?)
    }
}

/// A body that goes out.
pub enum Reply {
    /// in one piece
    Whole(Option<Bytes>),
    /// as it is made; who makes it hears when nobody listens any more
    Stream(mpsc::UnboundedReceiver<Bytes>),
}

impl Reply {
    /// In one piece.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// Nothing.
    pub fn empty() -> Self {
        Self::Whole(None)
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
