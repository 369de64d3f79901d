//! The papers' machines by name, with the parameters that each paper gives.
//!
//! Parameters that a paper does not give are not invented, with two exceptions that are stated where they are: the
//! overhead of the DAS, and cost parameters of machines that are described in another model.

use std::fmt;
use std::str::FromStr;

use crate::loggp::Handshake;
use crate::plogp::{LinkMatrix, PLogP};
use crate::randomaccess::RandomAccess;
use crate::{CostParams, Error, LogGP};

/// The names that `FromStr` accepts.
pub const NAMES: [&str; 6] = ["intrepid", "jaguar", "bigred", "redstorm", "das", "bgp"];

/// A machine of one of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PaperMachine {
    /// Blue Gene/P at Argonne, as measured in the NBX paper: LogGP, and a hardware barrier.
    Intrepid,
    /// Cray XT at Oak Ridge, as measured in the NBX paper.
    Jaguar,
    /// JS21 cluster at Indiana, as measured in the NBX paper.
    BigRed,
    /// Cray XT3 at Sandia, of the RandomAccess paper.
    RedStorm,
    /// Four clusters in the Netherlands over the Internet, of the P-LogP paper.
    Das,
    /// Blue Gene/P, as the thesis models its torus.
    Bgp,
}

impl PaperMachine {
    /// All machines.
    pub const ALL: [Self; 6] = [Self::Intrepid, Self::Jaguar, Self::BigRed, Self::RedStorm, Self::Das, Self::Bgp];

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// LogGP parameters, if measured.   [NBX paper, table 1]
    pub fn loggp(self) -> Option<LogGP> {
        let (latency, overhead, gap, per_byte) = match self {
            PaperMachine::Intrepid => (4.29, 2.87, 2.04, 0.00267),
            PaperMachine::Jaguar => (9.90, 1.75, 3.40, 0.00058),
            PaperMachine::BigRed => (7.08, 11.78, 4.19, 0.00414),
            _ => return None,
        };
        Some(LogGP { latency, overhead, gap, per_byte })
    }

    /// The latency of a synchronous message of one byte, and the size from which synchronous messages take no longer
    /// than others, if measured.   [NBX paper, table 2]
    pub fn sync_send(self) -> Option<(f64, f64)> {
        match self {
            PaperMachine::Intrepid => Some((5.04, 12.0 * 1024.0)),
            PaperMachine::Jaguar => Some((25.40, 132.0 * 1024.0)),
            PaperMachine::BigRed => Some((8.02, 1.5 * 1024.0)),
            _ => None,
        }
    }

    /// The extra cost of synchronous messages, if measured: [`sync_send`](Self::sync_send) as a step.
    pub fn handshake(self) -> Option<Handshake> {
        self.sync_send().map(|(latency, below)| Handshake::Latency { latency, below })
    }

    /// MPI processes on each node in the paper's experiments, if it states them.   [NBX paper, section 4]
    pub fn ranks_per_host(self) -> Option<u32> {
        matches!(self, PaperMachine::Intrepid | PaperMachine::Jaguar | PaperMachine::BigRed).then_some(4)
    }

    /// Microseconds of a hardware barrier: below 1 on Intrepid, at any scale.
    pub fn hardware_barrier(self) -> Option<f64> {
        (self == PaperMachine::Intrepid).then_some(1.0)
    }

    /// The model of RandomAccess, if given.   [RandomAccess paper, section 3]
    pub fn random_access(self) -> Option<RandomAccess> {
        (self == PaperMachine::RedStorm).then_some(RandomAccess { lookahead: 1024, compute: 56.9, exchange: 33.0 })
    }

    /// The links between its clusters, if any.   [P-LogP paper, table 2]
    pub fn wan_links(self) -> Option<LinkMatrix> {
        if self != PaperMachine::Das {
            return None;
        }
        // Milliseconds and megabits per second; the diagonal is not used.
        let latency = [0.0, 3.5, 1.5, 2.5, 3.5, 0.0, 3.0, 4.0, 1.5, 3.0, 0.0, 2.0, 2.5, 4.0, 2.0, 0.0];
        let bandwidth = [0.0, 5.0, 26.0, 7.0, 3.5, 0.0, 4.0, 3.0, 28.0, 6.0, 0.0, 7.5, 6.0, 4.5, 6.5, 0.0];
        let names = ["VU", "Leiden", "UvA", "Delft"];
        let links = LinkMatrix::from_latency_bandwidth(
            &names,
            myrinet(),
            &latency.map(|ms| ms * 1e3),
            &bandwidth.map(|mb| mb / 8.0),
        );
        Some(links.expect("a valid table"))
    }

    /// Start-up and time per byte, for schedules and closed forms: for the Blue Gene/P of the thesis its own (3.5.6),
    /// for machines in LogGP L + 2o and G, for Red Storm the latency and bandwidth of its network, for the DAS those
    /// within a cluster.
    pub fn cost_params(self) -> CostParams {
        let alpha_beta = |alpha, bandwidth: f64| CostParams {
            alpha,
            beta: 1.0 / bandwidth,
            delta: 1.0 / bandwidth,
            ..CostParams::ZERO
        };
        match self {
            PaperMachine::Intrepid | PaperMachine::Jaguar | PaperMachine::BigRed => {
                let LogGP { latency, overhead, per_byte, .. } = self.loggp().expect("it was measured");
                alpha_beta(latency + 2.0 * overhead, 1.0 / per_byte)
            }
            PaperMachine::RedStorm => alpha_beta(7.0, 1100.0),
            PaperMachine::Das => alpha_beta(20.0, 50.0),
            PaperMachine::Bgp => CostParams { saturated_ports: 6, port_efficiency: 0.93, ..alpha_beta(6.29, 375.0) },
        }
    }
}

/// The network within a DAS cluster: 20 us for a short message, 50 bytes per microsecond. The paper prints no
/// overheads; one is taken as half of the 20 us.
pub fn myrinet() -> PLogP {
    PLogP::linear(10.0, 10.0, 50.0).expect("valid parameters")
}

/// The wide-area link that the P-LogP paper simulates between its clusters: 10 ms, 1 byte per microsecond.   [section
/// 2]
pub fn simulated_wan() -> PLogP {
    PLogP::linear(10_000.0, 10.0, 1.0).expect("valid parameters")
}

impl fmt::Display for PaperMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PaperMachine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = PaperMachine::ALL.into_iter().find(|machine| machine.name() == name);
        found.ok_or_else(|| Error::UnknownMachine { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_names() {
        for machine in PaperMachine::ALL {
            assert_eq!(machine.name().parse(), Ok(machine));
        }
        let error = "cray".parse::<PaperMachine>().unwrap_err().to_string();
        assert_eq!(error, "unknown machine `cray`; there are intrepid, jaguar, bigred, redstorm, das, bgp");
    }

    #[test]
    fn parameters_of_all_machines_are_valid() {
        for machine in PaperMachine::ALL {
            assert_eq!(machine.cost_params().validated(), Ok(machine.cost_params()));
            if let Some(LogGP { latency, overhead, gap, per_byte }) = machine.loggp() {
                assert!(LogGP::new(latency, overhead, gap, per_byte).is_ok());
            }
            if let Some(RandomAccess { lookahead, compute, exchange }) = machine.random_access() {
                assert!(RandomAccess::new(lookahead, compute, exchange).is_ok());
            }
        }
    }
}
