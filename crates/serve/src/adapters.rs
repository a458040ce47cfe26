//! The adapters of a model by their names: put in and taken out while it serves.
//!
//! Who asks holds the [`Adapter`] as long as it runs, so that rows in flight end with the adapter they began with; one that was
//! taken out goes when the last of them has ended. A name that a request gives never opens a file: only directories that stand
//! in the one directory which was named when the server was started can be read, by their plain names
//! ([`AdapterDirectory`]).

use crate::error::{ApiError, ApiResult};
use hyper::StatusCode;
use qkv_base::Result;
use qkv_decode::Adapted;
use qkv_model::adapt::LoraLayers;
use qkv_model::{Pretrained, Transformer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The adapters of one model.
pub struct Adapters {
    network: Arc<Adapted>,
    named: Mutex<Vec<Arc<Adapter>>>,
    bytes: Arc<AtomicU64>,
}

/// One adapter; it leaves the network when nobody has it any more.
pub struct Adapter {
    /// what requests call it, behind the name of the model
    pub name: String,
    /// its number in the network
    pub number: u32,
    /// when it was put in, in seconds since 1970
    pub created: u64,
    bytes: u64,
    all: Arc<AtomicU64>,
    network: Arc<Adapted>,
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "adapter {} ({})", self.number, self.name)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.network.take(self.number);
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

impl Adapters {
    /// None yet, around this network.
    pub fn new(network: Arc<Adapted>) -> Self {
        Self { network, named: Mutex::default(), bytes: Arc::default() }
    }

    fn named(&self) -> MutexGuard<'_, Vec<Arc<Adapter>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that can be asked for, in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Adapter>> {
        self.named().clone()
    }

    /// The adapter of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Adapter>> {
        self.named().iter().find(|adapter| adapter.name == name).cloned()
    }

    /// Bytes of all of them, those included that were taken out and still have rows.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Puts one in; one of the same name is taken out where `replace` says so, and refused otherwise.
    pub fn put(&self, name: &str, layers: LoraLayers, replace: bool) -> Result<bool> {
        let mut named = self.named();
        let taken = named.iter().position(|adapter| adapter.name == name);
        if taken.is_some() && !replace {
            return Ok(false);
        }
        let bytes = layers.bytes();
        let (number, created) = (self.network.put(layers)?, crate::app::now());
        self.bytes.fetch_add(bytes, Relaxed);
        let (all, network) = (self.bytes.clone(), self.network.clone());
        let adapter = Arc::new(Adapter { name: name.into(), number, created, bytes, all, network });
        match taken {
            Some(at) => named[at] = adapter,
            None => named.push(adapter),
        }
        Ok(true)
    }

    /// Takes one out: nobody can ask for it any more. Whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut named = self.named();
        let at = named.iter().position(|adapter| adapter.name == name);
        at.map(|at| named.remove(at)).is_some()
    }
}

/// The directory whose directories can be put in as adapters.
#[derive(Clone, Debug)]
pub struct AdapterDirectory(PathBuf);

/// The two files of an adapter in PEFT's format.
const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

impl AdapterDirectory {
    /// This one, which must be there.
    pub fn new(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let wrong = |e: std::io::Error| qkv_base::Error::read(&place, &e, "name a directory with --adapters");
        let path = path.canonicalize().map_err(wrong)?;
        match path.is_dir() {
            true => Ok(Self(path)),
            false => Err(qkv_base::Error::new(&place, "is no directory", "name the one that holds your adapters")),
        }
    }

    /// What can be put in.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| self.find(name, u64::MAX).is_ok());
        names.sort();
        names.truncate(100);
        names
    }

    /// The adapter of this name, if it stands in the directory itself and its files are no larger than `most` bytes.
    fn find(&self, name: &str, most: u64) -> ApiResult<PathBuf> {
        check_name("lora_path", name)?;
        let none = || {
            let what = format!("there is no adapter `{name}` in the directory of this server");
            ApiError::new(StatusCode::NOT_FOUND, what).of("lora_path").code("adapter_not_found")
        };
        // Wherever links lead, it must be into the directory.
        let dir = self.0.join(name).canonicalize().map_err(|_| none())?;
        for file in FILES {
            let file = dir.join(file).canonicalize().map_err(|_| none())?;
            let about = file.metadata().ok().filter(|about| about.is_file() && file.starts_with(&self.0));
            let bytes = about.ok_or_else(none)?.len();
            if bytes > most {
                let what = format!("has {bytes} bytes, more than the weights of the model it is for");
                return Err(ApiError::field("lora_path", what));
            }
        }
        Ok(dir)
    }

    /// Reads an adapter for a network; its files may be as large as `most`. Slow: not for a thread that others wait for.
    pub fn read(&self, name: &str, network: &Pretrained, most: u64) -> ApiResult<LoraLayers> {
        let dir = self.find(name, most)?;
        let read = || -> Result<LoraLayers> {
            let adapted: Transformer = qkv_train::adapter::load_low_rank(network, &dir)?;
            adapted.lora_layers()
        };
        let clean = |text: String| text.replace(&dir.display().to_string(), name);
        read().map_err(|error| {
            // Whatever is wrong is wrong with what was asked for.
            let what = format!("{}: {}", clean(error.place), clean(error.what));
            ApiError::field("lora_path", format!("cannot be put in: {what}")).code("invalid_adapter")
        })
    }
}

/// A plain name: nothing that a path or a name of a model is made of.
pub fn check_name(field: &str, name: &str) -> ApiResult<()> {
    let plain = !name.is_empty() && name.len() <= 128 && !name.starts_with('.');
    if plain && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) {
        return Ok(());
    }
    let what = "must be a plain name of letters, digits, `-`, `_` and `.`: that of a directory in the one that --adapters names";
    Err(ApiError::field(field, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_in_the_directory_is_found() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        for dir in [inside.join("good"), inside.join("half"), inside.join("linked"), outside.clone()] {
            std::fs::create_dir_all(&dir).unwrap();
            FILES.iter().for_each(|file| std::fs::write(dir.join(file), "{}").unwrap());
        }
        std::fs::remove_file(inside.join("half").join(FILES[1])).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, inside.join("away")).unwrap();
            std::os::unix::fs::symlink(inside.join("good"), inside.join("alias")).unwrap();
            std::fs::remove_file(inside.join("linked").join(FILES[1])).unwrap();
            std::os::unix::fs::symlink(outside.join(FILES[1]), inside.join("linked").join(FILES[1])).unwrap();
            let directory = AdapterDirectory::new(&inside).unwrap();
            assert_eq!(directory.names(), ["alias", "good"]);
            assert_eq!(directory.find("away", 9).unwrap_err().status, 404);
            assert_eq!(directory.find("linked", 9).unwrap_err().status, 404);
        }
        let directory = AdapterDirectory::new(&inside).unwrap();
        assert!(directory.find("good", 9).is_ok() && directory.find("good", 1).is_err());
        assert_eq!(directory.find("half", 9).unwrap_err().status, 404);
        for name in ["../outside", "..", ".", "", "good/", "/etc", "a\\b", "a\0b", "%2e%2e", &"x".repeat(200)] {
            assert_eq!(directory.find(name, 9).unwrap_err().status, 400, "{name}");
        }
        assert!(AdapterDirectory::new(&inside.join("good").join(FILES[0])).is_err());
        assert!(AdapterDirectory::new(&inside.join("nowhere")).is_err());
    }
}
