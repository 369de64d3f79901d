//! How long a choice takes: one that is new, and one that is cached.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use treepie::{Comm, Network};
use treepie_collectives::registry::CollectiveSpec;
use treepie_comm::choice::{ChoiceInput, Resources};
use treepie_model::predict::MessageCosts;
use treepie_schedule::Operation;
use treepie_sim::Settings;

use crate::harness::statistics::median;
use crate::record::{Better, Record, Records};

/// Networks with as many ranks as have closed forms in time.
const NETWORKS: [&str; 5] = ["flat:64", "flat:4096", "torus:16x16x16", "clos:r80,t64,n4096", "clusters:64x64"];

const SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 4 << 20];

const ELEMENT: usize = 8;

const REPETITIONS: usize = 5;

/// Microseconds of the median and of the slowest choice.
#[derive(Clone, Copy)]
struct DecisionTime {
    median: f64,
    slowest: f64,
    /// The operation and the bytes of the slowest.
    of: (&'static str, usize),
}

impl DecisionTime {
    /// Of one choice for each operation and size.
    fn new(mut choose: impl FnMut(Operation, usize) -> anyhow::Result<f64>) -> anyhow::Result<Self> {
        let (mut all, mut slowest, mut of) = (Vec::new(), 0.0, ("", 0));
        for operation in Operation::all(0) {
            for bytes in SIZES {
                let times = (0..REPETITIONS).map(|_| choose(operation, bytes)).collect::<anyhow::Result<Vec<f64>>>()?;
                let time = median(&times);
                if time > slowest {
                    (slowest, of) = (time, (operation.name(), bytes));
                }
                all.push(time);
            }
        }
        Ok(Self { median: median(&all), slowest, of })
    }
}

/// Prints the times of choices on networks.
pub(super) fn print(records: &mut Records) -> anyhow::Result<()> {
    say!("time of a choice in us          median   slowest");
    for text in NETWORKS {
        let network: Network = text.parse()?;
        let profile = Settings::for_network(&network)?.profile(&network);
        let costs = MessageCosts::on_network(&profile, &network);
        let time = DecisionTime::new(|operation, bytes| {
            let spec = CollectiveSpec::new(operation, &network);
            let input = ChoiceInput {
                spec,
                bytes: bytes as u64,
                element: ELEMENT as u64,
                costs,
                resources: Resources::default(),
            };
            Ok(micros(|| input.best().map(|candidate| candidate.id())))
        })?;
        print_row(text, "new", time);
        let value = ("us", Better::Low);
        records.write(&Record::measured(
            format!("choices/decision/{text}"),
            "sim",
            network.ranks(),
            &[time.median],
            value,
        ))?;
    }
    Ok(())
}

/// Prints the times of choices of these ranks.
pub(super) fn print_of_ranks(world: &Comm) -> anyhow::Result<()> {
    let profile = Rc::new(world.profile().clone());
    let new = DecisionTime::new(|operation, bytes| {
        // A handle with a profile of its own has made no choice.
        let fresh = world.with_profile(profile.clone());
        Ok(micros(|| fresh.chosen_algorithm(operation, bytes, ELEMENT)))
    })?;
    let cached = DecisionTime::new(|operation, bytes| {
        world.chosen_algorithm(operation, bytes, ELEMENT)?;
        Ok(micros(|| world.chosen_algorithm(operation, bytes, ELEMENT)))
    })?;
    if world.rank() == 0 {
        let ranks = format!("{} ranks here", world.size());
        print_row(&ranks, "new", new);
        print_row(&ranks, "cached", cached);
    }
    Ok(())
}

fn micros<R>(choose: impl FnOnce() -> R) -> f64 {
    let start = Instant::now();
    black_box(choose());
    start.elapsed().as_secs_f64() * 1e6
}

fn print_row(place: &str, kind: &str, time: DecisionTime) {
    let DecisionTime { median, slowest, of: (operation, bytes) } = time;
    say!("  {place:<20} {kind:<7} {median:>8.2} {slowest:>9.2}  {operation} of {bytes} bytes");
}
