//! Why there is no schedule.

use super::all;

/// Why there is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No algorithm has this id.
    #[error("there is no algorithm `{id}`; near it are {}", listed(near))]
    Unknown {
        /// What was asked for.
        id: String,
        /// Ids like it.
        near: Vec<String>,
    },
    /// An argument in the id that the algorithm cannot take.
    #[error("`{id}` cannot take `{argument}`: {expected}")]
    Argument {
        /// The algorithm.
        id: String,
        /// What was asked for.
        argument: String,
        /// What it can take.
        expected: String,
    },
    /// The algorithm is not for this.
    #[error("`{id}` does not apply: {why}; these do: {}", listed(others))]
    Inapplicable {
        /// The algorithm.
        id: String,
        /// What is in the way.
        why: String,
        /// Ids of those that apply.
        others: Vec<String>,
    },
}

fn listed(ids: &[String]) -> String {
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

impl Refusal {
    /// With the three ids that are nearest.
    pub(super) fn unknown(id: &str) -> Self {
        let name = |id: &str| id.rsplit('/').next().unwrap_or_default().to_owned();
        let distance = |other: &str| {
            let (asked, its) = (name(id), name(other));
            // A part of a name, or the right name for another operation, is nearer than letters.
            let part = usize::from(!its.contains(&asked) && !asked.contains(&its));
            (edits(id, other).min(edits(&asked, &its) + 2) + 3 * part, other.len())
        };
        let mut near: Vec<&str> = all().iter().map(|algorithm| algorithm.id.as_str()).collect();
        near.sort_by_key(|other| distance(other));
        Refusal::Unknown { id: id.to_owned(), near: near.into_iter().take(3).map(str::to_owned).collect() }
    }
}

/// How many letters have to be put in, left out or changed.
fn edits(a: &str, b: &str) -> usize {
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
    fn edits_are_counted() {
        assert_eq!(
            [edits("ring", "ring"), edits("ring", "rnig"), edits("", "abc"), edits("chain", "chin")],
            [0, 2, 3, 1]
        );
    }
}
