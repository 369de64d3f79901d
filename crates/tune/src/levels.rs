//! Levels of a machine, by the latencies between its ranks.
//!
//! Single-linkage clustering: the edges of a minimum spanning tree are the latencies at which groups merge. Where one
//! is longer than the one before by more than a factor, a level ends. A rank is in the group of the rank that it
//! reaches fastest, so a disturbed latency of one pair changes nothing.

/// A level, found in the latencies between some ranks, which are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelGroups {
    /// The group of each rank. Groups are numbered by their first ranks.
    pub groups: Vec<u32>,
    /// Of the pairs that are in one group here and not on the level below, the one with the longest latency, the lower
    /// rank first.
    pub slowest: (usize, usize),
}

/// Finds the levels of `ranks` ranks, from that of the closest ones to that of all. `ratio` is the factor between the
/// latencies of two levels.
pub fn find_levels(ranks: usize, latency: impl Fn(usize, usize) -> f64, ratio: f64) -> Vec<LevelGroups> {
    let mut edges = spanning_tree(ranks, &latency);
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut levels: Vec<LevelGroups> = Vec::new();
    let mut groups: Vec<u32> = (0..ranks as u32).collect();
    for (number, (length, from, to)) in edges.iter().enumerate() {
        merge(&mut groups, *from, *to);
        let ends = edges.get(number + 1).is_none_or(|(next, ..)| *next > ratio * length.max(MIN_LATENCY));
        if ends {
            let below = levels.last().map(|level| level.groups.as_slice());
            let slowest = slowest_pair(&groups, below, &latency);
            levels.push(LevelGroups { groups: groups.clone(), slowest });
        }
    }
    renumber(&mut levels);
    levels
}

/// Latencies below a nanosecond are not told apart.
const MIN_LATENCY: f64 = 1e-3;

/// The edges of a minimum spanning tree (Prim): lengths and ends.
fn spanning_tree(ranks: usize, latency: impl Fn(usize, usize) -> f64) -> Vec<(f64, usize, usize)> {
    // The shortest edge from the tree to each rank outside it.
    let mut nearest: Vec<(f64, usize, usize)> = (1..ranks).map(|rank| (latency(0, rank), 0, rank)).collect();
    let mut edges = Vec::new();
    while let Some(index) = (0..nearest.len()).min_by(|a, b| nearest[*a].0.total_cmp(&nearest[*b].0)) {
        let edge = nearest.swap_remove(index);
        for other in &mut nearest {
            let length = latency(edge.2, other.2);
            if length < other.0 {
                *other = (length, edge.2, other.2);
            }
        }
        edges.push(edge);
    }
    edges
}

fn merge(groups: &mut [u32], from: usize, to: usize) {
    let (kept, merged) = (groups[from].min(groups[to]), groups[from].max(groups[to]));
    groups.iter_mut().filter(|group| **group == merged).for_each(|group| *group = kept);
}

fn slowest_pair(groups: &[u32], below: Option<&[u32]>, latency: impl Fn(usize, usize) -> f64) -> (usize, usize) {
    let pairs = (0..groups.len()).flat_map(|from| (from + 1..groups.len()).map(move |to| (from, to)));
    let of_level =
        pairs.filter(|&(from, to)| groups[from] == groups[to] && below.is_none_or(|below| below[from] != below[to]));
    of_level.max_by(|a, b| latency(a.0, a.1).total_cmp(&latency(b.0, b.1))).unwrap_or((0, 0))
}

/// Numbers groups from 0 in the order of their first ranks.
fn renumber(levels: &mut [LevelGroups]) {
    for level in levels {
        let (mut numbers, mut next) = (vec![u32::MAX; level.groups.len()], 0);
        for group in &mut level.groups {
            let number = &mut numbers[*group as usize];
            if *number == u32::MAX {
                *number = next;
                next += 1;
            }
            *group = *number;
        }
    }
}

/// The ranks in an order in which the groups of all levels are consecutive, and the sizes of the groups of each level.
/// `levels` has the group of each rank on each level.
pub(crate) fn order_groups(levels: &[Vec<u32>]) -> (Vec<u32>, Vec<Vec<u32>>) {
    let ranks = levels.first().map_or(0, Vec::len);
    let mut order: Vec<u32> = (0..ranks as u32).collect();
    // By the groups of the highest level first; sorting is stable.
    order.sort_by_key(|rank| levels.iter().rev().map(|groups| groups[*rank as usize]).collect::<Vec<_>>());
    let sizes = levels.iter().map(|groups| {
        let in_order: Vec<u32> = order.iter().map(|rank| groups[*rank as usize]).collect();
        in_order.chunk_by(|a, b| a == b).map(|group| group.len() as u32).collect()
    });
    (order.clone(), sizes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_slowly_growing_latencies_is_one_level() {
        let levels = find_levels(6, |a, b| 1.5f64.powi(a.max(b) as i32), 2.0);
        assert_eq!(levels.len(), 1);
        assert_eq!((levels[0].groups.as_slice(), levels[0].slowest), ([0; 6].as_slice(), (4, 5)));
        assert_eq!(find_levels(6, |a, b| 2.5f64.powi(a.max(b) as i32), 2.0).len(), 5);
    }

    #[test]
    fn one_disturbed_pair_changes_no_group() {
        let cluster = [0, 1, 0, 1, 1, 0, 0];
        let quiet = |a: usize, b: usize| if cluster[a] == cluster[b] { 1.0 } else { 100.0 };
        for disturbed in [(0, 2), (1, 4), (5, 6)] {
            let latency = |a: usize, b: usize| if (a.min(b), a.max(b)) == disturbed { 5000.0 } else { quiet(a, b) };
            let levels = find_levels(7, latency, 2.0);
            assert_eq!(
                levels.iter().map(|level| level.groups.clone()).collect::<Vec<_>>(),
                [cluster.to_vec(), vec![0; 7]]
            );
        }
    }

    #[test]
    fn ranks_without_latency_are_one_group() {
        assert_eq!(find_levels(3, |_, _| 0.0, 2.0).len(), 1);
        assert_eq!(find_levels(1, |_, _| 0.0, 2.0), []);
    }

    #[test]
    fn orders_keep_groups_of_all_levels_together() {
        let levels = [vec![0, 1, 0, 2, 1, 3], vec![0, 1, 0, 1, 1, 0], vec![0; 6]];
        let (order, sizes) = order_groups(&levels);
        assert_eq!(order, [0, 2, 5, 1, 4, 3]);
        assert_eq!(sizes, [vec![2, 1, 2, 1], vec![3, 3], vec![6]]);
    }
}
