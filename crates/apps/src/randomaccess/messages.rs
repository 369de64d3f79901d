//! An active message for each update, with its word prefetched. Grid routing in three dimensions is the asynchronous scheme
//! of the paper's BG/L entry: data moves along one dimension after the other.
//!
//! A rank keeps as many data as it may look ahead: what it generates at once, and the buffers for all its neighbors. A buffer of
//! one datum is sent at once. As in HPCC, messages that have been sent do not count. A rank generates no more while as many
//! data again wait for a slow neighbor, for a while; what it forwards for others does not wait.   Any P.

use treepie_am::{ActiveMessages, Coalescing, Config, Port, Routing};
use treepie_comm::{Comm, Rank, Result};

use super::partition::Partition;
use super::stream::Stream;
use super::table::Table;
use super::work::{Counters, SimulatedCosts};

/// The runtime of a rank.
pub(super) struct Messages {
    comm: Comm,
    update: Port<u64>,
    partition: Partition,
    /// On the way of a datum, at most.
    hops: u64,
    /// Data that is generated at once.
    at_once: usize,
    runtime: ActiveMessages<Table>,
}

/// Values that are generated at once, at most: a few rows of the lanes of a stream.
const MAX_AT_ONCE: usize = 64;

/// Neighbors with such a routing, about.
fn neighbors(routing: &Routing, ranks: u32) -> u32 {
    match routing {
        Routing::Direct | Routing::Clusters(_) => ranks,
        Routing::Rook => 2 * (ranks as f64).sqrt().ceil() as u32,
        Routing::Grid(sides) => sides.iter().map(|side| side - 1).sum(),
        Routing::Hypercube => ranks.ilog2() + 1,
    }
}

impl Messages {
    pub(super) fn new(comm: &Comm, partition: Partition, look_ahead: usize, routing: &Routing) -> Result<Self> {
        let mut build = ActiveMessages::<Table>::builder(comm);
        let update = build.port("update");
        build.on_prefetch(update, |table, datum| table.word(*datum), |table, _, datum| table.update(datum));
        let at_once = (look_ahead / 16).clamp(1, MAX_AT_ONCE);
        let kept = (look_ahead - at_once) / neighbors(routing, partition.ranks()).max(1) as usize;
        let config = Config::default().coalescing(Coalescing::Messages(kept.max(1))).routing(routing.clone());
        build.configure(update, config);
        build.memory_limit(size_of::<u64>() * look_ahead);
        let hops = match routing {
            Routing::Direct => 1,
            Routing::Rook => 2,
            Routing::Clusters(_) => 3,
            Routing::Grid(sides) => sides.iter().filter(|side| **side > 1).count() as u64,
            Routing::Hypercube => u64::from(partition.ranks().next_power_of_two().ilog2()),
        };
        Ok(Self { comm: comm.clone(), update, partition, hops, at_once, runtime: build.start()? })
    }

    /// All updates of a stream, in one epoch. A simulation charges what a datum costs on all its way where it is generated.
    pub(super) fn run(&mut self, stream: &mut Stream, table: &mut Table, costs: SimulatedCosts) -> Result<Counters> {
        let before = self.counters();
        let (update, partition, comm) = (self.update, self.partition, self.comm.clone());
        let units = costs.generate + costs.update + self.hops * costs.bin;
        let values = stream.values(self.at_once, |count| comm.account_work(units * count as u64));
        self.runtime.epoch_for(table, values, |cx, _, datum| {
            cx.send(update, partition.owner(partition.index(datum)) as Rank, datum);
        })?;
        let after = self.counters();
        Ok(Counters { messages: after.messages - before.messages, data: after.data - before.data, discarded: 0 })
    }

    fn counters(&self) -> Counters {
        let statistics = &self.runtime.statistics()[0];
        Counters { messages: statistics.buffers, data: statistics.sent + statistics.forwarded, discarded: 0 }
    }
}
