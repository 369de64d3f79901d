//! The memory needed for received operands.

use super::error::ScheduleLocation;
use crate::schedule::Schedule;

/// Elements of operands that a rank has received but not yet combined.
#[derive(Default)]
pub(super) struct Staging {
    phase: u32,
    /// The maximum of each lane of the phase.
    lanes: Vec<usize>,
    peak: usize,
}

impl Staging {
    pub(super) fn add(&mut self, schedule: &dyn Schedule, at: ScheduleLocation, elements: usize) {
        if elements == 0 {
            return;
        }
        if self.phase != at.phase {
            self.peak(schedule);
            (self.phase, self.lanes) = (at.phase, Vec::new());
        }
        let lane = at.lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, 0);
        }
        self.lanes[lane] = self.lanes[lane].max(elements);
    }

    /// The peak: lanes that may be open together may all be in their largest round.
    pub(super) fn peak(&mut self, schedule: &dyn Schedule) -> usize {
        if !self.lanes.is_empty() {
            let window = self.lanes.len().min(schedule.phase(self.phase).max_open_lanes() as usize);
            let sums = self.lanes.windows(window).map(|lanes| lanes.iter().sum());
            self.peak = self.peak.max(sums.max().unwrap_or(0));
        }
        self.peak
    }
}
