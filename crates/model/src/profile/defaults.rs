//! The profile of each engine that is used where none was measured.

use super::{LevelProfile, Profile, ProfileOrigin, SharedSegmentCosts, SynchronousSend};
use crate::CostParams;
use crate::plogp::{PLogP, PiecewiseLinear};

impl Profile {
    /// The default of ranks on one machine with this number of ranks for each core.
    pub fn on_machine(ranks_per_core: f64) -> Self {
        if ranks_per_core > 1.0 { Self::oversubscribed() } else { Self::shared_memory() }
    }

    /// The default of ranks on one machine, each on its own core: two ranks on two cores of 2023.
    pub fn shared_memory() -> Self {
        let copy =
            curve([(0.0, 0.0), (1024.0, 0.15), (8192.0, 0.8), (65536.0, 3.5), (LONG, 33.0), (BEYOND_CACHES, 290.0)]);
        // With one root 64 KiB take 3.8, and single copy is faster than messages; if the root of a broadcast changes from
        // call to call, it is slower. With 5.0 messages are chosen.
        let single_copy =
            curve([(0.0, 0.85), (1024.0, 0.9), (8192.0, 1.3), (65536.0, 5.0), (LONG, 42.0), (BEYOND_CACHES, 600.0)]);
        Self {
            reduce_per_byte: 0.1e-3,
            copy_per_byte: 0.03e-3,
            scheduling: 1.0,
            synchronous: SynchronousSend { latency: 0.35, vanishes_at: EAGER_LIMIT },
            barrier: Some(0.2),
            shared_segment: Some(SharedSegmentCosts {
                round: 0.15,
                copy_in: copy.clone(),
                copy_out: copy,
                single_copy,
            }),
            ..Self::of_link(
                "shm",
                "memory",
                memory_link(0.23, [0.08, 0.45, 2.2, 4.5, 29.0, 330.0], [0.08, 0.22, 0.64, 4.9, 28.0, 300.0]),
            )
        }
    }

    /// The default of ranks that share cores: three to sixteen ranks on two cores. Whoever runs finds less in the
    /// caches.
    pub fn oversubscribed() -> Self {
        let copy =
            curve([(0.0, 0.0), (1024.0, 0.2), (8192.0, 0.51), (65536.0, 4.0), (LONG, 31.0), (BEYOND_CACHES, 190.0)]);
        let link = memory_link(0.9, [0.08, 0.63, 2.2, 4.0, 13.5, 180.0], [0.19, 0.29, 0.6, 6.3, 26.0, 410.0]);
        Self {
            reduce_per_byte: 0.075e-3,
            copy_per_byte: 0.03e-3,
            shared_segment: Some(SharedSegmentCosts {
                round: 0.2,
                copy_in: copy.clone(),
                copy_out: copy,
                single_copy: curve([
                    (0.0, 1.6),
                    (1024.0, 1.65),
                    (8192.0, 2.0),
                    (65536.0, 5.0),
                    (LONG, 43.0),
                    (BEYOND_CACHES, 450.0),
                ]),
            }),
            levels: vec![LevelProfile::new("memory", link)],
            ..Self::shared_memory()
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

    /// The default of ranks on several hosts of a network: messages within a host take a third of the time.
    pub fn hosts() -> Self {
        let mut profile = Self::network();
        profile.levels.insert(0, LevelProfile::new("host", link(0.5, 0.3, 0.1e-3, 8192.0, 1.0)));
        profile
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
            host_collectives: Vec::new(),
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

/// Bytes of a long message, which is in the caches of its cores.
const LONG: f64 = 524_288.0;

/// Bytes of a message that is not: beyond, the time per byte is the same.
const BEYOND_CACHES: f64 = 4_194_304.0;

fn curve<const POINTS: usize>(points: [(f64, f64); POINTS]) -> PiecewiseLinear {
    PiecewiseLinear::new_unchecked(points.to_vec())
}

/// A link through shared memory: the gap, and how long each side is busy, for 0 bytes, 1 KiB, 8 KiB, 64 KiB, [`LONG`]
/// and [`BEYOND_CACHES`]. Above the eager limit each side copies a half.
fn memory_link(latency: f64, gap: [f64; 6], busy: [f64; 6]) -> PLogP {
    let through = |[empty, short, eager, rendezvous, long, longest]: [f64; 6]| {
        let at_limit = eager + (eager - short) * (EAGER_LIMIT - 8192.0) / (8192.0 - 1024.0);
        // What a rendezvous saves of copying, it costs in messages.
        let (before, after) = (at_limit, at_limit.max(0.45 * rendezvous));
        let copied_twice =
            [(0.0, empty), (1024.0, short), (8192.0, eager), (EAGER_LIMIT, before), (EAGER_LIMIT, after)];
        let in_halves = [(65536.0, rendezvous), (LONG, long), (BEYOND_CACHES, longest)];
        let mut points: Vec<(f64, f64)> = copied_twice.into_iter().chain(in_halves).collect();
        points.dedup();
        PiecewiseLinear::new_unchecked(points)
    };
    PLogP { latency, send_overhead: through(busy), recv_overhead: through(busy), gap: through(gap) }
}

/// Bytes of the longest message that shared memory sends without a rendezvous.
const EAGER_LIMIT: f64 = 16_352.0;

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
