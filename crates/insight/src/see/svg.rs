//! Pictures for a paper: one map with names and numbers, all heads side by side, points of a plane, patches over a picture.
//! Plain SVG: nothing is loaded, text stays text, and every cell says its number to who points at it.

use super::given::Given;
use super::look::{Grid, Maps};
use super::pca::Plane;
use crate::render::color::{cividis, hex, lightness};
use qkv_base::{Result, escape_html};
use std::fmt::Write;

const FONT: &str = "font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\"";
/// What the names of layers take.
const LEFT: f64 = 76.0;
/// The width of a character at font size 12, as near as a file can know.
const LETTER: f64 = 7.3;

fn file(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escape_html(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn longest(names: &[String]) -> f64 {
    let width = |n: &String| unicode_width::UnicodeWidthStr::width(n.as_str());
    names.iter().map(width).max().unwrap_or(0) as f64 * LETTER
}

/// The room that a title takes.
fn written(title: &str) -> f64 {
    unicode_width::UnicodeWidthStr::width(title) as f64 * LETTER + 24.0
}

/// How a number becomes a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// weights from 0 to 1, by their root, so that small ones are told apart
    Root,
    /// anything: the smallest dark, the largest light
    Range,
}

/// How a grid is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// its colours
    pub shade: Shade,
    /// decimals of its numbers
    pub decimals: usize,
    /// whether the sum of each row stands behind it
    pub sums: bool,
}

/// One grid of weights: rows and columns with their names, the number in each cell where there is room for it.
pub fn grid(grid: &Grid) -> String {
    grid_as(grid, Drawn { shade: Shade::Root, decimals: 2, sums: false })
}

/// One grid, drawn as `how` says.
pub fn grid_as(grid: &Grid, how: Drawn) -> String {
    let (rows, columns) = (grid.rows.len(), grid.columns.len());
    let least = grid.values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = grid.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shade = |value: f32| match how.shade {
        Shade::Root => f64::from(value).max(0.0).sqrt(),
        Shade::Range => f64::from((value - least) / (most - least).max(f32::MIN_POSITIVE)),
    };
    let decimals = how.decimals;
    let numbers = rows * columns <= 400;
    let cell = if numbers { 40.0 } else { (900.0 / columns.max(rows).max(1) as f64).clamp(4.0, 24.0) };
    let (left, top) = (longest(&grid.rows) + 16.0, longest(&grid.columns) * 0.75 + 44.0);
    let mut body = format!(
        "<g {FONT} font-size=\"12\" fill=\"#111111\">\n<text x=\"8\" y=\"18\">{}</text>\n",
        escape_html(&grid.title)
    );
    let named = cell >= 10.0;
    for (j, name) in grid.columns.iter().enumerate().filter(|_| named) {
        let (x, y) = (left + (j as f64 + 0.5) * cell, top - 6.0);
        let _ = writeln!(
            body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-45 {x:.1} {y:.1})\">{}</text>",
            escape_html(name)
        );
    }
    for i in 0..rows {
        let y = top + i as f64 * cell;
        if named {
            let _ = writeln!(
                body,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + cell / 2.0 + 4.0,
                escape_html(&grid.rows[i])
            );
        }
        for (j, value) in grid.row(i).iter().enumerate() {
            let colour = cividis(shade(*value));
            let x = left + j as f64 * cell;
            let told = format!("{} → {}: {value:.4}", grid.rows[i], grid.columns[j]);
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{cell:.1}\" height=\"{cell:.1}\" \
        fill=\"{}\"><title>{}</title></rect>",
                hex(colour),
                escape_html(&told)
            );
            if numbers {
                let ink = if lightness(colour) > 0.5 { "#000000" } else { "#ffffff" };
                let _ = write!(
                    body,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" \
        fill=\"{ink}\">{}</text>",
                    x + cell / 2.0,
                    y + cell / 2.0 + 4.0,
                    crate::page::shown(f64::from(*value), decimals)
                );
            }
            body.push('\n');
        }
        if how.sums {
            let sum: f64 = grid.row(i).iter().map(|v| f64::from(*v)).sum();
            let (x, y) = (left + columns as f64 * cell + 10.0, y + cell / 2.0 + 4.0);
            let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\">Σ {}</text>", crate::page::shown(sum, decimals));
        }
    }
    body.push_str("</g>\n");
    let room = if how.sums { 84.0 } else { 40.0 };
    file(
        (left + columns as f64 * cell + room).max(written(&grid.title)),
        top + rows as f64 * cell + 16.0,
        &grid.title,
        &body,
    )
}

/// A grid of many cells as pixels of a chosen size: its colours in 64 steps, runs of one colour in one stroke, so that the file
/// stays small. Every `every`th row and column has its name.
pub fn pixels(grid: &Grid, [wide, high]: [f64; 2], every: usize) -> String {
    const STEPS: usize = 64;
    let columns = grid.columns.len().max(1);
    let least = grid.values.iter().copied().fold(f32::INFINITY, f32::min);
    let most = grid.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let step = |v: f32| ((v - least) / (most - least).max(f32::MIN_POSITIVE) * (STEPS - 1) as f32).round() as usize;
    let mut strokes = vec![String::new(); STEPS];
    for (i, row) in grid.values.chunks(columns).enumerate() {
        let mut from = 0;
        for j in 1..=columns {
            if j == columns || step(row[j]) != step(row[from]) {
                let _ = write!(strokes[step(row[from]).min(STEPS - 1)], "M{from} {i}h{}v1H{from}z", j - from);
                from = j;
            }
        }
    }
    let (left, top) = (longest(&grid.rows) + 16.0, 44.0);
    let mut body = format!(
        "<g {FONT} font-size=\"12\" fill=\"#111111\">\n<text x=\"8\" y=\"18\">{}</text>\n",
        escape_html(&grid.title)
    );
    for (j, name) in grid.columns.iter().enumerate().step_by(every.max(1)) {
        let x = left + (j as f64 + 0.5) * wide;
        let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"38\" text-anchor=\"middle\">{}</text>", escape_html(name));
    }
    for (i, name) in grid.rows.iter().enumerate().step_by(every.max(1)) {
        let y = top + (i as f64 + 0.5) * high + 4.0;
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            escape_html(name)
        );
    }
    let _ = writeln!(
        body,
        "</g>\n<g transform=\"translate({left:.1} {top:.1}) scale({wide} {high})\" shape-rendering=\"crispEdges\">"
    );
    for (i, stroke) in strokes.iter().enumerate().filter(|(_, stroke)| !stroke.is_empty()) {
        let colour = hex(cividis(i as f64 / (STEPS - 1) as f64));
        let _ = writeln!(body, "<path fill=\"{colour}\" d=\"{stroke}\"/>");
    }
    body.push_str("</g>\n");
    let width = (left + columns as f64 * wide + 24.0).max(written(&grid.title));
    file(width, top + grid.rows.len() as f64 * high + 16.0, &grid.title, &body)
}

/// Pictures one beside the other, as one.
pub fn beside(title: &str, pictures: &[String]) -> String {
    let size = |svg: &str, what: &str| -> f64 {
        let number = svg.split_once(&format!(" {what}=\"")).and_then(|(_, rest)| rest.split('"').next());
        number.and_then(|n| n.parse().ok()).unwrap_or(0.0)
    };
    let (mut body, mut x) = (String::new(), 0.0);
    for picture in pictures {
        body += &picture.replacen("<svg ", &format!("<svg x=\"{x:.0}\" y=\"0\" "), 1);
        x += size(picture, "width") + 16.0;
    }
    let high = pictures.iter().map(|p| size(p, "height")).fold(0.0, f64::max);
    file(x - 16.0, high, title, &body)
}

/// All heads of some maps, a row for each layer.
pub fn heads(maps: &Maps) -> Result<String> {
    let (tq, tk) = (maps.queries.len(), maps.keys.len());
    let title = format!("{}: {} layers × {} heads, {tq} × {tk} tokens", maps.name, maps.layers, maps.heads);
    let rows: Vec<String> = (0..maps.layers).map(|layer| format!("layer {layer}")).collect();
    small_maps(maps, &title, &rows)
}

/// Small maps side by side: a column for each head, a row of this name for each layer (or whatever stands in its place).
pub fn small_maps(maps: &Maps, title: &str, rows: &[String]) -> Result<String> {
    let (tq, tk) = (maps.queries.len().max(1), maps.keys.len().max(1));
    let pixel = (120.0 / tq.max(tk) as f64).clamp(1.0, 16.0);
    let (w, h) = (tk as f64 * pixel + 14.0, tq as f64 * pixel + 14.0);
    let left = (longest(rows) + 16.0).max(LEFT);
    let mut body =
        format!("<g {FONT} font-size=\"12\" fill=\"#111111\"><text x=\"8\" y=\"18\">{}</text>", escape_html(title));
    for head in 0..maps.heads {
        let _ = write!(body, "<text x=\"{:.1}\" y=\"40\">{head}</text>", left + head as f64 * w);
    }
    for layer in 0..maps.layers {
        let y0 = 48.0 + layer as f64 * h;
        let name = rows.get(layer).map_or(String::new(), |name| escape_html(name));
        let _ = write!(body, "<text x=\"8\" y=\"{:.1}\">{name}</text>", y0 + h / 2.0);
        for head in 0..maps.heads {
            let (grid, x0) = (maps.grid(layer, head)?, left + head as f64 * w);
            let _ = writeln!(body, "<g><title>{name}, head {head}</title>");
            for i in 0..tq {
                for (j, value) in grid.row(i).iter().enumerate() {
                    let colour = hex(cividis(f64::from(*value).max(0.0).sqrt()));
                    let (x, y) = (x0 + j as f64 * pixel, y0 + i as f64 * pixel);
                    let _ = write!(
                        body,
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{pixel:.1}\" height=\"{pixel:.1}\" fill=\"{colour}\"/>"
                    );
                }
            }
            body.push_str("</g>\n");
        }
    }
    body.push_str("</g>\n");
    Ok(file((left + 10.0 + maps.heads as f64 * w).max(written(title)), 60.0 + maps.layers as f64 * h, title, &body))
}

/// Hidden states in two dimensions, one plane for each layer.
pub fn planes(tokens: &[String], planes: &[Plane]) -> String {
    let (size, margin) = (260.0, 34.0);
    let across = planes.len().clamp(1, 4);
    let mut body = format!("<g {FONT} font-size=\"11\" fill=\"#111111\">\n");
    for (n, plane) in planes.iter().enumerate() {
        let (x0, y0) =
            ((n % across) as f64 * (size + margin) + margin / 2.0, (n / across) as f64 * (size + margin) + margin);
        let name = if plane.layer == 0 { "input".to_string() } else { format!("layer {}", plane.layer - 1) };
        let _ = writeln!(
            body,
            "<text x=\"{x0:.1}\" y=\"{:.1}\">{name}: {:.0} % + {:.0} % of the variance</text><rect \
        x=\"{x0:.1}\" y=\"{y0:.1}\" width=\"{size}\" height=\"{size}\" fill=\"none\" \
        stroke=\"#999999\"/>",
            y0 - 6.0,
            100.0 * plane.share[0],
            100.0 * plane.share[1]
        );
        let bound = |axis: usize| plane.points.iter().map(|p| p[axis].abs()).fold(1e-9, f64::max);
        let reach = bound(0).max(bound(1));
        for (i, point) in plane.points.iter().enumerate() {
            let (x, y) =
                (x0 + size / 2.0 + point[0] / reach * size * 0.42, y0 + size / 2.0 - point[1] / reach * size * 0.42);
            let colour = hex(cividis(i as f64 / plane.points.len().max(2) as f64 * 0.85));
            let token = tokens.get(i).map_or("", String::as_str);
            let _ = writeln!(
                body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/><text x=\"{:.1}\" \
        y=\"{:.1}\">{}</text>",
                x + 5.0,
                y + 4.0,
                escape_html(token)
            );
        }
    }
    body.push_str("</g>\n");
    let down = planes.len().div_ceil(across);
    file(
        across as f64 * (size + margin) + margin,
        down as f64 * (size + margin) + margin,
        "hidden states, principal components of each layer",
        &body,
    )
}

/// How the class token looks at the patches, over the picture: one panel for each head of a layer. The picture's lightness
/// is grey, the weight the opacity of yellow over it.
pub fn patches(given: &Given, maps: &Maps, layer: usize) -> Result<String> {
    let Given::Picture { size, patch, light, .. } = given else {
        return Err(qkv_base::Error::new("patches", "this model reads no pictures", "choose a ViT"));
    };
    let (panel, side) = (200.0, size / (*patch).max(1));
    let pixel = panel / *size as f64;
    let mut body = format!("<g {FONT} font-size=\"12\" fill=\"#111111\">\n");
    for head in 0..maps.heads {
        let x0 = 12.0 + head as f64 * (panel + 16.0);
        let grid = maps.grid(layer, head)?;
        let seen = grid.row(0).get(1..).unwrap_or(&[]);
        let most = seen.iter().copied().fold(1e-9f32, f32::max);
        let _ = writeln!(body, "<text x=\"{x0:.1}\" y=\"18\">layer {layer}, head {head}</text>");
        for (i, v) in light.iter().enumerate() {
            let grey = (v * 255.0).round().clamp(0.0, 255.0) as u8;
            let _ = write!(
                body,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{pixel:.2}\" height=\"{pixel:.2}\" \
        fill=\"#{grey:02x}{grey:02x}{grey:02x}\"/>",
                x0 + (i % size) as f64 * pixel,
                28.0 + (i / size) as f64 * pixel
            );
        }
        body.push('\n');
        for (p, w) in seen.iter().enumerate() {
            let (x, y, s) = (
                x0 + (p % side) as f64 * pixel * *patch as f64,
                28.0 + (p / side) as f64 * pixel * *patch as f64,
                pixel * *patch as f64,
            );
            let _ = writeln!(
                body,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{s:.2}\" height=\"{s:.2}\" fill=\"#ffea46\" \
        fill-opacity=\"{:.3}\" stroke=\"#00204c\" stroke-width=\"0.5\"><title>patch {}: \
        {w:.4}</title></rect>",
                0.8 * w / most,
                grid.columns[p + 1]
            );
        }
    }
    body.push_str("</g>\n");
    Ok(file(
        12.0 + maps.heads as f64 * (panel + 16.0),
        panel + 44.0,
        &format!("class token on patches, layer {layer}"),
        &body,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_a_cell_for_each_number_and_escapes_names() {
        let g = Grid {
            title: "a<b".into(),
            rows: vec!["x&".into()],
            columns: vec!["<s>".into(), "y".into()],
            values: vec![0.25, 0.75],
        };
        let svg = grid(&g);
        assert_eq!(svg.matches("<rect x=").count(), 2);
        assert!(svg.contains("a&lt;b") && svg.contains("&lt;s&gt;") && svg.contains("0.25") && !svg.contains("<s>"));
    }
}
