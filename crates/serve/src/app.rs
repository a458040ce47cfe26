//! What every request sees: the models by name, the limits, the counters, and whether the server is about to end.

use crate::access::Access;
use crate::adapters::{Adapter, AdapterDirectory};
use crate::error::{ApiError, ApiResult};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::served::Served;
use hyper::StatusCode;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

/// The server without its socket.
pub struct App {
    /// in the order in which they were named; the first is meant where a request names none
    pub models: Vec<Served>,
    /// how much of everything is taken
    pub limits: Limits,
    /// what was done
    pub metrics: Arc<Metrics>,
    /// who may ask
    pub access: Access,
    /// whether fields that change nothing are refused
    pub strict: bool,
    /// whether new requests are refused because the server ends
    pub draining: AtomicBool,
    /// becomes true when the time for running requests is over
    pub ending: watch::Sender<bool>,
    /// when the server was started
    pub started: Instant,
    /// the directory of the runs that are shown, if any are
    pub runs: Option<PathBuf>,
    /// the directory of adapters that can be put in while it serves, if any can
    pub adapters: Option<AdapterDirectory>,
    /// who puts one in: one at a time
    pub loading: Arc<Semaphore>,
    /// who looks inside a model: one at a time
    pub looking: Arc<Semaphore>,
    salt: u128,
    numbers: AtomicU64,
}

impl App {
    /// An app of these models.
    pub fn new(models: Vec<Served>, limits: Limits, metrics: Arc<Metrics>, access: Access, strict: bool) -> Self {
        let salt = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        Self {
            models,
            limits,
            metrics,
            access,
            strict,
            draining: AtomicBool::new(false),
            ending: watch::Sender::new(false),
            started: Instant::now(),
            runs: None,
            adapters: None,
            loading: Arc::new(Semaphore::new(1)),
            looking: Arc::new(Semaphore::new(1)),
            salt,
            numbers: AtomicU64::new(0),
        }
    }

    /// The same, which shows the runs of a directory.
    pub fn with_runs(self, dir: impl Into<PathBuf>) -> Self {
        Self { runs: Some(dir.into()), ..self }
    }

    /// The same, into which the adapters of a directory can be put while it serves.
    pub fn with_adapters(self, adapters: Option<AdapterDirectory>) -> Self {
        Self { adapters, ..self }
    }

    /// Every name that a request may call a model by.
    pub fn names(&self) -> Vec<String> {
        let adapted = |m: &Served| m.all_adapters().iter().map(|a| m.called(Some(a))).collect::<Vec<_>>();
        self.models.iter().flat_map(|m| std::iter::once(m.name.clone()).chain(adapted(m))).collect()
    }

    /// The model of this name; where none is named the first that can do it.
    pub fn model(&self, name: Option<&str>, can: impl Fn(&Served) -> bool, does: &str) -> ApiResult<&Served> {
        let names = || self.names().join(", ");
        let Some(name) = name else {
            let none = || ApiError::bad(format!("no model here {does}; there are: {}", names()));
            return self.models.iter().find(|m| can(m)).ok_or_else(none);
        };
        // Ollama's clients add `:latest` to a name without a tag.
        let plain = name.strip_suffix(":latest").unwrap_or(name);
        let Some(found) = self.models.iter().find(|m| m.name == name || m.name == plain) else {
            let shown: String = name.chars().take(100).collect();
            let what = format!("the model `{}` does not exist; there are: {}", shown.escape_debug(), names());
            return Err(ApiError::new(StatusCode::NOT_FOUND, what).of("model").code("model_not_found"));
        };
        match can(found) {
            true => Ok(found),
            false => Err(ApiError::bad(format!("the model `{}` is not one that {does}", found.name)).of("model")),
        }
    }

    /// The model that writes and is meant by a name, and its adapter where the name is `MODEL+ADAPTER`; an adapter's name alone
    /// will do as well, as other servers have it, unless a model is called so.
    pub fn writer(&self, name: Option<&str>, does: &str) -> ApiResult<(&Served, Option<Arc<Adapter>>)> {
        let adapted = name.and_then(|name| {
            let name = name.strip_suffix(":latest").unwrap_or(name);
            let of = |served: &'_ Served, adapter: &str| served.adapters.as_ref()?.get(adapter);
            if let Some((base, adapter)) = name.rsplit_once('+')
                && let Some(served) = self.models.iter().find(|m| m.name == base)
            {
                return Some((served, of(served, adapter)?));
            }
            let alone = self.models.iter().all(|m| m.name != name);
            self.models.iter().filter(|_| alone).find_map(|served| Some((served, of(served, name)?)))
        });
        match adapted {
            Some((served, adapter)) => Ok((served, Some(adapter))),
            None => Ok((self.model(name, |m| m.writes(), does)?, None)),
        }
    }

    /// A number for what is random where no seed is given: another for each request.
    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// A name for an answer, such as `cmpl-0123…`.
    pub fn id(&self, kind: &str) -> String {
        let mut bytes = self.salt.to_le_bytes().to_vec();
        bytes.extend(self.number().to_le_bytes());
        format!("{kind}-{}", &blake3::hash(&bytes).to_hex()[..24])
    }

    /// Whether new requests are refused because the server ends.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// When a request must be done.
    pub fn deadline(&self, arrived: Instant) -> tokio::time::Instant {
        let soon = Duration::from_secs(1);
        tokio::time::Instant::from_std(arrived.checked_add(self.limits.request_timeout).unwrap_or(arrived + soon))
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
