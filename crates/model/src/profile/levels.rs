//! The links between groups, for a network whose groups or levels are not those of the profile.

use super::{LevelProfile, PairFactors, Profile};

impl Profile {
    /// The same with at least this number of levels. Those that are missing are copies of the last one, without the
    /// links between two groups: on another level these are links between others.
    #[must_use]
    pub fn with_levels(&self, levels: usize) -> Self {
        let mut all = self.clone();
        if all.levels.len() < levels {
            let last = all.levels.last().expect("there is at least one");
            let copy = LevelProfile { pairs: Vec::new(), ..last.clone() };
            all.levels.resize(levels, copy);
        }
        all
    }

    /// The same with other groups: `group(level, number)` is the new number of a group at a level, if it is kept.
    #[must_use]
    pub fn with_groups(&self, group: impl Fn(usize, u32) -> Option<u32>) -> Self {
        let mut renumbered = self.clone();
        // Links of a level join groups of the level below.
        for (below, level) in renumbered.levels.iter_mut().skip(1).enumerate() {
            let kept = level.pairs.iter().filter_map(|pair| {
                Some(PairFactors { from: group(below, pair.from)?, to: group(below, pair.to)?, ..*pair })
            });
            level.pairs = kept.collect();
            level.pairs.sort_unstable_by_key(|pair| (pair.from, pair.to));
        }
        renumbered
    }

    /// Whether links between groups of one level differ.
    pub fn has_unequal_links(&self) -> bool {
        self.levels.iter().any(|level| !level.pairs.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow_link(from: u32, to: u32) -> PairFactors {
        PairFactors { from, to, latency: 1.0, bytes: 4.0 }
    }

    #[test]
    fn a_missing_level_has_the_costs_of_the_last_one() {
        let mut profile = Profile::network();
        profile.levels.push(LevelProfile { pairs: vec![slow_link(0, 1)], ..profile.levels[0].clone() });
        let levels = profile.with_levels(4).levels;
        assert_eq!((levels.len(), &levels[..2], &levels[3].link), (4, &profile.levels[..], &profile.levels[1].link));
        assert!(levels[2].pairs.is_empty() && levels[3].pairs.is_empty(), "they are links between other groups");
        assert_eq!(profile.with_levels(1), profile);
    }

    #[test]
    fn links_follow_their_groups() {
        let mut profile = Profile::network();
        profile.levels.resize(3, profile.levels[0].clone());
        profile.levels[1].pairs = vec![slow_link(0, 1), slow_link(1, 2), slow_link(2, 3), slow_link(3, 2)];
        profile.levels[2].pairs = vec![slow_link(0, 1)];
        // Clusters 3 and 2, and the groups of the second level the other way round.
        let part =
            profile.with_groups(|level, group| if level == 0 { 3_u32.checked_sub(group) } else { Some(1 - group) });
        let part = part.with_groups(|level, group| (level > 0 || group < 2).then_some(group));
        assert_eq!(part.levels[1].pairs, [slow_link(0, 1), slow_link(1, 0)]);
        assert_eq!(part.levels[2].pairs, [slow_link(1, 0)]);
    }
}
