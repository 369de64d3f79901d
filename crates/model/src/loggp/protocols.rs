//! Protocols for sparse exchanges whose receivers do not know who will send: what they cost.   [NBX paper 3, 4.2]
//!
//! PEX tells all ranks how much each gets (personalised exchange), PCX how many messages (personalised census), RSX
//! counts them in remote memory, NBX sends synchronously and detects the end by a nonblocking barrier.

use super::LogGP;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Personalised exchange.
    Pex,
    /// Personalised census.
    Pcx,
    /// Remote summation.
    Rsx,
    /// Nonblocking consensus.
    Nbx,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pex, Self::Pcx, Self::Rsx, Self::Nbx];

    /// Integers that a rank has to hold besides the data: the tables of PEX and PCX have an entry for each rank, RSX
    /// has a counter, NBX knows whether its barrier has begun and whether it has ended.
    pub fn memory(self, ranks: u32) -> u64 {
        match self {
            Protocol::Pex | Protocol::Pcx => ranks.into(),
            Protocol::Rsx => 1,
            Protocol::Nbx => 2,
        }
    }
}

/// How long ranks take to find out that all have come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Barrier {
    /// The upper bound of T_BC, lg P (L + 2o).
    Bound,
    /// The best tree.
    Greedy,
    /// By hardware, in so many microseconds.
    Hardware(f64),
}

/// What a synchronous send costs more than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Handshake {
    /// Nothing: it is part of the network's own protocol.
    Free,
    /// Each message is answered by one: L + k o in the worst case. Equation 2.
    Answers,
    /// A short synchronous message was measured to have this latency instead of L; messages overlap.
    Latency(f64),
}

/// A sparse exchange: each rank sends to `neighbours` others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// How many ranks.
    pub ranks: u32,
    /// k.
    pub neighbours: u32,
    /// Of each message.
    pub bytes: f64,
}

impl Barrier {
    /// T_BC(P), as far as it stands for a barrier.
    pub fn time(self, network: &LogGP, ranks: u32) -> f64 {
        match self {
            Barrier::Bound => network.broadcast_bounds(ranks).upper,
            Barrier::Greedy => network.broadcast(ranks),
            Barrier::Hardware(time) => time,
        }
    }
}

impl LogGP {
    /// T_DT: the messages themselves, one after the other.
    pub fn data(&self, exchange: &Exchange) -> f64 {
        self.transfers(exchange.neighbours, exchange.bytes)
    }

    /// What synchronous sends add.
    pub fn handshake(&self, neighbours: u32, handshake: Handshake) -> f64 {
        match handshake {
            Handshake::Free => 0.0,
            Handshake::Answers => self.latency + f64::from(neighbours) * self.spacing(),
            Handshake::Latency(latency) => latency - self.latency,
        }
    }

    /// How long an exchange takes by a protocol. Barriers are part of RSX and NBX, handshakes of NBX.
    pub fn exchange(&self, protocol: Protocol, exchange: &Exchange, barrier: Barrier, handshake: Handshake) -> f64 {
        let Exchange { ranks, neighbours, .. } = *exchange;
        let before = match protocol {
            Protocol::Pex => self.personalised_exchange(ranks),
            Protocol::Pcx => self.personalised_census(ranks),
            Protocol::Rsx => self.latency + f64::from(neighbours) * self.spacing() + barrier.time(self, ranks),
            Protocol::Nbx => barrier.time(self, ranks) + self.handshake(neighbours, handshake),
        };
        before + self.data(exchange)
    }

    /// k up to which NBX takes no longer than PCX, if each message is answered: (T_RS - T_BC - L)/o. Negative if it is
    /// slower with any. Section 4.2.
    pub fn threshold(&self, ranks: u32, barrier: Barrier) -> f64 {
        (self.personalised_census(ranks) - barrier.time(self, ranks) - self.latency) / self.spacing()
    }
}
