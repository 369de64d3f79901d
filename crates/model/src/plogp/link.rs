//! The parameters of one link, from measured round trips, and as LogGP.   [P-LogP paper 2.1, 2.2]

use super::Table;
use crate::error::{not_negative, positive};
use crate::{Error, LogGP, Result};

/// The parameters of a link, or of all links of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct PLogP {
    /// L: end to end.
    pub latency: f64,
    /// os(m): how long the sender's processor is busy.
    pub send: Table,
    /// or(m): how long the receiver's is.
    pub receive: Table,
    /// g(m): the least time between two messages over the link.
    pub gap: Table,
}

/// What was measured for one size: m bytes there and nothing back; how long the send itself took; and how long
/// receiving m bytes took when they had come already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// m.
    pub bytes: f64,
    /// RTT(m).
    pub time: f64,
    /// os(m).
    pub send: f64,
    /// or(m).
    pub receive: f64,
}

impl PLogP {
    /// Refuses a latency that cannot be; the tables have been looked at.
    pub fn new(latency: f64, send: Table, receive: Table, gap: Table) -> Result<Self> {
        not_negative("the latency L", latency)?;
        Ok(Self { latency, send, receive, gap })
    }

    /// A link with so many bytes a microsecond, and an overhead at both ends that is the same for all sizes.
    pub fn linear(latency: f64, overhead: f64, bandwidth: f64) -> Result<Self> {
        positive("the bandwidth", bandwidth)?;
        let busy = |what| Table::constant(what, overhead);
        let gap = Table::linear("the gap g", overhead, 1.0 / bandwidth)?;
        Self::new(latency, busy("the send overhead os")?, busy("the receive overhead or")?, gap)
    }

    /// A link that is nothing but a latency and a bandwidth in bytes per microsecond. What it is given is not looked at: a
    /// table of impossible times is for its user to refuse.
    pub fn simple(latency: f64, bandwidth: f64) -> Self {
        let nothing = || Table::unchecked(vec![(0.0, 0.0)]);
        let gap = Table::unchecked(vec![(0.0, 0.0), (1.0, 1.0 / bandwidth)]);
        Self { latency, send: nothing(), receive: nothing(), gap }
    }

    /// From g(0) and round trips in rising order of size, the first with 0 bytes: L = (RTT(0) - 2g(0))/2 and
    /// g(m) = RTT(m) - RTT(0) + g(0).
    pub fn solve(gap: f64, trips: &[RoundTrip]) -> Result<Self> {
        not_negative("the gap g(0)", gap)?;
        let Some(first) = trips.first() else { return Err(Error::NoPoints { what: "round trips" }) };
        if first.bytes != 0.0 {
            return Err(Error::Parameter { what: "the first round trip's size", value: first.bytes, needs: "0" });
        }
        let latency = (first.time - 2.0 * gap) / 2.0;
        let table = |what, value: &dyn Fn(&RoundTrip) -> f64| {
            Table::new(what, &trips.iter().map(|trip| (trip.bytes, value(trip))).collect::<Vec<_>>())
        };
        Self::new(
            latency,
            table("the send overhead os", &|trip| trip.send)?,
            table("the receive overhead or", &|trip| trip.receive)?,
            table("the gap g", &|trip| trip.time - first.time + gap)?,
        )
    }

    /// RTT(m): m bytes there and nothing back, L + g(m) + L + g(0).
    pub fn round_trip(&self, bytes: f64) -> f64 {
        2.0 * self.latency + self.gap.at(bytes) + self.gap.at(0.0)
    }

    /// As LogGP, table 1: L = L + g(1) - os(1) - or(1), o = (os(1) + or(1))/2, g = g(1), G = g(m)/m for a large m.
    pub fn to_loggp(&self, large: f64) -> Result<LogGP> {
        positive("the large size", large)?;
        let (send, receive, gap) = (self.send.at(1.0), self.receive.at(1.0), self.gap.at(1.0));
        LogGP::new(self.latency + gap - send - receive, (send + receive) / 2.0, gap, self.gap.at(large) / large)
    }
}
