//! Reads generated sentences as a teacher would: word by word, knowing the lexicon and the rules, not the generator.
//!
//! The rules are stated here a second time, on the surface: which article may stand before which word, which form before
//! a postposition, what the last verb must agree with.

use super::super::draw::Draw;
use super::Gender::{self, F, M};
use super::nouns::{CITIES, NAMES, NOUNS};
use super::verbs::VERBS;
use super::{Ask, Clause, Deed, Determiner, Modal, Np, Phrase, Predicate, Pronoun, Sentence, Tense, Where};
use super::{english, hindi, italian, sentence};
use super::{hindi_words as hi, italian_words as it};
use qkv_base::Key;
use std::collections::{BTreeSet, HashMap};

const N: u64 = 20_000;

fn sentences() -> impl Iterator<Item = Sentence> {
    (0..N).map(|i| sentence(&mut Draw::new(Key::new(77, 0, i))))
}

/// The words in small letters, apostrophes kept with the word before.
fn words(text: &str) -> Vec<String> {
    let spaced = text.replace('\'', "' ");
    spaced.split([' ', '.', ',', '?', '।']).filter(|w| !w.is_empty()).map(str::to_lowercase).collect()
}

fn vowel(word: &str) -> bool {
    word.starts_with(['a', 'e', 'i', 'o', 'u'])
}

fn strong(word: &str) -> bool {
    let bytes = word.as_bytes();
    let s_consonant = bytes[0] == b's' && bytes.get(1).is_some_and(|b| !b"aeiou".contains(b));
    s_consonant || ["z", "gn", "ps"].iter().any(|start| word.starts_with(start))
}

/// The gender, number and sound that an article, alone or in a preposition, asks of what follows.
fn article(word: &str) -> Option<(&str, Option<Gender>, Option<bool>)> {
    let bare = ["dell", "all", "dall", "nell", "sull"].iter().find_map(|p| word.strip_prefix(p)).unwrap_or("-");
    let ends = |end: &str| word == end || bare == end;
    Some(match word {
        "il" | "al" | "nel" | "sul" | "del" => ("plain", Some(M), Some(false)),
        "i" | "ai" | "nei" | "sui" | "dei" => ("plain", Some(M), Some(true)),
        "gli" | "agli" | "negli" | "sugli" | "quegli" | "begli" => ("strong or vowel", Some(M), Some(true)),
        "un" | "buon" => ("not strong", Some(M), Some(false)),
        "quel" | "bel" => ("plain", Some(M), Some(false)),
        "quei" | "bei" => ("plain", Some(M), Some(true)),
        "uno" | "quello" => ("strong", Some(M), Some(false)),
        "una" | "quella" => ("not vowel", Some(F), Some(false)),
        "un'" => ("vowel", Some(F), Some(false)),
        "l'" | "quell'" | "bell'" | "quest'" => ("vowel", None, Some(false)),
        "questo" | "molto" => ("any", Some(M), Some(false)),
        "questi" | "molti" => ("any", Some(M), Some(true)),
        "queste" | "quelle" | "molte" => ("any", Some(F), Some(true)),
        _ if ends("lo") || bare == "o" => ("strong", Some(M), Some(false)),
        _ if ends("la") || bare == "a" => ("not vowel", Some(F), Some(false)),
        _ if ends("le") || bare == "e" => ("any", Some(F), Some(true)),
        _ if bare == "'" => ("vowel", None, Some(false)),
        _ => return None,
    })
}

#[test]
fn italian_articles_fit_what_follows() {
    let mut nouns: HashMap<String, BTreeSet<(u8, bool)>> = HashMap::new();
    for noun in NOUNS {
        nouns.entry(noun.it.to_owned()).or_default().insert((noun.it_gender as u8, false));
        nouns.entry(it::plural(noun)).or_default().insert((noun.it_gender as u8, true));
    }
    let mut checked = 0;
    for sentence in sentences() {
        let text = italian(&sentence);
        let words = words(&text);
        for pair in words.windows(2) {
            let next = pair[1].as_str();
            assert!(
                !(["a", "in", "di", "su", "da"].contains(&pair[0].as_str())
                    && ["il", "lo", "la", "i", "gli", "le", "l'"].contains(&next)),
                "not contracted: {text}"
            );
            let (Some((sound, gender, plural)), Some(noun)) = (article(&pair[0]), nouns.get(next)) else { continue };
            let fits = match sound {
                "plain" => !strong(next) && !vowel(next),
                "strong or vowel" => strong(next) || vowel(next),
                "not strong" => !strong(next),
                "strong" => strong(next),
                "vowel" => vowel(next),
                "not vowel" => !vowel(next),
                _ => true,
            };
            assert!(fits, "{} {next}: {text}", pair[0]);
            let agrees = |&(g, p): &(u8, bool)| gender.is_none_or(|x| x as u8 == g) && plural.is_none_or(|x| x == p);
            // "le" and "gli" are also pronouns, but no pronoun stands before a noun.
            assert!(noun.iter().any(agrees), "{} {next}: {text}", pair[0]);
            checked += 1;
        }
    }
    assert!(checked > N / 2, "{checked} articles seen");
}

#[test]
fn italian_auxiliaries_count_their_subjects() {
    let mut checked = 0;
    for sentence in sentences() {
        let Sentence::One(Clause { subject, predicate: Predicate::Does(deed), tense: Tense::Past, ask, .. }) = sentence
        else {
            continue;
        };
        if matches!(subject, Np::Pronoun(_)) || ask == Ask::Who {
            continue;
        }
        let words = words(&italian(&sentence));
        let going = ["go", "come", "return", "arrive"].contains(&deed.verb.en);
        let auxiliary = match (going, subject.plural()) {
            (false, false) => "ha",
            (false, true) => "hanno",
            (true, false) => "è",
            (true, true) => "sono",
        };
        let place = words.iter().position(|word| word == auxiliary);
        let participle = place.and_then(|i| words.get(i + 1)).unwrap_or_else(|| panic!("{words:?}"));
        let female = match subject {
            Np::Phrase(p) => p.noun.it_gender == F,
            Np::Name(name) => name.gender == F,
            Np::Names(a, b) => a.gender == F && b.gender == F,
            Np::Pronoun(_) => false,
        };
        if going {
            let end = ["o", "i", "a", "e"][2 * usize::from(female) + usize::from(subject.plural())];
            assert!(participle.ends_with(end), "{words:?}");
        } else if deed.object.is_none_or(|object| !matches!(object, Np::Pronoun(_))) {
            assert!(participle.ends_with('o'), "{words:?}");
        }
        checked += 1;
    }
    assert!(checked > N / 20, "{checked} seen");
}

/// A form before a postposition is oblique, and an oblique plural never stands alone.
#[test]
fn hindi_nouns_are_oblique_before_postpositions_only() {
    const POST: [&str; 8] = ["में", "पर", "से", "को", "का", "के", "की", "ने"];
    let names: BTreeSet<&str> = NAMES.iter().chain(CITIES).map(|name| name.hi).collect();
    let (mut direct, mut oblique) = (BTreeSet::new(), BTreeSet::new());
    for noun in NOUNS {
        let of = |case, plural| hi::noun(noun, case, plural);
        let all = [of(hi::Case::Oblique, false), of(hi::Case::Oblique, true)];
        direct
            .extend([of(hi::Case::Direct, false), of(hi::Case::Direct, true)].into_iter().filter(|f| !all.contains(f)));
        oblique.insert(of(hi::Case::Oblique, true));
    }
    // A noun can look like another one's other form, and names are not declined.
    direct.retain(|form| !oblique.contains(form) && !names.contains(form.as_str()));
    let mut checked = 0;
    for sentence in sentences() {
        let text = hindi(&sentence);
        let words = words(&text);
        for (i, word) in words.iter().enumerate() {
            let before = words.get(i + 1).is_some_and(|next| POST.contains(&next.as_str()));
            assert!(!(before && direct.contains(word)), "{word} is direct: {text}");
            if oblique.contains(word) {
                assert!(before, "{word} is oblique: {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > N / 50, "{checked} oblique plurals seen");
}

#[test]
fn the_hindi_past_agrees_with_an_unmarked_object() {
    let mut checked = [0; 3];
    for sentence in sentences() {
        let Sentence::One(clause) = sentence else { continue };
        let Predicate::Does(deed) = clause.predicate else { continue };
        if clause.tense != Tense::Past || deed.modal.is_some() {
            continue;
        }
        let words = words(&hindi(&sentence));
        let verb = words.last().unwrap().as_str();
        let ends = |gender: Gender, plural: bool| match (gender, plural) {
            (M, false) => verb.ends_with('ा'),
            (M, true) => verb.ends_with(['े', 'ए']),
            (F, false) => verb.ends_with(['ी', 'ई']),
            (F, true) => verb.ends_with("ीं") || verb.ends_with("ईं"),
        };
        let ne = words.iter().any(|word| word.ends_with("ने") && word != "पुराने" && word != "आईने" && word != "खिलौने");
        match (deed.verb.host.and_then(|host| host.gender), deed.object) {
            _ if !deed.verb.ergative => {
                let of = hi::agreement(&clause.subject);
                let who = if clause.ask == Ask::Who { (M, false) } else { (of.gender, of.plural) };
                assert!(ends(who.0, who.1), "{words:?}");
                checked[0] += 1;
            }
            (Some(host), _) => assert!(ne && ends(host, false), "{words:?}"),
            (None, Some(Np::Phrase(p))) if !words.iter().any(|word| word == "को") => {
                assert!(ne && ends(p.noun.hi_gender, p.plural), "{words:?}");
                checked[1] += 1;
            }
            (None, object) if deed.recipient.is_none() => {
                assert!(ne && (object.is_none() || ends(M, false)), "{words:?}");
                checked[2] += 1;
            }
            _ => {}
        }
    }
    assert!(checked.iter().all(|&n| n > 100), "{checked:?}");
}

/// Words that only the right person may end with.
#[test]
fn the_hindi_copula_fits_its_subject() {
    let mut checked = 0;
    for sentence in sentences() {
        let Sentence::One(clause) = sentence else { continue };
        let subject = match (clause.predicate, clause.tense) {
            (Predicate::Does(deed), Tense::Present | Tense::Progressive)
                if deed.modal != Some(Modal::Should) && clause.ask != Ask::Who =>
            {
                clause.subject
            }
            (Predicate::Is(_) | Predicate::IsAt(_), Tense::Present) => clause.subject,
            (Predicate::Has(what) | Predicate::Likes(what), Tense::Present) => Np::Phrase(what),
            _ => continue,
        };
        let a = hi::agreement(&subject);
        let want = match (a.person, a.plural) {
            (hi::Person::First, _) => "हूँ",
            (hi::Person::Second, _) => "हो",
            (_, false) => "है",
            (_, true) => "हैं",
        };
        let words = words(&hindi(&sentence));
        assert_eq!(words.last().map(String::as_str), Some(want), "{words:?}");
        checked += 1;
    }
    assert!(checked > N / 4, "{checked} seen");
}

fn the(en: &str, plural: bool) -> Phrase {
    let noun = NOUNS.iter().find(|noun| noun.en == en).unwrap();
    Phrase { determiner: Determiner::The, noun, adjective: None, plural }
}

fn with(determiner: Determiner, en: &str) -> Phrase {
    Phrase { determiner, ..the(en, false) }
}

fn did(verb: &str, object: Option<Np>) -> Predicate {
    let verb = VERBS.iter().find(|v| v.en == verb).unwrap();
    Predicate::Does(Deed { verb, object, recipient: None, goal: None, modal: None, often: None, manner: None })
}

fn modal(predicate: Predicate, modal: Modal) -> Predicate {
    match predicate {
        Predicate::Does(deed) => Predicate::Does(Deed { modal: Some(modal), ..deed }),
        other => other,
    }
}

fn clause(subject: Np, predicate: Predicate, tense: Tense) -> Clause {
    Clause { subject, predicate, tense, negative: false, ask: Ask::Nothing, time: None, place: None }
}

/// Whole sentences, one for each construction, translated by hand.
#[test]
fn known_sentences() {
    use Pronoun::{He, I, Madam, She, They, We, You};
    let (girl, boys) = (Np::Phrase(the("girl", false)), Np::Phrase(the("boy", true)));
    let father = Np::Phrase(with(Determiner::Poss(I), "father"));
    let own = |who, en| Some(Np::Phrase(with(Determiner::Poss(who), en)));
    let some = |phrase| Some(Np::Phrase(phrase));
    let who = |who| Np::Pronoun(who);
    let past = |subject, predicate| clause(subject, predicate, Tense::Past);
    let now = |subject, predicate| clause(subject, predicate, Tense::Present);
    let asked = |ask, clause: Clause| Clause { ask, ..clause };
    let rows = [
        // the ergative: the verb agrees with a bare object, and with nothing when the object is marked
        (
            past(girl, did("eat", some(the("apple", true)))),
            "The girl ate the apples.",
            "La ragazza ha mangiato le mele.",
            "लड़की ने सेब खाए।",
        ),
        (
            past(boys, did("read", some(with(Determiner::A, "book")))),
            "The boys read a book.",
            "I ragazzi hanno letto un libro.",
            "लड़कों ने एक किताब पढ़ी।",
        ),
        (
            past(boys, did("see", some(the("girl", false)))),
            "The boys saw the girl.",
            "I ragazzi hanno visto la ragazza.",
            "लड़कों ने लड़की को देखा।",
        ),
        (past(who(He), did("help", Some(who(I)))), "He helped me.", "Lui mi ha aiutato.", "उसने मेरी मदद की।"),
        (past(who(I), did("see", Some(who(She)))), "I saw her.", "L'ho vista.", "मैंने उसे देखा।"),
        (past(who(We), did("meet", Some(who(They)))), "We met them.", "Li abbiamo incontrati.", "हम उनसे मिले।"),
        (past(girl, did("sleep", None)), "The girl slept.", "La ragazza ha dormito.", "लड़की सोई।"),
        (past(who(They), did("come", None)), "They came.", "Sono venuti.", "वे आए।"),
        // respect, what is one's own, and the persons
        (
            now(father, did("buy", own(He, "book"))),
            "My father buys his book.",
            "Mio padre compra il suo libro.",
            "मेरे पिता अपनी किताब ख़रीदते हैं।",
        ),
        (
            now(who(You), did("wait", own(You, "brother"))),
            "You wait for your brother.",
            "Aspetti tuo fratello.",
            "तुम अपने भाई का इंतज़ार करते हो।",
        ),
        (
            clause(who(Madam), did("dance", None), Tense::Future),
            "You will dance, madam.",
            "Ballerà, signora.",
            "श्रीमती जी, आप नाचेंगी।",
        ),
        (
            clause(who(I), did("drink", some(with(Determiner::Bare, "tea"))), Tense::Progressive),
            "I am drinking tea.",
            "Sto bevendo tè.",
            "मैं चाय पी रहा हूँ।",
        ),
        (
            clause(boys, did("clean", some(the("room", false))), Tense::UsedTo),
            "The boys used to clean the room.",
            "I ragazzi pulivano la stanza.",
            "लड़के कमरा साफ़ करते थे।",
        ),
        // modals: what should be done agrees with its object
        (
            now(girl, modal(did("write", some(the("letter", false))), Modal::Should)),
            "The girl should write the letter.",
            "La ragazza dovrebbe scrivere la lettera.",
            "लड़की को चिट्ठी लिखनी चाहिए।",
        ),
        (now(who(She), modal(did("swim", None), Modal::Can)), "She can swim.", "Lei può nuotare.", "वह तैर सकती है।"),
        (
            now(boys, modal(did("run", None), Modal::Want)),
            "The boys want to run.",
            "I ragazzi vogliono correre.",
            "लड़के दौड़ना चाहते हैं।",
        ),
        // having, liking, being there
        (
            now(who(We), Predicate::Has(with(Determiner::A, "umbrella"))),
            "We have an umbrella.",
            "Abbiamo un ombrello.",
            "हमारे पास एक छाता है।",
        ),
        (
            now(girl, Predicate::Likes(the("song", true))),
            "The girl likes the songs.",
            "Alla ragazza piacciono le canzoni.",
            "लड़की को गाने पसंद हैं।",
        ),
        (
            past(Np::Phrase(with(Determiner::A, "cat")), Predicate::Exists(Where::Under(the("table", false)))),
            "There was a cat under the table.",
            "C'era un gatto sotto il tavolo.",
            "मेज़ के नीचे एक बिल्ली थी।",
        ),
        // questions
        (
            asked(Ask::Whether, now(girl, did("read", some(with(Determiner::This, "story"))))),
            "Does the girl read this story?",
            "La ragazza legge questa storia?",
            "क्या लड़की यह कहानी पढ़ती है?",
        ),
        (
            asked(Ask::Who, past(girl, did("open", some(the("window", false))))),
            "Who opened the window?",
            "Chi ha aperto la finestra?",
            "खिड़की किसने खोली?",
        ),
        (
            asked(Ask::What, past(who(They), did("cook", None))),
            "What did they cook?",
            "Che cosa hanno cucinato?",
            "उन्होंने क्या पकाया?",
        ),
        (
            asked(Ask::Where, past(girl, did("go", None))),
            "Where did the girl go?",
            "Dov'è andata la ragazza?",
            "लड़की कहाँ गई?",
        ),
    ];
    for (clause, en, it, hi) in rows {
        let sentence = Sentence::One(clause);
        assert_eq!([english(&sentence), italian(&sentence), hindi(&sentence)], [en, it, hi]);
    }
    let no = Sentence::One(Clause { negative: true, ..now(who(He), did("drive", some(the("car", false)))) });
    assert_eq!(english(&no), "He does not drive the car.");
    assert_eq!(italian(&no), "Lui non guida la macchina.");
    assert_eq!(hindi(&no), "वह गाड़ी नहीं चलाता है।");
}
