//! The network of a run: drawn by chance from the family, sizes and choices of a recipe, or loaded, with a new head where the
//! task asks for one.

use crate::corpus::Splits;
use crate::recipe::{Model, Recipe};
use burn::tensor::Device;
use qkv_base::{Error, Result, Task, memory};
use qkv_data::Example;
use qkv_data::objective::Labels;
use qkv_model::Pretrained;
use qkv_model::families::{self, Config, Pictures, Sizes, TargetStart};
use qkv_tasks::locate::Located;
use qkv_tasks::sheet;
use qkv_text::Tokenizer;

/// What a recipe says of the size of a network that is loaded and has its own.
pub(crate) fn unused_sizes(model: &Model) -> Option<String> {
    let usual = Model::default();
    let sizes = [
        ("width", model.width, usual.width),
        ("layers", model.layers, usual.layers),
        ("heads", model.heads, usual.heads),
        ("inner", model.inner, usual.inner),
        ("kv_heads", model.kv_heads, usual.kv_heads),
        ("window", model.window, usual.window),
        ("patch", model.patch, usual.patch),
    ];
    let said = sizes.iter().filter(|(_, n, usual)| n != usual).map(|(name, n, _)| format!("model.{name} = {n}"));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("the network is that of {}; {} say nothing of it", model.from, said.join(", ")))
}

/// The family of a new network.
pub(crate) fn family(recipe: &Recipe) -> Result<&'static families::Sheet> {
    families::named(&recipe.model.family).map_err(|e| Error { place: "model.family".into(), ..e })
}

/// A network drawn by chance.
pub(crate) fn begin(
    recipe: &Recipe,
    splits: &Splits,
    tokenizer: Option<&Tokenizer>,
    labels: &Labels,
    device: &Device,
) -> Result<Pretrained> {
    let sheet = family(recipe)?;
    let special = tokenizer.map(Tokenizer::special).unwrap_or_default();
    let sizes = sizes(recipe, tokenizer.map_or(0, Tokenizer::vocab_size), special.pad, labels, splits)?;
    let choices = recipe.model.choices();
    let mut spec = choices.apply(sheet, (sheet.sizes)(&sizes)?, sizes.positions)?;
    if let Some(head) = (sheet::of(recipe.data.objective).head)(labels.len(), sheet.pool) {
        spec.head = head;
    }
    spec.check()?;
    let mut known = Config::new(sheet.name);
    let pairs = [("bos_token_id", special.bos), ("eos_token_id", special.eos), ("pad_token_id", special.pad)];
    for (key, id) in pairs {
        if let Some(id) = id {
            known.set(key, id);
        }
    }
    let start = match sheet.target_start {
        Some(TargetStart::Eos) => special.eos,
        Some(TargetStart::Pad) => special.pad,
        None => None,
    };
    if let (Some(start), Some(eos)) = (start, special.eos) {
        known.set("decoder_start_token_id", start);
        known.set("forced_eos_token_id", eos);
    }
    if !labels.is_empty() {
        known.set_labels(labels.names());
    }
    let new = |sheet| Pretrained::new(sheet, &spec, Some(&known), recipe.train.seed, device);
    // What the family has no words for is kept in our own.
    let made = match (new(sheet), families::free(sheet)) {
        (Err(_), Some(free)) if !choices.chosen().is_empty() => new(free)?,
        (made, _) => made?,
    };
    // Nothing of it is in memory yet. A network that cannot learn here is refused before it is drawn.
    let rule = recipe.rule()?;
    let bytes = |p: &qkv_model::count::Parameter| {
        let moments: u64 = rule.memory(&p.shape).iter().map(|(_, n)| *n as u64).sum();
        2 * p.elements() + moments
    };
    let numbers: u64 = qkv_model::count::parameters(&made.model).iter().map(bytes).sum();
    let hint = "make it smaller: model.width, model.layers, tokenizer.vocab or data.length";
    memory::ensure(numbers.saturating_mul(4), "model", "weights, gradients and the optimiser need", hint)?;
    Ok(made)
}

/// What the recipe says about the size of a new network; 0 is as good as nothing said.
fn sizes(recipe: &Recipe, vocabulary: usize, pad: Option<u32>, labels: &Labels, splits: &Splits) -> Result<Sizes> {
    let Model { width, layers, heads, inner, dropout, start, patch, .. } = recipe.model;
    let pictures = match recipe.data.objective {
        Task::Image => {
            let (image, channels) = picture(splits)?;
            Some(Pictures { image, patch, channels })
        }
        _ if patch != Model::default().patch => {
            let what = "the corpus is text, which has no patches";
            return Err(Error::new("model.patch", what, "leave it out"));
        }
        _ => None,
    };
    Ok(Sizes {
        vocabulary,
        pad,
        width,
        layers,
        heads,
        // One of the choices, which any Transformer can make.
        kv_heads: None,
        inner: (inner > 0).then_some(inner),
        positions: recipe.data.length,
        dropout,
        std: (start > 0.0).then_some(start),
        pictures,
        labels: labels.len(),
        window: (recipe.model.window > 0).then_some(recipe.model.window),
    })
}

fn picture(splits: &Splits) -> Result<(usize, usize)> {
    match splits.train.get(0)? {
        Example::Image { width, height, channels, .. } if width == height => Ok((width, channels)),
        Example::Image { width, height, .. } => {
            let what = format!("pictures of {width} × {height} are not square");
            Err(Error::new("data.corpus", what, "bring them to one square size"))
        }
        _ => Err(Error::new("data.corpus", "holds no pictures", "choose a corpus of pictures, or another objective")),
    }
}

/// A checkpoint, with a new head where the objective asks for one.
pub(crate) fn load(from: &Located, recipe: &Recipe, labels: &Labels, device: &Device) -> Result<Pretrained> {
    from.load_with(device, recipe.train.seed, |spec, config| {
        let pool = families::of(config)?.pool;
        let task = sheet::of(recipe.data.objective);
        task.fits(spec, &from.name().display().to_string())?;
        if let Some(head) = (task.head)(labels.len(), pool) {
            let same = config.labels()?.is_some_and(|known| known == labels.names());
            if spec.head != head || !same {
                spec.head = head;
                if !labels.is_empty() {
                    config.set_labels(labels.names());
                }
            }
        }
        Ok(())
    })
}

/// What is worth saying about a network that no family has a word for.
pub(crate) fn of_its_own(it: &Pretrained) -> Option<String> {
    let base = families::base_family(&it.config)?;
    let name = it.sheet.name;
    Some(format!(
        "no {base} is like this: the network is kept as {name}, which Hugging Face transformers does not read"
    ))
}
