//! What a person sets: by flags, by the environment, or in a file, in this order of weight.
//!
//! ```toml
//! host = "127.0.0.1"
//! port = 8080
//! rows = 32
//!
//! [[models]]
//! name = "tale"
//! path = "runs/tale"
//! adapters = { shy = "adapters/shy" } # asked for as tale+shy
//! ```

use crate::access::Access;
use crate::adapters::AdapterDirectory;
use crate::limits::Limits;
use qkv_base::{Error, Kind, Result};
use qkv_model::Pretrained;
use qkv_model::adapt::LoraLayers;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every setting; none: as usual.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServeSettings {
    /// the address to listen on
    pub host: Option<String>,
    /// the port
    pub port: Option<u16>,
    /// a file of keys, one a line
    pub api_key_file: Option<PathBuf>,
    /// whether everybody who reaches the address may ask
    pub insecure: Option<bool>,
    /// other names of this machine
    pub allow_host: Option<Vec<String>>,
    /// pages that may ask
    pub allow_origin: Option<Vec<String>>,
    /// texts side by side
    pub rows: Option<usize>,
    /// tokens of a text
    pub context: Option<usize>,
    /// requests that may wait
    pub queue: Option<usize>,
    /// connections at once
    pub connections: Option<usize>,
    /// bytes of a request
    pub body_limit: Option<usize>,
    /// seconds of a request
    pub timeout: Option<u64>,
    /// seconds that running requests have in the end
    pub grace: Option<u64>,
    /// whether fields that change nothing are refused
    pub strict: Option<bool>,
    /// the directory of the runs that the page shows
    pub runs: Option<PathBuf>,
    /// the directory of the adapters that can be put in while it serves
    pub adapters: Option<PathBuf>,
    /// megabytes of prompts that are kept for those who begin alike
    pub prefix_cache: Option<u64>,
    /// the models
    pub models: Vec<ModelPlace>,
}

/// A model and what it is called.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPlace {
    /// its name; left out, the last part of its path
    pub name: Option<String>,
    /// a run, a directory or a file
    pub path: PathBuf,
    /// adapters by name: directories in PEFT's format
    #[serde(default)]
    pub adapters: BTreeMap<String, PathBuf>,
}

impl ModelPlace {
    /// A model without adapters.
    pub fn new(name: Option<String>, path: impl Into<PathBuf>) -> Self {
        Self { name, path: path.into(), adapters: BTreeMap::new() }
    }

    /// `PATH` or `NAME=PATH`, as a person types it.
    pub fn parse(word: &str) -> Self {
        match word.split_once('=') {
            Some((name, path)) if !Path::new(word).exists() => Self::new(Some(name.into()), path),
            _ => Self::new(None, word),
        }
    }

    /// Its adapters, read for its network.
    pub fn load_adapters(&self, network: &Pretrained) -> Result<Vec<(String, LoraLayers)>> {
        let load = |path: &PathBuf| qkv_train::adapter::load_low_rank(network, path)?.lora_layers();
        self.adapters.iter().map(|(name, path)| Ok((name.clone(), load(path)?))).collect()
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| crate::name_of(&self.path))
    }
}

impl ServeSettings {
    /// Those of a file; paths in it are meant from where it stands.
    pub fn load(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Error::read(&place, &e, "check the path"))?;
        let wrong = |e: toml::de::Error| Error::new(&place, e.to_string(), "`qkv serve --help` lists every setting");
        let mut settings: Self = toml::from_str(&text).map_err(wrong)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        for model in &mut settings.models {
            model.path = dir.join(&model.path);
            model.adapters.values_mut().for_each(|path| *path = dir.join(&*path));
        }
        settings.api_key_file = settings.api_key_file.map(|file| dir.join(file));
        settings.runs = settings.runs.map(|runs| dir.join(runs));
        settings.adapters = settings.adapters.map(|adapters| dir.join(adapters));
        Ok(settings)
    }

    /// These, and where they say nothing others.
    pub fn or(self, other: Self) -> Self {
        Self {
            host: self.host.or(other.host),
            port: self.port.or(other.port),
            api_key_file: self.api_key_file.or(other.api_key_file),
            insecure: self.insecure.or(other.insecure),
            allow_host: self.allow_host.or(other.allow_host),
            allow_origin: self.allow_origin.or(other.allow_origin),
            rows: self.rows.or(other.rows),
            context: self.context.or(other.context),
            queue: self.queue.or(other.queue),
            connections: self.connections.or(other.connections),
            body_limit: self.body_limit.or(other.body_limit),
            timeout: self.timeout.or(other.timeout),
            grace: self.grace.or(other.grace),
            strict: self.strict.or(other.strict),
            runs: self.runs.or(other.runs),
            adapters: self.adapters.or(other.adapters),
            prefix_cache: self.prefix_cache.or(other.prefix_cache),
            models: if self.models.is_empty() { other.models } else { self.models },
        }
    }

    /// Adds an adapter, as `NAME=DIR` for the first model, or as `MODEL+NAME=DIR`.
    pub fn adapter(&mut self, word: &str) -> Result<()> {
        let wrong = |what: &str| {
            Error::new(format!("--adapter {word}"), what, "write NAME=DIR, or MODEL+NAME=DIR").of_kind(Kind::Usage)
        };
        let (name, path) =
            word.split_once('=').filter(|(n, p)| !n.is_empty() && !p.is_empty()).ok_or_else(|| wrong("has no name"))?;
        let (model, name) = name.rsplit_once('+').map_or((None, name), |(model, name)| (Some(model), name));
        let found = self.models.iter_mut().find(|m| model.is_none_or(|model| m.name() == model));
        let found = found.ok_or_else(|| wrong("names a model that is not served"))?;
        match found.adapters.insert(name.into(), path.into()) {
            Some(_) => Err(wrong("names an adapter twice")),
            None => Ok(()),
        }
    }

    /// The bounds that they ask for; `cache_bytes` are those of each model's keys and values.
    pub fn limits(&self, cache_bytes: u64) -> Result<Limits> {
        for (name, value) in [("rows", self.rows), ("context", self.context), ("connections", self.connections)] {
            if value == Some(0) {
                return Err(Error::new(name, "must not be 0", "use 1 or more").of_kind(Kind::Usage));
            }
        }
        let usual = Limits::default();
        let seconds = |given: Option<u64>, usual: Duration| given.map_or(usual, Duration::from_secs);
        Ok(Limits {
            rows: self.rows.unwrap_or(usual.rows),
            row_tokens: self.context.unwrap_or(usual.row_tokens),
            queue: self.queue.unwrap_or(usual.queue),
            connections: self.connections.unwrap_or(usual.connections),
            body_bytes: self.body_limit.unwrap_or(usual.body_bytes),
            request_timeout: seconds(self.timeout, usual.request_timeout),
            grace: seconds(self.grace, usual.grace),
            prefix_bytes: self.prefix_cache.map_or(usual.prefix_bytes, |megabytes| megabytes.saturating_mul(1 << 20)),
            cache_bytes,
            ..usual
        })
    }

    /// The directory of the adapters that can be put in while it serves.
    pub fn adapter_directory(&self) -> Result<Option<AdapterDirectory>> {
        self.adapters.as_deref().map(AdapterDirectory::new).transpose()
    }

    /// Where to listen.
    pub fn address(&self) -> Result<SocketAddr> {
        let host = self.host.as_deref().unwrap_or("127.0.0.1");
        let wrong = |what: String| {
            Error::new(format!("host {host}"), what, "give an address of this machine").of_kind(Kind::Usage)
        };
        let mut found = (host.trim_matches(['[', ']']), self.port.unwrap_or(8080))
            .to_socket_addrs()
            .map_err(|e| wrong(e.to_string()))?;
        found.next().ok_or_else(|| wrong("there is no such address".into()))
    }

    /// Who may ask. An address that others reach wants a key.
    pub fn access(&self) -> Result<Access> {
        let address = self.address()?;
        let mut access = Access::open(address.ip().is_loopback());
        access.hosts = self.allow_host.clone().unwrap_or_default();
        access.origins = self.allow_origin.clone().unwrap_or_default();
        if let Some(path) = &self.api_key_file {
            let place = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|e| Error::read(&place, &e, "check the path"))?;
            access = access.with_keys(text.lines());
            if !access.has_keys() {
                return Err(Error::new(place, "there is no key in it", "write one key a line"));
            }
        }
        if !access.local && !access.has_keys() && self.insecure != Some(true) {
            let what = "other machines can reach this address, and no key is asked for";
            let hint = "add --api-key-file FILE, or --insecure, or listen on 127.0.0.1";
            return Err(Error::new(address.to_string(), what, hint).of_kind(Kind::Usage));
        }
        Ok(access)
    }

    /// Refuses two models of one name, and one without.
    pub fn check_names(&self) -> Result<()> {
        let names: Vec<String> = self.models.iter().map(ModelPlace::name).collect();
        match names.iter().enumerate().find(|(i, name)| name.is_empty() || names[..*i].contains(name)) {
            Some((i, name)) => {
                let place = self.models[i].path.display().to_string();
                let what = format!("the name `{name}` is empty or taken");
                Err(Error::new(place, what, "call it otherwise: NAME=PATH").of_kind(Kind::Usage))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_weighs_more_than_the_file_and_the_file_more_than_the_usual() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("serve.toml");
        std::fs::write(&file, "port = 9\nrows = 3\napi-key-file = \"k\"\n[[models]]\npath = \"m\"\n").unwrap();
        let both = ServeSettings { port: Some(1), ..ServeSettings::default() }.or(ServeSettings::load(&file).unwrap());
        assert_eq!((both.port, both.rows, both.limits(1).unwrap().queue), (Some(1), Some(3), 256));
        assert_eq!(both.models[0].path, dir.path().join("m"));
        assert!(both.access().unwrap_err().place.ends_with('k'));
        let mut with = both.clone();
        with.adapter("m+shy=a").unwrap();
        with.adapter("bold=b").unwrap();
        assert_eq!(with.models[0].adapters.len(), 2);
        assert!(with.adapter("shy=c").is_err() && with.adapter("x+y=z").is_err() && with.adapter("shy").is_err());
        std::fs::write(&file, "prot = 9\n").unwrap();
        assert!(ServeSettings::load(&file).unwrap_err().what.contains("prot"));
    }

    #[test]
    fn a_model_that_is_not_there_still_has_a_name() {
        assert_eq!(crate::name_of(std::path::Path::new("model.gguf")), "model");
        assert_eq!(crate::name_of(std::path::Path::new("tales/model.gguf")), "tales");
    }

    #[test]
    fn other_machines_want_a_key() {
        let host = |host: &str| ServeSettings { host: Some(host.into()), ..ServeSettings::default() };
        assert!(host("127.0.0.1").access().unwrap().local && host("::1").access().unwrap().local);
        assert!(host("0.0.0.0").access().unwrap_err().hint.contains("--insecure"));
        assert!(ServeSettings { insecure: Some(true), ..host("0.0.0.0") }.access().is_ok());
        let two = |name: &str| ModelPlace::new(Some(name.into()), "x");
        assert!(ServeSettings { models: vec![two("a"), two("a")], ..ServeSettings::default() }.check_names().is_err());
    }
}
