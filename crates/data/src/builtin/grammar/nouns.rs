//! The nouns, one row each: what they are called in three languages, and what kind of thing they are.
//!
//! An empty plural is the regular one; Hindi plurals and oblique forms follow from ending and gender, but for the few
//! nouns whose class is said.

use super::Gender::{self, F, M};

/// What a noun means, as far as verbs and adjectives care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Person,
    /// relatives: always somebody's
    Kin,
    /// relatives to whom Hindi shows respect: the verb is plural
    Elder,
    Animal,
    Fruit,
    Food,
    /// food that is not counted
    Mass,
    Drink,
    /// what one can read and write
    Text,
    /// what one can only read
    Print,
    Song,
    Cloth,
    Thing,
    /// what breaks
    Fragile,
    /// what stands in a room
    Furniture,
    /// doors and windows
    Opening,
    /// what has a driver
    Car,
    /// what carries people
    Ride,
    /// what one stands under
    Tree,
    Place(At),
}

/// Which preposition a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum At {
    /// in the garden, nel giardino, में; one goes *nel* giardino
    Room,
    /// in the school, nella scuola, में; one goes *alla* scuola
    House,
    /// at the station, alla stazione, पर
    Stop,
    /// at the market, al mercato, में
    Fair,
    /// on the beach, sulla spiaggia, पर
    Open,
}

/// How a Hindi noun is inflected when its ending does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Class {
    /// by ending and gender
    Regular,
    /// masculine in -ā that stays: राजा, पिता
    Fixed,
}

/// One noun in three languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Noun {
    pub(in super::super) en: &'static str,
    pub(super) en_plural: &'static str,
    pub(super) it: &'static str,
    pub(super) it_gender: Gender,
    pub(super) it_plural: &'static str,
    pub(super) hi: &'static str,
    pub(super) hi_gender: Gender,
    pub(super) class: Class,
    pub(in super::super) kind: Kind,
}

type Row = (&'static str, &'static str, &'static str, Gender, &'static str, &'static str, Gender);

pub(super) const fn noun(kind: Kind, row: Row) -> Noun {
    let (en, en_plural, it, it_gender, it_plural, hi, hi_gender) = row;
    Noun { en, en_plural, it, it_gender, it_plural, hi, hi_gender, class: Class::Regular, kind }
}

const fn fixed(kind: Kind, row: Row) -> Noun {
    let mut noun = noun(kind, row);
    noun.class = Class::Fixed;
    noun
}

macro_rules! nouns {
    ($($kind:expr => [$($make:ident $row:expr),* $(,)?])*) => {
        /// Every noun.
        pub(in super::super) static NOUNS: &[Noun] = &[$($($make($kind, $row)),*),*];
    };
}

nouns! {
    Kind::Person => [
        noun ("boy", "", "ragazzo", M, "", "लड़का", M),
        noun ("girl", "", "ragazza", F, "", "लड़की", F),
        noun ("man", "men", "uomo", M, "uomini", "आदमी", M),
        noun ("woman", "women", "donna", F, "", "औरत", F),
        noun ("child", "children", "bambino", M, "", "बच्चा", M),
        noun ("friend", "", "amico", M, "amici", "दोस्त", M),
        noun ("teacher", "", "insegnante", M, "", "शिक्षक", M),
        noun ("student", "", "studente", M, "", "छात्र", M),
        noun ("doctor", "", "medico", M, "medici", "डॉक्टर", M),
        noun ("farmer", "", "contadino", M, "", "किसान", M),
        noun ("neighbour", "", "vicino", M, "", "पड़ोसी", M),
        fixed ("king", "", "re", M, "re", "राजा", M),
        noun ("queen", "", "regina", F, "", "रानी", F),
        noun ("nurse", "", "infermiera", F, "", "नर्स", F),
        noun ("driver", "", "autista", M, "autisti", "ड्राइवर", M),
        fixed ("actor", "", "attore", M, "", "अभिनेता", M),
        noun ("actress", "actresses", "attrice", F, "", "अभिनेत्री", F),
        noun ("writer", "", "scrittore", M, "", "लेखक", M),
        noun ("poet", "", "poeta", M, "poeti", "कवि", M),
        noun ("painter", "", "pittore", M, "", "चित्रकार", M),
        noun ("guest", "", "ospite", M, "", "मेहमान", M),
        noun ("tailor", "", "sarto", M, "", "दर्ज़ी", M),
        noun ("psychologist", "", "psicologo", M, "psicologi", "मनोवैज्ञानिक", M),
        noun ("merchant", "", "mercante", M, "", "व्यापारी", M),
        noun ("princess", "princesses", "principessa", F, "", "राजकुमारी", F),
        noun ("prince", "", "principe", M, "", "राजकुमार", M),
        noun ("cook", "", "cuoco", M, "cuochi", "रसोइया", M),
        noun ("soldier", "", "soldato", M, "", "सैनिक", M),
        noun ("engineer", "", "ingegnere", M, "", "इंजीनियर", M),
        noun ("gardener", "", "giardiniere", M, "", "माली", M),
    ]
    Kind::Kin => [
        noun ("brother", "", "fratello", M, "", "भाई", M),
        noun ("sister", "", "sorella", F, "", "बहन", F),
        noun ("son", "", "figlio", M, "", "बेटा", M),
        noun ("daughter", "", "figlia", F, "", "बेटी", F),
    ]
    Kind::Elder => [
        fixed ("father", "", "padre", M, "", "पिता", M),
        noun ("mother", "", "madre", F, "", "माँ", F),
        fixed ("grandfather", "", "nonno", M, "", "दादा", M),
        noun ("grandmother", "", "nonna", F, "", "दादी", F),
        fixed ("uncle", "", "zio", M, "zii", "चाचा", M),
        noun ("aunt", "", "zia", F, "", "चाची", F),
    ]
    Kind::Animal => [
        noun ("dog", "", "cane", M, "", "कुत्ता", M),
        noun ("cat", "", "gatto", M, "", "बिल्ली", F),
        noun ("horse", "", "cavallo", M, "", "घोड़ा", M),
        noun ("cow", "", "mucca", F, "", "गाय", F),
        noun ("bird", "", "uccello", M, "", "चिड़िया", F),
        noun ("elephant", "", "elefante", M, "", "हाथी", M),
        noun ("monkey", "", "scimmia", F, "", "बंदर", M),
        noun ("goat", "", "capra", F, "", "बकरी", F),
        noun ("lion", "", "leone", M, "", "शेर", M),
        noun ("rabbit", "", "coniglio", M, "", "ख़रगोश", M),
        noun ("squirrel", "", "scoiattolo", M, "", "गिलहरी", F),
        noun ("tiger", "", "tigre", F, "", "बाघ", M),
        noun ("bear", "", "orso", M, "", "भालू", M),
        noun ("mouse", "mice", "topo", M, "", "चूहा", M),
        noun ("fox", "foxes", "volpe", F, "", "लोमड़ी", F),
        noun ("parrot", "", "pappagallo", M, "", "तोता", M),
    ]
    Kind::Fruit => [
        noun ("apple", "", "mela", F, "", "सेब", M),
        noun ("banana", "", "banana", F, "", "केला", M),
        noun ("orange", "", "arancia", F, "arance", "संतरा", M),
        noun ("mango", "mangoes", "mango", M, "", "आम", M),
        noun ("fig", "", "fico", M, "", "अंजीर", M),
        noun ("peach", "peaches", "pesca", F, "", "आड़ू", M),
    ]
    Kind::Food => [
        noun ("cake", "", "torta", F, "", "केक", M),
        noun ("potato", "potatoes", "patata", F, "", "आलू", M),
        noun ("tomato", "tomatoes", "pomodoro", M, "", "टमाटर", M),
        noun ("biscuit", "", "biscotto", M, "", "बिस्कुट", M),
        noun ("carrot", "", "carota", F, "", "गाजर", F),
        noun ("sweet", "", "dolce", M, "", "मिठाई", F),
        noun ("sandwich", "sandwiches", "panino", M, "", "सैंडविच", M),
    ]
    Kind::Mass => [
        noun ("bread", "", "pane", M, "", "रोटी", F),
        noun ("rice", "", "riso", M, "", "चावल", M),
        noun ("cheese", "", "formaggio", M, "", "पनीर", M),
        noun ("soup", "", "zuppa", F, "", "सूप", M),
    ]
    Kind::Drink => [
        noun ("water", "", "acqua", F, "", "पानी", M),
        noun ("milk", "", "latte", M, "", "दूध", M),
        noun ("tea", "", "tè", M, "tè", "चाय", F),
        noun ("coffee", "", "caffè", M, "caffè", "कॉफ़ी", F),
        noun ("juice", "", "succo", M, "", "रस", M),
    ]
    Kind::Text => [
        noun ("book", "", "libro", M, "", "किताब", F),
        noun ("letter", "", "lettera", F, "", "चिट्ठी", F),
        noun ("story", "", "storia", F, "", "कहानी", F),
        noun ("poem", "", "poesia", F, "", "कविता", F),
        noun ("article", "", "articolo", M, "", "लेख", M),
        noun ("message", "", "messaggio", M, "", "संदेश", M),
    ]
    Kind::Print => [
        noun ("newspaper", "", "giornale", M, "", "अख़बार", M),
        noun ("magazine", "", "rivista", F, "", "पत्रिका", F),
        noun ("dictionary", "", "dizionario", M, "", "शब्दकोश", M),
    ]
    Kind::Song => [
        noun ("song", "", "canzone", F, "", "गाना", M),
        noun ("hymn", "", "inno", M, "", "भजन", M),
    ]
    Kind::Cloth => [
        noun ("shirt", "", "camicia", F, "camicie", "क़मीज़", F),
        noun ("hat", "", "cappello", M, "", "टोपी", F),
        noun ("coat", "", "cappotto", M, "", "कोट", M),
        noun ("dress", "dresses", "vestito", M, "", "पोशाक", F),
        noun ("jacket", "", "giacca", F, "", "जैकेट", F),
        noun ("scarf", "scarves", "sciarpa", F, "", "दुपट्टा", M),
        noun ("sweater", "", "maglione", M, "", "स्वेटर", M),
    ]
    Kind::Thing => [
        noun ("key", "", "chiave", F, "", "चाबी", F),
        noun ("pencil", "", "matita", F, "", "पेंसिल", F),
        noun ("bag", "", "borsa", F, "", "थैला", M),
        noun ("backpack", "", "zaino", M, "", "बस्ता", M),
        noun ("box", "boxes", "scatola", F, "", "डिब्बा", M),
        noun ("ball", "", "palla", F, "", "गेंद", F),
        noun ("umbrella", "", "ombrello", M, "", "छाता", M),
        noun ("clock", "", "orologio", M, "", "घड़ी", F),
        noun ("knife", "knives", "coltello", M, "", "चाकू", M),
        noun ("spoon", "", "cucchiaio", M, "", "चम्मच", M),
        noun ("gift", "", "regalo", M, "", "उपहार", M),
        noun ("flower", "", "fiore", M, "", "फूल", M),
        noun ("picture", "", "quadro", M, "", "तस्वीर", F),
        noun ("toy", "", "giocattolo", M, "", "खिलौना", M),
        noun ("ticket", "", "biglietto", M, "", "टिकट", M),
        noun ("coin", "", "moneta", F, "", "सिक्का", M),
        noun ("tool", "", "attrezzo", M, "", "औज़ार", M),
        noun ("telephone", "", "telefono", M, "", "फ़ोन", M),
        noun ("candle", "", "candela", F, "", "मोमबत्ती", F),
        noun ("stone", "", "pietra", F, "", "पत्थर", M),
        noun ("rope", "", "corda", F, "", "रस्सी", F),
        noun ("basket", "", "cesto", M, "", "टोकरी", F),
        noun ("blanket", "", "coperta", F, "", "कंबल", M),
        noun ("ring", "", "anello", M, "", "अँगूठी", F),
    ]
    Kind::Fragile => [
        noun ("glass", "glasses", "bicchiere", M, "", "गिलास", M),
        noun ("plate", "", "piatto", M, "", "थाली", F),
        noun ("cup", "", "tazza", F, "", "प्याला", M),
        noun ("mirror", "", "specchio", M, "", "आईना", M),
        noun ("bottle", "", "bottiglia", F, "", "बोतल", F),
    ]
    Kind::Furniture => [
        noun ("table", "", "tavolo", M, "", "मेज़", F),
        noun ("chair", "", "sedia", F, "", "कुर्सी", F),
        noun ("bed", "", "letto", M, "", "पलंग", M),
        noun ("stool", "", "sgabello", M, "", "स्टूल", M),
        noun ("carpet", "", "tappeto", M, "", "क़ालीन", M),
    ]
    Kind::Opening => [
        noun ("door", "", "porta", F, "", "दरवाज़ा", M),
        noun ("window", "", "finestra", F, "", "खिड़की", F),
        noun ("gate", "", "cancello", M, "", "फाटक", M),
    ]
    Kind::Car => [
        noun ("car", "", "macchina", F, "", "गाड़ी", F),
        noun ("bus", "buses", "autobus", M, "autobus", "बस", F),
        noun ("truck", "", "camion", M, "camion", "ट्रक", M),
    ]
    Kind::Ride => [
        noun ("bicycle", "", "bicicletta", F, "", "साइकिल", F),
        noun ("train", "", "treno", M, "", "ट्रेन", F),
        noun ("boat", "", "barca", F, "", "नाव", F),
        noun ("ship", "", "nave", F, "", "जहाज़", M),
    ]
    Kind::Tree => [
        noun ("tree", "", "albero", M, "", "पेड़", M),
        noun ("bridge", "", "ponte", M, "", "पुल", M),
    ]
    Kind::Place(At::Room) => [
        noun ("garden", "", "giardino", M, "", "बगीचा", M),
        noun ("kitchen", "", "cucina", F, "", "रसोई", F),
        noun ("room", "", "stanza", F, "", "कमरा", M),
        noun ("office", "", "ufficio", M, "", "दफ़्तर", M),
        noun ("library", "", "biblioteca", F, "", "पुस्तकालय", M),
        noun ("forest", "", "foresta", F, "", "जंगल", M),
        noun ("temple", "", "tempio", M, "templi", "मंदिर", M),
        noun ("shop", "", "negozio", M, "", "दुकान", F),
    ]
    Kind::Place(At::House) => [
        noun ("house", "", "casa", F, "", "घर", M),
        noun ("school", "", "scuola", F, "", "स्कूल", M),
        noun ("hospital", "", "ospedale", M, "", "अस्पताल", M),
        noun ("museum", "", "museo", M, "", "संग्रहालय", M),
        noun ("village", "", "villaggio", M, "", "गाँव", M),
        noun ("castle", "", "castello", M, "", "क़िला", M),
        noun ("hotel", "", "albergo", M, "alberghi", "होटल", M),
    ]
    Kind::Place(At::Fair) => [
        noun ("market", "", "mercato", M, "", "बाज़ार", M),
        noun ("restaurant", "", "ristorante", M, "", "रेस्तराँ", M),
        noun ("theatre", "", "teatro", M, "", "थिएटर", M),
        noun ("park", "", "parco", M, "", "पार्क", M),
        noun ("zoo", "", "zoo", M, "zoo", "चिड़ियाघर", M),
        noun ("stadium", "", "stadio", M, "", "स्टेडियम", M),
    ]
    Kind::Place(At::Stop) => [
        noun ("station", "", "stazione", F, "", "स्टेशन", M),
        noun ("airport", "", "aeroporto", M, "", "हवाई अड्डा", M),
    ]
    Kind::Place(At::Open) => [
        noun ("beach", "beaches", "spiaggia", F, "spiagge", "समुद्र तट", M),
        noun ("island", "", "isola", F, "", "द्वीप", M),
        noun ("roof", "", "tetto", M, "", "छत", F),
    ]
}

/// A person or town with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Name {
    pub(in super::super) en: &'static str,
    pub(super) it: &'static str,
    pub(super) hi: &'static str,
    pub(super) gender: Gender,
}

const fn name(en: &'static str, it: &'static str, hi: &'static str, gender: Gender) -> Name {
    Name { en, it, hi, gender }
}

/// People.
pub(in super::super) static NAMES: &[Name] = &[
    name("Maria", "Maria", "मारिया", F),
    name("Marco", "Marco", "मार्को", M),
    name("Anna", "Anna", "अन्ना", F),
    name("Luca", "Luca", "लूका", M),
    name("Giulia", "Giulia", "जूलिया", F),
    name("Paolo", "Paolo", "पाओलो", M),
    name("Ravi", "Ravi", "रवि", M),
    name("Anita", "Anita", "अनीता", F),
    name("Meera", "Meera", "मीरा", F),
    name("Arjun", "Arjun", "अर्जुन", M),
    name("Sara", "Sara", "सारा", F),
    name("Rohan", "Rohan", "रोहन", M),
    name("Kavita", "Kavita", "कविता", F),
    name("John", "John", "जॉन", M),
];

/// Towns: in Rome, a Roma, रोम में.
pub(in super::super) static CITIES: &[Name] = &[
    name("Rome", "Roma", "रोम", F),
    name("Milan", "Milano", "मिलान", F),
    name("Naples", "Napoli", "नेपल्स", F),
    name("Delhi", "Delhi", "दिल्ली", F),
    name("Mumbai", "Mumbai", "मुंबई", F),
    name("London", "Londra", "लंदन", F),
    name("Paris", "Parigi", "पेरिस", F),
    name("Jaipur", "Jaipur", "जयपुर", F),
];
