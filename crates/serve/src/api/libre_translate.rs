//! LibreTranslate's `/translate` and `/languages`. A model that is called `…xx-yy…` translates from xx into yy; of others the
//! languages are not known, and what a request says about them is listed in `x-qkv-ignored`.

use super::ask::Ask;
use super::{Answer, reply, tasks};
use crate::app::App;
use crate::body::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Served;
use qkv_base::Task;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The languages in a name such as `opus-mt-en-de`.
pub fn languages_of(name: &str) -> Option<(&str, &str)> {
    let parts: Vec<&str> = name.split(['-', '_', '.', '/']).collect();
    let is_code = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_lowercase()) && part != "mt";
    parts.windows(2).rev().find(|pair| is_code(pair[0]) && is_code(pair[1])).map(|pair| (pair[0], pair[1]))
}

fn translators(app: &App) -> impl Iterator<Item = &Served> {
    app.models.iter().filter(|m| m.task() == Some(Task::Translate))
}

/// Answers `GET /languages`.
pub async fn languages(app: Arc<App>, _: Call) -> Answer {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (source, target) in translators(&app).filter_map(|m| languages_of(&m.name)) {
        all.entry(source.into()).or_default().push(target.into());
        all.entry(target.into()).or_default();
    }
    let one = |(code, targets): (String, Vec<String>)| json!({"code": code, "name": code, "targets": targets});
    Ok(reply(&all.into_iter().map(one).collect(), &[]))
}

/// Answers `POST /translate`, of JSON.
pub async fn translate(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (texts, one) = fields.inputs(&["q"], app.limits.inputs)?;
    let (source, target) = (fields.text("source")?, fields.text("target")?);
    let model = fields.text("model")?;
    if fields.text("format")?.is_some_and(|f| f != "text") {
        return Err(ApiError::field("format", "must be `text`; markup is not parted from text"));
    }
    let more = fields.count("alternatives", 0..=16)?.unwrap_or(0);
    fields.value("api_key"); // keys are sent in a header
    let mut ignored = fields.finish(app.strict)?;
    let wanted = |m: &Served| {
        languages_of(&m.name).is_some_and(|(s, t)| {
            target.as_deref() == Some(t) && source.as_deref().is_none_or(|asked| asked == s || asked == "auto")
        })
    };
    let served = match model.is_none().then(|| translators(&app).find(|m| wanted(m))).flatten() {
        Some(served) => served,
        None => {
            let served = app.model(model.as_deref(), |m| m.task() == Some(Task::Translate), "translates")?;
            match languages_of(&served.name) {
                Some((s, t)) if !wanted(served) && target.is_some() => {
                    let what = format!("is not what is translated here: {s} into {t}");
                    return Err(ApiError::field("target", what));
                }
                Some(_) => {}
                None => ignored.extend(["source".to_string(), "target".to_string()]),
            }
            served
        }
    };
    let width = served.model.defaults.beams.unwrap_or(4).max(more + 1).min(served.rows);
    let beam = Fields::of(json!({"beam": width, "n": (more + 1).min(width)}))?;
    let ask = Ask { otherwise: 256, ..Ask::of(&beam, served, &app)? };
    let said = tasks::translations(app.clone(), served, ask, &texts, call.arrived).await?;
    let mut said: Vec<Vec<String>> = said.into_iter().map(|(c, _)| c.into_iter().map(|c| c.text).collect()).collect();
    let best: Vec<String> =
        said.iter_mut().map(|texts| if texts.is_empty() { String::new() } else { texts.remove(0) }).collect();
    let mut value = json!({"translatedText": if one { json!(best.first()) } else { json!(best) }});
    if more > 0 {
        value["alternatives"] = if one { json!(said.first()) } else { Value::from(said) };
    }
    Ok(reply(&value, &ignored))
}

#[cfg(test)]
mod tests {
    use super::languages_of;

    #[test]
    fn names_tell_their_languages() {
        assert_eq!(languages_of("opus-mt-en-de"), Some(("en", "de")));
        assert_eq!(languages_of("en-it"), Some(("en", "it")));
        assert_eq!(languages_of("translate"), None);
    }
}
