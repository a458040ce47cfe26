//! What the server is and how it is: models, health, counters, limits.

use super::{Answer, reply, text};
use crate::adapters::Adapter;
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, json_response};
use crate::served::Served;
use hyper::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

/// `GET /health`: the process is alive.
pub async fn health(_: Arc<App>, _: Call) -> Answer {
    Ok(reply(&json!({"status": "ok"}), &[]))
}

/// `GET /ready`: another request would be taken.
pub async fn ready(app: Arc<App>, _: Call) -> Answer {
    if app.is_draining() {
        return Err(ApiError::unavailable("the server is about to end"));
    }
    match app.models.iter().find(|m| m.engine.is_full()) {
        Some(full) => Err(ApiError::unavailable(format!("the queue of `{}` is full", full.name))),
        None => Ok(reply(&json!({"status": "ready"}), &[])),
    }
}

/// `GET /metrics`: counters for Prometheus.
pub async fn metrics(app: Arc<App>, _: Call) -> Answer {
    let loads: Vec<_> = app.models.iter().map(|m| (m.name.clone(), m.load())).collect();
    Ok(text("text/plain; version=0.0.4; charset=utf-8", app.metrics.text(&loads)))
}

/// `GET /v1/models`.
pub async fn models(app: Arc<App>, _: Call) -> Answer {
    let adapted =
        |served: &Served| served.all_adapters().iter().map(|adapter| with_adapter(served, adapter)).collect::<Vec<_>>();
    let list: Vec<Value> =
        app.models.iter().flat_map(|served| std::iter::once(model(served)).chain(adapted(served))).collect();
    Ok(reply(&json!({"object": "list", "data": list}), &[]))
}

/// `GET /v1/models/{model}`.
pub async fn one_model(app: Arc<App>, call: Call) -> Answer {
    let name = crate::routes::tail(call.path(), "/v1/models/")?;
    let value = match app.writer(Some(&name), "writes text") {
        Ok((served, Some(adapter))) => with_adapter(served, &adapter),
        _ => model(app.model(Some(&name), |_| true, "")?),
    };
    Ok(reply(&value, &[]))
}

/// A model with one of its adapters, in OpenAI's shape.
fn with_adapter(served: &Served, adapter: &Adapter) -> Value {
    let mut value = model(served);
    value["id"] = json!(served.called(Some(adapter)));
    value["parent"] = json!(served.name);
    value["root"] = json!(adapter.name);
    value["created"] = json!(adapter.created);
    value["embeds"] = json!(false);
    value["views"] = json!([]);
    value
}

/// A model in OpenAI's shape, and what it can be asked.
fn model(served: &Served) -> Value {
    let chat = served.chat.is_ok();
    let stack = served.model.spec().decoder().or(served.model.spec().encoder());
    let (layers, heads) = stack.map_or((0, 0), |stack| (stack.layers, stack.heads));
    json!({"id": served.name, "object": "model", "created": served.created, "owned_by": "qkv",
        "family": served.model.network.sheet.name, "task": served.task().map(|t| t.name()), "chat": chat,
        "embeds": served.embeds(), "writes": served.writes(), "context": bounded(served.context()),
        "pair": served.model.is_pair(), "views": super::see::names(served), "layers": layers, "heads": heads})
}

/// A step that a chain can have.
fn step(sheet: &qkv_decode::transform::StepSheet) -> Value {
    json!({"name": sheet.name, "about": sheet.about, "example": sheet.example})
}

/// A length, or none where there is no bound.
fn bounded(n: usize) -> Option<usize> {
    (n < usize::MAX).then_some(n)
}

/// `GET /props`: limits and what each model is.
pub async fn props(app: Arc<App>, _: Call) -> Answer {
    let limits = &app.limits;
    let model = |served: &Served| {
        let mut value = model(served);
        value["rows"] = json!(served.rows);
        value["weight_bytes"] = json!(served.weight_bytes);
        value["vocabulary"] = json!(served.vocabulary());
        value["chat_template"] = json!(served.model.maybe_tokenizer().and_then(|t| t.chat_template(None)));
        value
    };
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": app.started.elapsed().as_secs(),
        "logprobs": "raw: the model's own, before any step of the chain",
        "steps": qkv_decode::transform::STEPS.iter().map(step).collect::<Vec<_>>(),
        "models": app.models.iter().map(model).collect::<Vec<_>>(),
        "limits": {
            "body_bytes": limits.body_bytes, "header_bytes": limits.header_bytes, "inputs": limits.inputs,
            "queue": limits.queue, "connections": limits.connections,
            "request_seconds": limits.request_timeout.as_secs(),
        },
    });
    Ok(json_response(StatusCode::OK, &value))
}

/// `GET /openapi.json`.
pub async fn openapi(_: Arc<App>, _: Call) -> Answer {
    Ok(reply(&crate::openapi::openapi(), &[]))
}
