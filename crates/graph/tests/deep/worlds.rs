//! Worlds of several ranks in one process.

use std::sync::Arc;

use treepie_comm::Comm;
use treepie_shm::{Arena, Shm};
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_sim::noise::Noise;
use treepie_topology::Network;

pub(crate) fn launch<R: Send>(ranks: u32, body: impl Fn(Comm) -> R + Sync) -> Vec<R> {
    let (arena, body) = (Arc::new(Arena::create(ranks).unwrap()), &body);
    std::thread::scope(|threads| {
        let start = |rank| {
            let arena = arena.clone();
            threads.spawn(move || body(Comm::world(Box::new(Shm::join(arena, rank).unwrap()))))
        };
        let running: Vec<_> = (0..ranks).map(start).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs ranks in the simulator, with messages delayed by up to a hundred times their usual latency.
pub(crate) fn simulate(ranks: u32, seed: u64, body: impl Fn(Comm)) {
    let machine = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 };
    let settings = Settings { noise: Noise { seed, jitter: 200.0, ..Noise::default() }, ..machine.into() };
    let options = Options { stack_size: 1 << 20, ..Options::default() };
    run(&Network::flat(ranks), &settings, &options, |fabric| body(Comm::world(fabric))).unwrap();
}
