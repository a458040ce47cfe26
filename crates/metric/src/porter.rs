//! Porter's stemmer (1980) with NLTK's extensions, the one that rouge-score asks for.
//!
//! A word is `[C](VC)ᵐ[V]`, runs of consonants and vowels; `m` is its measure. Six steps cut or rewrite suffixes, most of
//! them only where the stem that is left measures enough.

/// The stem of a lower-case ASCII word; any other word is returned as it is.
///
/// ```
/// use qkv_metric::stem;
/// assert_eq!(stem("relational"), "relat");
/// assert_eq!(stem("dying"), "die");
/// ```
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(form, _)| *form == word) {
        return stem.to_string();
    }
    if word.len() <= 2 || !word.is_ascii() {
        return word.to_string();
    }
    STEPS.iter().fold(word.to_string(), |word, step| step(&word))
}

const STEPS: [fn(&str) -> String; 8] =
    [plurals, past, final_y, double_suffixes, full_ness, ant_ence, final_e, final_ll];

/// Words that no rule gets right.
const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// Which letters are consonants; a `y` is one at the start and after a vowel.
fn consonants(word: &str) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        flags.push(match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => flags.last().is_none_or(|before| !before),
            _ => true,
        });
    }
    flags
}

/// How often a consonant follows a vowel.
fn measure(stem: &str) -> usize {
    consonants(stem).windows(2).filter(|pair| *pair == [false, true]).count()
}

fn has_vowel(stem: &str) -> bool {
    consonants(stem).contains(&false)
}

/// `…cvc` whose last letter is not w, x or y; NLTK adds the two letters `vc`.
fn ends_short(word: &str) -> bool {
    let flags = consonants(word);
    match flags.as_slice() {
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        [false, true] => true,
        _ => false,
    }
}

fn ends_double(word: &str) -> bool {
    let letters = word.as_bytes();
    letters.len() >= 2
        && letters[letters.len() - 1] == letters[letters.len() - 2]
        && consonants(word).ends_with(&[true])
}

/// The first rule whose suffix the word has decides: it rewrites if the stem measures more than `least`, else nothing does.
fn rewrite(word: &str, least: usize, rules: &[(&str, &str)]) -> String {
    for (suffix, to) in rules {
        if let Some(stem) = word.strip_suffix(suffix) {
            return if measure(stem) > least { format!("{stem}{to}") } else { word.to_string() };
        }
    }
    word.to_string()
}

/// Step 1a.
fn plurals(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ies") {
        return format!("{stem}{}", if stem.len() == 1 { "ie" } else { "i" });
    }
    match word.strip_suffix('s') {
        Some(stem) if stem.ends_with("se") && word.ends_with("sses") => stem[..stem.len() - 1].to_string(),
        Some(stem) if !word.ends_with("ss") => stem.to_string(),
        _ => word.to_string(),
    }
}

/// Step 1b.
fn past(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ied") {
        return format!("{stem}{}", if stem.len() == 1 { "ie" } else { "i" });
    }
    if let Some(stem) = word.strip_suffix("eed") {
        return if measure(stem) > 0 { format!("{stem}ee") } else { word.to_string() };
    }
    let stem = ["ed", "ing"].iter().find_map(|suffix| word.strip_suffix(suffix).filter(|stem| has_vowel(stem)));
    stem.map_or_else(|| word.to_string(), repaired)
}

/// A stem that lost `ed` or `ing` gets its `e` back, or loses a doubled letter.
fn repaired(stem: &str) -> String {
    if ["at", "bl", "iz"].iter().any(|end| stem.ends_with(end)) {
        return format!("{stem}e");
    }
    if ends_double(stem) {
        let keep = stem.ends_with(['l', 's', 'z']);
        return stem[..stem.len() - usize::from(!keep)].to_string();
    }
    if measure(stem) == 1 && ends_short(stem) { format!("{stem}e") } else { stem.to_string() }
}

/// Step 1c, NLTK's: after a consonant that is not the whole stem.
fn final_y(word: &str) -> String {
    match word.strip_suffix('y') {
        Some(stem) if stem.len() > 1 && consonants(stem).ends_with(&[true]) => format!("{stem}i"),
        _ => word.to_string(),
    }
}

/// Step 2.
fn double_suffixes(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("alli")
        && measure(stem) > 0
    {
        return double_suffixes(&format!("{stem}al"));
    }
    // NLTK leaves the `l` of `logi` with the stem, so that `geology` loses its end like `archaeology`.
    if let Some(stem) = word.strip_suffix("ogi")
        && stem.ends_with('l')
    {
        return if measure(stem) > 0 { format!("{stem}og") } else { word.to_string() };
    }
    let rules = [
        ("ational", "ate"),
        ("tional", "tion"),
        ("enci", "ence"),
        ("anci", "ance"),
        ("izer", "ize"),
        ("bli", "ble"),
        ("alli", "al"),
        ("entli", "ent"),
        ("eli", "e"),
        ("ousli", "ous"),
        ("ization", "ize"),
        ("ation", "ate"),
        ("ator", "ate"),
        ("alism", "al"),
        ("iveness", "ive"),
        ("fulness", "ful"),
        ("ousness", "ous"),
        ("aliti", "al"),
        ("iviti", "ive"),
        ("biliti", "ble"),
        ("fulli", "ful"),
    ];
    rewrite(word, 0, &rules)
}

/// Step 3.
fn full_ness(word: &str) -> String {
    let rules =
        [("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];
    rewrite(word, 0, &rules)
}

/// Step 4.
fn ant_ence(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ion") {
        let cut = measure(stem) > 1 && stem.ends_with(['s', 't']);
        return if cut { stem.to_string() } else { word.to_string() };
    }
    let suffixes = [
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism", "ate", "iti",
        "ous", "ive", "ize",
    ];
    rewrite(word, 1, &suffixes.map(|suffix| (suffix, "")))
}

/// Step 5a.
fn final_e(word: &str) -> String {
    match word.strip_suffix('e') {
        Some(stem) if measure(stem) > 1 || (measure(stem) == 1 && !ends_short(stem)) => stem.to_string(),
        _ => word.to_string(),
    }
}

/// Step 5b.
fn final_ll(word: &str) -> String {
    match word.strip_suffix('l') {
        Some(stem) if stem.ends_with('l') && measure(stem) > 1 => stem.to_string(),
        _ => word.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Porter's paper.
    #[test]
    fn porters_examples() {
        for (word, want) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("conditional", "condit"),
            ("vietnamization", "vietnam"),
            ("hopefulness", "hope"),
            ("formalize", "formal"),
            ("adoption", "adopt"),
            ("rate", "rate"),
            ("cease", "ceas"),
            ("controll", "control"),
            ("roll", "roll"),
        ] {
            assert_eq!(stem(word), want, "{word}");
        }
    }

    #[test]
    fn measures_of_the_paper() {
        let measures = ["tr", "tree", "by", "oats", "ivy", "troubles", "orrery"].map(measure);
        assert_eq!(measures, [0, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn nothing_panics() {
        for word in ["", "y", "é", "sss", "ies", "ied", "eed", "ing", "ion", "logi", "yyyy", "123s"] {
            stem(word);
        }
    }
}
