//! A rank that is lost ends the measurement with an error on all others, and no rank waits for ever: the simulator
//! would report a deadlock.

use treepie::simulate::{Noise, Settings};
use treepie::{Comm, Error, Network};
use treepie_model::plogp::{MeasureConfig, Probe, measure as measure_link};
use treepie_tune::{MessageProbe, TuneConfig, measure, serve};

use crate::common::{LOGGP, clusters, measured_with};

#[test]
fn a_dying_rank_is_an_error_at_any_time() {
    let network: Network = "clusters:2+2".parse().unwrap();
    let quiet = clusters(2, 1000.0, 5.0);
    let config = TuneConfig::default();
    let end = 1e6 * measured_with(&network, &quiet, &config).unwrap().1;
    for victim in [0, 1, 3] {
        for step in 0..8 {
            let at = end * (0.001 + 0.12 * f64::from(step));
            let noise = Noise { failures: vec![(victim, at)], ..Noise::default() };
            let settings = Settings { noise, ..quiet.clone() };
            let program = |world: Comm| Ok(measure(&world, &config).map(drop));
            let simulated = treepie::simulate(&network, &settings, program).unwrap();
            for (rank, result) in simulated.results.iter().enumerate() {
                assert_eq!(result.is_none(), rank == victim as usize, "rank {rank}");
                // An error that all ranks see is one of messages.
                assert!(!matches!(result, Some(Ok(()))), "rank {rank}: {victim} failed at {at} of {end} us");
            }
        }
    }
}

#[test]
fn probes_and_mirrors_end_with_their_peers() {
    for victim in [0, 1] {
        for at in [50.0, 1000.0, 20_000.0] {
            let noise = Noise { failures: vec![(victim, at)], ..Noise::default() };
            let program = |world: Comm| {
                if world.rank() == 0 {
                    return Ok(serve(&world, 1));
                }
                let mut probe = MessageProbe::new(&world, 0);
                Ok(measure_link(&mut probe, &MeasureConfig::default()).map(drop))
            };
            let simulated = treepie::simulate(&Network::flat(2), &Settings { noise, ..LOGGP.into() }, program).unwrap();
            let lost = treepie_tune::Error::Comm(Error::PeerLost { rank: victim as usize });
            assert_eq!(simulated.results[1 - victim as usize], Some(Err(lost)), "{victim} at {at} us");
        }
    }
}

/// A rank that returns an error instead of measuring.
#[test]
fn a_rank_that_does_not_take_part_is_an_error() {
    for absent in 0..3 {
        let program = |world: Comm| {
            if world.rank() == absent {
                return Err(Error::Program("this rank does not measure".to_owned()));
            }
            let measured = measure(&world, &TuneConfig::default());
            assert!(measured.is_err(), "rank {}: {measured:?}", world.rank());
            Ok(())
        };
        let error = treepie::simulate(&Network::flat(3), &LOGGP.into(), program).unwrap_err();
        assert_eq!(error.to_string(), format!("rank {absent}: this rank does not measure"));
    }
}

/// A probe that is dropped in the middle ends its mirror.
#[test]
fn a_dropped_probe_ends_its_mirror() {
    let program = |world: Comm| {
        if world.rank() == 0 {
            serve(&world, 1)?;
        } else {
            MessageProbe::new(&world, 0).round_trip(100)?;
        }
        world.barrier()
    };
    treepie::simulate(&Network::flat(2), &LOGGP.into(), program).unwrap();
}
