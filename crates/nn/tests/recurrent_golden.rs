//! PyTorch's `nn.RNN`, `nn.GRU` and `nn.LSTM` compute the same: outputs, last states and every gradient, of one and two layers,
//! forward and both ways, with rows of equal and unequal length (make_recurrent_golden.py).

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use qkv_nn::mask::from_lengths;
use qkv_nn::recurrent::{Cell, GruCell, LstmCell, Recurrent, RnnCell, Ways};
use qkv_nn::{Build, Cx, Init, Linear};
use qkv_testkit::{max_diff, values};
use serde_json::Value;

const B: usize = 3;
const T: usize = 4;
const C: usize = 2;
const H: usize = 3;

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number") as f32).collect()
}

fn close(what: &str, got: &[f32], want: &[f32]) {
    let off = max_diff(got, want);
    assert!(off < 1e-5, "{what} is off by {off}");
}

/// A cell with the next parameters in PyTorch's order: both weights, then both biases.
fn cell<K: Cell>(width: usize, next: &mut usize, device: &Device) -> K {
    let rows = K::GATES * H;
    let mut draw = |n: usize| {
        *next += n;
        (*next - n..*next).map(|i| ((i as f64).sin() * 0.5) as f32).collect::<Vec<f32>>()
    };
    let [ih, hh] = [width, H].map(|width| TensorData::new(draw(rows * width), [rows, width]));
    let [first, second] = [(ih, width), (hh, H)].map(|(weight, width)| {
        let mut layer = Linear::new(&Build::new(device, 0), width, rows, true, Init::Zeros);
        layer.weight = Param::from_data(weight, device);
        layer.bias = Some(Param::from_data(TensorData::new(draw(rows), [rows]), device));
        layer
    });
    K::of(first, second)
}

fn check<K: Cell>(name: &str, case: &Value) {
    let device = Device::flex().autodiff();
    let layers = case["layers"].as_u64().expect("a number") as usize;
    let ways = if case["both"].as_bool().expect("a switch") { Ways::Both } else { Ways::Forward };
    let mut net = Recurrent::<K>::with(&Build::new(&device, 0), C, H, layers, ways, Init::Zeros);
    let mut next = 0;
    for layer in &mut net.layers {
        let width = layer.forward.input().dims()[1];
        layer.forward = cell(width, &mut next, &device);
        if layer.reverse.is_some() {
            layer.reverse = Some(cell(width, &mut next, &device));
        }
    }
    let lengths: Vec<usize> = numbers(&case["lengths"]).into_iter().map(|n| n as usize).collect();
    let x: Vec<f32> = (0..B * T * C).map(|i| (i as f64).cos() as f32).collect();
    let x = Tensor::<3>::from_data(TensorData::new(x, [B, T, C]), &device).require_grad();
    let real = from_lengths(&lengths, T);
    let (y, state) = net.forward(x.clone(), Some(&real), None, &mut Cx::eval());
    close(&format!("{name}: y"), &values(y.clone().inner()), &numbers(&case["y"]));
    close(&format!("{name}: state"), &values(state.clone().inner()), &numbers(&case["state"]));
    let grads = (y.square().sum() + state.sum()).backward();
    close(&format!("{name}: dx"), &values(x.grad(&grads).expect("tracked")), &numbers(&case["dx"]));
    let mut wanted = case["gradients"].as_array().expect("a list").iter();
    for cell in net.layers.iter().flat_map(|l| std::iter::once(&l.forward).chain(&l.reverse)) {
        let parts = [cell.input(), cell.state()];
        let weights = parts.map(|part| values(part.weight.val().grad(&grads).expect("a gradient")));
        let biases =
            parts.map(|part| values(part.bias.as_ref().expect("a bias").val().grad(&grads).expect("a gradient")));
        for (i, got) in weights.iter().chain(&biases).enumerate() {
            close(&format!("{name}: gradient {i}"), got, &numbers(wanted.next().expect("as many")));
        }
    }
    assert!(wanted.next().is_none(), "{name}: every gradient was compared");
}

#[test]
fn outputs_states_and_gradients_are_pytorchs() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/recurrent.json")).expect("JSON");
    assert_eq!(cases.len(), 24);
    for case in &cases {
        let cell = case["cell"].as_str().expect("a word");
        let name = format!("{cell}, {} layers, both ways {}, {}", case["layers"], case["both"], case["lengths"]);
        let both = || match cell {
            "RNN" => check::<RnnCell>(&name, case),
            "GRU" => check::<GruCell>(&name, case),
            _ => check::<LstmCell>(&name, case),
        };
        both();
        qkv_kernels::plain(both); // and so does the twin
    }
}
