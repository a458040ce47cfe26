//! Nothing is accepted and ignored: every key of a recipe, set away from its default, changes what a run does, or is
//! refused; for every family.

use qkv_model::families::{self, HeadKind};
use qkv_runs::RunSettings;
use qkv_runs::plan::Plan;
use qkv_runs::recipe::{self, Recipe};

/// What a family that reads text learns first.
fn goal_of(sheet: &families::Sheet) -> &'static str {
    match sheet.architectures.iter().any(|(_, task)| *task == HeadKind::Masked) {
        true => "masked",
        false if sheet.target_start.is_some() => "translate",
        false => "next-token",
    }
}

/// A value other than the default for every key of a recipe, as TOML; two where one of them may be the family's own.
const OTHER: &[(&str, &str)] = &[
    ("data.corpus", "\"builtin:fables\""),
    ("data.more", "[\"nowhere.tsv\"]"),
    ("data.valid_file", "\"nowhere.tsv\""),
    ("data.test_file", "\"nowhere.tsv\""),
    ("data.objective", "\"tag\""),
    ("data.examples", "40"),
    ("data.valid", "7"),
    ("data.test", "7"),
    ("data.length", "24"),
    ("data.prefix", "\"say: \""),
    ("data.mix", "{ \"builtin:stories\" = \"x: \" }"),
    ("data.columns", "{ text = \"body\" }"),
    ("tokenizer.kind", "\"char\""),
    ("tokenizer.vocab", "320"),
    ("tokenizer.path", "\"nowhere\""),
    ("model.family", "\"other\""),
    ("model.width", "48"),
    ("model.layers", "3 | 1"),
    ("model.heads", "2"),
    ("model.inner", "40"),
    ("model.kv_heads", "2"),
    ("model.head_dim", "16"),
    ("model.position", "\"none\""),
    ("model.norm", "\"none\""),
    ("model.wiring", "\"pre\" | \"post\""),
    ("model.activation", "\"tanh\""),
    ("model.gated", "true | false"),
    ("model.bias", "true | false"),
    ("model.scale", "\"one\" | \"root\""),
    ("model.mask", "\"none\""),
    ("model.tie", "true | false"),
    ("model.window", "5"),
    ("model.patch", "8"),
    ("model.dropout", "0.3"),
    ("model.start", "0.05"),
    ("model.from", "\"nowhere\""),
    ("model.freeze", "[\"tokens\"]"),
    ("train.seed", "9"),
    ("train.steps", "11"),
    ("train.epochs", "0.5"),
    ("train.least", "9999"),
    ("train.tokens", "64"),
    ("train.rows", "3"),
    ("train.accumulate", "2"),
    ("train.smoothing", "0.2"),
    ("train.class_weights", "\"balanced\""),
    ("train.average", "0.5"),
    ("train.recompute", "true"),
    ("train.precision", "\"bf16\""),
    ("train.leap", "6.0"),
    ("train.log", "3"),
    ("train.device", "\"moon\""),
    ("optim.name", "\"lion\""),
    ("optim.rate", "0.5"),
    ("optim.find", "true"),
    ("optim.beta1", "0.5"),
    ("optim.beta2", "0.5"),
    ("optim.eps", "0.5"),
    ("optim.momentum", "0.5"),
    ("optim.decay", "0.5"),
    ("optim.clip", "0.5"),
    ("optim.layer_rate", "0.5"),
    ("schedule.curve", "\"linear\""),
    ("schedule.warmup", "3"),
    ("schedule.warmup_share", "0.4"),
    ("schedule.floor", "0.5"),
    ("checkpoint.every", "3"),
    ("checkpoint.keep", "5"),
    ("checkpoint.average_last", "2"),
    ("eval.every", "3"),
    ("eval.looks", "3"),
    ("eval.batches", "3"),
    ("eval.patience", "3"),
    ("eval.metric", "\"other\""),
    ("eval.goal", "3.0"),
    ("eval.samples", "1"),
    ("lora.rank", "2"),
    ("lora.alpha", "3.0"),
    ("lora.targets", "[\"k\"]"),
    ("lora.dropout", "0.5"),
    ("lora.start", "\"gaussian\""),
    ("dist.shards", "2"),
    ("dist.every", "3"),
    ("dist.rate", "0.5"),
    ("dist.momentum", "0.5"),
    ("dist.wire", "\"bf16\""),
];

/// All that a plan hands on: the network's spec and weights, the data and how they are cut and dealt, the optimiser,
/// its schedule, and how the loop runs. What changes nothing of this changes nothing at all.
fn effects(plan: &mut Plan) -> String {
    let batch = plan.train.batch(0).expect("a batch");
    let sizes = (plan.train.counts().to_string(), plan.valid.counts().to_string(), plan.splits.test.len());
    let first = plan.splits.test.get(0).map(|e| e.texts()).expect("an example");
    let vocabulary = plan.tokenizer.as_ref().map(|t| t.vocab_size());
    let mut frozen = vec![];
    qkv_nn::walk(&plan.pretrained.model, |p| {
        let values = p.values().into_data().try_to_vec::<f32>().unwrap_or_default();
        frozen.push((p.path().to_string(), p.learns(), values.iter().sum::<f32>()));
    });
    // An adapter's strength is no parameter; the network tells it with all the rest.
    let told = format!("{:?}", plan.pretrained.model);
    let adapters: Vec<&str> = told.split("alpha: ").skip(1).filter_map(|rest| rest.split('}').next()).collect();
    let optimizer = format!("{:?} {:?}", plan.optimizer().expect("an optimiser"), plan.schedule());
    let (spec, eval) = (plan.pretrained.spec().clone(), plan.recipe.eval.clone());
    let settings = RunSettings::of(&plan.recipe);
    let told = (&plan.recipe.eval.metric, eval.goal, eval.samples);
    format!(
        "{spec:?} {sizes:?} {first:?} {vocabulary:?} {batch:?} {frozen:?} {adapters:?} {optimizer} {settings:?} {told:?}"
    )
}

/// Which keys say nothing where another one is as it is; they are tried beside one that gives them a meaning.
fn beside(key: &str) -> &'static str {
    match key {
        "optim.momentum" => "[optim]\nname = \"sgd\"",
        "lora.alpha" | "lora.targets" | "lora.dropout" | "lora.start" => "[lora]\nrank = 2",
        "dist.rate" | "dist.momentum" => "[dist]\nevery = 3",
        "dist.wire" => "[dist]\nshards = 2",
        "train.least" => "[train]\nepochs = 0.5",
        _ => "",
    }
}

#[test]
fn every_key_takes_effect_or_is_refused() {
    every_key(&["bert", "gpt2", "llama", "t5", "marian"]);
}

#[test]
#[ignore = "slow: all families"]
fn every_key_takes_effect_or_is_refused_in_every_family() {
    every_key(&families::ALL.iter().map(|sheet| sheet.name).collect::<Vec<_>>());
}

/// Nothing is accepted and ignored: every key, set away from its default, changes what a run does, or is refused.
fn every_key(names: &[&str]) {
    let table = toml::Table::try_from(Recipe::default()).expect("a recipe");
    let keys: Vec<String> = table
        .iter()
        .filter_map(|(section, keys)| Some((section, keys.as_table()?)))
        .flat_map(|(section, keys)| keys.keys().map(move |key| format!("{section}.{key}")))
        .collect();
    let listed: Vec<&str> = OTHER.iter().map(|(key, _)| *key).collect();
    for key in &keys {
        assert!(listed.contains(&key.as_str()), "{key} is not tried here");
    }
    let mut ignored = vec![];
    for sheet in families::ALL.iter().filter(|s| s.tokenizer.is_some() && names.contains(&s.name)) {
        let goal = goal_of(sheet);
        let corpus = if goal == "translate" { "en-it" } else { "stories" };
        let base = format!(
            "[data]\ncorpus = \"builtin:{corpus}\"\nobjective = \"{goal}\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"\"\nvocab = 300\n[model]\nfamily = \"{}\"\nwidth = 32\nlayers = 2\nheads = 4\n[train]\nrows = 4\n",
            sheet.name
        );
        let plain = std::cell::OnceCell::new();
        let made =
            |text: &str| Recipe::parse("test", text).and_then(|r| Plan::new(&r, None)).map(|mut p| effects(&mut p));
        // Networks without attention have no heads.
        let base = match made(&base) {
            Err(e) if e.place == "model.heads" => base.replace("heads = 4", "heads = 1"),
            _ => base,
        };
        // And one has one layer.
        let base = match made(&base) {
            Err(e) if e.place == "model.layers" => base.replace("layers = 2", "layers = 1"),
            _ => base,
        };
        for (key, value) in OTHER {
            // A family has its own tokenizers, corpora and objectives; that others are taken is tried elsewhere.
            if ["data.corpus", "data.objective", "data.mix"].contains(key) {
                continue;
            }
            let mut text = base.clone();
            for line in beside(key).split('\n').collect::<Vec<_>>().chunks(2).filter(|c| c.len() == 2) {
                let section = line[0].trim_matches(['[', ']']);
                let (name, value) = line[1].split_once(" = ").expect("an assignment");
                text = recipe::set(&text, &format!("{section}.{name}={value}")).expect("set");
            }
            let whole = || made(&text).unwrap_or_else(|e| panic!("{}: {e}", sheet.name));
            if text != base && made(&text).is_err() {
                continue; // what would give the key a meaning is refused in this family
            }
            let before = if text == base { plain.get_or_init(whole).clone() } else { whole() };
            let same = |value: &str| {
                let changed = recipe::set(&text, &format!("{key}={value}")).expect("set");
                made(&changed).is_ok_and(|after| after == before)
            };
            if value.split(" | ").all(same) {
                ignored.push(format!("{}: {key} = {value}", sheet.name));
            }
        }
    }
    assert!(ignored.is_empty(), "accepted, and nothing changes:\n{}", ignored.join("\n"));
}
