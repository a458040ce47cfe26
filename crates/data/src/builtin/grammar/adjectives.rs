//! The adjectives: what they are called, where Italian puts them, and what they can be said of.

use super::nouns::{At, Kind};

/// One adjective in three languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Adjective {
    pub(in super::super) en: &'static str,
    pub(super) it: &'static str,
    /// *una bella casa*, but *una casa rossa*
    pub(super) before: bool,
    pub(super) hi: &'static str,
    pub(super) of: &'static [Kind],
}

const PEOPLE: &[Kind] = &[Kind::Person, Kind::Kin];
const HUMAN: &[Kind] = &[Kind::Person];
const FOOD: &[Kind] = &[Kind::Food, Kind::Mass];
const COLOURED: &[Kind] = &[Kind::Cloth, Kind::Car, Kind::Fragile, Kind::Opening, Kind::Furniture, Kind::Ride];
const SIZED: &[Kind] = &[
    Kind::Animal,
    Kind::Thing,
    Kind::Furniture,
    Kind::Car,
    Kind::Ride,
    Kind::Tree,
    Kind::Opening,
    Kind::Place(At::Room),
    Kind::Place(At::House),
    Kind::Place(At::Fair),
    Kind::Place(At::Stop),
    Kind::Place(At::Open),
];
const PLACES: &[Kind] = &[
    Kind::Place(At::Room),
    Kind::Place(At::House),
    Kind::Place(At::Fair),
    Kind::Place(At::Stop),
    Kind::Place(At::Open),
];
const BUILT: &[Kind] = &[Kind::Place(At::House), Kind::Place(At::Fair)];
const MADE: &[Kind] = &[
    Kind::Text,
    Kind::Print,
    Kind::Song,
    Kind::Cloth,
    Kind::Thing,
    Kind::Fragile,
    Kind::Furniture,
    Kind::Car,
    Kind::Ride,
    Kind::Place(At::House),
];
const PRICED: &[Kind] = &[Kind::Cloth, Kind::Thing, Kind::Fragile, Kind::Furniture, Kind::Car];
const WASHED: &[Kind] = &[Kind::Cloth, Kind::Fragile, Kind::Car, Kind::Furniture, Kind::Place(At::Room)];
const SAID: &[Kind] = &[Kind::Text, Kind::Song];
const FINE: &[Kind] = &[
    Kind::Person,
    Kind::Animal,
    Kind::Text,
    Kind::Song,
    Kind::Cloth,
    Kind::Thing,
    Kind::Ride,
    Kind::Tree,
    Kind::Place(At::Room),
    Kind::Place(At::House),
    Kind::Place(At::Open),
];
const GOOD: &[Kind] = &[Kind::Person, Kind::Food, Kind::Drink, Kind::Mass, Kind::Text, Kind::Place(At::Fair)];
const WEIGHED: &[Kind] = &[Kind::Thing, Kind::Furniture];
const ALIVE: &[Kind] = &[Kind::Person, Kind::Animal];

const fn adjective(
    en: &'static str,
    it: &'static str,
    before: bool,
    hi: &'static str,
    of: &'static [Kind],
) -> Adjective {
    Adjective { en, it, before, hi, of }
}

/// Every adjective. A Hindi form in -ā agrees with its noun, but for the ones in [`super::hindi`]'s list.
pub(in super::super) static ADJECTIVES: &[Adjective] = &[
    adjective("big", "grande", true, "बड़ा", SIZED),
    adjective("small", "piccolo", true, "छोटा", SIZED),
    adjective("beautiful", "bello", true, "सुंदर", FINE),
    adjective("good", "buono", true, "अच्छा", GOOD),
    adjective("old", "vecchio", true, "पुराना", MADE),
    adjective("young", "giovane", true, "युवा", HUMAN),
    adjective("new", "nuovo", false, "नया", MADE),
    adjective("red", "rosso", false, "लाल", COLOURED),
    adjective("blue", "blu", false, "नीला", COLOURED),
    adjective("green", "verde", false, "हरा", COLOURED),
    adjective("white", "bianco", false, "सफ़ेद", COLOURED),
    adjective("black", "nero", false, "काला", COLOURED),
    adjective("yellow", "giallo", false, "पीला", COLOURED),
    adjective("long", "lungo", false, "लंबा", SAID),
    adjective("tall", "alto", false, "लंबा", HUMAN),
    adjective("fresh", "fresco", false, "ताज़ा", FOOD),
    adjective("hot", "caldo", false, "गरम", &[Kind::Drink]),
    adjective("cold", "freddo", false, "ठंडा", &[Kind::Drink]),
    adjective("sweet", "dolce", false, "मीठा", &[Kind::Food]),
    adjective("expensive", "costoso", false, "महँगा", PRICED),
    adjective("cheap", "economico", false, "सस्ता", PRICED),
    adjective("heavy", "pesante", false, "भारी", WEIGHED),
    adjective("light", "leggero", false, "हल्का", WEIGHED),
    adjective("clean", "pulito", false, "साफ़", WASHED),
    adjective("dirty", "sporco", false, "गंदा", WASHED),
    adjective("happy", "felice", false, "ख़ुश", PEOPLE),
    adjective("sad", "triste", false, "उदास", PEOPLE),
    adjective("rich", "ricco", false, "अमीर", HUMAN),
    adjective("strong", "forte", false, "ताक़तवर", ALIVE),
    adjective("kind", "gentile", false, "दयालु", PEOPLE),
    adjective("intelligent", "intelligente", false, "होशियार", ALIVE),
    adjective("lazy", "pigro", false, "आलसी", ALIVE),
    adjective("brave", "coraggioso", false, "बहादुर", PEOPLE),
    adjective("famous", "famoso", false, "मशहूर", HUMAN),
    adjective("tired", "stanco", false, "थका हुआ", PEOPLE),
    adjective("hungry", "affamato", false, "भूखा", ALIVE),
    adjective("interesting", "interessante", false, "दिलचस्प", SAID),
    adjective("difficult", "difficile", false, "कठिन", SAID),
    adjective("simple", "semplice", false, "सरल", SAID),
    adjective("strange", "strano", false, "अजीब", &[Kind::Text, Kind::Song, Kind::Thing, Kind::Animal]),
    adjective("quiet", "tranquillo", false, "शांत", PLACES),
    adjective("ancient", "antico", false, "प्राचीन", BUILT),
    adjective("broken", "rotto", false, "टूटा हुआ", &[Kind::Furniture, Kind::Opening, Kind::Fragile]),
];
