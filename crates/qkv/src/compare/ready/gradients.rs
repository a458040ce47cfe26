//! How far back an output feels its inputs: `‖∂h_T / ∂x_t‖` over the distance T − t, of networks as they start.
//!
//! In an RNN every step back multiplies by `diag(1 − h²)·Wₕ`: with small weights the product vanishes, with large ones it
//! explodes. A GRU and an LSTM have a way past that product, which is as open as their gates are. Attention looks at every
//! input directly: the distance is one step, however far it is.

use super::Asked;
use crate::Result;
use crate::compare::Compared;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_base::Error;
use qkv_insight::page::{Cell, Page, Table};
use qkv_kernels::Ids;
use qkv_model::families::{self, Sheet, Sizes};
use qkv_model::spec::{Head, Spec};
use qkv_model::{CausalLm, Tokens, Transformer};
use qkv_nn::{Build, Cx, Init, MapParam, device, map_params};
use qkv_report::{Chart, Scale, Series};

const LENGTH: usize = 64;
const WIDTH: usize = 64;
/// Directions in which the last output is looked at.
const LOOKS: usize = 4;
const DISTANCES: [usize; 6] = [1, 4, 8, 16, 32, 63];

/// Weights from state to state, so many times as large.
struct Louder(f64);

impl MapParam for Louder {
    fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if path.ends_with("state.weight") { param.map(|w| w * self.0) } else { param }
    }
}

/// What comes out are hidden states.
fn spec(sheet: &Sheet) -> Result<Spec> {
    let heads = if families::free(sheet).is_some() { 4 } else { 1 };
    let spec = (sheet.sizes)(&Sizes::of_tokens(8, WIDTH, 1, heads, LENGTH))?;
    Ok(Spec { head: Head::None, ..spec })
}

/// `‖∂h_T / ∂x_t‖` for every distance from 0 to T − 1, by a few random directions of h_T.
fn reach(model: &Transformer, seed: u64) -> Result<Vec<f64>> {
    let at = device::trainable("cpu")?;
    let build = Build::new(&at, seed);
    let model = model.clone().no_grad();
    let mut squares = vec![0.0; LENGTH];
    for look in 0..LOOKS {
        let x = build.param(&format!("x.{look}"), [1, LENGTH, WIDTH], Init::Normal { std: 1.0 }).val();
        let r = build.param(&format!("r.{look}"), [1, 1, WIDTH], Init::Normal { std: 1.0 }).val();
        let tokens = Tokens::new(Ids::one(vec![0; LENGTH])).with_vectors(x.clone());
        let h = model.logits(&tokens, &mut Cx::eval())?; // [1, T, C]
        let grads = (h.narrow(1, LENGTH - 1, 1) * r).sum().backward();
        let grad = x.grad(&grads).ok_or_else(|| Error::internal("gradients", "nothing reached the input"))?;
        let values: Vec<f32> =
            grad.into_data().try_to_vec().map_err(|e| Error::internal("gradients", format!("{e:?}")))?;
        for (t, token) in values.chunks(WIDTH).enumerate() {
            squares[LENGTH - 1 - t] += token.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>() / LOOKS as f64;
        }
    }
    Ok(squares.into_iter().map(f64::sqrt).collect())
}

/// Every network with its name.
fn networks(seed: u64) -> Result<Vec<(&'static str, Transformer)>> {
    let at = device::trainable("cpu")?;
    let new = |sheet: &Sheet| Transformer::new(&spec(sheet)?, seed, &at);
    let plain = new(&families::rnn::SHEET)?;
    let loud = map_params(plain.clone(), &mut Louder(4.0));
    let lstm = new(&families::lstm::SHEET)?;
    let mut open = lstm.clone();
    if let Some(stack) = &mut open.decoder {
        stack.lstm = stack.lstm.take().map(|net| net.with_forget_bias(5.0));
    }
    Ok(vec![
        ("RNN", plain),
        ("RNN, weights × 4", loud),
        ("GRU", new(&families::gru::SHEET)?),
        ("LSTM", lstm),
        ("LSTM, gates open", open),
        ("attention", new(&families::gpt2::SHEET)?),
    ])
}

/// A number in few digits, over many powers of ten.
fn short(x: f64) -> String {
    if (0.01..1000.0).contains(&x) { format!("{x:.2}") } else { format!("{x:.0e}") }
}

pub(super) fn run(_: &mut Asked) -> Result<Compared> {
    let mut all = vec![];
    for (name, model) in networks(1)? {
        all.push((name, reach(&model, 7)?));
    }
    let row =
        |(name, norms): &(&str, Vec<f64>)| (name.to_string(), DISTANCES.map(|d| Cell::Text(short(norms[d]))).to_vec());
    let columns = DISTANCES.map(|d| format!("{d} back"));
    let table = Table::of("Norm of the gradient", "", &columns, all.iter().map(row).collect());
    let idea = format!(
        "How much the last of {LENGTH} outputs changes with each input, in networks of {WIDTH} units as they start, one layer each."
    );
    let page = Page::new("gradients", "How far back an output feels", &idea).formula("‖∂h_T / ∂x_t‖").table(table);
    let ratio = |name: &str| {
        let norms = all.iter().find(|(n, _)| *n == name).map(|(_, norms)| norms.as_slice()).unwrap_or(&[]);
        norms.last().copied().unwrap_or(f64::NAN) / norms.get(1).copied().unwrap_or(f64::NAN)
    };
    let names = ["RNN", "RNN, weights × 4", "GRU", "LSTM", "LSTM, gates open", "attention"];
    let told: Vec<String> = names.iter().map(|name| format!("{} in {name}", short(ratio(name)))).collect();
    let finding = format!(
        "From 1 to {} steps back the gradient is multiplied by {}: what it takes to reach far is a way that does not multiply, \
         a gate that stays open or a look that goes there directly.",
        LENGTH - 1,
        told.join(", ")
    );
    let series = all.into_iter().map(|(name, norms)| Series {
        name: name.into(),
        points: norms.into_iter().enumerate().map(|(d, n)| (d as f64, n)).collect(),
    });
    let chart = Chart {
        title: "Norm of the gradient".into(),
        series: series.collect(),
        scale: Scale::Log,
        across: "steps back".into(),
    };
    Ok(Compared::new(page, finding).charts(vec![chart]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the sentence claims holds: the RNN's gradient vanishes, a loud one's does not, open gates and attention reach far.
    #[test]
    fn gradients_vanish_where_steps_multiply() {
        let far = |model: &Transformer| {
            let norms = reach(model, 7).expect("norms");
            norms[LENGTH - 1] / norms[1]
        };
        let all: Vec<(&str, f64)> =
            networks(1).expect("networks").iter().map(|(name, model)| (*name, far(model))).collect();
        let of = |name: &str| all.iter().find(|(n, _)| *n == name).expect("a network").1;
        assert!(of("RNN") < 1e-8, "{all:?}");
        assert!(of("RNN, weights × 4") > 1.0, "{all:?}");
        assert!(of("LSTM") > of("RNN") && of("LSTM, gates open") > 0.1, "{all:?}");
        assert!(of("attention") > 0.1, "{all:?}");
    }
}
