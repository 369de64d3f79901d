//! The GOAL and JSON dumps of small schedules.

use crate::table::{Table, copy, input, out, recv, recv_reduce, send, uniform};
use treepie_schedule::dump::{write_goal, write_json};
use treepie_schedule::{BlockRange, OperandSide, Operation, Phase};

/// Rank 1 adds rank 0's block to its block in two lanes, one per half, and returns the sum.
fn allreduce() -> Table {
    let load = vec![vec![vec![copy(input(0), out(0))]], vec![vec![copy(input(0), out(0))]]];
    let lane = |segment| {
        let half = out(0).segment(segment, 2);
        vec![
            vec![vec![send(1, half)], vec![recv(1, half)]],
            vec![vec![recv_reduce(0, half, OperandSide::Left)], vec![send(0, half)]],
        ]
    };
    let mut table = Table::new(Operation::Allreduce, 1, load);
    table.phases.push((Phase::with_lanes(2), vec![lane(0), lane(1)]));
    table
}

#[test]
fn goal_has_an_order_within_lanes_and_between_phases() {
    let mut text = String::new();
    write_goal(&allreduce(), &uniform(3, 1), 8, &mut text).unwrap();
    let expected = "\
num_ranks 2

rank 0 {
l1: calc 24
l2: send 8b to 1 tag 65536
l2 requires l1
l3: recv 8b from 1 tag 65536
l3 requires l2
l4: send 16b to 1 tag 65537
l4 requires l1
l5: recv 16b from 1 tag 65537
l5 requires l4
}

rank 1 {
l1: calc 24
l2: recv 8b from 0 tag 65536
l3: calc 8
l3 requires l2
l2 requires l1
l4: send 8b to 0 tag 65536
l4 requires l3
l5: recv 16b from 0 tag 65537
l6: calc 16
l6 requires l5
l5 requires l1
l7: send 16b to 0 tag 65537
l7 requires l6
}
";
    assert_eq!(text, expected);
}

/// Rank 0 sends to rank 1 in five lanes, of which two are open concurrently; the second is empty.
#[test]
fn goal_has_windows_and_names_barriers_that_it_cannot_express() {
    let lane = |lane| {
        let rounds = |op| if lane == 1 { vec![] } else { vec![vec![op]] };
        vec![rounds(send(1, out(0))), rounds(recv(0, out(0)))]
    };
    let load = vec![vec![vec![copy(input(0), out(0))]], vec![vec![copy(input(0), out(0))]]];
    let mut table = Table::new(Operation::Allreduce, 1, load);
    table.phases.push((Phase::with_lanes(5).with_window(2).with_global_end(), (0..5).map(lane).collect()));
    let mut text = String::new();
    write_goal(&table, &uniform(3, 1), 8, &mut text).unwrap();
    let expected = "\
// Not expressible in GOAL: the barrier at the end of phase 1.
num_ranks 2

rank 0 {
l1: calc 24
l2: send 24b to 1 tag 65536
l2 requires l1
l3: send 24b to 1 tag 65538
l3 requires l2
l4: send 24b to 1 tag 65539
l4 requires l1
l4 requires l2
l5: send 24b to 1 tag 65540
l5 requires l1
l5 requires l3
}
";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn json_names_blocks_and_elements() {
    let mut text = String::new();
    write_json(&allreduce(), &uniform(3, 1), &mut text).unwrap();
    let expected = r#"{"operation":"allreduce","ranks":2,"blocks":1,"schedule":[
[[[[{"op":"copy","from":"In","source":[0],"buffer":"Out","blocks":[0],"elements":3}]]],
[[[{"op":"send","peer":1,"buffer":"Out","blocks":[0],"elements":1}],
[{"op":"recv","peer":1,"buffer":"Out","blocks":[0],"elements":1}]],
[[{"op":"send","peer":1,"buffer":"Out","blocks":[0],"elements":2}],
[{"op":"recv","peer":1,"buffer":"Out","blocks":[0],"elements":2}]]]],
[[[[{"op":"copy","from":"In","source":[0],"buffer":"Out","blocks":[0],"elements":3}]]],
[[[{"op":"recv_reduce","peer":0,"side":"left","buffer":"Out","blocks":[0],"elements":1}],
[{"op":"send","peer":0,"buffer":"Out","blocks":[0],"elements":1}]],
[[{"op":"recv_reduce","peer":0,"side":"left","buffer":"Out","blocks":[0],"elements":2}],
[{"op":"send","peer":0,"buffer":"Out","blocks":[0],"elements":2}]]]]]}
"#;
    assert_eq!(text, expected.replace("\n", "") + "\n");
}

#[test]
fn messages_without_data_are_printed_too() {
    let pair = |peer| vec![vec![send(peer, BlockRange::EMPTY), recv(peer, BlockRange::EMPTY)]];
    let table = Table::new(Operation::Barrier, 0, vec![pair(1), pair(0)]);
    let mut text = String::new();
    write_goal(&table, &uniform(0, 0), 1, &mut text).unwrap();
    assert_eq!(
        text,
        "num_ranks 2\n\nrank 0 {\nl1: send 0b to 1 tag 0\nl2: recv 0b from 1 tag 0\n}\n\nrank 1 {\nl1: send 0b to 0 tag 0\nl2: recv 0b from 0 tag 0\n}\n"
    );
    text.clear();
    write_json(&table, &uniform(0, 0), &mut text).unwrap();
    let ops = |peer| {
        format!(
            r#"[[[[{{"op":"send","peer":{peer},"buffer":"Out","blocks":[],"elements":0}},{{"op":"recv","peer":{peer},"buffer":"Out","blocks":[],"elements":0}}]]]]"#
        )
    };
    let expected = format!(r#"{{"operation":"barrier","ranks":2,"blocks":0,"schedule":[{},{}]}}"#, ops(1), ops(0));
    assert_eq!(text, expected + "\n");
}
