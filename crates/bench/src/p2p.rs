//! `treepie bench p2p`: point-to-point messages between two ranks, and around a ring.

mod rank;
mod task;

use std::process::ExitCode;

pub(crate) use rank::Transfers;
pub use task::{Pattern, Transfer, ping_pong, stream};

use crate::harness::comparison::{Comparison, SAME_CALLS};
use crate::harness::figure::{BATCHES, EMULATED_BATCHES};
use crate::harness::peer::Source;
use crate::{BenchOptions, ComparisonOptions, Engine, single_copy};

/// Point-to-point: latency, message rate and bandwidth between two ranks; ring and barrier of all ranks (only these
/// with more than two)
#[derive(clap::Args)]
pub(crate) struct PointToPoint {
    #[command(flatten)]
    settings: BenchOptions,
}

const PEER: Source = Source { name: "p2p_peer", text: include_str!("p2p/peer.c") };

impl PointToPoint {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let comparison = Comparison::new(self.settings.ranks, &self.settings.comparison, &["p2p-rank"], Some(&PEER))?;
        let BenchOptions { ranks, comparison: ComparisonOptions { fabric, .. } } = self.settings;
        let is_emulated = self.settings.comparison.links.parsed()?.is_some();
        let mut figures = match (ranks, is_emulated) {
            (2, true) => task::of_two_emulated_ranks(),
            (2, false) => task::of_two_ranks(),
            _ => Vec::new(),
        };
        figures.extend(task::of_all_ranks(ranks, is_emulated));
        if fabric == Engine::Mpi {
            figures.retain(|figure| !figure.without_single_copy);
        }
        comparison.print_sides("Point to point", SAME_CALLS, if is_emulated { EMULATED_BATCHES } else { BATCHES });
        self.print_rules()?;
        let result = comparison.measure(&figures)?;
        result.print_table();
        result.warn_if_too_few_pairs();
        Ok(ExitCode::SUCCESS)
    }

    fn print_rules(&self) -> anyhow::Result<()> {
        let BenchOptions { ranks, comparison: ComparisonOptions { fabric, .. } } = self.settings;
        if ranks == 2 {
            say!("  latency          half round trip of send and recv (ping-pong)");
            say!("  rate, bandwidth  windows of isend or irecv, wait_all, acknowledgement; 64 outstanding, for large");
            say!("                   messages up to 4 MiB in total but at least 2; buffers are reused");
            say!("  bandwidth_fresh  the same with buffers that cycle through 256 MiB on each side");
            if fabric != Engine::Mpi {
                let permitted = fabric == Engine::Threads || single_copy::is_permitted()?;
                let permitted = if permitted { "permitted" } else { "not permitted" };
                say!("  bandwidth_ring   Treepie without single copy, which is {permitted} here");
            }
        }
        say!("  ring, barrier    8 bytes around all ranks, time per hop; barrier of all ranks");
        say!("");
        Ok(())
    }
}
