//! From what a person asks for to a chain and a search: flags on top of another tool's preset, on top of what the model
//! itself says.

use crate::TextModel;
use qkv_base::{Error, Result};
use qkv_decode::search::{Beam, Constraint, EarlyStopping, LengthPenalty};
use qkv_decode::{Chain, Defaults, Pick, Preset};

/// How rows of logits are bent and tokens are picked, as far as somebody said it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainOptions {
    /// the whole chain in its order; nothing else counts then but `greedy`
    pub chain: Option<String>,
    /// another tool's order and defaults: `hf`, `llama.cpp` or `kobold`
    pub preset: Option<String>,
    /// the most probable token each time
    pub greedy: bool,
    /// steps that only make sense when drawing, such as `temperature 0.8`
    pub shape: Vec<String>,
    /// steps that forbid, force or weigh down, such as `repetition_penalty 1.2`
    pub rules: Vec<String>,
    /// any step, in the preset's place for it
    pub steps: Vec<String>,
}

impl ChainOptions {
    /// The chain that all of this comes to, on top of the model's own rules.
    pub fn chain(&self, defaults: &Defaults) -> Result<Chain> {
        if let Some(text) = &self.chain {
            let mut chain: Chain = text.parse()?;
            if self.greedy {
                chain.pick = Pick::Greedy;
            }
            return Ok(chain);
        }
        let preset: Option<Preset> = self.preset.as_deref().map(str::parse).transpose()?;
        let drawn = !self.greedy && (defaults.sample || preset.is_some() || !self.shape.is_empty() || self.draws());
        let name = |step: &str| step.split_whitespace().next().unwrap_or_default().to_string();
        let mut flags: Vec<String> = [&self.rules, &self.shape, &self.steps].into_iter().flatten().cloned().collect();
        // What the person says stands in the place of what the model says.
        let said: Vec<String> = flags.iter().map(|f| name(f)).collect();
        let own = if preset.is_none() && drawn { defaults.shape.clone() } else { vec![] };
        flags.extend(own.into_iter().chain(defaults.rules.clone()).filter(|step| !said.contains(&name(step))));
        if !drawn {
            flags.push("greedy".into());
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut chain = preset.unwrap_or(Preset::Hf).with(&flags)?;
        if !drawn && preset.is_none() {
            // Greedy needs none of the preset's defaults; what was asked for stays, and is told if it does nothing.
            chain.steps.retain(|step| {
                said.contains(&name(&step.to_string()))
                    || defaults.rules.iter().any(|r| name(r) == name(&step.to_string()))
            });
        }
        Ok(chain)
    }

    /// Whether a step that was asked for makes sense only when drawing.
    fn draws(&self) -> bool {
        let greedy = self.steps.iter().any(|s| s.trim() == "greedy");
        let rule = |s: &String| {
            let rules =
                ["forced", "suppress", "bad_words", "no_repeat", "min_", "repetition", "encoder_", "logit_bias"];
            rules.iter().any(|r| s.trim().starts_with(r))
        };
        !greedy && self.steps.iter().any(|s| !rule(s))
    }
}

/// Beam search, as far as somebody said it.
#[derive(Clone, Debug, PartialEq)]
pub struct BeamOptions {
    /// the width; 1 is greedy
    pub width: Option<usize>,
    /// α: log-probabilities are divided by length^α
    pub length_penalty: Option<f64>,
    /// α as Wu et al. take it: divided by ((5 + length)/6)^α
    pub wu: bool,
    /// `true`, `false` or `never`
    pub early_stopping: Option<String>,
    /// how many are told
    pub n_best: Option<usize>,
    /// so many times the width are finished before stopping
    pub patience: Option<f64>,
    /// groups that avoid each other's tokens
    pub diverse: Option<usize>,
    /// what a token costs that an earlier group said
    pub diversity: f64,
    /// β of the coverage penalty
    pub coverage: Option<f64>,
    /// every answer begins with this
    pub prefix: Option<Prefix>,
}

/// How every answer begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// in words
    Text(String),
    /// in tokens
    Ids(Vec<u32>),
}

impl Prefix {
    fn ids(&self, model: &TextModel) -> Result<Vec<u32>> {
        match self {
            Self::Text(text) => Ok(model.tokenizer()?.encode_target(text, false)?.ids),
            Self::Ids(ids) => Ok(ids.clone()),
        }
    }
}

impl Default for BeamOptions {
    fn default() -> Self {
        Self {
            width: None,
            length_penalty: None,
            wu: false,
            early_stopping: None,
            n_best: None,
            patience: None,
            diverse: None,
            diversity: 0.5,
            coverage: None,
            prefix: None,
        }
    }
}

impl BeamOptions {
    /// The beam search that this asks for, or none. `otherwise` is the width where nothing says it.
    pub fn search(&self, model: &TextModel, otherwise: usize) -> Result<Option<Beam>> {
        let d = &model.defaults;
        let width = self.width.or(d.beams).unwrap_or(otherwise);
        let width = match self.width {
            None => width.max(self.n_best.unwrap_or(1)).max(self.diverse.unwrap_or(1)),
            Some(_) => width,
        };
        if self.width.is_none() && width <= 1 && self.prefix.is_none() {
            return match self.only_for_beams() {
                Some(flag) => Err(Error::new(flag, "is for beam search", "add --beam 4, or leave it out")),
                None => Ok(None),
            };
        }
        let alpha = self.length_penalty.or(d.length_penalty).unwrap_or(1.0);
        if self.coverage.is_some() && !model.is_pair() {
            return Err(Error::new("--coverage", "is for models that read a source", "leave it out"));
        }
        let search = Beam {
            n_best: self.n_best.or(d.n_best.filter(|n| *n <= width)).unwrap_or(1),
            length: if self.wu { LengthPenalty::Wu(alpha) } else { LengthPenalty::Power(alpha) },
            early: match self.early_stopping.as_deref().or(d.early_stopping.as_deref()) {
                Some("true") => EarlyStopping::Full,
                Some("never") => EarlyStopping::Certain,
                _ => EarlyStopping::Estimate,
            },
            patience: self.patience.unwrap_or(1.0),
            coverage: self.coverage,
            groups: self.diverse.unwrap_or(1),
            diversity: self.diversity,
            constraint: self.prefix.as_ref().map(|p| p.ids(model)).transpose()?.map(Constraint::Starts),
            ..Beam::new(width)
        };
        search.check()?;
        Ok(Some(search))
    }

    fn only_for_beams(&self) -> Option<&'static str> {
        let given = [
            (self.length_penalty.is_some(), "--length-penalty"),
            (self.wu, "--wu"),
            (self.early_stopping.is_some(), "--early-stopping"),
            (self.patience.is_some(), "--patience"),
            (self.coverage.is_some(), "--coverage"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// `5,6,7` as ids.
pub fn ids(text: &str) -> Result<Vec<u32>> {
    let one = |part: &str| {
        let hint = "write whole numbers with commas: --ids 5,6,7";
        part.trim().parse().map_err(|_| Error::new("--ids", format!("`{}` is not a token id", part.trim()), hint))
    };
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    text.split([',', ' ']).filter(|p| !p.trim().is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_lists_are_written() {
        assert_eq!(ids("5, 6,7").unwrap(), [5, 6, 7]);
        assert_eq!(ids("[5 6]").unwrap(), [5, 6]);
        assert!(ids("5,x").unwrap_err().to_string().contains("`x`"));
    }

    #[test]
    fn what_a_person_says_stands_before_what_the_model_says() {
        let defaults = Defaults {
            sample: true,
            shape: vec!["temperature 0.5".into(), "top_k 9".into()],
            rules: vec!["no_repeat_ngram 3".into()],
            ..Defaults::default()
        };
        let options = ChainOptions { shape: vec!["temperature 0.9".into()], ..ChainOptions::default() };
        let chain = options.chain(&defaults).unwrap().to_string();
        assert!(chain.contains("temperature 0.9") && chain.contains("top_k 9") && chain.contains("no_repeat_ngram 3"));
        let greedy = ChainOptions { greedy: true, ..ChainOptions::default() }.chain(&defaults).unwrap();
        assert_eq!((greedy.pick, greedy.steps.len()), (Pick::Greedy, 1));
    }
}
