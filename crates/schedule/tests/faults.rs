//! Fault injection for the checker: hand-written correct schedules, a fault in each, and the error that names its rank
//! and block.

use crate::table::{Lane, Table, copy, input, out, recv, recv_reduce, scratch, send, uniform};
use treepie_schedule::check::{CheckOptions, CheckReport, ScheduleError, check};
use treepie_schedule::{BlockLayout, BlockLayouts, BlockRange, Buf, OperandSide, Operation, Phase, ScheduleOp};

fn checked(table: &Table, in_place: bool) -> Result<CheckReport, ScheduleError> {
    check(table, &uniform(3, table.blocks), CheckOptions { in_place })
}

/// The error with separate buffers.
fn error(table: &Table) -> String {
    checked(table, false).expect_err("the check fails").to_string()
}

/// Ranks 0 and 1 exchange their blocks.
fn allgather() -> Table {
    let rank = |own: u32, other: u32| {
        vec![vec![copy(input(own), out(own))], vec![send(other, out(own)), recv(other, out(other))]]
    };
    Table::new(Operation::Allgather, 2, vec![rank(0, 1), rank(1, 0)])
}

/// Three ranks reduce along a chain, and the last sends the result back.
fn allreduce() -> Table {
    let load = || vec![copy(input(0), out(0))];
    let ranks: Lane = vec![
        vec![load(), vec![send(1, out(0))], vec![recv(1, out(0))]],
        vec![
            load(),
            vec![recv_reduce(0, out(0), OperandSide::Left)],
            vec![send(2, out(0))],
            vec![recv(2, out(0))],
            vec![send(0, out(0))],
        ],
        vec![load(), vec![recv_reduce(1, out(0), OperandSide::Left)], vec![send(1, out(0))]],
    ];
    Table::new(Operation::Allreduce, 1, ranks)
}

/// One round of a rank in the only lane.
fn round(table: &mut Table, rank: usize, round: usize) -> &mut Vec<ScheduleOp> {
    &mut table.phases[0].1[0][rank][round]
}

#[test]
fn correct_schedules_pass() {
    for in_place in [false, true] {
        let report = checked(&allgather(), in_place).unwrap();
        assert_eq!((report.messages, report.rank_ordered, report.staging), (2, true, 0));
        let report = checked(&allreduce(), in_place).unwrap();
        assert_eq!(
            (report.messages, report.rank_ordered, report.identical_results, report.staging),
            (4, true, true, 3)
        );
    }
}

#[test]
fn a_wrong_peer() {
    let mut table = allreduce();
    *round(&mut table, 0, 1) = vec![send(2, out(0))];
    // Rank 2 only receives from rank 1, and rank 1 waits for rank 0.
    assert_eq!(
        error(&table),
        "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message to rank 2 (block 0 of Out)"
    );
}

#[test]
fn an_invalid_peer() {
    let mut table = allgather();
    round(&mut table, 1, 1)[0] = send(7, out(1));
    let at = "rank 1, phase 0, lane 0, round 1";
    assert_eq!(error(&table), format!("{at}: invalid peer 7: expected another one of 2 ranks"));
    round(&mut table, 1, 1)[0] = send(1, out(1));
    assert_eq!(error(&table), format!("{at}: invalid peer 1: expected another one of 2 ranks"));
}

#[test]
fn a_missing_block() {
    let mut table = allgather();
    round(&mut table, 0, 1).pop();
    round(&mut table, 1, 1).remove(0);
    assert_eq!(error(&table), "rank 0 ends with nothing in block 1");
}

#[test]
fn a_missing_contribution() {
    let mut table = allreduce();
    *round(&mut table, 0, 1) = vec![];
    *round(&mut table, 1, 1) = vec![];
    assert_eq!(error(&table), "rank 0 ends with rank 0's contribution missing in block 0");
}

#[test]
fn a_double_reduction() {
    let mut table = allreduce();
    round(&mut table, 0, 1).push(send(1, out(0)));
    round(&mut table, 1, 1).push(recv_reduce(0, out(0), OperandSide::Left));
    let expected = "rank 1, phase 0, lane 0, round 1: rank 0's contribution to block 0 is combined twice";
    assert_eq!(error(&table), expected);
}

#[test]
fn an_unmatched_send() {
    let mut table = allgather();
    round(&mut table, 0, 1).push(send(1, out(0)));
    let expected = "rank 0, phase 0, lane 0, round 1: unmatched message to rank 1 (block 0 of Out)";
    assert_eq!(error(&table), expected);
}

#[test]
fn an_unmatched_receive() {
    let mut table = allgather().with_scratch();
    round(&mut table, 1, 1).push(recv(0, scratch(1)));
    let expected = "rank 1, phase 0, lane 0, round 1: unmatched message from rank 0 (block 1 of Tmp(0))";
    assert_eq!(error(&table), expected);
}

#[test]
fn ranks_that_wait_for_an_unmatched_message_are_not_reported() {
    let mut table = allreduce();
    // Rank 2 waits for a message that is never sent, so ranks 0 and 1 wait for rank 2.
    *round(&mut table, 0, 2) = vec![];
    table.phases[0].1[0][1].truncate(3);
    *round(&mut table, 2, 2) = vec![recv(0, out(0))];
    let expected = "rank 2, phase 0, lane 0, round 2: unmatched message from rank 0 (block 0 of Out)";
    assert_eq!(error(&table), expected);
}

#[test]
fn a_deadlock_of_unbuffered_sends() {
    let rank = |own: u32, other: u32| {
        vec![vec![copy(input(own), out(own))], vec![send(other, out(own))], vec![recv(other, out(other))]]
    };
    let table = Table::new(Operation::Allgather, 2, vec![rank(0, 1), rank(1, 0)]);
    assert_eq!(
        error(&table),
        "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message to rank 1 (block 0 of Out)"
    );
}

#[test]
fn a_deadlock_of_windows() {
    // The ranks send in opposite orders of lanes, and a window of one keeps the second lane closed.
    let lane = |sender: u32| {
        let mut ranks: Lane = vec![vec![], vec![]];
        let op = [recv(sender, out(sender)), send(1 - sender, out(sender))];
        ranks[sender as usize] = vec![vec![copy(input(sender), out(sender))], vec![op[1]]];
        ranks[1 - sender as usize] = vec![vec![op[0]]];
        ranks
    };
    let both = |window| {
        Table::lanes(Operation::Allgather, 2, Phase::with_lanes(2).with_window(window), vec![lane(0), lane(1)])
    };
    assert!(checked(&both(1), false).is_ok());
    let mut crossed = both(2);
    assert!(checked(&crossed, false).is_ok());
    // Rank 0 waits in lane 0 for a message that rank 1 sends in lane 1, after rank 0 has sent there.
    crossed.phases = vec![(
        Phase::with_lanes(2).with_window(1),
        vec![
            vec![vec![vec![copy(input(0), out(0))], vec![recv(1, out(1))]], vec![vec![]]],
            vec![
                vec![vec![send(1, out(0))]],
                vec![vec![copy(input(1), out(1))], vec![recv(0, out(0))], vec![send(0, out(1))]],
            ],
        ],
    )];
    let expected = "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message from rank 1 (block 1 of Out)";
    assert_eq!(error(&crossed), expected);
}

#[test]
fn an_in_place_hazard() {
    // The input is needed after the output has been written: correct with separate buffers only.
    let rank = |own: u32, other: u32| {
        vec![
            vec![copy(input(0), scratch(0))],
            vec![send(other, scratch(0)), recv(other, out(0))],
            vec![ScheduleOp::Reduce { from: input(0), into: out(0), side: OperandSide::of_peer(own, other) }],
        ]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, 1), rank(1, 0)]).with_scratch();
    assert!(checked(&table, false).unwrap().rank_ordered);
    let expected = "rank 1, phase 0, lane 0, round 2: data race on block 0 of Out";
    assert_eq!(checked(&table, true).unwrap_err().to_string(), expected);
    // Sent and overwritten in one round.
    let rank = |own: u32, other: u32| {
        let load = copy(input(0), scratch(0));
        let sum = ScheduleOp::Reduce { from: scratch(0), into: out(0), side: OperandSide::of_peer(own, other) };
        vec![vec![load], vec![send(other, input(0)), recv(other, out(0))], vec![sum]]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, 1), rank(1, 0)]).with_scratch();
    assert!(checked(&table, false).is_ok());
    let expected = "rank 0, phase 0, lane 0, round 1: data race on block 0 of Out";
    assert_eq!(checked(&table, true).unwrap_err().to_string(), expected);
}

#[test]
fn a_copy_and_a_send_of_its_target_in_one_round() {
    let mut table = allgather();
    let ranks = &mut table.phases[0].1[0];
    ranks[0] = vec![vec![copy(input(0), out(0)), send(1, out(0)), recv(1, out(1))]];
    assert_eq!(error(&table), "rank 0, phase 0, lane 0, round 0: data race on block 0 of Out");
    // In place the copy is a no-op, and the schedule is correct.
    assert!(checked(&table, true).is_ok());
}

/// Rank 1 receives block 0 in one lane, and forwards it to rank 2 in another.
fn two_lanes(window: u32) -> Table {
    let first: Lane =
        vec![vec![vec![copy(input(0), out(0))], vec![send(1, out(0))]], vec![vec![recv(0, out(0))]], vec![]];
    let second: Lane = vec![vec![], vec![vec![send(2, out(0))]], vec![vec![recv(1, out(0))]]];
    let mut table =
        Table::lanes(Operation::Allgather, 3, Phase::with_lanes(2).with_window(window), vec![first, second]);
    // The other two blocks, in a separate phase.
    let own = |rank: u32, others: [u32; 2]| {
        vec![vec![copy(input(rank), out(rank))], others.iter().map(|to| send(*to, out(rank))).collect()]
    };
    let mut rest: Lane = vec![vec![vec![], vec![]], own(1, [0, 2]), own(2, [0, 1])];
    rest[0][1] = vec![recv(1, out(1)), recv(2, out(2))];
    rest[1][1].push(recv(2, out(2)));
    rest[2][1].push(recv(1, out(1)));
    table.phases.push((Phase::SINGLE_LANE, vec![rest]));
    table
}

#[test]
fn two_lanes_that_access_the_same_block() {
    // With a window of one the second lane waits for the first.
    assert!(checked(&two_lanes(1), false).is_ok());
    for window in [2, u32::MAX] {
        assert_eq!(error(&two_lanes(window)), "rank 1, phase 0, lane 1, round 0: data race on block 0 of Out");
    }
}

#[test]
fn a_lane_that_accesses_what_another_did_in_an_earlier_round() {
    // The last lane accesses block 1 only in its second round, when lane 0 has finished with it in this execution.
    let first: Lane = vec![vec![vec![copy(input(0), out(0))]], vec![vec![copy(input(1), out(1))]]];
    let second: Lane = vec![
        vec![vec![send(1, BlockRange::EMPTY)], vec![recv(1, out(1))]],
        vec![vec![recv(0, BlockRange::EMPTY)], vec![send(0, out(1))]],
    ];
    let third: Lane = vec![vec![vec![]], vec![vec![]]];
    let table = Table::lanes(Operation::Allgather, 2, Phase::with_lanes(3), vec![first, third, second]);
    assert_eq!(error(&table), "rank 1, phase 0, lane 2, round 1: data race on block 1 of Out");
}

#[test]
fn lanes_that_combine_into_the_same_block() {
    let lane = |from: u32| -> Lane {
        let mut ranks: Lane = vec![vec![vec![recv_reduce(from, out(0), OperandSide::Right)]], vec![], vec![]];
        ranks[from as usize] = vec![vec![send(0, input(0))]];
        ranks
    };
    let load: Lane = vec![vec![vec![copy(input(0), out(0))]], vec![], vec![]];
    let phases = |window| {
        vec![
            (Phase::SINGLE_LANE, vec![load.clone()]),
            (Phase::with_lanes(2).with_window(window), vec![lane(1), lane(2)]),
        ]
    };
    let mut table = Table { phases: phases(1), ..Table::new(Operation::Reduce { root: 0 }, 1, load.clone()) };
    assert!(checked(&table, true).unwrap().rank_ordered);
    table.phases = phases(2);
    assert_eq!(error(&table), "rank 0, phase 1, lane 1, round 0: data race on block 0 of Out");
}

#[test]
fn different_lengths() {
    let layouts = |rank| BlockLayouts::symmetric(BlockLayout::from_counts(if rank == 0 { &[3, 3] } else { &[4, 3] }));
    let expected = "rank 1, phase 0, lane 0, round 1: received 3 elements from rank 0, expected 4 (block 0 of Out)";
    assert_eq!(check(&allgather(), &layouts, CheckOptions::default()).unwrap_err().to_string(), expected);
    // A copy of two blocks to one, and the other way round.
    for (from, to) in [(BlockRange::new(Buf::In, 0, 2), out(1)), (input(1), BlockRange::new(Buf::Out, 0, 2))] {
        let table = Table::new(Operation::Allreduce, 2, vec![vec![vec![copy(from, to)]]]);
        let block = to.lo;
        assert_eq!(
            error(&table),
            format!("rank 0, phase 0, lane 0, round 0: combines different elements into block {block}")
        );
        let sum = ScheduleOp::Reduce { from, into: to, side: OperandSide::Left };
        let load = copy(BlockRange::new(Buf::In, 0, 2), BlockRange::new(Buf::Out, 0, 2));
        let table = Table::new(Operation::Allreduce, 2, vec![vec![vec![load], vec![sum]]]);
        assert_eq!(
            error(&table),
            format!("rank 0, phase 0, lane 0, round 1: combines different elements into block {block}")
        );
    }
}

#[test]
fn empty_messages_are_matched_too() {
    let mut table = allgather();
    round(&mut table, 0, 1).push(send(1, BlockRange::EMPTY));
    let expected = "rank 0, phase 0, lane 0, round 1: unmatched message to rank 1 (no data)";
    assert_eq!(error(&table), expected);
    round(&mut table, 1, 1).push(recv(0, BlockRange::EMPTY));
    assert!(checked(&table, false).is_ok());
    // Blocks without elements do not hide a missing message.
    let mut table = allgather();
    round(&mut table, 0, 1).pop();
    let error = check(&table, &uniform(0, 2), CheckOptions::default()).unwrap_err().to_string();
    let expected = "rank 1, phase 0, lane 0, round 1: unmatched message to rank 0 (block 1 of Out)";
    assert_eq!(error, expected);
}

#[test]
fn an_uninitialized_read() {
    let mut table = allgather();
    *round(&mut table, 1, 0) = vec![];
    assert_eq!(error(&table), "rank 1, phase 0, lane 0, round 1: reads uninitialized block 1 of Out");
    let mut table = allreduce();
    *round(&mut table, 1, 0) = vec![];
    assert_eq!(error(&table), "rank 1, phase 0, lane 0, round 1: reads uninitialized block 0 of Out");
}

#[test]
fn a_block_out_of_bounds() {
    let mut table = allgather();
    round(&mut table, 1, 0)[0] = copy(input(0), out(1));
    assert_eq!(error(&table), "rank 1, phase 0, lane 0, round 0: block 0 is not in In");
    round(&mut table, 1, 0)[0] = copy(input(1), out(2));
    assert_eq!(error(&table), "rank 1, phase 0, lane 0, round 0: block 2 is not in Out");
    round(&mut table, 1, 0)[0] = copy(input(1), BlockRange::in_view(Buf::Out, 1, 0, 2));
    table.view = vec![1, 5];
    assert_eq!(error(&table), "rank 1, phase 0, lane 0, round 0: block 5 is not in Out");
}

#[test]
fn the_input_is_overwritten() {
    let mut table = allgather();
    round(&mut table, 0, 1)[1] = recv(1, input(0));
    assert_eq!(error(&table), "rank 0, phase 0, lane 0, round 1: writes block 0 of In, the caller's send buffer");
}

/// Three ranks: 1 and 2 notify 0, which releases them.
fn barrier() -> Table {
    let empty = BlockRange::EMPTY;
    let ranks: Lane = vec![
        vec![vec![recv(1, empty), recv(2, empty)], vec![send(1, empty), send(2, empty)]],
        vec![vec![send(0, empty)], vec![recv(0, empty)]],
        vec![vec![send(0, empty)], vec![recv(0, empty)]],
    ];
    Table::new(Operation::Barrier, 0, ranks)
}

#[test]
fn a_barrier_that_is_left_early() {
    assert!(checked(&barrier(), false).is_ok());
    let mut table = barrier();
    // Rank 1 is released before rank 2 has entered: the same messages in another order.
    table.phases[0].1[0][0] = vec![
        vec![recv(1, BlockRange::EMPTY)],
        vec![send(1, BlockRange::EMPTY), recv(2, BlockRange::EMPTY)],
        vec![send(2, BlockRange::EMPTY)],
    ];
    assert_eq!(error(&table), "rank 1 may leave the barrier before rank 2 enters it");
}

#[test]
fn a_reduction_out_of_rank_order() {
    let mut table = allreduce();
    *round(&mut table, 2, 1) = vec![recv_reduce(1, out(0), OperandSide::Right)];
    let report = checked(&table, false).unwrap();
    assert!(!report.rank_ordered && report.identical_results);
}

#[test]
fn results_that_are_rounded_differently() {
    // All send to all, and each begins with its contribution: ((0+1)+2), ((1+0)+2), ((2+0)+1).
    let rank = |own: u32, others: [u32; 2]| {
        let mut ops: Vec<ScheduleOp> = others.iter().map(|to| send(*to, input(0))).collect();
        ops.extend(others.iter().map(|from| recv_reduce(*from, out(0), OperandSide::of_peer(*from, own))));
        vec![vec![copy(input(0), out(0))], ops]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, [1, 2]), rank(1, [0, 2]), rank(2, [0, 1])]);
    assert!(!checked(&table, false).unwrap().identical_results);
}

#[test]
fn the_wrong_element_in_the_right_block() {
    let mut table = allgather().with_scratch();
    // Rank 1 copies its block to block 0.
    round(&mut table, 1, 1)[1] = recv(0, scratch(0));
    table.phases[0].1[0][1].push(vec![copy(out(1), out(0))]);
    assert_eq!(error(&table), "rank 1 ends with another element in block 0");
    // Segments of a block that are swapped.
    let mut table = Table::new(Operation::Bcast { root: 0 }, 1, vec![vec![vec![]], vec![vec![]]]);
    let half = |seg| out(0).segment(seg, 2);
    *round(&mut table, 0, 0) = vec![send(1, half(0)), send(1, half(1))];
    *round(&mut table, 1, 0) = vec![recv(0, half(1)), recv(0, half(0))];
    let error = check(&table, &uniform(4, 1), CheckOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "rank 1 ends with another element in block 0");
}

#[test]
fn different_elements_are_combined() {
    let rank = |own: u32, other: u32| {
        let load = copy(BlockRange::new(Buf::In, 0, 2), BlockRange::new(Buf::Out, 0, 2));
        vec![vec![load], vec![send(other, input(own)), recv_reduce(other, out(own), OperandSide::of_peer(other, own))]]
    };
    let table = Table::new(Operation::Allreduce, 2, vec![rank(0, 1), rank(1, 0)]);
    assert_eq!(error(&table), "rank 0, phase 0, lane 0, round 1: combines different elements into block 0");
}

/// Emits other rounds in a batch than one by one.
struct BatchDependent(Table);

impl treepie_schedule::Schedule for BatchDependent {
    fn operation(&self) -> Operation {
        self.0.operation()
    }
    fn ranks(&self) -> u32 {
        self.0.ranks()
    }
    fn blocks(&self) -> u32 {
        self.0.blocks()
    }
    fn rounds(&self, rank: u32, phase: u32, lane: u32) -> u32 {
        self.0.rounds(rank, phase, lane)
    }
    fn emit(
        &self,
        rank: u32,
        phase: u32,
        lane: u32,
        rounds: std::ops::Range<u32>,
        into: &mut treepie_schedule::RoundList,
    ) {
        self.0.emit(rank, phase, lane, 0..rounds.end - rounds.start, into);
    }
}

#[test]
fn rounds_that_depend_on_the_batch() {
    let error = check(&BatchDependent(allgather()), &uniform(3, 2), CheckOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "rank 0, phase 0, lane 0, round 1: emitted differently alone and in a batch of rounds");
}

#[test]
fn staging_counts_lanes_that_are_open_together() {
    let lane = |block: u32| -> Lane {
        vec![vec![vec![recv_reduce(1, out(block), OperandSide::Right)]], vec![vec![send(0, input(block))]]]
    };
    let load: Lane = vec![vec![vec![copy(BlockRange::new(Buf::In, 0, 3), BlockRange::new(Buf::Out, 0, 3))]], vec![]];
    let staging = |window| {
        let lanes = (Phase::with_lanes(3).with_window(window), (0..3).map(lane).collect());
        let table = Table::new(Operation::Reduce { root: 0 }, 3, load.clone());
        checked(&Table { phases: vec![(Phase::SINGLE_LANE, vec![load.clone()]), lanes], ..table }, false)
            .unwrap()
            .staging
    };
    assert_eq!([1, 2, 3, u32::MAX].map(staging), [3, 6, 9, 9]);
}
