//! One graph, searched from the same roots by each protocol: the same program on real ranks and on simulated ones.

use anyhow::{Context, anyhow};
use treepie::graph::generate::Balanced;
use treepie::graph::{self, Graph, Shape, bfs};
use treepie::simulate::{Options, simulate_with};
use treepie::{Comm, Max};
use treepie_model::machines::Machine;
use treepie_topology::Network;

use super::super::super::sim;

/// By what simulated ranks know that all have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Barrier {
    /// A microsecond, or what the machine's takes
    Hardware,
    /// A barrier by messages
    Messages,
}

impl Barrier {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Messages => "messages",
        }
    }
}

/// What is searched, and how.
pub(super) struct Study<'a> {
    pub(super) ranks: u32,
    /// Of each rank.
    pub(super) vertices: u64,
    pub(super) degree: u64,
    /// Edges of each rank to others.
    pub(super) remote: u64,
    pub(super) protocols: &'a [String],
    pub(super) roots: u32,
    pub(super) simulated: Option<(Machine, Barrier)>,
}

/// What came out.
#[derive(Debug)]
pub(super) struct Seen {
    /// Of each protocol, by root.
    pub(super) seconds: Vec<Vec<f64>>,
    /// Of the last search.
    pub(super) levels: usize,
}

/// Bytes of a simulated rank's stack.
const STACK: usize = 1 << 20;

impl Study<'_> {
    pub(super) fn run(&self) -> anyhow::Result<Seen> {
        let body = |world: Comm| self.search(&world);
        let seen = match self.simulated {
            None => treepie::launch(self.ranks as usize, body)?.into_iter().next(),
            Some((machine, barrier)) => {
                let network = Network::flat(self.ranks);
                let mut settings = sim::settings_with_handshake(Some(machine), &network)?;
                settings.barrier = match barrier {
                    Barrier::Hardware => machine.hardware_barrier().unwrap_or(1.0),
                    Barrier::Messages => 0.0,
                };
                let options = Options { stack: STACK, ..Options::default() };
                simulate_with(&network, &settings, &options, body)?.into_results().into_iter().next()
            }
        };
        seen.context("there is a first rank")?.map_err(|error| anyhow!(error))
    }

    /// What each rank does. The first one's result is that of all.
    fn search(&self, world: &Comm) -> graph::Result<Seen> {
        let probability = (self.degree as f64 / self.vertices as f64).min(1.0);
        let balanced = Balanced::new(self.ranks.into(), self.vertices, probability, self.remote)?;
        let graph: Graph = Graph::build(world, &balanced, &Shape::default())?;
        let worlds = self.protocols.iter().map(|id| world.using(id)).collect::<treepie::Result<Vec<Comm>>>()?;
        let mut searches: Vec<_> =
            worlds.iter().map(|world| bfs::exchange::Search::<u32, u64>::new(world, &graph)).collect();
        let mut seen = Seen { seconds: vec![Vec::new(); searches.len()], levels: 0 };
        // The first turn is to warm up, which a simulation needs not.
        let first = u64::from(self.simulated.is_some());
        for turn in first..=u64::from(self.roots) {
            // Another rank each time, and another vertex of it.
            let root = (turn * (self.vertices + 1) * 7) % graph.vertices();
            let mut before = None;
            for (search, seconds) in searches.iter_mut().zip(&mut seen.seconds) {
                world.barrier()?;
                let begun = world.now();
                let labels = search.run(root)?;
                let took = world.all_reduce(&[(world.now() - begun).as_secs_f64()], Max)?[0];
                let found = bfs::count(world, &graph, labels)?;
                if before.get_or_insert_with(|| found.clone()) != &found {
                    return Err(graph::Error::Wrong(format!("protocols find different levels from {root}")));
                }
                seen.levels = found.level_sizes.len();
                if turn > 0 {
                    seconds.push(took);
                }
            }
        }
        Ok(seen)
    }
}
