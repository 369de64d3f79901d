//! The ranks' output is forwarded in whole lines, and otherwise unchanged.

use super::*;

/// What the test runner writes before the ranks do.
const PREFACE: &[u8] = b"running 1 test\n";

fn output_of(mut command: Command) -> (Vec<u8>, String, Option<i32>) {
    let output = command.output().unwrap();
    let begin = output.stdout.windows(PREFACE.len()).position(|window| window == PREFACE).expect("the runner's line");
    let said = output.stdout[begin + PREFACE.len()..].to_vec();
    (said, String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn lines_of_ranks_are_whole_without_labels() {
    let script = "i=0; while [ $i -lt 300 ]; do
        printf 'rank %s' $TREEPIE_RANK; printf ' line'; printf ' %s\\n' $i
        printf 'error %s' $TREEPIE_RANK >&2; printf ' of %s\\n' $i >&2
        i=$((i + 1)); done";
    let (said, errors, status) = output_of(launcher(4, script).0);
    assert_eq!(status, Some(0));
    let said = String::from_utf8(said).unwrap();
    for rank in 0..4 {
        let lines = said.lines().filter(|line| line.starts_with(&format!("rank {rank} ")));
        let expected: Vec<_> = (0..300).map(|i| format!("rank {rank} line {i}")).collect();
        assert_eq!(lines.collect::<Vec<_>>(), expected, "in order and whole");
        let lines = errors.lines().filter(|line| line.starts_with(&format!("error {rank} of ")));
        assert_eq!(lines.count(), 300);
    }
    // The launcher has one line of its own.
    assert_eq!((said.lines().count(), errors.lines().count()), (1200, 1201), "{errors}");
}

#[test]
fn last_lines_without_an_end_get_one_where_another_follows() {
    let (said, errors, _) = output_of(launcher(3, "printf last; printf problem >&2").0);
    assert_eq!(said, b"last\nlast\nlast");
    assert_eq!(errors, "problem\nproblem\nproblem\nall ranks exited with status 0\n");
    let (said, _, _) = output_of(launcher(1, "printf alone").0);
    assert_eq!(said, b"alone");
}

#[test]
fn what_one_rank_writes_comes_out_byte_for_byte() {
    let file = env::current_exe().unwrap();
    let (mut command, _) = launcher(2, "test $TREEPIE_RANK = 1 || cat \"$LAUNCH_TEST_FILE\"");
    command.env("LAUNCH_TEST_FILE", &file);
    let (said, _, status) = output_of(command);
    assert_eq!(status, Some(0));
    assert!(said == fs::read(&file).unwrap(), "{} bytes came out", said.len());
}

#[test]
fn unbuffered_ranks_write_to_the_launcher_s_own_streams() {
    let script = "test /proc/$$/fd/1 -ef /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/fd/1 && echo same || echo piped";
    let (lines, _, _) = run(launcher(1, script).0);
    assert_eq!(lines, ["piped"]);
    let (mut command, _) = launcher(1, script);
    command.env(UNBUFFERED, "1");
    assert_eq!(run(command).0, ["same"]);
}
