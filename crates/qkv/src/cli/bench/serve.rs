//! `qkv bench serve`: clients that ask at once, and how long each waits for its first token and for every next one.

use super::reports;
use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::say;
use qkv_serve::load::{LoadTest, LoadTestReport, Percentiles, run as measure};
use qkv_serve::{Access, App, Limits, Metrics, Served, Server};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv bench serve --model runs/tale\n  qkv bench serve --model DIR --clients 1,4,16 --tokens 64\n  qkv bench serve --url http://127.0.0.1:8080 --name tale"
)]
pub(crate) struct Args {
    /// A model to serve for the measurement; left out, the newest run
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    model: Option<PathBuf>,
    /// A server that runs already
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The name of the model there
    #[arg(long, value_name = "NAME", requires = "url")]
    name: Option<String>,
    /// A file with the key that the server wants
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
    /// Clients at once; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 4, 16])]
    clients: Vec<usize>,
    /// Requests of each client
    #[arg(long, value_name = "N", default_value_t = 4)]
    rounds: usize,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 16)]
    prompt: usize,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 32)]
    tokens: usize,
    /// One more client asks beside them for a token after prompts of N tokens, one after the other
    #[arg(long, value_name = "N")]
    beside: Option<usize>,
    /// Ids of the prompts go up to this; it matters with --url alone
    #[arg(long, value_name = "N", default_value_t = 256, requires = "url")]
    vocabulary: usize,
    /// One line of JSON for each number of clients
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    super::not_zero(&[("rounds", args.rounds), ("prompt", args.prompt), ("tokens", args.tokens)])?;
    let (at, vocabulary) = match &args.url {
        Some(url) => (address(url)?, args.vocabulary),
        None => serve(args)?,
    };
    let key = match &args.api_key_file {
        Some(path) => input::lines(path)?.into_iter().find(|line| !line.trim().is_empty()),
        None => None,
    };
    if !args.json {
        say(format!(
            "{:>8} {:>10} {:>10}   {:<24} between tokens, ms",
            "clients", "requests/s", "tokens/s", "first token, ms"
        ))?;
    }
    for &clients in &args.clients {
        let (name, key) = (args.name.clone(), key.clone());
        let requests = clients * args.rounds;
        let load = LoadTest {
            at,
            model: name,
            key,
            clients,
            requests,
            prompt: args.prompt,
            tokens: args.tokens,
            vocabulary,
            beside: args.beside,
        };
        // The first answer of a server is slower than those that follow: nobody has touched its memory yet.
        measure(&LoadTest { requests: 1, clients: 1, beside: None, ..load.clone() })?;
        let report = measure(&load)?;
        if let Some(failure) = &report.failure {
            let what = format!("{} of {} requests failed: {failure}", report.failed, requests);
            return Err(Fail::failed("bench serve", what, "the server may want other numbers, or a key"));
        }
        reports(args.json, &report, || line(&report))?;
    }
    Ok(())
}

fn line(report: &LoadTestReport) -> String {
    let times = |p: &Percentiles| format!("{:.1} / {:.1} / {:.1}", p.p50, p.p95, p.p99);
    format!(
        "{:>8} {:>10.2} {:>10.1}   {:<24} {} (p50 / p95 / p99)",
        report.clients,
        report.requests_per_s,
        report.tokens_per_s,
        times(&report.first_token_ms),
        times(&report.between_tokens_ms)
    )
}

/// A server of our own, which ends with the program; where it listens, and how many ids the model knows.
fn serve(args: &Args) -> Result<(SocketAddr, usize), Fail> {
    let path = input::model_or_newest(args.model.as_deref())?;
    // The client with the long prompts has a row of its own: it is measured what it does to the others' steps.
    let rows = args.clients.iter().copied().max().unwrap_or(1).max(1) + usize::from(args.beside.is_some());
    let limits = Limits { rows, ..Limits::default() };
    let metrics = Arc::new(Metrics::default());
    let served =
        Served::new("model", Arc::new(input::open(&path, input::LoadArgs::default())?), &limits, metrics.clone());
    let vocabulary = served.vocabulary();
    if !served.writes() {
        return Err(Fail::usage(format!("{}: this model writes nothing", path.display()), "choose a language model"));
    }
    let app = App::new(vec![served], limits, metrics, Access::open(true), false);
    let server = Server::bind(([127, 0, 0, 1], 0).into(), app)?;
    let at = server.address()?;
    std::thread::spawn(move || server.run(std::future::pending()));
    Ok((at, vocabulary))
}

fn address(url: &str) -> Result<SocketAddr, Fail> {
    let rest = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let wrong = || Fail::usage(format!("--url {url}: there is no such server"), "write it as http://127.0.0.1:8080");
    rest.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or_else(wrong)
}
