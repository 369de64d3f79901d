//! Rows C09 to C12 and C24 of the P-LogP paper: its measurement, over synthetic links.
//!
//! Asserted are the procedure itself (which messages are sent, and when it ends), that parameters are recovered, that
//! noise does not cause extra sizes or knees, and that both protocol changes that the paper shows are found. C24 is a
//! measurement: the link here jumps where the paper's did, by synthetic amounts.

use crate::common::{near, within};
use treepie_model::Error;
use treepie_model::plogp::{MeasureConfig, PLogPMeasurement, Probe, measure};

type Function = fn(f64) -> f64;

/// A synthetic link with noise, and a log of its probes.
struct FakeLink {
    latency: f64,
    send: Function,
    receive: Function,
    gap: Function,
    /// Times are longer by up to this fraction.
    noise: f64,
    /// Messages in a row that are only buffered, for free.
    buffered: u64,
    seed: u64,
    message_trains: Vec<u64>,
    trips: Vec<u64>,
    /// Time of all probes, and how long they may take.
    elapsed: f64,
    budget: f64,
}

impl FakeLink {
    fn new(latency: f64, send: Function, receive: Function, gap: Function) -> Self {
        let (message_trains, trips, elapsed, budget) = (vec![], vec![], 0.0, f64::INFINITY);
        Self { latency, send, receive, gap, noise: 0.0, buffered: 0, seed: 1, message_trains, trips, elapsed, budget }
    }

    /// Uniform in [1, 1 + noise).
    fn noise_factor(&mut self) -> f64 {
        // Weyl sequence and a mixer (splitmix64).
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ self.seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        1.0 + self.noise * ((mixed ^ mixed >> 31) >> 11) as f64 / 2f64.powi(53)
    }

    fn measured(&mut self) -> PLogPMeasurement {
        measure(self, &MeasureConfig::default()).unwrap()
    }

    /// The number of round trips of a size.
    fn trips_of(&self, bytes: u64) -> usize {
        self.trips.iter().filter(|trip| **trip == bytes).count()
    }
}

impl Probe for FakeLink {
    type Error = Error;

    fn saturate(&mut self, messages: u64) -> Result<f64, Error> {
        self.message_trains.push(messages);
        let paid = messages.saturating_sub(self.buffered).max(1) as f64;
        let time = (2.0 * self.latency + (paid + 1.0) * (self.gap)(0.0)) * self.noise_factor();
        self.elapsed += time;
        Ok(time)
    }

    fn round_trip(&mut self, bytes: u64) -> Result<(f64, f64), Error> {
        self.trips.push(bytes);
        let size = bytes as f64;
        let time = 2.0 * self.latency + (self.gap)(size) + (self.gap)(0.0);
        let (send, time) = ((self.send)(size) * self.noise_factor(), time * self.noise_factor());
        self.elapsed += time;
        Ok((send, time))
    }

    fn delayed_recv(&mut self, bytes: u64, wait: f64) -> Result<f64, Error> {
        // A receive that starts too early also waits for the message.
        let late = (2.0 * self.latency + (self.gap)(bytes as f64) + (self.gap)(0.0) - wait).max(0.0);
        let time = late + (self.receive)(bytes as f64) * self.noise_factor();
        self.elapsed += wait + time;
        Ok(time)
    }

    fn has_time(&mut self, micros: f64) -> bool {
        self.elapsed + micros <= self.budget
    }
}

/// Linear curves of a local network.
fn lan() -> FakeLink {
    FakeLink::new(7.0, |m| 1.5 + 0.001 * m, |m| 2.5 + 0.002 * m, |m| 4.0 + 0.02 * m)
}

/// Linear curves of a wide-area link.
fn wan() -> FakeLink {
    FakeLink::new(10_000.0, |m| 12.0 + 0.002 * m, |m| 15.0 + 0.002 * m, |m| 40.0 + m)
}

#[test]
fn c09_parameters_are_recovered() {
    for mut network in [lan(), wan(), FakeLink::new(0.0, |_| 0.0, |_| 0.0, |m| 0.25 + 0.5 * m)] {
        let PLogPMeasurement { link, saturation, trips, .. } = network.measured();
        // The latency in the saturation test: by this much g(0) is too large, and L too small.
        let more = network.latency / saturation.messages as f64;
        within("C09", saturation.gap, (network.gap)(0.0) + more, 1e-9);
        assert!(saturation.converged && more <= 0.005 * (network.gap)(0.0), "C09: {saturation:?}");
        within("C09", link.latency, network.latency - more, 1e-9);
        for bytes in [0.0, 1.0, 77.0, 4096.0, 100_000.0, 262_144.0, 1e6] {
            near("C09", link.gap.at(bytes), (network.gap)(bytes) + more, 1e-9);
            near("C09", link.send_overhead.at(bytes), (network.send)(bytes), 1e-9);
            near("C09", link.recv_overhead.at(bytes), (network.receive)(bytes), 1e-9);
        }
        // Linear curves need only powers of two.
        let sizes: Vec<f64> = trips.iter().map(|trip| trip.bytes).collect();
        let powers: Vec<f64> = std::iter::once(0.0).chain((0..=18).map(|power| f64::from(1 << power))).collect();
        assert_eq!(sizes, powers, "C11");
    }
}

#[test]
fn c10_the_gap_of_empty_messages() {
    let rows = |mut network: FakeLink| {
        let saturation = network.measured().saturation;
        network.message_trains.dedup();
        assert_eq!(network.message_trains.last(), Some(&saturation.messages), "C10: of the most messages");
        (network.message_trains.clone(), saturation)
    };
    // Until RTT_1 = 22 is less than 1% of 14 + 4 (n + 1): the gap is the same long before.
    let (asked, saturation) = rows(lan());
    assert_eq!(asked, [1, 10, 20, 40, 80, 160, 320, 640], "C10");
    let all = |messages: f64| 14.0 + 4.0 * (messages + 1.0);
    assert!(22.0 < 0.01 * all(640.0) && 22.0 > 0.01 * all(320.0), "C10: so this is the first");
    within("C10: without half of RTT_1(0)", saturation.gap, (all(640.0) - 11.0) / 640.0, 1e-9);
    // The first 500 are only buffered: when the round trip, 120 us, has long become negligible, the gap still grows.
    let buffers = FakeLink { buffered: 500, ..FakeLink::new(0.0, |_| 1.0, |_| 1.0, |m| 60.0 + 0.1 * m) };
    let (asked, saturation) = rows(buffers);
    let gap = |messages: f64| ((messages - 500.0f64).max(1.0) * 60.0) / messages;
    let changes = |messages: f64| (gap(messages) / gap(messages / 2.0) - 1.0).abs();
    let first = asked.iter().skip(2).map(|messages| *messages as f64).find(|messages| changes(*messages) <= 0.01);
    assert_eq!(first, Some(saturation.messages as f64), "C10: until it changes by at most 1%");
    assert!(saturation.messages > 20_000, "C10: {saturation:?}");
    // Free messages never saturate a link; the maximum number ends the test.
    let (_, free) = rows(FakeLink::new(50.0, |_| 0.0, |_| 0.0, |m| 0.01 * m));
    assert_eq!((free.messages, free.converged), (10 << 16, false), "C10");
}

#[test]
fn c11_sizes() {
    // The slope changes only at 2^20, beyond the sizes measured at first.
    let mut growing = FakeLink::new(
        5.0,
        |_| 1.0,
        |_| 1.0,
        |m| if m <= 1_048_576.0 { 3.0 + 0.05 * m } else { 3.0 + 0.05 * 1_048_576.0 + 0.01 * (m - 1_048_576.0) },
    );
    // At 2^18 the curve is linear, and sizes do not grow.
    assert_eq!(growing.measured().trips.last().unwrap().bytes, 262_144.0, "C11");
    growing.gap = |m| if m <= 131_072.0 { 3.0 + 0.05 * m } else { 3.0 + 0.05 * 131_072.0 + 0.01 * (m - 131_072.0) };
    // With a bend at 2^17, 2^19 is on the line through 2^17 and 2^18 again.
    assert_eq!(growing.measured().trips.last().unwrap().bytes, 524_288.0, "C11");
    // A curve whose slope always grows is followed up to the maximum power.
    growing.gap = |m| 3.0 + 1e-6 * m * m;
    assert_eq!(growing.measured().trips.last().unwrap().bytes, f64::from(1 << 26), "C11");

    // Between sizes the error is at most 1%, wherever the curve bends.
    let bends: [Function; 3] = [
        |m| 10.0 + if m < 3000.0 { 0.01 * m } else { 30.0 + 0.08 * (m - 3000.0) },
        |m| 10.0 + if m < 70_000.0 { 0.1 * m } else { 7000.0 + 0.02 * (m - 70_000.0) },
        |m| 10.0 + 0.3 * m.sqrt(),
    ];
    for gap in bends {
        let mut network = FakeLink::new(100.0, |_| 1.0, |_| 1.0, gap);
        let PLogPMeasurement { link, trips, saturation, .. } = network.measured();
        let more = network.latency / saturation.messages as f64;
        assert_eq!(link.gap.knees().count(), 0, "C11: a bend is no jump");
        for step in 64..2600 {
            let size = f64::from(step) * 100.0;
            near("C11", link.gap.at(size), gap(size) + more, 0.011);
        }
        // A size that deviates from the prediction of the two before it is as close to them as sizes get.
        for three in trips.windows(3) {
            let [a, b, c] = [three[0], three[1], three[2]];
            let of = |size: f64| gap(size) + more;
            let predicted = of(b.bytes) + (of(b.bytes) - of(a.bytes)) / (b.bytes - a.bytes) * (c.bytes - b.bytes);
            let off = (of(c.bytes) - predicted).abs() > 0.01 * of(c.bytes);
            assert!(!off || c.bytes - b.bytes <= (0.01 * c.bytes).max(32.0), "C11: {a:?} {b:?} {c:?}");
        }
        assert!(trips.len() > 21 && trips.len() < 120, "C11: {} sizes", trips.len());
    }
    // The same for overheads.
    let mut network = FakeLink { send: |m| if m < 5000.0 { 5.0 + 0.01 * m } else { 55.0 }, ..lan() };
    let link = network.measured().link;
    (1..2600).for_each(|step| {
        let size = f64::from(step) * 100.0;
        near("C11: os", link.send_overhead.at(size), (network.send)(size), 0.011);
    });
}

#[test]
fn c12_repeats() {
    // So much noise that no number of trips suffices: 60 of small messages, 15 of large ones.
    let mut wild = FakeLink { noise: 3.0, ..wan() };
    let config = MeasureConfig::default();
    wild.measured();
    for power in 0..=18 {
        let most = if 1 << power >= config.large_bytes { 15 } else { 60 };
        assert_eq!(wild.trips_of(1 << power), most, "C12: 2^{power}");
    }
    assert_eq!(wild.message_trains.iter().filter(|messages| **messages == 1).count(), 60, "C12: RTT_1(0)");
    // No noise: the minimum.
    let mut quiet = lan();
    quiet.measured();
    assert!((0..=18).all(|power| quiet.trips_of(1 << power) == 5), "C12");
    // Little noise: some more, but not all. Uniform noise of up to 8% has a deviation of 2.2%, 1% of which needs some
    // 14.
    let mut little = FakeLink { noise: 0.08, ..lan() };
    little.measured();
    let trips: Vec<usize> = (0..16).map(|power| little.trips_of(1 << power)).collect();
    let mean = trips.iter().sum::<usize>() as f64 / trips.len() as f64;
    assert!((8.0..30.0).contains(&mean), "C12: {trips:?}");
}

#[test]
fn c12_noise_causes_no_sizes_or_knees() {
    let mut knees = 0;
    for seed in 1..=40 {
        let mut network = FakeLink { noise: 0.04, seed, ..lan() };
        let PLogPMeasurement { link, trips, .. } = network.measured();
        assert!(trips.len() <= 24, "C12 with seed {seed}: {} sizes", trips.len());
        knees += [&link.gap, &link.send_overhead, &link.recv_overhead]
            .map(|table| table.knees().count())
            .iter()
            .sum::<usize>();
        // The noise adds 2% on average.
        for bytes in [16_384.0, 100_000.0, 262_144.0] {
            near("C12", link.gap.at(bytes), 1.02 * (network.gap)(bytes), 0.03);
            near("C12", link.send_overhead.at(bytes), 1.02 * (network.send)(bytes), 0.03);
        }
    }
    // A measurement that stops when its interval is small sometimes stops at one that is small by chance.
    println!("C12: {knees} knees in 120 tables");
    assert!(knees <= 4, "C12: {knees} knees in 120 tables");
}

/// When the time is up, sizes stop growing, and what was measured stays usable.
#[test]
fn measurements_end_in_time() {
    let whole = wan().measured();
    assert!(whole.is_complete && whole.error == 0.0);
    let mut ends = Vec::new();
    for seconds in [0.5, 4.0, 8.0, 60.0] {
        let mut network = FakeLink { budget: seconds * 1e6, ..wan() };
        let measured = network.measured();
        // What is begun is completed: at most the fewest trips of empty messages are beyond the budget.
        assert!(network.elapsed <= network.budget.max(3e6), "{seconds} s: {} us", network.elapsed);
        if measured.trips.last().unwrap().bytes >= 64.0 {
            near("within the sizes", measured.link.gap.at(64.0), 104.0, 0.35);
        }
        ends.push((measured.trips.len(), measured.is_complete));
    }
    assert!(ends.is_sorted_by(|before, after| before.0 < after.0 || after.1), "{ends:?}");
    assert_eq!((ends[0].1, ends[3]), (false, (20, true)), "{ends:?}");
}

/// Where noise would take all of the time for short messages, long ones are measured nevertheless.
#[test]
fn noise_takes_no_time_from_long_messages() {
    for seed in 1..=20 {
        let mut network = FakeLink { noise: 0.3, seed, budget: 30e6, ..wan() };
        let PLogPMeasurement { link, trips, .. } = network.measured();
        assert!(trips.last().unwrap().bytes >= 262_144.0, "seed {seed}: up to {:?}", trips.last());
        near("of long messages", link.gap.at(262_144.0), 1.15 * 262_184.0, 0.15);
    }
}

/// On links without latency, and with gaps far below the noise of round trips, noise must not make times negative.
#[test]
fn c12_noise_is_not_refused() {
    for seed in 1..=40 {
        let near_by = FakeLink::new(0.0, |_| 0.1, |_| 0.1, |m| 2.0 + 0.001 * m);
        let link = FakeLink { noise: 0.3, seed, ..near_by }.measured().link;
        assert!(link.latency < 0.5, "C12 with seed {seed}: {}", link.latency);
        let far_away = FakeLink::new(1000.0, |_| 0.1, |_| 0.1, |m| 0.5 + 1e-6 * m);
        let link = FakeLink { noise: 0.3, seed, ..far_away }.measured().link;
        near("C12", link.latency, 1150.0, 0.05);
    }
}

/// Flow control stalls between 64 and 128 KB, and a rendezvous from there on, in which a send returns at once.
fn stalling() -> FakeLink {
    FakeLink::new(
        10_000.0,
        |m| if m > 131_072.0 { 30.0 } else { 12.0 + 0.02 * m.min(65_536.0) },
        |m| 15.0 + 0.002 * m,
        |m| {
            let wait = if m > 131_072.0 { 20_000.0 } else { 12_000.0 };
            40.0 + m + if m > 65_536.0 { wait } else { 0.0 }
        },
    )
}

#[test]
fn c24_changes_of_protocol_are_knees() {
    for noise in [0.0, 0.002] {
        let mut network = FakeLink { noise, ..stalling() };
        let link = network.measured().link;
        let knees = |table: &treepie_model::plogp::PiecewiseLinear| table.knees().collect::<Vec<_>>();
        let (gap, send) = (knees(&link.gap), knees(&link.send_overhead));
        println!("C24 with noise {noise}: gap {gap:?}, os {send:?}");
        assert_eq!((gap.len(), send.len(), knees(&link.recv_overhead).len()), (2, 1, 0), "C24: {gap:?} {send:?}");
        for (knee, size) in [(gap[0], 65_536.0), (gap[1], 131_072.0), (send[0], 131_072.0)] {
            near("C24", knee, size, 0.01);
        }
        // Both sides of a knee are exact: just before it and just after it.
        let share = 0.011 + 3.0 * noise;
        for knee in [gap[0], gap[1]] {
            near("C24: before", link.gap.at(knee), (network.gap)(0.99 * knee) + 0.01 * knee, share);
            near("C24: behind", link.gap.after(knee), (network.gap)(1.01 * knee) - 0.01 * knee, share);
        }
        near("C24: os before", link.send_overhead.at(send[0]), 12.0 + 0.02 * 65_536.0, share);
        near("C24: os behind", link.send_overhead.after(send[0]), 30.0, share);
        for size in [1000.0, 60_000.0, 80_000.0, 120_000.0, 140_000.0, 250_000.0] {
            near("C24: between", link.gap.at(size), (network.gap)(size), share);
        }
    }
}

#[test]
fn invalid_measurements_are_refused() {
    let refused = measure(&mut FakeLink::new(1.0, |_| f64::NAN, |_| 1.0, |_| 1.0), &MeasureConfig::default());
    assert_eq!(refused.unwrap_err().to_string(), "a measured time is NaN, and must be a non-negative number");
    let message = |config: MeasureConfig| measure(&mut lan(), &config).unwrap_err().to_string();
    let config = MeasureConfig { tolerance: 0.0, ..MeasureConfig::default() };
    assert_eq!(message(config), "the tolerance is 0, and must be a positive number");
    let config = MeasureConfig { max_large_trips: 0, ..MeasureConfig::default() };
    assert_eq!(message(config), "the number of round trips is 0, and must be a positive number");
    let config = MeasureConfig { max_power: 63, ..MeasureConfig::default() };
    assert_eq!(message(config), "the largest power of two is 63, and must be at most 40");
}
