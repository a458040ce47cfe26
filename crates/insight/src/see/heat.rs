//! A grid in a terminal. In colour two rows of numbers share a line of half blocks (`▀`: ink above, paper below), one
//! column each; without colour a number is two characters of five shades. A legend says which is which, and what does not
//! fit is said, with the flag that shows it.

use super::look::Grid;
use crate::render::color::cividis;
use crate::render::terminal::{Style, clip, pad_right};

/// Shades from nothing to all.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Lines of a heat map; √ of each weight is drawn, so that small ones can be seen.
pub fn lines(grid: &Grid, style: Style) -> Vec<String> {
    let mut out = vec![grid.title.clone()];
    let label = grid.rows.iter().map(|r| unicode_width::UnicodeWidthStr::width(r.as_str())).max().unwrap_or(0).min(14);
    let cell = if style.color { 1 } else { 2 };
    let room = style.width.saturating_sub(label + 4) / cell;
    let n = grid.columns.len().min(room.max(1));
    let value = |i: usize, j: usize| f64::from(grid.row(i).get(j).copied().unwrap_or(0.0)).max(0.0).sqrt();
    // A text that is too wide is too long as well: the same tokens are shown in both directions.
    let m = if grid.rows == grid.columns { n } else { grid.rows.len() };
    let name = |i: usize| pad_right(&clip(&grid.rows[i], label), label);
    if style.color {
        for i in (0..m).step_by(2) {
            let mut line = format!("  {} ", name(i));
            for j in 0..n {
                let [r, g, b] = cividis(value(i, j));
                let below = if i + 1 < m {
                    let [r, g, b] = cividis(value(i + 1, j));
                    format!(";48;2;{r};{g};{b}")
                } else {
                    String::new()
                };
                line += &format!("\x1b[38;2;{r};{g};{b}{below}m▀\x1b[0m");
            }
            out.push(line);
        }
    } else {
        for i in 0..m {
            let shade = |j: usize| SHADES[(value(i, j) * 4.0).round().clamp(0.0, 4.0) as usize];
            let row: String = (0..n).flat_map(|j| [shade(j); 2]).collect();
            out.push(format!("  {} {}", name(i), row).trim_end().to_string());
        }
    }
    let two = if style.color {
        "two rows share a line, the name is the upper one's; dark 0, yellow 1"
    } else {
        "' ' 0  ░ .06  ▒ .25  ▓ .56  █ 1"
    };
    out.push(format!("  columns: the same order, left to right; {two}; drawn as √weight"));
    if n < grid.columns.len() {
        out.push(format!("  tokens 0 to {} of {} fit; --window FROM..TO shows others", n - 1, grid.columns.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(n: usize) -> Grid {
        let names: Vec<String> = (0..n).map(|i| format!("t{i}")).collect();
        let values = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
        Grid { title: "a map".into(), rows: names.clone(), columns: names, values }
    }

    #[test]
    fn a_diagonal_is_seen_and_a_cut_is_said() {
        let plain = lines(&grid(3), Style::new(80, false));
        assert_eq!(plain[1..4], ["  t0 ██", "  t1   ██", "  t2     ██"]);
        let wide = lines(&grid(100), Style::new(40, false)).join("\n");
        assert!(wide.contains("of 100 fit; --window"), "{wide}");
        let coloured = lines(&grid(3), Style::new(80, true)).join("\n");
        assert!(coloured.contains('▀') && coloured.contains("255;234;70"));
    }
}
