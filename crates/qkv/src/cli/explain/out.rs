//! Where a page goes: the terminal, one HTML file, a picture, a spreadsheet, JSON; and the list of topics.

use super::Args;
use crate::cli::fail::Fail;
use crate::cli::terminal::{say, say_json, say_painted, style};
use qkv_insight::explain::{TOPICS, Topic};
use qkv_insight::page::Page;
use qkv_insight::render::{csv, html, terminal};
use serde_json::json;

/// The topics, in the order of the lectures.
pub(super) fn list(json: bool) -> Result<(), Fail> {
    if json {
        let set = |t: &Topic| {
            t.settings().iter().map(|s| json!({"name": s.name, "about": s.about, "usual": s.usual})).collect::<Vec<_>>()
        };
        let topics: Vec<_> = TOPICS.iter().map(|t| json!({"topic": t.name, "about": t.about, "set": set(t)})).collect();
        return say_json(&topics);
    }
    let widest = TOPICS.iter().map(|t| t.name.len()).max().unwrap_or(0);
    for topic in TOPICS {
        say(format!("{:widest$}  {}", topic.name, topic.about))?;
    }
    say(
        "\nqkv explain TOPIC shows one; they stand in the order of the lectures. With your numbers (--set key=value):",
    )?;
    for topic in TOPICS.iter().filter(|t| !t.settings().is_empty()) {
        let keys: Vec<&str> = topic.settings().iter().map(|s| s.name).collect();
        say(format!("{:widest$}  {}", topic.name, keys.join(", ")))?;
    }
    Ok(())
}

pub(super) fn write(args: &Args, topic: &Topic, page: &Page) -> Result<(), Fail> {
    if args.json {
        return say_json(page);
    }
    if args.csv {
        return say(csv::page(page)?.trim_end());
    }
    if let Some(path) = &args.svg {
        qkv_weights::write_atomically(path, topic.picture()?.as_bytes())?;
        return say(format!("{}: {}", path.display(), page.title));
    }
    if let Some(path) = &args.html {
        // The picture is of the lecture's numbers: beside a person's own it would tell of something else.
        let picture = if args.set.is_empty() { Some(topic.picture()?) } else { None };
        qkv_weights::write_atomically(path, html::page(page, picture.as_deref()).as_bytes())?;
        return say(format!("{}: {}", path.display(), page.title));
    }
    say_painted(terminal::page(page, style()).trim_end())
}
