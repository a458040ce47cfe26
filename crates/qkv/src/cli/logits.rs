//! `qkv logits`: one forward pass, everything it computes under Hugging Face's names.

use super::fail::Fail;
use super::input;
use super::terminal::say;
use qkv_model::outputs::{Inputs, Output, OutputOptions, forward_outputs};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv logits MODEL --ids 5,6,7                      scores of the next token at each position
  qkv logits MODEL --ids 5,6,7 --decoder-ids 0,9    a pair: what is read, and what has been written
  qkv logits MODEL --inputs batch.json --hidden     {\"input_ids\": [[…]], \"attention_mask\": [[…]]}
  qkv logits MODEL --inputs image.json --attentions  {\"pixel_values\": [[[[…]]]]}")]
pub(crate) struct Args {
    /// A model: a directory, or a safetensors, PyTorch or GGUF file
    model: PathBuf,
    /// A JSON file with `input_ids`, `attention_mask`, `token_type_ids`, `decoder_input_ids` or `pixel_values`
    #[arg(long, value_name = "FILE", conflicts_with = "ids", required_unless_present = "ids")]
    inputs: Option<PathBuf>,
    /// One sequence of token ids
    #[arg(long, value_name = "N,N,…", value_delimiter = ',')]
    ids: Vec<u32>,
    /// What the decoder of a pair has written; left out, its start token
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', requires = "ids")]
    decoder_ids: Vec<u32>,
    /// Also the hidden states: embeddings, then each layer
    #[arg(long)]
    hidden: bool,
    /// Also the attention maps of each layer
    #[arg(long)]
    attentions: bool,
    /// One line of JSON (the output is JSON anyway; this leaves out the line breaks)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let model = input::open(&args.model, args.load)?;
    let mut inputs = match &args.inputs {
        Some(path) => {
            let place = path.display();
            let bytes = qkv_base::read_file(path, 1 << 30, "is the path right?")?;
            serde_json::from_slice(&bytes)
                .map_err(|e| Fail::usage(format!("{place}: {e}"), "see `qkv logits --help`"))?
        }
        None => Inputs::of_ids(args.ids.clone()),
    };
    let spec = model.network.spec();
    if spec.encoder().is_some() && spec.decoder().is_some() && inputs.decoder_input_ids.is_none() {
        let start = model.network.config.id("decoder_start_token_id");
        let rows = inputs.input_ids.as_ref().map_or(1, Vec::len);
        let written = match (args.decoder_ids.is_empty(), start) {
            (false, _) => args.decoder_ids.clone(),
            (true, Some(start)) => vec![start],
            (true, None) => {
                return Err(Fail::usage("this model writes, but nothing says how it starts", "give --decoder-ids"));
            }
        };
        inputs.decoder_input_ids = Some(vec![written; rows]);
    }
    let outputs =
        forward_outputs(&model.network, &inputs, OutputOptions { hidden: args.hidden, attentions: args.attentions })?;
    let text = |output: &Output| serde_json::to_string(output).map_err(|e| Fail::failed("json", e, ""));
    let lines = outputs.iter().map(|(name, output)| Ok(format!("\"{name}\": {}", text(output)?)));
    let lines = lines.collect::<Result<Vec<String>, Fail>>()?;
    say(if args.json { format!("{{{}}}", lines.join(", ")) } else { format!("{{\n{}\n}}", lines.join(",\n")) })
}
