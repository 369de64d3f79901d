//! No process that a rank started outlives the job, whatever its session and its parent.

use super::*;

/// Scripts that escape from a rank's process group. Each prints the pid of the escaped process, which has no variable
/// of the job.
const ESCAPES: [&str; 4] = [
    // A session of its own.
    "env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$; sleep 60; sleep 60' &",
    // A double fork as well: its parent has ended at once.
    "(env -i setsid sh -c 'trap \"\" TERM HUP INT; echo $$; sleep 60; sleep 60' &)",
    // Sessions in sessions.
    "setsid setsid -f env -i sh -c 'setsid sleep 60 & echo $!; exec setsid sleep 60' &",
    // One that starts others over and over.
    "(env -i setsid sh -c 'echo $$; while :; do (setsid sleep 60 &); sleep 0.02; done' &)",
];

fn is_gone(pid: i32) -> bool {
    matches!(state(pid).as_str(), "" | "Z")
}

#[track_caller]
fn assert_all_gone(pids: &[i32], when: &str) {
    wait_for(&format!("{pids:?} to be gone after {when}"), || pids.iter().all(|pid| is_gone(*pid)));
}

#[test]
fn processes_outside_the_group_end_with_the_job() {
    for escape in ESCAPES {
        // Each rank exits once the escaped process has printed its pid. A fifo opened for both does not block.
        let script =
            format!("mark=$(mktemp -u); mkfifo $mark; {{ {escape} }} 1<>$mark; read pid 0<>$mark; rm $mark; echo $pid");
        for (how, rest, status) in
            [("success", "", 0), ("a failure", "; test $TREEPIE_RANK = 1 && exit 3; sleep 60", 3)]
        {
            let (command, mark) = launcher(2, &format!("{script}{rest}"));
            let (lines, code, errors) = run(command);
            let escaped: Vec<i32> = lines.iter().map(|line| line.parse().expect("a number")).collect();
            assert_eq!((escaped.is_empty(), code), (false, status), "{escape}: {errors}");
            // The launcher has not exited before them.
            let left: Vec<_> = escaped.iter().filter(|pid| !is_gone(**pid)).collect();
            assert!(left.is_empty(), "{escape}: {left:?} outlived the job that ended by {how}");
            mark.assert_gone();
        }
    }
}

#[test]
fn processes_outside_the_group_end_when_the_launcher_is_killed_or_interrupted() {
    for escape in ESCAPES {
        for sent in [Signal::KILL, Signal::TERM, Signal::INT] {
            let (mut command, mark) = launcher(2, &format!("{escape} sleep 60; sleep 60"));
            let mut launcher = command.spawn().unwrap();
            let escaped = read_numbers(&mut launcher, 2);
            assert!(escaped.iter().all(|pid| !is_gone(*pid)), "{escape}");
            signal(launcher.id() as i32, sent);
            launcher.wait().unwrap();
            assert_all_gone(&escaped, &format!("{sent:?} to the launcher of {escape}"));
            mark.assert_gone();
        }
    }
}

#[test]
fn orphans_that_have_ended_do_not_fill_the_table_of_processes() {
    // Zombies of the supervisor, which is the ranks' parent; one rank, so there are none of ranks.
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do (true &); done; done
        turn=0
        while [ $turn -lt 300 ]; do
            (true &)
            sleep 0.05
            count=0
            for stat in /proc/[0-9]*/stat; do
                read pid name state parent rest <$stat && [ \"$state $parent\" = \"Z $PPID\" ] && count=$((count + 1))
            done 2>/dev/null
            [ $count -lt 20 ] && echo few && exit 0
            turn=$((turn + 1))
        done
        exit 9";
    let (lines, status, errors) = run(launcher(1, script).0);
    assert_eq!((lines, status), (vec!["few".to_owned()], 0), "{errors}");
}

#[test]
fn a_job_without_its_supervisor_fails_with_an_error() {
    let (mut command, mark) = launcher(2, "echo $$; echo $PPID; sleep 60; sleep 60");
    let mut launcher = command.spawn().unwrap();
    let numbers = read_numbers(&mut launcher, 4);
    let supervisor =
        *numbers.iter().find(|pid| numbers.iter().filter(|other| other == pid).count() == 2).expect("twice");
    signal(supervisor, Signal::KILL);
    let output = launcher.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot learn how a rank ended: the supervisor process has ended"), "{said}");
    assert!(!output.status.success());
    assert_all_gone(&numbers, "the supervisor's death");
    mark.assert_gone();
}

#[test]
fn scripts_without_an_interpreter_and_programs_that_are_none() {
    let folder = env::temp_dir().join(format!("treepie-launch-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let script = folder.join("script");
    fs::write(&script, "test \"$1\" = argument && test -n \"$TREEPIE_RANK\"\n").unwrap();
    let refused = Launch::new(1, &script).run().unwrap_err();
    assert!(refused.to_string().contains("Permission denied"), "{refused}");
    let mut mode = fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&script, mode).unwrap();
    let mut launch = Launch::new(2, &script);
    launch.args = vec!["argument".into()];
    let outcome = launch.run();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(outcome.unwrap(), JobOutcome::Success);
}
