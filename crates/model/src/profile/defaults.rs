//! The profile of each engine that is used where none was measured.

use super::{LevelProfile, Profile, ProfileOrigin, SharedSegmentCosts, SynchronousSend};
use crate::CostParams;
use crate::plogp::{PLogP, PiecewiseLinear};

impl Profile {
    /// The default of ranks on one machine: two cores of 2023, with 2, 8 and 16 ranks.
    pub fn shared_memory() -> Self {
        Self {
            reduce_per_byte: 0.05e-3,
            copy_per_byte: 0.1e-3,
            scheduling: 0.6,
            synchronous: SynchronousSend { latency: 0.35, vanishes_at: 8192.0 },
            barrier: Some(0.2),
            shared_segment: Some(SharedSegmentCosts {
                round: 0.15,
                write_per_byte: 0.11e-3,
                read_per_byte: 0.07e-3,
                single_copy: 1.0,
                single_copy_per_byte: 0.1e-3,
            }),
            ..Self::of_link("shm", "memory", link(0.2, 0.06, 0.1e-3, 8192.0, 0.8))
        }
    }

    /// The default of ranks on a network of unknown hardware: that of a cluster with a fast interconnect.
    pub fn network() -> Self {
        Self {
            reduce_per_byte: 0.1e-3,
            copy_per_byte: 0.1e-3,
            scheduling: 0.0,
            synchronous: SynchronousSend { latency: 3.0, vanishes_at: 8192.0 },
            barrier: None,
            shared_segment: None,
            ..Self::of_link("mpi", "network", link(1.5, 0.5, 0.1e-3, 8192.0, 2.0))
        }
    }

    /// The default of an engine.
    pub fn default_for(engine: &str) -> Self {
        match engine {
            "shm" | "threads" => Self::shared_memory(),
            _ => Self::network(),
        }
    }

    /// A machine of one level in which only messages cost something.
    pub fn of_link(engine: &str, name: &str, link: PLogP) -> Self {
        let origin = ProfileOrigin {
            engine: engine.to_owned(),
            machine: String::new(),
            ranks: 0,
            cores: 0,
            measured: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Self {
            origin,
            levels: vec![LevelProfile::new(name, link)],
            rank_order: Vec::new(),
            reduce_per_byte: 0.0,
            copy_per_byte: 0.0,
            saturated_ports: 0,
            port_efficiency: 1.0,
            scheduling: 0.0,
            synchronous: SynchronousSend { latency: 0.0, vanishes_at: f64::INFINITY },
            barrier: None,
            shared_segment: None,
        }
    }
}

impl From<CostParams> for Profile {
    /// A start-up is the gap of an empty message, and there is no other latency.
    fn from(params: CostParams) -> Self {
        let CostParams { alpha, gamma, delta, saturated_ports, port_efficiency, .. } = params;
        let link = link(0.0, alpha, delta, f64::MAX, 0.0);
        let port_efficiency = if saturated_ports > 0 { port_efficiency } else { 1.0 };
        Self { reduce_per_byte: gamma, saturated_ports, port_efficiency, ..Self::of_link("sim", "network", link) }
    }
}

/// A link whose messages above the eager limit take a rendezvous more.
fn link(latency: f64, overhead: f64, per_byte: f64, eager_limit: f64, rendezvous: f64) -> PLogP {
    let busy = PiecewiseLinear::new_unchecked(vec![(0.0, overhead)]);
    let at = |bytes: f64, more: f64| (bytes, overhead + bytes * per_byte + more);
    let points = if eager_limit < f64::MAX {
        vec![at(0.0, 0.0), at(eager_limit, 0.0), at(eager_limit, rendezvous), at(16.0 * eager_limit, rendezvous)]
    } else {
        vec![at(0.0, 0.0), at(1.0, 0.0)]
    };
    let gap = PiecewiseLinear::new_unchecked(points);
    PLogP { latency, send_overhead: busy.clone(), recv_overhead: busy, gap }
}
