//! One graph, searched from the same roots with each protocol: the same program on real and on simulated ranks.

use treepie::graph::bfs::{BfsMethod, BfsOptions, BfsResult, BfsSearch};
use treepie::graph::generate::Balanced;
use treepie::graph::{self, AmConfig, Graph};
use treepie::{Comm, Max};
use treepie_model::machines::PaperMachine;
use treepie_topology::Network;

use crate::harness::launch::{on_simulated_ranks, on_threads};
use crate::parameters;

/// The barrier of simulated ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Barrier {
    /// Hardware barrier: the machine's time, or 1 us
    Hardware,
    /// Dissemination barrier with messages
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

/// The parameters of a study.
pub(super) struct Study<'a> {
    pub(super) ranks: u32,
    /// Per rank.
    pub(super) vertices: u64,
    pub(super) degree: u64,
    /// Edges per rank to other ranks.
    pub(super) remote: u64,
    pub(super) protocols: &'a [String],
    pub(super) roots: u32,
    pub(super) simulated: Option<(PaperMachine, Barrier)>,
}

/// The result of a study.
#[derive(Debug)]
pub(super) struct StudyResult {
    /// By protocol and root.
    pub(super) seconds: Vec<Vec<f64>>,
    /// Levels of the last search.
    pub(super) levels: usize,
}

impl Study<'_> {
    pub(super) fn run(&self) -> anyhow::Result<StudyResult> {
        let body = |world: &Comm| Ok(self.search(world).map_err(treepie::Error::from)?);
        let Some((machine, barrier)) = self.simulated else { return Ok(on_threads(self.ranks, body)?.swap_remove(0)) };
        let network = Network::flat(self.ranks);
        let mut settings = parameters::settings_with_handshake(Some(machine), &network)?;
        settings.barrier_time = match barrier {
            Barrier::Hardware => machine.hardware_barrier().unwrap_or(1.0),
            Barrier::Messages => 0.0,
        };
        on_simulated_ranks(&network, &settings, body)
    }

    /// The body of each rank. Rank 0 has the result.
    fn search(&self, world: &Comm) -> graph::Result<StudyResult> {
        let probability = (self.degree as f64 / self.vertices as f64).min(1.0);
        let balanced = Balanced::new(self.ranks.into(), self.vertices, probability, self.remote)?;
        let graph = Graph::build(world, &balanced)?;
        let search = |id: &String| {
            let (method, protocol) = (Some(BfsMethod::SparseExchange), Some(id.clone()));
            BfsSearch::<(), u64>::new(&graph, &BfsOptions { method, protocol, ..BfsOptions::default() })
        };
        let mut searches = self.protocols.iter().map(search).collect::<graph::Result<Vec<_>>>()?;
        let mut result = StudyResult { seconds: vec![Vec::new(); searches.len()], levels: 0 };
        // The first turn is a warm-up, which a simulation does not need.
        let first = u64::from(self.simulated.is_some());
        for turn in first..=u64::from(self.roots) {
            // A different rank and vertex each time.
            let root = (turn * (self.vertices + 1) * 7) % graph.num_vertices();
            let mut first_summary = None;
            for (search, seconds) in searches.iter_mut().zip(&mut result.seconds) {
                world.barrier()?;
                let start = world.now();
                let labels = search.run(root)?;
                let time = world.allreduce(&[(world.now() - start).as_secs_f64()], Max)?[0];
                let summary = BfsResult::new(&graph, root, labels, &AmConfig::default())?.summary()?;
                if first_summary.get_or_insert_with(|| summary.clone()) != &summary {
                    return Err(graph::Error::Verification(format!("protocols find different levels from {root}")));
                }
                result.levels = summary.level_sizes.len();
                if turn > 0 {
                    seconds.push(time);
                }
            }
        }
        Ok(result)
    }
}
