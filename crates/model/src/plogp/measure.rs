//! P-LogP measurement of a link: g(0) by saturation with many messages, all else by round trips of a few sizes.
//! [P-LogP paper 2.2]
//!
//! This is the procedure alone, without a clock or messages: the caller implements [`Probe`], and a test can be a
//! network itself. Links are assumed to be symmetric; each direction of an asymmetric link is measured separately, with
//! *measure* and *mirror* exchanged.
//!
//! Three things are not in the paper. All sizes get a few round trips first, and then more of them in turn: if the time
//! is up, each is known about equally well, and none is missing. A deviation counts only if it exceeds what the
//! confidence intervals explain; otherwise noise would be bisected. And jumps that remain between the closest sizes
//! become knees of the curves, as lines across them would be wrong on both sides.

use super::curve::{Point, can_bisect, deviates, fit_curve};
use super::measure_config::MeasureConfig;
use super::samples::Samples;
use super::{PLogP, RoundTrip};
use crate::error::not_negative;

/// Two processes that exchange messages, seen from the one that measures. Times are microseconds.
pub trait Probe {
    /// Error of the transport, or of the measured values.
    type Error: From<crate::Error>;

    /// RTT_n(0): n empty messages in a row, and one empty reply to the last.
    fn saturate(&mut self, messages: u64) -> Result<f64, Self::Error>;

    /// The first round trip: a message of `bytes` and an empty reply. Returns the time of the send, and of the round
    /// trip.
    fn round_trip(&mut self, bytes: u64) -> Result<(f64, f64), Self::Error>;

    /// The second round trip: an empty message; wait until the reply has arrived; then receive its `bytes`. Returns the
    /// time of the receive.
    fn delayed_recv(&mut self, bytes: u64, wait: f64) -> Result<f64, Self::Error>;

    /// Whether the measurement may take this much more time. If not, it ends with the sizes that it has.
    fn has_time(&mut self, micros: f64) -> bool {
        let _ = micros;
        true
    }
}

/// g(0), and how it was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// Microseconds per message.
    pub gap: f64,
    /// Number of messages in a row.
    pub messages: u64,
    /// Whether the criteria were met before the maximum number of messages.
    pub converged: bool,
}

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct PLogPMeasurement {
    /// The link's parameters, with knees.
    pub link: PLogP,
    /// g(0).
    pub saturation: Saturation,
    /// The means of all sizes, in increasing order.
    pub trips: Vec<RoundTrip>,
    /// The half width of the 90% confidence interval of a round trip, relative to it; the largest of all sizes.
    pub error: f64,
    /// Whether all sizes were measured that the criteria ask for; if not, there was no time for them.
    pub is_complete: bool,
}

/// Measures the P-LogP parameters of a link.
pub fn measure<P: Probe>(probe: &mut P, config: &MeasureConfig) -> Result<PLogPMeasurement, P::Error> {
    let config = &config.validated()?;
    let mut saturation = measure_saturation(probe, config)?;
    let (mut sizes, mut is_complete) = (vec![SizeSamples::few(probe, config, 0)?], true);
    for power in 0..=config.min_power {
        is_complete = has_time_for(probe, config, &sizes, 1 << power);
        if !is_complete {
            break;
        }
        sizes.push(SizeSamples::few(probe, config, 1 << power)?);
    }
    refine(probe, config, &mut sizes, BISECTED_SIZES)?;
    // With hardly any latency, noise could make it negative.
    let empty = sizes[0].time.mean();
    saturation.gap = saturation.gap.min(empty / 2.0);
    let curves = CurveBuilder { shift: saturation.gap - empty };
    for power in config.min_power + 1..=config.max_power {
        if !is_complete || !deviates(&curves.gap(&sizes), sizes.len() - 1, config) {
            break;
        }
        is_complete = has_time_for(probe, config, &sizes, 1 << power);
        if is_complete {
            sizes.push(measure_size(probe, config, 1 << power)?);
        }
    }
    let mut at = 2;
    while at < sizes.len() {
        let (before, here) = (sizes[at - 1].bytes, sizes[at].bytes);
        let middle = before + (here - before) / 2;
        let deviates_here =
            can_bisect(before, here, config) && curves.all(&sizes).iter().any(|points| deviates(points, at, config));
        let has_time = !deviates_here || has_time_for(probe, config, &sizes[..=at], middle);
        is_complete &= has_time;
        if deviates_here && has_time {
            // Check the new size next, and then this one again against it.
            sizes.insert(at, measure_size(probe, config, middle)?);
        } else {
            at += 1;
        }
    }
    let [gap, send, receive] = curves.all(&sizes);
    let link = PLogP::new(
        (sizes[0].time.mean() - 2.0 * saturation.gap) / 2.0,
        fit_curve("the send overhead os", &send, config)?,
        fit_curve("the receive overhead or", &receive, config)?,
        fit_curve("the gap g", &gap, config)?,
    )?;
    let error = sizes.iter().map(|size| size.time.relative_error()).fold(0.0, f64::max);
    let trips = sizes.iter().map(SizeSamples::trip).collect();
    Ok(PLogPMeasurement { link, saturation, trips, error, is_complete })
}

/// Whether there is time for the fewest trips of a size, given those measured before: both round trips, and the wait of
/// the second.
fn has_time_for<P: Probe>(probe: &mut P, config: &MeasureConfig, sizes: &[SizeSamples], bytes: u64) -> bool {
    let (empty, last) = (&sizes[0], &sizes[sizes.len() - 1]);
    let more_per_byte = (last.time.mean() - empty.time.mean()).max(0.0) / last.bytes.max(1) as f64;
    let trip = empty.time.mean() + more_per_byte * bytes as f64;
    probe.has_time(f64::from(config.trips(bytes).0) * TRIPS_TIME * trip)
}

/// Saturation continues while there is time for as many times the next number of messages, so that some is left for
/// sizes.
const SATURATION_TIME: f64 = 5.0;

/// The time of both round trips, as a multiple of the first.
const TRIPS_TIME: f64 = 1.0 + WAIT_FACTOR;

/// The second round trip waits for this multiple of the first: enough for a reply that is late.
const WAIT_FACTOR: f64 = 1.5;

/// g(0): n = 1, 10, then doubling, until the gap is stable and the round trip is negligible.
fn measure_saturation<P: Probe>(probe: &mut P, config: &MeasureConfig) -> Result<Saturation, P::Error> {
    let mut one = Samples::default();
    while needs_more_trips(&[&one], config, 0, 0.0) && (one.count() < config.min_trips || probe.has_time(one.mean())) {
        one.push(require_time(probe.saturate(1)?)?);
    }
    let reply = one.mean() / 2.0;
    let (mut messages, mut gap) = (10, one.mean() - reply);
    loop {
        let all = require_time(probe.saturate(messages)?)?;
        let before = gap;
        gap = ((all - reply) / messages as f64).max(0.0);
        let converged = (gap - before).abs() <= config.tolerance * before && one.mean() < config.tolerance * all;
        if converged || 2 * messages > config.max_messages || !probe.has_time(SATURATION_TIME * 2.0 * all) {
            return Ok(Saturation { gap, messages, converged });
        }
        messages *= 2;
    }
}

/// Sizes between powers of two for whose fewest trips time is left: those that lead to two jumps.
const BISECTED_SIZES: u32 = 24;

/// More round trips of all sizes in turn, doubling those of a size at a time, until their means have converged, the
/// maximum numbers are reached, or the time is needed for the fewest trips of this number of other sizes.
fn refine<P: Probe>(
    probe: &mut P,
    config: &MeasureConfig,
    sizes: &mut [SizeSamples],
    others: u32,
) -> Result<(), P::Error> {
    let reserved = f64::from(others * config.min_trips) * sizes[0].time.mean();
    let mut is_done = false;
    while !is_done {
        is_done = true;
        for size in sizes.iter_mut().filter(|size| size.needs_more_trips(config)) {
            // Another size takes a round trip of its own.
            let more = size.time.count();
            for _ in 0..more {
                if !probe.has_time(TRIPS_TIME * (size.time.mean() + reserved)) {
                    return Ok(());
                }
                size.add(probe)?;
                is_done = false;
                if !size.needs_more_trips(config) {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Both round trips of a size, until their means have converged, the maximum number is reached, or the time is up.
fn measure_size<P: Probe>(probe: &mut P, config: &MeasureConfig, bytes: u64) -> Result<SizeSamples, P::Error> {
    let mut size = SizeSamples::few(probe, config, bytes)?;
    refine(probe, config, std::slice::from_mut(&mut size), 0)?;
    Ok(size)
}

fn require_time(time: f64) -> crate::Result<f64> {
    not_negative("a measured time", time)?;
    Ok(time)
}

/// Whether another trip of this size is needed. Uncertainties of less than `negligible` do not count.
fn needs_more_trips(samples: &[&Samples], config: &MeasureConfig, bytes: u64, negligible: f64) -> bool {
    let (count, (min_trips, max_trips)) = (samples[0].count(), config.trips(bytes));
    let is_uncertain =
        |samples: &&Samples| samples.confidence_half_width() > (config.tolerance * samples.mean()).max(negligible);
    count < min_trips || count < max_trips && samples.iter().any(is_uncertain)
}

/// Over a wide area overheads need not be known to a percent of themselves: their noise on a machine with other work
/// would take all of the time. The tolerance of the tolerance of a round trip is enough.
fn negligible(config: &MeasureConfig, round_trip: f64) -> f64 {
    config.tolerance * config.tolerance * round_trip
}

/// Samples of one size.
#[derive(Clone, Copy, Debug, Default)]
struct SizeSamples {
    bytes: u64,
    time: Samples,
    send: Samples,
    receive: Samples,
}

impl SizeSamples {
    /// The fewest round trips of a size.
    fn few<P: Probe>(probe: &mut P, config: &MeasureConfig, bytes: u64) -> Result<Self, P::Error> {
        let mut size = Self { bytes, ..Self::default() };
        for _ in 0..config.trips(bytes).0 {
            size.add(probe)?;
        }
        Ok(size)
    }

    /// Adds both round trips.
    fn add<P: Probe>(&mut self, probe: &mut P) -> Result<(), P::Error> {
        let (send, time) = probe.round_trip(self.bytes)?;
        self.send.push(require_time(send)?);
        self.time.push(require_time(time)?);
        self.receive.push(require_time(probe.delayed_recv(self.bytes, WAIT_FACTOR * time)?)?);
        Ok(())
    }

    fn needs_more_trips(&self, config: &MeasureConfig) -> bool {
        let negligible = negligible(config, self.time.mean());
        needs_more_trips(&[&self.time, &self.send, &self.receive], config, self.bytes, negligible)
    }

    fn trip(&self) -> RoundTrip {
        let Self { bytes, time, send, receive } = self;
        RoundTrip { bytes: *bytes as f64, time: time.mean(), send_overhead: send.mean(), recv_overhead: receive.mean() }
    }
}

/// Curves computed from the samples.
struct CurveBuilder {
    /// g(0) - RTT(0): from a round trip to its gap.
    shift: f64,
}

impl CurveBuilder {
    fn gap(&self, sizes: &[SizeSamples]) -> Vec<Point> {
        // Larger messages may seem faster than empty ones.
        let gap = |size: &SizeSamples| {
            Point::new(size.bytes, (size.time.mean() + self.shift).max(0.0), size.time.confidence_half_width())
        };
        sizes.iter().map(gap).collect()
    }

    /// Gap, send and receive overhead.
    fn all(&self, sizes: &[SizeSamples]) -> [Vec<Point>; 3] {
        let of = |samples: fn(&SizeSamples) -> Samples| {
            let point = |size: &SizeSamples| {
                Point::new(size.bytes, samples(size).mean(), samples(size).confidence_half_width())
            };
            sizes.iter().map(point).collect()
        };
        [self.gap(sizes), of(|size| size.send), of(|size| size.receive)]
    }
}
