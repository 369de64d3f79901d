//! Tables 1 to 4 of the RandomAccess paper: what it printed, what its model says, and what simulated ranks take. The ranks
//! run the algorithms with data, on a machine with the network of Red Storm and the paper's times T1 and TC.

use anyhow::ensure;
use treepie::am::Routing;
use treepie::randomaccess::{Algorithm, Dimensions, Order, Pages, RandomAccess, Refinements, SimulatedCosts};
use treepie_model::machines::PaperMachine;
use treepie_model::randomaccess::RandomAccess as Model;
use treepie_sim::Settings;
use treepie_sim::costs::LogGP;
use treepie_topology::Network;

use super::task::Program;
use crate::harness::launch::on_simulated_ranks;
use crate::harness::progress::Progress;
use crate::harness::table::format_number;
use crate::record::{Better, Record, Records};

/// A simulated machine.
pub(super) struct Machine {
    name: &'static str,
    model: Model,
    network: LogGP,
}

/// A message of Red Storm takes 7 us and 1.1 GB/s. The paper does not say how much of that a processor is busy: here 2.5 us
/// at either end.
const RED_STORM: LogGP = LogGP { latency: 2.0, overhead: 2.5, gap: 2.5, per_byte: 1.0 / 1100.0 };

/// Units of work in a microsecond.
const UNITS: f64 = 1e5;

impl Machine {
    /// Cray XT3.
    pub(super) fn red_storm() -> Self {
        let model = PaperMachine::RedStorm.random_access().expect("it has the paper's");
        Self { name: "red-storm", model, network: RED_STORM }
    }

    /// The projection of the paper: computation takes 4 times as long, and an exchange 5 times.
    pub(super) fn blue_gene_l() -> Self {
        let Self {
            model: Model { lookahead, compute, exchange },
            network: LogGP { latency, overhead, gap, per_byte },
            ..
        } = Self::red_storm();
        let model = Model { lookahead, compute: 4.0 * compute, exchange: 5.0 * exchange };
        let network =
            LogGP { latency: 5.0 * latency, overhead: 5.0 * overhead, gap: 5.0 * gap, per_byte: 5.0 * per_byte };
        Self { name: "blue-gene-l", model, network }
    }

    /// Microseconds of a message of no length.
    fn message(&self) -> f64 {
        self.network.latency + 2.0 * self.network.overhead
    }

    /// The model with another look-ahead: T1 and the division of lists are proportional to it, and so are bytes.
    fn with_look_ahead(&self, look_ahead: u32) -> Model {
        let scale = f64::from(look_ahead) / f64::from(self.model.lookahead);
        let exchange = self.message() + (self.model.exchange - self.message()) * scale;
        Model { lookahead: look_ahead, compute: self.model.compute * scale, exchange }
    }

    /// What a datum costs: T1 is to generate and apply, TC without the message to divide.
    fn costs(&self) -> SimulatedCosts {
        let Model { lookahead, compute, exchange } = self.model;
        let message = self.message() + self.model.message_bytes() as f64 * self.network.per_byte;
        let units = |micros: f64| (UNITS * micros / f64::from(lookahead)).round() as u64;
        // The paper does not divide T1; generating is a few instructions.
        let generate = units(compute / 10.0);
        SimulatedCosts { generate, bin: units(exchange - message), update: units(compute) - generate }
    }

    fn benchmark(
        &self,
        algorithm: &Algorithm,
        ranks: u32,
        look_ahead: usize,
        refinements: impl Into<Option<Refinements>>,
    ) -> RandomAccess {
        RandomAccess::new(64 * u64::from(ranks))
            .first_position(FIRST)
            .look_ahead(look_ahead)
            .algorithm(algorithm.clone())
            .refinements(refinements)
            .simulated_costs(self.costs())
            .verifies(false)
    }

    /// Simulates look-aheads of all ranks. The time is that of `rounds` of them after as many others, so that the start and
    /// the end of a run do not count.
    fn simulate(
        &self,
        algorithm: &Algorithm,
        ranks: u32,
        look_ahead: usize,
        refinements: impl Into<Option<Refinements>>,
        rounds: u64,
    ) -> anyhow::Result<Simulated> {
        let settings = Settings { work_unit_time: 1.0 / UNITS, ..self.network.into() };
        let benchmark = self.benchmark(algorithm, ranks, look_ahead, refinements);
        let of = |rounds: u64| benchmark.clone().updates(u64::from(ranks) * look_ahead as u64 * rounds);
        on_simulated_ranks(&Network::flat(ranks), &settings, |world| {
            let [first, both] = [of(rounds).run(world)?, of(2 * rounds).run(world)?];
            let seconds = both.seconds - first.seconds;
            let gups = first.updates as f64 / seconds / 1e9;
            let length = both.total.data as f64 / both.total.messages.max(1) as f64;
            Ok(Simulated { gups, micros: 1e6 * seconds / rounds as f64, length })
        })
    }

    /// An all-to-all on a grid: in each stage a division, and a message to each other rank of a row, of which the processor is
    /// busy at both ends.
    fn all_to_all_gups(&self, ranks: u32, dimensions: u32) -> f64 {
        let Model { lookahead, compute, exchange } = self.model;
        let divide = exchange - self.message() - self.model.message_bytes() as f64 * self.network.per_byte;
        let sides = treepie::dims_create(ranks as usize, dimensions as usize);
        let stage = |side: &usize| divide + (side - 1) as f64 * 2.0 * self.network.overhead + self.network.latency;
        let stages: f64 = sides.iter().filter(|side| **side > 1).map(stage).sum();
        f64::from(lookahead) * f64::from(ranks) / (compute + stages) / 1e3
    }

    /// Writes a rate.
    fn record(&self, records: &mut Records, case: String, ranks: u32, gups: f64) -> anyhow::Result<()> {
        let record = Record::simulated(format!("randomaccess/{case}"), ranks, gups, "GUP/s", self.name.to_owned());
        records.write(&Record { better: Better::High, ..record })
    }
}

/// What simulated ranks take.
struct Simulated {
    gups: f64,
    /// Microseconds of a look-ahead.
    micros: f64,
    /// Data of a message.
    length: f64,
}

/// What tables 2 to 4 are about.
const HYPERCUBE: Algorithm = Algorithm::Hypercube(Order::Ranks);

/// Where in the stream they begin: not where most updates go to a few ranks.
const FIRST: u64 = 0x9e37_79b9_7f4a;

/// Look-aheads that are timed; fewer where there are many messages, which take long.
fn rounds(algorithm: &Algorithm, ranks: u32) -> u64 {
    const MESSAGES: f64 = 1e6;
    (MESSAGES / f64::from(ranks) / peers(algorithm, ranks)).clamp(1.0, 8.0) as u64
}

/// The ranks that a rank sends to.
fn peers(algorithm: &Algorithm, ranks: u32) -> f64 {
    let on_grid = |dimensions: u32| {
        let sides = treepie::dims_create(ranks as usize, dimensions as usize);
        sides.iter().map(|side| side - 1).sum::<usize>() as f64
    };
    let peers = match algorithm {
        Algorithm::BufferedAsync | Algorithm::ActiveMessages(Routing::Direct) => on_grid(1),
        Algorithm::Alltoall(Dimensions::Number(dimensions)) => on_grid(*dimensions),
        Algorithm::ActiveMessages(Routing::Rook) => on_grid(2),
        Algorithm::ActiveMessages(_) => on_grid(3),
        _ => f64::from(ranks).log2(),
    };
    peers.max(1.0)
}

/// Prints a table of the paper and writes its simulated figures.
pub(super) fn print(table: u32, records: &mut Records) -> anyhow::Result<()> {
    let machine = Machine::red_storm();
    match table {
        1 => table_1(&machine, records),
        2 => table_2(&machine, records),
        3 => table_3(&machine, records),
        _ => table_4(&machine, records),
    }
}

/// The scheme that HPCC provides.
fn table_1(machine: &Machine, records: &mut Records) -> anyhow::Result<()> {
    say!("Table 1: the algorithm that HPCC provides, GUP/s on Red Storm. There is no model of it.");
    say!("{:>8} {:>9} {:>10} {:>13}", "ranks", "paper", "simulated", "data/message");
    let rows = [(1, 0.0147), (16, 0.0105), (64, 0.0634), (1024, 0.195), (5000, 0.536), (8192, 0.797), (10_350, 1.018)];
    let progress = Progress::new(rows.len());
    for (row, (ranks, paper)) in rows.into_iter().enumerate() {
        if let Err(error) = ensure_memory(&Algorithm::BufferedAsync, ranks) {
            say!("{ranks:>8} {paper:>9}  {error}");
            continue;
        }
        progress.show(row);
        let result =
            machine.simulate(&Algorithm::BufferedAsync, ranks, 1024, None, rounds(&Algorithm::BufferedAsync, ranks));
        progress.clear();
        let Simulated { gups, length, .. } = result?;
        say!("{ranks:>8} {paper:>9} {:>10} {:>13}", format_number(gups), format_number(length));
        machine.record(records, "paper/table1".to_owned(), ranks, gups)?;
    }
    Ok(())
}

/// The hypercube.
fn table_2(machine: &Machine, records: &mut Records) -> anyhow::Result<()> {
    let Model { compute, exchange, .. } = machine.model;
    let message = machine.message();
    say!(
        "Table 2: hypercube, GUP/s on Red Storm. Model: T1 + TC lg P, {compute} us and {exchange} us; for other numbers of"
    );
    say!("ranks than powers of two an exchange for each halving, and {message} us more for each odd partition.");
    say!("{:>8} {:>9} {:>9} {:>10}  algorithm", "ranks", "paper", "model", "simulated");
    let rows = [
        (1, 0.0180),
        (4, 0.0377),
        (16, 0.0930),
        (64, 0.273),
        (200, 0.567),
        (256, 0.858),
        (300, 0.739),
        (1024, 2.81),
        (4096, 9.25),
        (8192, 17.24),
        (10_240, 19.72),
    ];
    let progress = Progress::new(rows.len() + 1);
    for (row, (ranks, paper)) in rows.into_iter().enumerate() {
        let id = if u32::is_power_of_two(ranks) { "hypercube" } else { "hypercube_any" };
        progress.show(row);
        let algorithm: Algorithm = id.parse()?;
        let rounds = rounds(&algorithm, ranks);
        let result = machine.simulate(&algorithm, ranks, 1024, Refinements::default(), rounds);
        progress.clear();
        let gups = result?.gups;
        let [model, simulated] = [machine.model.halving_gups(ranks, message), gups].map(format_number);
        say!("{ranks:>8} {paper:>9} {model:>9} {simulated:>10}  {id}");
        machine.record(records, format!("paper/table2/{id}"), ranks, gups)?;
    }
    let (ranks, refined) = (8192, "mod3".parse::<Refinements>()?);
    progress.show(rows.len());
    let result = machine.simulate(&HYPERCUBE, ranks, 1024, refined, rounds(&HYPERCUBE, ranks));
    progress.clear();
    let gups = result?.gups;
    say!(
        "{ranks:>8} {:>9} {:>9} {:>10}  hypercube/{refined}; the paper's has all refinements",
        19.98,
        "",
        format_number(gups)
    );
    machine.record(records, format!("paper/table2/hypercube/{refined}"), ranks, gups)
}

/// Seconds of the paper's table 3.
const TABLE_3: [(u32, [f64; 8]); 6] = [
    (1, [7.033, 7.039, 7.032, 7.034, 7.032, 7.029, 7.035, f64::NAN]),
    (2, [10.152, 10.113, 11.862, 10.063, 9.985, 9.947, 10.014, f64::NAN]),
    (4, [13.654, 13.283, 13.164, 13.089, 12.901, 12.734, 12.885, f64::NAN]),
    (8, [17.505, 16.431, 16.297, 16.093, 15.867, 15.644, 15.863, f64::NAN]),
    (16, [21.338, 19.733, 19.821, 19.241, 18.818, 18.923, 18.891, f64::NAN]),
    (32, [25.186, 23.122, 22.915, 22.260, 22.026, 21.628, 20.105, 19.656]),
];

/// The refinements.
fn table_3(machine: &Machine, records: &mut Records) -> anyhow::Result<()> {
    // The paper does not say how many updates there were; on one rank they took T1 each 1,024.
    let look_aheads = TABLE_3[0].1[0] * 1e6 / machine.model.compute;
    say!(
        "Table 3: refinements of the hypercube, seconds on Red Storm. Each column has those of the columns before it."
    );
    say!(
        "mod1 prepost, mod2 deferred, mod3 late-wait, mod6 and mod7 double-buffer; mod4 (another MPI library) and mod5 (no"
    );
    say!("copy of short messages at the sender) are changes of the MPI library, and not simulated.");
    say!(
        "{:>8} {:<10} {:>7} {}",
        "ranks",
        "",
        "model",
        Refinements::TABLE_3.map(|(name, _)| format!("{name:>9}")).concat()
    );
    for (ranks, paper) in TABLE_3 {
        let printed = paper.map(|time| if time.is_nan() { format!("{:>9}", "") } else { format!("{time:>9.3}") });
        let model = format_number(machine.model.time(ranks) * look_aheads / 1e6);
        say!("{ranks:>8} {:<10} {model:>7} {}", "paper", printed.concat());
        let mut cells = String::new();
        for (name, refinements) in Refinements::TABLE_3 {
            if matches!(name, "mod4" | "mod5" | "mod7") {
                cells += &format!("{:>9}", "");
                continue;
            }
            let result = machine.simulate(&HYPERCUBE, ranks, 1024, refinements, 4 * rounds(&HYPERCUBE, ranks))?;
            cells += &format!("{:>9.3}", result.micros * look_aheads / 1e6);
            machine.record(records, format!("paper/table3/{name}"), ranks, result.gups)?;
        }
        say!("{:>8} {:<10} {:>7} {cells}", "", "simulated", "");
    }
    Ok(())
}

/// The look-ahead.
fn table_4(machine: &Machine, records: &mut Records) -> anyhow::Result<()> {
    say!(
        "Table 4: look-ahead of the hypercube on 32 ranks, GUP/s on Red Storm. Model: T1 and what of TC is not the start-up"
    );
    say!("of a message, {} us, are proportional to the look-ahead.", machine.message());
    say!("{:>8} {:>9} {:>9} {:>10}", "Q", "paper", "model", "simulated");
    for (look_ahead, paper) in [
        (1, 0.000_627),
        (4, 0.001_93),
        (16, 0.007_04),
        (64, 0.0262),
        (256, 0.0803),
        (1024, 0.158),
        (2048, 0.189),
        (4096, 0.210),
        (8192, 0.223),
        (32_768, 0.212),
    ] {
        let gups = machine.simulate(&HYPERCUBE, 32, look_ahead, Refinements::default(), rounds(&HYPERCUBE, 32))?.gups;
        let [model, simulated] = [machine.with_look_ahead(look_ahead as u32).gups(32), gups].map(format_number);
        say!("{look_ahead:>8} {paper:>9} {model:>9} {simulated:>10}");
        machine.record(records, format!("paper/table4/Q{look_ahead}"), 32, gups)?;
    }
    Ok(())
}

/// Memory of the simulated ranks of an algorithm: a stack and lists of each, and receives or buffers for its peers.
fn memory(algorithm: &Algorithm, ranks: u32) -> f64 {
    const RANK: f64 = 155e3;
    let peer = match algorithm {
        Algorithm::BufferedAsync => 170.0,
        Algorithm::ActiveMessages(_) => 400.0,
        _ => 1100.0,
    };
    f64::from(ranks) * (RANK + peers(algorithm, ranks) * peer)
}

fn ensure_memory(algorithm: &Algorithm, ranks: u32) -> anyhow::Result<()> {
    crate::machine::ensure_memory(&format!("{ranks} simulated ranks of {algorithm}"), memory(algorithm, ranks), 1.0)
}

/// Whether an all-to-all on this number of ranks is a formula: simulated ones would take hours, or more memory than most machines
/// have.
fn is_formula(algorithm: &Algorithm, ranks: u32) -> Option<u32> {
    match *algorithm {
        Algorithm::Alltoall(Dimensions::Number(1)) if ranks > 4096 => Some(1),
        Algorithm::Alltoall(Dimensions::Number(2)) if ranks > 32_768 => Some(2),
        _ => None,
    }
}

/// The algorithms whose scaling is compared.
pub(super) fn scaling_programs() -> anyhow::Result<Vec<Program>> {
    let ids = ["hypercube", "alltoall_1d", "alltoall_2d", "alltoall_3d", "am:routing=rook", "am:routing=grid"];
    Ok(ids.map(str::parse).into_iter().collect::<Result<_, _>>()?)
}

/// Weak scaling of several algorithms, and where one overtakes another.
pub(super) fn print_scaling(
    machine: &Machine,
    all_ranks: &[u32],
    programs: &[Program],
    records: &mut Records,
) -> anyhow::Result<()> {
    for (program, ranks) in programs.iter().flat_map(|program| all_ranks.iter().map(move |ranks| (program, *ranks))) {
        let Program { algorithm, refinements, pages } = program;
        ensure!(*pages == Pages::Huge, "{program}: simulated ranks have no pages");
        machine.benchmark(algorithm, ranks, 1024, *refinements).check(ranks)?;
        if is_formula(algorithm, ranks).is_none() {
            ensure_memory(algorithm, ranks)?;
        }
    }
    say!("Weak scaling, look-ahead 1024, GUP/s; {}, simulated; f: by the formula of its messages", machine.name);
    let headings = programs.iter().map(|program| format!("{:>12}", program.to_string()));
    let widths: Vec<usize> = headings.clone().map(|heading| heading.len()).collect();
    say!("{:>8} {:>10} {}", "ranks", "T1+TC lgP", headings.collect::<Vec<_>>().join(" "));
    let mut best: Option<&Program> = None;
    let progress = Progress::new(all_ranks.len() * programs.len());
    for (row_number, &ranks) in all_ranks.iter().enumerate() {
        let mut row = Vec::new();
        for (column, program) in programs.iter().enumerate() {
            let Program { algorithm, refinements, .. } = program;
            if let Some(dimensions) = is_formula(algorithm, ranks) {
                row.push((program, machine.all_to_all_gups(ranks, dimensions), "f"));
                continue;
            }
            progress.show(row_number * programs.len() + column);
            let refinements = algorithm.has_refinements().then(|| refinements.unwrap_or_default());
            let gups = machine.simulate(algorithm, ranks, 1024, refinements, rounds(algorithm, ranks))?.gups;
            row.push((program, gups, ""));
            machine.record(records, format!("scaling/{program}"), ranks, gups)?;
        }
        progress.clear();
        let cell = |((_, gups, mark), width): (&(_, f64, &str), &usize)| {
            format!(" {:>width$}", format_number(*gups) + mark, width = *width)
        };
        let cells: String = row.iter().zip(&widths).map(cell).collect();
        let fastest = row.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are algorithms").0;
        let is_crossing = best.is_some_and(|best| best != fastest);
        let crossing = if is_crossing { format!("  from here {fastest}") } else { String::new() };
        best = Some(fastest);
        say!("{ranks:>8} {:>10}{cells}{crossing}", format_number(machine.model.gups(ranks)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gups(algorithm: &str, ranks: u32, look_ahead: usize, refinements: &str) -> f64 {
        let (algorithm, refinements) = (algorithm.parse::<Algorithm>().unwrap(), refinements.parse().unwrap());
        let refinements: Option<Refinements> = algorithm.has_refinements().then_some(refinements);
        let rounds = rounds(&algorithm, ranks);
        Machine::red_storm().simulate(&algorithm, ranks, look_ahead, refinements, rounds).unwrap().gups
    }

    /// Table 2. For other numbers of ranks than powers of two, the model has the longest path only.
    #[test]
    fn simulated_ranks_follow_the_model() {
        let machine = Machine::red_storm();
        for (ranks, id, tolerance) in [
            (1, "hypercube", 0.01),
            (4, "hypercube", 0.07),
            (16, "hypercube", 0.07),
            (64, "hypercube", 0.07),
            (25, "hypercube_any", 0.15),
        ] {
            let (simulated, model) =
                (gups(id, ranks, 1024, "none"), machine.model.halving_gups(ranks, machine.message()));
            assert!((simulated / model - 1.0).abs() < tolerance, "{ranks} ranks: {simulated} instead of {model}");
        }
    }

    /// B16: the rate rises with the look-ahead and levels off.
    #[test]
    fn rates_rise_with_the_look_ahead() {
        let rates = [1, 16, 256, 1024, 4096].map(|look_ahead| gups("hypercube", 32, look_ahead, "none"));
        assert!(rates.is_sorted() && rates[1] > 10.0 * rates[0] && rates[4] < 1.2 * rates[3], "{rates:?}");
    }

    /// B19 and table 3: on 32 ranks the refinements gain.
    #[test]
    fn refinements_gain() {
        let [none, mod1, mod2, mod3] = ["none", "mod1", "mod2", "mod3"].map(|name| gups("hypercube", 32, 1024, name));
        assert!(mod3 > 1.05 * none && mod2 < none && mod1 > 0.99 * none, "{none} {mod1} {mod2} {mod3}");
    }

    /// What is not simulated is near what is.
    #[test]
    fn formulas_follow_simulated_ranks() {
        for (id, dimensions, ranks) in [("alltoall_1d", 1, 256), ("alltoall_2d", 2, 256), ("alltoall_3d", 3, 512)] {
            let [simulated, formula] =
                [gups(id, ranks, 1024, "none"), Machine::red_storm().all_to_all_gups(ranks, dimensions)];
            assert!((simulated / formula - 1.0).abs() < 0.1, "{id} on {ranks}: {simulated}, by the formula {formula}");
        }
    }

    /// What is refused before it exhausts the memory, as far as it was measured: 11 GB for 65,536 ranks of hypercube, 18 GB in
    /// three dimensions, 17 GB for 32,768 in two.
    #[test]
    fn memory_of_simulated_ranks_is_estimated() {
        for (id, ranks, measured) in
            [("hypercube", 65_536, 11.3e9), ("alltoall_3d", 65_536, 18.2e9), ("alltoall_2d", 32_768, 17.4e9)]
        {
            let estimated = memory(&id.parse().unwrap(), ranks);
            assert!((0.9..1.5).contains(&(estimated / measured)), "{id} on {ranks}: {estimated} instead of {measured}");
        }
    }

    /// With more ranks, grids of more dimensions are faster.
    #[test]
    fn dimensions_cross() {
        let best = |ranks| {
            let ids = ["alltoall_1d", "alltoall_2d", "alltoall_3d"];
            let rates = ids.map(|id| gups(id, ranks, 1024, "none"));
            (0..3).max_by(|a, b| rates[*a].total_cmp(&rates[*b])).unwrap()
        };
        assert_eq!([4, 32, 256].map(best), [0, 1, 2]);
    }
}
