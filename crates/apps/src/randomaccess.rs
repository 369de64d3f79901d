//! HPCC RandomAccess: random updates of a table that is distributed over all ranks.   [RandomAccess paper]
//!
//! Each rank generates its part of a pseudorandom stream. A datum of 64 bits is an index of the table and what to XOR to
//! the word there. A rank may look ahead: it may keep up to Q data before they are applied, 1,024 by the rules of HPCC,
//! and so exchange them in longer messages.
//!
//! ```
//! use treepie_apps::randomaccess::RandomAccess;
//!
//! # fn example(world: &treepie_comm::Comm) -> treepie_comm::Result<()> {
//! let result = RandomAccess::new(1 << 20).algorithm("hypercube_any".parse()?).run(world)?;
//! assert_eq!(result.errors, Some(0));
//! println!("{} GUP/s", result.gups());
//! # Ok(())
//! # }
//! ```
//!
//! | file | what |
//! |---|---|
//! | `stream`, `partition`, `table` | the stream; who owns which words; the words of a rank |
//! | `stages`, `synchronous`, `refinements` | all-to-all of lists: on grids, on a hypercube, by halving |
//! | `buffered_async` | HPCC's scheme |
//! | `messages` | active messages |
//! | `algorithm`, `selection` | names; the choice by the profile |
//! | `work`, `stopwatch` | what a rank does and counts |
//! | `verification` | the updates once more, by other means |

mod algorithm;
mod buffered_async;
mod messages;
mod partition;
mod refinements;
mod selection;
mod stages;
mod stopwatch;
mod stream;
mod synchronous;
mod table;
mod verification;
mod work;

use std::time::Duration;

use treepie_am::Routing;
use treepie_base::Error;
use treepie_comm::{Comm, Max, Result, Sum};
use treepie_fabric::ProtocolFamily;

pub use algorithm::{ALGORITHMS, Algorithm, Dimensions, Order};
use messages::Messages;
use partition::Partition;
pub use refinements::Refinements;
use stages::Stage;
use stopwatch::Part;
use stream::Stream;
pub use stream::{PERIOD, value_at};
pub use synchronous::Pace;
use synchronous::Synchronous;
use table::Table;
use work::Work;
pub use work::{Counters, SimulatedCosts};

/// The largest look-ahead by the rules of HPCC.
pub const MAX_LOOK_AHEAD: usize = 1024;

/// The protocols of this crate.
pub static PROTOCOLS: ProtocolFamily = ProtocolFamily { place: 3, protocols: &[(buffered_async::NAME, "")] };

/// The benchmark, as configured.
#[derive(Clone, Debug)]
pub struct RandomAccess {
    words: u64,
    updates: u64,
    first: u64,
    look_ahead: usize,
    algorithm: Algorithm,
    refinements: Option<Refinements>,
    pages: Pages,
    verifies: bool,
    simulated_costs: SimulatedCosts,
    on_progress: Option<fn(f64)>,
}

/// Pages of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Huge ones, if the system has them.
    #[default]
    Huge,
    /// Those of the usual size.
    Base,
}

impl RandomAccess {
    /// By the rules: four updates per word of the table, a look-ahead of 1,024, verified.
    pub fn new(words: u64) -> Self {
        Self {
            words,
            updates: words.saturating_mul(4),
            first: 0,
            look_ahead: MAX_LOOK_AHEAD,
            algorithm: Algorithm::Auto,
            refinements: None,
            pages: Pages::Huge,
            verifies: true,
            simulated_costs: SimulatedCosts::default(),
            on_progress: None,
        }
    }

    /// The number of updates of all ranks.
    pub fn updates(self, updates: u64) -> Self {
        Self { updates, ..self }
    }

    /// The position in the stream after which the updates begin; 0 by the rules. There, and at high powers of two, values
    /// have few bits, so for thousands of updates most go to a few ranks. Short runs that stand for long ones begin at
    /// other positions.
    pub fn first_position(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// The most data that a rank may keep.
    pub fn look_ahead(self, look_ahead: usize) -> Self {
        Self { look_ahead, ..self }
    }

    /// How updates are exchanged.
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// The refinements of a synchronous algorithm; none are those that are fastest on shared memory.
    pub fn refinements(self, refinements: impl Into<Option<Refinements>>) -> Self {
        Self { refinements: refinements.into(), ..self }
    }

    /// The pages of the table.
    pub fn pages(self, pages: Pages) -> Self {
        Self { pages, ..self }
    }

    /// Whether the result is verified, which takes longer than the updates.
    pub fn verifies(self, verifies: bool) -> Self {
        Self { verifies, ..self }
    }

    /// A function that is called on each rank now and then, with the fraction of its updates that it has generated.
    pub fn on_progress(self, on_progress: fn(f64)) -> Self {
        Self { on_progress: Some(on_progress), ..self }
    }

    /// What a datum costs in a simulation.
    pub fn simulated_costs(self, simulated_costs: SimulatedCosts) -> Self {
        Self { simulated_costs, ..self }
    }

    /// Runs it on all ranks of a communicator: one collective operation.
    pub fn run(&self, comm: &Comm) -> Result<RunResult> {
        let mut run = self.prepare(comm)?;
        let result = run.update()?;
        if self.verifies { run.verify(result) } else { Ok(result) }
    }

    /// Allocates the table and the buffers of all ranks.
    pub fn prepare(&self, comm: &Comm) -> Result<Run> {
        Run::new(self, comm)
    }

    /// Refuses settings that cannot run on this number of ranks.
    pub fn check(&self, ranks: u32) -> Result<()> {
        let refuse = |what: String| Err(Error::Algorithm(what));
        if self.words == 0 || self.words > MAX_WORDS {
            return refuse(format!("a table has 1 to 2^48 words, not {}", self.words));
        }
        if self.words < u64::from(ranks) {
            return refuse(format!("a table of {} words has none for some of {ranks} ranks", self.words));
        }
        if self.look_ahead == 0 {
            return refuse("a look-ahead of 0 allows no update".to_owned());
        }
        if self.look_ahead > LOOK_AHEAD_LIMIT {
            return refuse(format!("a look-ahead of {} is more than {LOOK_AHEAD_LIMIT}", self.look_ahead));
        }
        if self.first.checked_add(self.updates).is_none() {
            return refuse(format!("{} updates after position {} are too many", self.updates, self.first));
        }
        if let Some(refinements) = self.refinements {
            if !self.algorithm.has_refinements() {
                return refuse(format!("{} has no refinements", self.algorithm));
            }
            if refinements.discard && (refinements.overlap || refinements.adaptive) {
                return refuse(
                    "discard counts what exceeds whole look-aheads: without overlap and adaptive".to_owned(),
                );
            }
        }
        let needs = match self.algorithm {
            Algorithm::Alltoall(Dimensions::Number(0)) => "at least one dimension",
            Algorithm::Serial if ranks != 1 => "1 rank",
            Algorithm::Hypercube(_) if !ranks.is_power_of_two() => "a power of two of ranks",
            _ => return Ok(()),
        };
        refuse(format!("{} needs {needs}, not {ranks}", self.algorithm))
    }
}

/// The most words of a table.
const MAX_WORDS: u64 = 1 << 48;

/// The largest look-ahead, outside the rules.
const LOOK_AHEAD_LIMIT: usize = 1 << 26;

/// The table and the buffers of a rank, for repeated runs.
pub struct Run {
    comm: Comm,
    settings: RandomAccess,
    algorithm: Algorithm,
    partition: Partition,
    table: Table,
    exchange: Exchange,
    /// Updates of all ranks that have been discarded since the table had its initial values.
    lost: u64,
}

enum Exchange {
    Synchronous(Box<Synchronous>),
    BufferedAsync,
    Messages(Box<Messages>),
}

impl Run {
    fn new(settings: &RandomAccess, comm: &Comm) -> Result<Self> {
        let ranks = comm.size() as u32;
        settings.check(ranks)?;
        let algorithm = match &settings.algorithm {
            Algorithm::Auto => selection::choose(comm, settings.look_ahead, settings.refinements.is_some()),
            Algorithm::ActiveMessages(Routing::Grid(sides)) if sides.is_empty() => {
                Algorithm::ActiveMessages(Routing::Grid(stages::equal_sides(ranks, 3)))
            }
            algorithm => algorithm.clone(),
        };
        // Of its own, so that messages of the program do not mix with these.
        let comm = match algorithm {
            Algorithm::Hypercube(Order::Morton) => in_morton_order(comm)?,
            _ => comm.dup()?,
        };
        let partition = Partition::new(settings.words, ranks);
        let table = Table::new(partition, comm.rank() as u32, settings.pages);
        if comm.any(table.is_none())? {
            return Err(Error::OutOfMemory {
                what: "a part of the table",
                bytes: 8 * settings.words.div_ceil(ranks.into()),
            });
        }
        let table = table.expect("no rank lacks memory");
        let exchange = match &algorithm {
            Algorithm::ActiveMessages(routing) => {
                Exchange::Messages(Box::new(Messages::new(&comm, partition, settings.look_ahead, routing)?))
            }
            Algorithm::BufferedAsync => Exchange::BufferedAsync,
            synchronous => {
                let stages = stages_of(synchronous, partition, comm.rank() as u32);
                let refinements = settings.refinements.unwrap_or(selection::REFINEMENTS);
                let look_ahead = settings.look_ahead;
                Exchange::Synchronous(Box::new(Synchronous::new(&comm, partition, stages, look_ahead, refinements)))
            }
        };
        Ok(Self { comm, settings: settings.clone(), algorithm, partition, table, exchange, lost: 0 })
    }

    /// The algorithm that runs.
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// All updates of all ranks, timed.
    pub fn update(&mut self) -> Result<RunResult> {
        let (ranks, rank) = (u64::from(self.partition.ranks()), self.comm.rank() as u64);
        let begin = |rank: u64| (u128::from(self.settings.updates) * u128::from(rank) / u128::from(ranks)) as u64;
        let mut stream = Stream::new(self.settings.first + begin(rank), begin(rank + 1) - begin(rank));
        let max_count = self.settings.updates.div_ceil(ranks);
        self.comm.barrier()?;
        let start = self.comm.now();
        stream.on_progress(self.settings.on_progress);
        let mut work = Work::new(&self.comm, &mut self.table, self.settings.simulated_costs);
        let (mut counters, mut pace) = (None, None);
        match &mut self.exchange {
            Exchange::Synchronous(synchronous) => pace = Some(synchronous.run(&mut stream, max_count, &mut work)?),
            Exchange::BufferedAsync => {
                work = buffered_async::run(self.partition, self.settings.look_ahead, &mut stream, work)?;
            }
            Exchange::Messages(messages) => {
                counters = Some(messages.run(&mut stream, work.table, self.settings.simulated_costs)?);
            }
        }
        let took = self.comm.now() - start;
        let counters = counters.unwrap_or(work.counters);
        // Those of simulated ranks would be in the time of this machine.
        let is_simulated = self.comm.engine() == "sim";
        let seconds = |part| if is_simulated { 0.0 } else { work.stopwatch.seconds(part) };
        let parts = [Part::Generate, Part::Bin, Part::Update].map(seconds);
        let result = RunResult { pace, ..self.result(took, counters, parts)? };
        self.lost += result.total.discarded;
        Ok(result)
    }

    /// What all ranks learn.
    fn result(&self, took: Duration, counters: Counters, parts: [f64; 3]) -> Result<RunResult> {
        let seconds = self.comm.allreduce(&[took.as_secs_f64()], Max)?[0];
        let sums = self.comm.allreduce(&[counters.messages, counters.data, counters.discarded], Sum)?;
        let parts = self.comm.allreduce(&parts, Sum)?;
        Ok(RunResult {
            algorithm: self.algorithm.clone(),
            updates: self.settings.updates,
            ranks: self.partition.ranks(),
            seconds,
            own_time: took,
            own: counters,
            total: Counters { messages: sums[0], data: sums[1], discarded: sums[2] },
            parts: [parts[0], parts[1], parts[2]],
            pace: None,
            errors: None,
            lost: 0,
        })
    }

    /// Words of all ranks that differ from their initial values. After an even number of updates there are none: an update
    /// is its own inverse.
    pub fn changed_words(&self) -> Result<u64> {
        Ok(self.comm.allreduce(&[self.table.count_changed()], Sum)?[0])
    }

    /// Applies all updates again, by other means, and counts the words that then differ from their initial values. Returns the
    /// result of a run with that number; an odd number of runs has updated the table.
    pub fn verify(&mut self, result: RunResult) -> Result<RunResult> {
        let RandomAccess { first, updates, .. } = self.settings;
        verification::apply_again(&self.comm, self.partition, first..first + updates, &mut self.table)?;
        let errors = self.changed_words()?;
        self.table.reset();
        Ok(RunResult { errors: Some(errors), lost: std::mem::take(&mut self.lost), ..result })
    }
}

/// The stages of a synchronous algorithm on a rank.
fn stages_of(algorithm: &Algorithm, partition: Partition, rank: u32) -> Vec<Stage> {
    let ranks = partition.ranks();
    let sides: Vec<u32> = match algorithm {
        Algorithm::HypercubeAny => return stages::halving(partition, rank),
        Algorithm::Serial => Vec::new(),
        Algorithm::Alltoall(Dimensions::Number(dimensions)) => stages::equal_sides(ranks, *dimensions),
        // Of a power of two all are 2.
        _ => prime_factors(ranks),
    };
    stages::grid(&sides, partition, rank)
}

/// The prime factors of a number, the largest first.
fn prime_factors(mut number: u32) -> Vec<u32> {
    let mut factors = Vec::new();
    let mut divisor = 2;
    while number > 1 {
        if number.is_multiple_of(divisor) {
            factors.push(divisor);
            number /= divisor;
        } else {
            divisor += 1;
        }
    }
    factors.reverse();
    factors
}

/// The same ranks, numbered in the Morton order of their torus.
fn in_morton_order(comm: &Comm) -> Result<Comm> {
    let network = comm.network()?;
    let Some(torus) = network.as_torus() else {
        let what = format!("hypercube:order=morton needs the network of a torus, not {network}");
        return Err(Error::Algorithm(what));
    };
    let node = network.node_of(comm.rank() as u32);
    let place = torus.morton_order().into_iter().position(|other| other == node).expect("it has all nodes");
    Ok(comm.split(0, place as i32)?.expect("all ranks have a color"))
}

/// The result of a run, the same on all ranks but for `own` and `own_time`.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The algorithm that ran.
    pub algorithm: Algorithm,
    /// Updates of all ranks.
    pub updates: u64,
    /// The number of ranks.
    pub ranks: u32,
    /// The time of the slowest rank.
    pub seconds: f64,
    /// The time of this rank.
    pub own_time: Duration,
    /// What this rank has sent.
    pub own: Counters,
    /// What all ranks have sent.
    pub total: Counters,
    /// Seconds of all ranks in which they generated, divided and applied data, estimated from samples.
    parts: [f64; 3],
    /// The rounds of a synchronous algorithm: with `adaptive`, those that were chosen.
    pub pace: Option<Pace>,
    /// Wrong words, if the result was verified.
    pub errors: Option<u64>,
    /// Updates that were discarded before the verification, in all runs since the one before. Each makes at most one word wrong.
    pub lost: u64,
}

impl RunResult {
    /// Giga-updates per second.
    pub fn gups(&self) -> f64 {
        self.updates as f64 / self.seconds / 1e9
    }

    /// Nanoseconds of a rank per update: to generate, divide, exchange and apply it. None of active messages, whose parts
    /// interleave, of simulated ranks, and of runs too short for samples.
    pub fn parts(&self) -> Option<[f64; 4]> {
        let [generate, bin, update] = self.parts.map(|seconds| 1e9 * seconds / self.updates.max(1) as f64);
        let all = 1e9 * self.seconds * f64::from(self.ranks) / self.updates.max(1) as f64;
        (generate > 0.0).then(|| [generate, bin, (all - generate - bin - update).max(0.0), update])
    }

    /// Whether the rules allow the result: they allow one lost update in a hundred, and one wrong word in a hundred unless
    /// these are those of discarded updates.
    pub fn is_valid(&self, words: u64) -> bool {
        self.loses_few() && self.has_few_errors(words)
    }

    /// Whether at most one update in a hundred was discarded.
    pub fn loses_few(&self) -> bool {
        self.total.discarded <= self.updates / 100
    }

    /// Whether at most one word in a hundred of a table is wrong, but for those of discarded updates.
    fn has_few_errors(&self, words: u64) -> bool {
        self.errors.is_none_or(|errors| errors <= words / 100 + self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded() {
        let all = RandomAccess::new(1 << 12);
        for (settings, ranks, is_right) in [
            (RandomAccess::new(MAX_WORDS), 1, true),
            (RandomAccess::new(MAX_WORDS + 1), 1, false),
            (RandomAccess::new(7), 7, true),
            (RandomAccess::new(7), 8, false),
            (all.clone().look_ahead(LOOK_AHEAD_LIMIT), 1, true),
            (all.clone().look_ahead(LOOK_AHEAD_LIMIT + 1), 1, false),
            (all.clone().updates(u64::MAX), 1, true),
            (all.first_position(1).updates(u64::MAX), 1, false),
        ] {
            assert_eq!(settings.check(ranks).is_ok(), is_right, "{settings:?} on {ranks}");
        }
    }

    #[test]
    fn wrong_words_are_allowed_for_discarded_updates_and_one_in_a_hundred() {
        let result = |discarded: u64, lost: u64, errors: u64| RunResult {
            algorithm: Algorithm::Serial,
            updates: 10_000,
            ranks: 1,
            seconds: 1.0,
            own_time: Duration::from_secs(1),
            own: Counters::default(),
            total: Counters { discarded, ..Counters::default() },
            parts: [0.0; 3],
            pace: None,
            errors: Some(errors),
            lost,
        };
        for (discarded, lost, errors, is_valid) in [
            (0, 0, 25, true),
            (0, 0, 26, false),
            (100, 100, 125, true),
            (100, 300, 325, true),
            (1, 1, 27, false),
            (101, 101, 0, false),
        ] {
            let result = result(discarded, lost, errors);
            assert_eq!(result.is_valid(2500), is_valid, "{discarded} discarded, {errors} wrong");
        }
    }
}
