//! Rows C08 to C12 of the P-LogP paper: its measurement, over messages of the simulator. Rows C13 and C14 are heights
//! of trees, which are not measured.

use std::cell::RefCell;

use treepie::simulate::{LogGP, Noise, Settings};
use treepie::{Comm, Network};
use treepie_model::plogp::{MeasureConfig, PLogPMeasurement, Probe, measure};
use treepie_tune::{Error, MessageProbe, Result, serve};

use crate::common::{LOGGP, near};

/// A probe and a log of what it was asked for.
struct Logged<'a, 'b> {
    probe: &'a mut MessageProbe<'b>,
    trains: Vec<u64>,
    trips: Vec<u64>,
}

impl Probe for Logged<'_, '_> {
    type Error = Error;

    fn saturate(&mut self, messages: u64) -> Result<f64> {
        self.trains.push(messages);
        self.probe.saturate(messages)
    }

    fn round_trip(&mut self, bytes: u64) -> Result<(f64, f64)> {
        self.trips.push(bytes);
        self.probe.round_trip(bytes)
    }

    fn delayed_recv(&mut self, bytes: u64, wait: f64) -> Result<f64> {
        self.probe.delayed_recv(bytes, wait)
    }
}

struct Log {
    measured: PLogPMeasurement,
    trains: Vec<u64>,
    trips: Vec<u64>,
    traffic: u64,
}

/// Rank 1 of a simulated network measures its link to rank 0.
fn probed(settings: &Settings, config: &MeasureConfig) -> Log {
    let log = RefCell::new(None);
    let program = |world: Comm| {
        if world.rank() == 0 {
            return Ok(serve(&world, 1)?);
        }
        let mut probe = MessageProbe::new(&world, 0);
        let mut logged = Logged { probe: &mut probe, trains: Vec::new(), trips: Vec::new() };
        let measured = measure(&mut logged, config)?;
        let (trains, trips) = (logged.trains, logged.trips);
        *log.borrow_mut() = Some(Log { measured, trains, trips, traffic: probe.traffic() });
        Ok(probe.finish()?)
    };
    treepie::simulate(&Network::flat(2), settings, program).unwrap();
    log.into_inner().expect("rank 1 has measured")
}

#[test]
fn c08_loggp_parameters_are_recovered() {
    let intrepid_like = LogGP { latency: 5.8, overhead: 2.6, gap: 4.4, per_byte: 0.004 };
    for truth in [LOGGP, intrepid_like] {
        let link = probed(&truth.into(), &MeasureConfig::default()).measured.link;
        let got = link.to_loggp(65_536.0).unwrap();
        near("C08: L", got.latency, truth.latency, 0.01);
        near("C08: o", got.overhead, truth.overhead, 0.01);
        near("C08: g", got.gap, truth.gap, 0.01);
        // g(m)/m has g(0)/m in it.
        near("C08: G", got.per_byte, truth.per_byte + truth.gap / 65_536.0, 0.01);
    }
}

#[test]
fn c09_parameters_are_recovered() {
    let Log { measured: PLogPMeasurement { link, saturation, error, is_complete, .. }, .. } =
        probed(&LOGGP.into(), &MeasureConfig::default());
    assert!(saturation.converged && is_complete && error < 0.01, "C09: {saturation:?} {error}");
    let LogGP { latency, overhead, gap, per_byte } = LOGGP;
    near("C09: L", link.latency, latency + 2.0 * overhead - gap, 0.01);
    // One byte is that of the latency. Above the eager limit there is a rendezvous.
    for bytes in [0.0f64, 1.0, 77.0, 4096.0, 40_000.0, 65_536.0] {
        near("C09: g", link.gap.at(bytes), gap + (bytes - 1.0).max(0.0) * per_byte, 0.01);
        near("C09: os", link.send_overhead.at(bytes), overhead, 0.01);
        // Every 256 KiB the receiver returns credit, by a message.
        near("C09: or", link.recv_overhead.at(bytes), overhead, if bytes <= 4096.0 { 0.01 } else { 0.34 });
    }
    // The announcement and its answer are a round trip of a short message.
    let rendezvous = 2.0 * (latency + 2.0 * overhead);
    for bytes in [70_000.0, 100_000.0, 262_144.0] {
        near("C09: g with a rendezvous", link.gap.at(bytes), gap + bytes * per_byte + rendezvous, 0.02);
    }
}

#[test]
fn c10_messages_in_a_row() {
    let Log { measured, mut trains, .. } = probed(&LOGGP.into(), &MeasureConfig::default());
    trains.dedup();
    let doubling = (0..trains.len() - 1).map(|power| 10 << power);
    assert!(trains.iter().copied().eq(std::iter::once(1).chain(doubling)), "C10: {trains:?}");
    // RTT_1 = 92 is less than 1% of 87 + 5 n from here on.
    let round_trip = 2.0 * (LOGGP.latency + 2.0 * LOGGP.overhead);
    let all = |messages: u64| round_trip + LOGGP.gap * (messages - 1) as f64;
    let first = trains[1..].iter().copied().find(|messages| round_trip < 0.01 * all(*messages));
    assert_eq!((first, measured.saturation.converged), (Some(measured.saturation.messages), true), "C10");
    assert_eq!(measured.saturation.messages, 2560, "C10");
}

#[test]
fn c11_sizes() {
    let Log { measured, trips, traffic, .. } = probed(&LOGGP.into(), &MeasureConfig::default());
    let sizes: Vec<u64> = measured.trips.iter().map(|trip| trip.bytes as u64).collect();
    let is_expected = |size: u64| size == 0 || size.is_power_of_two() || (65_536..131_072).contains(&size);
    assert!(sizes.iter().all(|size| is_expected(*size)), "C11: only the rendezvous is no line: {sizes:?}");
    let knees: Vec<f64> = measured.link.gap.knees().collect();
    assert!(matches!(knees[..], [knee] if (65_536.0..66_200.0).contains(&knee)), "C11: {knees:?}");
    // Both round trips have the data once. Each change of the size is told to the mirror, and so are nine numbers of
    // messages.
    let changes = 1 + trips.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let commands = 8 * (changes + 9);
    assert_eq!(traffic, 2 * trips.iter().sum::<u64>() + commands as u64, "C11: {sizes:?}");
}

#[test]
fn c12_repeats() {
    let config = MeasureConfig { max_power: 18, ..MeasureConfig::default() };
    let count = |log: &Log, bytes: u64| log.trips.iter().filter(|trip| **trip == bytes).count();
    let quiet = probed(&LOGGP.into(), &config);
    let fewest: Vec<usize> = (0..=18).map(|power| count(&quiet, 1 << power)).collect();
    // Of these, every eighth and every fourth message returns credit; longer ones need none.
    assert_eq!(fewest, [vec![5; 15], vec![60, 15], vec![5; 2]].concat(), "C12");
    // Delays of up to ten round trips: no number of trips suffices.
    let noise = Noise { seed: 3, jitter: 1000.0, ..Noise::default() };
    let wild = probed(&Settings { noise, ..LOGGP.into() }, &config);
    assert_eq!([1, 1024, 32_768].map(|bytes| count(&wild, bytes)), [60; 3], "C12: small messages");
    assert_eq!([65_536, 262_144].map(|bytes| count(&wild, bytes)), [15; 2], "C12: large messages");
    assert_eq!(wild.trains.iter().filter(|messages| **messages == 1).count(), 60, "C12: RTT_1(0)");
    assert!(wild.measured.error > 0.05, "C12: {}", wild.measured.error);
}
