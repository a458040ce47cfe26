//! Small grey pictures of one shape each, in any place, size, turn and light, under noise.
//!
//! A shape is a signed test in its own coordinates: a pixel is carried back by the turn, the size and the place, and
//! asked whether it lies inside; nine samples a pixel make the edges smooth. Held out for the compositional split are
//! combinations of a shape with a size and with light on dark or dark on light.

use super::draw::Draw;
use crate::Example;
use std::f32::consts::TAU;

/// The shapes, in the order of their labels.
pub(super) const LABELS: [&str; 8] = ["circle", "square", "triangle", "cross", "star", "ring", "bar", "crescent"];

/// The same shapes, to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Circle,
    Square,
    Triangle,
    Cross,
    Star,
    Ring,
    Bar,
    Crescent,
}

use Shape::{Bar, Circle, Crescent, Cross, Ring, Square, Star, Triangle};

const SHAPES: [Shape; 8] = [Circle, Square, Triangle, Cross, Star, Ring, Bar, Crescent];

/// Pixels on a side.
const SIDE: usize = 32;

pub(super) fn example(draw: &mut Draw) -> Example {
    let shape = draw.pick(&SHAPES);
    let label = LABELS[shape as usize];
    let (size, name) = draw.pick(&[(6.0, "small"), (8.5, "middling"), (11.0, "large")]);
    let (ground, ink, light) = draw.pick(&[(40.0, 210.0, "light on dark"), (210.0, 40.0, "dark on light")]);
    draw.join(label, &format!("{name}, {light}"));
    let radius = size + 2.0 * draw.unit();
    let free = SIDE as f32 - 2.0 * (radius + 1.0);
    let centre = [0; 2].map(|_| radius + 1.0 + free * draw.unit());
    let (sin, cos) = (TAU * draw.unit()).sin_cos();
    let (ground, ink) = (ground + 60.0 * (draw.unit() - 0.5), ink + 60.0 * (draw.unit() - 0.5));
    let grain = 8.0 + 24.0 * draw.unit();
    let hit = |x: f32, y: f32| inside(shape, (cos * x + sin * y) / radius, (cos * y - sin * x) / radius);
    let mut pixels = Vec::with_capacity(SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let covered = coverage(x as f32 + 0.5 - centre[0], y as f32 + 0.5 - centre[1], radius, hit);
            let noise = grain * (draw.unit() + draw.unit() - 1.0); // a triangle: most noise is small
            pixels.push((ground + (ink - ground) * covered + noise).clamp(0.0, 255.0) as u8);
        }
    }
    Example::Image { width: SIDE, height: SIDE, channels: 1, pixels, label: label.to_owned() }
}

/// The share of a pixel, its middle being at (x, y) from the shape's, that the shape covers.
fn coverage(x: f32, y: f32, radius: f32, hit: impl Fn(f32, f32) -> bool) -> f32 {
    if x * x + y * y > (radius + 1.0) * (radius + 1.0) {
        return 0.0;
    }
    const THIRDS: [f32; 3] = [-1.0 / 3.0, 0.0, 1.0 / 3.0];
    let samples = THIRDS.iter().flat_map(|dy| THIRDS.iter().map(move |dx| (x + dx, y + dy)));
    samples.filter(|&(x, y)| hit(x, y)).count() as f32 / 9.0
}

/// Whether a point, the shape's outermost point being at distance one, lies in the shape.
fn inside(shape: Shape, x: f32, y: f32) -> bool {
    let r = (x * x + y * y).sqrt();
    match shape {
        Circle => r < 0.95,
        Square => x.abs().max(y.abs()) < 0.7,
        Triangle => y > -0.5 && y < 1.0 - 1.732 * x.abs(),
        Cross => x.abs().max(y.abs()) < 0.95 && x.abs().min(y.abs()) < 0.28,
        Star => {
            // The five arms are one: fold the angle into half an arm, whose edge is a straight line.
            let angle = (y.atan2(x).rem_euclid(TAU / 5.0) - TAU / 10.0).abs();
            let (tip, notch) = (1.0, 0.4);
            let (a, b) = (r * (TAU / 10.0 - angle).cos(), r * (TAU / 10.0 - angle).sin());
            let (nx, ny) = (notch * (TAU / 10.0).cos(), notch * (TAU / 10.0).sin());
            (a - tip) * ny - b * (nx - tip) < 0.0
        }
        Ring => (0.55..0.95).contains(&r),
        Bar => x.abs() < 0.95 && y.abs() < 0.28,
        Crescent => r < 0.95 && (x - 0.45) * (x - 0.45) + y * y > 0.75 * 0.75,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    /// The share of the disc of radius one that a shape covers.
    fn area(shape: Shape) -> f32 {
        let points = (0..200).flat_map(|i| (0..200).map(move |j| (i as f32 / 100.0 - 1.0, j as f32 / 100.0 - 1.0)));
        points.filter(|&(x, y)| inside(shape, x, y)).count() as f32 / 10_000.0
    }

    #[test]
    fn shapes_have_the_area_of_their_formulas() {
        let pi = std::f32::consts::PI;
        for (shape, want) in [
            (Circle, pi * 0.95 * 0.95),
            (Square, 1.96),
            (Triangle, 1.299),
            (Cross, 2.0 * 1.9 * 0.56 - 0.56 * 0.56),
            // ten triangles between the centre, a tip and a notch
            (Star, 5.0 * 1.0 * 0.4 * (TAU / 10.0).sin()),
            (Ring, pi * (0.95 * 0.95 - 0.55 * 0.55)),
            (Bar, 1.9 * 0.56),
        ] {
            assert!((area(shape) - want).abs() < 0.03, "{shape:?}: {} for {want}", area(shape));
        }
        for (shape, label) in SHAPES.into_iter().zip(LABELS) {
            assert_eq!(format!("{shape:?}").to_lowercase(), label);
        }
        assert!((0.5..1.9).contains(&area(Crescent)));
    }

    #[test]
    fn the_ink_is_in_the_picture() {
        for example in Corpus::Shapes.examples(1, Split::Train).take(100) {
            let Example::Image { pixels, width, height, channels, label } = example else { panic!() };
            assert_eq!(pixels.len(), width * height * channels);
            // Shape and ground differ by more than the noise: the spread of the pixels shows it.
            let mean = pixels.iter().map(|&p| p as f32).sum::<f32>() / pixels.len() as f32;
            let spread = pixels.iter().map(|&p| (p as f32 - mean).powi(2)).sum::<f32>() / pixels.len() as f32;
            assert!(spread.sqrt() > 15.0, "{label}: {}", spread.sqrt());
        }
    }
}
