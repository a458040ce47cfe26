//! Which parameters of a network learn, decided by their paths; and a network without its numbers.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_base::{Error, Result, nearest};
use qkv_nn::{MapParam, map_params, walk};

/// Parameters whose path starts with one of `paths` do not learn; a path that nothing starts with is refused.
pub fn freeze<M: Module>(model: M, paths: &[String]) -> Result<M> {
    let mut all = vec![];
    walk(&model, |p| all.push(p.path().to_string()));
    if let Some(lost) = paths.iter().find(|path| !all.iter().any(|p| p.starts_with(path.as_str()))) {
        let near = nearest(lost, all.iter().map(String::as_str)).unwrap_or_default();
        let what = format!("no parameter's path starts with `{lost}`");
        return Err(Error::new("model.freeze", what, format!("did you mean `{near}`?")));
    }
    let frozen = |path: &str| paths.iter().any(|p| path.starts_with(p.as_str()));
    Ok(if paths.is_empty() { model } else { map_params(model, &mut Learning(|p: &str| frozen(p).then_some(false))) })
}

/// These parameters learn.
pub fn thaw<M: Module>(model: M, paths: &[String]) -> M {
    map_params(model, &mut Learning(|path: &str| paths.iter().any(|p| p == path).then_some(true)))
}

/// How many numbers learn, and how many there are.
pub fn learning<M: Module>(model: &M) -> (u64, u64) {
    let (mut learn, mut all) = (0, 0);
    walk(model, |p| {
        all += p.elements() as u64;
        learn += if p.learns() { p.elements() as u64 } else { 0 };
    });
    (learn, all)
}

/// The same network with none of its numbers: names, shapes and what learns are there, memory is not.
pub fn hollow<M: Module>(model: &M) -> M {
    struct Hollow;
    impl MapParam for Hollow {
        fn map<const D: usize>(&mut self, _: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (device, shape, learns) = (param.lazy_device(), param.lazy_shape(), param.val().is_require_grad());
            let zeros = {
                let shape = shape.clone();
                move |device: &_, learns| Tensor::zeros(shape, device).set_require_grad(learns)
            };
            Param::uninitialized(param.id, zeros, device, learns, shape)
        }
    }
    map_params(model.clone(), &mut Hollow)
}

/// Decides by path which parameters learn.
struct Learning<F>(F);

impl<F: Fn(&str) -> Option<bool>> MapParam for Learning<F> {
    fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match (self.0)(path) {
            Some(learns) => param.set_require_grad(learns),
            None => param,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_nn::{Build, Init, Linear};

    fn layer() -> Linear {
        Linear::new(&Build::new(&Device::flex().autodiff(), 0), 3, 2, true, Init::Ones)
    }

    #[test]
    fn what_is_frozen_does_not_learn_until_it_is_thawed() {
        let frozen = freeze(layer(), &["we".into()]).unwrap();
        assert_eq!((learning(&layer()), learning(&frozen)), ((8, 8), (2, 8)));
        assert_eq!(learning(&thaw(frozen, &["weight".into()])), (8, 8));
        assert!(freeze(layer(), &["wait".into()]).unwrap_err().hint.contains("`weight`"));
    }

    #[test]
    fn a_hollow_network_has_shapes_and_no_numbers() {
        let hollow = hollow(&freeze(layer(), &["bias".into()]).unwrap());
        let shape = |layer: &Linear| {
            let mut seen = vec![];
            walk(layer, |p| seen.push((p.path().to_string(), p.shape())));
            seen
        };
        assert_eq!(shape(&hollow), shape(&layer()));
        assert!(!hollow.weight.is_initialized());
        assert_eq!(learning(&hollow), (6, 8));
    }
}
