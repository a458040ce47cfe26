//! A recurrent language model of twenty lines decodes through the same engine: greedy, sampling, beams and contrastive search,
//! in batches, in chunks and admitted late.

use burn::tensor::{Device, Tensor};
use qkv_base::Result;
use qkv_decode::{
    Beam, Chain, Contrastive, Decoder, Engine, EngineConfig, PassInput, PassOutput, Request, Search, Sequence,
};
use qkv_kernels::Ids;
use qkv_nn::{Build, Cx, Embedding, Gru, Init, Linear, RowCache};
use std::sync::Arc;

const V: usize = 31;

struct GruLm {
    table: Embedding,
    gru: Gru,
    head: Linear,
}

impl GruLm {
    fn new(seed: u64) -> Self {
        let (build, init) = (Build::new(&Device::flex(), seed), Init::Normal { std: 0.7 });
        Self {
            table: Embedding::new(&build.at("table"), V, 8, init),
            gru: Gru::new(&build.at("gru"), 8, 16, init),
            head: Linear::new(&build.at("head"), 16, V, true, init),
        }
    }

    /// Tokens behind a state: hidden states `[1, T, H]`, and the state behind them.
    fn read(&self, ids: &[u32], state: Option<Tensor<3>>) -> (Tensor<3>, Tensor<3>) {
        self.gru.forward(self.table.forward(&Ids::one(ids.to_vec())), None, state, &mut Cx::eval())
    }
}

impl Decoder for GruLm {
    fn vocabulary(&self) -> usize {
        V
    }

    fn context(&self) -> Option<usize> {
        None
    }

    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> Result<PassOutput> {
        let (mut hidden, mut next) = (vec![], 0);
        for (row, n) in rows.pass().to_vec() {
            let (h, state) = self.read(&input.ids[next..next + n], rows.state("gru", row));
            rows.set_state("gru", row, state);
            hidden.push(h);
            next += n;
        }
        let hidden = Tensor::cat(hidden, 1); // [1, N, H]
        let answers: Vec<i64> = input.answers.iter().map(|at| *at as i64).collect();
        let answers = hidden.clone().select(1, Tensor::from_data(answers.as_slice(), &hidden.device()));
        let numbers = |t: Tensor<3>| t.into_data().try_to_vec::<f32>().unwrap();
        Ok(PassOutput { logits: numbers(self.head.forward(answers)), hidden: numbers(hidden), source: vec![] })
    }
}

fn run(requests: Vec<Request>, config: EngineConfig) -> Vec<Vec<Sequence>> {
    let mut engine = Engine::new(Arc::new(GruLm::new(1)), config);
    engine.run(requests, &mut |_, _| true).unwrap().into_iter().map(|one| one.sequences).collect()
}

fn requests(search: Search, chain: &str) -> Vec<Request> {
    let prompts = [vec![3, 4, 5, 6, 7, 8, 9], vec![3, 4, 5, 6, 7, 8, 9, 10], vec![11]];
    let request = |(i, prompt): (usize, Vec<u32>)| Request {
        search: search.clone(),
        chain: chain.parse::<Chain>().unwrap(),
        max_tokens: 12,
        ends: vec![2],
        number: i as u64,
        ..Request::new(prompt)
    };
    prompts.into_iter().enumerate().map(request).collect()
}

#[test]
fn greedy_is_the_network_run_by_hand() {
    let model = GruLm::new(1);
    for (request, found) in requests(Search::Sample { n: 1 }, "greedy")
        .iter()
        .zip(run(requests(Search::Sample { n: 1 }, "greedy"), EngineConfig::default()))
    {
        let mut ids = request.prompt.clone();
        while ids.len() < request.prompt.len() + 12 && ids.last() != Some(&2) {
            let (h, _) = model.read(&ids, None);
            let logits = model.head.forward(h.narrow(1, ids.len() - 1, 1)).into_data().try_to_vec::<f32>().unwrap();
            ids.push((0..V).reduce(|a, b| if logits[b] > logits[a] { b } else { a }).unwrap() as u32);
        }
        assert_eq!(found[0].ids, ids[request.prompt.len()..]);
    }
}

#[test]
fn every_search_runs_over_a_recurrent_state() {
    for (search, chain) in [
        (Search::Sample { n: 3 }, "temperature 1.2"),
        (Search::Beam(Beam { n_best: 3, ..Beam::new(4) }), ""),
        (Search::Beam(Beam { groups: 2, diversity: 0.5, ..Beam::new(4) }), ""),
        (Search::Contrastive(Contrastive { k: 4, alpha: 0.5 }), ""),
    ] {
        let all = run(requests(search.clone(), chain), EngineConfig::default());
        let chunked = EngineConfig { prefill_chunk: 2, max_rows: 5, min_shared_prefix: 1, ..EngineConfig::default() };
        let late = run(requests(search.clone(), chain), chunked);
        for (i, request) in requests(search, chain).into_iter().enumerate() {
            let ids = |all: &[Sequence]| all.iter().map(|s| s.ids.clone()).collect::<Vec<_>>();
            let alone = run(vec![request], EngineConfig::default());
            assert_eq!((ids(&all[i]), ids(&late[i])), (ids(&alone[0]), ids(&alone[0])));
        }
    }
}

/// A beam of one is greedy, here too.
#[test]
fn a_beam_of_one_is_greedy() {
    let greedy = run(requests(Search::Sample { n: 1 }, "greedy"), EngineConfig::default());
    let beam = run(requests(Search::Beam(Beam::new(1)), ""), EngineConfig::default());
    for (a, b) in greedy.iter().zip(&beam) {
        assert_eq!(a[0].ids, b[0].ids);
    }
}
