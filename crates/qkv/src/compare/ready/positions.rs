//! Every way to tell order. First whether a network notices at all that words have changed places: without positions attention
//! gives every word the same vector wherever it stands. Then a network with each of them turns rows of letters around, rows as
//! long as in training and longer ones.

use super::Asked;
use crate::Result;
use crate::compare::{Compared, variations};
use qkv_base::Error;
use qkv_insight::page::{Cell, Page, Table};
use qkv_kernels::Ids;
use qkv_model::families::{self, Choices, PositionChoice, Sizes};
use qkv_model::spec::{Head, Spec};
use qkv_model::{Encoder, Tokens, Transformer};
use qkv_nn::{Cx, device};

const KINDS: &[(&str, PositionChoice)] = &[
    ("none", PositionChoice::None),
    ("sinusoidal", PositionChoice::Sinusoidal),
    ("learned", PositionChoice::Learned),
    ("each-layer", PositionChoice::EachLayer),
    ("offset", PositionChoice::Offset),
    ("buckets", PositionChoice::Buckets),
    ("rope", PositionChoice::Rope),
    ("alibi", PositionChoice::Alibi),
];

/// How far the vector of a word moves when the words around it change places, as a share of its length: an encoder of two
/// layers as it starts, twelve words and the same twelve in another order.
fn moved(position: PositionChoice) -> Result<f64> {
    let sheet = &families::bert::SHEET;
    let sizes = Sizes { std: Some(0.2), ..Sizes::of_tokens(20, 32, 2, 4, 16) };
    let choices = Choices { position, ..Choices::default() };
    let spec = Spec { head: Head::None, ..choices.apply(sheet, (sheet.sizes)(&sizes)?, 16)? };
    let model = Transformer::new(&spec, 5, &device::default())?;
    let read = |ids: Vec<u32>| -> Result<Vec<f32>> {
        let h = model.hidden(&Tokens::new(Ids::one(ids)), &mut Cx::eval())?;
        h.into_data().try_to_vec().map_err(|e| Error::internal("positions", format!("{e:?}")))
    };
    // No mirror: slopes that fall to both sides alike would not see one.
    let place = |i: usize| (5 * i + 2) % 12;
    let (there, now) = (read((0..12).collect())?, read((0..12).map(|i| place(i) as u32).collect())?);
    let (mut off, mut whole) = (0.0, 0.0);
    for (i, b) in now.chunks(32).enumerate() {
        let a = &there[32 * place(i)..32 * (place(i) + 1)];
        off += a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        whole += a.iter().map(|a| f64::from(*a).powi(2)).sum::<f64>();
    }
    Ok((off / whole).sqrt())
}

pub(super) fn run(asked: &mut Asked) -> Result<Compared> {
    let mut rows = vec![];
    for (name, kind) in KINDS {
        rows.push((*name, vec![Cell::number(100.0 * moved(*kind)?, 4)]));
    }
    let blind = rows[0].1[0].value().unwrap_or(f64::NAN);
    let least = rows[1..].iter().filter_map(|(_, cells)| cells[0].value()).fold(f64::INFINITY, f64::min);
    let title = "How far a word's vector moves when the words change places";
    let table = Table::of(title, "position", &["%"], rows);
    let small = [
        "model.family=marian",
        "model.width=64",
        "model.layers=2",
        "model.heads=4",
        "data.examples=8000",
        "data.test=200",
    ];
    let recipe = asked.recipe("reverse", &small)?;
    let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    let entries = variations(&recipe, &[format!("model.position={}", names.join(","))])?;
    let compared = asked.compare("positions", &entries)?;
    let trained = compared.page();
    let mut page = Page::new("positions", "Every way to tell order", &trained.idea).table(table);
    page = trained.tables().cloned().fold(page, Page::table);
    let finding = format!(
        "Without positions a word's vector moves by {blind:.4} % when the words change places, with any of the others by \
         {least:.1} % or more; in turning rows of letters around, {}",
        compared.finding()
    );
    Ok(Compared { samples: compared.samples, ..Compared::new(page, finding).charts(compared.charts) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_network_without_positions_is_blind_to_order() {
        for (name, kind) in KINDS {
            let off = moved(*kind).expect("a share");
            assert_eq!(off < 1e-5, *kind == PositionChoice::None, "{name}: {off}");
        }
    }
}
