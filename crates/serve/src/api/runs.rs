//! `GET /v1/runs` and `/v1/runs/{run}`: what is trained on this machine, and the curves of a run as far as they have come.
//!
//! Only runs that the directory holds can be named, by their names alone; what a run was trained on and where it stands is not told.

use super::{Answer, reply};
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use hyper::StatusCode;
use qkv_runs::journal;
use qkv_runs::list::{RunSummary, list};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A run that wrote something so lately is taken to be under way.
const LIVE: Duration = Duration::from_secs(60);

/// The most points of a curve; a longer one is thinned out evenly.
const POINTS: usize = 400;

/// Reads files on a thread where waiting for them holds up nobody.
async fn reading<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    tokio::task::spawn_blocking(read).await.map_err(|_| ApiError::internal("the runs could not be read"))
}

fn directory(app: &App) -> ApiResult<PathBuf> {
    let none = || ApiError::new(StatusCode::NOT_FOUND, "this server shows no runs").code("not_found");
    app.runs.clone().ok_or_else(none)
}

fn summary(run: &RunSummary) -> Value {
    let live = run.age < LIVE && run.score.is_none();
    json!({"name": run.name, "task": run.task, "metric": run.metric, "score": run.score, "step": run.step,
        "steps": run.steps, "bytes": run.bytes, "age_seconds": run.age.as_secs(), "live": live})
}

/// Answers `/v1/runs`, the newest first.
pub async fn all(app: Arc<App>, _: Call) -> Answer {
    let data: Vec<Value> = match &app.runs {
        Some(dir) => {
            let dir = dir.clone();
            reading(move || list(&dir)).await?.iter().map(summary).collect()
        }
        None => vec![],
    };
    Ok(reply(&json!({"object": "list", "data": data}), &[]))
}

/// Answers `/v1/runs/{run}`: the summary, and each curve as a list of steps and numbers.
pub async fn one(app: Arc<App>, call: Call) -> Answer {
    let name = crate::routes::tail(call.path(), "/v1/runs/")?;
    let dir = directory(&app)?;
    let found = reading(move || {
        let run = list(&dir).into_iter().find(|run| run.name == name)?;
        let mut value = summary(&run);
        value["curves"] = curves(journal::read(&run.path).unwrap_or_default().iter());
        Some(value)
    });
    let none = || ApiError::new(StatusCode::NOT_FOUND, "there is no such run").code("not_found");
    Ok(reply(&found.await?.ok_or_else(none)?, &[]))
}

/// The curves of a journal: losses, and whatever it was judged by on the way.
fn curves(lines: impl Iterator<Item = Map<String, Value>>) -> Value {
    let mut found: std::collections::BTreeMap<String, Vec<(u64, f64)>> = Default::default();
    for line in lines {
        let Some(step) = line.get("step").and_then(Value::as_u64) else { continue };
        for (name, value) in &line {
            let is_curve = name == "loss" || name.starts_with("valid_");
            if let (true, Some(value)) = (is_curve, value.as_f64().filter(|v| v.is_finite())) {
                found.entry(name.clone()).or_default().push((step, value));
            }
        }
    }
    json!(found.into_iter().map(|(name, points)| (name, thinned(points))).collect::<std::collections::BTreeMap<_, _>>())
}

/// Every so many points, and always the last.
fn thinned(points: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    let every = points.len().div_ceil(POINTS).max(1);
    let last = points.len().saturating_sub(1);
    points.into_iter().enumerate().filter(|(i, _)| (last - i).is_multiple_of(every)).map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_as_far_as_they_go() {
        let lines = [
            json!({"step": 1, "loss": 3.5, "rate": 1}),
            json!({"step": 2, "loss": null}),
            json!({"step": 2, "valid_loss": 3.0, "best": true}),
        ];
        let lines = lines.iter().filter_map(|line| line.as_object().cloned());
        assert_eq!(curves(lines), json!({"loss": [[1, 3.5]], "valid_loss": [[2, 3.0]]}));
        let long = thinned((0..10_001).map(|i| (i, 0.5)).collect());
        assert!(long.len() <= POINTS && long.last().unwrap().0 == 10_000, "{}", long.len());
        assert!(thinned(vec![]).is_empty());
    }
}
