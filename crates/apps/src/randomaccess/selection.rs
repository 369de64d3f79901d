//! The choice of an algorithm by the costs of messages.

use treepie_comm::Comm;
use treepie_model::plogp::PLogP;

use super::algorithm::{Algorithm, Dimensions, Order};
use super::refinements::Refinements;
use super::{prime_factors, stages};

/// The refinements without others: nothing waits before it must.
pub(super) const REFINEMENTS: Refinements = Refinements {
    prepost: true,
    deferred: false,
    late_wait: true,
    double_buffer: false,
    persistent: false,
    overlap: false,
    adaptive: false,
    discard: false,
};

/// Microseconds to divide a datum: about two nanoseconds on all machines that were measured.
const DIVIDE: f64 = 0.002;

/// The algorithm for a communicator and a look-ahead, the same on all ranks; one that works in rounds if it is to have
/// refinements.
pub(super) fn choose(comm: &Comm, look_ahead: usize, has_refinements: bool) -> Algorithm {
    let ranks = comm.size() as u32;
    if ranks == 1 {
        return Algorithm::Serial;
    }
    // Ranks that share cores take turns. In rounds each turn ends at the first message that has not come; without rounds
    // a rank works until it has filled all channels.
    if !has_refinements && comm.ranks_per_core().is_some_and(|ranks| ranks > 1.0) {
        return Algorithm::BufferedAsync;
    }
    let Some(link) = slowest(&comm.profile().levels) else { return Algorithm::Alltoall(Dimensions::Number(1)) };
    let last = if ranks.is_power_of_two() { Algorithm::Hypercube(Order::Ranks) } else { Algorithm::HypercubeAny };
    let candidates: [(Algorithm, Vec<u32>); 5] = [
        (Algorithm::Alltoall(Dimensions::Number(1)), vec![ranks]),
        (Algorithm::Alltoall(Dimensions::Number(2)), stages::equal_sides(ranks, 2)),
        (Algorithm::Alltoall(Dimensions::Number(3)), stages::equal_sides(ranks, 3)),
        (Algorithm::Alltoall(Dimensions::All), prime_factors(ranks)),
        // Halves of odd partitions exchange a message more.
        (last, vec![2; ranks.next_power_of_two().ilog2() as usize]),
    ];
    let time = |sides: &[u32]| time(sides, look_ahead, link);
    let best = candidates.into_iter().min_by(|(_, a), (_, b)| time(a).total_cmp(&time(b)));
    best.expect("there are candidates").0
}

/// The link with the highest latency: most data crosses it.
fn slowest(levels: &[treepie_model::profile::LevelProfile]) -> Option<&PLogP> {
    levels.iter().map(|level| &level.link).max_by(|a, b| a.latency.total_cmp(&b.latency))
}

/// Microseconds of a round on a grid with these sides.
fn time(sides: &[u32], look_ahead: usize, link: &PLogP) -> f64 {
    let stage = |side: &u32| {
        let data = look_ahead as f64 / f64::from(*side);
        let message = link.send_overhead.at(8.0 * data) + link.recv_overhead.at(8.0 * data);
        f64::from(side - 1) * message + link.latency + DIVIDE * look_ahead as f64
    };
    sides.iter().filter(|side| **side > 1).map(stage).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_stages_pay_where_there_are_many_short_messages() {
        let link = PLogP::linear(5.0, 1.0, 1000.0).unwrap();
        let faster = |a: &[u32], b: &[u32], look_ahead| time(a, look_ahead, &link) < time(b, look_ahead, &link);
        assert!(faster(&[4], &[2, 2], 1024));
        assert!(faster(&[64, 64], &[4096], 1024));
        assert!(faster(&[2; 12], &[4096], 1024));
        // Long lists are divided and sent in each stage.
        assert!(faster(&[16], &[2; 4], 1 << 20));
    }
}
