//! Profiles as files: what is written is read back, and everything else is refused in one line.

use treepie_model::plogp::{PLogP, PiecewiseLinear};
use treepie_model::profile::{Fit, LevelProfile, PairFactors, Profile};
use treepie_model::{Error, profile::ProfileOrigin};

fn curve(points: &[(f64, f64)]) -> PiecewiseLinear {
    PiecewiseLinear::new("a curve", points).unwrap()
}

/// Two levels of six ranks that are not in order, with knees at different sizes, and another direction.
fn measured() -> Profile {
    let link = PLogP::new(
        12.5,
        curve(&[(0.0, 0.1), (64.0, 0.2), (64.0, 0.15), (1024.0, 0.3)]),
        curve(&[(0.0, 0.07)]),
        curve(&[(0.0, 1.0 / 3.0), (512.0, 1.0), (8192.5, 9.0), (8192.5, 11.0), (1e6, 1e3)]),
    );
    let mut profile = Profile::shared_memory();
    let wan = LevelProfile {
        reverse: Some(PLogP { gap: curve(&[(0.0, 1.0), (9.0, 20.0)]), ..link.clone().unwrap() }),
        window: Some(65536.0),
        error: 0.25,
        is_complete: false,
        measured_bytes: 1 << 40,
        saturating_bytes: u64::MAX >> 1,
        pairs: vec![PairFactors { from: 0, to: 1, latency: 0.5, bytes: 0.25 }],
        ..LevelProfile::new("wide \"area\" \\ \u{1}", link.unwrap())
    };
    profile.levels[0].groups = vec![1, 2, 3];
    profile.levels.push(wan);
    profile.rank_order = vec![4, 0, 5, 1, 2, 3];
    profile.origin = ProfileOrigin { ranks: 6, cores: 2, machine: "ein Müller".to_owned(), ..profile.origin };
    profile
}

#[test]
fn what_is_written_is_read_back() {
    for profile in [Profile::shared_memory(), Profile::oversubscribed(), Profile::network(), measured()] {
        let text = profile.to_toml();
        let read = Profile::parse(&text).unwrap();
        // Curves have points at each other's sizes then, so only their values are the same.
        for (level, got) in profile.levels.iter().zip(&read.levels) {
            let both = [(&level.link, &got.link)].into_iter().chain(level.reverse.as_ref().zip(got.reverse.as_ref()));
            for (link, got) in both {
                let curves = |link: &PLogP| [link.send_overhead.clone(), link.recv_overhead.clone(), link.gap.clone()];
                for (curve, got) in curves(link).iter().zip(curves(got)) {
                    assert!(curve.knees().eq(got.knees()), "{got:?}");
                    for bytes in [0.0, 1.0, 63.0, 64.0, 65.0, 700.0, 8192.5, 8193.0, 5e5, 1e6, 1e9] {
                        let (at, after) = (curve.at(bytes), curve.after(bytes));
                        assert!((got.at(bytes) - at).abs() <= 1e-12 * at, "{bytes}: {got:?} instead of {curve:?}");
                        assert!((got.after(bytes) - after).abs() <= 1e-12 * after, "{bytes}: {got:?}");
                    }
                }
            }
        }
        let with_links = |profile: &Profile, like: &Profile| {
            let mut same = profile.clone();
            for (level, like) in same.levels.iter_mut().zip(&like.levels) {
                (level.link, level.reverse) = (like.link.clone(), like.reverse.clone());
            }
            same
        };
        assert_eq!(with_links(&profile, &read), read);
        assert_eq!(Profile::parse(&read.to_toml()).as_ref(), Ok(&read), "the second time nothing changes");
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let text = measured().to_toml();
    let (mut refused, mut lines) = (0, 0);
    let whole = Profile::parse(&text).unwrap();
    for (at, _) in text.char_indices() {
        match Profile::parse(&text[..at]) {
            Err(error) => {
                refused += 1;
                let message = error.to_string();
                assert!(message.lines().count() == 1 && message.starts_with("bad profile: "), "{message:?}");
            }
            // Only the end of the last line may be missing.
            Ok(profile) => {
                lines += 1;
                assert!(profile == whole && text[at..].trim().is_empty(), "cut off at {at}");
            }
        }
    }
    assert!(refused > 1000 && lines <= 2, "{refused} {lines}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let text = measured().to_toml();
    for (from, to, reason) in [
        ("format = 1", "format = 2", "it has format 2, and this version reads format 1"),
        ("format = 1", "", "missing field `format`"),
        ("cores = 2", "cores = 2\ncolor = 3", "unknown field `color`"),
        (
            "groups = [1, 2, 3]",
            "groups = [1, 2, 4]",
            "the groups of level 0 have 7 ranks, each at least one, and the profile has 6",
        ),
        ("groups = [1, 2, 3]", "groups = [6, 0]", "the groups of level 0 have 6 ranks, each at least one"),
        ("rank_order = [4, 0", "rank_order = [4, 4", "rank_order is not a list of the ranks 0 to 5"),
        ("rank_order = [4, 0, ", "rank_order = [0, ", "rank_order is not a list of the ranks 0 to 5"),
        ("latency = 12.5", "latency = -12.5", "the latency L is -12.5, and must be a non-negative number"),
        ("latency = 12.5", "latency = nan", "the latency L is NaN, and must be"),
        ("scheduling = 1.0", "scheduling = inf", "scheduling is inf, and must be"),
        ("round = 0.15", "round = -1", "round is -1"),
        ("copy_in = 0.15", "copy_in = -1", "copy_in is -1"),
        ("{ bytes = 512,", "{ bytes = 2,", "has size 2 after 64"),
        ("level_count = 2", "level_count = 3", "2 levels where level_count is 3"),
        ("ranks = 6", "ranks = 'six'", "invalid type"),
        ("ranks = 6", "ranks = -6", "invalid value"),
        ("asymmetric = true", "asymmetric = false", "a level has a reverse_size where asymmetric is false"),
        ("error = 0.25", "error = -0.25", "the error of a level is -0.25"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let message = Profile::parse(&changed).unwrap_err().to_string();
        assert!(message.contains(reason) && message.lines().count() == 1, "{to}: {message}");
    }
    let split = text.replacen("name = \"wide", "groups = [2, 4]\nname = \"wide", 1);
    let message = Profile::parse(&split).unwrap_err().to_string();
    assert_eq!(message, "bad profile: level 1 splits a group of the level below");
    let empty = text[..text.find("[[level]]").unwrap()].replace("level_count = 2", "level_count = 0");
    assert!(Profile::parse(&empty).unwrap_err().to_string().contains("there must be at least one"));
}

#[test]
fn files_are_read_by_their_paths() {
    let path = std::env::temp_dir().join(format!("treepie-profile-{}.toml", std::process::id()));
    let message = |path: &std::path::Path| Profile::load(path).unwrap_err().to_string();
    assert!(message(&path).starts_with(&format!("cannot read the profile {}: ", path.display())));
    assert!(message("/dev/zero".as_ref()).ends_with("it is not a regular file"));
    std::fs::write(&path, measured().to_toml()).unwrap();
    let read = Profile::load(&path);
    std::fs::write(&path, "format = 1\n").unwrap();
    let short = message(&path);
    std::fs::File::create(&path).and_then(|file| file.set_len((16 << 20) + 1)).unwrap();
    let long = message(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read, Profile::parse(&measured().to_toml()));
    assert!(short.ends_with("missing field `level_count`"), "{short}");
    assert!(long.ends_with("it has more than 16 MiB"), "{long}");
    assert!(matches!(Profile::load("/"), Err(Error::ProfileFile { .. })));
}

#[test]
fn foreign_profiles_are_refused_and_others_adapted() {
    let profile = measured();
    assert_eq!(profile.fits("shm", 6, 2, ""), Fit::Exact);
    let adapted = |engine, ranks| match profile.fits(engine, ranks, 2, "") {
        Fit::Adapted(message) => message,
        fit => panic!("{fit:?}"),
    };
    assert_eq!(adapted("shm", 8), "the profile was measured with 6 ranks instead of 8");
    let both = "the profile was measured on the engine shm instead of threads and with 6 ranks instead of 5";
    assert_eq!(adapted("threads", 5), both);
    for (engine, cores, reason) in [
        ("mpi", 2, "the profile is that of the engine shm, and these ranks use mpi; `treepie tune` measures one"),
        ("sim", 0, "the profile is that of the engine shm, and these ranks use sim; `treepie tune` measures one"),
        ("shm", 64, "the profile is that of a machine with 2 cores, and this one has 64; `treepie tune` measures one"),
    ] {
        assert_eq!(profile.fits(engine, 6, cores, ""), Fit::Refused(reason.to_owned()));
    }
    let Fit::Refused(reason) = profile.fits("shm", 6, 2, "Some other processor") else { panic!("it is foreign") };
    assert!(reason.ends_with("and this is Some other processor; `treepie tune` measures one"), "{reason}");
    assert_eq!(
        Profile::shared_memory().fits("threads", 5, 3, ""),
        Fit::Adapted("the profile was measured on the engine shm instead of threads".to_owned())
    );
    assert_eq!(Profile::network().fits("mpi", 5, 3, ""), Fit::Exact);
}

#[test]
fn groups_follow_the_number_of_ranks() {
    // Irregular groups: the places of other ranks are unknown.
    let fewer = measured().adapted_to(4);
    assert_eq!((fewer.levels.len(), fewer.rank_order.len(), fewer.origin.ranks), (1, 0, 4));
    assert_eq!(fewer.levels[0].link, measured().levels[1].link);
    assert_eq!(measured().adapted_to(6), measured());
    assert_eq!(measured().groups_of_ranks(0, 6), [1, 2, 2, 2, 0, 1]);
    assert_eq!((measured().groups_of_ranks(1, 6), measured().groups_of_ranks(0, 5)), (vec![0; 6], vec![]));
    // Hosts of two ranks, and pairs of hosts.
    let mut regular = Profile { rank_order: Vec::new(), ..measured() };
    regular.origin.ranks = 8;
    regular.levels[0].groups = vec![2; 4];
    regular.levels[1].groups = vec![4; 2];
    regular.levels.push(regular.levels[1].clone());
    regular.levels[2].groups.clear();
    let more = regular.adapted_to(11);
    let groups: Vec<_> = more.levels.iter().map(|level| level.groups.clone()).collect();
    assert_eq!(groups, [vec![2, 2, 2, 2, 2, 1], vec![4, 4, 3], vec![]]);
    assert!(Profile::parse(&more.to_toml()).is_ok());
    let two = regular.adapted_to(2);
    assert!(two.levels.iter().all(|level| level.groups.is_empty()) && Profile::parse(&two.to_toml()).is_ok());
    assert_eq!(Profile::network().adapted_to(7), Profile::network());
}
