//! Exchanges whose barriers and counts follow the network.

use treepie::{Comm, Network, Operation, SparseExchange};
use treepie_collectives::registry::{self, CollectiveSpec};

use super::refused::{check_refused, with_one_bad};
use super::{AUTO, PendingExchange, check_usable, exchange, first_few, random_plan};
use crate::algorithms::networks;
use crate::check::{Failure, Outcome};

/// On every network for the number of ranks, with every barrier that applies: blocking, in the background, where only
/// messages are used, and refused on one rank.
pub(super) fn barriers(comm: &Comm) -> Outcome {
    for text in networks(comm.size()) {
        let network = text.parse::<Network>().and_then(|network| network.for_ranks(comm.size() as u32));
        let network = network.map_err(|error| Failure::new(format!("{text}: {error}")))?;
        let on_network = comm.with_network(&text)?;
        let applicable = registry::applicable(&CollectiveSpec::new(Operation::Barrier, &network));
        for barrier in applicable.iter().map(|algorithm| &algorithm.id) {
            for protocol in ["exchange/nbx", "exchange/rsx", AUTO] {
                let using = on_network.with_algorithm(barrier)?.with_algorithm(protocol)?;
                let context = |failure: Failure| failure.context(format_args!("{protocol} with {barrier} on {text}"));
                rounds(&using).map_err(context)?;
            }
        }
    }
    Ok(())
}

fn rounds(comm: &Comm) -> Outcome {
    let size = comm.size();
    for round in first_few(comm, (0..4).collect()) {
        exchange(comm, round, &|from| random_plan(from, round, size, 4))?;
        let [first, second] = [round, round + 1].map(|number| PendingExchange::new(comm, number, 3));
        second?.wait(comm, 3)?;
        first?.wait(comm, 3)?;
    }
    let bad = size / 2;
    let begun = comm.iexchange(with_one_bad(comm, bad));
    check_refused(comm, bad, begun.and_then(|pending| pending.wait()))?;
    check_usable(comm, 1)
}
