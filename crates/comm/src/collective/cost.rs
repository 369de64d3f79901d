//! The cost model of the automatic selection.
//!
//! The cost of an algorithm is that of a rank's critical path: the number of steps, each of which waits for another
//! rank, the number of messages, and the bytes moved and reduced. Where ranks share cores, a step also waits until all
//! other ranks were scheduled, and the ranks share the bandwidth of the cores. Over the shared segment, slot rounds
//! replace steps.

use treepie_fabric::SlotClass;

/// Costs on an engine, in seconds; the same on all ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransportCosts {
    /// Time until a sent message has arrived.
    latency: f64,
    /// To send and receive a message.
    overhead: f64,
    /// To move a byte from one rank to another.
    per_byte: f64,
    /// To reduce a byte.
    reduce_per_byte: f64,
    /// Additional latency of a rendezvous, which messages above the eager limit need.
    rendezvous: f64,
    /// Eager limit, in bytes.
    eager_limit: f64,
    /// A round over the shared segment, until all ranks have published.
    slot_round: f64,
    /// To write a byte into a slot, and to read it there.
    write_per_byte: f64,
    read_per_byte: f64,
    /// A single-copy read: per read, and per byte.
    single_copy_overhead: f64,
    single_copy_per_byte: f64,
}

impl TransportCosts {
    /// Ranks in shared memory. Measured on two cores with 2, 8 and 16 ranks.
    pub(crate) fn shared_memory(ranks_per_core: f64, eager_limit: usize) -> Self {
        // Ranks that share a core sleep and have to be woken up.
        let oversubscription = if ranks_per_core > 1.0 { ranks_per_core } else { 0.0 };
        let share = ranks_per_core.max(1.0);
        Self {
            latency: 0.2e-6 + 0.6e-6 * oversubscription,
            overhead: 0.06e-6 + 0.5e-6 * oversubscription,
            per_byte: if oversubscription > 0.0 { 0.16e-9 * share } else { 0.1e-9 },
            reduce_per_byte: 0.05e-9 * share,
            rendezvous: 0.8e-6 + 0.6e-6 * oversubscription,
            eager_limit: eager_limit as f64,
            slot_round: 0.15e-6 + 1.3e-6 * oversubscription,
            write_per_byte: 0.11e-9 * share,
            // Ranks on one core read what is in its cache already.
            read_per_byte: if oversubscription > 0.0 { 0.06e-9 * share } else { 0.07e-9 },
            single_copy_overhead: if oversubscription > 0.0 { 1.5e-6 * share } else { 1.0e-6 },
            single_copy_per_byte: if oversubscription > 0.0 { 0.12e-9 * share } else { 0.1e-9 },
        }
    }

    /// Ranks on a network.
    pub(crate) fn network(eager_limit: usize) -> Self {
        Self {
            latency: 1.5e-6,
            overhead: 0.5e-6,
            per_byte: 0.1e-9,
            reduce_per_byte: 0.1e-9,
            rendezvous: 2e-6,
            eager_limit: eager_limit as f64,
            slot_round: f64::INFINITY,
            write_per_byte: f64::INFINITY,
            read_per_byte: f64::INFINITY,
            single_copy_overhead: f64::INFINITY,
            single_copy_per_byte: f64::INFINITY,
        }
    }

    /// As parameters of the models, in microseconds.
    pub(super) fn to_cost_params(self) -> treepie_model::CostParams {
        let (alpha, beta) = ((self.latency + self.overhead) * 1e6, self.per_byte * 1e6);
        let gamma = self.reduce_per_byte * 1e6;
        treepie_model::CostParams { alpha, beta, delta: beta, gamma, ..treepie_model::CostParams::ZERO }
    }
}

/// How the data of a schedule is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    PointToPoint,
    /// Through slots of the shared segment.
    SharedSegment(SharedTransport),
}

/// How data gets to its readers through the shared segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedTransport {
    /// Through slots, as a whole.
    CopyInCopyOut,
    /// Through slots, in chunks. Only for algorithms whose ranks do not modify what they send in the same round.
    PipelinedCopyInCopyOut,
    /// Read directly from the sender's memory. For the same algorithms.
    SingleCopy,
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Transport::PointToPoint => "point-to-point",
            Transport::SharedSegment(SharedTransport::CopyInCopyOut) => "shared segment, copy-in copy-out",
            Transport::SharedSegment(SharedTransport::PipelinedCopyInCopyOut) => {
                "shared segment, pipelined copy-in copy-out"
            }
            Transport::SharedSegment(SharedTransport::SingleCopy) => "shared segment, single copy",
        })
    }
}

/// The slot classes of the shared segment: bytes that a rank can write into each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotCapacities {
    pub(crate) line: usize,
    pub(crate) page: usize,
    pub(crate) bulk: usize,
    /// Whether all ranks can read each other's memory (single copy).
    pub(crate) single_copy: bool,
}

impl SlotCapacities {
    /// The smallest slot class for this number of bytes.
    pub(crate) fn slot_for(&self, bytes: usize) -> Option<SlotClass> {
        match bytes {
            bytes if bytes <= self.line => Some(SlotClass::Line),
            bytes if bytes <= self.page => Some(SlotClass::Page),
            bytes if bytes <= self.bulk => Some(SlotClass::Large),
            _ => None,
        }
    }
}

/// Critical path of a rank in an algorithm over messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageProfile {
    pub(super) steps: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
    pub(super) reduced: f64,
}

impl MessageProfile {
    pub(super) fn time(self, costs: &TransportCosts) -> f64 {
        let is_rendezvous = self.messages > 0.0 && self.bytes / self.messages > costs.eager_limit;
        let rendezvous = if is_rendezvous { self.steps * costs.rendezvous } else { 0.0 };
        // Operands of reductions are received into staging memory first.
        self.steps * costs.latency
            + self.messages * costs.overhead
            + self.bytes * costs.per_byte
            + self.reduced * (costs.reduce_per_byte + costs.per_byte)
            + rendezvous
    }
}

/// The same over the shared segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentProfile {
    pub(super) slot_rounds: f64,
    /// The most bytes that a rank writes for a round.
    pub(super) max_written: f64,
    /// Bytes that ranks write on average, that one reads, the number of reads, and the bytes it reduces.
    pub(super) written: f64,
    pub(super) read: f64,
    pub(super) parts: f64,
    pub(super) reduced: f64,
    /// Whether no rank modifies what it sends in the same round, so that it can be sent in chunks, or read with a
    /// single copy.
    pub(super) sends_unmodified: bool,
}

/// An algorithm considered by the automatic selection.
pub(crate) struct Candidate {
    pub(crate) id: &'static str,
    pub(super) messages: fn(p: f64, lg: f64, n: f64) -> MessageProfile,
    /// Only if its messages are received in the round in which they are sent.
    pub(super) segment_profile: Option<fn(p: f64, n: f64) -> SegmentProfile>,
}

impl Candidate {
    /// Time and transport for `ranks` ranks and `bytes` bytes, those of all blocks or of the vector. `slots` are those
    /// of the shared segment, if there is one.
    pub(crate) fn best_transport(
        &self,
        costs: &TransportCosts,
        ranks: u32,
        bytes: usize,
        slots: Option<&SlotCapacities>,
    ) -> (f64, Transport) {
        let lg = f64::from(ranks.next_power_of_two().trailing_zeros());
        let (p, n) = (f64::from(ranks), bytes as f64);
        let mut best = ((self.messages)(p, lg, n).time(costs), Transport::PointToPoint);
        let (Some(slots), Some(segment_profile)) = (slots, self.segment_profile) else { return best };
        let SegmentProfile { slot_rounds, max_written, written, read, parts, reduced, sends_unmodified } =
            segment_profile(p, n);
        let mut consider = |time: f64, transport| {
            if time < best.0 {
                best = (time, Transport::SharedSegment(transport));
            }
        };
        let reduction = reduced * costs.reduce_per_byte;
        let chunks = (max_written / slots.bulk as f64).ceil().max(1.0);
        let copies = written * costs.write_per_byte + read * costs.read_per_byte + reduction;
        if chunks == 1.0 {
            consider(slot_rounds * costs.slot_round + copies, SharedTransport::CopyInCopyOut);
        } else if sends_unmodified {
            // A rank writes a chunk while others still read the one before.
            consider(slot_rounds * chunks * costs.slot_round / 2.0 + copies, SharedTransport::PipelinedCopyInCopyOut);
        }
        if slots.single_copy && sends_unmodified {
            let reads = parts * costs.single_copy_overhead + read * costs.single_copy_per_byte;
            consider((slot_rounds + 1.0) * costs.slot_round + reads + reduction, SharedTransport::SingleCopy);
        }
        best
    }
}
