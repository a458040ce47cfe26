//! The parameters of a network by name, one after the other: `decoder.layers.0.ffn.up.weight`, …
//!
//! [`walk`] looks at every parameter whatever its rank, [`map_params`] rebuilds the network with other ones. Whoever counts,
//! saves, averages, freezes or updates parameters goes through these two, so that a path is spelt in one place.
//!
//! ```
//! use burn::tensor::Device;
//! use qkv_nn::{Build, Init, Linear, walk};
//! let layer = Linear::new(&Build::new(&Device::flex(), 0), 3, 2, true, Init::Ones);
//! let mut seen = vec![];
//! walk(&layer, |p| seen.push((p.path().to_string(), p.shape())));
//! assert_eq!(seen, [("weight".to_string(), vec![2, 3]), ("bias".to_string(), vec![2])]);
//! ```

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};

/// One parameter, whatever its rank.
pub trait ParamView {
    /// The names of the modules around it and its own, joined by dots.
    fn path(&self) -> &str;

    /// Its shape; a parameter that was not made yet stays so.
    fn shape(&self) -> Vec<usize>;

    /// How many numbers it has; a parameter that was not made yet stays so.
    fn elements(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether it is to learn.
    fn learns(&self) -> bool;

    /// Its values, flat and outside of any graph: a handle, not a copy.
    fn values(&self) -> Tensor<1>;

    /// Its gradient, flat and outside of any graph, where it has one: a handle, not a copy.
    fn grad(&self, grads: &Gradients) -> Option<Tensor<1>>;
}

/// Looks at every parameter of a module, in order.
pub fn walk<M: Module>(module: &M, see: impl FnMut(&dyn ParamView)) {
    module.visit(&mut Walk { path: vec![], see });
}

struct View<'a, const D: usize> {
    path: String,
    param: &'a Param<Tensor<D>>,
}

impl<const D: usize> ParamView for View<'_, D> {
    fn path(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Vec<usize> {
        self.param.lazy_shape().dims::<D>().to_vec()
    }

    fn learns(&self) -> bool {
        self.param.val().is_require_grad()
    }

    fn values(&self) -> Tensor<1> {
        self.param.val().inner().reshape([-1])
    }

    fn grad(&self, grads: &Gradients) -> Option<Tensor<1>> {
        self.param.val().grad(grads).map(|grad| grad.reshape([-1]))
    }
}

struct Walk<F> {
    path: Vec<String>,
    see: F,
}

impl<F: FnMut(&dyn ParamView)> ModuleVisitor for Walk<F> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        (self.see)(&View { path: self.path.join("."), param });
    }
}

/// What is put in the place of each parameter. A trait and not a closure, because it must serve every rank.
pub trait MapParam {
    /// The parameter that takes the place of the one at `path`.
    fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>>;
}

/// The module with every parameter replaced by what `map` makes of it, in order.
pub fn map_params<M: Module>(module: M, map: &mut impl MapParam) -> M {
    module.map(&mut Mapper { path: vec![], map })
}

struct Mapper<'a, F> {
    path: Vec<String>,
    map: &'a mut F,
}

impl<F: MapParam> ModuleMapper for Mapper<'_, F> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.map.map(&self.path.join("."), param)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Build, Init, Linear};
    use burn::tensor::Device;
    use qkv_testkit::values;

    #[test]
    fn shapes_are_told_without_making_the_parameters() {
        let build = Build::new(&Device::flex(), 0);
        let huge = Linear::new(&build, 1 << 30, 1 << 30, false, Init::Xavier);
        let mut sizes = vec![];
        walk(&huge, |p| sizes.push(p.elements()));
        assert_eq!(sizes, [1 << 60]);
    }

    #[test]
    fn values_and_gradients_are_those_of_the_parameter() {
        let build = Build::new(&Device::flex().autodiff(), 3);
        let layer = Linear::new(&build, 3, 2, true, Init::Xavier);
        let layer = Linear { bias: layer.bias.map(|b| b.set_require_grad(false)), ..layer };
        let x = Tensor::<2>::ones([4, 3], &Device::flex().autodiff());
        let grads = layer.forward(x).sum().backward();
        let mut seen = vec![];
        walk(&layer, |p| seen.push((p.learns(), values(p.values()), p.grad(&grads).map(values))));
        assert_eq!(seen[0], (true, values(layer.weight.val()), Some(vec![4.0; 6])));
        assert_eq!(seen[1], (false, vec![0.0; 2], None));
    }

    #[test]
    fn a_map_knows_where_it_is() {
        struct Halve(Vec<String>);
        impl MapParam for Halve {
            fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                self.0.push(path.into());
                if path == "weight" { param.map(|x| x / 2.0) } else { param }
            }
        }
        let layer = Linear::new(&Build::new(&Device::flex(), 0), 2, 1, true, Init::Ones);
        let mut halve = Halve(vec![]);
        let layer = map_params(layer, &mut halve);
        assert_eq!(halve.0, ["weight", "bias"]);
        assert_eq!(values(layer.weight.val()), [0.5, 0.5]);
    }
}
