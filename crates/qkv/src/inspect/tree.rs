//! The tree of a network from the paths of its parameters. Equal layers become one row (`layers.0…11 × 12`), a part with
//! one part inside becomes one name (`tokens.weight`), and everything below a depth is summed.

use super::numbers::{grouped, short};
use qkv_model::count::Parameter;
use serde::Serialize;

/// A part of a network and what is inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Part {
    name: String,
    /// how many equal parts this row stands for
    times: usize,
    /// of all of them
    parameters: u64,
    /// of each, if this is one parameter
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
}

/// The tree, `depth` levels of it.
pub(super) fn of(parameters: &[Parameter], depth: usize) -> Vec<Part> {
    let mut root = Part::named("");
    for p in parameters {
        root.insert(&p.path, p);
    }
    root.collapse();
    root.multiply(1);
    root.cut(depth);
    root.parts
}

impl Part {
    fn named(name: &str) -> Self {
        Self { name: name.into(), times: 1, parameters: 0, shape: None, parts: vec![] }
    }

    fn insert(&mut self, path: &str, p: &Parameter) {
        self.parameters += p.elements();
        if path.is_empty() {
            self.shape = Some(p.shape.clone());
            return;
        }
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let at = self.parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
            self.parts.push(Self::named(name));
            self.parts.len() - 1
        });
        self.parts[at].insert(rest, p);
    }

    /// Runs of equal numbered parts become one part, and a part with one part inside takes it in.
    fn collapse(&mut self) {
        self.parts.iter_mut().for_each(Self::collapse);
        if self.parts.iter().all(Self::is_numbered) {
            self.parts = runs(std::mem::take(&mut self.parts));
            self.parts.iter_mut().for_each(Self::take_in);
        }
        // A numbered part waits until its run has been found.
        if !self.is_numbered() && !self.name.is_empty() {
            self.take_in();
        }
    }

    fn is_numbered(&self) -> bool {
        self.name.parse::<usize>().is_ok()
    }

    fn take_in(&mut self) {
        if let [only] = self.parts.as_slice() {
            let (name, times) = (format!("{}.{}", self.name, only.name), self.times * only.times);
            *self = Self { name, times, ..only.clone() };
        }
    }

    /// Makes the parameters of equal parts those of all of them, all the way down.
    fn multiply(&mut self, by: usize) {
        let by = by * self.times;
        self.parts.iter_mut().for_each(|part| part.multiply(by));
        match self.parts.is_empty() {
            true => self.parameters *= by as u64,
            false => self.parameters = self.parts.iter().map(|part| part.parameters).sum(),
        }
    }

    fn cut(&mut self, depth: usize) {
        match depth {
            0 => self.parts.clear(),
            _ => self.parts.iter_mut().for_each(|part| part.cut(depth - 1)),
        }
    }

    fn same_inside(&self, other: &Self) -> bool {
        (&self.shape, &self.parts) == (&other.shape, &other.parts)
    }
}

/// `0, 1, …, 11`, all equal → `0…11`, twelve times.
fn runs(parts: Vec<Part>) -> Vec<Part> {
    let equal = parts.chunk_by(Part::same_inside);
    let row = |run: &[Part]| {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let name = if run.len() == 1 { first.name.clone() } else { format!("{}…{}", first.name, last.name) };
        Part { name, times: run.len(), ..first.clone() }
    };
    equal.map(row).collect()
}

/// One row for each part, what is inside further to the right.
pub(super) fn table(parts: &[Part], total: u64) -> String {
    let mut rows = vec![];
    list(parts, 0, 1, &mut rows);
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let line = |(name, part, note): &(String, &Part, String)| {
        let share = 100.0 * part.parameters as f64 / total.max(1) as f64;
        let (count, exact) = (short(part.parameters), grouped(part.parameters));
        format!("  {name:<width$}  {count:>8}  {share:>5.1} %  {exact:>15}  {note}").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

fn list<'a>(parts: &'a [Part], level: usize, around: usize, rows: &mut Vec<(String, &'a Part, String)>) {
    for part in parts {
        let times = around * part.times;
        let many = if part.times > 1 { format!(" × {}", part.times) } else { String::new() };
        let note = match &part.shape {
            Some(shape) if times > 1 => format!("{times} × {shape:?}"),
            Some(shape) => format!("{shape:?}"),
            None => String::new(),
        };
        rows.push((format!("{}{}{many}", "  ".repeat(level), part.name), part, note));
        list(&part.parts, level + 1, times, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_model::{count::Count, presets};

    fn parameter(path: &str, shape: [usize; 2]) -> Parameter {
        Parameter { path: path.into(), shape: shape.into() }
    }

    #[test]
    fn equal_layers_are_one_row_and_unequal_ones_are_not() {
        let shapes = [[2, 3], [2, 3], [5, 5], [2, 3]];
        let list: Vec<_> = shapes.iter().enumerate().map(|(i, s)| parameter(&format!("layers.{i}.w"), *s)).collect();
        let rows = of(&list, 9);
        let said: Vec<_> = rows[0].parts.iter().map(|p| (p.name.as_str(), p.times, p.parameters)).collect();
        assert_eq!(said, [("0…1.w", 2, 12), ("2.w", 1, 25), ("3.w", 1, 6)]);
    }

    #[test]
    fn a_part_with_one_part_inside_is_one_name() {
        let rows = of(&[parameter("tokens.weight", [4, 2]), parameter("head.out.weight", [4, 2])], 1);
        assert_eq!(rows.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["tokens.weight", "head.out.weight"]);
    }

    #[test]
    fn at_any_depth_every_preset_adds_up_to_its_total() {
        for preset in presets::ALL {
            let count = Count::of(&preset.spec(), 1).expect("a preset");
            for depth in [1, 2, 3, 9] {
                let rows = of(&count.parameters, depth);
                assert_eq!(rows.iter().map(|p| p.parameters).sum::<u64>(), count.total(), "{}", preset.name);
            }
        }
    }
}
