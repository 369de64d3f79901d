//! The papers' machines by name, with what each paper says about them.
//!
//! What a paper does not say is not made up, with two exceptions that are stated where they are: the overhead of the
//! DAS, and prices for algorithms on machines that are described in another model.

use std::fmt;
use std::str::FromStr;

use crate::plogp::{Links, PLogP};
use crate::randomaccess::RandomAccess;
use crate::{Error, LogGP, Prices};

/// The names, as they are written.
pub const NAMES: [&str; 6] = ["intrepid", "jaguar", "bigred", "redstorm", "das", "bgp"];

/// A machine of one of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// Blue Gene/P at Argonne, as the NBX paper measured it: LogGP, and a hardware barrier.
    Intrepid,
    /// Cray XT at Oak Ridge, the same.
    Jaguar,
    /// JS21 cluster at Indiana, the same.
    BigRed,
    /// Cray XT3 at Sandia, of the RandomAccess paper.
    RedStorm,
    /// Four clusters in the Netherlands over the Internet, of the P-LogP paper.
    Das,
    /// Blue Gene/P, as the thesis models its torus.
    Bgp,
}

impl Machine {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Intrepid, Self::Jaguar, Self::BigRed, Self::RedStorm, Self::Das, Self::Bgp];

    /// As it is written.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// LogGP parameters, where they were measured.   [NBX paper, table 1]
    pub fn loggp(self) -> Option<LogGP> {
        let (latency, overhead, gap, per_byte) = match self {
            Machine::Intrepid => (4.29, 2.87, 2.04, 0.00267),
            Machine::Jaguar => (9.90, 1.75, 3.40, 0.00058),
            Machine::BigRed => (7.08, 11.78, 4.19, 0.00414),
            _ => return None,
        };
        Some(LogGP { latency, overhead, gap, per_byte })
    }

    /// The latency of a synchronous message of one byte, and the bytes from which synchronous messages take no longer
    /// than others, where they were measured.   [NBX paper, table 2]
    pub fn synchronous(self) -> Option<(f64, f64)> {
        match self {
            Machine::Intrepid => Some((5.04, 12.0 * 1024.0)),
            Machine::Jaguar => Some((25.40, 132.0 * 1024.0)),
            Machine::BigRed => Some((8.02, 1.5 * 1024.0)),
            _ => None,
        }
    }

    /// Microseconds of a barrier by hardware: on Intrepid under one, at any scale.
    pub fn hardware_barrier(self) -> Option<f64> {
        (self == Machine::Intrepid).then_some(1.0)
    }

    /// The model of RandomAccess.   [RandomAccess paper, section 3]
    pub fn random_access(self) -> Option<RandomAccess> {
        (self == Machine::RedStorm).then_some(RandomAccess { updates: 1024, compute: 56.9, exchange: 33.0 })
    }

    /// The links between its clusters.   [P-LogP paper, table 2]
    pub fn links(self) -> Option<Links> {
        if self != Machine::Das {
            return None;
        }
        // In milliseconds and megabits a second; within a cluster neither counts.
        let latency = [0.0, 3.5, 1.5, 2.5, 3.5, 0.0, 3.0, 4.0, 1.5, 3.0, 0.0, 2.0, 2.5, 4.0, 2.0, 0.0];
        let bandwidth = [0.0, 5.0, 26.0, 7.0, 3.5, 0.0, 4.0, 3.0, 28.0, 6.0, 0.0, 7.5, 6.0, 4.5, 6.5, 0.0];
        let names = ["VU", "Leiden", "UvA", "Delft"];
        let links = Links::measured(&names, myrinet(), &latency.map(|ms| ms * 1e3), &bandwidth.map(|mb| mb / 8.0));
        Some(links.expect("a table that has been looked at"))
    }

    /// Start-up and time per byte, for schedules and closed forms. Of the Blue Gene/P of the thesis as it has them
    /// (3.5.6), of machines in LogGP L + 2o and G, of Red Storm the latency and bandwidth of its network, of the DAS
    /// those of a cluster's own.
    pub fn prices(self) -> Prices {
        let simple =
            |alpha, bandwidth: f64| Prices { alpha, beta: 1.0 / bandwidth, delta: 1.0 / bandwidth, ..Prices::FREE };
        match self {
            Machine::Intrepid | Machine::Jaguar | Machine::BigRed => {
                let LogGP { latency, overhead, per_byte, .. } = self.loggp().expect("it was measured");
                simple(latency + 2.0 * overhead, 1.0 / per_byte)
            }
            Machine::RedStorm => simple(7.0, 1100.0),
            Machine::Das => simple(20.0, 50.0),
            Machine::Bgp => Prices { ports: 6, ports_share: 0.93, ..simple(6.29, 375.0) },
        }
    }
}

/// A DAS cluster's own network: 20 us for a short message, 50 bytes a microsecond. The paper prints no overheads; half
/// of the 20 us is taken for one.
pub fn myrinet() -> PLogP {
    PLogP::linear(10.0, 10.0, 50.0).expect("numbers that have been looked at")
}

/// The wide-area link that the P-LogP paper simulates between its clusters: 10 ms, 1 byte a microsecond.   [section 2]
pub fn simulated_wan() -> PLogP {
    PLogP::linear(10_000.0, 10.0, 1.0).expect("numbers that have been looked at")
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Machine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Machine::ALL.into_iter().find(|machine| machine.name() == name);
        found.ok_or_else(|| Error::Machine { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_names() {
        for machine in Machine::ALL {
            assert_eq!(machine.name().parse(), Ok(machine));
        }
        let error = "cray".parse::<Machine>().unwrap_err().to_string();
        assert_eq!(error, "there is no machine `cray`; there are intrepid, jaguar, bigred, redstorm, das, bgp");
    }

    #[test]
    fn their_numbers_could_be_given_by_hand() {
        for machine in Machine::ALL {
            assert_eq!(machine.prices().checked(), Ok(machine.prices()));
            if let Some(LogGP { latency, overhead, gap, per_byte }) = machine.loggp() {
                assert!(LogGP::new(latency, overhead, gap, per_byte).is_ok());
            }
            if let Some(RandomAccess { updates, compute, exchange }) = machine.random_access() {
                assert!(RandomAccess::new(updates, compute, exchange).is_ok());
            }
        }
    }
}
