//! Cost of protocols for dynamic sparse data exchange (DSDE), in which receivers do not know their senders.
//! [NBX paper 3, 4.2]
//!
//! PEX exchanges the message sizes of all pairs (personalised exchange), PCX the number of messages of each receiver
//! (personalised census), RSX counts them in remote memory (remote summation), NBX sends synchronously and detects
//! termination by a nonblocking barrier.

use super::LogGP;

/// A DSDE protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsdeProtocol {
    /// Personalised exchange.
    Pex,
    /// Personalised census.
    Pcx,
    /// Remote summation.
    Rsx,
    /// Nonblocking consensus.
    Nbx,
}

impl DsdeProtocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Pex, Self::Pcx, Self::Rsx, Self::Nbx];

    /// Integers that a rank stores besides the data: PEX and PCX a table with an entry per rank, RSX a counter, NBX
    /// whether its barrier has begun and whether it has completed.
    pub fn memory(self, ranks: u32) -> u64 {
        match self {
            DsdeProtocol::Pex | DsdeProtocol::Pcx => ranks.into(),
            DsdeProtocol::Rsx => 1,
            DsdeProtocol::Nbx => 2,
        }
    }
}

/// Model of the time of a barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BarrierModel {
    /// The upper bound of T_BC, lg P (L + 2o).
    UpperBound,
    /// The greedy tree.
    GreedyTree,
    /// A hardware barrier of this time in microseconds.
    Hardware(f64),
}

/// Extra cost of a synchronous send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Handshake {
    /// None: it is part of the network's protocol.
    Free,
    /// An ack message for each message: L + k o in the worst case. Equation 2.
    AckMessage,
    /// The measured latency of a short synchronous message, in place of L; messages overlap.
    ///
    /// It is a step in the length. The paper explains it by protocols: an eager message has no handshake, so one is
    /// added; a rendezvous includes it, and long synchronous messages take no longer than others. Table 2 gives the
    /// size at which their latencies converge. A constant surplus would not: on Jaguar 15.5 us are still 17% of the
    /// time at 132 KiB, and converged means less than 1%.
    Latency {
        /// L_s, of a message of one byte.
        latency: f64,
        /// s_s: synchronous messages of this length, and longer ones, take no longer than others; infinity if all do.
        below: f64,
    },
}

/// A sparse exchange: each rank sends to `neighbors` others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DsdeExchange {
    /// Number of ranks.
    pub ranks: u32,
    /// k: neighbors of a rank.
    pub neighbors: u32,
    /// Bytes of each message.
    pub bytes: f64,
}

impl BarrierModel {
    /// T_BC(P), taken as the time of a barrier.
    pub fn time(self, network: &LogGP, ranks: u32) -> f64 {
        match self {
            BarrierModel::UpperBound => network.broadcast_bounds(ranks).upper,
            BarrierModel::GreedyTree => network.broadcast(ranks),
            BarrierModel::Hardware(time) => time,
        }
    }
}

impl LogGP {
    /// T_DT: time of the data messages.
    pub fn data(&self, exchange: &DsdeExchange) -> f64 {
        self.transfers(exchange.neighbors, exchange.bytes)
    }

    /// Extra time of synchronous sends of this number of bytes each.
    pub fn handshake(&self, neighbors: u32, bytes: f64, handshake: Handshake) -> f64 {
        match handshake {
            Handshake::Free => 0.0,
            Handshake::AckMessage => self.latency + f64::from(neighbors) * self.message_interval(),
            Handshake::Latency { latency, below } => {
                if bytes < below {
                    latency - self.latency
                } else {
                    0.0
                }
            }
        }
    }

    /// Time of an exchange by a protocol. RSX and NBX include the barrier, NBX the handshake.
    pub fn exchange(
        &self,
        protocol: DsdeProtocol,
        exchange: &DsdeExchange,
        barrier: BarrierModel,
        handshake: Handshake,
    ) -> f64 {
        let DsdeExchange { ranks, neighbors, bytes } = *exchange;
        let metadata = match protocol {
            DsdeProtocol::Pex => self.personalised_exchange(ranks),
            DsdeProtocol::Pcx => self.personalised_census(ranks),
            DsdeProtocol::Rsx => {
                self.latency + f64::from(neighbors) * self.message_interval() + barrier.time(self, ranks)
            }
            DsdeProtocol::Nbx => barrier.time(self, ranks) + self.handshake(neighbors, bytes, handshake),
        };
        metadata + self.data(exchange)
    }

    /// The number of neighbors up to which NBX takes no longer than PCX with ack messages: (T_RS - T_BC - L)/o.
    /// Negative if it is always slower. Section 4.2.
    pub fn nbx_threshold(&self, ranks: u32, barrier: BarrierModel) -> f64 {
        (self.personalised_census(ranks) - barrier.time(self, ranks) - self.latency) / self.message_interval()
    }
}
