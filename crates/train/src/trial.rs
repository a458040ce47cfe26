//! A checkpoint on trial: loaded with its tokenizer and labels, and asked what its head can answer.

use crate::corpus::reader;
use crate::plan::Asked;
use crate::recipe::{Data, Goal, Recipe};
use crate::score::{Judge, Scores};
use burn::tensor::Device;
use qkv_base::{Error, Result};
use qkv_data::objective::Labels;
use qkv_data::{Corpus, Example, Objective, builtin};
use qkv_model::Pretrained;
use qkv_model::families::Task;
use qkv_model::spec::Input;
use qkv_text::Tokenizer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A network that can be judged.
pub struct Evaluation {
    /// where it is from
    pub path: PathBuf,
    /// the network
    pub pretrained: Pretrained,
    /// text to ids; none for pictures
    pub tokenizer: Option<Tokenizer>,
    /// classes or tags
    pub labels: Labels,
    /// what it can answer
    pub goal: Goal,
    objective: Objective,
}

impl Evaluation {
    /// Loads a model directory, or the model of a run. `length` bounds the rows; 0: as the run had them, or as the network
    /// allows, up to 512.
    pub fn load(path: &Path, length: usize, prefix: &str) -> Result<Self> {
        let learnt = Self::of_run(path)?;
        let path = crate::run_dir::model_of(path);
        let pretrained = Pretrained::load(&path, &Device::flex().autodiff())?;
        let spec = pretrained.spec();
        let goal = match (Task::of(&spec.head), &spec.input) {
            (Task::Classify, Input::Patches { .. }) => Goal::Image,
            (Task::Classify, _) => Goal::Classify,
            (Task::Tag, _) => Goal::Tag,
            (Task::Answer, _) => Goal::Answer,
            (Task::Masked, _) => Goal::Masked,
            (Task::Language, _) if spec.encoder().is_some() => Goal::Translate,
            (Task::Language, _) => Goal::NextToken,
            (Task::Base | Task::Detect, _) => {
                let hint = "fine-tune it first: qkv finetune";
                return Err(Error::new(path.display().to_string(), "the network has no head to be judged by", hint));
            }
        };
        // A run knows what it learnt; a head alone cannot tell hidden spans from translation.
        let (goal, length) = match learnt {
            Some(data) => (data.objective, if length == 0 { data.length } else { length }),
            None => (goal, length),
        };
        let tokenizer = if goal == Goal::Image { None } else { Some(Tokenizer::load(&path)?) };
        let labels = Labels::new(pretrained.config.labels()?.unwrap_or_default());
        let channels = if let Input::Patches { channels, .. } = spec.input { channels } else { 0 };
        let most = spec.position.max().unwrap_or(512).min(512);
        let length = if length == 0 { most } else { length.min(most) };
        let asked = Asked { goal, length, prefix };
        let objective = asked.objective(pretrained.sheet, tokenizer.as_ref(), &labels, channels)?;
        Ok(Self { path, pretrained, tokenizer, labels, goal, objective })
    }

    /// What a run learnt from, where `path` is one.
    fn of_run(path: &Path) -> Result<Option<Data>> {
        let place = path.join("recipe.toml");
        if !place.exists() || !path.join("model/config.json").exists() {
            return Ok(None);
        }
        let name = place.display().to_string();
        let text = std::fs::read_to_string(&place).map_err(|e| Error::read(&name, &e, "is it readable?"))?;
        Ok(Some(Recipe::parse(&name, &text)?.data))
    }

    /// The examples of a file, or the unseen test of a corpus that qkv makes itself; `most` at most, 0: all.
    pub fn corpus(&self, data: &str, columns: &BTreeMap<String, String>, most: usize) -> Result<Arc<dyn Corpus>> {
        if data.starts_with("builtin:") {
            let corpus = builtin::Corpus::find(data)?;
            let n = if most == 0 { corpus.size(builtin::Split::Test) } else { most };
            let all = corpus.examples(1, builtin::Split::Test).take(n).map(|e| e.for_task(self.goal));
            return Ok(Arc::new(all.collect::<Vec<Example>>()));
        }
        let whole = reader(self.goal, columns)?.open(Path::new(data))?.corpus;
        let n = if most == 0 { whole.len() } else { most.min(whole.len()) };
        Ok(Arc::new(qkv_data::Subset::new(whole, (0..n as u32).collect())))
    }

    /// Every score of the task.
    pub fn scores(&self, corpus: &dyn Corpus) -> Result<Scores> {
        let judge = Judge {
            model: &self.pretrained.model,
            objective: &self.objective,
            goal: self.goal,
            tokenizer: self.tokenizer.as_ref(),
            labels: &self.labels,
        };
        judge.scores(corpus)
    }
}
