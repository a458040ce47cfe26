//! The mean of the losses since the last line of a log: one batch says little. It is part of a run's state, so that a run
//! that was broken off between two lines writes the same next line as one that was not.

use serde::{Deserialize, Serialize};

/// `sum / count` of what was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossMean {
    #[serde(with = "bits")]
    sum: f64,
    count: u64,
}

impl LossMean {
    /// Takes a loss, and returns the mean with it. A loss that is no number is told by itself, as its step is skipped: it does not
    /// spoil the mean of its neighbours, and stands alone only where it has none.
    pub fn take(&mut self, loss: f32) -> f32 {
        if loss.is_finite() {
            self.sum += f64::from(loss);
            self.count += 1;
        }
        if self.count == 0 { loss } else { (self.sum / self.count as f64) as f32 }
    }
}

/// As the bits of the number: a decimal that is read back may be another by its last bit.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_goes_on_where_it_was() {
        let mut whole = LossMean::default();
        let mut broken = LossMean::default();
        for i in 0..1000 {
            let loss = 1.0 / (i as f32 + 3.0);
            let json = serde_json::to_string(&broken).unwrap();
            broken = serde_json::from_str(&json).unwrap();
            assert_eq!(whole.take(loss), broken.take(loss));
        }
        assert_eq!(whole, broken);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut mean = LossMean::default();
        assert!(mean.take(f32::NAN).is_nan());
        assert_eq!(mean.take(3.0), 3.0);
        assert_eq!(mean.take(f32::INFINITY), 3.0);
        assert_eq!(mean.take(1.0), 2.0);
    }
}
