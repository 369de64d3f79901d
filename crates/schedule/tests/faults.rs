//! The checker is trusted because it finds faults: right schedules are written by hand, a fault is planted in each, and
//! the message says which rank and which block.

mod table;

use table::{Lane, Table, add, copy, input, out, recv, scratch, send, uniform};
use treepie_schedule::check::{Fault, Mode, Proof, check};
use treepie_schedule::{Buf, Layout, Layouts, Op, Operation, Part, Phase, Side};

fn prove(table: &Table, in_place: bool) -> Result<Proof, Fault> {
    check(table, &uniform(3, table.blocks), Mode { in_place })
}

/// The message of the fault that is found with separate buffers.
fn fault(table: &Table) -> String {
    prove(table, false).expect_err("the fault is found").to_string()
}

/// Rank 0 and 1 exchange their blocks.
fn allgather() -> Table {
    let rank = |own: u32, other: u32| {
        vec![vec![copy(input(own), out(own))], vec![send(other, out(own)), recv(other, out(other))]]
    };
    Table::new(Operation::Allgather, 2, vec![rank(0, 1), rank(1, 0)])
}

/// Three ranks add up in a chain, and the last hands the result back.
fn allreduce() -> Table {
    let load = || vec![copy(input(0), out(0))];
    let ranks: Lane = vec![
        vec![load(), vec![send(1, out(0))], vec![recv(1, out(0))]],
        vec![
            load(),
            vec![add(0, out(0), Side::Left)],
            vec![send(2, out(0))],
            vec![recv(2, out(0))],
            vec![send(0, out(0))],
        ],
        vec![load(), vec![add(1, out(0), Side::Left)], vec![send(1, out(0))]],
    ];
    Table::new(Operation::Allreduce, 1, ranks)
}

/// One round of a rank in the only lane.
fn round(table: &mut Table, rank: usize, round: usize) -> &mut Vec<Op> {
    &mut table.phases[0].1[0][rank][round]
}

#[test]
fn what_is_right_passes() {
    for in_place in [false, true] {
        let proof = prove(&allgather(), in_place).unwrap();
        assert_eq!((proof.messages, proof.ordered, proof.staging), (2, true, 0));
        let proof = prove(&allreduce(), in_place).unwrap();
        assert_eq!((proof.messages, proof.ordered, proof.same, proof.staging), (4, true, true, 3));
    }
}

#[test]
fn a_wrong_peer() {
    let mut table = allreduce();
    *round(&mut table, 0, 1) = vec![send(2, out(0))];
    // Rank 2 takes a message from rank 1 only, and rank 1 waits for rank 0.
    assert_eq!(
        fault(&table),
        "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message to rank 2 (block 0 of Out)"
    );
}

#[test]
fn a_peer_that_is_not_there() {
    let mut table = allgather();
    round(&mut table, 1, 1)[0] = send(7, out(1));
    let at = "rank 1, phase 0, lane 0, round 1";
    assert_eq!(fault(&table), format!("{at}: a message to or from rank 7, where another one of 2 ranks must be"));
    round(&mut table, 1, 1)[0] = send(1, out(1));
    assert_eq!(fault(&table), format!("{at}: a message to or from rank 1, where another one of 2 ranks must be"));
}

#[test]
fn a_missing_block() {
    let mut table = allgather();
    round(&mut table, 0, 1).pop();
    round(&mut table, 1, 1).remove(0);
    assert_eq!(fault(&table), "rank 0 ends with nothing in block 1");
}

#[test]
fn a_missing_contribution() {
    let mut table = allreduce();
    *round(&mut table, 0, 1) = vec![];
    *round(&mut table, 1, 1) = vec![];
    assert_eq!(fault(&table), "rank 0 ends with rank 0's contribution missing in block 0");
}

#[test]
fn a_double_reduction() {
    let mut table = allreduce();
    round(&mut table, 0, 1).push(send(1, out(0)));
    round(&mut table, 1, 1).push(add(0, out(0), Side::Left));
    let expected = "rank 1, phase 0, lane 0, round 1: rank 0's contribution to block 0 is combined twice";
    assert_eq!(fault(&table), expected);
}

#[test]
fn an_unpaired_send() {
    let mut table = allgather();
    round(&mut table, 0, 1).push(send(1, out(0)));
    let expected =
        "rank 0, phase 0, lane 0, round 1: a message to rank 1 (block 0 of Out) that rank 1 knows nothing of";
    assert_eq!(fault(&table), expected);
}

#[test]
fn an_unpaired_receive() {
    let mut table = allgather().with_scratch();
    round(&mut table, 1, 1).push(recv(0, scratch(1)));
    let expected =
        "rank 1, phase 0, lane 0, round 1: a message from rank 0 (block 1 of Tmp(0)) that rank 0 knows nothing of";
    assert_eq!(fault(&table), expected);
}

#[test]
fn those_who_wait_for_an_unpaired_message_are_not_blamed() {
    let mut table = allreduce();
    // Rank 2 waits for what nobody sends, so that ranks 0 and 1 wait for it.
    *round(&mut table, 0, 2) = vec![];
    table.phases[0].1[0][1].truncate(3);
    *round(&mut table, 2, 2) = vec![recv(0, out(0))];
    let expected =
        "rank 2, phase 0, lane 0, round 2: a message from rank 0 (block 0 of Out) that rank 0 knows nothing of";
    assert_eq!(fault(&table), expected);
}

#[test]
fn a_deadlock_when_nothing_is_buffered() {
    let rank = |own: u32, other: u32| {
        vec![vec![copy(input(own), out(own))], vec![send(other, out(own))], vec![recv(other, out(other))]]
    };
    let table = Table::new(Operation::Allgather, 2, vec![rank(0, 1), rank(1, 0)]);
    assert_eq!(
        fault(&table),
        "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message to rank 1 (block 0 of Out)"
    );
}

#[test]
fn a_deadlock_of_windows() {
    // Each rank serves the other's lanes in another order, and a window of one keeps the second lane closed.
    let lane = |sender: u32| {
        let mut ranks: Lane = vec![vec![], vec![]];
        let op = [recv(sender, out(sender)), send(1 - sender, out(sender))];
        ranks[sender as usize] = vec![vec![copy(input(sender), out(sender))], vec![op[1]]];
        ranks[1 - sender as usize] = vec![vec![op[0]]];
        ranks
    };
    let both = |window| Table::lanes(Operation::Allgather, 2, Phase::lanes(2).window(window), vec![lane(0), lane(1)]);
    assert!(prove(&both(1), false).is_ok());
    let mut crossed = both(2);
    assert!(prove(&crossed, false).is_ok());
    // Rank 1 sends in lane 0 first what rank 0 takes in lane 0 only after it was served in lane 1.
    crossed.phases = vec![(
        Phase::lanes(2).window(1),
        vec![
            vec![vec![vec![copy(input(0), out(0))], vec![recv(1, out(1))]], vec![vec![]]],
            vec![
                vec![vec![send(1, out(0))]],
                vec![vec![copy(input(1), out(1))], vec![recv(0, out(0))], vec![send(0, out(1))]],
            ],
        ],
    )];
    let expected = "deadlock: rank 0, phase 0, lane 0, round 1 waits for a message from rank 1 (block 1 of Out)";
    assert_eq!(fault(&crossed), expected);
}

#[test]
fn an_in_place_hazard() {
    // The input is needed after the output has been written: right with separate buffers only.
    let rank = |own: u32, other: u32| {
        vec![
            vec![copy(input(0), scratch(0))],
            vec![send(other, scratch(0)), recv(other, out(0))],
            vec![Op::Reduce { from: input(0), into: out(0), side: Side::of(own, other) }],
        ]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, 1), rank(1, 0)]).with_scratch();
    assert!(prove(&table, false).unwrap().ordered);
    let expected = "rank 1, phase 0, lane 0, round 2: two operations at once on block 0 of Out";
    assert_eq!(prove(&table, true).unwrap_err().to_string(), expected);
    // Sent and overwritten in one round.
    let rank = |own: u32, other: u32| {
        let load = copy(input(0), scratch(0));
        let sum = Op::Reduce { from: scratch(0), into: out(0), side: Side::of(own, other) };
        vec![vec![load], vec![send(other, input(0)), recv(other, out(0))], vec![sum]]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, 1), rank(1, 0)]).with_scratch();
    assert!(prove(&table, false).is_ok());
    let expected = "rank 0, phase 0, lane 0, round 1: two operations at once on block 0 of Out";
    assert_eq!(prove(&table, true).unwrap_err().to_string(), expected);
}

#[test]
fn a_copy_and_a_send_of_its_target_in_one_round() {
    let mut table = allgather();
    let ranks = &mut table.phases[0].1[0];
    ranks[0] = vec![vec![copy(input(0), out(0)), send(1, out(0)), recv(1, out(1))]];
    assert_eq!(fault(&table), "rank 0, phase 0, lane 0, round 0: two operations at once on block 0 of Out");
    // In place the copy is none, and nothing is wrong.
    assert!(prove(&table, true).is_ok());
}

/// Rank 1 gets block 0 in one lane, and passes it on to rank 2 in another one.
fn two_lanes(window: u32) -> Table {
    let first: Lane =
        vec![vec![vec![copy(input(0), out(0))], vec![send(1, out(0))]], vec![vec![recv(0, out(0))]], vec![]];
    let second: Lane = vec![vec![], vec![vec![send(2, out(0))]], vec![vec![recv(1, out(0))]]];
    let mut table = Table::lanes(Operation::Allgather, 3, Phase::lanes(2).window(window), vec![first, second]);
    // The other two blocks, in a phase of their own.
    let own = |rank: u32, others: [u32; 2]| {
        vec![vec![copy(input(rank), out(rank))], others.iter().map(|to| send(*to, out(rank))).collect()]
    };
    let mut rest: Lane = vec![vec![vec![], vec![]], own(1, [0, 2]), own(2, [0, 1])];
    rest[0][1] = vec![recv(1, out(1)), recv(2, out(2))];
    rest[1][1].push(recv(2, out(2)));
    rest[2][1].push(recv(1, out(1)));
    table.phases.push((Phase::ONE, vec![rest]));
    table
}

#[test]
fn two_lanes_that_touch_the_same_block() {
    // A window of one has the second lane wait for the first.
    assert!(prove(&two_lanes(1), false).is_ok());
    for window in [2, u32::MAX] {
        assert_eq!(
            fault(&two_lanes(window)),
            "rank 1, phase 0, lane 1, round 0: two operations at once on block 0 of Out"
        );
    }
}

#[test]
fn a_lane_that_touches_what_another_did_in_an_earlier_round() {
    // Lane 1 comes to block 1 only in its second round, when lane 0 has long been done with it in this run.
    let first: Lane = vec![vec![vec![copy(input(0), out(0))]], vec![vec![copy(input(1), out(1))]]];
    let second: Lane = vec![
        vec![vec![send(1, Part::NOTHING)], vec![recv(1, out(1))]],
        vec![vec![recv(0, Part::NOTHING)], vec![send(0, out(1))]],
    ];
    let third: Lane = vec![vec![vec![]], vec![vec![]]];
    let table = Table::lanes(Operation::Allgather, 2, Phase::lanes(3), vec![first, third, second]);
    assert_eq!(fault(&table), "rank 1, phase 0, lane 2, round 1: two operations at once on block 1 of Out");
}

#[test]
fn lanes_that_combine_into_the_same_block() {
    let lane = |from: u32| -> Lane {
        let mut ranks: Lane = vec![vec![vec![add(from, out(0), Side::Right)]], vec![], vec![]];
        ranks[from as usize] = vec![vec![send(0, input(0))]];
        ranks
    };
    let load: Lane = vec![vec![vec![copy(input(0), out(0))]], vec![], vec![]];
    let phases =
        |window| vec![(Phase::ONE, vec![load.clone()]), (Phase::lanes(2).window(window), vec![lane(1), lane(2)])];
    let mut table = Table { phases: phases(1), ..Table::new(Operation::Reduce { root: 0 }, 1, load.clone()) };
    assert!(prove(&table, true).unwrap().ordered);
    table.phases = phases(2);
    assert_eq!(fault(&table), "rank 0, phase 1, lane 1, round 0: two operations at once on block 0 of Out");
}

#[test]
fn different_lengths() {
    let layouts = |rank| Layouts::both(Layout::of_counts(if rank == 0 { &[3, 3] } else { &[4, 3] }));
    let expected = "rank 1, phase 0, lane 0, round 1: 3 elements from rank 0 for 4 (block 0 of Out)";
    assert_eq!(check(&allgather(), &layouts, Mode::default()).unwrap_err().to_string(), expected);
    // A copy of two blocks to one, and the other way round.
    for (from, to) in [(Part::blocks(Buf::In, 0, 2), out(1)), (input(1), Part::blocks(Buf::Out, 0, 2))] {
        let table = Table::new(Operation::Allreduce, 2, vec![vec![vec![copy(from, to)]]]);
        let block = to.lo;
        assert_eq!(
            fault(&table),
            format!("rank 0, phase 0, lane 0, round 0: combines different elements into block {block}")
        );
        let sum = Op::Reduce { from, into: to, side: Side::Left };
        let load = copy(Part::blocks(Buf::In, 0, 2), Part::blocks(Buf::Out, 0, 2));
        let table = Table::new(Operation::Allreduce, 2, vec![vec![vec![load], vec![sum]]]);
        assert_eq!(
            fault(&table),
            format!("rank 0, phase 0, lane 0, round 1: combines different elements into block {block}")
        );
    }
}

#[test]
fn messages_of_no_length_pair_up_too() {
    let mut table = allgather();
    round(&mut table, 0, 1).push(send(1, Part::NOTHING));
    let expected = "rank 0, phase 0, lane 0, round 1: a message to rank 1 (no data) that rank 1 knows nothing of";
    assert_eq!(fault(&table), expected);
    round(&mut table, 1, 1).push(recv(0, Part::NOTHING));
    assert!(prove(&table, false).is_ok());
    // Blocks without elements do not hide a missing message.
    let mut table = allgather();
    round(&mut table, 0, 1).pop();
    let fault = check(&table, &uniform(0, 2), Mode::default()).unwrap_err().to_string();
    let expected =
        "rank 1, phase 0, lane 0, round 1: a message to rank 0 (block 1 of Out) that rank 0 knows nothing of";
    assert_eq!(fault, expected);
}

#[test]
fn something_undefined_is_read() {
    let mut table = allgather();
    *round(&mut table, 1, 0) = vec![];
    assert_eq!(fault(&table), "rank 1, phase 0, lane 0, round 1: reads block 1 of Out, where nothing has been written");
    let mut table = allreduce();
    *round(&mut table, 1, 0) = vec![];
    assert_eq!(fault(&table), "rank 1, phase 0, lane 0, round 1: reads block 0 of Out, where nothing has been written");
}

#[test]
fn a_block_that_the_buffer_does_not_have() {
    let mut table = allgather();
    round(&mut table, 1, 0)[0] = copy(input(0), out(1));
    assert_eq!(fault(&table), "rank 1, phase 0, lane 0, round 0: block 0 is not in In");
    round(&mut table, 1, 0)[0] = copy(input(1), out(2));
    assert_eq!(fault(&table), "rank 1, phase 0, lane 0, round 0: block 2 is not in Out");
    round(&mut table, 1, 0)[0] = copy(input(1), Part::viewed(Buf::Out, 1, 0, 2));
    table.view = vec![1, 5];
    assert_eq!(fault(&table), "rank 1, phase 0, lane 0, round 0: block 5 is not in Out");
}

#[test]
fn the_input_is_overwritten() {
    let mut table = allgather();
    round(&mut table, 0, 1)[1] = recv(1, input(0));
    assert_eq!(fault(&table), "rank 0, phase 0, lane 0, round 1: writes block 0 of In, which is the caller's");
}

/// Three ranks: 1 and 2 come to 0, which lets them go.
fn barrier() -> Table {
    let nothing = Part::NOTHING;
    let ranks: Lane = vec![
        vec![vec![recv(1, nothing), recv(2, nothing)], vec![send(1, nothing), send(2, nothing)]],
        vec![vec![send(0, nothing)], vec![recv(0, nothing)]],
        vec![vec![send(0, nothing)], vec![recv(0, nothing)]],
    ];
    Table::new(Operation::Barrier, 0, ranks)
}

#[test]
fn a_barrier_that_is_left_too_early() {
    assert!(prove(&barrier(), false).is_ok());
    let mut table = barrier();
    // Rank 1 is let go before rank 2 has come: all messages are there, in another order.
    table.phases[0].1[0][0] = vec![
        vec![recv(1, Part::NOTHING)],
        vec![send(1, Part::NOTHING), recv(2, Part::NOTHING)],
        vec![send(2, Part::NOTHING)],
    ];
    assert_eq!(fault(&table), "rank 1 leaves the barrier without knowing that rank 2 has come");
}

#[test]
fn an_order_that_is_broken() {
    let mut table = allreduce();
    *round(&mut table, 2, 1) = vec![add(1, out(0), Side::Right)];
    let proof = prove(&table, false).unwrap();
    assert!(!proof.ordered && proof.same);
}

#[test]
fn results_that_are_rounded_differently() {
    // All send to all, and each begins with its own: ((0+1)+2), ((1+0)+2), ((2+0)+1).
    let rank = |own: u32, others: [u32; 2]| {
        let mut ops: Vec<Op> = others.iter().map(|to| send(*to, input(0))).collect();
        ops.extend(others.iter().map(|from| add(*from, out(0), Side::of(*from, own))));
        vec![vec![copy(input(0), out(0))], ops]
    };
    let table = Table::new(Operation::Allreduce, 1, vec![rank(0, [1, 2]), rank(1, [0, 2]), rank(2, [0, 1])]);
    assert!(!prove(&table, false).unwrap().same);
}

#[test]
fn the_wrong_element_at_the_right_place() {
    let mut table = allgather().with_scratch();
    // Rank 1 puts its own block where rank 0's belongs.
    round(&mut table, 1, 1)[1] = recv(0, scratch(0));
    table.phases[0].1[0][1].push(vec![copy(out(1), out(0))]);
    assert_eq!(fault(&table), "rank 1 ends with another element in block 0");
    // Segments of a block that are swapped.
    let mut table = Table::new(Operation::Bcast { root: 0 }, 1, vec![vec![vec![]], vec![vec![]]]);
    let half = |seg| out(0).segment(seg, 2);
    *round(&mut table, 0, 0) = vec![send(1, half(0)), send(1, half(1))];
    *round(&mut table, 1, 0) = vec![recv(0, half(1)), recv(0, half(0))];
    let fault = check(&table, &uniform(4, 1), Mode::default()).unwrap_err().to_string();
    assert_eq!(fault, "rank 1 ends with another element in block 0");
}

#[test]
fn different_elements_are_combined() {
    let rank = |own: u32, other: u32| {
        let load = copy(Part::blocks(Buf::In, 0, 2), Part::blocks(Buf::Out, 0, 2));
        vec![vec![load], vec![send(other, input(own)), add(other, out(own), Side::of(other, own))]]
    };
    let table = Table::new(Operation::Allreduce, 2, vec![rank(0, 1), rank(1, 0)]);
    assert_eq!(fault(&table), "rank 0, phase 0, lane 0, round 1: combines different elements into block 0");
}

/// Answers differently when it is asked for several rounds at once.
struct Forgetful(Table);

impl treepie_schedule::Schedule for Forgetful {
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
        into: &mut treepie_schedule::Rounds,
    ) {
        self.0.emit(rank, phase, lane, 0..rounds.end - rounds.start, into);
    }
}

#[test]
fn rounds_that_depend_on_how_they_are_asked_for() {
    let fault = check(&Forgetful(allgather()), &uniform(3, 2), Mode::default()).unwrap_err().to_string();
    assert_eq!(fault, "rank 0, phase 0, lane 0, round 1: is written differently alone and together with other rounds");
}

#[test]
fn staging_counts_lanes_that_are_open_together() {
    let lane =
        |block: u32| -> Lane { vec![vec![vec![add(1, out(block), Side::Right)]], vec![vec![send(0, input(block))]]] };
    let load: Lane = vec![vec![vec![copy(Part::blocks(Buf::In, 0, 3), Part::blocks(Buf::Out, 0, 3))]], vec![]];
    let staging = |window| {
        let lanes = (Phase::lanes(3).window(window), (0..3).map(lane).collect());
        let table = Table::new(Operation::Reduce { root: 0 }, 3, load.clone());
        prove(&Table { phases: vec![(Phase::ONE, vec![load.clone()]), lanes], ..table }, false).unwrap().staging
    };
    assert_eq!([1, 2, 3, u32::MAX].map(staging), [3, 6, 9, 9]);
}
