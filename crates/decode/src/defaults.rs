//! What a model directory says about generating: `generation_config.json`, or the same keys of `config.json`.
//!
//! Everything that we do not do is told by name, so that a different answer than the author's has a reason one can read.

use qkv_base::{Error, MOST_TEXT, Result, read_file};
use serde_json::{Map, Value};
use std::path::Path;

/// The defaults of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defaults {
    /// ids that end a sequence
    pub ends: Vec<u32>,
    /// the first token of a text
    pub bos: Option<u32>,
    /// the padding
    pub pad: Option<u32>,
    /// the first token of a target
    pub decoder_start: Option<u32>,
    /// the most tokens to say
    pub max_new_tokens: Option<usize>,
    /// the most tokens, prompt included
    pub max_length: Option<usize>,
    /// the width of the beam
    pub beams: Option<usize>,
    /// what length is worth to it
    pub length_penalty: Option<f64>,
    /// `true`, `false` or `never`
    pub early_stopping: Option<String>,
    /// how many sequences come out
    pub n_best: Option<usize>,
    /// whether to draw at random
    pub sample: bool,
    /// rules (forced, forbidden, repeated tokens) as steps of a chain
    pub rules: Vec<String>,
    /// what shapes the drawing, as steps of a chain
    pub shape: Vec<String>,
    /// keys whose wish is not done
    pub ignored: Vec<String>,
    /// keys that speak against each other, and which of them counts
    pub contradictions: Vec<String>,
}

/// Keys that change nothing about what is said.
const SILENT: &[&str] = &[
    "_from_model_config",
    "transformers_version",
    "use_cache",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate",
    "cache_implementation",
    "cache_config",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "max_length",
    "max_new_tokens",
    "num_beams",
    "length_penalty",
    "early_stopping",
    "num_return_sequences",
    "do_sample",
    "return_legacy_cache",
    "disable_compile",
    "compile_config",
    "remove_invalid_values",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "trust_remote_code",
    "assistant_confidence_threshold",
    "prefill_chunk_size",
];

/// A key, the step it is, and the value that means nothing.
const RULES: &[(&str, &str, f64)] = &[
    ("repetition_penalty", "repetition_penalty", 1.0),
    ("encoder_repetition_penalty", "encoder_repetition_penalty", 1.0),
    ("no_repeat_ngram_size", "no_repeat_ngram", 0.0),
    ("encoder_no_repeat_ngram_size", "encoder_no_repeat_ngram", 0.0),
    ("min_length", "min_length", 0.0),
    ("min_new_tokens", "min_new_tokens", 0.0),
];
const SHAPE: &[(&str, &str, f64)] = &[
    ("temperature", "temperature", 1.0),
    ("top_k", "top_k", 50.0),
    ("top_p", "top_p", 1.0),
    ("min_p", "min_p", 0.0),
    ("typical_p", "typical", 1.0),
    ("epsilon_cutoff", "epsilon_cutoff", 0.0),
    ("eta_cutoff", "eta_cutoff", 0.0),
];

impl Defaults {
    /// Those of the model in `dir`; `config` is its `config.json`, which older models say them in.
    pub fn load(dir: &Path, config: &Map<String, Value>) -> Result<Self> {
        let path = dir.join("generation_config.json");
        let place = path.display().to_string();
        if !path.exists() {
            return Self::of(&place, &Map::new(), config);
        }
        let wrong = |what: String| Error::new(&place, what, "mend or remove the file; the model runs without it");
        let bytes = read_file(&path, MOST_TEXT, "may it be read?")?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|e| wrong(format!("is not JSON: {e}")))?;
        let Value::Object(read) = value else { return Err(wrong("is not a JSON object".into())) };
        Self::of(&place, &read, config)
    }

    /// Those of `generation`, and where it is silent those of `config`.
    pub fn of(place: &str, generation: &Map<String, Value>, config: &Map<String, Value>) -> Result<Self> {
        let own = |key: &str| generation.get(key).filter(|v| !v.is_null());
        let found = |key: &str| own(key).or_else(|| config.get(key).filter(|v| !v.is_null()));
        let wrong = |key: &str, v: &Value, want: &str| {
            Error::new(format!("{place}, `{key}`"), format!("is {v}, not {want}"), "mend the file, or remove the key")
        };
        let id = |key: &str| {
            found(key).map(|v| ids(v).filter(|i| i.len() == 1).ok_or_else(|| wrong(key, v, "a token id"))).transpose()
        };
        let count = |key: &str| {
            own(key).map(|v| v.as_u64().map(|n| n as usize).ok_or_else(|| wrong(key, v, "a whole number"))).transpose()
        };
        let number = |key: &str| own(key).map(|v| v.as_f64().ok_or_else(|| wrong(key, v, "a number"))).transpose();
        let ends =
            found("eos_token_id").map(|v| ids(v).ok_or_else(|| wrong("eos_token_id", v, "token ids"))).transpose()?;
        let mut defaults = Self {
            ends: ends.unwrap_or_default(),
            bos: id("bos_token_id")?.map(|i| i[0]),
            pad: id("pad_token_id")?.map(|i| i[0]),
            decoder_start: id("decoder_start_token_id")?.map(|i| i[0]),
            max_new_tokens: count("max_new_tokens")?,
            max_length: count("max_length")?,
            beams: count("num_beams")?,
            length_penalty: number("length_penalty")?,
            n_best: count("num_return_sequences")?,
            sample: own("do_sample").and_then(Value::as_bool).unwrap_or(false),
            ..Self::default()
        };
        defaults.early_stopping = match own("early_stopping") {
            None => None,
            Some(Value::Bool(yes)) => Some(yes.to_string()),
            Some(Value::String(s)) if s == "never" => Some("never".into()),
            Some(v) => return Err(wrong("early_stopping", v, "true, false or \"never\"")),
        };
        for (table, out) in [(RULES, &mut defaults.rules), (SHAPE, &mut defaults.shape)] {
            for (key, step, off) in table {
                if let Some(value) = number(key)?.filter(|v| v != off) {
                    out.push(format!("{step} {value}"));
                }
            }
        }
        for (key, step) in [
            ("forced_bos_token_id", "forced_bos"),
            ("forced_eos_token_id", "forced_eos"),
            ("suppress_tokens", "suppress"),
            ("begin_suppress_tokens", "suppress_begin"),
        ] {
            if let Some(value) = own(key) {
                let ids = ids(value).ok_or_else(|| wrong(key, value, "token ids"))?;
                if !ids.is_empty() {
                    defaults.rules.push(format!("{step} {}", joined(&ids, "|")));
                }
            }
        }
        if let Some(value) = own("bad_words_ids") {
            let words = value.as_array().and_then(|all| all.iter().map(ids).collect::<Option<Vec<_>>>());
            let words = words.ok_or_else(|| wrong("bad_words_ids", value, "lists of token ids"))?;
            let words: Vec<String> = words.iter().filter(|w| !w.is_empty()).map(|w| joined(w, "+")).collect();
            if !words.is_empty() {
                defaults.rules.push(format!("bad_words {}", words.join("|")));
            }
        }
        defaults.ignored =
            generation.iter().filter(|(k, v)| is_ignored(k, v)).map(|(k, v)| format!("{k}: {v}")).collect();
        defaults.contradictions = contradictions(generation, config);
        Ok(defaults)
    }
}

/// Keys that cannot both be followed, each with the one that counts. Nothing here is refused: the model can be asked, and
/// the one that counts is the one that transformers follows.
fn contradictions(generation: &Map<String, Value>, config: &Map<String, Value>) -> Vec<String> {
    let number = |key: &str| generation.get(key).and_then(Value::as_f64);
    let set = |key: &str| generation.get(key).and_then(ids).unwrap_or_default();
    let mut found = vec![];
    for (least, most) in [("min_length", "max_length"), ("min_new_tokens", "max_new_tokens")] {
        if let (Some(a), Some(b)) = (number(least), number(most))
            && a > b
        {
            found.push(format!("{least} {a} is above {most} {b}; {most} counts"));
        }
    }
    if let (Some(new), Some(all)) = (number("max_new_tokens"), number("max_length")) {
        found.push(format!("both max_new_tokens {new} and max_length {all} are there; max_new_tokens counts"));
    }
    let (beams, told) = (number("num_beams").unwrap_or(1.0), number("num_return_sequences").unwrap_or(1.0));
    if beams > 1.0 && told > beams {
        found.push(format!("num_return_sequences {told} is above num_beams {beams}; one sequence is told"));
    }
    // Drawing is asked for by its numbers and refused by name.
    if generation.get("do_sample").and_then(Value::as_bool) == Some(false) {
        for (key, _, off) in SHAPE {
            if let Some(value) = number(key).filter(|v| v != off) {
                found.push(format!("{key} {value} is for drawing, and do_sample is false; do_sample counts"));
            }
        }
    }
    let never = [set("suppress_tokens"), single_bad_words(generation)].concat();
    for key in ["forced_bos_token_id", "forced_eos_token_id"] {
        if let Some(id) = set(key).iter().find(|id| never.contains(id)) {
            found.push(format!("{key} {id} is also forbidden; being forced counts"));
        }
    }
    let ends = set("eos_token_id");
    if !ends.is_empty() && ends.iter().all(|id| never.contains(id)) {
        let ends = joined(&ends, ", ");
        found.push(format!("eos_token_id {ends} is also forbidden; texts end at their greatest length only"));
    }
    // A longer list in the newer file is usual; a different token is not.
    for key in ["bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"] {
        let (here, there) = (set(key), config.get(key).and_then(ids).unwrap_or_default());
        if !here.is_empty() && !there.is_empty() && !there.iter().any(|id| here.contains(id)) {
            let (here, there) = (joined(&here, ", "), joined(&there, ", "));
            found.push(format!("{key} is {here}, config.json says {there}; generation_config.json counts"));
        }
    }
    found
}

/// The words of `bad_words_ids` that are one token.
fn single_bad_words(generation: &Map<String, Value>) -> Vec<u32> {
    let all = generation.get("bad_words_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(ids).filter(|word| word.len() == 1).flatten().collect()
}

fn joined(ids: &[u32], by: &str) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(by)
}

/// One id, or a list of them.
fn ids(value: &Value) -> Option<Vec<u32>> {
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value {
        Value::Array(all) => all.iter().map(one).collect(),
        other => one(other).map(|id| vec![id]),
    }
}

/// Whether a key wishes for something that is not done.
fn is_ignored(key: &str, value: &Value) -> bool {
    let done = SILENT.contains(&key)
        || RULES.iter().chain(SHAPE).any(|(k, _, _)| *k == key)
        || ["forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids"]
            .contains(&key);
    let off = match (key, value) {
        ("num_beam_groups", v) => v.as_u64() == Some(1),
        ("guidance_scale", v) => v.as_f64() == Some(1.0),
        (_, Value::Null | Value::Bool(false)) => true,
        (_, Value::Number(n)) => n.as_f64() == Some(0.0),
        (_, Value::Array(a)) => a.is_empty(),
        (_, Value::Object(o)) => o.is_empty(),
        _ => false,
    };
    !done && !off
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(generation: Value, config: Value) -> Result<Defaults> {
        Defaults::of("g", generation.as_object().unwrap(), config.as_object().unwrap())
    }

    #[test]
    fn keys_become_defaults_and_steps() {
        let d = of(
            json!({"eos_token_id": [2, 5], "num_beams": 4, "length_penalty": 0.6, "early_stopping": "never", "forced_eos_token_id": 2,
                "bad_words_ids": [[58100], [3, 4]], "temperature": 0.7, "top_k": 50, "do_sample": true, "max_length": 512,
                "no_repeat_ngram_size": 3, "penalty_alpha": 0.6, "num_beam_groups": 1, "watermarking_config": null}),
            json!({"decoder_start_token_id": 7, "eos_token_id": 9}),
        )
        .unwrap();
        assert_eq!((d.ends, d.decoder_start, d.beams, d.max_length), (vec![2, 5], Some(7), Some(4), Some(512)));
        assert_eq!(d.early_stopping.as_deref(), Some("never"));
        assert_eq!(d.rules, ["no_repeat_ngram 3", "forced_eos 2", "bad_words 58100|3+4"]);
        assert_eq!((d.shape, d.sample), (vec!["temperature 0.7".to_string()], true));
        assert_eq!(d.ignored, ["penalty_alpha: 0.6"]);
    }

    #[test]
    fn what_cannot_both_be_followed_is_told_with_what_counts() {
        let said = |generation: Value| of(generation, json!({"eos_token_id": 9})).unwrap().contradictions;
        assert_eq!(
            said(json!({"min_length": 9, "max_length": 4})),
            ["min_length 9 is above max_length 4; max_length counts"]
        );
        assert_eq!(said(json!({"min_new_tokens": 3, "max_new_tokens": 2})).len(), 1);
        assert!(said(json!({"max_new_tokens": 3, "max_length": 2}))[0].ends_with("max_new_tokens counts"));
        assert!(said(json!({"num_beams": 2, "num_return_sequences": 3}))[0].ends_with("one sequence is told"));
        let greedy = said(json!({"do_sample": false, "temperature": 0.7, "top_k": 50, "top_p": 0.9}));
        assert_eq!(greedy.len(), 2, "{greedy:?}");
        assert!(
            said(json!({"forced_bos_token_id": 5, "suppress_tokens": [4, 5]}))[0].contains("forced_bos_token_id 5")
        );
        assert!(said(json!({"eos_token_id": [9], "bad_words_ids": [[9], [1, 2]]}))[0].contains("also forbidden"));
        assert_eq!(
            said(json!({"eos_token_id": 2})),
            ["eos_token_id is 2, config.json says 9; generation_config.json counts"]
        );
        // What published models say.
        let plain = [
            json!({"eos_token_id": [9, 11]}),
            json!({"do_sample": true, "temperature": 0.6, "top_p": 0.9}),
            json!({"num_beams": 4, "max_length": 512, "bad_words_ids": [[7]], "forced_eos_token_id": 9}),
            json!({"temperature": 0.7}),
        ];
        plain.into_iter().for_each(|generation| assert_eq!(said(generation), Vec::<String>::new()));
    }

    #[test]
    fn config_stands_in_and_nonsense_is_refused() {
        assert_eq!(of(json!({}), json!({"eos_token_id": 9})).unwrap().ends, [9]);
        let error = of(json!({"eos_token_id": "x"}), json!({})).unwrap_err();
        assert_eq!(error.to_string(), "g, `eos_token_id`: is \"x\", not token ids");
        assert!(of(json!({"num_beams": -1}), json!({})).is_err());
        assert!(of(json!({"early_stopping": 3}), json!({})).is_err());
    }
}
