//! Suggestions for mistyped words.

/// The nearest candidate, if it differs by few letters: one in three, at most three. An insertion, a deletion, a
/// substitution and a transposition of two neighbors count one each. Case is ignored.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let typed = letters(word);
    // Names are short; a long text would only cost time.
    if typed.len() > MAX_CHARS {
        return None;
    }
    let distances = candidates.into_iter().map(|candidate| (osa_distance(&typed, &letters(candidate)), candidate));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (typed.len() / 3).clamp(1, 3)).then_some(nearest)
}

const MAX_CHARS: usize = 64;

/// The optimal string alignment distance.
fn osa_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        let count = |a: &str, b: &str| osa_distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("run", "rnu"), 1);
        assert_eq!(count("torus", "toru"), 1);
        assert_eq!(count("kitten", "sitting"), 3);
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let kinds = ["flat", "torus", "mesh", "clos", "clusters"];
        assert_eq!(nearest("toru", kinds), Some("torus"));
        assert_eq!(nearest("Trous", kinds), Some("torus"));
        assert_eq!(nearest("cluster", kinds), Some("clusters"));
        assert_eq!(nearest("hypercube", kinds), None);
        assert_eq!(nearest("", kinds), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), kinds), None);
        assert_eq!(nearest("flat", []), None);
    }
}
