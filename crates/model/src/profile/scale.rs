//! A profile for a machine that is faster or slower than the one it was measured on.

use super::{LevelProfile, Profile, SharedSegmentCosts, SynchronousSend};
use crate::plogp::{PLogP, PiecewiseLinear};

impl Profile {
    /// The same with start-ups (what an empty message costs) and costs of bytes multiplied. How long a rank waits until
    /// it is scheduled does not depend on links, and collective operations of an MPI library are measured or not.
    #[must_use]
    pub fn scaled(&self, startups: f64, bytes: f64) -> Self {
        let curve = |curve: &PiecewiseLinear| curve.scaled(startups, bytes);
        let link = |link: &PLogP| PLogP {
            latency: link.latency * startups,
            send_overhead: curve(&link.send_overhead),
            recv_overhead: curve(&link.recv_overhead),
            gap: curve(&link.gap),
        };
        let level = |level: &LevelProfile| LevelProfile {
            link: link(&level.link),
            reverse: level.reverse.as_ref().map(link),
            ..level.clone()
        };
        let segment = |segment: &SharedSegmentCosts| SharedSegmentCosts {
            round: segment.round * startups,
            copy_in: curve(&segment.copy_in),
            copy_out: curve(&segment.copy_out),
            single_copy: curve(&segment.single_copy),
        };
        Self {
            levels: self.levels.iter().map(level).collect(),
            synchronous: SynchronousSend { latency: self.synchronous.latency * startups, ..self.synchronous },
            barrier: self.barrier.map(|barrier| barrier * startups),
            shared_segment: self.shared_segment.as_ref().map(segment),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startups_and_bytes_are_scaled_apart() {
        let profile = Profile::shared_memory();
        let scaled = profile.scaled(2.0, 3.0);
        let (before, after) = (profile.link(), scaled.link());
        assert_eq!(after.latency, 2.0 * before.latency);
        assert_eq!(after.gap.at(0.0), 2.0 * before.gap.at(0.0));
        let of_bytes = |link: &PLogP| link.gap.at(65536.0) - link.gap.at(0.0);
        assert!((of_bytes(after) - 3.0 * of_bytes(before)).abs() < 1e-9);
        assert_eq!(after.gap.knees().collect::<Vec<_>>(), before.gap.knees().collect::<Vec<_>>());
        let same = profile.scaled(1.0, 1.0);
        assert!((same.link().gap.at(1000.0) - before.gap.at(1000.0)).abs() < 1e-12);
    }
}
