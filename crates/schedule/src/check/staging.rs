//! How much memory operands need that have been received.

use super::At;
use crate::schedule::Schedule;

/// Elements of operands that a rank has received and not yet combined.
#[derive(Default)]
pub(super) struct Staging {
    phase: u32,
    /// The most of each lane of the phase.
    lanes: Vec<usize>,
    most: usize,
}

impl Staging {
    pub(super) fn add(&mut self, schedule: &dyn Schedule, at: At, elements: usize) {
        if elements == 0 {
            return;
        }
        if self.phase != at.phase {
            self.most(schedule);
            (self.phase, self.lanes) = (at.phase, Vec::new());
        }
        let lane = at.lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, 0);
        }
        self.lanes[lane] = self.lanes[lane].max(elements);
    }

    /// The most at once: lanes that may be open together may all be in their largest round.
    pub(super) fn most(&mut self, schedule: &dyn Schedule) -> usize {
        if !self.lanes.is_empty() {
            let window = (schedule.phase(self.phase).window.max(1) as usize).min(self.lanes.len());
            let sums = self.lanes.windows(window).map(|lanes| lanes.iter().sum());
            self.most = self.most.max(sums.max().unwrap_or(0));
        }
        self.most
    }
}
