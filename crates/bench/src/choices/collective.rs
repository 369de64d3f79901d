//! A collective operation to time, and its candidates.

use treepie::Comm;
use treepie::tune::CollectiveSample;
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_comm::choice::{Candidate, Transport};
use treepie_schedule::{RoundList, Schedule, for_each_lane};

use super::rank::{Side, Task};

const ELEMENT: u64 = 8;

impl Task for CollectiveSample {
    fn prepare(&mut self) {
        self.modify();
    }

    fn run(&mut self, comm: &Comm) -> treepie::Result<()> {
        CollectiveSample::run(self, comm)
    }

    /// Candidates whose schedules are the same, as trees of two ranks are, are one.
    fn sides(&self, world: &Comm) -> anyhow::Result<Vec<Side>> {
        let spec = CollectiveSpec::new(self.operation(), world.network()?);
        let mut schedules: Vec<(Vec<RoundList>, Transport)> = Vec::new();
        let mut sides: Vec<Side> = Vec::new();
        for candidate in world.candidates(self.operation(), self.bytes() as u64, ELEMENT)? {
            let (id, transport) = (candidate.id(), candidate.transport);
            let Ok(schedule) = registry::build(&id, &spec) else { continue };
            let key = (all_rounds(&*schedule), transport);
            if let Some(at) = schedules.iter().position(|other| *other == key) {
                sides[at].timed.also.push(label(&candidate));
                continue;
            }
            schedules.push(key);
            let comm = if sides.is_empty() { world.clone() } else { world.with_candidate(&id, transport)? };
            sides.push(Side::new(label(&candidate), candidate.prediction.total(), comm));
        }
        Ok(sides)
    }
}

/// The id of a candidate, and its transport.
pub(super) fn label(candidate: &Candidate) -> String {
    format!("{}, {}", candidate.id(), candidate.transport)
}

/// All rounds of all ranks, by phase and lane.
fn all_rounds(schedule: &dyn Schedule) -> Vec<RoundList> {
    let mut all = Vec::new();
    for_each_lane(schedule, |_, _, _, rounds| all.push(rounds.clone()));
    all
}
