//! How far a decoder sees, layer by layer.

use serde::{Deserialize, Serialize};

/// How far back a decoder sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Window {
    /// to the beginning
    #[default]
    None,
    /// to the beginning and to the end: what comes next is before its eyes (a leak, when it learns to foretell)
    Unmasked,
    /// so many positions, itself included
    Every(usize),
    /// so many positions, but in every n-th layer to the beginning
    Alternating {
        /// how many positions, itself included
        window: usize,
        /// n
        full_every: usize,
    },
}

impl Window {
    /// The positions that layer i (from 0) sees, where it does not see to the beginning.
    ///
    /// ```
    /// use qkv_model::spec::Window;
    /// let gemma2 = Window::Alternating { window: 4096, full_every: 2 };
    /// assert_eq!([0, 1, 2].map(|i| gemma2.of_layer(i)), [Some(4096), None, Some(4096)]);
    /// ```
    pub fn of_layer(self, layer: usize) -> Option<usize> {
        match self {
            Self::None | Self::Unmasked => None,
            Self::Every(n) => Some(n),
            Self::Alternating { full_every, .. } if (layer + 1).is_multiple_of(full_every.max(1)) => None,
            Self::Alternating { window, .. } => Some(window),
        }
    }

    /// The positions that a layer with a window sees.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::None | Self::Unmasked => None,
            Self::Every(window) | Self::Alternating { window, .. } => Some(window),
        }
    }
}
