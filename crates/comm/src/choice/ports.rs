//! Ports of hosts, which their ranks share: what one of them has to carry, where messages are too many to walk over.

use treepie_collectives::registry::{self, Algorithm, NetworkRequirement};
use treepie_model::closed_form::Arguments;
use treepie_schedule::schedule::for_each_lane_of;
use treepie_schedule::{BufferMap, ScheduleOp};

use super::{ChoiceInput, MAX_WALKED_RANKS, variants};

/// The most messages that are counted: about ten milliseconds.
const MAX_COUNTED: u64 = 1 << 19;

/// The least time of an algorithm that does not know the hosts, of more ranks than are walked over: that in which the
/// port of the root's host, or of the first, carries what its ranks send to others.
pub(super) fn least_time(input: &ChoiceInput<'_>, algorithm: &Algorithm, arguments: &Arguments<'_>) -> Option<f64> {
    let (network, ranks) = (input.costs.network(), input.spec.ranks);
    let of_host = network.nodes_per_host();
    // The times of hierarchical algorithms include it.
    if algorithm.requires.network != NetworkRequirement::Any {
        return None;
    }
    if !network.has_hosts() || ranks <= MAX_WALKED_RANKS || u64::from(ranks) * u64::from(of_host) > MAX_COUNTED {
        return None;
    }
    let whole = Arguments { segments: 1, ..*arguments };
    let schedule = registry::build(&variants::id(algorithm, &whole), &input.spec).ok()?;
    let layouts = input.layouts(&*schedule);
    let host = network.host_of(input.spec.operation.root().unwrap_or(0));
    let (mut carried, segments) = (0.0, f64::from(arguments.segments));
    for_each_lane_of(&*schedule, (0..ranks).filter(|rank| network.host_of(*rank) == host), |rank, _, _, rounds| {
        let buffers = BufferMap { schedule: &*schedule, layouts: &layouts, rank };
        for op in rounds.iter().flatten() {
            if let ScheduleOp::Send { to, part } = op
                && network.host_of(*to) != host
            {
                let bytes = buffers.range_len(*part) as f64 * input.element as f64;
                carried += segments * input.costs.gap(bytes / segments);
            }
        }
    });
    Some(input.costs.latency() + carried)
}
