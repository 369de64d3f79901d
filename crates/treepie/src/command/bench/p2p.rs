//! `treepie bench p2p`: messages between two ranks, and around all.

pub(crate) mod case;
mod rank;

use std::process::ExitCode;

pub(crate) use rank::P2pRank;

use super::super::single_copy;
use super::comparison::{Comparison, SAME_CALLS};
use super::figure::BATCHES;
use super::peer::Source;
use super::{Engine, Settings, Sides};

/// Messages between two ranks: half round trip, message rate, bandwidth; a ring and a barrier of all ranks, and only
/// those with more than two
#[derive(clap::Args)]
pub(crate) struct PointToPoint {
    #[command(flatten)]
    settings: Settings,
}

const PEER: Source = Source { name: "p2p_peer", text: include_str!("p2p_peer.c") };

impl PointToPoint {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let comparison = Comparison::new(self.settings.ranks, &self.settings.sides, &["p2p-rank"], &PEER)?;
        let Settings { ranks, sides: Sides { fabric, .. } } = self.settings;
        let mut figures = if ranks == 2 { case::of_two_ranks() } else { Vec::new() };
        figures.extend(case::of_all_ranks(ranks));
        if fabric == Engine::Mpi {
            figures.retain(|figure| !figure.through_rings);
        }
        comparison.print_sides("Point to point", SAME_CALLS, BATCHES);
        self.print_rules()?;
        comparison.run(&figures)?;
        Ok(ExitCode::SUCCESS)
    }

    fn print_rules(&self) -> anyhow::Result<()> {
        let Settings { ranks, sides: Sides { fabric, .. } } = self.settings;
        if ranks == 2 {
            say!("  latency          half a round trip of send and recv");
            say!(
                "  rate, bandwidth  windows of isend or irecv and wait for all, then one acknowledgement; 64 outstanding,"
            );
            say!("                   of large messages as many as make 4 MiB, at least 2; buffers are reused");
            say!("  bandwidth_fresh  the same with buffers that cycle through 256 MiB on each side");
            if fabric != Engine::Mpi {
                let permitted = fabric == Engine::Threads || single_copy::is_permitted()?;
                let permitted = if permitted { "permitted" } else { "not permitted" };
                say!("  bandwidth_ring   Treepie without single copy of large messages, which is {permitted} here");
            }
        }
        say!("  ring, barrier    8 bytes around all ranks, per hop; all ranks wait for all");
        say!("");
        Ok(())
    }
}
