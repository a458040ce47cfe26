//! The files of sentence-transformers: how the vectors of the tokens of a text become one, said in four small files beside a
//! checkpoint. What they say is honoured by `qkv embed`, and they are written beside an encoder that has none, so that
//! `SentenceTransformer(DIR)` gives the vectors that `qkv embed DIR` gives.
//!
//! | file | says |
//! |---|---|
//! | `modules.json` | what happens one after the other: Transformer, Pooling, Normalize |
//! | `1_Pooling/config.json` | how tokens become one vector |
//! | `sentence_bert_config.json` | how many tokens are read, and whether letters become small first |
//! | `config_sentence_transformers.json` | what stands before every text |

use crate::embed::Pooling;
use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_model::spec::{Head, Spec};
use qkv_weights::write_atomically;
use serde_json::{Value, json};
use std::path::Path;

/// What the files of a directory say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentenceFiles {
    /// how tokens become one vector
    pub pooling: Option<Pooling>,
    /// whether vectors have length 1
    pub normalize: bool,
    /// tokens of a text, at most
    pub longest: Option<usize>,
    /// whether letters become small before anything else
    pub lower: bool,
    /// what stands before every text
    pub prompt: String,
}

/// The mode in `1_Pooling/config.json`, the word for it in newer files, and ours.
const MODES: [(&str, &str, Pooling); 6] = [
    ("cls_token", "cls", Pooling::Cls),
    ("mean_tokens", "mean", Pooling::Mean),
    ("max_tokens", "max", Pooling::Max),
    ("mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
    ("weightedmean_tokens", "weightedmean", Pooling::WeightedMean),
    ("lasttoken", "lasttoken", Pooling::Last),
];

impl SentenceFiles {
    /// Reads them; a directory without them says nothing.
    pub fn read(dir: &Path) -> Result<Self> {
        Self::read_with(dir, None)
    }

    /// The same where somebody has said how to pool: what the file says of it is not asked.
    pub fn read_with(dir: &Path, pool: Option<Pooling>) -> Result<Self> {
        let place = dir.join("modules.json");
        let modules = json(&place)?;
        let (mut normalize, mut pooled) = (false, dir.join("1_Pooling"));
        for module in modules.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let kind = module["type"].as_str().unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" | "Dropout" => {}
                "Pooling" => pooled = dir.join(module["path"].as_str().unwrap_or("1_Pooling")),
                "Normalize" => normalize = true,
                other => {
                    let what = format!("a {other} module is not supported");
                    let hint = "supported: Transformer, Pooling, Normalize";
                    return Err(Error::new(place.display().to_string(), what, hint));
                }
            }
        }
        let place = pooled.join("config.json");
        let pooling = match pool {
            Some(mode) => Some(mode),
            None => json(&place)?.map(|config| pooling(&config, &place)).transpose()?,
        };
        let read = json(&dir.join("sentence_bert_config.json"))?.unwrap_or_default();
        let longest = read["max_seq_length"].as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let asked = json(&dir.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let named = asked["default_prompt_name"].as_str();
        let prompt = named.and_then(|name| asked["prompts"][name].as_str()).unwrap_or_default().to_string();
        Ok(Self { pooling, normalize, longest, lower: read["do_lower_case"] == true, prompt })
    }

    /// A text as the network is to read it.
    pub fn prepared(&self, text: &str) -> String {
        let text = format!("{}{text}", self.prompt);
        if self.lower { text.to_lowercase() } else { text }
    }

    /// Every file by name, for vectors of `width` numbers.
    pub fn files(&self, width: usize) -> Vec<(&'static str, Value)> {
        let module = |i: usize, path: &str, kind: &str| json!({"idx": i, "name": i.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}")});
        let mut modules = vec![module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")];
        if self.normalize {
            modules.push(module(2, "2_Normalize", "Normalize"));
        }
        let on = self.pooling.unwrap_or(Pooling::Mean);
        let mut pooled = json!({"word_embedding_dimension": width});
        for (key, _, mode) in MODES {
            pooled[format!("pooling_mode_{key}")] = (mode == on).into();
        }
        let prompts = if self.prompt.is_empty() { json!({}) } else { json!({"default": self.prompt}) };
        let default = if self.prompt.is_empty() { Value::Null } else { "default".into() };
        vec![
            ("modules.json", Value::Array(modules)),
            ("1_Pooling/config.json", pooled),
            ("sentence_bert_config.json", json!({"max_seq_length": self.longest, "do_lower_case": self.lower})),
            (
                "config_sentence_transformers.json",
                json!({"prompts": prompts, "default_prompt_name": default, "similarity_fn_name": "cosine"}),
            ),
        ]
    }
}

/// Writes the files beside an encoder without a head, where there are none: what `qkv embed` does with it, said so that others
/// do the same. Returns which were written.
pub fn write_beside(dir: &Path, spec: &Spec) -> Result<Vec<&'static str>> {
    let embeds = spec.encoder().is_some() && spec.decoder().is_none() && spec.vocabulary().is_some();
    if !embeds || !matches!(spec.head, Head::None | Head::Pool) || dir.join("modules.json").exists() {
        return Ok(vec![]);
    }
    let said = SentenceFiles { longest: spec.position.max(), ..SentenceFiles::read(dir)? };
    let mut written = vec![];
    for (name, value) in said.files(spec.width) {
        let place = dir.join(name);
        if place.exists() {
            continue;
        }
        let fail = |e: std::io::Error| Error::write(place.display().to_string(), &e, "is the place writable?");
        place.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(fail)?;
        write_atomically(&place, format!("{value:#}\n").as_bytes())?;
        written.push(name);
    }
    Ok(written)
}

fn json(path: &Path) -> Result<Option<Value>> {
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_file(path, MOST_TEXT, "may it be read?")?;
    let fail = |e| Error::new(path.display().to_string(), format!("is not JSON: {e}"), "is the file whole?");
    serde_json::from_slice(&bytes).map(Some).map_err(fail)
}

/// The one mode that is switched on.
fn pooling(config: &Value, path: &Path) -> Result<Pooling> {
    let on: Vec<Pooling> = MODES
        .iter()
        .filter(|(key, word, _)| config[format!("pooling_mode_{key}")] == true || config["pooling_mode"] == *word)
        .map(|(_, _, mode)| *mode)
        .collect();
    match on[..] {
        [one] => Ok(one),
        _ => Err(Error::new(
            path.display().to_string(),
            format!("{} modes of pooling are switched on", on.len()),
            "supported: one of cls, mean, max, mean_sqrt_len, weightedmean, lasttoken; or say --pooling",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_say_a_mode_are_read() {
        let say = |v: Value| pooling(&v, Path::new("c"));
        assert_eq!(
            say(json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})).ok(),
            Some(Pooling::Cls)
        );
        assert_eq!(say(json!({"pooling_mode": "lasttoken"})).ok(), Some(Pooling::Last));
        assert!(say(json!({"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true})).is_err());
        assert!(say(json!({})).is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (_, _, mode) in MODES {
            let dir = tempfile::tempdir().expect("a directory");
            let said = SentenceFiles {
                pooling: Some(mode),
                normalize: mode == Pooling::Mean,
                longest: Some(77),
                lower: mode == Pooling::Cls,
                prompt: if mode == Pooling::Max { "query: ".into() } else { String::new() },
            };
            std::fs::create_dir(dir.path().join("1_Pooling")).expect("a directory");
            for (name, value) in said.files(8) {
                std::fs::write(dir.path().join(name), value.to_string()).expect("written");
            }
            assert_eq!(SentenceFiles::read(dir.path()).expect("read"), said);
        }
        assert_eq!(SentenceFiles::read(Path::new("nowhere")).expect("nothing said"), SentenceFiles::default());
    }

    #[test]
    fn an_encoder_without_a_head_gets_them_and_no_other_network() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = qkv_model::presets::find("tiny-encoder").expect("a preset").spec();
        let bare = Spec { head: Head::None, ..spec.clone() };
        let names =
            ["modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"];
        let classes = Spec { head: Head::Span, ..spec };
        assert_eq!(write_beside(dir.path(), &classes).expect("nothing to write"), [""; 0]);
        assert_eq!(write_beside(dir.path(), &bare).expect("written"), names);
        assert_eq!(write_beside(dir.path(), &bare).expect("there already"), [""; 0]);
        let said = SentenceFiles::read(dir.path()).expect("read");
        assert_eq!((said.pooling, said.normalize, said.longest), (Some(Pooling::Mean), false, bare.position.max()));
    }

    #[test]
    fn a_module_that_would_be_left_out_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let modules = json!([{"type": "sentence_transformers.models.Transformer", "path": ""},
                             {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]);
        std::fs::write(dir.path().join("modules.json"), modules.to_string()).expect("written");
        let error = SentenceFiles::read(dir.path()).expect_err("refused");
        assert_eq!(error.what, "a Dense module is not supported");
    }

    #[test]
    fn prompts_and_small_letters_come_before_the_text() {
        let said = SentenceFiles { lower: true, prompt: "Query: ".into(), ..SentenceFiles::default() };
        assert_eq!(said.prepared("Rome"), "query: rome");
    }
}
