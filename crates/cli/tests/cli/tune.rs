//! `treepie tune`.

use std::fs;

use treepie_model::Profile;
use treepie_model::profile::Fit;

use super::{Scratch, out, refused, run, succeeds, treepie};

#[test]
fn a_profile_is_measured_and_written() {
    let (file, json) = (Scratch::with_extension("toml"), Scratch::new());
    let shown = succeeds(run(&["tune", "-n", "2", "-o", file.path(), "--json", json.path()]));
    for text in ["2 ranks on shm", "g(0) us", "link use", "memory", "scheduling", "barrier", "single copy", file.path()]
    {
        assert!(shown.contains(text), "no {text:?} in\n{shown}");
    }
    let profile = Profile::load(file.path()).unwrap();
    assert_eq!((profile.origin.engine.as_str(), profile.origin.ranks), ("shm", 2));
    assert_eq!(profile.fits("shm", 2, profile.origin.cores, &treepie_base::processor_name()), Fit::Exact);
    assert!(profile.origin.machine.contains("core") && profile.origin.measured.ends_with('Z'));
    let records = json.lines();
    for curve in ["latency", "send_overhead/0", "recv_overhead/0", "gap/0"] {
        let case = format!("tune/{}/{curve}", profile.levels[0].name);
        let found: Vec<_> = records.iter().filter(|record| record["case"] == *case).collect();
        assert_eq!(found.len(), 1, "{case}");
        assert!(found[0]["value"].as_f64().unwrap() >= 0.0 && found[0]["unit"] == "us");
    }
    assert_eq!(records.len(), 1 + curves_of(&profile), "a record for each point");
}

fn curves_of(profile: &Profile) -> usize {
    let link = |level: &treepie_model::profile::LevelProfile| {
        let links = std::iter::once(&level.link).chain(level.reverse.as_ref());
        links
            .flat_map(|link| [&link.send_overhead, &link.recv_overhead, &link.gap].map(|c| c.points().len()))
            .sum::<usize>()
    };
    profile.levels.iter().map(link).sum::<usize>() + profile.levels.len() - 1
}

#[test]
fn ranks_of_a_job_measure_themselves() {
    let file = Scratch::with_extension("toml");
    let program = env!("CARGO_BIN_EXE_treepie");
    let shown = succeeds(run(&["run", "--label", "never", "-n", "3", program, "tune", "-o", file.path()]));
    assert_eq!(shown.matches("3 ranks on shm").count(), 1, "{shown}");
    assert_eq!(Profile::load(file.path()).unwrap().origin.ranks, 3);
    let output = treepie(&["run", "--label", "never", "-n", "2", program, "tune", "-n", "3"]).output().unwrap();
    assert!(!output.status.success() && super::err(&output).contains("the job has 2 ranks"), "{}", super::err(&output));
}

#[test]
fn mistakes_are_reported_first() {
    let file = Scratch::with_extension("toml");
    fs::write(file.path(), "before").unwrap();
    for (arguments, named) in [
        (&["tune", "-n", "1"][..], "'1'"),
        (&["tune", "-n", "many"], "'many'"),
        (&["tune", "-o", "/no/such/place"], "/no/such/place"),
        (&["tune", "--json", "/no/such/place", "-o", file.path()], "/no/such/place"),
    ] {
        assert_eq!(out(&refused(arguments, named)), "", "{arguments:?}");
    }
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "before");
}
