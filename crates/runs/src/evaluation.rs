//! A checkpoint on trial: opened as the verbs open it, with its tokenizer, labels and pictures, and judged by what its head
//! can answer.

use crate::corpus::{made, picture_of, reader};
use crate::recipe::{Data, Recipe};
use qkv_base::{Error, MOST_TEXT, Result, Task, read_text};
use qkv_data::objective::Labels;
use qkv_data::{Corpus, Objective, Reader, builtin};
use qkv_model::spec::Input;
use qkv_tasks::sheet::{self, ObjectiveParts};
use qkv_tasks::{Judge, Scores, TextModel, Writing};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A model that can be judged.
pub struct Evaluation {
    /// the model
    pub model: TextModel,
    /// classes or tags
    pub labels: Labels,
    /// what it can answer
    pub task: Task,
    objective: Objective,
}

impl Evaluation {
    /// A model with what it is asked. `run` is where it is from, whose recipe knows what it learnt; `length` bounds the
    /// rows; 0: as the run had them, or as the network allows, up to 512.
    pub fn new(model: TextModel, run: &Path, length: usize, prefix: &str) -> Result<Self> {
        let learnt = Self::of_run(run)?;
        let place = model.path.display().to_string();
        let none = || {
            Error::new(
                &place,
                "the network has no head to be judged by",
                "fine-tune it first: qkv finetune MODEL --task classify --data FILE",
            )
        };
        // A run knows what it learnt; a head alone cannot tell hidden spans from translation.
        let (task, length) = match learnt {
            Some(data) => (data.objective, if length == 0 { data.length } else { length }),
            None => (model.task().ok_or_else(none)?, length),
        };
        let spec = model.spec();
        let most = spec.position.max().unwrap_or(512).min(512);
        let labels = Labels::new(model.network.config.labels()?.unwrap_or_default());
        let scale = match spec.input {
            Input::Patches { channels, .. } => Some(model.normalisation(channels)?),
            Input::Tokens { .. } => None,
        };
        let objective = sheet::of(task).rows(&ObjectiveParts {
            family: model.network.sheet,
            // A task of text without one is refused with the reason why there is none.
            tokenizer: if task == Task::Image { None } else { Some(model.tokenizer()?) },
            labels: &labels,
            length: if length == 0 { most } else { length.min(most) },
            prefix,
            scale,
        })?;
        Ok(Self { model, labels, task, objective })
    }

    /// What a run learnt from, where `path` is one.
    fn of_run(path: &Path) -> Result<Option<Data>> {
        let path = &qkv_tasks::locate::run_of(path);
        let place = path.join("recipe.toml");
        if !place.exists() || !path.join("model/config.json").exists() {
            return Ok(None);
        }
        let name = place.display().to_string();
        let text = read_text(&place, MOST_TEXT, "is it readable?")?;
        Ok(Some(Recipe::parse(&name, &text)?.data))
    }

    /// The examples of a file, or the unseen test of a corpus that qkv makes itself; `most` at most, 0: all.
    pub fn corpus(&self, data: &str, columns: &BTreeMap<String, String>, most: usize) -> Result<Arc<dyn Corpus>> {
        let picture = picture_of(self.model.spec());
        if data.starts_with("builtin:") {
            let corpus = builtin::Corpus::find(data)?;
            let n = if most == 0 { corpus.size(builtin::Split::Test) } else { most };
            let all = corpus.examples(1, builtin::Split::Test).take(n);
            return Ok(Arc::new(made(all, self.task, picture)?));
        }
        let whole = Reader { picture, ..reader(self.task, columns)? }.open(Path::new(data))?.corpus;
        let n = if most == 0 { whole.len() } else { most.min(whole.len()) };
        Ok(Arc::new(qkv_data::Subset::new(whole, (0..n as u32).collect())))
    }

    /// Every score of the task; texts are written as the verb would write them, unless something else is said.
    pub fn scores(&self, corpus: &dyn Corpus, writing: &Writing) -> Result<Scores> {
        let Self { model, labels, task, objective } = self;
        Judge { model, task: *task, objective, labels, writing }.scores(corpus)
    }
}
