//! The profile of emulated clusters, as a measurement would find it: what algorithms are chosen by where none was
//! measured.

use std::path::Path;

use treepie_model::Profile;
use treepie_model::plogp::{PLogP, PiecewiseLinear};
use treepie_model::profile::{Fit, SynchronousSend};

use crate::delayed::TRAILER;
use crate::gateway::HEADER;
use crate::text::Emulation;

/// Microseconds that the machine itself needs for a message on either side: records, wake-ups, copies.
const OVERHEAD: f64 = 5.0;

impl Emulation {
    /// The profile of ranks whose engine has this name, and sends messages up to `eager_limit` bytes eagerly without
    /// emulation.
    pub fn profile(&self, engine: &str, eager_limit: usize) -> Profile {
        let costs = self.costs();
        let eager_limit = eager_limit.saturating_sub(TRAILER) as f64;
        let sent = |bytes: f64| OVERHEAD + costs.lan.gap.at(bytes + HEADER as f64);
        let local = link(costs.lan.latency, eager_limit, &sent, &sent);
        let mut profile = costs.profile_of(&Profile::emulated_engine(engine), local, |wan| {
            let carried = |bytes: f64| sent(bytes).max((bytes + HEADER as f64) / wan.bandwidth);
            link(wan.latency + 2.0 * costs.lan.latency, eager_limit, &sent, &carried)
        });
        profile.levels[1..].iter_mut().for_each(|level| level.window = Some(costs.window as f64));
        let latency = profile.levels[profile.levels.len() - 1].link.latency;
        profile.synchronous = SynchronousSend { latency: 2.0 * latency, vanishes_at: eager_limit };
        profile
    }

    /// The profile in a file, adapted to these ranks, or else that of the links, if that in the file was not measured
    /// over emulated ones; and how they differ.
    pub fn profile_from(
        &self,
        path: impl AsRef<Path>,
        engine: &str,
        eager_limit: usize,
    ) -> treepie_model::Result<(Profile, Option<String>)> {
        Ok(self.fitting(Profile::load(path)?, self.profile(engine, eager_limit)))
    }

    fn fitting(&self, measured: Profile, default: Profile) -> (Profile, Option<String>) {
        let ranks = self.network().ranks();
        // Links that are emulated are the same on any machine.
        let (mut profile, difference) = match measured.fits(&default.origin.engine, ranks, 0, "") {
            Fit::Exact => (measured, None),
            Fit::Adapted(difference) => (measured.adapted_to(ranks), Some(difference)),
            Fit::Refused(why) => return (default, Some(format!("{why}; that of the emulated links is used"))),
        };
        profile.origin.engine = default.origin.engine;
        (profile, difference)
    }
}

/// A link whose sender is busy for `sent`, and which carries a message in `carried`. A long message has to be asked for
/// first.
fn link(latency: f64, eager_limit: f64, sent: &dyn Fn(f64) -> f64, carried: &dyn Fn(f64) -> f64) -> PLogP {
    let curve = |short: &dyn Fn(f64) -> f64, long: &dyn Fn(f64) -> f64| {
        let mut points = vec![
            (0.0, short(0.0)),
            (eager_limit, short(eager_limit)),
            (eager_limit, long(eager_limit)),
            (2.0 * eager_limit, long(2.0 * eager_limit)),
        ];
        // A jump of nothing is none.
        points.dedup();
        PiecewiseLinear::new("a cost", &points).expect("the description was checked")
    };
    PLogP {
        latency,
        send_overhead: curve(sent, sent),
        recv_overhead: curve(&|_| OVERHEAD, &|_| OVERHEAD),
        gap: curve(carried, &|bytes| carried(bytes) + 2.0 * latency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_profiles_of_emulated_links_replace_that_of_the_description() {
        let emulation: Emulation = "clusters:2x2".parse().unwrap();
        let default = || emulation.profile("threads", 4096);
        let (profile, difference) = emulation.fitting(Profile::shared_memory(), default());
        assert_eq!(profile, default());
        assert!(
            difference.unwrap().contains("`treepie tune --emulate LINKS` measures one; that of the emulated links")
        );
        let other = Profile { reduce_per_byte: 7.0, ..emulation.profile("shm", 4096) };
        let (profile, difference) = emulation.fitting(other, default());
        assert_eq!((profile.reduce_per_byte, profile.origin.engine.as_str()), (7.0, "emulated threads"));
        assert!(difference.unwrap().contains("on the engine emulated shm instead of emulated threads"));
        assert_eq!(emulation.fitting(default(), default()), (default(), None));
    }
}
