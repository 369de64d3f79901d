//! Errors of the registry.

use super::all;

/// Why no schedule was built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// No algorithm has this id.
    #[error("there is no algorithm `{id}`; similar ids: {}", listed(near))]
    Unknown {
        /// The requested id.
        id: String,
        /// Similar ids.
        near: Vec<String>,
    },
    /// An argument in the id that the algorithm does not accept.
    #[error("`{id}` does not accept `{argument}`: {expected}")]
    InvalidArgument {
        /// The algorithm.
        id: String,
        /// The argument.
        argument: String,
        /// The accepted arguments.
        expected: String,
    },
    /// The algorithm is not applicable.
    #[error("`{id}` does not apply: {why}; these do: {}", listed(others))]
    Inapplicable {
        /// The algorithm.
        id: String,
        /// The unmet requirement.
        why: String,
        /// Ids of the applicable algorithms.
        others: Vec<String>,
    },
}

fn listed(ids: &[String]) -> String {
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

impl AlgorithmError {
    /// With the three most similar ids.
    pub(super) fn unknown(id: &str) -> Self {
        let name = |id: &str| id.rsplit('/').next().unwrap_or_default().to_owned();
        let distance = |other: &str| {
            let (asked, its) = (name(id), name(other));
            // A part of a name, or the same name for another operation, is nearer than a small edit distance.
            let part = usize::from(!its.contains(&asked) && !asked.contains(&its));
            (edit_distance(id, other).min(edit_distance(&asked, &its) + 2) + 3 * part, other.len())
        };
        let mut near: Vec<&str> = all().iter().map(|algorithm| algorithm.id.as_str()).collect();
        near.sort_by_key(|other| distance(other));
        AlgorithmError::Unknown { id: id.to_owned(), near: near.into_iter().take(3).map(str::to_owned).collect() }
    }
}

/// The Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        assert_eq!(
            [
                edit_distance("ring", "ring"),
                edit_distance("ring", "rnig"),
                edit_distance("", "abc"),
                edit_distance("chain", "chin")
            ],
            [0, 2, 3, 1]
        );
    }
}
