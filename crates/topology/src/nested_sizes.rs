//! Sizes of nested clusters, as text and as arrays of a file.
//!
//! Text: `2x4x8` is 2 groups of 4 clusters of 8 nodes. `+` joins unequal ones, and parentheses enclose a group of a
//! sum: `(4+4)+(8+2+2)`, `2x(3+5)`. A product is not a term of a sum, so that `2x4+3` cannot be read in two ways.
//!
//! ```text
//! group   = product | sum
//! product = NUMBER "x" ( product | NUMBER | "(" group ")" )
//! sum     = part { "+" part }
//! part    = NUMBER | "(" group ")"
//! ```

use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Unexpected, Visitor};

use crate::{Clusters, MAX_CLUSTER_LEVELS};

/// Maximum number of clusters or nodes that text can list, so that a few letters cannot cost gigabytes of memory.
pub(crate) const MAX_LISTED: u32 = 1 << 22;

/// The nodes of each cluster, then for each level above the number of groups below that each of its groups has.
pub(crate) type LevelSizes = Vec<Vec<u32>>;

/// Parses the sizes of clusters; `None` if the text is not of the form, nests too deeply or unequally, or lists too
/// many.
pub(crate) fn parse(text: &str) -> Option<LevelSizes> {
    let mut parser = SizesParser { rest: text };
    let group = parser.group(1)?;
    parser.rest.is_empty().then_some(group.levels)
}

/// The parts of a group.
struct Parts {
    levels: LevelSizes,
    count: u32,
}

impl Parts {
    /// The levels with the group itself.
    fn enclosed(mut self) -> LevelSizes {
        self.levels.push(vec![self.count]);
        self.levels
    }

    /// `count` groups of these levels each.
    fn repeated(part: LevelSizes, count: u32) -> Option<Self> {
        let repeat = |level: Vec<u32>| {
            let len = level.len() as u64 * u64::from(count);
            (len <= u64::from(MAX_LISTED)).then(|| level.repeat(count as usize))
        };
        Some(Self { levels: part.into_iter().map(repeat).collect::<Option<_>>()?, count })
    }
}

struct SizesParser<'a> {
    rest: &'a str,
}

impl SizesParser<'_> {
    fn group(&mut self, depth: usize) -> Option<Parts> {
        if depth > MAX_CLUSTER_LEVELS {
            return None;
        }
        let mut levels = if self.accept('(') {
            self.enclosed(depth)?
        } else {
            let number = self.number()?;
            if self.accept('x') {
                return self.product(number, depth);
            }
            vec![vec![number]]
        };
        let mut count = 1;
        while self.accept('+') {
            let part = if self.accept('(') { self.enclosed(depth)? } else { vec![vec![self.number()?]] };
            append(&mut levels, part)?;
            count += 1;
        }
        Some(Parts { levels, count })
    }

    /// The rest of a product, after its first factor.
    fn product(&mut self, count: u32, depth: usize) -> Option<Parts> {
        if depth > MAX_CLUSTER_LEVELS {
            return None;
        }
        if self.accept('(') {
            return Parts::repeated(self.enclosed(depth)?, count);
        }
        let number = self.number()?;
        let part = if self.accept('x') { self.product(number, depth + 1)?.enclosed() } else { vec![vec![number]] };
        Parts::repeated(part, count)
    }

    /// The rest of a group in parentheses.
    fn enclosed(&mut self, depth: usize) -> Option<LevelSizes> {
        let group = self.group(depth + 1)?.enclosed();
        self.accept(')').then_some(group)
    }

    fn accept(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn number(&mut self) -> Option<u32> {
        let end = self.rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().ok()
    }
}

/// Appends the groups of another part; `None` if they have another number of levels, or are too many.
fn append(levels: &mut LevelSizes, part: LevelSizes) -> Option<()> {
    if levels.len() != part.len() {
        return None;
    }
    for (level, more) in levels.iter_mut().zip(part) {
        if level.len() + more.len() > MAX_LISTED as usize {
            return None;
        }
        level.extend(more);
    }
    Some(())
}

/// The text of clusters, as [`parse`] reads it.
pub(crate) fn format(clusters: &Clusters) -> String {
    let mut text = String::new();
    // Most clusters are alike on all levels. That needs no text for each of them.
    let mut counts = Vec::new();
    for level in (1..=clusters.levels()).rev() {
        let mut lens = (0..clusters.groups(level)).map(|group| clusters.subgroups(level, group).len() as u32);
        let first = lens.next().unwrap_or(0);
        if lens.any(|len| len != first) {
            return format_group(clusters, clusters.levels(), 0).0;
        }
        counts.push(first);
    }
    let mut sizes = clusters.sizes();
    let first = sizes.next().unwrap_or(0);
    if sizes.any(|size| size != first) {
        return format_group(clusters, clusters.levels(), 0).0;
    }
    counts.iter().for_each(|count| _ = write!(text, "{count}x"));
    let _ = write!(text, "{first}");
    text
}

/// The text of a group, and whether it is a sum.
fn format_group(clusters: &Clusters, level: u32, group: u32) -> (String, bool) {
    if level == 0 {
        return (clusters.members(group).len().to_string(), false);
    }
    let parts = clusters.subgroups(level, group);
    let parts: Vec<(String, bool)> = parts.map(|part| format_group(clusters, level - 1, part)).collect();
    let (first, first_is_sum) = &parts[0];
    if parts.iter().all(|(text, _)| text == first) {
        let first = if *first_is_sum { format!("({first})") } else { first.clone() };
        return (format!("{}x{first}", parts.len()), false);
    }
    let term = |(text, _): &(String, bool)| if level > 1 { format!("({text})") } else { text.clone() };
    (parts.iter().map(term).collect::<Vec<_>>().join("+"), true)
}

/// An entry of `sizes` in a file: the nodes of a cluster, or the entries of a group.
#[derive(Debug)]
pub(crate) enum SizeEntry {
    Cluster(u32),
    Group(Vec<SizeEntry>),
}

/// The levels of the entries of a group; `None` if they are not all nested equally deep.
pub(crate) fn levels(entries: &[SizeEntry]) -> Option<LevelSizes> {
    let cluster = |entry: &SizeEntry| if let SizeEntry::Cluster(size) = entry { Some(*size) } else { None };
    if let Some(sizes) = entries.iter().map(cluster).collect() {
        return Some(vec![sizes]);
    }
    let mut all: LevelSizes = Vec::new();
    let mut counts = Vec::with_capacity(entries.len());
    for entry in entries {
        let SizeEntry::Group(parts) = entry else { return None };
        let part = levels(parts)?;
        if all.is_empty() {
            all = part;
        } else {
            append(&mut all, part)?;
        }
        counts.push(parts.len() as u32);
    }
    all.push(counts);
    Some(all)
}

impl<'de> Deserialize<'de> for SizeEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;

        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = SizeEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the nodes of a cluster, or an array of them")
            }

            fn visit_i64<E: serde::de::Error>(self, size: i64) -> Result<SizeEntry, E> {
                let wrong = |_| E::invalid_value(Unexpected::Signed(size), &self);
                u32::try_from(size).map(SizeEntry::Cluster).map_err(wrong)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<SizeEntry, A::Error> {
                let mut group = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    group.push(entry);
                }
                if group.len() > MAX_LISTED as usize {
                    return Err(A::Error::invalid_length(group.len(), &self));
                }
                Ok(SizeEntry::Group(group))
            }
        }

        deserializer.deserialize_any(EntryVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn products_and_sums_nest() {
        for (text, expected) in [
            ("8", vec![vec![8]]),
            ("3+5+8", vec![vec![3, 5, 8]]),
            ("2x4", vec![vec![4, 4]]),
            ("2x3x8", vec![vec![8; 6], vec![3, 3]]),
            ("2x1x3x8", vec![vec![8; 6], vec![3, 3], vec![1, 1]]),
            ("(4+4)+(8+2+2)", vec![vec![4, 4, 8, 2, 2], vec![2, 3]]),
            ("2x(3+5)", vec![vec![3, 5, 3, 5], vec![2, 2]]),
            ("(2x4)+(3x1)", vec![vec![4, 4, 1, 1, 1], vec![2, 3]]),
            ("((1+2)+(3))+(2x(4+5))", vec![vec![1, 2, 3, 4, 5, 4, 5], vec![2, 1, 2, 2], vec![2, 2]]),
            ("(8)", vec![vec![8], vec![1]]),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "",
            "x",
            "4x",
            "x4",
            "2x4+3",
            "3+2x4",
            "(4",
            "4)",
            "()",
            "(4+)",
            "3+(2+2)",
            "(2+2)+3",
            "(2x2)+(2x2x2)",
            "2x-4",
            "+4",
            "4++4",
            "2(3)",
            "(3)2",
            "2 x4",
            "2x(3+5)x2",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn depth_and_number_of_groups_are_bounded() {
        let deep = |levels: usize| parse(&["1"; 12][..levels + 1].join("x")).map(|levels| levels.len());
        assert_eq!((deep(MAX_CLUSTER_LEVELS), deep(MAX_CLUSTER_LEVELS + 1)), (Some(MAX_CLUSTER_LEVELS), None));
        let enclosed = |times: usize| parse(&format!("{}1{}", "(".repeat(times), ")".repeat(times)));
        assert_eq!(enclosed(MAX_CLUSTER_LEVELS - 1).map(|levels| levels.len()), Some(MAX_CLUSTER_LEVELS));
        assert_eq!((enclosed(MAX_CLUSTER_LEVELS), enclosed(1_000_000)), (None, None));
        let clusters = |text: &str| parse(text).map(|levels| levels[0].len());
        assert_eq!((clusters("2048x2048x1"), clusters("2049x2048x1")), (Some(1 << 22), None));
        assert_eq!((clusters("(2097152x1)+(2097152x1)"), clusters("(2097153x1)+(2097152x1)")), (Some(1 << 22), None));
    }

    fn random() -> impl FnMut(u64) -> u64 {
        let mut state = 1u64;
        move |below| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        }
    }

    fn check_round_trip(clusters: &Clusters) {
        let written = format(clusters);
        assert_eq!(parse(&written).map(|levels| Clusters::nested(&levels)), Some(Ok(clusters.clone())), "{written}");
    }

    #[test]
    fn random_letters_are_refused_or_round_trip() {
        let (mut random, mut accepted) = (random(), 0);
        for _ in 0..200_000 {
            let len = 1 + random(14);
            let text: String = (0..len).map(|_| b"123x+()"[random(7) as usize] as char).collect();
            let Some(levels) = parse(&text) else { continue };
            match Clusters::nested(&levels) {
                Err(Error::TooLarge { .. }) => {}
                clusters => check_round_trip(&clusters.unwrap_or_else(|error| panic!("{text}: {error}"))),
            }
            accepted += usize::from(levels.len() > 1);
        }
        assert!(accepted > 100, "{accepted}");
    }

    #[test]
    fn random_groups_round_trip() {
        let mut random = random();
        for _ in 0..5000 {
            // From the outermost groups to the nodes. Few different numbers, so that some groups are alike.
            let mut levels = vec![vec![1 + random(3) as u32]];
            for _ in 0..random(4) {
                let groups: u32 = levels[levels.len() - 1].iter().sum();
                levels.push((0..groups).map(|_| 1 + random(2) as u32).collect());
            }
            let groups: u32 = levels[levels.len() - 1].iter().sum();
            levels.push((0..groups).map(|_| 3 + random(2) as u32).collect());
            levels.reverse();
            levels.pop();
            check_round_trip(&Clusters::nested(&levels).unwrap());
        }
    }
}
