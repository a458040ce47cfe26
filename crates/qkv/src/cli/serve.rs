//! `qkv serve`: models over HTTP.

use super::fail::Fail;
use super::input;
use super::terminal::{say, talk};
use qkv::inspect::numbers::bytes;
use qkv_runs::memory::available;
use qkv_serve::{App, Metrics, ModelPlace, ServeSettings, Served, Server, Socket, asked_to_end};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv serve                          the newest run, on 127.0.0.1:8080\n  qkv serve runs/tale tagger=models/bert-tag --port 9000\n  qkv serve model.gguf --host 0.0.0.0 --api-key-file keys.txt\n  qkv serve --config serve.toml\n\nA model is called by the last part of its path, or as NAME=PATH says."
)]
pub(crate) struct Args {
    /// Models or runs, as PATH or NAME=PATH; left out, those of --config, or the newest run
    #[arg(value_name = "MODEL", env = "QKV_SERVE_MODEL")]
    models: Vec<String>,
    /// A LoRA adapter in PEFT's format, asked for as MODEL+NAME; of the first model where none is named; may be repeated
    #[arg(long, value_name = "[MODEL+]NAME=DIR", env = "QKV_SERVE_ADAPTER", value_delimiter = ',')]
    adapter: Vec<String>,
    /// A directory whose adapters can be put in and taken out while it serves (POST /v1/load_lora_adapter), by their names
    #[arg(long, value_name = "DIR", env = "QKV_SERVE_ADAPTERS")]
    adapters: Option<PathBuf>,
    /// A TOML file with the flags below as keys, and [[models]] with name and path
    #[arg(long, value_name = "FILE", env = "QKV_SERVE_CONFIG")]
    config: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1]; other machines want --api-key-file or --insecure
    #[arg(long, value_name = "HOST", env = "QKV_SERVE_HOST")]
    host: Option<String>,
    /// The port [default: 8080]; 0: any that is free
    #[arg(long, value_name = "N", env = "QKV_SERVE_PORT")]
    port: Option<u16>,
    /// A file of keys, one a line; who asks must send one of them
    #[arg(long, value_name = "FILE", env = "QKV_SERVE_API_KEY_FILE")]
    api_key_file: Option<PathBuf>,
    /// Let everybody who reaches the address ask, without a key
    #[arg(long, env = "QKV_SERVE_INSECURE")]
    insecure: bool,
    /// Another name that this machine is called by; may be repeated
    #[arg(long, value_name = "NAME", env = "QKV_SERVE_ALLOW_HOST", value_delimiter = ',')]
    allow_host: Option<Vec<String>>,
    /// A page that may ask, as https://name:port, or * for all; may be repeated
    #[arg(long, value_name = "ORIGIN", env = "QKV_SERVE_ALLOW_ORIGIN", value_delimiter = ',')]
    allow_origin: Option<Vec<String>>,
    /// Texts that a model computes side by side, at most [default: 32]
    #[arg(long, value_name = "N", env = "QKV_SERVE_ROWS")]
    rows: Option<usize>,
    /// Tokens of a text, prompt and answer, where the model has no smaller context [default: 32768]
    #[arg(long, value_name = "N", env = "QKV_SERVE_CONTEXT")]
    context: Option<usize>,
    /// Megabytes of prompts of ended requests that a model keeps for those who begin alike; 0: none [default: 256]
    #[arg(long, value_name = "MB", env = "QKV_SERVE_PREFIX_CACHE")]
    prefix_cache: Option<u64>,
    /// Requests of a model that may wait; the next is told to come later [default: 256]
    #[arg(long, value_name = "N", env = "QKV_SERVE_QUEUE")]
    queue: Option<usize>,
    /// Connections at once [default: 16384]
    #[arg(long, value_name = "N", env = "QKV_SERVE_CONNECTIONS")]
    connections: Option<usize>,
    /// Bytes of a request [default: 2000000]
    #[arg(long, value_name = "BYTES", env = "QKV_SERVE_BODY_LIMIT")]
    body_limit: Option<usize>,
    /// Seconds that a request may take [default: 300]
    #[arg(long, value_name = "S", env = "QKV_SERVE_TIMEOUT")]
    timeout: Option<u64>,
    /// Seconds that running requests have once the server is asked to end [default: 30]
    #[arg(long, value_name = "S", env = "QKV_SERVE_GRACE")]
    grace: Option<u64>,
    /// Refuse fields that change no answer instead of listing them in x-qkv-ignored
    #[arg(long, env = "QKV_SERVE_STRICT")]
    strict: bool,
    /// How many bits the matrices take: stored (as the file has them), f32, bf16, f16, int8 or int4
    #[arg(long, value_name = "PRECISION", env = "QKV_SERVE_WEIGHTS", default_value_t, hide_default_value = true)]
    weights: qkv_model::Precision,
    /// The directory of the runs that the page shows [default: runs]
    #[arg(long, value_name = "DIR", env = "QKV_SERVE_RUNS")]
    runs: Option<PathBuf>,
    /// Print the description of the API and end
    #[arg(long, env = "QKV_SERVE_PRINT_OPENAPI")]
    print_openapi: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.print_openapi {
        return say(format!("{:#}", qkv_serve::openapi()));
    }
    let settings = args.settings()?;
    let (address, access) = (settings.address()?, settings.access()?);
    settings.check_names()?;
    let socket = Socket::bind(address)?;
    // A quarter of what is free is for keys and values; the weights and the work take their part, too.
    let limits = settings.limits(available().unwrap_or(8 << 30) / 4 / settings.models.len().max(1) as u64)?;
    let (metrics, mut served) = (Arc::new(Metrics::default()), vec![]);
    for place in &settings.models {
        input::model_or_newest(Some(&place.path))?;
        let model = Arc::new(input::open(&place.path, input::LoadArgs::strict(args.weights))?);
        let adapters = place.load_adapters(&model.network)?;
        served.push(Served::with_adapters(place.name(), model, adapters, &limits, metrics.clone())?);
    }
    let app = App::new(served, limits, metrics, access, settings.strict == Some(true));
    let app = app.with_adapters(settings.adapter_directory()?);
    let server = Server::new(socket, app.with_runs(settings.runs.unwrap_or_else(|| "runs".into())));
    let at = server.address()?;
    for model in &server.app.models {
        let (family, task) = (model.model.network.sheet.name, model.task().map_or("embeddings", |task| task.name()));
        let (memory, rows) = (bytes(model.weight_bytes), model.rows);
        talk(format_args!("model: {} ({family}, {task}, {memory} of weights, up to {rows} rows)", model.name));
    }
    talk(format_args!("listening on http://{at}, with a page for people; Ctrl-C ends it"));
    talk(format_args!("ask it: {}", qkv_serve::example(&server.app, at)));
    server.run(asked_to_end())?;
    talk("ended");
    Ok(())
}

impl Args {
    /// What the flags, the environment and the file come to.
    fn settings(&self) -> Result<ServeSettings, Fail> {
        let given = ServeSettings {
            host: self.host.clone(),
            port: self.port,
            api_key_file: self.api_key_file.clone(),
            insecure: self.insecure.then_some(true),
            allow_host: self.allow_host.clone(),
            allow_origin: self.allow_origin.clone(),
            rows: self.rows,
            context: self.context,
            queue: self.queue,
            connections: self.connections,
            body_limit: self.body_limit,
            timeout: self.timeout,
            grace: self.grace,
            strict: self.strict.then_some(true),
            runs: self.runs.clone(),
            adapters: self.adapters.clone(),
            prefix_cache: self.prefix_cache,
            models: self.models.iter().map(|word| ModelPlace::parse(word)).collect(),
        };
        let file = self.config.as_deref().map(ServeSettings::load).transpose()?;
        let mut settings = given.or(file.unwrap_or_default());
        if settings.models.is_empty() {
            settings.models = vec![ModelPlace::new(None, input::model_or_newest(None)?)];
        }
        self.adapter.iter().try_for_each(|word| settings.adapter(word))?;
        Ok(settings)
    }
}
