//! transformers' own processors, and the lists that it builds from them, on 1,000 random rows each: the same tokens left on
//! every row, and the same logits to 1e-5. `make_golden.py` made `golden.json`; the rows are drawn here from the same counter.

use qkv_decode::{Chain, History, Preset, Row};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    rows: u64,
    ends: Vec<u32>,
    limit: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    step: String,
    kept: String,
    digest: String,
    sums: Vec<f64>,
    full: Vec<Vec<Option<f32>>>,
}

/// splitmix64 of a counter.
fn word(case: u64, row: u64, index: u64) -> u64 {
    let z = case
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(row.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(index.wrapping_mul(0x8CB9_2BA7_2F3D_8DD7))
        .wrapping_add(1);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

struct Drawn {
    logits: Vec<f32>,
    prompt: Vec<u32>,
    generated: Vec<u32>,
    encoder: Vec<u32>,
}

fn draw(case: u64, row: u64) -> Drawn {
    let w = |index| word(case, row, index);
    let v = 17 + w(0) % 48;
    let spread = [2.0, 8.0][(w(1) % 2) as usize];
    let mut logits: Vec<f32> =
        (0..v).map(|i| (((w(100 + i) >> 40) as f64 / 16_777_216.0 - 0.5) * 2.0 * spread) as f32).collect();
    if w(2) % 4 == 0 {
        (1..v).filter(|i| w(200 + i) % 5 == 0).for_each(|i| logits[i as usize] = f32::NEG_INFINITY);
    }
    let few = 2 + w(3) % 6;
    let ids = |base, n| (0..n).map(|i| (w(base + i) % few) as u32).collect();
    Drawn { logits, prompt: ids(300, 1 + w(4) % 4), generated: ids(400, w(5) % 12), encoder: ids(500, 1 + w(6) % 9) }
}

fn chain(step: &str) -> Chain {
    match step.strip_prefix("hf:") {
        Some(flags) => Preset::Hf.with(&flags.split("; ").filter(|flag| !flag.is_empty()).collect::<Vec<_>>()),
        None => step.parse(),
    }
    .unwrap_or_else(|e| panic!("{step}: {e}; {}", e.hint))
}

fn check(golden: &Golden, number: u64, case: &Case) {
    let chain = chain(&case.step);
    let (mut digest, mut row) = (0u64, Row::new());
    let (mut sums, mut sizes) = (vec![0.0; case.sums.len()], vec![0.0; case.sums.len()]);
    for r in 0..golden.rows {
        let drawn = draw(number, r);
        let said = History {
            prompt: &drawn.prompt,
            generated: &drawn.generated,
            encoder: Some(&drawn.encoder),
            ends: &golden.ends,
            limit: Some(golden.limit),
            ..History::default()
        };
        row.fill(&drawn.logits).unwrap();
        let emptied = chain.apply(&mut row, &said).is_err();
        assert_eq!(emptied, row.alive().is_empty(), "{} on row {r}", case.step);

        let kept = row.alive().iter().fold(0u64, |kept, id| kept | 1 << id);
        digest = (digest ^ kept).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        digest ^= digest >> 29;
        let place = 3 * r as usize;
        let want = &case.kept[place..place + 3];
        assert_eq!(format!("{:03x}", digest >> 52), want, "{} on row {r}, which kept {kept:b}", case.step);

        for id in row.alive() {
            let part = (*id as f64 + 1.0) * row.logit(*id) as f64;
            sums[r as usize / 10] += part;
            sizes[r as usize / 10] += part.abs();
        }
        for (id, want) in case.full.get(r as usize).into_iter().flatten().enumerate() {
            let (got, want) = (row.logits()[id], want.unwrap_or(f32::NEG_INFINITY));
            let near = got == want || (got - want).abs() <= 1e-5 * want.abs().max(0.1);
            assert!(near, "{} on row {r}, token {id}: {got}, not {want}", case.step);
        }
    }
    assert_eq!(digest.to_string(), case.digest, "{}", case.step);
    for (block, ((got, want), size)) in sums.iter().zip(&case.sums).zip(&sizes).enumerate() {
        assert!((got - want).abs() <= 1e-6 * size + 1e-5, "{}, block {block}: {got}, not {want}", case.step);
    }
}

#[test]
fn filtered_logits_are_transformers() {
    let golden: Golden = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert!(golden.rows == 1000 && golden.cases.len() >= 36);
    for (number, case) in (0..).zip(&golden.cases) {
        check(&golden, number, case);
    }
}
