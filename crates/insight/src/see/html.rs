//! Everything in one file that asks nothing of anybody: the maps as bytes of √p (off by at most 1/510 of √p), deflated, in
//! base64 inside a script of plain text, unpacked by the browser's own `DecompressionStream`; drawn on canvas, with a real
//! table for the chosen row. The state stands after `#`, so that a link shows what was seen.
//!
//! The bytes: a length (u32, little-endian), so many bytes of JSON that say which maps there are, then their weights.

use super::look::{Grid, Maps};
use super::svg;
use super::view::{Seen, View};
use crate::render::color::stops;
use crate::render::html::table;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::ZlibEncoder};
use qkv_base::{Error, Result, escape_html};
use qkv_report::{Frame, scrolling};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

/// A file may be so large, in bytes.
pub const BUDGET: usize = 1_500_000;

const SCRIPT: &str = include_str!("see.js");
const STYLE: &str = include_str!("see.css");

/// The whole file.
pub fn page(seen: &Seen) -> Result<String> {
    let title = format!("{}: {}", seen.family, seen.model);
    let mut header = format!("<p class=\"tokens\" dir=\"auto\">{}</p>\n", chips(&seen.tokens));
    if !seen.target.is_empty() {
        let _ = writeln!(header, "<p class=\"tokens\" dir=\"auto\">→ {}</p>", chips(&seen.target));
    }
    let notes: String = seen.notes.iter().map(|n| format!("<li>{}</li>", escape_html(n))).collect();
    let _ = write!(header, "<ul class=\"notes\">{notes}</ul>");
    let mut frame = Frame::new("qkv see", &title).header(&header).style(STYLE);
    let mut body = String::new();
    let canvases = canvases(seen);
    if !canvases.is_empty() {
        body.push_str(MAPS);
        frame = frame.script(&packed(&canvases)?, SCRIPT);
    }
    for (view, heading) in HEADINGS {
        let tables: String = seen.tables.iter().filter(|(v, _)| v == view).map(|(_, t)| table(t)).collect();
        // Maps have a canvas, and patches a picture of their own.
        let drawn = |v: View, g: &Grid| v == *view && !matches!(v, View::Maps | View::Patches) && !is_large(v, g);
        let mut grids: String = seen.grids.iter().filter(|(v, g)| drawn(*v, g)).map(|(_, g)| svg::grid(g)).collect();
        if *view == View::Patches {
            grids.extend(seen.picture.clone());
        }
        let planes = if *view == View::Pca && !seen.planes.is_empty() {
            svg::planes(&seen.shown, &seen.planes)
        } else {
            String::new()
        };
        if !(tables.is_empty() && grids.is_empty() && planes.is_empty()) {
            let drawn: String = [grids, planes]
                .iter()
                .filter(|p| !p.is_empty())
                .map(|p| scrolling(&format!("{heading}, drawn"), &format!("<div class=\"picture\">{p}</div>")))
                .collect();
            let _ = writeln!(body, "<section><h2>{heading}</h2>{drawn}{tables}</section>");
        }
    }
    let file = frame.page(&body);
    if file.len() > BUDGET {
        let tokens = seen.maps.iter().map(|m| m.queries.len().max(m.keys.len())).max().unwrap_or(0);
        let what = format!(
            "the file would have {:.1} MB, its budget is {:.1} MB; there are maps of {tokens} tokens",
            file.len() as f64 / 1e6,
            BUDGET as f64 / 1e6
        );
        return Err(Error::new("html", what, "show a part: --window 0..64, or --kind for one kind of maps"));
    }
    Ok(file)
}

const HEADINGS: &[(View, &str)] = &[
    (View::Align, "Alignment"),
    (View::Patches, "Patches"),
    (View::Loss, "Loss of each token"),
    (View::Lens, "Logit lens"),
    (View::Gradients, "What the answer hangs on"),
    (View::Rollout, "Attention rollout"),
    (View::Pca, "Hidden states"),
    (View::Heads, "Numbers per head"),
    (View::Neurons, "One row, feature by feature"),
];

const MAPS: &str = "<section aria-labelledby=\"maps-title\"><h2 id=\"maps-title\">Attention maps</h2>
<div class=\"controls\"><label>maps <select id=\"kind\"></select></label> <label>layer <select id=\"layer\"></select></label> <label>head <select id=\"head\"></select></label>
<span class=\"keys\">Arrow keys: rows on the map, heads and layers on the overview.</span></div>
<div class=\"panes\"><figure><figcaption>all heads, a row for each layer</figcaption><canvas id=\"all\" tabindex=\"0\" role=\"img\" aria-label=\"overview of all heads\"></canvas></figure>
<figure><figcaption id=\"caption\">one head</figcaption><div class=\"labelled\"><div id=\"names\" aria-hidden=\"true\"></div><canvas id=\"map\" tabindex=\"0\" role=\"img\" aria-label=\"one attention map\"></canvas></div>
<div class=\"scale\"><span>0</span><canvas id=\"scale\" width=\"160\" height=\"10\" role=\"img\" aria-label=\"colour scale from 0, dark blue, to 1, yellow, drawn as the root of the weight\"></canvas><span>1</span></div></figure>
<div class=\"scroll row\" tabindex=\"0\" role=\"group\" aria-label=\"weights of the chosen row\"><table id=\"row\"></table></div></div>
<p id=\"status\" role=\"status\"></p></section>
";

/// Grids beyond so many cells are drawn on the canvas, with the maps: a picture of each cell would burst the file.
const LARGE: usize = 400;

fn is_large(view: View, grid: &Grid) -> bool {
    matches!(view, View::Rollout | View::Align) && grid.values.len() > LARGE
}

/// The maps, and large grids as maps of one head.
fn canvases(seen: &Seen) -> Vec<Cow<'_, Maps>> {
    let large = seen.grids.iter().filter(|(v, g)| is_large(*v, g)).map(|(v, g)| {
        let name = if *v == View::Rollout { "rollout" } else { "alignment" };
        let (queries, keys, values) = (g.rows.clone(), g.columns.clone(), vec![g.values.clone()]);
        Cow::Owned(Maps { name: name.into(), queries, keys, layers: 1, heads: 1, values })
    });
    seen.maps.iter().map(Cow::Borrowed).chain(large).collect()
}

fn chips(tokens: &[String]) -> String {
    tokens.iter().map(|t| format!("<span>{}</span>", escape_html(t))).collect::<Vec<_>>().join(" ")
}

/// Maps as base64 of deflate.
fn packed(maps: &[Cow<Maps>]) -> Result<String> {
    let about: Vec<_> = maps
        .iter()
        .map(|m| json!({"name": m.name, "queries": m.queries, "keys": m.keys, "layers": m.layers, "heads": m.heads}))
        .collect();
    let head = json!({"maps": about, "stops": stops()}).to_string();
    let fault = |e: std::io::Error| Error::internal("html", e.to_string());
    let mut out = ZlibEncoder::new(vec![], Compression::best());
    out.write_all(&(head.len() as u32).to_le_bytes()).map_err(fault)?;
    out.write_all(head.as_bytes()).map_err(fault)?;
    for layer in maps.iter().flat_map(|map| &map.values) {
        let bytes: Vec<u8> = layer.iter().map(|p| byte(*p)).collect();
        out.write_all(&bytes).map_err(fault)?;
    }
    Ok(STANDARD.encode(out.finish().map_err(fault)?))
}

/// √p in 255 steps.
fn byte(p: f32) -> u8 {
    (p.clamp(0.0, 1.0).sqrt() * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_base::Key;
    use std::io::Read;

    /// Weights as a model of this size has them: rows that sum to 1, a few large, many small.
    fn many(layers: usize, heads: usize, t: usize) -> Maps {
        let mut values = vec![vec![]; layers];
        for row in 0..layers * heads * t {
            let scores: Vec<f64> = Key::new(5, 0, row as u64).normals(t).iter().map(|x| 2.5 * f64::from(*x)).collect();
            let seen = row % t + 1;
            let weights = crate::arithmetic::softmax(&scores[..seen]);
            values[row / (heads * t)].extend((0..t).map(|j| weights.get(j).copied().unwrap_or(0.0) as f32));
        }
        let names: Vec<String> = (0..t).map(|i| format!("token{i}")).collect();
        Maps { name: "attention".into(), queries: names.clone(), keys: names, layers, heads, values }
    }

    fn seen(maps: Vec<Maps>) -> Seen {
        let tokens = maps[0].queries.clone();
        Seen { model: "m".into(), family: "gpt2".into(), tokens, maps, ..Seen::default() }
    }

    #[test]
    fn twelve_by_twelve_heads_of_64_tokens_are_within_the_budget_and_more_is_refused() {
        let file = page(&seen(vec![many(12, 12, 64)])).unwrap();
        assert!(file.len() < BUDGET, "{}", file.len());
        assert!(!file.contains("http:") && !file.contains("https:"), "nothing is asked for");
        let error = page(&seen(vec![many(12, 12, 200)])).expect_err("beyond the budget");
        assert!(error.hint.contains("--window"), "{error:?}");
    }

    #[test]
    fn what_is_packed_comes_out_again() {
        let maps = many(1, 2, 5);
        let bytes = STANDARD.decode(packed(&[Cow::Borrowed(&maps)]).unwrap()).unwrap();
        let mut raw = vec![];
        flate2::read::ZlibDecoder::new(&bytes[..]).read_to_end(&mut raw).unwrap();
        let n = u32::from_le_bytes(raw[..4].try_into().unwrap()) as usize;
        let head: serde_json::Value = serde_json::from_slice(&raw[4..4 + n]).unwrap();
        assert_eq!(head["maps"][0]["heads"], 2);
        let weights = &raw[4 + n..];
        assert_eq!(weights.len(), maps.values.concat().len());
        for (byte, p) in weights.iter().zip(maps.values.concat()) {
            assert!(((f32::from(*byte) / 255.0).powi(2) - p).abs() <= 1.0 / 255.0);
        }
    }
}
