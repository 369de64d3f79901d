//! A simulated wide area is measured by messages, and the algorithm that is chosen by what was measured is run.

use std::rc::Rc;

use anyhow::{Context, ensure};
use treepie::Comm;
use treepie_bench::program_error;
use treepie_schedule::Operation;
use treepie_sim::Settings;
use treepie_topology::Network;
use treepie_tune::TuneConfig;

const BYTES: u64 = 256 << 10;

/// What was measured and chosen, in words.
pub(super) fn run() -> anyhow::Result<(u32, String)> {
    let network: Network = "clusters:4x2".parse()?;
    let settings = Settings::for_network(&network)?;
    let simulated = treepie::simulate(&network, &settings, |world| {
        let run = |world: Comm| -> anyhow::Result<(f64, String, f64, f64)> {
            let profile = treepie_tune::measure(&world, &TuneConfig::for_comm(&world))?;
            let latency = profile.levels.last().context("a profile has a level")?.link.latency;
            let tuned = world.with_profile(Rc::new(profile));
            let chosen = tuned.candidates(Operation::Bcast { root: 0 }, BYTES, 8)?;
            let id = chosen.first().context("there is a candidate")?.id();
            let time = |comm: &Comm| -> anyhow::Result<f64> {
                let mut data = vec![0u64; BYTES as usize / 8];
                comm.barrier()?;
                let begin = comm.now();
                comm.bcast(&mut data, 0)?;
                Ok(comm.allreduce_one((comm.now() - begin).as_secs_f64(), treepie::Max)?)
            };
            let flat = world.with_algorithm("bcast/binomial")?;
            Ok((latency, id, time(&tuned)?, time(&flat)?))
        };
        run(world).map_err(program_error)
    })?;
    let (latency, id, chosen, binomial) =
        simulated.results.into_iter().flatten().next().context("a rank has a result")?;
    // 10 ms between gateways, and 20 us to each.
    ensure!((latency / 10_040.0 - 1.0).abs() < 0.01, "the measured latency is {latency} us");
    ensure!(id.contains("hierarchical"), "{id} was chosen");
    ensure!(chosen < binomial, "{id} takes {chosen} s, and a binomial tree {binomial} s");
    let detail = format!(
        "simulated links of {:.2} ms were measured; bcast of 256 KiB by {id}, {:.1} times as fast as a binomial tree",
        latency / 1e3,
        binomial / chosen
    );
    Ok((network.ranks(), detail))
}
