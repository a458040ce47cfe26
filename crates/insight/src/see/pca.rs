//! Principal components: hidden states `[T, C]` drawn in two dimensions, layer by layer. The components of the centred rows
//! come from their Gram matrix `X·Xᵀ` `[T, T]` by power iteration: T is small where C is not.

use qkv_base::{Error, Result};
use qkv_model::outputs::Array;
use rayon::prelude::*;
use serde::Serialize;

/// One layer in two dimensions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plane {
    /// 0 for the embeddings
    pub layer: usize,
    /// a point for each token
    pub points: Vec<[f64; 2]>,
    /// the share of the variance that each axis holds
    pub share: [f64; 2],
}

/// The planes of all layers.
pub fn planes(states: &[Array]) -> Result<Vec<Plane>> {
    states.par_iter().enumerate().map(|(layer, array)| plane(layer, array)).collect()
}

fn plane(layer: usize, states: &Array) -> Result<Plane> {
    let c = states.dims.last().copied().unwrap_or(0);
    let t = states.values.len().checked_div(c).unwrap_or(0);
    if t < 2 {
        return Err(Error::new("pca", format!("there are {t} tokens"), "two tokens are the least that can be drawn"));
    }
    let row = |i: usize| &states.values[i * c..(i + 1) * c];
    let mean: Vec<f64> = (0..c).map(|j| (0..t).map(|i| f64::from(row(i)[j])).sum::<f64>() / t as f64).collect();
    let centred: Vec<Vec<f64>> =
        (0..t).map(|i| row(i).iter().zip(&mean).map(|(x, m)| f64::from(*x) - m).collect()).collect();
    let mut gram = vec![vec![0.0; t]; t];
    for i in 0..t {
        for j in i..t {
            let product: f64 = centred[i].iter().zip(&centred[j]).map(|(a, b)| a * b).sum();
            (gram[i][j], gram[j][i]) = (product, product);
        }
    }
    let total: f64 = (0..t).map(|i| gram[i][i]).sum();
    let mut points = vec![[0.0; 2]; t];
    let mut share = [0.0; 2];
    for axis in 0..2 {
        let (value, vector) = strongest(&gram);
        if value <= 1e-12 * total.max(1e-300) {
            break; // fewer dimensions than two: the points lie on a line
        }
        share[axis] = value / total;
        for i in 0..t {
            points[i][axis] = vector[i] * value.sqrt();
            (0..t).for_each(|j| gram[i][j] -= value * vector[i] * vector[j]);
        }
    }
    Ok(Plane { layer, points, share })
}

/// The largest eigenvalue of a symmetric matrix and its vector; of the two directions the one whose largest entry is
/// positive, so that the picture is the same every time.
fn strongest(matrix: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let t = matrix.len();
    let mut v: Vec<f64> = (0..t).map(|i| 1.0 + 0.37 * (i as f64 * 1.7).sin()).collect();
    let mut value = 0.0;
    for _ in 0..1000 {
        let next: Vec<f64> = matrix.iter().map(|row| row.iter().zip(&v).map(|(a, b)| a * b).sum()).collect();
        let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm == 0.0 {
            return (0.0, v);
        }
        let moved: f64 = next.iter().zip(&v).map(|(n, v)| (n / norm - v).powi(2)).sum();
        v = next.into_iter().map(|x| x / norm).collect();
        value = norm;
        if moved < 1e-24 {
            break;
        }
    }
    let largest = v.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
    if largest < 0.0 {
        v.iter_mut().for_each(|x| *x = -*x);
    }
    (value, v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_have_one_axis() {
        let values: Vec<f32> = (0..4).flat_map(|i| [i as f32, 2.0 * i as f32, 0.0]).collect();
        let plane = plane(0, &Array { dims: vec![1, 4, 3], values }).unwrap();
        assert!((plane.share[0] - 1.0).abs() < 1e-9 && plane.share[1] < 1e-9, "{plane:?}");
        let step = (plane.points[1][0] - plane.points[0][0]).abs();
        assert!((step - 5f64.sqrt()).abs() < 1e-9); // distances stay as they were
    }

    #[test]
    fn distances_in_a_plane_are_kept() {
        let corners: [[f32; 2]; 4] = [[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [3.0, 1.0]];
        let plane = plane(0, &Array { dims: vec![1, 4, 2], values: corners.concat() }).unwrap();
        let distance = |a: [f64; 2], b: [f64; 2]| ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt();
        assert!((distance(plane.points[0], plane.points[3]) - 10f64.sqrt()).abs() < 1e-9);
        assert!((plane.share[0] + plane.share[1] - 1.0).abs() < 1e-9);
    }
}
