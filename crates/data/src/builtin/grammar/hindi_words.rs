//! Hindi words: the oblique case, plurals, adjectives in -ā, pronouns with their postpositions, and the verb's forms.
//!
//! | | direct | oblique | direct plural | oblique plural |
//! |---|---|---|---|---|
//! | masculine -ā | लड़का | लड़के | लड़के | लड़कों |
//! | masculine, other | घर | घर | घर | घरों |
//! | feminine -ī | लड़की | लड़की | लड़कियाँ | लड़कियों |
//! | feminine, other | किताब | किताब | किताबें | किताबों |

use super::Gender::{self, F, M};
use super::nouns::{Class, Noun};
use super::{Adjective, Determiner, Kind, Np, Phrase, Pronoun, line};

/// With or without a postposition after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Direct,
    Oblique,
}

/// What the verb agrees with. Respect makes one person plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) person: Person,
    pub(super) plural: bool,
    pub(super) gender: Gender,
}

/// मैं, तुम, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Person {
    First,
    Second,
    Third,
}

/// What a perfective verb falls back to when neither agent nor object may rule it.
pub(super) const NEUTRAL: Agreement = Agreement { person: Person::Third, plural: false, gender: M };

/// The noun in this case and number.
pub(super) fn noun(noun: &Noun, case: Case, plural: bool) -> String {
    let word = noun.hi;
    let oblique = case == Case::Oblique;
    let with = |end: &str, new: &str| format!("{}{new}", word.strip_suffix(end).unwrap_or(word));
    match (noun.hi_gender, plural) {
        (M, _) if noun.class == Class::Fixed => {
            if plural && oblique {
                format!("{word}ओं")
            } else {
                word.to_owned()
            }
        }
        (M, true) if oblique && word.ends_with('ा') => with("ा", "ों"),
        (M, _) if word.ends_with("या") && (oblique || plural) => with("या", "ए"),
        (M, _) if word.ends_with('ा') && (oblique || plural) => with("ा", "े"),
        (F, true) if word.ends_with("िया") => with("ा", if oblique { "ों" } else { "ाँ" }),
        (F, true) if word.ends_with('ा') => format!("{word}{}", if oblique { "ओं" } else { "एँ" }),
        (_, true) if word.ends_with('ू') && oblique => with("ू", "ुओं"),
        (F, true) if !oblique && word.ends_with('ी') => with("ी", "ियाँ"),
        (F, true) if !oblique && word.ends_with('ई') => with("ई", "इयाँ"),
        (_, true) if oblique && word.ends_with('ी') => with("ी", "ियों"),
        (_, true) if oblique && word.ends_with('ई') => with("ई", "इयों"),
        (_, true) if oblique && word.ends_with('ि') => format!("{word}यों"),
        (_, true) if oblique => format!("{word}ों"),
        (F, true) => format!("{word}ें"),
        _ => word.to_owned(),
    }
}

/// Adjectives in -ā that stay as they are.
const FIXED: [&str; 2] = ["युवा", "ताज़ा"];

/// A word in -ā agreeing: बड़ा, बड़े, बड़ी. Oblique or plural masculine is -e.
pub(super) fn agree(word: &str, gender: Gender, e: bool) -> String {
    let (stem, matra) = match (word.strip_suffix("या"), word.strip_suffix('आ'), word.strip_suffix('ा')) {
        (Some(stem), ..) | (_, Some(stem), _) => (stem, ["ए", "ई"]),
        (.., Some(stem)) => (stem, ["े", "ी"]),
        _ => return word.to_owned(),
    };
    match gender {
        F => format!("{stem}{}", matra[1]),
        M if e => format!("{stem}{}", matra[0]),
        M => word.to_owned(),
    }
}

/// The adjective agreeing; in थका हुआ both words do.
pub(super) fn adjective(adjective: &Adjective, gender: Gender, e: bool) -> String {
    if FIXED.contains(&adjective.hi) {
        return adjective.hi.to_owned();
    }
    let words: Vec<String> = adjective.hi.split(' ').map(|word| agree(word, gender, e)).collect();
    words.join(" ")
}

/// Whether Hindi speaks of this phrase with respect.
fn honoured(p: &Phrase) -> bool {
    p.noun.kind == Kind::Elder
}

/// The phrase. `owner` is whose अपना it is: what belongs to the subject is *own*, not *his*.
pub(super) fn phrase(p: &Phrase, case: Case, owner: Option<Pronoun>) -> String {
    let gender = p.noun.hi_gender;
    let e = case == Case::Oblique || p.plural || honoured(p);
    let determiner = match (p.determiner, case, p.plural) {
        (Determiner::The | Determiner::Bare, ..) => String::new(),
        (Determiner::A, ..) => "एक".to_owned(),
        (Determiner::This, Case::Direct, false) => "यह".to_owned(),
        (Determiner::This, Case::Direct, true) => "ये".to_owned(),
        (Determiner::This, Case::Oblique, false) => "इस".to_owned(),
        (Determiner::This, Case::Oblique, true) => "इन".to_owned(),
        (Determiner::That, Case::Direct, false) => "वह".to_owned(),
        (Determiner::That, Case::Direct, true) => "वे".to_owned(),
        (Determiner::That, Case::Oblique, false) => "उस".to_owned(),
        (Determiner::That, Case::Oblique, true) => "उन".to_owned(),
        (Determiner::Poss(who), ..) if owner == Some(who) => agree("अपना", gender, e),
        (Determiner::Poss(who), ..) => agree(possessive(who), gender, e),
        (Determiner::Of(name), ..) => format!("{} {}", name.hi, agree("का", gender, e)),
        (Determiner::Count(n), ..) => ["दो", "तीन", "चार", "पाँच"][(n - 2) % 4].to_owned(),
        (Determiner::Many, ..) => "कई".to_owned(),
    };
    let adjective = p.adjective.map_or(String::new(), |a| adjective(a, gender, e));
    line(&[&determiner, &adjective, &noun(p.noun, case, p.plural)])
}

/// The subject as the verb sees it.
pub(super) fn agreement(np: &Np) -> Agreement {
    let third = |plural, gender| Agreement { person: Person::Third, plural, gender };
    match np {
        Np::Pronoun(Pronoun::I) => Agreement { person: Person::First, plural: false, gender: M },
        Np::Pronoun(Pronoun::You | Pronoun::All) => Agreement { person: Person::Second, plural: true, gender: M },
        Np::Pronoun(p) => third(p.plural() || matches!(p, Pronoun::Sir | Pronoun::Madam), p.gender()),
        Np::Name(name) => third(false, name.gender),
        Np::Names(a, b) => third(true, if a.gender == b.gender { a.gender } else { M }),
        Np::Phrase(p) => third(p.plural || honoured(p), p.noun.hi_gender),
    }
}

fn possessive(who: Pronoun) -> &'static str {
    match who {
        Pronoun::I => "मेरा",
        Pronoun::You => "तुम्हारा",
        Pronoun::He | Pronoun::She => "उसका",
        Pronoun::We => "हमारा",
        Pronoun::All => "तुम सबका",
        Pronoun::They => "उनका",
        Pronoun::Sir | Pronoun::Madam => "आपका",
    }
}

/// Somebody or something with a postposition: मुझे, उसने, लड़की को. का agrees with what is owned, as (gender, e).
pub(super) fn marked(np: &Np, postposition: &str, owner: Option<Pronoun>, owned: (Gender, bool)) -> String {
    let ka = matches!(postposition, "का" | "की" | "के") || postposition.starts_with("के ");
    let (first, rest) = postposition.split_once(' ').unwrap_or((postposition, ""));
    let first = if ka && first != "के" { agree("का", owned.0, owned.1) } else { first.to_owned() };
    match np {
        Np::Pronoun(p) if ka => {
            let e = owned.1 || first == "के";
            line(&[&agree(possessive(*p), if first == "की" { F } else { M }, e), rest])
        }
        Np::Pronoun(p) => pronoun(*p, postposition),
        Np::Name(name) => line(&[name.hi, &first, rest]),
        Np::Names(a, b) => line(&[a.hi, "और", b.hi, &first, rest]),
        Np::Phrase(p) => line(&[&phrase(p, Case::Oblique, owner), &first, rest]),
    }
}

/// A pronoun grown together with its postposition.
fn pronoun(p: Pronoun, postposition: &str) -> String {
    let (plain, ne, ko) = match p {
        Pronoun::I => ("मुझ", "मैंने", "मुझे"),
        Pronoun::You => ("तुम", "तुमने", "तुम्हें"),
        Pronoun::He | Pronoun::She => ("उस", "उसने", "उसे"),
        Pronoun::We => ("हम", "हमने", "हमें"),
        Pronoun::All => ("तुम सब", "तुम सबने", "तुम सबको"),
        Pronoun::They => ("उन", "उन्होंने", "उन्हें"),
        Pronoun::Sir | Pronoun::Madam => ("आप", "आपने", "आपको"),
    };
    match postposition {
        "ने" => ne.to_owned(),
        "को" => ko.to_owned(),
        other => format!("{plain}{other}"),
    }
}

/// Somebody or something without a postposition.
pub(super) fn direct(np: &Np, owner: Option<Pronoun>) -> String {
    match np {
        Np::Pronoun(p) => match p {
            Pronoun::I => "मैं",
            Pronoun::You => "तुम",
            Pronoun::He | Pronoun::She => "वह",
            Pronoun::We => "हम",
            Pronoun::All => "तुम सब",
            Pronoun::They => "वे",
            Pronoun::Sir | Pronoun::Madam => "आप",
        }
        .to_owned(),
        Np::Name(name) => name.hi.to_owned(),
        Np::Names(a, b) => format!("{} और {}", a.hi, b.hi),
        Np::Phrase(p) => phrase(p, Case::Direct, owner),
    }
}

/// ता, ते, ती and रहा, रहे, रही
pub(super) fn participle(word: &str, a: Agreement) -> String {
    agree(word, a.gender, a.plural)
}

/// हूँ, हो, है, हैं
pub(super) fn is(a: Agreement) -> &'static str {
    match (a.person, a.plural) {
        (Person::First, false) => "हूँ",
        (Person::Second, _) => "हो",
        (_, false) => "है",
        (_, true) => "हैं",
    }
}

/// था, थे, थी, थीं
pub(super) fn was(a: Agreement) -> &'static str {
    match (a.gender, a.plural) {
        (M, false) => "था",
        (M, true) => "थे",
        (F, false) => "थी",
        (F, true) => "थीं",
    }
}

/// पढ़ूँगा, पढ़ोगे, पढ़ेगा, पढ़ेंगे
pub(super) fn future(stem: &str, a: Agreement) -> String {
    // Stem, and whether the ending is a sign on a consonant or a letter of its own.
    let (short, sign) = match stem {
        "दे" => ("द", true),
        "ले" => ("ल", true),
        "पी" => ("पि", false),
        "हो" => {
            return format!("{}{}", if a.person == Person::Second || !a.plural { "हो" } else { "हों" }, ga(a));
        }
        _ => (stem, !stem.ends_with(['ा', 'ो', 'ी', 'आ'])),
    };
    let ending = match (a.person, a.plural, sign) {
        (Person::First, false, true) => "ूँ",
        (Person::First, false, false) => "ऊँ",
        (Person::Second, _, true) => "ो",
        (Person::Second, _, false) => "ओ",
        (_, false, true) => "े",
        (_, false, false) => "ए",
        (_, true, true) => "ें",
        (_, true, false) => "एँ",
    };
    format!("{short}{ending}{}", ga(a))
}

fn ga(a: Agreement) -> &'static str {
    match (a.gender, a.plural) {
        (F, _) => "गी",
        (M, false) => "गा",
        (M, true) => "गे",
    }
}

/// पढ़ा, पढ़े, पढ़ी, पढ़ीं; खाया, खाए, खाई, खाईं; किया, दिया, गया
pub(super) fn perfective(stem: &str, a: Agreement) -> String {
    let forms = match stem {
        "कर" => ["किया", "किए", "की", "कीं"],
        "दे" => ["दिया", "दिए", "दी", "दीं"],
        "ले" => ["लिया", "लिए", "ली", "लीं"],
        "पी" => ["पिया", "पिए", "पी", "पीं"],
        "जा" => ["गया", "गए", "गई", "गईं"],
        _ => ["", "", "", ""],
    };
    let which = match (a.gender, a.plural) {
        (M, false) => 0,
        (M, true) => 1,
        (F, false) => 2,
        (F, true) => 3,
    };
    if !forms[which].is_empty() {
        return forms[which].to_owned();
    }
    let endings = if stem.ends_with(['ा', 'ो', 'आ']) {
        ["या", "ए", "ई", "ईं"]
    } else {
        ["ा", "े", "ी", "ीं"]
    };
    format!("{stem}{}", endings[which])
}

#[cfg(test)]
mod tests {
    use super::super::nouns::NOUNS;
    use super::*;

    #[test]
    fn nouns_are_declined() {
        for (en, forms) in [
            ("boy", "लड़का लड़के लड़के लड़कों"),
            ("girl", "लड़की लड़की लड़कियाँ लड़कियों"),
            ("man", "आदमी आदमी आदमी आदमियों"),
            ("book", "किताब किताब किताबें किताबों"),
            ("elephant", "हाथी हाथी हाथी हाथियों"),
            ("bird", "चिड़िया चिड़िया चिड़ियाँ चिड़ियों"),
            ("poem", "कविता कविता कविताएँ कविताओं"),
            ("king", "राजा राजा राजा राजाओं"),
            ("potato", "आलू आलू आलू आलुओं"),
            ("brother", "भाई भाई भाई भाइयों"),
            ("sweet", "मिठाई मिठाई मिठाइयाँ मिठाइयों"),
            ("poet", "कवि कवि कवि कवियों"),
            ("cook", "रसोइया रसोइए रसोइए रसोइयों"),
            ("apple", "सेब सेब सेब सेबों"),
            ("cow", "गाय गाय गायें गायों"),
        ] {
            let noun_of = NOUNS.iter().find(|n| n.en == en).unwrap();
            let all = [(Case::Direct, false), (Case::Oblique, false), (Case::Direct, true), (Case::Oblique, true)];
            assert_eq!(all.map(|(case, plural)| noun(noun_of, case, plural)).join(" "), forms);
        }
    }

    #[test]
    fn adjectives_agree_or_stay() {
        let all = |word| [agree(word, M, false), agree(word, M, true), agree(word, F, false)].join(" ");
        assert_eq!(all("बड़ा"), "बड़ा बड़े बड़ी");
        assert_eq!(all("नया"), "नया नए नई");
        assert_eq!(all("हुआ"), "हुआ हुए हुई");
        assert_eq!(all("लाल"), "लाल लाल लाल");
    }

    const fn third(plural: bool, gender: Gender) -> Agreement {
        Agreement { person: Person::Third, plural, gender }
    }
    const I: Agreement = Agreement { person: Person::First, plural: false, gender: M };
    const YOU: Agreement = Agreement { person: Person::Second, plural: true, gender: M };

    #[test]
    fn the_perfective() {
        for (stem, forms) in [
            ("पढ़", "पढ़ा पढ़े पढ़ी पढ़ीं"),
            ("खा", "खाया खाए खाई खाईं"),
            ("सो", "सोया सोए सोई सोईं"),
            ("आ", "आया आए आई आईं"),
            ("कर", "किया किए की कीं"),
            ("जा", "गया गए गई गईं"),
            ("पी", "पिया पिए पी पीं"),
        ] {
            let all = [third(false, M), third(true, M), third(false, F), third(true, F)];
            assert_eq!(all.map(|a| perfective(stem, a)).join(" "), forms);
        }
    }

    #[test]
    fn the_future() {
        for (stem, forms) in [
            ("पढ़", "पढ़ूँगा पढ़ोगे पढ़ेगा पढ़ेंगे पढ़ेगी"),
            ("जा", "जाऊँगा जाओगे जाएगा जाएँगे जाएगी"),
            ("दे", "दूँगा दोगे देगा देंगे देगी"),
            ("पी", "पिऊँगा पिओगे पिएगा पिएँगे पिएगी"),
            ("सो", "सोऊँगा सोओगे सोएगा सोएँगे सोएगी"),
        ] {
            let all = [I, YOU, third(false, M), third(true, M), third(false, F)];
            assert_eq!(all.map(|a| future(stem, a)).join(" "), forms);
        }
        assert_eq!(
            [future("हो", third(false, F)), future("हो", third(true, M)), future("हो", YOU)],
            ["होगी", "होंगे", "होगे"]
        );
    }

    #[test]
    fn pronouns_grow_together_with_postpositions() {
        let say = |p, post| marked(&Np::Pronoun(p), post, None, (M, false));
        assert_eq!(say(Pronoun::I, "ने"), "मैंने");
        assert_eq!(say(Pronoun::They, "ने"), "उन्होंने");
        assert_eq!(say(Pronoun::She, "को"), "उसे");
        assert_eq!(say(Pronoun::We, "से"), "हमसे");
        assert_eq!(say(Pronoun::I, "के पास"), "मेरे पास");
        assert_eq!(say(Pronoun::He, "का"), "उसका");
        assert_eq!(marked(&Np::Pronoun(Pronoun::You), "की", None, (F, false)), "तुम्हारी");
    }
}
