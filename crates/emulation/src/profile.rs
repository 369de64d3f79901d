//! The profile of emulated clusters, as a measurement would find it: what algorithms are chosen by where none was
//! measured.

use treepie_model::Profile;
use treepie_model::plogp::{PLogP, PiecewiseLinear};
use treepie_model::profile::SynchronousSend;

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
        let mut profile = costs.profile_of(engine, local, |wan| {
            let carried = |bytes: f64| sent(bytes).max((bytes + HEADER as f64) / wan.bandwidth);
            link(wan.latency + 2.0 * costs.lan.latency, eager_limit, &sent, &carried)
        });
        let latency = profile.levels[profile.levels.len() - 1].link.latency;
        profile.synchronous = SynchronousSend { latency: 2.0 * latency, vanishes_at: eager_limit };
        profile
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
