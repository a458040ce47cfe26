//! All parameters that learn as one vector, in their order: what ranks send each other.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use qkv_base::{Error, Result};
use qkv_nn::{MapParam, map_params, walk};
use qkv_optim::numbers;
use std::collections::BTreeMap;

/// How many numbers learn.
pub fn length<M: Module>(model: &M) -> usize {
    let mut n = 0;
    walk(model, |p| n += if p.learns() { p.elements() } else { 0 });
    n
}

/// The values of `by_path` in the order of the parameters; zeros where there is none.
pub fn of<M: Module>(model: &M, by_path: &BTreeMap<String, Tensor<1>>) -> Vec<f32> {
    let mut flat = vec![];
    walk(model, |p| match by_path.get(p.path()) {
        _ if !p.learns() => {}
        Some(values) => flat.extend(numbers(values)),
        None => flat.resize(flat.len() + p.elements(), 0.0),
    });
    flat
}

/// The same the other way round.
pub fn by_path<M: Module>(model: &M, flat: &[f32]) -> Result<BTreeMap<String, Tensor<1>>> {
    let (mut found, mut left) = (BTreeMap::new(), Some(flat));
    walk(model, |p| {
        if !p.learns() {
            return;
        }
        let split = left.and_then(|left| left.split_at_checked(p.elements()));
        left = split.map(|(_, later)| later);
        if let Some((now, _)) = split {
            let place = p.values();
            let values =
                Tensor::from_data(TensorData::new(now.to_vec(), [now.len()]), (&place.device(), place.dtype()));
            found.insert(p.path().to_string(), values);
        }
    });
    match left {
        Some([]) => Ok(found),
        _ => Err(Error::internal("parameters", "not as many numbers as there are parameters")),
    }
}

/// The weights that learn.
pub fn weights<M: Module>(model: &M) -> Vec<f32> {
    let mut flat = vec![];
    walk(model, |p| {
        if p.learns() {
            flat.extend(numbers(&p.values()));
        }
    });
    flat
}

/// The network with these weights in the place of those that learn.
pub fn with_weights<M: Module>(model: M, flat: &[f32]) -> Result<M> {
    struct Place(BTreeMap<String, Tensor<1>>);
    impl MapParam for Place {
        fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(values) = self.0.remove(path) else { return param };
            let (id, tensor, mapper) = param.consume();
            let values = Tensor::from_inner(values.reshape(tensor.dims())).require_grad();
            Param::from_mapped_value(id, values, mapper)
        }
    }
    let mut place = Place(by_path(&model, flat)?);
    Ok(map_params(model, &mut place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_nn::{Build, Init, Linear};

    #[test]
    fn weights_go_out_and_come_back_and_what_is_frozen_stays() {
        let layer = Linear::new(&Build::new(&Device::flex().autodiff(), 2), 3, 2, true, Init::Xavier);
        let bias = layer.bias.clone().map(|bias| bias.set_require_grad(false));
        let layer = Linear { bias, ..layer };
        assert_eq!(length(&layer), 6);
        let other: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let changed = with_weights(layer.clone(), &other).expect("as many");
        assert_eq!(weights(&changed), other);
        assert!(changed.weight.val().is_require_grad());
        let values = |l: &Linear| l.bias.as_ref().map(|b| numbers(&b.val().inner().reshape([-1])));
        assert_eq!(values(&changed), values(&layer));
        assert!(with_weights(layer.clone(), &other[1..]).is_err());
        let by = by_path(&layer, &other).expect("as many");
        assert_eq!(of(&layer, &by), other);
        assert_eq!(of(&layer, &BTreeMap::new()), [0.0; 6]);
    }
}
