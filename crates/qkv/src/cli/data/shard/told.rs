//! What is told while shards are made, and at the end.

use crate::cli::fail::Fail;
use crate::cli::terminal::{say, talk};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv::inspect::numbers::{bytes, grouped};
use qkv_base::{Error, Kind};
use qkv_data::shards::{Built, Making, ShardSpec};
use qkv_runs::memory;
use serde_json::json;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

pub(super) fn shown(bar: &ProgressBar, making: &Making, first: Option<(Instant, Making)>) {
    bar.set_length(making.of);
    bar.set_position(making.bytes);
    let rate = first.map_or(0.0, |(since, first)| {
        making.tokens.saturating_sub(first.tokens) as f64 / since.elapsed().as_secs_f64().max(1e-3)
    });
    bar.set_message(match making.learning {
        true => "drawing lines for a tokenizer".to_string(),
        false => format!("{} tokens, {}/s, shard {}", grouped(making.tokens), grouped(rate as u64), making.shards + 1),
    });
}

pub(super) fn stopped(spec: &ShardSpec, making: &Making) -> Error {
    let what = format!("stopped; {} whole shards are kept", making.shards);
    Error::new(spec.out.display().to_string(), what, "give the same command again to go on").of_kind(Kind::Interrupted)
}

pub(super) fn tell(place: &Path, json: bool, built: &Built, took: Duration) -> Result<(), Fail> {
    let (index, out, seconds) = (&built.index, place.display(), took.as_secs_f64());
    if json {
        return say(json!({
            "out": place, "documents": index.documents, "tokens": index.tokens, "text_bytes": index.text_bytes,
            "shards": index.shards.len(), "vocabulary": index.tokenizer.vocabulary, "empty": index.empty,
            "skipped": index.skipped, "resumed": built.resumed, "before": built.before, "seconds": seconds,
            "memory": memory::peak(),
        }));
    }
    if let Some(learnt) = built.learnt {
        let (kept, lines, n) = (grouped(learnt.kept), grouped(learnt.lines), grouped(index.tokenizer.vocabulary));
        talk(format_args!("tokenizer: {n} pieces, learnt from {kept} of {lines} lines"));
    }
    if built.resumed > 0 {
        talk(format_args!("went on behind {} whole shards", built.resumed));
    }
    let left = [(index.empty, "empty texts left out"), (index.skipped, "rows skipped that could not be read")];
    left.iter().filter(|(n, _)| *n > 0).for_each(|(n, what)| talk(format_args!("note: {} {what}", grouped(*n))));
    if built.before {
        talk("these shards were made before: nothing was done");
    } else {
        let new: u64 = index.shards.iter().skip(built.resumed).map(|shard| shard.tokens).sum();
        let tokens = new as f64 / seconds.max(1e-3);
        let most = memory::peak().map_or(String::new(), |n| format!(", {} of memory at most", bytes(n)));
        talk(format_args!("{seconds:.1} s, {} tokens/s{most}", grouped(tokens as u64)));
    }
    let (documents, tokens, shards) = (grouped(index.documents), grouped(index.tokens), index.shards.len());
    let shards = if shards == 1 { "1 shard".into() } else { format!("{shards} shards") };
    say(format!("{out}: {documents} documents, {tokens} tokens in {shards}"))
}
