//! `POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`, as vLLM has them: adapters come and go while the server serves.
//!
//! What is read is a directory in the one that `--adapters` names, by its plain name; without that flag nothing is.

use super::{Answer, text, with_ignored};
use crate::adapters::check_name;
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use hyper::StatusCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Puts an adapter in.
pub async fn load(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let name = fields.needed_text("lora_name")?;
    check_name("lora_name", &name)?;
    let path = fields.text("lora_path")?.unwrap_or_else(|| name.clone());
    let replace = fields.flag("load_inplace")?.unwrap_or(false);
    let place = place(&app, &fields, None)?;
    let ignored = fields.finish(app.strict)?;
    let none = || {
        let what = "this server was started without a directory of adapters (--adapters DIR), and so puts none in";
        ApiError::new(StatusCode::FORBIDDEN, what).code("adapters_off")
    };
    let directory = app.adapters.clone().ok_or_else(none)?;
    refuse_taken(&app.models[place], &name, replace)?;
    // One at a time: reading takes memory, and who asks often would take all of it.
    let turn = app.loading.clone().acquire_owned().await.map_err(|_| ApiError::internal("no turn"))?;
    let (here, wanted) = (app.clone(), name.clone());
    let read = move || {
        let (_turn, served) = (turn, &here.models[place]);
        let adapters = adapters(served)?;
        if adapters.all().len() >= here.limits.adapters && !(replace && adapters.get(&wanted).is_some()) {
            let what = format!("the model `{}` has {} adapters, as many as it may", served.name, here.limits.adapters);
            return Err(ApiError::bad(what).of("lora_name").code("too_many_adapters"));
        }
        // An adapter is small; one as large as its model is something else.
        let most = served.weight_bytes.max(1 << 20);
        let layers = directory.read(&path, &served.model.network, most)?;
        match adapters.put(&wanted, layers, replace).map_err(|e| served.error(e))? {
            true => Ok(()),
            false => Err(taken(&wanted)),
        }
    };
    let broke = |_| ApiError::field("lora_path", "cannot be put in: reading it broke off").code("invalid_adapter");
    tokio::task::spawn_blocking(read).await.map_err(broke)??;
    app.metrics.adapters_loaded.fetch_add(1, Relaxed);
    let said = format!("Success: LoRA adapter '{name}' added successfully.");
    Ok(with_ignored(text("text/plain; charset=utf-8", said), &ignored))
}

/// Takes an adapter out; rows that have it end with it.
pub async fn unload(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let name = fields.needed_text("lora_name")?;
    fields.value("lora_int_id"); // a number that vLLM gives them
    let place = place(&app, &fields, Some(&name))?;
    let ignored = fields.finish(app.strict)?;
    if !app.models[place].adapters.as_ref().is_some_and(|adapters| adapters.remove(&name)) {
        let shown: String = name.chars().take(100).collect();
        let what = format!("the adapter `{}` cannot be found", shown.escape_debug());
        return Err(ApiError::new(StatusCode::NOT_FOUND, what).of("lora_name").code("adapter_not_found"));
    }
    app.metrics.adapters_unloaded.fetch_add(1, Relaxed);
    let said = format!("Success: LoRA adapter '{name}' removed successfully.");
    Ok(with_ignored(text("text/plain; charset=utf-8", said), &ignored))
}

/// The model that is meant: by its name, or the one that has the adapter, or the first that can have adapters.
fn place(app: &App, fields: &Fields, having: Option<&str>) -> ApiResult<usize> {
    let given = [fields.text("model")?, fields.text("base_model_name")?].into_iter().flatten().next();
    let can = |m: &Served| m.adapters.is_some();
    let has = |m: &Served| having.is_some_and(|name| m.adapters.as_ref().is_some_and(|a| a.get(name).is_some()));
    let found = match (&given, app.models.iter().find(|m| has(m))) {
        (None, Some(served)) => served,
        _ => app.model(given.as_deref(), can, "takes adapters: a Transformer that writes and reads no source")?,
    };
    Ok(app.models.iter().position(|m| m.name == found.name).unwrap_or(0))
}

fn adapters(served: &Served) -> ApiResult<&crate::adapters::Adapters> {
    served.adapters.as_ref().ok_or_else(|| ApiError::field("model", "is one that takes no adapters"))
}

fn refuse_taken(served: &Served, name: &str, replace: bool) -> ApiResult<()> {
    match adapters(served)?.get(name) {
        Some(_) if !replace => Err(taken(name)),
        _ => Ok(()),
    }
}

fn taken(name: &str) -> ApiError {
    let what = format!("the adapter `{name}` is there already; take it out first, or say `load_inplace`");
    ApiError::bad(what).of("lora_name").code("adapter_exists")
}
