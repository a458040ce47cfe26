//! Italian nouns, adjectives, articles and possessives: what agrees, and what the next word's first letters decide.
//!
//! | next word | the | the, plural | a | di + the |
//! |---|---|---|---|---|
//! | libro | il | i | un | del |
//! | zaino, specchio, psicologo | lo | gli | uno | dello |
//! | amico | l' | gli | un | dell' |
//! | casa | la | le | una | della |
//! | arancia | l' | le | un' | dell' |

use super::Gender::{self, F, M};
use super::{Adjective, Determiner, Kind, Noun, Phrase, Pronoun, line};

/// How a word begins, as far as articles care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onset {
    Plain,
    /// s with a consonant, z, gn, ps, x, y
    Strong,
    Vowel,
}

fn onset(word: &str) -> Onset {
    let mut letters = word.chars();
    match (letters.next(), letters.next()) {
        (Some('a' | 'e' | 'i' | 'o' | 'u' | 'è' | 'h'), _) => Onset::Vowel,
        (Some('z' | 'x' | 'y'), _) | (Some('g'), Some('n')) | (Some('p'), Some('s')) => Onset::Strong,
        (Some('s'), Some(second)) if !"aeiouèéìòù".contains(second) => Onset::Strong,
        _ => Onset::Plain,
    }
}

/// The definite article before `next`.
pub(super) fn the(gender: Gender, plural: bool, next: &str) -> &'static str {
    match (gender, plural, onset(next)) {
        (M, false, Onset::Plain) => "il",
        (M, false, Onset::Strong) => "lo",
        (_, false, Onset::Vowel) => "l'",
        (M, true, Onset::Plain) => "i",
        (M, true, _) => "gli",
        (F, false, _) => "la",
        (F, true, _) => "le",
    }
}

/// The indefinite article before `next`.
pub(super) fn a(gender: Gender, next: &str) -> &'static str {
    match (gender, onset(next)) {
        (M, Onset::Strong) => "uno",
        (M, _) => "un",
        (F, Onset::Vowel) => "un'",
        (F, _) => "una",
    }
}

/// A preposition and an article grown together: in + il = nel. *con* and the long prepositions stay apart.
pub(super) fn contract(preposition: &str, article: &str) -> String {
    let short = match preposition {
        "di" => "de",
        "a" => "a",
        "da" => "da",
        "in" => "ne",
        "su" => "su",
        _ => return line(&[preposition, article]),
    };
    match article {
        "il" => format!("{short}l"),
        "i" => format!("{short}i"),
        "gli" => format!("{short}gli"),
        _ => format!("{short}l{article}"), // lo, la, le, l'
    }
}

/// *bel, bello, bell', bei, begli, bella, belle*; *quello* goes the same way.
fn like_the(stem: &str, gender: Gender, plural: bool, next: &str) -> String {
    let article = the(gender, plural, next);
    match article {
        "il" => format!("{stem}l"),
        "i" => format!("{stem}i"),
        "gli" => format!("{stem}gli"),
        _ => format!("{stem}l{article}"),
    }
}

/// The noun in the plural.
pub(super) fn plural(noun: &Noun) -> String {
    if !noun.it_plural.is_empty() {
        return noun.it_plural.to_owned();
    }
    inflect_plural(noun.it, noun.it_gender)
}

fn inflect_plural(word: &str, gender: Gender) -> String {
    let cut = |n: usize| &word[..word.len() - n];
    match word {
        _ if word.ends_with("co") || word.ends_with("go") => format!("{}hi", cut(1)),
        _ if word.ends_with("ca") || word.ends_with("ga") => format!("{}he", cut(1)),
        _ if word.ends_with("io") => cut(1).to_owned(),
        _ if word.ends_with('a') && gender == F => format!("{}e", cut(1)),
        _ if word.ends_with(['o', 'e', 'a']) => format!("{}i", cut(1)),
        _ => word.to_owned(),
    }
}

/// An adjective that agrees.
pub(super) fn adjective(adjective: &Adjective, gender: Gender, plural: bool) -> String {
    let word = adjective.it;
    let stem = &word[..word.len() - 1];
    match (word.chars().next_back(), gender, plural) {
        (Some('o'), M, true) if word == "economico" => "economici".to_owned(),
        (Some('o'), F, false) => format!("{stem}a"),
        (Some('o'), F, true) => inflect_plural(&format!("{stem}a"), F),
        (Some('o' | 'e'), _, true) => inflect_plural(word, M),
        _ => word.to_owned(),
    }
}

/// An adjective before its noun: some are cut short.
fn before(word: &Adjective, gender: Gender, plural: bool, next: &str) -> String {
    match (word.it, gender, plural) {
        ("bello", ..) => like_the("be", gender, plural, next),
        ("buono", M, false) if onset(next) != Onset::Strong => "buon".to_owned(),
        _ => adjective(word, gender, plural),
    }
}

fn possessive(who: Pronoun, gender: Gender, plural: bool) -> String {
    let (stem, masculine) = match who {
        Pronoun::I => ("mi", "miei"),
        Pronoun::You => ("tu", "tuoi"),
        Pronoun::He | Pronoun::She | Pronoun::Sir | Pronoun::Madam => ("su", "suoi"),
        Pronoun::We => ("nostr", "nostri"),
        Pronoun::All => ("vostr", "vostri"),
        Pronoun::They => return "loro".to_owned(),
    };
    match (gender, plural) {
        (M, false) => format!("{stem}o"),
        (M, true) => masculine.to_owned(),
        (F, false) => format!("{stem}a"),
        (F, true) => format!("{stem}e"),
    }
}

/// The phrase after a preposition, which may be empty.
pub(super) fn phrase(preposition: &str, p: &Phrase) -> String {
    let (gender, many) = (p.noun.it_gender, p.plural);
    let noun = if many { plural(p.noun) } else { p.noun.it.to_owned() };
    let core = match p.adjective {
        Some(word) if word.before => line(&[&before(word, gender, many, &noun), &noun]),
        Some(word) => line(&[&noun, &adjective(word, gender, many)]),
        None => noun,
    };
    let the = |next: &str| contract(preposition, the(gender, many, next));
    match p.determiner {
        Determiner::The => line(&[&the(&core), &core]),
        Determiner::A => line(&[preposition, a(gender, &core), &core]),
        Determiner::Bare => line(&[preposition, &core]),
        Determiner::This => {
            let this = match (gender, many, onset(&core)) {
                (_, false, Onset::Vowel) => "quest'",
                (M, false, _) => "questo",
                (F, false, _) => "questa",
                (M, true, _) => "questi",
                (F, true, _) => "queste",
            };
            line(&[preposition, this, &core])
        }
        Determiner::That => line(&[preposition, &like_the("que", gender, many, &core), &core]),
        Determiner::Poss(who) => {
            let own = possessive(who, gender, many);
            // mio padre, but il mio caro padre, i miei fratelli, il loro padre
            let close = matches!(p.noun.kind, Kind::Kin | Kind::Elder) && !many && p.adjective.is_none();
            if close && who != Pronoun::They {
                line(&[preposition, &own, &core])
            } else {
                line(&[&the(&own), &own, &core])
            }
        }
        Determiner::Of(name) => line(&[&the(&core), &core, "di", name.it]),
        Determiner::Count(n) => line(&[preposition, ["due", "tre", "quattro", "cinque"][(n - 2) % 4], &core]),
        Determiner::Many => line(&[preposition, if gender == M { "molti" } else { "molte" }, &core]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::adjectives::ADJECTIVES;
    use super::super::nouns::NOUNS;
    use super::*;

    fn noun(en: &str) -> &'static Noun {
        NOUNS.iter().find(|n| n.en == en).unwrap()
    }

    fn say(preposition: &str, determiner: Determiner, adjective: &str, en: &str, plural: bool) -> String {
        let adjective = ADJECTIVES.iter().find(|a| a.en == adjective);
        phrase(preposition, &Phrase { determiner, noun: noun(en), adjective, plural })
    }

    #[test]
    fn articles_follow_the_next_sound() {
        use Determiner::{A, That, The, This};
        for (en, one, many, some, that, those) in [
            ("book", "il libro", "i libri", "un libro", "quel libro", "quei libri"),
            ("backpack", "lo zaino", "gli zaini", "uno zaino", "quello zaino", "quegli zaini"),
            ("mirror", "lo specchio", "gli specchi", "uno specchio", "quello specchio", "quegli specchi"),
            ("psychologist", "lo psicologo", "gli psicologi", "uno psicologo", "quello psicologo", "quegli psicologi"),
            ("friend", "l'amico", "gli amici", "un amico", "quell'amico", "quegli amici"),
            ("house", "la casa", "le case", "una casa", "quella casa", "quelle case"),
            ("orange", "l'arancia", "le arance", "un'arancia", "quell'arancia", "quelle arance"),
            ("squirrel", "lo scoiattolo", "gli scoiattoli", "uno scoiattolo", "quello scoiattolo", "quegli scoiattoli"),
            ("scarf", "la sciarpa", "le sciarpe", "una sciarpa", "quella sciarpa", "quelle sciarpe"),
        ] {
            assert_eq!(say("", The, "", en, false), one);
            assert_eq!(say("", The, "", en, true), many);
            assert_eq!(say("", A, "", en, false), some);
            assert_eq!(say("", That, "", en, false), that);
            assert_eq!(say("", That, "", en, true), those);
        }
        assert_eq!(the(M, false, "gnomo"), "lo");
        assert_eq!(say("", This, "", "friend", false), "quest'amico");
        assert_eq!(say("", This, "", "orange", true), "queste arance");
    }

    #[test]
    fn prepositions_contract() {
        let cases = [("di", "il", "del"), ("a", "gli", "agli"), ("da", "l'", "dall'"), ("in", "la", "nella")];
        for (preposition, article, want) in cases.into_iter().chain([("su", "gli", "sugli"), ("in", "i", "nei")]) {
            assert_eq!(contract(preposition, article), want);
        }
        assert_eq!(contract("con", "lo"), "con lo");
        assert_eq!(say("in", Determiner::The, "", "hospital", false), "nell'ospedale");
        assert_eq!(say("a", Determiner::A, "", "friend", false), "a un amico");
    }

    #[test]
    fn adjectives_stand_and_agree() {
        use Determiner::{A, The};
        for (determiner, adjective, en, plural, want) in [
            (A, "beautiful", "garden", false, "un bel giardino"),
            (The, "beautiful", "garden", true, "i bei giardini"),
            (The, "beautiful", "tree", true, "i begli alberi"),
            (A, "beautiful", "backpack", false, "un bello zaino"),
            (A, "beautiful", "island", false, "una bell'isola"),
            (A, "good", "friend", false, "un buon amico"),
            (A, "good", "psychologist", false, "un buono psicologo"),
            (The, "good", "princess", true, "le buone principesse"),
            (A, "big", "umbrella", false, "un grande ombrello"),
            (The, "small", "backpack", false, "il piccolo zaino"),
            (The, "white", "shirt", true, "le camicie bianche"),
            (The, "old", "umbrella", true, "i vecchi ombrelli"),
            (The, "blue", "shirt", true, "le camicie blu"),
            (The, "cheap", "coat", true, "i cappotti economici"),
            (The, "cheap", "shirt", true, "le camicie economiche"),
            (The, "long", "song", true, "le canzoni lunghe"),
            (The, "happy", "girl", true, "le ragazze felici"),
            (The, "green", "jacket", true, "le giacche verdi"),
        ] {
            assert_eq!(say("", determiner, adjective, en, plural), want);
        }
    }

    #[test]
    fn possessives_take_the_article_but_for_one_relative() {
        use Determiner::Poss;
        assert_eq!(say("", Poss(Pronoun::I), "", "book", false), "il mio libro");
        assert_eq!(say("su", Poss(Pronoun::I), "", "book", true), "sui miei libri");
        assert_eq!(say("a", Poss(Pronoun::She), "", "brother", false), "a suo fratello");
        assert_eq!(say("a", Poss(Pronoun::She), "", "brother", true), "ai suoi fratelli");
        assert_eq!(say("", Poss(Pronoun::They), "", "mother", false), "la loro madre");
        assert_eq!(say("", Poss(Pronoun::We), "happy", "daughter", false), "la nostra figlia felice");
    }

    #[test]
    fn plurals() {
        for (en, want) in [
            ("man", "uomini"),
            ("fig", "fichi"),
            ("doctor", "medici"),
            ("cow", "mucche"),
            ("clock", "orologi"),
            ("shirt", "camicie"),
            ("orange", "arance"),
            ("beach", "spiagge"),
            ("hotel", "alberghi"),
            ("uncle", "zii"),
            ("temple", "templi"),
            ("poet", "poeti"),
            ("bus", "autobus"),
            ("library", "biblioteche"),
            ("ship", "navi"),
            ("office", "uffici"),
        ] {
            assert_eq!(plural(noun(en)), want);
        }
    }
}
