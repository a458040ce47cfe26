//! Numbers for each head, and attention rollout.
//!
//! Entropy of a row: `−Σ w ln w`, 0 where a head looks at one token, `ln T` where it looks at all alike. Rollout (Abnar and
//! Zuidema 2020): with the residual connection as half of each step, `R = Π ½(mean of heads + 1)`; row i says how much of
//! each input token is in output i, if attention were all that moved it.

use super::look::{Grid, Maps};
use crate::page::{Cell, Table};
use qkv_base::{Error, Result};
use rayon::prelude::*;

/// What one head looks like, over all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadNumbers {
    /// mean entropy of its rows, in nats
    pub entropy: f64,
    /// mean weight on the token before; the first row has none and is left out
    pub previous: f64,
    /// mean weight on the first token
    pub first: f64,
    /// mean weight on the token itself
    pub same: f64,
}

/// The numbers of one map.
pub fn numbers(grid: &Grid) -> HeadNumbers {
    let (rows, n) = (grid.rows.len(), grid.rows.len().max(1) as f64);
    let at = |i: usize, j: usize| f64::from(grid.row(i).get(j).copied().unwrap_or(0.0));
    let entropy =
        |i: usize| grid.row(i).iter().map(|w| f64::from(*w)).filter(|w| *w > 0.0).map(|w| -w * w.ln()).sum::<f64>();
    let square = grid.rows.len() == grid.columns.len();
    let mean = |f: &dyn Fn(usize) -> f64, from: usize| {
        (from..rows).map(f).sum::<f64>() / (rows - from.min(rows)).max(1) as f64
    };
    HeadNumbers {
        entropy: (0..rows).map(entropy).sum::<f64>() / n,
        previous: if square { mean(&|i| at(i, i - 1), 1) } else { f64::NAN },
        first: mean(&|i| at(i, 0), 0),
        same: if square { mean(&|i| at(i, i), 0) } else { f64::NAN },
    }
}

/// Every head of some maps in a table. What cross-attention has no meaning for (the token before, itself) is left out.
pub fn table(maps: &Maps) -> Result<Table> {
    let cross = maps.name == "cross";
    let mut rows = vec![];
    for layer in 0..maps.layers {
        for head in 0..maps.heads {
            let n = numbers(&maps.grid(layer, head)?);
            let shown: Vec<f64> =
                if cross { vec![n.entropy, n.first] } else { vec![n.entropy, n.previous, n.first, n.same] };
            rows.push((format!("{layer}.{head}"), shown.into_iter().map(|v| Cell::number(v, 3)).collect()));
        }
    }
    let most = (maps.keys.len().max(1) as f64).ln();
    let title =
        format!("{}: numbers per head (entropy in nats, at most ln {} = {most:.3})", maps.name, maps.keys.len());
    let columns: &[&str] = if cross { &["entropy", "first"] } else { &["entropy", "previous", "first", "same"] };
    Ok(Table::of(&title, "layer.head", columns, rows))
}

/// Attention rollout through all layers of self-attention.
pub fn rollout(maps: &Maps) -> Result<Grid> {
    let t = maps.queries.len();
    if t != maps.keys.len() || maps.name == "cross" {
        return Err(Error::new("rollout", "is made of self-attention", "choose the maps of an encoder or a decoder"));
    }
    let mut all: Vec<f64> = (0..t * t).map(|i| f64::from(i / t == i % t)).collect();
    for layer in 0..maps.layers {
        let mean = maps.mean(layer)?;
        let mut next = vec![0.0; t * t];
        next.par_chunks_mut(t.max(1)).enumerate().for_each(|(i, next)| {
            let row = mean.row(i);
            let sum: f64 = row.iter().map(|w| f64::from(*w)).sum::<f64>().max(1e-12);
            for k in 0..t {
                let weight = 0.5 * f64::from(row[k]) / sum + 0.5 * f64::from(i == k);
                if weight > 0.0 {
                    next.iter_mut().zip(&all[k * t..]).for_each(|(next, before)| *next += weight * before);
                }
            }
        });
        all = next;
    }
    let title = format!("{}: rollout through {} layers", maps.name, maps.layers);
    let values = all.into_iter().map(|v| v as f32).collect();
    Ok(Grid { title, rows: maps.queries.clone(), columns: maps.keys.clone(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: Vec<f32>, layers: usize) -> Maps {
        let names = vec!["a".to_string(), "b".to_string()];
        let values = values.chunks(4).map(<[f32]>::to_vec).collect();
        Maps { name: "attention".into(), queries: names.clone(), keys: names, layers, heads: 1, values }
    }

    #[test]
    fn a_head_that_looks_back() {
        let n = numbers(&one(vec![1.0, 0.0, 1.0, 0.0], 1).grid(0, 0).unwrap());
        assert_eq!((n.entropy, n.previous, n.first, n.same), (0.0, 1.0, 1.0, 0.5));
        let even = numbers(&one(vec![0.5; 4], 1).grid(0, 0).unwrap());
        assert!((even.entropy - 2f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn rollout_by_hand() {
        // Token b looks at a alone, twice: ½, then ½ + ½·½.
        let maps = one([1.0, 0.0, 1.0, 0.0].repeat(2), 2);
        let grid = rollout(&maps).unwrap();
        assert_eq!(grid.row(1), [0.75, 0.25]);
        assert!((0..2).all(|i| (grid.row(i).iter().sum::<f32>() - 1.0).abs() < 1e-6));
    }
}
