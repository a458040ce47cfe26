//! Where numbers are kept and computed: every program chooses its device here, by name.
//!
//! ```
//! use qkv_nn::device;
//! assert!(device::choose("cpu").is_ok());
//! assert!(device::choose("gpu").unwrap_err().hint.contains("this build has cpu"));
//! ```

use burn::tensor::Device;
use qkv_base::{Error, Result, nearest};

/// The devices that this program was built with, the default first, each with how it is had.
const ALL: &[(&str, fn() -> Device)] = &[("cpu", Device::flex)];

/// The device of this name, for a network that only answers; [`trainable`] for one that is to learn.
pub fn choose(name: &str) -> Result<Device> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, make)| make()).ok_or_else(|| {
        let near = nearest(name, names()).unwrap_or_default();
        let hint = format!("did you mean `{near}`? this build has {}", names().join(", "));
        Error::new("device", format!("there is no device `{name}`"), hint)
    })
}

/// The device of this name with gradients, for a network that is to learn.
pub fn trainable(name: &str) -> Result<Device> {
    Ok(choose(name)?.autodiff())
}

/// The device that is used where none is asked for.
pub fn default() -> Device {
    ALL[0].1()
}

/// The names of the devices that there are.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_its_device() {
        for name in names() {
            assert!(!choose(name).unwrap().is_autodiff() && trainable(name).unwrap().is_autodiff(), "{name}");
        }
        assert_eq!(choose(names()[0]).unwrap(), default());
    }
}
