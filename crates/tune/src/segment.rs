//! Costs of collective operations over the shared segment, from timed broadcasts of one round: the inverse of how they
//! are predicted (`comm/src/choice/transport.rs`).
//!
//! A broadcast of n bytes from one rank to P - 1 others takes
//!
//! - round + copy in(n) + copy out(n) through slots, where both cost about the same; all ranks together copy P n bytes;
//! - half a round for each chunk, one copy(n), and that of the first chunk: others are written while those before are
//!   read;
//! - 2 rounds + single copy(n) if the receivers read the memory of the root, which P - 1 ranks do.
//!
//! On shared cores a rank is scheduled twice in a round, and all do their work in turn.

use std::rc::Rc;

use treepie_comm::choice::{SharedTransport, Transport};
use treepie_comm::{Comm, Network, Rank};
use treepie_model::Profile;
use treepie_model::plogp::PiecewiseLinear;
use treepie_model::predict::MessageCosts;
use treepie_model::profile::SharedSegmentCosts;

use crate::Result;
use crate::local::{MIN_WITHOUT_WAITING, time_collective};

/// An empty round, in bytes.
const SHORT: usize = 8;

/// Sizes of the curves: a short message, the eager limit, a cache of the core, and beyond it.
const SIZES: [usize; 5] = [1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20];

const ROOT: Rank = 0;

/// Measures them, where ranks share memory. Collective; rank 0 has the result.
pub(crate) fn shared_segment(comm: &Comm, scheduling: f64) -> Result<Option<SharedSegmentCosts>> {
    let Some(sharing) = comm.ranks_per_core().filter(|_| comm.slot_capacities(SHORT).is_some()) else {
        return Ok(None);
    };
    // Whatever profile there is, a transport can be predicted, so that it can be set.
    let profile = Rc::new(Profile { scheduling, ..Profile::on_machine(sharing) });
    let Some(default) = profile.shared_segment.clone() else { return Ok(None) };
    let comm = &comm.with_profile(profile.clone());
    let time = |transport, bytes: usize| {
        let bcast = comm.with_candidate("bcast/flat", Transport::SharedSegment(transport))?;
        let mut data = vec![1u8; bytes];
        time_collective(comm, 100, || bcast.bcast(&mut data, ROOT))
    };
    let flat = Network::flat(comm.size() as u32);
    let model = BcastModel {
        costs: MessageCosts::on_machine(&profile, &flat, sharing),
        short: time(SharedTransport::CopyInCopyOut, SHORT)?,
    };
    let mut copies = vec![(0.0, 0.0)];
    let mut single_copies = Vec::new();
    for bytes in SIZES {
        let Some(slots) = comm.slot_capacities(bytes) else { return Ok(None) };
        let chunks = bytes.div_ceil(slots.bulk);
        let transport = match chunks {
            1 => SharedTransport::CopyInCopyOut,
            _ => SharedTransport::PipelinedCopyInCopyOut,
        };
        copies.push((bytes as f64, model.copy(time(transport, bytes)?, chunks)));
        // In a long call ranks have agreed on it.
        if comm.slot_capacities(bytes).is_some_and(|slots| slots.single_copy) {
            single_copies.push((bytes as f64, model.single_copy(time(SharedTransport::SingleCopy, bytes)?)));
        }
    }
    let copy = PiecewiseLinear::new("copy", &copies)?;
    let single_copy = match single_copies.is_empty() {
        true => default.single_copy,
        false => PiecewiseLinear::new("single_copy", &single_copies)?,
    };
    Ok(Some(SharedSegmentCosts { round: model.round(), copy_in: copy.clone(), copy_out: copy, single_copy }))
}

/// What the time of a broadcast tells.
struct BcastModel<'a> {
    costs: MessageCosts<'a>,
    /// The time of an empty round.
    short: f64,
}

impl BcastModel<'_> {
    fn ranks(&self) -> f64 {
        f64::from(self.costs.network().ranks())
    }

    /// A round without the time until ranks were scheduled. Waiting varies, but nothing is free.
    fn round(&self) -> f64 {
        (self.short - 2.0 * self.costs.delay()).max(MIN_WITHOUT_WAITING * self.short)
    }

    /// A copy into a slot, or out of one.
    fn copy(&self, time: f64, chunks: usize) -> f64 {
        let (startups, on_critical_path) =
            if chunks == 1 { (self.short, 2.0) } else { (self.short * chunks as f64 / 2.0, 1.0 + 1.0 / chunks as f64) };
        ((time - startups) / self.costs.on_cores(on_critical_path, self.ranks())).max(0.0)
    }

    fn single_copy(&self, time: f64) -> f64 {
        ((time - 2.0 * self.short) / self.costs.on_cores(1.0, self.ranks() - 1.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use treepie_collectives::registry::CollectiveSpec;
    use treepie_comm::Operation;
    use treepie_comm::choice::{ChoiceInput, Resources, SlotCapacities};

    use super::*;

    /// What is measured is what was predicted, whatever the machine.
    #[test]
    fn predicted_times_give_back_their_costs() {
        for (ranks, sharing) in [(2, 1.0), (8, 1.0), (3, 1.5), (8, 4.0), (16, 8.0)] {
            let (profile, flat) = (Profile::on_machine(sharing), Network::flat(ranks));
            let costs = MessageCosts::on_machine(&profile, &flat, sharing);
            let slots = SlotCapacities { line: 56, page: 4096, bulk: 65536, single_copy: true };
            let time = |wanted: SharedTransport, bytes: u64| {
                let spec = CollectiveSpec::new(Operation::Bcast { root: 0 }, &flat);
                let input = ChoiceInput {
                    spec,
                    bytes,
                    element: 1,
                    costs,
                    resources: Resources { slots: Some(slots), ..Resources::default() },
                };
                let all = input.candidates();
                let is_it = |transport| transport == Transport::SharedSegment(wanted);
                let found = all.iter().find(|found| found.algorithm.id == "bcast/flat" && is_it(found.transport));
                found.map(|found| found.prediction.total())
            };
            let expected = profile.shared_segment.as_ref().unwrap();
            let short = time(SharedTransport::CopyInCopyOut, 0).unwrap();
            let model = BcastModel { costs, short };
            let same = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-6 * expected, "{got} {expected}");
            same(model.round(), expected.round.max(MIN_WITHOUT_WAITING * short));
            for bytes in SIZES {
                let chunks = bytes.div_ceil(slots.bulk);
                let transport =
                    [SharedTransport::PipelinedCopyInCopyOut, SharedTransport::CopyInCopyOut][usize::from(chunks == 1)];
                let copied = time(transport, bytes as u64).unwrap();
                same(model.copy(copied, chunks), expected.copy_in.at(bytes as f64));
                let read = time(SharedTransport::SingleCopy, bytes as u64).unwrap();
                same(model.single_copy(read), expected.single_copy.at(bytes as f64));
            }
        }
    }
}
