//! Norms. First what BatchNorm does to a token because of who else is in the batch, which LayerNorm does not; then the same
//! network learning with LayerNorm, with RMSNorm and with none.

use super::Asked;
use crate::Result;
use crate::compare::{Compared, variations};
use burn::tensor::Tensor;
use qkv_base::Error;
use qkv_insight::page::{Cell, Page, Table};
use qkv_nn::{BatchNorm, Build, Cx, Init, Norm, NormKind, device};

const WIDTH: usize = 16;

fn numbers(x: Tensor<3>) -> Result<Vec<f32>> {
    x.into_data().try_to_vec().map_err(|e| Error::internal("norms", format!("{e:?}")))
}

/// How far b is from a, as a share of a.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x).powi(2);
    let off: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    (off / a.iter().map(|a| square(*a)).sum::<f64>()).sqrt()
}

/// What becomes of one row (8 tokens) in three batches, beside itself alone: (case, BatchNorm, LayerNorm), as a share.
pub(super) fn batches() -> Result<Vec<(&'static str, f64, f64)>> {
    let at = device::default();
    let build = Build::new(&at, 3);
    let (batch, layer) = (BatchNorm::new(&build, WIDTH, 1e-5), Norm::new(&build, WIDTH, NormKind::Layer { eps: 1e-5 }));
    let draw = |name: &str, rows: usize, length: usize| {
        build.param(name, [rows, length, WIDTH], Init::Normal { std: 1.0 }).val()
    };
    let row = draw("row", 1, 8);
    let others = draw("others", 3, 8) * 2.0 + 1.0;
    let padded = Tensor::cat(vec![row.clone(), Tensor::zeros([1, 8, WIDTH], &at)], 1);
    let cases = [
        ("eight paddings behind it, no mask", padded),
        ("three other rows beside it", Tensor::cat(vec![row.clone(), others], 0)),
        ("its first token alone: a batch of 1", row.clone().narrow(1, 0, 1)),
    ];
    let by_batch = |x: Tensor<3>| numbers(batch.forward(x, None, &Cx::train(0, 0)));
    let by_layer = |x: Tensor<3>| numbers(layer.forward(x));
    let alone = (by_batch(row.clone())?, by_layer(row)?);
    let mut all = vec![];
    for (name, x) in cases {
        let n = x.dims()[1].min(8) * WIDTH;
        let off = |alone: &[f32], now: Vec<f32>| apart(&alone[..n], &now[..n]);
        all.push((name, off(&alone.0, by_batch(x.clone())?), off(&alone.1, by_layer(x)?)));
    }
    Ok(all)
}

pub(super) fn run(asked: &mut Asked) -> Result<Compared> {
    let cases = batches()?;
    let row = |(name, batch, layer): &(&str, f64, f64)| {
        (name.to_string(), vec![Cell::number(100.0 * batch, 1), Cell::number(100.0 * layer, 1)])
    };
    let columns = ["BatchNorm, %", "LayerNorm, %"];
    let title = "How far a row comes out from where it comes out alone";
    let table = Table::of(title, "the batch", &columns, cases.iter().map(row).collect());
    let small = ["model.width=64", "model.layers=4", "data.examples=1000"];
    let recipe = asked.recipe("char-gpt", &small)?;
    let compared = asked.compare("norms", &variations(&recipe, &["model.norm=layer,rms,none".into()])?)?;
    let said = compared.finding();
    let trained = compared.page();
    let mut page = Page::new("norms", "Norms, and who else is in the batch", &trained.idea).table(table);
    page = trained.tables().cloned().fold(page, Page::table);
    let most = cases.iter().map(|(_, batch, _)| *batch).fold(0.0, f64::max);
    let layer = cases.iter().map(|(.., layer)| *layer).fold(0.0, f64::max);
    let finding = format!(
        "With BatchNorm a row comes out up to {:.0} % elsewhere because of what else is in its batch, with LayerNorm {:.0} %; in \
         training, {said}",
        100.0 * most,
        100.0 * layer
    );
    Ok(Compared { samples: compared.samples, ..Compared::new(page, finding).charts(compared.charts) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn batch_norm_feels_its_batch_and_layer_norm_does_not() {
        for (name, batch, layer) in super::batches().expect("numbers") {
            assert!(batch > 0.1 && layer < 1e-6, "{name}: {batch} {layer}");
        }
    }
}
