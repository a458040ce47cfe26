//! The verbs, one row each, with what they may be said of; and the adverbs that go with the tenses.

use super::Gender::{self, F, M};
use super::Tense;
use super::nouns::{At, Kind};

/// What stands around a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Frame {
    /// she sleeps
    Alone,
    /// she goes to the market
    Goal,
    /// she reads a book: an object of one of these kinds
    Object(&'static [Kind]),
    /// she gives a book to the boy
    Gift(&'static [Kind]),
}

/// How Hindi marks the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// को for people and for animals one knows, nothing for things
    Object,
    /// a postposition: से, को, or का and की, which belong to the noun of the verb
    With(&'static str),
}

/// A noun or adjective that makes the verb together with a light one: इंतज़ार करना.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) word: &'static str,
    /// a noun takes the agreement upon itself; an adjective does not
    pub(super) gender: Option<Gender>,
}

/// One verb in three languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Verb {
    pub(in super::super) en: &'static str,
    /// empty: regular
    pub(super) past: &'static str,
    /// *waits* **for** *the bus*
    pub(super) en_prep: &'static str,
    pub(super) it: &'static str,
    pub(super) hi: &'static str,
    pub(super) host: Option<Host>,
    pub(super) mark: Mark,
    /// in the perfective the agent takes ने
    pub(super) ergative: bool,
    /// no progressive, and the past is a habit: know, love
    pub(super) stative: bool,
    pub(in super::super) frame: Frame,
}

pub(super) const fn verb(
    en: &'static str,
    past: &'static str,
    it: &'static str,
    hi: &'static str,
    frame: Frame,
) -> Verb {
    let ergative = matches!(frame, Frame::Object(_) | Frame::Gift(_));
    Verb { en, past, en_prep: "", it, hi, host: None, mark: Mark::Object, ergative, stative: false, frame }
}

impl Verb {
    const fn preposition(mut self, en: &'static str) -> Self {
        self.en_prep = en;
        self
    }
    const fn noun(mut self, word: &'static str, gender: Gender) -> Self {
        self.host = Some(Host { word, gender: Some(gender) });
        self.ergative = true;
        self
    }
    const fn quality(mut self, word: &'static str) -> Self {
        self.host = Some(Host { word, gender: None });
        self
    }
    const fn mark(mut self, postposition: &'static str) -> Self {
        self.mark = Mark::With(postposition);
        self
    }
    const fn nominative(mut self) -> Self {
        self.ergative = false;
        self
    }
    const fn stative(mut self) -> Self {
        self.stative = true;
        self
    }
}

const PEOPLE: Frame = Frame::Object(&[Kind::Person, Kind::Kin, Kind::Elder]);
const CREATURES: Frame = Frame::Object(&[Kind::Person, Kind::Animal, Kind::Kin]);
const EATEN: Frame = Frame::Object(&[Kind::Fruit, Kind::Food, Kind::Mass]);
const COOKED: Frame = Frame::Object(&[Kind::Food, Kind::Mass]);
const BOUGHT: Frame = Frame::Object(&[
    Kind::Fruit,
    Kind::Food,
    Kind::Mass,
    Kind::Text,
    Kind::Print,
    Kind::Cloth,
    Kind::Thing,
    Kind::Fragile,
    Kind::Car,
]);
const SEEN: Frame = Frame::Object(&[Kind::Person, Kind::Animal, Kind::Thing, Kind::Car, Kind::Ride]);
const PICTURED: Frame = Frame::Object(&[Kind::Person, Kind::Animal, Kind::Ride, Kind::Place(At::House)]);
const SOUGHT: Frame = Frame::Object(&[Kind::Person, Kind::Animal, Kind::Thing, Kind::Cloth, Kind::Print]);
const CARRIED: Frame = Frame::Object(&[Kind::Thing, Kind::Text, Kind::Print, Kind::Cloth]);
const GIVEN: Frame = Frame::Gift(&[Kind::Thing, Kind::Text, Kind::Cloth, Kind::Fruit, Kind::Food, Kind::Fragile]);
const KEPT: Frame = Frame::Gift(&[Kind::Thing, Kind::Text, Kind::Cloth]);
const WEIGHED: Frame = Frame::Object(&[Kind::Thing, Kind::Furniture]);
const MOVED: Frame = Frame::Object(&[Kind::Car, Kind::Ride, Kind::Furniture]);

/// Every verb but *be*, *have* and *like*, which have sentences of their own.
pub(in super::super) static VERBS: &[Verb] = &[
    verb("eat", "ate", "mangiare", "खा", EATEN),
    verb("cook", "", "cucinare", "पका", COOKED),
    verb("prepare", "", "preparare", "कर", COOKED).quality("तैयार"),
    verb("drink", "drank", "bere", "पी", Frame::Object(&[Kind::Drink])),
    verb("buy", "bought", "comprare", "ख़रीद", BOUGHT),
    verb("choose", "chose", "scegliere", "चुन", BOUGHT),
    verb("read", "read", "leggere", "पढ़", Frame::Object(&[Kind::Text, Kind::Print])),
    verb("write", "wrote", "scrivere", "लिख", Frame::Object(&[Kind::Text])),
    verb("translate", "", "tradurre", "कर", Frame::Object(&[Kind::Text])).noun("अनुवाद", M).mark("का"),
    verb("see", "saw", "vedere", "देख", SEEN),
    verb("photograph", "", "fotografare", "खींच", PICTURED).noun("तस्वीर", F).mark("की"),
    verb("look", "", "cercare", "ढूँढ", SOUGHT).preposition("for"),
    verb("take", "took", "prendere", "ले", CARRIED),
    verb("hide", "hid", "nascondere", "छिपा", CARRIED),
    verb("lift", "", "sollevare", "उठा", WEIGHED),
    verb("throw", "threw", "lanciare", "फेंक", Frame::Object(&[Kind::Thing])),
    verb("break", "broke", "rompere", "तोड़", Frame::Object(&[Kind::Fragile])),
    verb("wash", "", "lavare", "धो", Frame::Object(&[Kind::Cloth, Kind::Fragile, Kind::Car])),
    verb(
        "clean",
        "",
        "pulire",
        "कर",
        Frame::Object(&[Kind::Furniture, Kind::Place(At::Room), Kind::Opening, Kind::Car]),
    )
    .quality("साफ़"),
    verb("repair", "", "riparare", "कर", MOVED).quality("ठीक"),
    verb("push", "", "spingere", "धकेल", MOVED),
    verb("pull", "", "tirare", "खींच", MOVED),
    verb("open", "", "aprire", "खोल", Frame::Object(&[Kind::Opening])),
    verb("close", "", "chiudere", "कर", Frame::Object(&[Kind::Opening])).quality("बंद"),
    verb("wear", "wore", "indossare", "पहन", Frame::Object(&[Kind::Cloth])),
    verb("drive", "drove", "guidare", "चला", Frame::Object(&[Kind::Car])),
    verb("sing", "sang", "cantare", "गा", Frame::Object(&[Kind::Song])),
    verb("hear", "heard", "sentire", "सुन", Frame::Object(&[Kind::Song])),
    verb("build", "built", "costruire", "बना", Frame::Object(&[Kind::Place(At::House)])),
    verb("catch", "caught", "catturare", "पकड़", Frame::Object(&[Kind::Animal])),
    verb("follow", "", "seguire", "कर", CREATURES).noun("पीछा", M).mark("का"),
    verb("help", "", "aiutare", "कर", PEOPLE).noun("मदद", F).mark("की"),
    verb("wait", "", "aspettare", "कर", PEOPLE).preposition("for").noun("इंतज़ार", M).mark("का"),
    verb("meet", "met", "incontrare", "मिल", PEOPLE).mark("से").nominative(),
    verb("call", "", "chiamare", "बुला", CREATURES),
    verb("invite", "", "invitare", "कर", PEOPLE).quality("आमंत्रित"),
    verb("thank", "", "ringraziare", "दे", PEOPLE).noun("धन्यवाद", M).mark("को"),
    verb("know", "knew", "conoscere", "जान", PEOPLE).stative(),
    verb("love", "", "amare", "कर", CREATURES).noun("प्यार", M).mark("से").stative(),
    verb("fear", "", "temere", "डर", CREATURES).mark("से").nominative().stative(),
    verb("give", "gave", "dare", "दे", GIVEN),
    verb("show", "", "mostrare", "दिखा", GIVEN),
    verb("send", "sent", "mandare", "भेज", GIVEN),
    verb("sell", "sold", "vendere", "बेच", GIVEN),
    verb("lend", "lent", "prestare", "दे", KEPT).quality("उधार"),
    verb("sleep", "slept", "dormire", "सो", Frame::Alone).nominative(),
    verb("run", "ran", "correre", "दौड़", Frame::Alone),
    verb("walk", "", "camminare", "चल", Frame::Alone),
    verb("laugh", "", "ridere", "हँस", Frame::Alone),
    verb("smile", "", "sorridere", "मुस्कुरा", Frame::Alone),
    verb("cry", "cried", "piangere", "रो", Frame::Alone),
    verb("swim", "swam", "nuotare", "तैर", Frame::Alone),
    verb("dance", "", "ballare", "नाच", Frame::Alone),
    verb("jump", "", "saltare", "कूद", Frame::Alone),
    verb("shout", "", "gridare", "चिल्ला", Frame::Alone),
    verb("play", "", "giocare", "खेल", Frame::Alone),
    verb("work", "", "lavorare", "कर", Frame::Alone).noun("काम", M),
    verb("study", "studied", "studiare", "कर", Frame::Alone).noun("पढ़ाई", F),
    verb("travel", "travelled", "viaggiare", "कर", Frame::Alone).noun("यात्रा", F),
    verb("rest", "", "riposare", "कर", Frame::Alone).noun("आराम", M),
    verb("go", "went", "andare", "जा", Frame::Goal).preposition("to"),
    verb("come", "came", "venire", "आ", Frame::Goal).preposition("to"),
    verb("return", "", "tornare", "लौट", Frame::Goal).preposition("to"),
    verb("arrive", "", "arrivare", "पहुँच", Frame::Goal).preposition("at"),
];

/// When, and in which tenses one can say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Time {
    pub(super) en: &'static str,
    pub(super) it: &'static str,
    pub(super) hi: &'static str,
    pub(super) tenses: &'static [Tense],
}

const fn time(en: &'static str, it: &'static str, hi: &'static str, tenses: &'static [Tense]) -> Time {
    Time { en, it, hi, tenses }
}

const HABIT: &[Tense] = &[Tense::Present, Tense::UsedTo];
const DONE: &[Tense] = &[Tense::Past];
const GOING_ON: &[Tense] = &[Tense::Progressive];
const TO_COME: &[Tense] = &[Tense::Future];

/// Every time.
pub(in super::super) static TIMES: &[Time] = &[
    time("every day", "ogni giorno", "हर दिन", HABIT),
    time("every morning", "ogni mattina", "हर सुबह", HABIT),
    time("every evening", "ogni sera", "हर शाम", HABIT),
    time("every Sunday", "ogni domenica", "हर रविवार", HABIT),
    time("yesterday", "ieri", "कल", DONE),
    time("last week", "la settimana scorsa", "पिछले हफ़्ते", DONE),
    time("last year", "l'anno scorso", "पिछले साल", DONE),
    time("two days ago", "due giorni fa", "दो दिन पहले", DONE),
    time("now", "adesso", "अभी", GOING_ON),
    time("tomorrow", "domani", "कल", TO_COME),
    time("next week", "la settimana prossima", "अगले हफ़्ते", TO_COME),
    time("next year", "l'anno prossimo", "अगले साल", TO_COME),
];

/// How often: before the verb in English, after it in Italian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Often {
    pub(super) en: &'static str,
    pub(super) it: &'static str,
    pub(super) hi: &'static str,
}

/// Every frequency.
pub(in super::super) static OFTEN: &[Often] = &[
    Often { en: "always", it: "sempre", hi: "हमेशा" },
    Often { en: "often", it: "spesso", hi: "अक्सर" },
    Often { en: "rarely", it: "raramente", hi: "कभी-कभार" },
];

/// Ways of doing what needs no object.
pub(in super::super) static MANNERS: &[Often] = &[
    Often { en: "slowly", it: "lentamente", hi: "धीरे-धीरे" },
    Often { en: "a lot", it: "molto", hi: "बहुत" },
    Often { en: "quietly", it: "in silenzio", hi: "चुपचाप" },
];
