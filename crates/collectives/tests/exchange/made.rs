//! A run of a schedule that shows how each element was made.

use std::collections::{HashMap, VecDeque};

use treepie_schedule::cursor::Begun;
use treepie_schedule::{Buf, Cursor, Layout, Layouts, Op, Part, Places, Schedule, Side};

/// Runs it on elements that know how they were made: an operand, or what was combined with what in which order. Returns
/// everybody's results.
pub(crate) fn made(schedule: &dyn Schedule, elements: usize) -> Vec<Vec<u64>> {
    let layouts = Layouts::both(Layout::Even { total: elements, blocks: schedule.blocks() });
    let places = |rank| Places { schedule, layouts: &layouts, rank };
    let index = |buf| match buf {
        Buf::In => 0,
        Buf::Out => 1,
        Buf::Tmp(tmp) => 2 + tmp as usize,
    };
    let read = |memory: &[Vec<u64>], rank, part: Part| {
        let mut data = Vec::new();
        places(rank).ranges(part, |range| data.extend(&memory[index(part.buf)][range]));
        data
    };
    let write = |memory: &mut [Vec<u64>], rank, part: Part, data: &[u64], combine: &dyn Fn(u64, u64) -> u64| {
        let mut data = data.iter();
        places(rank).ranges(part, |range| {
            memory[index(part.buf)][range]
                .iter_mut()
                .zip(&mut data)
                .for_each(|(cell, got)| *cell = combine(*cell, *got))
        });
    };
    let replace = |_: u64, got: u64| got;
    let expression = |left: u64, right: u64| {
        (left.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ right.rotate_left(23)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    let on = |side| move |own, got| if side == Side::Left { expression(got, own) } else { expression(own, got) };
    let mut memories: Vec<Vec<Vec<u64>>> = (0..schedule.ranks())
        .map(|rank| {
            let bufs = [Buf::In, Buf::Out].into_iter().chain((0..schedule.temporaries()).map(Buf::Tmp));
            let mut memory: Vec<Vec<u64>> = bufs.map(|buf| vec![0; places(rank).size(buf)]).collect();
            memory[0] = (0..elements as u64).map(|element| expression(rank.into(), element)).collect();
            memory
        })
        .collect();
    let mut cursors: Vec<Cursor> = (0..schedule.ranks()).map(|rank| Cursor::new(schedule, rank)).collect();
    // Rounds that go on, and messages on the way by phase, lane, sender and receiver.
    let mut going: Vec<(u32, Begun, Vec<Op>)> = Vec::new();
    let mut messages: HashMap<(u32, u32, u32, u32), VecDeque<Vec<u64>>> = HashMap::new();
    loop {
        for rank in 0..schedule.ranks() {
            while let Some(begun) = cursors[rank as usize].begin(schedule) {
                let ops = cursors[rank as usize].ops(begun.slot).to_vec();
                for op in &ops {
                    if let Op::Send { to, part } = *op {
                        let data = read(&memories[rank as usize], rank, part);
                        messages.entry((begun.phase, begun.lane, rank, to)).or_default().push_back(data);
                    }
                }
                going.push((rank, begun, ops));
            }
        }
        let can_end = |(rank, begun, ops): &(u32, Begun, Vec<Op>)| {
            ops.iter().all(|op| match op {
                Op::Recv { from, .. } | Op::RecvReduce { from, .. } => {
                    messages.get(&(begun.phase, begun.lane, *from, *rank)).is_some_and(|queue| !queue.is_empty())
                }
                _ => true,
            })
        };
        let Some(next) = going.iter().position(can_end) else { break };
        let (rank, begun, ops) = going.swap_remove(next);
        let memory = &mut memories[rank as usize];
        let mut take =
            |from| messages.get_mut(&(begun.phase, begun.lane, from, rank)).and_then(VecDeque::pop_front).unwrap();
        for op in ops {
            match op {
                Op::Send { .. } => {}
                Op::Recv { from, part } => write(memory, rank, part, &take(from), &replace),
                Op::RecvReduce { from, part, side } => write(memory, rank, part, &take(from), &on(side)),
                Op::Copy { from, to } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, to, &data, &replace);
                }
                Op::Reduce { from, into, side } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, into, &data, &on(side));
                }
            }
        }
        cursors[rank as usize].end(begun.slot);
    }
    assert!(going.is_empty(), "rounds never end");
    memories.into_iter().map(|mut memory| memory.swap_remove(1)).collect()
}
