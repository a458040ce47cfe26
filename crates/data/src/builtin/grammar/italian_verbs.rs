//! Italian verbs: regular endings by conjugation, spelling that keeps the sound, and the irregular ones by table.
//!
//! A person is a number: 0 io, 1 tu, 2 lui or lei, 3 noi, 4 voi, 5 loro.

use super::Gender;

/// io … loro in the present, for verbs that no rule gives.
const PRESENT: [(&str, [&str; 6]); 10] = [
    ("essere", ["sono", "sei", "è", "siamo", "siete", "sono"]),
    ("avere", ["ho", "hai", "ha", "abbiamo", "avete", "hanno"]),
    ("andare", ["vado", "vai", "va", "andiamo", "andate", "vanno"]),
    ("venire", ["vengo", "vieni", "viene", "veniamo", "venite", "vengono"]),
    ("dare", ["do", "dai", "dà", "diamo", "date", "danno"]),
    ("stare", ["sto", "stai", "sta", "stiamo", "state", "stanno"]),
    ("scegliere", ["scelgo", "scegli", "sceglie", "scegliamo", "scegliete", "scelgono"]),
    ("volere", ["voglio", "vuoi", "vuole", "vogliamo", "volete", "vogliono"]),
    ("potere", ["posso", "puoi", "può", "possiamo", "potete", "possono"]),
    ("piacere", ["piaccio", "piaci", "piace", "piacciamo", "piacete", "piacciono"]),
];

/// Stems of the future that no rule gives.
const FUTURE: [(&str, &str); 9] = [
    ("essere", "sar"),
    ("avere", "avr"),
    ("andare", "andr"),
    ("venire", "verr"),
    ("dare", "dar"),
    ("stare", "star"),
    ("bere", "berr"),
    ("vedere", "vedr"),
    ("tradurre", "tradurr"),
];

/// Participles that no rule gives.
const PARTICIPLE: [(&str, &str); 20] = [
    ("scegliere", "scelto"),
    ("leggere", "letto"),
    ("scrivere", "scritto"),
    ("tradurre", "tradotto"),
    ("vedere", "visto"),
    ("prendere", "preso"),
    ("perdere", "perso"),
    ("stringere", "stretto"),
    ("nascondere", "nascosto"),
    ("rompere", "rotto"),
    ("spingere", "spinto"),
    ("aprire", "aperto"),
    ("chiudere", "chiuso"),
    ("correre", "corso"),
    ("ridere", "riso"),
    ("sorridere", "sorriso"),
    ("piangere", "pianto"),
    ("venire", "venuto"),
    ("conoscere", "conosciuto"),
    ("piacere", "piaciuto"),
];

/// Verbs of the third conjugation with -isc-: pulisco.
const ISC: [&str; 3] = ["pulire", "costruire", "finire"];

/// Verbs whose old, longer stem shows outside the infinitive: bevo, traduco.
const LONG: [(&str, &str); 2] = [("bere", "bevere"), ("tradurre", "traducere")];

fn find<T: Copy>(table: &[(&str, T)], verb: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == verb).map(|(_, found)| *found)
}

/// The stem and the vowel of the conjugation: mangi, a.
fn stem(verb: &str) -> (&str, char) {
    let long = find(&LONG, verb).unwrap_or(verb);
    let stem = long.strip_suffix("re").unwrap_or(long);
    match stem.chars().next_back() {
        Some(vowel @ ('a' | 'i')) => (&stem[..stem.len() - 1], vowel),
        _ => (&stem[..stem.len() - 1], 'e'),
    }
}

/// Stem and ending with the sound kept: cerc + i = cerchi, mangi + i = mangi.
fn join(stem: &str, vowel: char, ending: &str) -> String {
    let soft = ending.starts_with(['i', 'e']);
    match stem {
        _ if vowel == 'a' && soft && stem.ends_with(['c', 'g']) => format!("{stem}h{ending}"),
        _ if vowel == 'a' && ending.starts_with('i') && stem.ends_with('i') => {
            format!("{}{ending}", &stem[..stem.len() - 1])
        }
        _ => format!("{stem}{ending}"),
    }
}

/// mangia, legge, dorme, pulisce
pub(super) fn present(verb: &str, person: usize) -> String {
    if let Some(forms) = find(&PRESENT, verb) {
        return forms[person].to_owned();
    }
    let (stem, vowel) = stem(verb);
    let endings = match vowel {
        'a' => ["o", "i", "a", "iamo", "ate", "ano"],
        'i' if ISC.contains(&verb) => ["isco", "isci", "isce", "iamo", "ite", "iscono"],
        'i' => ["o", "i", "e", "iamo", "ite", "ono"],
        _ => ["o", "i", "e", "iamo", "ete", "ono"],
    };
    join(stem, vowel, endings[person])
}

/// mangerà, leggerà, dormirà
pub(super) fn future(verb: &str, person: usize) -> String {
    let ending = ["ò", "ai", "à", "emo", "ete", "anno"][person];
    if let Some(stem) = find(&FUTURE, verb) {
        return format!("{stem}{ending}");
    }
    let (stem, vowel) = stem(verb);
    match vowel {
        'i' => format!("{stem}ir{ending}"),
        // The i of -ciare and -giare only keeps the c and g soft, which the e does by itself.
        'a' if stem.ends_with("ci") || stem.ends_with("gi") => format!("{}er{ending}", &stem[..stem.len() - 1]),
        _ => format!("{}r{ending}", join(stem, vowel, "e")),
    }
}

/// mangiava, leggeva, dormiva
pub(super) fn imperfect(verb: &str, person: usize) -> String {
    if verb == "essere" {
        return ["ero", "eri", "era", "eravamo", "eravate", "erano"][person].to_owned();
    }
    let (stem, vowel) = stem(verb);
    format!("{stem}{vowel}{}", ["vo", "vi", "va", "vamo", "vate", "vano"][person])
}

/// dovrei, dovresti, dovrebbe: what one should
pub(super) fn should(person: usize) -> &'static str {
    ["dovrei", "dovresti", "dovrebbe", "dovremmo", "dovreste", "dovrebbero"][person]
}

/// mangiando, leggendo
pub(super) fn gerund(verb: &str) -> String {
    let (stem, vowel) = stem(verb);
    format!("{stem}{}", if vowel == 'a' { "ando" } else { "endo" })
}

/// mangiato, letto, andata: agreeing when it must
pub(super) fn participle(verb: &str, gender: Gender, plural: bool) -> String {
    let (stem, vowel) = stem(verb);
    let regular = || format!("{stem}{}to", if vowel == 'e' { 'u' } else { vowel });
    let mut form = find(&PARTICIPLE, verb).map_or_else(regular, str::to_owned);
    form.pop();
    form.push(match (gender, plural) {
        (Gender::M, false) => 'o',
        (Gender::M, true) => 'i',
        (Gender::F, false) => 'a',
        (Gender::F, true) => 'e',
    });
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six(form: impl Fn(usize) -> String) -> String {
        (0..6).map(form).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_present() {
        for (verb, forms) in [
            ("lavare", "lavo lavi lava laviamo lavate lavano"),
            ("mangiare", "mangio mangi mangia mangiamo mangiate mangiano"),
            ("cercare", "cerco cerchi cerca cerchiamo cercate cercano"),
            ("studiare", "studio studi studia studiamo studiate studiano"),
            ("leggere", "leggo leggi legge leggiamo leggete leggono"),
            ("conoscere", "conosco conosci conosce conosciamo conoscete conoscono"),
            ("dormire", "dormo dormi dorme dormiamo dormite dormono"),
            ("pulire", "pulisco pulisci pulisce puliamo pulite puliscono"),
            ("bere", "bevo bevi beve beviamo bevete bevono"),
            ("tradurre", "traduco traduci traduce traduciamo traducete traducono"),
            ("andare", "vado vai va andiamo andate vanno"),
        ] {
            assert_eq!(six(|person| present(verb, person)), forms);
        }
    }

    #[test]
    fn the_future() {
        for (verb, forms) in [
            ("lavare", "laverò laverai laverà laveremo laverete laveranno"),
            ("mangiare", "mangerò mangerai mangerà mangeremo mangerete mangeranno"),
            ("giocare", "giocherò giocherai giocherà giocheremo giocherete giocheranno"),
            ("studiare", "studierò studierai studierà studieremo studierete studieranno"),
            ("vedere", "vedrò vedrai vedrà vedremo vedrete vedranno"),
            ("dormire", "dormirò dormirai dormirà dormiremo dormirete dormiranno"),
            ("bere", "berrò berrai berrà berremo berrete berranno"),
        ] {
            assert_eq!(six(|person| future(verb, person)), forms);
        }
        assert_eq!(future("viaggiare", 2), "viaggerà");
        assert_eq!(future("ringraziare", 2), "ringrazierà");
        assert_eq!(future("lanciare", 0), "lancerò");
    }

    #[test]
    fn the_imperfect_and_what_has_no_person() {
        assert_eq!(six(|person| imperfect("bere", person)), "bevevo bevevi beveva bevevamo bevevate bevevano");
        assert_eq!(imperfect("tradurre", 2), "traduceva");
        assert_eq!(imperfect("dormire", 5), "dormivano");
        assert_eq!([gerund("mangiare"), gerund("bere"), gerund("tradurre")], ["mangiando", "bevendo", "traducendo"]);
        assert_eq!(participle("andare", Gender::F, true), "andate");
        assert_eq!(participle("vendere", Gender::M, false), "venduto");
        assert_eq!(participle("temere", Gender::M, false), "temuto");
        assert_eq!(participle("bere", Gender::M, false), "bevuto");
        assert_eq!(participle("leggere", Gender::F, false), "letta");
        assert_eq!(participle("pulire", Gender::M, true), "puliti");
    }
}
