//! When all ranks change their choices, and what rank 0 tells them: pure state.

use std::collections::BTreeMap;

/// Collective operations from one step of the agreement to the next. Rank 0 announces a generation, which is valid
/// `LEAD` operations later; after another `LEAD` operations it announces the next one.
const LEAD: u32 = 8;

/// Most links that change at once; more wait for the next generation.
pub(super) const MAX_CHANGES: usize = 64;

/// A smaller change of a factor is none.
const MIN_CHANGE: f64 = 1.2;

/// What a rank does before a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Start to receive the next announcement; rank 0 sends it.
    Announce,
    /// Wait for it, and use it from now on.
    Apply,
}

/// The steps of the agreement, by the numbers of a communicator's collective operations, which are the same on all
/// ranks.
///
/// Each step has its number, and none is left out: a rank that could not take a step at its number, because the call
/// was not a blocking one there, takes it before its next blocking operation. So ranks whose calls differed once have
/// the same announcements again.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgreementClock {
    /// The operations before which the next announcement starts, and before which the first one that is not applied is.
    announce_at: u32,
    apply_at: u32,
}

impl AgreementClock {
    pub(super) fn new(instance: u32) -> Self {
        Self { announce_at: instance.wrapping_add(LEAD), apply_at: instance.wrapping_add(2 * LEAD) }
    }

    /// The next step to take before the operation with this number, if any. Several announcements that are due start
    /// before the first one is waited for.
    pub(super) fn step(&mut self, instance: u32) -> Option<Step> {
        let steps = [(&mut self.announce_at, Step::Announce), (&mut self.apply_at, Step::Apply)];
        // Numbers wrap.
        let is_due = |at: u32| instance.wrapping_sub(at).cast_signed() >= 0;
        let (at, step) = steps.into_iter().find(|(at, _)| is_due(**at))?;
        *at = at.wrapping_add(2 * LEAD);
        Some(step)
    }
}

/// A link and its factor as a word.
pub(super) fn encode(link: u32, factor: f64) -> u64 {
    u64::from(link) << 32 | u64::from((factor as f32).to_bits())
}

/// The link and the factor of a word; none if the factor is not one.
pub(super) fn decode(word: u64) -> Option<(u32, f64)> {
    let factor = f64::from(f32::from_bits(word as u32));
    (factor.is_finite() && factor > 0.0).then_some(((word >> 32) as u32, factor))
}

/// The length of an announcement for this number of links, in words.
pub(super) fn announcement_len(links: usize) -> usize {
    1 + links.min(MAX_CHANGES)
}

/// The changes in an announcement: their number, then a word each.
pub(super) fn changes(announcement: &[u64]) -> impl Iterator<Item = (u32, f64)> {
    let (count, words) =
        announcement.split_first().map_or((0, announcement), |(count, words)| (*count as usize, words));
    words.iter().take(count).filter_map(|word| decode(*word))
}

/// What ranks have reported to rank 0: the last factor of each link.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<u32, f64>);

impl Reports {
    pub(super) fn add(&mut self, word: u64) {
        self.0.extend(decode(word));
    }

    /// Takes an announcement of `len` words. `current` has the factor of a link now.
    pub(super) fn take_announcement(&mut self, len: usize, current: impl Fn(u32) -> f64) -> Vec<u64> {
        self.0.retain(|link, factor| {
            let change = *factor / current(*link);
            !(1.0 / MIN_CHANGE..=MIN_CHANGE).contains(&change)
        });
        let mut announcement = vec![0];
        while announcement.len() < len
            && let Some((link, factor)) = self.0.pop_first()
        {
            announcement.push(encode(link, factor));
        }
        announcement[0] = announcement.len() as u64 - 1;
        announcement.resize(len, 0);
        announcement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of a rank whose blocking operations have these numbers, counted from the first operation.
    fn steps(blocking: impl IntoIterator<Item = u32>) -> Vec<(u32, Step)> {
        const FIRST: u32 = u32::MAX - 3;
        let mut clock = AgreementClock::new(FIRST);
        let mut taken = Vec::new();
        for at in blocking {
            while let Some(step) = clock.step(at.wrapping_add(FIRST)) {
                taken.push((at, step));
            }
        }
        taken
    }

    #[test]
    fn ranks_step_at_the_same_operations() {
        let expected = [(8, Step::Announce), (16, Step::Apply), (24, Step::Announce), (32, Step::Apply)];
        assert_eq!(steps(0..40), expected);
        // Others are not blocking.
        let expected = [(8, Step::Announce), (16, Step::Apply), (30, Step::Announce), (32, Step::Apply)];
        assert_eq!(steps((0..20).chain(30..40)), expected);
    }

    #[test]
    fn a_rank_that_is_late_catches_up() {
        let (all, late) = (steps(0..100), steps((0..100).filter(|at| *at != 8 && !(32..41).contains(at))));
        assert_ne!(all, late);
        assert_eq!(all.len(), late.len());
        assert_eq!((all[0], late[0]), ((8, Step::Announce), (9, Step::Announce)));
        let since = |steps: &[(u32, Step)]| steps.iter().copied().filter(|(at, _)| *at > 41).collect::<Vec<_>>();
        assert_eq!(since(&all), since(&late));
        // All announcements of a long time start before the first one is waited for.
        let [announced, applied] = [Step::Announce, Step::Apply].map(|step| vec![(100, step); 6]);
        assert_eq!(steps([100]), [announced, applied].concat());
    }

    #[test]
    fn the_last_report_of_a_link_counts() {
        let mut reports = Reports::default();
        for (link, factor) in [(3, 4.0), (1, 2.0), (3, 5.0), (7, 1.1), (2, 0.5)] {
            reports.add(encode(link, factor));
        }
        reports.add(u64::from(f32::NAN.to_bits()));
        // Link 7 has hardly changed, and one has to wait.
        let current = |_| 1.0;
        let first = reports.take_announcement(3, current);
        assert_eq!(changes(&first).collect::<Vec<_>>(), [(1, 2.0), (2, 0.5)]);
        let second = reports.take_announcement(3, current);
        assert_eq!((second.len(), changes(&second).collect::<Vec<_>>()), (3, vec![(3, 5.0)]));
        // A late report of what was announced changes nothing.
        reports.add(encode(3, 4.9));
        assert_eq!(reports.take_announcement(3, |_| 5.0), [0, 0, 0]);
    }

    #[test]
    fn announcements_have_one_length() {
        assert_eq!((announcement_len(4), announcement_len(1000)), (5, 65));
        let mut reports = Reports::default();
        (0..100).for_each(|link| reports.add(encode(link, 3.0)));
        let len = announcement_len(1000);
        assert_eq!(changes(&reports.take_announcement(len, |_| 1.0)).count(), MAX_CHANGES);
        assert_eq!(changes(&reports.take_announcement(len, |_| 1.0)).count(), 36);
        assert_eq!(changes(&[]).count(), 0);
    }
}
