//! A model that is served: the network with what stands beside it, its thread, and what is asked of it again and again.

use crate::adapters::{Adapter, Adapters};
use crate::engine_thread::EngineThread;
use crate::error::{ApiError, ApiResult};
use crate::limits::Limits;
use crate::metrics::{EngineLoad, Metrics};
use qkv_base::Task;
use qkv_decode::{Adapted, Decoder, EngineConfig};
use qkv_model::adapt::LoraLayers;
use qkv_model::count::Count;
use qkv_tasks::TextModel;
use qkv_tasks::generate::detokenizer;
use qkv_text::Chat;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many texts go through a network at once.
pub const BATCH: usize = 32;

/// A model by its name.
pub struct Served {
    /// what requests call it
    pub name: String,
    /// the network and everything beside it
    pub model: Arc<TextModel>,
    /// the thread that computes
    pub engine: EngineThread,
    /// its adapters; none, where it cannot have any
    pub adapters: Option<Adapters>,
    /// its chat template, or why there is none
    pub chat: qkv_base::Result<Chat>,
    /// when it was loaded, in seconds since 1970
    pub created: u64,
    /// bytes of its weights
    pub weight_bytes: u64,
    /// how many numbers its weights are
    pub parameters: u64,
    /// rows that it computes side by side
    pub rows: usize,
    /// tokens that a row may come to hold
    pub row_tokens: usize,
}

impl Served {
    /// Starts the thread of a model.
    pub fn new(name: impl Into<String>, model: Arc<TextModel>, limits: &Limits, metrics: Arc<Metrics>) -> Self {
        let spec = model.spec();
        let network = || model.network.model.answering();
        if spec.decoder().is_some() && spec.encoder().is_none() && spec.recurrence().is_none() {
            let network = Arc::new(Adapted::new(network()));
            let adapters = Some(Adapters::new(network.clone()));
            return Self { adapters, ..Self::with_decoder(name, model, Some(network), limits, metrics) };
        }
        let decoder: Option<Arc<dyn Decoder>> = match spec.decoder() {
            Some(_) => Some(Arc::new(network())),
            None => None,
        };
        Self::with_decoder(name, model, decoder, limits, metrics)
    }

    /// The same with adapters by name: low-rank changes of its layers. Each request may name one, and requests with different
    /// ones are computed side by side.
    pub fn with_adapters(
        name: impl Into<String>,
        model: Arc<TextModel>,
        adapters: Vec<(String, LoraLayers)>,
        limits: &Limits,
        metrics: Arc<Metrics>,
    ) -> qkv_base::Result<Self> {
        let served = Self::new(name, model, limits, metrics);
        for (name, layers) in adapters {
            let Some(all) = &served.adapters else {
                let what = "adapters of single requests are for Transformers that read no source";
                let hint = "merge the adapter: qkv merge MODEL ADAPTER OUT";
                return Err(qkv_base::Error::new("adapters", what, hint));
            };
            all.put(&name, layers, false)?;
        }
        Ok(served)
    }

    /// The same with another decoder in the place of the model's own.
    pub fn with_decoder(
        name: impl Into<String>,
        model: Arc<TextModel>,
        decoder: Option<Arc<dyn Decoder>>,
        limits: &Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (rows, row_tokens) = room(&model, limits);
        let config = EngineConfig {
            max_rows: rows,
            max_tokens: rows.saturating_mul(row_tokens),
            prefill_chunk: limits.prefill_chunk.max(1),
            ..EngineConfig::default()
        };
        let text = model.shared_tokenizer().map(detokenizer);
        let engine = EngineThread::spawn(decoder, text, config, limits.prefix_bytes, limits.queue, metrics);
        let chat = model.tokenizer().and_then(|t| Chat::of(t, None));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let parameters = Count::of(model.spec(), 1).map_or(0, |count| count.weight_bytes() / 4);
        let weight_bytes = qkv_model::precision::weight_bytes(&model.network.model);
        Self {
            name: name.into(),
            model,
            engine,
            adapters: None,
            chat,
            created: now,
            parameters,
            weight_bytes,
            rows,
            row_tokens,
        }
    }

    /// Its name, with that of an adapter.
    pub fn called(&self, adapter: Option<&Adapter>) -> String {
        match adapter {
            Some(adapter) => format!("{}+{}", self.name, adapter.name),
            None => self.name.clone(),
        }
    }

    /// What it is doing.
    pub fn load(&self) -> EngineLoad {
        let adapters = self.adapters.as_ref().map_or(0, |adapters| adapters.all().len() as u64);
        EngineLoad { adapters, ..self.engine.load() }
    }

    /// What can be asked for beside it, in the order in which it came.
    pub fn all_adapters(&self) -> Vec<Arc<Adapter>> {
        self.adapters.as_ref().map(Adapters::all).unwrap_or_default()
    }

    /// What it is asked.
    pub fn task(&self) -> Option<Task> {
        self.model.task()
    }

    /// Whether it continues or answers texts with texts.
    pub fn writes(&self) -> bool {
        self.model.spec().decoder().is_some()
    }

    /// Whether it has one vector for a text.
    pub fn embeds(&self) -> bool {
        self.model.spec().encoder().is_some() && self.model.spec().vocabulary().is_some()
    }

    /// The longest prompt and answer together (for a model that reads a source: of each).
    pub fn context(&self) -> usize {
        self.model.longest().min(self.row_tokens)
    }

    /// How many tokens it knows.
    pub fn vocabulary(&self) -> usize {
        self.model.spec().vocabulary().unwrap_or(0)
    }

    /// A message without the path of the model.
    pub fn clean(&self, text: &str) -> String {
        let paths = [Some(self.model.path.as_path()), Some(self.model.dir()), self.model.dir().parent()];
        let paths = paths.into_iter().flatten().map(|p| p.display().to_string()).filter(|p| p.len() > 1);
        paths.fold(text.to_string(), |text, path| text.replace(&path, &self.name))
    }

    /// What the library says, without the path of the model.
    pub fn error(&self, error: qkv_base::Error) -> ApiError {
        let (place, what, hint) = (self.clean(&error.place), self.clean(&error.what), self.clean(&error.hint));
        ApiError::library(qkv_base::Error { place, what, hint, kind: error.kind })
    }

    /// Asks the model something on its thread.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&TextModel) -> qkv_base::Result<T> + Send + 'static,
    ) -> ApiResult<T> {
        let model = self.model.clone();
        self.engine.call(move || question(&model)).await?.map_err(|e| self.error(e))
    }

    /// The same for each of many inputs, some at a time, so that others come in between.
    pub async fn ask_each<I: Clone + Send + 'static, T: Send + 'static>(
        &self,
        inputs: &[I],
        question: impl Fn(&TextModel, &[I]) -> qkv_base::Result<Vec<T>> + Clone + Send + 'static,
    ) -> ApiResult<Vec<T>> {
        let mut all = vec![];
        for batch in inputs.chunks(BATCH) {
            let (batch, question) = (batch.to_vec(), question.clone());
            all.extend(self.ask(move |model| question(model, &batch)).await?);
        }
        Ok(all)
    }

    /// The ids of a text, after a look at its length: a text that cannot fit is not cut into tokens first.
    pub fn encode(&self, param: &str, text: &str) -> ApiResult<Vec<u32>> {
        let most = self.context().saturating_mul(64).max(4096);
        if text.len() > most {
            let what = format!("is {} bytes long; a context of {} tokens cannot hold it", text.len(), self.context());
            return Err(ApiError::field(param, what).code("context_length_exceeded"));
        }
        self.model.encode(text).map_err(|e| self.error(e).of(param))
    }

    /// A token as it reads within a text.
    pub fn token_text(&self, id: u32) -> String {
        self.model.token_text(id)
    }
}

/// Rows and tokens of each that the bytes for keys and values suffice for: fewer rows first, then shorter ones.
fn room(model: &TextModel, limits: &Limits) -> (usize, usize) {
    let each = Count::of(model.spec(), 1).map_or(0, |count| count.cache_bytes).max(1);
    let all = usize::try_from(limits.cache_bytes / each).unwrap_or(usize::MAX).max(64);
    let tokens = model.longest().min(limits.row_tokens).max(1);
    let rows = limits.rows.min((all / tokens).max(4)).max(1);
    (rows, tokens.min((all / rows).max(16)))
}
