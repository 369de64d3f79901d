//! How slow the links between groups are, in classes, as an argument of an algorithm.
//!
//! A tree over few groups can follow the fast links only if all ranks know them, and build it alike for every root. So
//! the id of the algorithm has them: each link as one of at most four classes of similar times, the fastest first.

use std::fmt;
use std::str::FromStr;

/// The classes of the links between each two of up to eight groups: links of a class take about as long as each other,
/// and longer than those of lower classes. There are up to four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkClasses {
    groups: u32,
    /// Two bits for each ordered pair, row by row, in halves: arguments are copied, and should not be aligned to 16 bytes.
    halves: [u64; 2],
}

/// Text that is no list of link classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLinkClasses;

const SLOWEST: u32 = 3;

impl LinkClasses {
    /// The most groups.
    pub const MAX_GROUPS: u32 = 8;

    /// From the time of each link; `None` if there are too many groups, or if all links are alike.
    pub fn from_times(groups: u32, time: impl Fn(u32, u32) -> f64) -> Option<Self> {
        if groups > Self::MAX_GROUPS {
            return None;
        }
        let pairs = (0..groups).flat_map(|from| (0..groups).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let slowest = slowest_of_classes(pairs.clone().map(|(from, to)| time(from, to)).collect());
        let class = |(from, to)| slowest.partition_point(|slowest| *slowest < time(from, to)) as u128;
        let bits =
            pairs.map(|(from, to)| class((from, to)) << (2 * (from * groups + to))).fold(0, |all, bits| all | bits);
        (bits != 0).then(|| Self::from_bits(groups, bits))
    }

    fn from_bits(groups: u32, bits: u128) -> Self {
        Self { groups, halves: [bits as u64, (bits >> 64) as u64] }
    }

    fn bits(self) -> u128 {
        u128::from(self.halves[0]) | u128::from(self.halves[1]) << 64
    }

    /// The class of a link; that of the slowest if it is not known.
    pub fn class(self, from: u32, to: u32) -> u32 {
        match from.max(to) < self.groups {
            true => (self.bits() >> (2 * (from * self.groups + to))) as u32 & SLOWEST,
            false => SLOWEST,
        }
    }

    /// The tree over these groups, the first of which is the root, whose slowest link to each group is as fast as can
    /// be, with as few links as that takes: the parent of each, by index.
    pub fn bottleneck_tree(self, groups: &[u32]) -> Vec<usize> {
        let mut parents = vec![0; groups.len()];
        // The slowest class on the path from the root, and the number of links.
        let mut paths = vec![(u32::MAX, u32::MAX); groups.len()];
        let mut is_open = vec![true; groups.len()];
        paths[0] = (0, 0);
        for _ in 0..groups.len() {
            let open = (0..groups.len()).filter(|index| is_open[*index]);
            let Some(next) = open.min_by_key(|index| paths[*index]) else { break };
            is_open[next] = false;
            for index in (0..groups.len()).filter(|index| is_open[*index]) {
                let path = (paths[next].0.max(self.class(groups[next], groups[index])), paths[next].1 + 1);
                if path < paths[index] {
                    (paths[index], parents[index]) = (path, next);
                }
            }
        }
        parents
    }
}

/// Times that differ by less are alike.
const SPREAD: f64 = std::f64::consts::SQRT_2;

/// The slowest time of each class but the last. The class with the widest range of times is divided where two that
/// follow each other differ most, until all ranges are narrow or there are four classes.
fn slowest_of_classes(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    let ratio = |fast: usize, slow: usize| times[slow] / times[fast].max(f64::MIN_POSITIVE);
    let mut ends = vec![times.len()];
    while ends.len() <= SLOWEST as usize {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let classes = starts.zip(&ends).filter(|(start, end)| start < end && ratio(*start, **end - 1) >= SPREAD);
        let widest = classes.max_by(|one, other| ratio(one.0, one.1 - 1).total_cmp(&ratio(other.0, other.1 - 1)));
        let Some((start, end)) = widest else { break };
        let cut = (start + 1..*end).max_by(|one, other| ratio(one - 1, *one).total_cmp(&ratio(other - 1, *other)));
        ends.extend(cut);
        ends.sort_unstable();
    }
    ends.pop();
    ends.into_iter().map(|end| times[end - 1]).collect()
}

impl fmt::Display for LinkClasses {
    /// As in `links4-1b00c4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "links{}-{:x}", self.groups, self.bits())
    }
}

impl FromStr for LinkClasses {
    type Err = InvalidLinkClasses;

    fn from_str(text: &str) -> Result<Self, InvalidLinkClasses> {
        let parsed = text.strip_prefix("links").and_then(|text| text.split_once('-'));
        let (groups, bits) = parsed.ok_or(InvalidLinkClasses)?;
        let groups = groups.parse().ok().filter(|groups| (1..=Self::MAX_GROUPS).contains(groups));
        let (groups, bits) = groups.zip(u128::from_str_radix(bits, 16).ok()).ok_or(InvalidLinkClasses)?;
        let is_valid = groups == Self::MAX_GROUPS || bits >> (2 * groups * groups) == 0;
        if is_valid { Ok(Self::from_bits(groups, bits)) } else { Err(InvalidLinkClasses) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_of_similar_times() {
        let time = |from: u32, to: u32| f64::from(1 + 2 * from * to);
        let classes = LinkClasses::from_times(4, time).unwrap();
        assert_eq!([classes.class(0, 3), classes.class(1, 2), classes.class(3, 2), classes.class(5, 0)], [0, 1, 2, 3]);
        assert_eq!(classes.to_string().parse(), Ok(classes));
        assert_eq!(LinkClasses::from_times(4, |_, _| 3.0), None);
        assert_eq!(LinkClasses::from_times(4, |from, to| f64::from(100 + from * to)), None);
        assert_eq!(LinkClasses::from_times(9, time), None);
        for text in ["links9-0", "links2-100", "links2", "chain", "links2-x", "links0-0"] {
            assert_eq!(text.parse::<LinkClasses>(), Err(InvalidLinkClasses), "{text}");
        }
    }

    #[test]
    fn one_fast_link_does_not_hide_differences_of_others() {
        let time = |from: u32, to: u32| match (from, to) {
            (0, 1) | (1, 0) => 0.01,
            (2, 3) => 0.4,
            _ => 0.1,
        };
        let classes = LinkClasses::from_times(4, time).unwrap();
        assert_eq!([(1, 0), (0, 2), (3, 2), (2, 3)].map(|(from, to)| classes.class(from, to)), [0, 1, 1, 2]);
        assert_eq!(classes.bottleneck_tree(&[2, 3, 0, 1]), [0, 2, 0, 0]);
        // More than four different times: the widest ranges are divided.
        let classes = LinkClasses::from_times(4, |from, to| f64::from(1 << (from + 2 * to))).unwrap();
        assert!((0..4).all(|class| (0..16).any(|pair| classes.class(pair / 4, pair % 4) == class)), "{classes}");
    }

    #[test]
    fn trees_go_around_slow_links() {
        // From 0 to 1 is slow, one way.
        let classes = LinkClasses::from_times(4, |from, to| if (from, to) == (0, 1) { 8.0 } else { 1.0 }).unwrap();
        assert_eq!(classes.bottleneck_tree(&[0, 1, 2, 3]), [0, 2, 0, 0]);
        assert_eq!(classes.bottleneck_tree(&[1, 2, 3, 0]), [0, 0, 0, 0]);
        assert_eq!(classes.bottleneck_tree(&[0, 1]), [0, 0]);
        // Where all paths are slow, the direct one is the shortest.
        let classes = LinkClasses::from_times(3, |_, to| if to == 1 { 8.0 } else { 1.0 }).unwrap();
        assert_eq!(classes.bottleneck_tree(&[0, 1, 2]), [0, 0, 0]);
    }
}
