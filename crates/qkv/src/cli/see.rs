//! `qkv see`: what a model does with a text or a picture: maps, lens, losses, attributions.

mod out;
mod weights;

use super::fail::Fail;
use super::input;
use out::{ALL_VIEWS, kind_of, views, write};
use qkv_insight::see::through::{common_target, through};
use qkv_insight::see::view::Options;
use qkv_insight::see::{Ask, View, see};
use qkv_tasks::chain::ids;
use std::ops::Range;
use std::path::PathBuf;
use weights::{stages, tracked};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv see MODEL \"The cat sat on the mat.\"           the last layer's map, and numbers for each head
  qkv see MODEL \"The cat sat\" --view lens,loss      what each layer would say, how surprised it is
  qkv see MODEL TEXT --layer 3 --head 5 -o map.svg  one head for a paper
  qkv see MODEL TEXT -o model.html                  every head in one file that loads nothing
  qkv see MODEL TEXT --view gradients --at 4        which tokens the answer at place 4 hangs on
  qkv see runs/translate \"Good morning.\"            the alignment with what the model itself writes
  qkv see runs/translate \"Good morning.\" --through  how the map came about, checkpoint by checkpoint
  qkv see VIT cat.png -o patches.svg                where the class token looks
  qkv see MODEL --ids 5,6,7 --json                  a model without a tokenizer

Attention shows where a head looks, not why the model answers as it does.")]
pub(crate) struct Args {
    /// A model or a run, then a text (or a picture); without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// The text in ids: 5,6,7
    #[arg(long, value_name = "IDS")]
    ids: Option<String>,
    /// A second text, for an encoder that reads two
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["target", "target_ids"])]
    pair: Option<String>,
    /// What a translation model writes; left out, it writes for itself
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// The same in ids
    #[arg(long, value_name = "IDS", conflicts_with = "target")]
    target_ids: Option<String>,
    /// What to look at; left out, maps and heads, and in HTML all but gradients and neurons
    #[arg(long, value_name = "VIEW,…", value_delimiter = ',', value_parser = names())]
    view: Vec<String>,
    /// Which maps of a translation model: encoder, cross or decoder
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Which layer, from 0; left out, the last
    #[arg(long, value_name = "N")]
    layer: Option<usize>,
    /// Which head, from 0; left out, their mean
    #[arg(long, value_name = "N")]
    head: Option<usize>,
    /// Neurons: which token looks, from 0; left out, the last
    #[arg(long, value_name = "N")]
    row: Option<usize>,
    /// Show tokens FROM to TO (not included), counted from 0
    #[arg(long, value_name = "FROM..TO", value_parser = range)]
    window: Option<Range<usize>>,
    /// Gradients: how many steps the integral takes
    #[arg(long, value_name = "N", default_value_t = 64)]
    steps: usize,
    /// Gradients: which place of the answer, from 0; left out, the gap to be filled or the last
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// The same text through the checkpoints of a run: all that it kept, or those of these steps
    #[arg(long, value_name = "STEP,…", num_args = 0..=1, default_missing_value = "", conflicts_with = "view")]
    through: Option<String>,
    /// Write a file: .html, .svg, .csv or .json
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over that file
    #[arg(long, requires = "output")]
    force: bool,
    /// One line of JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

/// The names of the views, and of all together.
fn names() -> clap::builder::PossibleValuesParser {
    View::ALL.iter().map(|view| view.name()).chain([ALL_VIEWS]).collect::<Vec<_>>().into()
}

fn range(text: &str) -> Result<Range<usize>, String> {
    let wrong = || format!("`{text}` is not FROM..TO, as in 0..64");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    Ok(from.trim().parse().map_err(|_| wrong())?..to.trim().parse().map_err(|_| wrong())?)
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    input::not_zero(&[("steps", args.steps)])?;
    let extension = args.output.as_deref().map(kind_of).transpose()?;
    args.output.iter().try_for_each(|path| qkv_base::must_be_free(path, args.force))?;
    let (path, texts) = input::resolve(&args.words)?;
    input::instead(&texts, "--ids", args.ids.is_some())?;
    let ask = match (input::only(texts)?, &args.ids) {
        (Some(text), _) => Ask::Text(text),
        (None, Some(list)) => Ask::Ids(ids(list)?),
        (None, None) => {
            return Err(Fail::usage("there is nothing to look at", "give a text, a picture, or --ids 5,6,7"));
        }
    };
    let second = match (args.pair.as_ref().or(args.target.as_ref()), &args.target_ids) {
        (Some(text), _) => Some(Ask::Text(text.clone())),
        (None, Some(list)) => Some(Ask::Ids(ids(list)?)),
        (None, None) => None,
    };
    let stages = args.through.as_deref().map(|steps| stages(&path, steps)).transpose()?;
    let last = stages.as_ref().and_then(|stages| stages.last());
    let model = input::open(last.map_or(&path, |(_, name)| name), args.load)?;
    let options = Options {
        views: if stages.is_some() { vec![View::Maps] } else { views(args, &model, extension == Some("html")) },
        kind: args.kind.clone(),
        layer: args.layer,
        head: args.head,
        row: args.row,
        window: args.window.clone(),
        steps: args.steps,
        place: args.at,
    };
    let Some(stages) = stages else {
        let seen = see(&model, &ask, second.as_ref(), &options, &|| tracked(&path))?;
        return write(args, extension, &seen, &options);
    };
    let second = common_target(&model, &ask, second.as_ref())?;
    let look = |(step, name): &(u64, PathBuf)| {
        let model = input::open(name, args.load)?;
        Ok::<_, Fail>((*step, see(&model, &ask, second.as_ref(), &options, &|| tracked(name))?))
    };
    let seen = through(stages.iter().map(look).collect::<Result<_, _>>()?, &options)?;
    write(args, extension, &seen, &options)
}
