//! Profiles of simulated networks with known parameters.

use std::time::Duration;

use treepie::simulate::{ClusterCosts, Handshake, LinkCosts, Noise, Settings, WanLink, WanLinks};
use treepie::{Comm, Network};
use treepie_model::Profile;
use treepie_model::profile::PairFactors;
use treepie_tune::{Error, TuneConfig, measure, measure_links, refine};

use crate::common::{LOGGP, clusters, lan, measured, measured_with, near};

/// At most this part of the bytes that saturating each size takes.
const MAX_LINK_USE: f64 = 0.15;

#[track_caller]
fn assert_link_use(profile: &Profile) {
    for level in &profile.levels {
        let share = level.measured_bytes as f64 / level.saturating_bytes as f64;
        assert!(share > 0.0 && share <= MAX_LINK_USE, "{}: {share}", level.name);
    }
}

#[test]
fn loggp() {
    let settings = Settings {
        gamma: 0.02,
        barrier_time: 7.0,
        handshake: Handshake::Latency { latency: 60.0, below: f64::INFINITY },
        ..Settings::from(LOGGP)
    };
    for ranks in [2, 5] {
        let (profile, seconds) = measured(&format!("flat:{ranks}"), &settings);
        let got = profile.link().to_loggp(65_536.0).unwrap();
        near("L", got.latency, LOGGP.latency, 0.01);
        near("o", got.overhead, LOGGP.overhead, 0.01);
        near("g", got.gap, LOGGP.gap, 0.01);
        near("G", got.per_byte, LOGGP.per_byte + LOGGP.gap / 65_536.0, 0.01);
        near("gamma", profile.reduce_per_byte, 0.02, 0.01);
        near("barrier", profile.barrier.unwrap(), 7.0, 0.01);
        near("synchronous", profile.synchronous.latency, 60.0, 0.01);
        near("eager limit", profile.synchronous.vanishes_at, 65_536.0, 0.0);
        assert_eq!((profile.levels.len(), &profile.levels[0].groups, &profile.levels[0].reverse), (1, &vec![], &None));
        assert_eq!((profile.origin.engine.as_str(), profile.origin.ranks, profile.origin.cores), ("sim", ranks, 0));
        assert!(profile.levels[0].is_complete && profile.scheduling == 0.0 && profile.shared_segment.is_none());
        assert!(seconds < 1.0, "{seconds} s");
        assert_link_use(&profile);
    }
}

/// A default of another machine becomes that of the simulated one, in the time of a few messages.
#[test]
fn a_default_is_refined() {
    let settings = Settings { gamma: 0.02, ..Settings::from(LOGGP) };
    let simulated = treepie::simulate(&Network::flat(5), &settings, |world: Comm| {
        Ok(refine(&world, &Profile::default_for("mpi"))?)
    });
    let simulated = simulated.unwrap();
    assert!(simulated.micros() < 10_000.0, "{} us", simulated.micros());
    let profiles = simulated.into_results();
    assert!(profiles.windows(2).all(|two| two[0] == two[1]), "all ranks get the same profile");
    let link = profiles[0].link();
    // Half a round trip, whatever of it is latency.
    let expected = LOGGP.latency + 2.0 * LOGGP.overhead;
    near("an empty message", link.latency + link.gap.at(0.0), expected, 0.01);
    let of_bytes = link.gap.at(65_536.0) - link.gap.at(0.0);
    near("bytes", of_bytes, 65_536.0 * LOGGP.per_byte, 0.05);
    near("gamma", profiles[0].reduce_per_byte, 0.02, 0.01);
    let parsed = Profile::parse(&profiles[0].to_toml()).unwrap();
    assert_eq!(parsed.origin, profiles[0].origin);
}

#[test]
fn links() {
    let (alpha, delta) = (6.0, 1.0 / 375.0);
    let (profile, _) = measured("torus:4x2", &Settings::from(LinkCosts::new(alpha, delta)));
    assert_eq!(profile.levels.len(), 1);
    let link = profile.link();
    for bytes in [0.0, 1000.0, 8192.0, 65_536.0] {
        near("a message", link.latency + link.gap.at(bytes), alpha + bytes * delta, 0.01);
    }
    assert_link_use(&profile);
}

/// The time of a message between clusters: to the gateway, over the link, and from the other gateway.
fn wan_message(bytes: f64, wan: WanLink) -> f64 {
    let lan = lan();
    2.0 * lan.latency + lan.gap.at(bytes).max(bytes / wan.bandwidth) + wan.latency + lan.recv_overhead.at(bytes)
}

#[test]
fn a_wide_area_link_is_measured_in_half_a_minute() {
    let (profile, seconds) = measured("clusters:3+2", &clusters(2, 10_000.0, 1.0));
    assert!(seconds <= 30.0, "{seconds} s");
    assert_eq!(profile.levels.iter().map(|level| level.groups.clone()).collect::<Vec<_>>(), [vec![3, 2], vec![]]);
    assert_eq!(profile.levels.iter().map(|level| level.name.as_str()).collect::<Vec<_>>(), ["network", "wide-area"]);
    let (near_by, far) = (&profile.levels[0].link, &profile.levels[1].link);
    let wan = WanLink { latency: 10_000.0, bandwidth: 1.0 };
    for bytes in [0.0, 1000.0, 30_000.0, 65_536.0] {
        let within = lan().latency + lan().gap.at(bytes) + lan().recv_overhead.at(bytes);
        near("within", near_by.latency + near_by.gap.at(bytes), within, 0.01);
        near("between", far.latency + far.gap.at(bytes), wan_message(bytes, wan), 0.01);
    }
    assert!(profile.levels.iter().all(|level| level.is_complete), "{seconds} s");
    near("the gap of a byte", (far.gap.at(65_536.0) - far.gap.at(32_768.0)) / 32_768.0, 1.0, 0.01);
    assert_link_use(&profile);
}

#[test]
fn both_directions_of_an_asymmetric_link_are_kept() {
    let mut costs = ClusterCosts::uniform(lan(), WanLink { latency: 3000.0, bandwidth: 2.0 }, 2);
    let WanLinks::Matrix(links) = &mut costs.wan else { unreachable!("they are uniform") };
    links[1][0].bandwidth = 0.5;
    let (profile, _) = measured("clusters:2+2", &costs.into());
    let level = &profile.levels[1];
    let reverse = level.reverse.as_ref().expect("the directions differ");
    let per_byte = |link: &treepie_model::PLogP| (link.gap.at(60_000.0) - link.gap.at(20_000.0)) / 40_000.0;
    near("from low to high", per_byte(&level.link), 0.5, 0.01);
    near("from high to low", per_byte(reverse), 2.0, 0.01);
    assert_eq!(reverse.latency, level.link.latency);
    assert_eq!(profile.levels[0].reverse, None, "within a cluster both are alike");
    assert_link_use(&profile);
}

/// Links that differ are found one by one, each direction for itself.
#[test]
fn links_between_clusters_may_differ() {
    let mut costs = ClusterCosts::uniform(lan(), WanLink { latency: 3000.0, bandwidth: 2.0 }, 4);
    let WanLinks::Matrix(links) = &mut costs.wan else { unreachable!("they are uniform") };
    links[0][2].bandwidth = 0.5;
    links[3][1].bandwidth = 8.0;
    for (a, b) in [(2, 3), (3, 2)] {
        links[a][b].latency = 6000.0;
    }
    // The base is the link with the longest latency.
    let (profile, _) = measured("clusters:2+1+2+3", &costs.into());
    let level = &profile.levels[1];
    let expected = |from: u32, to: u32| {
        let latency = if (from, to) == (2, 3) || (from, to) == (3, 2) { 6000.0 } else { 3000.0 };
        let bytes = if (from, to) == (0, 2) {
            4.0
        } else if (from, to) == (3, 1) {
            0.25
        } else {
            1.0
        };
        (latency / 6000.0, bytes)
    };
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        let (latency, bytes) = level.factors(from, to);
        near("latency", latency, expected(from, to).0, 0.05);
        near("bytes", bytes, expected(from, to).1, 0.05);
    }
    let (uniform, _) = measured("clusters:2+1+2+3", &clusters(4, 3000.0, 2.0));
    assert_eq!(uniform.levels[1].pairs, []);
}

/// A profile of two levels, for a network of three: links between the same numbers are others on each level.
#[test]
fn links_of_levels_that_a_profile_lacks_are_their_own() {
    let link = |factor: f64| WanLink { latency: 1000.0 * factor, bandwidth: 8.0 / factor };
    let settings: Settings = ClusterCosts::per_level(lan(), vec![link(1.0), link(4.0)]).into();
    let network: Network = "clusters:2x2x1".parse().unwrap();
    let known = Settings::profile(&clusters(4, 4000.0, 2.0), &"clusters:4x1".parse().unwrap());
    assert_eq!(known.levels.len(), 2);
    let simulated = treepie::simulate(&network, &settings, |world| Ok(measure_links(&world, &known)?));
    let measured = simulated.unwrap().into_results().swap_remove(0);
    // The nearer links are four times faster, and those between the outer groups as they are known.
    let factors = |level: usize| measured.level(level).factors(0, 1);
    near("latency", factors(1).0, 0.25, 0.1);
    near("bytes", factors(1).1, 0.25, 0.1);
    assert_eq!((measured.levels.len(), factors(2)), (3, (1.0, 1.0)));
}

#[test]
fn links_that_are_too_many_stay_as_they_are_known() {
    let network: Network = "clusters:17x1".parse().unwrap();
    let settings = clusters(17, 3000.0, 2.0);
    let mut known = settings.profile(&network);
    known.levels[1].pairs = vec![PairFactors { from: 3, to: 4, latency: 1.0, bytes: 4.0 }];
    let simulated = treepie::simulate(&network, &settings, |world| Ok(measure_links(&world, &known)?));
    assert!(simulated.unwrap().into_results().iter().all(|measured| *measured == known));
}

#[test]
fn noise_is_averaged() {
    for seed in 1..4 {
        let noise = Noise { seed, jitter: 2.0, ..Noise::default() };
        let (profile, _) = measured("flat:3", &Settings { noise, ..LOGGP.into() });
        let link = profile.link();
        // Messages are delayed by 1 us on average.
        for bytes in [0.0f64, 4096.0, 65_536.0] {
            let expected = LOGGP.latency + 2.0 * LOGGP.overhead + (bytes - 1.0).max(0.0) * LOGGP.per_byte + 1.0;
            near("a message", link.latency + link.gap.at(bytes), expected, 0.02);
        }
        assert_eq!(profile.levels.len(), 1);
        assert_link_use(&profile);
    }
}

#[test]
fn a_small_budget_is_kept() {
    let config = TuneConfig { budget: Duration::from_secs(7), ..TuneConfig::default() };
    let network = "clusters:2+2".parse().unwrap();
    let (profile, seconds) = measured_with(&network, &clusters(2, 10_000.0, 1.0), &config).unwrap();
    assert!(seconds <= 10.0, "{seconds} s");
    let level = &profile.levels[1];
    assert!(!level.is_complete && profile.levels[0].is_complete, "{}", profile.to_toml());
    let largest = level.link.gap.points().last().unwrap().0;
    assert!((1024.0..262_144.0).contains(&largest), "{largest}");
    // What was measured is right, and extrapolated beyond.
    near("gap", (level.link.gap.at(500_000.0) - level.link.gap.at(400_000.0)) / 100_000.0, 1.0, 0.05);
}

#[test]
fn one_rank_has_nothing_to_measure() {
    let program = |world: Comm| Ok(measure(&world, &TuneConfig::default()));
    let results = treepie::simulate(&Network::flat(1), &LOGGP.into(), program).unwrap().into_results();
    assert_eq!(results, [Err(Error::OneRank)]);
}

/// On threads and in real time: everything is measured, and nothing is checked that depends on the machine.
#[test]
fn threads() {
    for ranks in [2, 5] {
        let start = std::time::Instant::now();
        let profiles = treepie::launch(ranks, |world| Ok(measure(&world, &TuneConfig::for_comm(&world))?)).unwrap();
        assert!(profiles.windows(2).all(|two| two[0] == two[1]), "all ranks get the same");
        let profile = &profiles[0];
        if std::env::var_os("TREEPIE_LONG").is_some() {
            println!("{:?}\n{}", start.elapsed(), profile.to_toml());
        }
        assert!(profile.reduce_per_byte > 0.0 && profile.copy_per_byte > 0.0 && profile.barrier.is_some());
        assert!(profile.shared_segment.is_some());
        assert_eq!(Profile::parse(&profile.to_toml()).as_ref(), Ok(profile));
    }
}
