//! P-LogP parameters of a link, from measured round trips, and as LogGP.   [P-LogP paper 2.1, 2.2]

use super::PiecewiseLinear;
use crate::error::{not_negative, positive};
use crate::{Error, LogGP, Result};

/// A large message: its gap is that of its bytes.
pub(crate) const LARGE: f64 = (1 << 20) as f64;

/// The P-LogP parameters of a link, or of all links of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct PLogP {
    /// L: end-to-end latency.
    pub latency: f64,
    /// os(m): send overhead, CPU time of the sender.
    pub send_overhead: PiecewiseLinear,
    /// or(m): receive overhead, CPU time of the receiver.
    pub recv_overhead: PiecewiseLinear,
    /// g(m): gap, minimum interval between two messages over the link.
    pub gap: PiecewiseLinear,
}

/// Measurements of one size: the round trip of m bytes and an empty reply, the send time, and the time of a receive of
/// m bytes that had already arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// m.
    pub bytes: f64,
    /// RTT(m).
    pub time: f64,
    /// os(m).
    pub send_overhead: f64,
    /// or(m).
    pub recv_overhead: f64,
}

impl PLogP {
    /// Refuses an invalid latency; the curves are valid already.
    pub fn new(
        latency: f64,
        send_overhead: PiecewiseLinear,
        recv_overhead: PiecewiseLinear,
        gap: PiecewiseLinear,
    ) -> Result<Self> {
        not_negative("the latency L", latency)?;
        Ok(Self { latency, send_overhead, recv_overhead, gap })
    }

    /// A link with a bandwidth in bytes per microsecond, and a constant overhead at both ends.
    pub fn linear(latency: f64, overhead: f64, bandwidth: f64) -> Result<Self> {
        positive("the bandwidth", bandwidth)?;
        let busy = |what| PiecewiseLinear::constant(what, overhead);
        let gap = PiecewiseLinear::linear("the gap g", overhead, 1.0 / bandwidth)?;
        Self::new(latency, busy("the send overhead os")?, busy("the receive overhead or")?, gap)
    }

    /// Bytes per microsecond of large messages.
    pub fn bandwidth(&self) -> f64 {
        LARGE / (self.gap.at(LARGE) - self.gap.at(0.0)).max(f64::MIN_POSITIVE)
    }

    /// A link with only a latency and a bandwidth in bytes per microsecond. Not validated: the user of the curves must
    /// refuse impossible times.
    pub fn from_latency_bandwidth(latency: f64, bandwidth: f64) -> Self {
        let zero = || PiecewiseLinear::new_unchecked(vec![(0.0, 0.0)]);
        let gap = PiecewiseLinear::new_unchecked(vec![(0.0, 0.0), (1.0, 1.0 / bandwidth)]);
        Self { latency, send_overhead: zero(), recv_overhead: zero(), gap }
    }

    /// From g(0) and round trips in increasing order of size, the first with 0 bytes: L = (RTT(0) - 2g(0))/2 and g(m) =
    /// RTT(m) - RTT(0) + g(0).
    pub fn from_round_trips(gap: f64, trips: &[RoundTrip]) -> Result<Self> {
        not_negative("the gap g(0)", gap)?;
        let Some(first) = trips.first() else { return Err(Error::NoPoints { what: "round trips" }) };
        if first.bytes != 0.0 {
            return Err(Error::Parameter { what: "the first round trip's size", value: first.bytes, needs: "0" });
        }
        let latency = (first.time - 2.0 * gap) / 2.0;
        let curve = |what, value: &dyn Fn(&RoundTrip) -> f64| {
            PiecewiseLinear::new(what, &trips.iter().map(|trip| (trip.bytes, value(trip))).collect::<Vec<_>>())
        };
        Self::new(
            latency,
            curve("the send overhead os", &|trip| trip.send_overhead)?,
            curve("the receive overhead or", &|trip| trip.recv_overhead)?,
            curve("the gap g", &|trip| trip.time - first.time + gap)?,
        )
    }

    /// RTT(m): round trip of m bytes and an empty reply, L + g(m) + L + g(0).
    pub fn round_trip_time(&self, bytes: f64) -> f64 {
        2.0 * self.latency + self.gap.at(bytes) + self.gap.at(0.0)
    }

    /// As LogGP, table 1: L = L + g(1) - os(1) - or(1), o = (os(1) + or(1))/2, g = g(1), G = g(m)/m for a large m.
    pub fn to_loggp(&self, large: f64) -> Result<LogGP> {
        positive("the large size", large)?;
        let (send, receive, gap) = (self.send_overhead.at(1.0), self.recv_overhead.at(1.0), self.gap.at(1.0));
        LogGP::new(self.latency + gap - send - receive, (send + receive) / 2.0, gap, self.gap.at(large) / large)
    }
}
