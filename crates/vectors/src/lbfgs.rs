//! L-BFGS (Liu and Nocedal 1989): the descent direction from the last few steps and what they did to the gradient, in place
//! of the matrix of second derivatives.
//!
//! ```text
//! d = −H·g        H from the last m pairs  s = x′ − x,  y = g′ − g  by the two-loop recursion
//! step            halved from 1 until  f(x + t·d) ≤ f(x) + 10⁻⁴·t·g·d   (Armijo)
//! ```
//! What is minimised here is convex; a pair that is not curved upwards (rounding) is left out.

/// How far to go.
pub(crate) struct Until {
    /// the largest part of the gradient
    pub(crate) gradient: f64,
    /// steps at most
    pub(crate) steps: usize,
}

/// Minimises `f`, which gives the value and fills the gradient. Returns the point and whether the goal was reached.
pub(crate) fn minimise(
    mut x: Vec<f64>,
    until: &Until,
    mut f: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> (Vec<f64>, bool) {
    const KEPT: usize = 10;
    let n = x.len();
    let mut gradient = vec![0.0; n];
    let mut value = f(&x, &mut gradient);
    let mut pairs: Vec<Pair> = vec![];
    for _ in 0..until.steps {
        if gradient.iter().all(|g| g.abs() <= until.gradient) {
            return (x, true);
        }
        let direction = direction(&gradient, &pairs);
        let slope = dot(&gradient, &direction);
        // Before the first pair nothing is known of the scale: a step of length 1 at most.
        let mut t = if pairs.is_empty() { 1f64.min(1.0 / dot(&gradient, &gradient).sqrt()) } else { 1.0 };
        let (mut next, mut next_gradient, mut next_value);
        loop {
            next = x.iter().zip(&direction).map(|(x, d)| x + t * d).collect::<Vec<f64>>();
            next_gradient = vec![0.0; n];
            next_value = f(&next, &mut next_gradient);
            if next_value <= value + 1e-4 * t * slope {
                break;
            }
            t *= 0.5;
            if t < 1e-20 {
                return (x, false); // no way down: the value is as small as rounding lets it be
            }
        }
        let s: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        let curvature = dot(&s, &y);
        if curvature > 1e-12 * dot(&y, &y) {
            pairs.push(Pair { s, y, curvature });
            if pairs.len() > KEPT {
                pairs.remove(0);
            }
        }
        (x, gradient, value) = (next, next_gradient, next_value);
    }
    (x, false)
}

struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// s·y
    curvature: f64,
}

/// `−H·g` by the two loops.
fn direction(gradient: &[f64], pairs: &[Pair]) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut alphas = vec![];
    for pair in pairs.iter().rev() {
        let alpha = dot(&pair.s, &q) / pair.curvature;
        q.iter_mut().zip(&pair.y).for_each(|(q, y)| *q -= alpha * y);
        alphas.push(alpha);
    }
    if let Some(last) = pairs.last() {
        let scale = last.curvature / dot(&last.y, &last.y);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for (pair, alpha) in pairs.iter().zip(alphas.into_iter().rev()) {
        let beta = dot(&pair.y, &q) / pair.curvature;
        q.iter_mut().zip(&pair.s).for_each(|(q, s)| *q += (alpha - beta) * s);
    }
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_narrow_valley_is_found() {
        // (1 − a)² + 100·(b − a²)²: Rosenbrock's, whose least value is at (1, 1)
        let until = Until { gradient: 1e-9, steps: 200 };
        let (x, done) = minimise(vec![-1.2, 1.0], &until, |x, g| {
            let (a, b) = (x[0], x[1]);
            g[0] = -2.0 * (1.0 - a) - 400.0 * a * (b - a * a);
            g[1] = 200.0 * (b - a * a);
            (1.0 - a).powi(2) + 100.0 * (b - a * a).powi(2)
        });
        assert!(done && (x[0] - 1.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6, "{x:?}");
    }
}
