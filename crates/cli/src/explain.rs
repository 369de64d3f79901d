//! `treepie explain`: what a collective operation would choose, and why.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use treepie_base::units::ByteCount;
use treepie_base::{environment, processor_name};
use treepie_bench::EmulationOption;
use treepie_bench::choices::{measure_candidates, simulated_micros, slot_capacities};
use treepie_bench::record::{Record, Records};
use treepie_bench::{ensure_unset, machine, network};
use treepie_collectives::registry::CollectiveSpec;
use treepie_comm::choice::{Candidate, ChoiceInput, HostSlots, Resources, size_class};
use treepie_model::Profile;
use treepie_model::predict::MessageCosts;
use treepie_model::profile::Fit;
use treepie_schedule::Operation;
use treepie_shm::eager_limit;
use treepie_sim::Settings;
use treepie_topology::Network;

/// Explain the choice of an algorithm: the candidates, their predicted times, and what these are made of
///
/// Without --network the ranks are on this machine.
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// Operation, e.g. allreduce
    #[arg(value_name = "OP")]
    operation: String,
    /// Bytes of the vector, or of all blocks, e.g. 64K
    #[arg(long, value_name = "N", default_value = "1K")]
    bytes: ByteCount,
    /// Bytes of an element: segments are whole elements
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..))]
    element: u64,
    /// Simulated network: torus:8x8x8, clos:r80,t64,n4096, clusters:8x4, or a TOML file
    #[arg(long, value_name = "NETWORK", conflicts_with = "ranks")]
    network: Option<String>,
    /// Number of ranks on this machine [default: 2, or those of emulated clusters]
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    #[command(flatten)]
    links: EmulationOption,
    /// Costs of messages, as `treepie tune` wrote them [default: TREEPIE_PROFILE, or else those of the engine or of the
    /// emulated links; with --network those of the simulated network]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The root of bcast, reduce, gather and scatter
    #[arg(long, value_name = "RANK", default_value = "0")]
    root: u32,
    /// Search all arguments within bounds: every degree, radix and pair of tree layers, and many numbers of segments
    #[arg(long)]
    exhaustive: bool,
    /// Also run each candidate: in the simulator with --network, otherwise with ranks on this machine, over emulated
    /// links with --emulate
    #[arg(long)]
    measure: bool,
    /// Also write the results to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Explain {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let operation = Operation::from_name(&self.operation, self.root).with_context(|| {
            let names = Operation::all(0).map(Operation::name).join(", ");
            format!("unknown operation `{}`; there are {names}", self.operation)
        })?;
        ensure_unset("TREEPIE_EMULATE", "--emulate")?;
        let emulation = self.links.parsed()?;
        if let Some(emulation) = &emulation {
            self.links.checked(self.ranks.unwrap_or(emulation.network().ranks()))?;
        }
        ensure!(emulation.is_none() || self.network.is_none(), "--emulate gives the network, and so does --network");
        let simulated = self.network.as_deref().map(network::load).transpose()?;
        let settings = simulated.as_ref().map(Settings::for_network).transpose()?;
        let network = simulated.or(emulation.as_ref().map(|emulation| emulation.network().clone()));
        let profile = match (&self.profile, &settings, &network) {
            (Some(path), Some(_), _) => Profile::load(path)?,
            (None, Some(settings), Some(network)) => settings.profile(network),
            _ => self.profile_of_this_machine()?,
        };
        let host_mpi = profile.origin.engine == "mpi";
        let default = Profile::on_machine(1.0).shared_segment;
        let profile = match host_mpi {
            true => Profile { shared_segment: profile.shared_segment.clone().or(default), ..profile },
            false => profile,
        };
        let on = network.clone().unwrap_or_else(|| Network::flat(self.ranks()));
        ensure!(on.ranks() > 0, "--network {on}: the number of ranks is not known; add it, as in clos:r80,t64,n4096");
        ensure!(self.root < on.ranks(), "--root: there are {} ranks", on.ranks());
        let costs = match &network {
            Some(network) => MessageCosts::on_network(&profile, network),
            None => MessageCosts::on_machine(&profile, &on, self.ranks_per_core()).farthest(),
        };
        let spec = CollectiveSpec::new(operation, &on);
        let bytes = if operation == Operation::Barrier { 0 } else { self.bytes.0 as u64 };
        let slots = network.is_none().then(|| slot_capacities(self.ranks(), bytes)).transpose()?.flatten();
        // Calls of one class are chosen alike.
        let class = size_class(bytes);
        let host_slots = (host_mpi && on.has_hosts()).then_some(HostSlots::DEDICATED);
        let resources = Resources { slots, host_slots, host_mpi };
        let input = ChoiceInput { spec, bytes: class, element: self.element, costs, resources };
        let mut candidates = if self.exhaustive { input.exhaustive_candidates() } else { input.candidates() };
        candidates.iter_mut().for_each(|candidate| candidate.prediction = input.with_congestion(candidate));
        ensure!(!candidates.is_empty(), "no registered algorithm has a predicted time on {on}");
        let measured = self.measured(&input, &candidates, settings.as_ref())?;
        let place = if network.is_some() { on.to_string() } else { format!("{} ranks on this machine", self.ranks()) };
        let class = if class > bytes { format!(", as those of {class}") } else { String::new() };
        say!("{} of {bytes} bytes{class}, {place}", operation.name());
        print_table(&candidates, &measured);
        let mut records = Records::create(self.json.as_deref())?;
        for (candidate, measured) in candidates.iter().zip(&measured) {
            let case = format!("explain/{}/{bytes}", candidate.id());
            let predicted = Record::simulated(case, on.ranks(), candidate.prediction.total(), "us", place.clone());
            records.write(&predicted)?;
            if let Some(time) = measured {
                let case = format!("explain/{}/{bytes}/measured", candidate.id());
                records.write(&Record::simulated(case, on.ranks(), *time, "us", place.clone()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(2)
    }

    fn ranks_per_core(&self) -> f64 {
        f64::from(self.ranks()) / machine::cores() as f64
    }

    /// The profile that was given, or that of `TREEPIE_PROFILE`, as a program would use it, or the default.
    fn profile_of_this_machine(&self) -> anyhow::Result<Profile> {
        let (engine, ranks, cores, default) = match self.links.parsed()? {
            None => {
                let default = Profile::on_machine(self.ranks_per_core());
                ("shm".to_owned(), self.ranks(), machine::cores() as u32, default)
            }
            Some(emulation) => {
                let ranks = emulation.network().ranks();
                (Profile::emulated_engine("shm"), ranks, 0, emulation.profile("shm", eager_limit(ranks)))
            }
        };
        let path = match &self.profile {
            Some(path) => Some(path.clone()),
            None => {
                environment::text(environment::PROFILE)?.filter(|path| path != environment::MEASURE).map(PathBuf::from)
            }
        };
        let Some(path) = path else { return Ok(default) };
        let profile = Profile::load(&path)?;
        Ok(match profile.fits(&engine, ranks, cores, &processor_name()) {
            Fit::Exact => profile,
            Fit::Adapted(difference) => {
                eprintln!("treepie: {}: {difference}", path.display());
                profile.adapted_to(ranks)
            }
            Fit::Refused(why) if self.profile.is_some() => bail!("{}: {why}", path.display()),
            Fit::Refused(why) => {
                eprintln!("treepie: TREEPIE_PROFILE: {why}; the default is used");
                default
            }
        })
    }

    /// The time of each candidate, if it was asked for.
    fn measured(
        &self,
        input: &ChoiceInput<'_>,
        candidates: &[Candidate],
        settings: Option<&Settings>,
    ) -> anyhow::Result<Vec<Option<f64>>> {
        if !self.measure {
            return Ok(vec![None; candidates.len()]);
        }
        let Some(settings) = settings else {
            return measure_candidates(&self.links, input, candidates);
        };
        let simulated = |candidate: &Candidate| simulated_micros(input, &candidate.id(), settings);
        Ok(candidates.iter().map(simulated).collect())
    }
}

fn print_table(candidates: &[Candidate], measured: &[Option<f64>]) {
    let width = candidates.iter().map(|candidate| candidate.id().len()).max().unwrap_or(0).max(9);
    let last = if measured.iter().any(Option::is_some) { "    measured" } else { "" };
    say!(
        "  {:<width$}  {:>11}  {:>9} {:>9} {:>9} {:>10}  {}{last}",
        "algorithm",
        "predicted",
        "start-ups",
        "bytes",
        "reduced",
        "congestion",
        "transport"
    );
    let best = candidates[0].prediction.total();
    for (candidate, measured) in candidates.iter().zip(measured) {
        let prediction = &candidate.prediction;
        let measured = measured.map(|time| format!("  {time:9.2} us")).unwrap_or_default();
        say!(
            "  {:<width$}  {:>8.2} us  {:>9.2} {:>9.2} {:>9.2} {:>10.2}  {}{measured}",
            candidate.id(),
            prediction.total(),
            prediction.startups,
            prediction.bytes,
            prediction.reductions,
            prediction.congestion,
            candidate.transport,
        );
    }
    if let Some(second) = candidates.iter().find(|other| other.algorithm.id != candidates[0].algorithm.id) {
        let ahead = 100.0 * (second.prediction.total() / best.max(1e-12) - 1.0);
        say!("Chosen: {}, {ahead:.0}% ahead of {}", candidates[0].id(), second.id());
    } else {
        say!("Chosen: {}, the only candidate", candidates[0].id());
    }
}
