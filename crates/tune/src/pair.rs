//! The link between two ranks, in both directions.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use treepie_comm::{Comm, Rank};
use treepie_model::PLogP;
use treepie_model::plogp::{self, PiecewiseLinear, Probe};

use crate::{Error, MessageProbe, Result, TuneConfig, serve};

/// Trips of each size by which directions are compared.
const COMPARED_TRIPS: u32 = 2;

/// The same if they take less than a millisecond: those are easily disturbed.
const COMPARED_SHORT_TRIPS: u32 = 6;
const SHORT_TRIP: f64 = 1000.0;

/// One direction of a link, as messages carry it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Direction {
    latency: f64,
    send_overhead: Vec<(f64, f64)>,
    recv_overhead: Vec<(f64, f64)>,
    gap: Vec<(f64, f64)>,
    largest_size: u64,
    error: f64,
    is_complete: bool,
    measured_bytes: u64,
    saturating_bytes: u64,
}

/// What was measured of a link.
pub(crate) struct PairMeasurement {
    pub(crate) link: PLogP,
    pub(crate) reverse: Option<PLogP>,
    pub(crate) error: f64,
    pub(crate) is_complete: bool,
    pub(crate) measured_bytes: u64,
    pub(crate) saturating_bytes: u64,
}

/// Measures the link between two ranks. Collective: all others wait, and all ranks get the same.
pub(crate) fn measure_pair(comm: &Comm, (low, high): (Rank, Rank), config: &TuneConfig) -> Result<PairMeasurement> {
    // Clocks of ranks differ, but not their durations.
    let end = comm.now() + config.budget;
    let (there, mut traffic) = on_pair(comm, (low, high), |probe| compared_trips(probe, config))?;
    let (back, more) = on_pair(comm, (high, low), |probe| compared_trips(probe, config))?;
    traffic += more;
    let is_symmetric = !differ(&there, &back, config.asymmetry);
    let measure = |pair, share: f64| {
        let left = end.saturating_sub(comm.now()).mul_f64(share);
        on_pair(comm, pair, |probe| {
            probe.set_deadline(comm.now() + left);
            Direction::measure(probe, config)
        })
    };
    let forward = measure((low, high), if is_symmetric { 1.0 } else { 0.5 })?;
    let reverse = if is_symmetric { None } else { Some(measure((high, low), 1.0)?) };
    let (link, reverse_link) = (forward.link()?, reverse.as_ref().map(Direction::link).transpose()?);
    let all = || [Some(&forward), reverse.as_ref()].into_iter().flatten();
    Ok(PairMeasurement {
        error: all().map(|direction| direction.error).fold(0.0, f64::max),
        is_complete: all().all(|direction| direction.is_complete),
        measured_bytes: traffic + all().map(|direction| direction.measured_bytes).sum::<u64>(),
        saturating_bytes: all().map(|direction| direction.saturating_bytes).sum(),
        reverse: reverse_link.map(|reverse| PLogP { latency: link.latency, ..reverse }),
        link,
    })
}

/// Times of the send and of the round trip of a few sizes, the first of them 0.
type ComparedTrips = Vec<(f64, f64)>;

/// Trips by which directions are compared, and the bytes that this took.
fn compared_trips(probe: &mut MessageProbe<'_>, config: &TuneConfig) -> Result<(ComparedTrips, u64)> {
    let power = config.plogp.min_power;
    let sizes = [0, 1 << power.saturating_sub(4), 1 << power];
    // What disturbs a trip only makes it longer.
    let fastest_trip = |bytes| {
        let mut fastest = probe.round_trip(bytes)?;
        let more = if fastest.1 < SHORT_TRIP { COMPARED_SHORT_TRIPS } else { COMPARED_TRIPS } - 1;
        for _ in 0..more {
            let trip = probe.round_trip(bytes)?;
            fastest = (fastest.0.min(trip.0), fastest.1.min(trip.1));
        }
        Ok(fastest)
    };
    let trips = sizes.into_iter().map(fastest_trip).collect::<Result<_>>()?;
    Ok((trips, probe.traffic()))
}

/// Whether a message takes longer in one direction than in the other, by more than a fraction of its time.
fn differ(there: &[(f64, f64)], back: &[(f64, f64)], asymmetry: f64) -> bool {
    let one_way = |trips: &[(f64, f64)], index: usize| trips[index].1 - trips[0].1 / 2.0;
    (1..there.len()).any(|index| {
        let (a, b) = (there[index], back[index]);
        let allowed = asymmetry * one_way(there, index).min(one_way(back, index)).max(0.0);
        (a.0 - b.0).abs() > allowed || (a.1 - b.1).abs() > allowed
    })
}

/// Probes a pair of ranks while all others wait; all ranks get the result. If the link cannot be measured, all get an
/// error.
pub(crate) fn on_pair<T: Serialize + DeserializeOwned>(
    comm: &Comm,
    (measuring, mirror): (Rank, Rank),
    measure: impl FnOnce(&mut MessageProbe<'_>) -> Result<T>,
) -> Result<T> {
    let outcome = (comm.rank() == measuring).then(|| {
        let mut probe = MessageProbe::new(comm, mirror);
        let measured = measure(&mut probe);
        // The mirror must learn of the end in any case.
        let finished = probe.finish();
        measured.and_then(|value| finished.map(|()| value))
    });
    let served = if comm.rank() == mirror { serve(comm, measuring) } else { Ok(()) };
    let (outcome, failure) = match outcome {
        None => (None, served.err()),
        Some(Ok(value)) => (Some(Ok(value)), None),
        Some(Err(error)) => (Some(Err(error.to_string())), Some(error)),
    };
    let shared: treepie_comm::Result<std::result::Result<T, String>> = comm.bcast_object(outcome, measuring);
    match (failure, shared) {
        (Some(error), _) => Err(error),
        (None, Ok(Ok(value))) => Ok(value),
        (None, Ok(Err(reason))) => Err(Error::Link { rank: measuring, peer: mirror, reason }),
        (None, Err(error)) => Err(error.into()),
    }
}

impl Direction {
    fn measure(probe: &mut MessageProbe<'_>, config: &TuneConfig) -> Result<Self> {
        let measured = plogp::measure(probe, &config.plogp)?;
        let PLogP { latency, send_overhead, recv_overhead, gap } = measured.link;
        let all_sizes: f64 = measured.trips.iter().map(|trip| trip.bytes).sum();
        Ok(Self {
            latency,
            send_overhead: send_overhead.points().to_vec(),
            recv_overhead: recv_overhead.points().to_vec(),
            gap: gap.points().to_vec(),
            largest_size: measured.trips.last().map_or(0, |trip| trip.bytes as u64),
            // A single trip has no interval.
            error: measured.error.min(1.0),
            is_complete: measured.is_complete,
            measured_bytes: probe.traffic(),
            saturating_bytes: all_sizes as u64 * measured.saturation.messages,
        })
    }

    fn link(&self) -> Result<PLogP> {
        Ok(PLogP::new(
            self.latency,
            PiecewiseLinear::new("the send overhead os", &self.send_overhead)?,
            PiecewiseLinear::new("the receive overhead or", &self.recv_overhead)?,
            PiecewiseLinear::new("the gap g", &self.gap)?,
        )?)
    }
}
