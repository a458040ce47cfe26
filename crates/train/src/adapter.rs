//! LoRA adapters in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Names come from the family's own table: our `decoder.layers.0.attention.q` is theirs
//! `base_model.model.model.decoder.layers.0.self_attn.q_proj`, with `lora_A.weight` `[r, in]` and `lora_B.weight`
//! `[out, r]`. Where a family keeps queries, keys and values in one matrix (GPT-2), their adapters become one:
//! A's are stacked, B's stand on a diagonal, and α grows with the rank so that `α/r` stays.

use qkv_base::{Error, Kind, Result};
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

/// Puts the adapter in `dir` around the layers of a network, and the parameters that learnt whole in their places.
pub fn load(it: &Pretrained, dir: &Path) -> Result<Transformer> {
    let place = dir.join(CONFIG).display().to_string();
    let fail = |what: String, hint: &str| Error::new(&place, what, hint);
    let bytes = std::fs::read(dir.join(CONFIG))
        .map_err(|e| fail(e.to_string(), "is this a directory of PEFT's?").of_kind(Kind::of_read(&e)))?;
    let config: Value =
        serde_json::from_slice(&bytes).map_err(|e| fail(format!("is not JSON: {e}"), "is it whole?"))?;
    if config["peft_type"] != "LORA" || config["use_dora"] == true || config["use_rslora"] == true {
        return Err(fail("is not a plain LoRA adapter".into(), "only LoRA without DoRA and rsLoRA is read"));
    }
    let number =
        |key: &str| config[key].as_f64().filter(|n| *n > 0.0).ok_or_else(|| fail(format!("{key} is missing"), ""));
    let (rank, alpha) = (number("r")?, number("lora_alpha")?);
    let file = Checkpoint::open(dir.join(FILE))?;
    let (mut layers, mut values, mut ranks) = (vec![], BTreeMap::new(), BTreeSet::new());
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
        used.extend([a, b]);
    }
    if let Some(lost) = file.entries().iter().find(|e| !used.contains(&e.name)) {
        let what = format!("`{}` belongs to no layer of this network", lost.name);
        return Err(fail(what, "was the adapter made for another network?"));
    }
    let [r] = ranks.iter().copied().collect::<Vec<_>>()[..] else {
        return Err(fail("adapters of different ranks are not read".into(), "use one rank for all layers"));
    };
    // Fused matrices carry the sum of the ranks, and an α that grew with it: α/r is what counts.
    let scale = match config["alpha_pattern"].as_object().and_then(|m| m.values().next()).and_then(Value::as_f64) {
        Some(alpha) if r as f64 != rank => alpha / r as f64,
        _ => alpha / rank,
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
            let (a, b, base) = (say(&adapted), say(&again), say(&it.model));
            let far = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far(&a, &b) < 1e-5, "{name}: {}", far(&a, &b));
            assert!(far(&a, &base) > 1e-2, "{name}: the adapter does something");
            let merged = say(&again.merge_lora());
            assert!(far(&a, &merged) < 1e-4, "{name}: merged {}", far(&a, &merged));
        }
    }
}
