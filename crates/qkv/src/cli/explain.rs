//! `qkv explain`: the lectures' own arithmetic, recomputed, one topic a page.

mod out;
mod quiz;

use super::fail::Fail;
use super::input;
use out::{list, write};
use qkv_insight::explain::find;
use qkv_insight::explain::model::{Asked, with_model};
use qkv_insight::render::quiz::Quiz;
use qkv_insight::see::Ask;
use qkv_tasks::TextModel;
use qkv_tasks::chain::ids;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv explain                          the topics, in the order of the lectures
  qkv explain attention                idea, formula, shapes, the slide's numbers recomputed
  qkv explain norms --csv > norms.csv  its tables for a spreadsheet
  qkv explain mask --html mask.html    one file that loads nothing
  qkv explain positions --svg pe.svg   its picture
  qkv explain softmax --set scores=3,1,0 --set temperature=0.5
                                       the same arithmetic with your numbers
  qkv explain lora --set width=4096 --set rank=16
  qkv explain softmax --quiz 5         five numbers are hidden; answers are read from stdin
  qkv explain attention --model M --text \"The cat sat\" --layer 2 --head 1
                                       the same with a real model's numbers")]
pub(crate) struct Args {
    /// What to explain; left out, the list of topics
    topic: Option<String>,
    /// The same arithmetic with your numbers, such as scores=3,1,0; may be given again
    #[arg(long, value_name = "KEY=VALUE", requires = "topic")]
    set: Vec<String>,
    /// A model or a run, for the same with its numbers
    #[arg(long, value_name = "MODEL", requires = "topic")]
    model: Option<PathBuf>,
    /// What the model reads
    #[arg(long, value_name = "TEXT", requires = "model")]
    text: Option<String>,
    /// The same in ids: 5,6,7
    #[arg(long, value_name = "IDS", requires = "model", conflicts_with = "text")]
    ids: Option<String>,
    /// What a translation model writes; left out, it writes for itself
    #[arg(long, value_name = "TEXT", requires = "model")]
    target: Option<String>,
    /// Which layer of the model, from 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "model")]
    layer: usize,
    /// Which head, from 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "model")]
    head: usize,
    /// Which token looks, from 0; left out, the last
    #[arg(long, value_name = "N", requires = "model")]
    row: Option<usize>,
    /// Hide N numbers, and check the answers that come on stdin
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", requires = "topic", conflicts_with_all = ["json", "csv", "html", "svg"])]
    quiz: Option<usize>,
    /// Which numbers a quiz hides
    #[arg(long, value_name = "N", default_value_t = 0, requires = "quiz")]
    seed: u64,
    /// The tables of the page for a spreadsheet
    #[arg(long, requires = "topic", conflicts_with_all = ["json", "html"])]
    csv: bool,
    /// Write the page as one HTML file that loads nothing
    #[arg(long, value_name = "FILE", requires = "topic", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Write the picture of the topic, of the lecture's numbers
    #[arg(long, value_name = "FILE", requires = "topic", conflicts_with_all = ["json", "csv", "html", "set", "model"])]
    svg: Option<PathBuf>,
    /// Write over the file of --html or --svg
    #[arg(long)]
    force: bool,
    /// One line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let Some(name) = &args.topic else { return list(args.json) };
    if args.force && args.html.is_none() && args.svg.is_none() {
        return Err(Fail::usage("--force: nothing is written", "add --html FILE or --svg FILE"));
    }
    args.html.iter().chain(&args.svg).try_for_each(|path| qkv_base::must_be_free(path, args.force))?;
    let topic = find(name)?;
    let mut page = topic.page_with(&args.set)?;
    if let Some(path) = &args.model {
        let path = input::model_or_newest(Some(path))?;
        let model = input::open(&path, args.load)?;
        page = with_model(page, &asked(args, &model)?)?;
    }
    if let Some(n) = args.quiz {
        input::not_zero(&[("quiz", n)])?;
        return quiz::ask(&Quiz::of(&page, n, args.seed)?);
    }
    write(args, topic, &page)
}

/// What the model is asked with; the lecture's sentence, where nothing else is said.
fn asked<'a>(args: &Args, model: &'a TextModel) -> Result<Asked<'a>, Fail> {
    let text = match (&args.text, &args.ids) {
        (Some(text), _) => Ask::Text(text.clone()),
        (None, Some(list)) => Ask::Ids(ids(list)?),
        (None, None) if model.maybe_tokenizer().is_some() => Ask::Text("Your cat is a lovely cat".into()),
        (None, None) => {
            return Err(Fail::usage("the model has nothing to read", "add --ids 5,6,7: it has no tokenizer"));
        }
    };
    let target = args.target.clone().map(Ask::Text);
    Ok(Asked { model, text, target, layer: args.layer, head: args.head, row: args.row })
}
