//! A matrix whose numbers share scales: what is left of a quantised tensor once its file's format is taken off, and what a
//! product is packed from. `w = scale·(q − zero)`, or with a minimum `w = scale·(q − zero) + min`.

/// A matrix `[rows, width]` in groups along its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Quants {
    /// n
    pub rows: usize,
    /// k
    pub width: usize,
    /// how many numbers of a row share a scale
    pub group: usize,
    /// what q is counted from
    pub zero: i32,
    /// q, `[n, k]`
    pub quants: Vec<u8>,
    /// `[n, k/group]`
    pub scales: Vec<f32>,
    /// `[n, k/group]`, where there are any
    pub mins: Option<Vec<f32>>,
}

/// Numbers that share a scale where we choose: small enough that one outlier spoils few.
const GROUP: usize = 32;

impl Quants {
    /// The rows with these numbers, in this order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let groups = self.width / self.group.max(1);
        let pick = |all: &[f32]| rows.iter().flat_map(|i| all[i * groups..(i + 1) * groups].iter().copied()).collect();
        Self {
            rows: rows.len(),
            quants: rows
                .iter()
                .flat_map(|i| self.quants[i * self.width..(i + 1) * self.width].iter().copied())
                .collect(),
            scales: pick(&self.scales),
            mins: self.mins.as_deref().map(pick),
            ..*self
        }
    }

    /// Eight bits: `q = round(w / s)` within ±127, `s = max|w| / 127` of each 32, in half precision. `None` where rows are not whole
    /// groups, or a value has no scale in half precision.
    pub fn int8(values: &[f32], width: usize) -> Option<Self> {
        Self::round(values, width, 128, |group, out| {
            let most = group.iter().fold(0f32, |most, v| most.max(v.abs()));
            let scale = half::f16::from_f32(most / 127.0).to_f32();
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            group
                .iter()
                .zip(out)
                .for_each(|(v, q)| *q = ((v * inverse).round_ties_even().clamp(-127.0, 127.0) + 128.0) as u8);
            (scale, None)
        })
    }

    /// Four bits: `q = round((w − m) / s)` within 0 … 15, `m = min w`, `s = (max w − m) / 15` of each 32, both in half precision.
    pub fn int4(values: &[f32], width: usize) -> Option<Self> {
        Self::round(values, width, 0, |group, out| {
            let (least, most) =
                group.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
            let min = half::f16::from_f32(least).to_f32();
            let scale = half::f16::from_f32((most - min) / 15.0).to_f32();
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            group
                .iter()
                .zip(out)
                .for_each(|(v, q)| *q = ((v - min) * inverse).round_ties_even().clamp(0.0, 15.0) as u8);
            (scale, Some(min))
        })
    }

    fn round(
        values: &[f32],
        width: usize,
        zero: i32,
        mut each: impl FnMut(&[f32], &mut [u8]) -> (f32, Option<f32>),
    ) -> Option<Self> {
        if width == 0 || !width.is_multiple_of(GROUP) || !values.len().is_multiple_of(width) {
            return None;
        }
        // A maximum passes over NaN, and rounding would make a number of it.
        if !values.iter().all(|v| v.is_finite()) {
            return None;
        }
        let mut quants = vec![0; values.len()];
        let (mut scales, mut mins) = (vec![], vec![]);
        for (group, out) in values.chunks_exact(GROUP).zip(quants.chunks_exact_mut(GROUP)) {
            let (scale, min) = each(group, out);
            scales.push(scale);
            mins.extend(min);
        }
        if !scales.iter().chain(&mins).all(|s| s.is_finite()) {
            return None;
        }
        let mins = (!mins.is_empty()).then_some(mins);
        Some(Self { rows: values.len() / width, width, group: GROUP, zero, quants, scales, mins })
    }

    /// `w` of number `at`.
    pub fn value(&self, at: usize) -> f32 {
        let group = at / self.group;
        let value = self.scales[group] * (i32::from(self.quants[at]) - self.zero) as f32;
        self.mins.as_ref().map_or(value, |mins| value + mins[group])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_off_by_half_a_step_at_most() {
        let values = crate::Key::new(1, 2, 3).normals(96 * 7);
        for (quants, levels) in [(Quants::int8(&values, 96), 254.0), (Quants::int4(&values, 96), 15.0)] {
            let quants = quants.expect("whole groups");
            for (g, group) in values.chunks(32).enumerate() {
                let (least, most) = group.iter().fold((0f32, 0f32), |(a, b), v| (a.min(*v), b.max(*v)));
                let reach = if levels > 100.0 { 2.0 * most.max(-least) } else { most - least };
                // Half a step, and what half precision takes off the scale and the minimum.
                let allowed = reach / levels * 0.5 + reach * 2e-3;
                assert!(
                    group.iter().enumerate().all(|(i, v)| (v - quants.value(g * 32 + i)).abs() <= allowed),
                    "group {g}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_groups_or_scales_is_left() {
        assert_eq!(Quants::int8(&[0.0; 40], 40), None);
        assert_eq!(Quants::int4(&[f32::NAN; 32], 32), None);
        assert_eq!(Quants::int8(&[1e9; 32], 32), None);
        let mut one = [1.0; 64];
        one[40] = f32::NAN;
        assert_eq!((Quants::int8(&one, 32), Quants::int4(&one, 32)), (None, None));
        assert!(Quants::int8(&[0.0; 64], 32).is_some_and(|q| (0..64).all(|i| q.value(i) == 0.0)));
    }

    #[test]
    fn rows_are_picked_with_their_scales() {
        let values: Vec<f32> = (0..96).map(|i| i as f32).collect();
        let all = Quants::int4(&values, 32).expect("whole groups");
        let two = all.select(&[2, 0]);
        assert_eq!((two.rows, two.value(0), two.value(32)), (2, all.value(64), all.value(0)));
    }
}
