//! Configurations that do not say what they are: `architectures` tells the family, tensors tell the head. What cannot be told
//! for sure is not guessed; the hint names the key to add.

use super::{ALL, Config, HeadKind, Sheet};
use crate::Result;

/// Names that only the tensors of one family have.
const MARKS: &[(&str, &str)] = &[
    ("distilbert", "attention.q_lin.weight"),
    ("electra", "electra.encoder.layer.0.attention.self.query.weight"),
    ("roberta", "roberta.encoder.layer.0.attention.self.query.weight"),
    ("bert", "encoder.layer.0.attention.self.query.weight"),
    ("gpt2", "h.0.attn.c_attn.weight"),
    ("qwen3", "layers.0.self_attn.q_norm.weight"),
    ("llama", "model.layers.0.self_attn.q_proj.weight"),
    ("t5", "encoder.block.0.layer.0.SelfAttention.q.weight"),
    ("vit", "embeddings.patch_embeddings.projection.weight"),
    ("bart", "decoder.layers.0.encoder_attn.q_proj.weight"),
];

/// The configuration with `model_type` and `architectures`, as far as the names of the tensors beside it tell them.
pub fn recognised<'a>(mut config: Config, names: impl Iterator<Item = &'a str> + Clone) -> Result<Config> {
    let has = |end: &str| names.clone().any(|name| name.ends_with(end));
    if config.word("model_type")?.is_none() {
        let named = config.architecture().map(str::to_string);
        let of = |name: &String| ALL.iter().find(|s| s.architectures.iter().any(|(known, _)| known == name));
        match named.as_ref().and_then(of) {
            Some(sheet) => config.set("model_type", sheet.name),
            None => {
                let near = MARKS.iter().find(|(_, mark)| has(mark)).map(|(family, _)| *family);
                let hint = match near {
                    Some(family) => {
                        format!("its tensors look like those of a {family}: add \"model_type\": \"{family}\"")
                    }
                    None => {
                        let known: Vec<&str> = ALL.iter().flat_map(|s| s.model_types.iter().copied()).collect();
                        format!("add it: one of {}", known.join(", "))
                    }
                };
                return Err(config.error("model_type", "is missing", hint));
            }
        }
    }
    if config.architecture().is_none() {
        let sheet = super::of(&config)?;
        if let Some(name) = head(sheet, &has) {
            config.set("architectures", vec![name]);
        }
    }
    Ok(config)
}

/// The architecture of a reader whose head stands among the tensors; families that write say it otherwise.
fn head(sheet: &Sheet, has: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    let reads = ["bert", "roberta", "distilbert", "electra", "vit"];
    if !reads.contains(&sheet.name) {
        return None;
    }
    let masked = [
        "cls.predictions.bias",
        "lm_head.dense.weight",
        "vocab_transform.weight",
        "generator_predictions.dense.weight",
    ];
    let kind = if has("qa_outputs.weight") {
        HeadKind::Answer
    } else if masked.iter().any(|end| has(end)) {
        HeadKind::Masked
    } else if has("discriminator_predictions.dense.weight") {
        HeadKind::Detect
    } else if has("classifier.dense.weight") || has("pre_classifier.weight") {
        HeadKind::Classify
    } else if has("classifier.weight") {
        // A BERT that tags has no pooler; the classifiers of its relatives are deeper than one layer.
        match sheet.name {
            "vit" => HeadKind::Classify,
            "bert" if has("pooler.dense.weight") => HeadKind::Classify,
            _ => HeadKind::Tag,
        }
    } else {
        HeadKind::Base
    };
    sheet.architectures.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(config: &str, names: &[&str]) -> Result<(String, Option<String>)> {
        let config = recognised(Config::parse("config.json", config.as_bytes())?, names.iter().copied())?;
        Ok((config.word("model_type")?.unwrap_or_default().into(), config.architecture().map(str::to_string)))
    }

    #[test]
    fn an_architecture_tells_the_family_and_tensors_tell_the_head() {
        let own = |kind: &str, name: &str| Ok((kind.to_string(), Some(name.to_string())));
        assert_eq!(
            told(r#"{"architectures": ["BertForTokenClassification"]}"#, &[]),
            own("bert", "BertForTokenClassification")
        );
        let cases: [(&str, &[&str], &str); 6] = [
            ("bert", &["bert.pooler.dense.weight", "classifier.weight"], "BertForSequenceClassification"),
            ("bert", &["bert.embeddings.LayerNorm.weight", "classifier.weight"], "BertForTokenClassification"),
            ("bert", &["qa_outputs.weight"], "BertForQuestionAnswering"),
            ("bert", &["encoder.layer.0.attention.self.query.weight"], "BertModel"),
            ("roberta", &["classifier.dense.weight", "classifier.out_proj.weight"], "RobertaForSequenceClassification"),
            ("distilbert", &["vocab_transform.weight"], "DistilBertForMaskedLM"),
        ];
        for (kind, names, want) in cases {
            assert_eq!(told(&format!(r#"{{"model_type": "{kind}"}}"#), names), own(kind, want));
        }
        assert_eq!(told(r#"{"model_type": "gpt2"}"#, &["h.0.attn.c_attn.weight"]), Ok(("gpt2".into(), None)));
    }

    #[test]
    fn a_family_that_nothing_says_is_asked_for_with_what_it_looks_like() {
        let error = told("{}", &["bert.encoder.layer.0.attention.self.query.weight"]).expect_err("not said");
        assert_eq!(error.to_string(), "config.json: model_type: is missing");
        assert!(error.hint.ends_with("add \"model_type\": \"bert\""), "{}", error.hint);
        assert!(told("{}", &["w"]).expect_err("not said").hint.contains("one of bert,"));
    }
}
