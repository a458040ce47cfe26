//! LoRA adapters in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Names come from the family's own table: our `decoder.layers.0.attention.q` is theirs
//! `base_model.model.model.decoder.layers.0.self_attn.q_proj`, with `lora_A.weight` `[r, in]` and `lora_B.weight`
//! `[out, r]`. Where a family keeps queries, keys and values in one matrix (GPT-2), their adapters become one:
//! A's are stacked, B's stand on a diagonal, and α grows with the rank so that `α/r` stays.

use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_model::count::{self, Parameter};
use qkv_model::families::LinearLayout;
use qkv_model::pretrained::{Values, fill};
use qkv_model::{Pretrained, Transformer};
use qkv_nn::{LoraSize, walk};
use qkv_weights::{Checkpoint, Dtype, Slot, save_safetensors, write_atomically};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CONFIG: &str = "adapter_config.json";
const FILE: &str = "adapter_model.safetensors";
const UNDER: &str = "base_model.model.";

/// What an adapter is, beyond its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// the directory of the network that it adapts
    pub base: String,
    /// r
    pub rank: usize,
    /// α
    pub alpha: f64,
    /// probability of dropping what an adapter read while it learnt
    pub dropout: f64,
}

/// The parameters that are not adapters.
fn own(model: &Transformer) -> Vec<Parameter> {
    count::parameters(model).into_iter().filter(|p| !p.path.contains(".lora.")).collect()
}

fn slots(it: &Pretrained, model: &Transformer) -> Result<Vec<Slot>> {
    (it.sheet.names)(it.spec(), &it.config).slots(&own(model))
}

/// The layer of a slot in their words, without `.weight`.
fn module(slot: &Slot) -> Option<&str> {
    slot.theirs.strip_suffix(".weight")
}

/// Writes the adapters of `model`, and beside them every parameter that learnt whole or that the base does not have.
pub fn save(it: &Pretrained, model: &Transformer, about: &About, dir: &Path) -> Result<()> {
    let values = Values::of(model);
    let shapes: BTreeMap<String, Vec<usize>> =
        count::parameters(model).into_iter().map(|p| (p.path, p.shape)).collect();
    let mut learnt = learning(model);
    learnt.extend(it.report.fresh.iter().cloned());
    let (mut tensors, mut targets, mut whole) = (vec![], BTreeSet::new(), BTreeSet::new());
    let (mut ranks, mut alphas) = (BTreeMap::new(), BTreeMap::new());
    let slots = slots(it, model)?;
    for slot in &slots {
        if let Some(name) = module(slot)
            && let Some((a, b, rank)) = stacked(slot, &values, &shapes)
        {
            if rank != about.rank {
                let last = name.rsplit('.').next().unwrap_or(name).to_string();
                ranks.insert(last.clone(), rank);
                alphas.insert(last, about.alpha * rank as f64 / about.rank.max(1) as f64);
            }
            targets.insert(name.to_string());
            tensors.push((format!("{UNDER}{name}.lora_A.weight"), vec![rank, a.len() / rank.max(1)], a));
            tensors.push((format!("{UNDER}{name}.lora_B.weight"), vec![b.len() / rank.max(1), rank], b));
        }
        if slot.is_plain() && slot.ours().all(|p| learnt.contains(&p.path)) {
            let path = slot.ours().map(|p| p.path.clone()).next().unwrap_or_default();
            whole.insert(slot.theirs.rsplit_once('.').map_or("", |(m, _)| m).to_string());
            tensors.push((format!("{UNDER}{}", slot.theirs), slot.shape.clone(), values.read(&path)));
        }
    }
    if targets.is_empty() {
        return Err(Error::new("lora", "the network has no adapters", "train it with --lora"));
    }
    let modules: BTreeSet<&str> = slots.iter().filter_map(|s| Some(s.theirs.rsplit_once('.')?.0)).collect();
    let (targets, whole) = (short(&targets, &modules), short(&whole, &modules));
    let all: Vec<_> = tensors.iter().map(|(n, s, v)| qkv_weights::Tensor::values(n.clone(), s.clone(), v)).collect();
    let fail = |e: std::io::Error| Error::write(dir.display().to_string(), &e, "is the place writable?");
    save_safetensors(dir, &all, Dtype::F32, u64::MAX)?;
    std::fs::rename(dir.join("model.safetensors"), dir.join(FILE)).map_err(fail)?;
    let config = json!({
        "peft_type": "LORA", "base_model_name_or_path": about.base, "r": about.rank, "lora_alpha": about.alpha,
        "lora_dropout": about.dropout, "bias": "none", "target_modules": targets, "rank_pattern": ranks, "alpha_pattern": alphas,
        "modules_to_save": if whole.is_empty() { Value::Null } else { json!(whole) },
        "fan_in_fan_out": it.sheet.linear == LinearLayout::InOut, "task_type": task_type(it), "inference_mode": true,
        "init_lora_weights": true, "use_rslora": false, "use_dora": false,
    });
    write_atomically(&dir.join(CONFIG), format!("{config:#}\n").as_bytes())?;
    // The labels of a new head, which PEFT leaves to the person to remember.
    write_atomically(&dir.join("config.json"), it.config.text().as_bytes())
}

/// Names by which PEFT finds `chosen` among all modules, and nothing else: it compares ends. The last name where that is
/// enough (`query`), the whole one where another layer ends in it too.
fn short(chosen: &BTreeSet<String>, modules: &BTreeSet<&str>) -> BTreeSet<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
    let enough = |end: &str| modules.iter().filter(|m| m.ends_with(end)).all(|m| chosen.contains(*m));
    chosen.iter().map(|name| if enough(&last(name)) { last(name) } else { name.clone() }).collect()
}

fn task_type(it: &Pretrained) -> Value {
    use qkv_model::families::HeadKind;
    match HeadKind::of(&it.spec().head) {
        HeadKind::Classify => "SEQ_CLS".into(),
        HeadKind::Tag => "TOKEN_CLS".into(),
        HeadKind::Answer => "QUESTION_ANS".into(),
        HeadKind::Language if it.spec().encoder().is_some() => "SEQ_2_SEQ_LM".into(),
        HeadKind::Language => "CAUSAL_LM".into(),
        _ => Value::Null,
    }
}

/// A and B of a slot whose layers have adapters, as one of rank `Σ r`.
fn stacked(slot: &Slot, values: &Values, shapes: &BTreeMap<String, Vec<usize>>) -> Option<(Vec<f32>, Vec<f32>, usize)> {
    type Pair = (Vec<f32>, Vec<f32>, usize);
    let parts: Vec<(usize, Option<Pair>)> = slot
        .ours()
        .filter_map(|p| {
            let layer = p.path.strip_suffix(".weight")?;
            let out = shapes.get(&p.path)?.first().copied()?;
            let rank = shapes.get(&format!("{layer}.lora.a")).and_then(|s| s.first()).copied();
            let read = |end: &str| values.read(&format!("{layer}.lora.{end}"));
            Some((out, rank.map(|rank| (read("a"), read("b"), rank))))
        })
        .collect();
    let total: usize = parts.iter().filter_map(|(_, p)| p.as_ref().map(|(.., r)| *r)).sum();
    if total == 0 {
        return None;
    }
    let a = parts.iter().filter_map(|(_, p)| p.as_ref()).flat_map(|(a, ..)| a.clone()).collect();
    let (mut b, mut before) = (vec![], 0);
    for (out, part) in &parts {
        for row in 0..*out {
            let mut line = vec![0.0; total];
            if let Some((_, own, rank)) = part {
                line[before..before + rank].copy_from_slice(&own[row * rank..(row + 1) * rank]);
            }
            b.extend(line);
        }
        before += part.as_ref().map_or(0, |(.., rank)| *rank);
    }
    Some((a, b, total))
}

/// The paths of the parameters that learn, adapters left out.
fn learning(model: &Transformer) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(model, |p| {
        if p.learns() && !p.path().contains(".lora.") {
            found.insert(p.path().to_string());
        }
    });
    found
}

/// What changes the meaning of an adapter's numbers and is not done here is refused: read as plain LoRA it would answer
/// wrongly without a word.
fn plain_lora(config: &Value, place: &str) -> Result<()> {
    let fail = |what: String| {
        Error::new(place, what, "plain LoRA is read; merge it where it was made, and load the merged model")
    };
    if config["peft_type"] != "LORA" {
        return Err(fail("is not a LoRA adapter".into()));
    }
    // Values that mean: not used.
    let absent = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let switches = [
        "use_dora",
        "use_rslora",
        "lora_bias",
        "use_qalora",
        "use_bdlora",
        "target_parameters",
        "trainable_token_indices",
        "layer_replication",
        "alora_invocation_tokens",
        "arrow_config",
        "loftq_config",
        "corda_config",
        "megatron_config",
    ];
    if let Some(key) = switches.into_iter().find(|key| !absent(&config[*key])) {
        return Err(fail(format!("`{key}` is {}, which is not done", config[key])));
    }
    if !(absent(&config["bias"]) || config["bias"] == "none") {
        return Err(fail(format!("`bias` is {}: biases that learnt are not read", config["bias"])));
    }
    // Some ways to start change the weights of the base as well.
    match &config["init_lora_weights"] {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::String(how) if ["gaussian", "eva", "orthogonal"].contains(&how.as_str()) => Ok(()),
        other => Err(fail(format!("`init_lora_weights` is {other}, which changed the model below as well"))),
    }
}

/// r and α of each layer: the common ones, or those of a pattern that its name ends in.
struct Strength {
    place: String,
    rank: f64,
    alpha: f64,
    ranks: BTreeMap<String, f64>,
    alphas: BTreeMap<String, f64>,
}

impl Strength {
    fn of(config: &Value, place: &str) -> Result<Self> {
        let fail = |key: &str, what: String| Error::new(format!("{place}: {key}"), what, "is the file whole?");
        let positive = |key: &str, value: &Value| {
            let number = value.as_f64().filter(|n| n.is_finite() && *n > 0.0);
            number.ok_or_else(|| fail(key, format!("{value} is not a positive number")))
        };
        let pattern = |key: &str| match &config[key] {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(map) => map.iter().map(|(end, v)| Ok((end.clone(), positive(key, v)?))).collect(),
            other => Err(fail(key, format!("{other} is not a table of numbers"))),
        };
        Ok(Self {
            place: place.into(),
            rank: positive("r", &config["r"])?,
            alpha: positive("lora_alpha", &config["lora_alpha"])?,
            ranks: pattern("rank_pattern")?,
            alphas: pattern("alpha_pattern")?,
        })
    }

    fn is_end(name: &str, end: &str) -> bool {
        name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    /// α/r of a layer whose numbers have rank `r`.
    fn scale(&self, name: &str, r: usize) -> Result<f64> {
        let of = |pattern: &BTreeMap<String, f64>, usual: f64| {
            pattern.iter().find(|(end, _)| Self::is_end(name, end)).map_or(usual, |(_, n)| *n)
        };
        let (rank, alpha) = (of(&self.ranks, self.rank), of(&self.alphas, self.alpha));
        if rank != r as f64 {
            let what = format!("says rank {rank} for `{name}`, but its numbers have rank {r}");
            return Err(Error::new(&self.place, what, "do adapter_config.json and the weights belong together?"));
        }
        Ok(alpha / rank)
    }

    /// Refuses a pattern that no layer's name ends in: it means something that is not understood.
    fn all_used<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let names: Vec<&str> = names.collect();
        match self.ranks.keys().chain(self.alphas.keys()).find(|end| !names.iter().any(|n| Self::is_end(n, end))) {
            None => Ok(()),
            Some(end) => {
                let what = format!("a pattern names `{end}`, in which no layer's name ends");
                Err(Error::new(&self.place, what, "patterns are read as ends of names"))
            }
        }
    }
}

/// The same as [`load`] for an adapter that is low-rank changes and nothing else: one that brings whole parameters of its own is
/// refused, because a network that others use as well cannot have them.
pub fn load_low_rank(it: &Pretrained, dir: &Path) -> Result<Transformer> {
    let file = Checkpoint::open(dir.join(FILE))?;
    if let Some(whole) = file.entries().iter().find(|e| !e.name.contains(".lora_")) {
        let what = format!("brings `{}` whole, which other requests to the same network cannot share", whole.name);
        let hint = "merge it and serve it as a model of its own: qkv merge MODEL ADAPTER OUT";
        return Err(Error::new(dir.join(FILE).display().to_string(), what, hint));
    }
    for entry in file.entries() {
        if let Some(place) = file.read_f32(&entry.name)?.iter().position(|x| !x.is_finite()) {
            let what = format!("`{}` is no number at place {place}", entry.name);
            return Err(Error::new(dir.join(FILE).display().to_string(), what, "train it again, with a lower rate"));
        }
    }
    load(it, dir)
}

/// Puts the adapter in `dir` around the layers of a network, and the parameters that learnt whole in their places.
pub fn load(it: &Pretrained, dir: &Path) -> Result<Transformer> {
    let place = dir.join(CONFIG).display().to_string();
    let fail = |what: String, hint: &str| Error::new(&place, what, hint);
    let bytes = read_file(&dir.join(CONFIG), MOST_TEXT, "is this a directory of PEFT's?")?;
    let config: Value =
        serde_json::from_slice(&bytes).map_err(|e| fail(format!("is not JSON: {e}"), "is it whole?"))?;
    plain_lora(&config, &place)?;
    let strength = Strength::of(&config, &place)?;
    let file = Checkpoint::open(dir.join(FILE))?;
    let (mut layers, mut values, mut ranks) = (vec![], BTreeMap::new(), BTreeSet::new());
    let mut scales = vec![];
    let mut used = BTreeSet::new();
    for slot in slots(it, &it.model)? {
        let plain = format!("{UNDER}{}", slot.theirs);
        if file.get(&plain).is_some() && slot.is_plain() {
            values.extend(slot.ours().map(|p| p.path.clone()).zip([file.read_f32(&plain)?]));
            used.insert(plain);
        }
        let Some(name) = module(&slot) else { continue };
        let [a, b] = ["A", "B"].map(|end| format!("{UNDER}{name}.lora_{end}.weight"));
        let (Some(entry), Some(_)) = (file.get(&a), file.get(&b)) else { continue };
        let r = entry.shape.first().copied().unwrap_or(0);
        let (down, up) = (file.read_f32(&a)?, file.read_f32(&b)?);
        let into = slot.ours().filter_map(|p| p.shape.get(1).copied()).next().unwrap_or(0);
        let outs: usize = slot.ours().filter_map(|p| p.shape.first().copied()).sum();
        if r == 0 || [Some(down.len()), Some(up.len())] != [r.checked_mul(into), r.checked_mul(outs)] {
            let what = format!("{name}: A and B of rank {r} do not fit a weight of {outs} × {into}");
            return Err(fail(what, "was the adapter made for another network?"));
        }
        let mut from = 0;
        for p in slot.ours() {
            let (Some(layer), Some(out)) = (p.path.strip_suffix(".weight"), p.shape.first()) else { continue };
            let rows = up.get(from * r..(from + out) * r).ok_or_else(|| fail(format!("{b} is too small"), ""))?;
            values.insert(format!("{layer}.lora.a"), down.clone());
            values.insert(format!("{layer}.lora.b"), rows.to_vec());
            layers.push(layer.to_string());
            from += out;
        }
        ranks.insert(r);
        scales.push(strength.scale(name, r)?);
        used.extend([a, b]);
    }
    if let Some(lost) = file.entries().iter().find(|e| !used.contains(&e.name)) {
        let what = format!("`{}` belongs to no layer of this network", lost.name);
        return Err(fail(what, "was the adapter made for another network?"));
    }
    let [r] = ranks.iter().copied().collect::<Vec<_>>()[..] else {
        return Err(fail("adapters of different ranks are not read".into(), "use one rank for all layers"));
    };
    strength.all_used(slots(it, &it.model)?.iter().filter_map(module))?;
    // Fused matrices carry the sum of the ranks, and an α that grew with it: α/r is what counts.
    let Some(scale) = scales.first().copied().filter(|first| scales.iter().all(|s| (s / first - 1.0).abs() < 1e-9))
    else {
        return Err(fail("adapters of different strengths α/r are not read".into(), "use one α and one rank"));
    };
    let targets: Vec<&str> = layers.iter().map(String::as_str).collect();
    let model = it.model.clone().with_lora(&targets, LoraSize { rank: r, alpha: scale * r as f64, dropout: 0.0 }, 0)?;
    Ok(fill(model, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_kernels::Ids;
    use qkv_model::{CausalLm, Tokens};
    use qkv_nn::Cx;

    #[test]
    fn a_module_is_named_so_that_no_other_is_meant() {
        let modules = ["layer.0.dense", "layer.0.query", "layer.1.query", "pooler.dense", "classifier"].into();
        let named = |chosen: &[&str]| -> Vec<String> {
            short(&chosen.iter().map(|c| c.to_string()).collect(), &modules).into_iter().collect()
        };
        assert_eq!(named(&["layer.0.query", "layer.1.query"]), ["query"]);
        assert_eq!(named(&["layer.0.query"]), ["layer.0.query"]);
        assert_eq!(named(&["pooler.dense", "classifier"]), ["classifier", "pooler.dense"]);
    }

    #[test]
    fn an_adapter_comes_back_also_through_a_fused_matrix() {
        for (name, targets) in [("gpt2", vec!["q", "v"]), ("llama", vec!["q", "v", "up"])] {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name);
            let it = Pretrained::load(&dir, &Device::flex().autodiff()).unwrap();
            let adapted =
                it.model.clone().with_lora(&targets, LoraSize { rank: 2, alpha: 6.0, dropout: 0.1 }, 1).unwrap();
            let some = count::parameters(&adapted).into_iter().filter(|p| p.path.ends_with("lora.b"));
            let key = qkv_base::Key::new(5, 0, 0);
            let noise = some.map(|p| (p.path.clone(), key.named(&p.path).normals(p.elements() as usize))).collect();
            let adapted = fill(adapted, noise);
            let out = tempfile::tempdir().unwrap();
            let about = About { base: "base".into(), rank: 2, alpha: 6.0, dropout: 0.1 };
            save(&it, &adapted, &about, out.path()).unwrap();
            let again = load(&it, out.path()).unwrap();
            let say = |m: &Transformer| {
                let logits = m.logits(&Tokens::new(Ids::one([5, 6, 7, 8])), &mut Cx::eval()).unwrap();
                logits.into_data().try_to_vec::<f32>().unwrap()
            };
            // What changes the meaning of the numbers is refused, not passed over.
            let file = out.path().join(CONFIG);
            let text = std::fs::read_to_string(&file).unwrap();
            let with = |key: &str, value: Value| {
                let mut config: Value = serde_json::from_str(&text).unwrap();
                config[key] = value;
                std::fs::write(&file, config.to_string()).unwrap();
                load(&it, out.path()).unwrap_err().to_string()
            };
            assert!(with("bias", json!("all")).contains("biases that learnt"));
            assert!(with("use_dora", json!(true)).contains("use_dora"));
            assert!(with("init_lora_weights", json!("pissa")).contains("below as well"));
            assert!(with("alpha_pattern", json!({"q_proj_": 3})).contains("a pattern names"), "{name}");
            // Where a pattern says the rank of every layer, the common one says nothing.
            let wrong = if name == "gpt2" { ("rank_pattern", json!({})) } else { ("r", json!(8)) };
            assert!(with(wrong.0, wrong.1).contains("rank"), "{name}");
            assert!(with("lora_alpha", json!("1e999")).contains("positive number"));
            let one = if name == "gpt2" { "rank_pattern" } else { "alpha_pattern" };
            let end = if name == "gpt2" { "c_attn" } else { "v_proj" };
            assert!(!with(one, json!({end: 7})).is_empty(), "{name}");
            std::fs::write(&file, &text).unwrap();
            let (a, b, base) = (say(&adapted), say(&again), say(&it.model));
            let far = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far(&a, &b) < 1e-5, "{name}: {}", far(&a, &b));
            assert!(far(&a, &base) > 1e-2, "{name}: the adapter does something");
            let merged = say(&again.merge_lora());
            assert!(far(&a, &merged) < 1e-4, "{name}: merged {}", far(&a, &merged));
        }
    }
}
