//! Which of the known names a mistyped one meant.

/// The candidate with the fewest letters to change.
///
/// ```
/// assert_eq!(qkv_base::nearest("encodr", ["encoder", "decoder"]), Some("encoder"));
/// assert_eq!(qkv_base::nearest("anything", []), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates.into_iter().min_by_key(|candidate| distance(candidate, name))
}

/// Levenshtein's distance: how many letters to change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
