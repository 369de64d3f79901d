//! Symbolic execution of a schedule that records the expression tree of each element.

use std::collections::{HashMap, VecDeque};

use treepie_schedule::cursor::StartedRound;
use treepie_schedule::{
    BlockLayout, BlockLayouts, BlockRange, Buf, BufferMap, OperandSide, Schedule, ScheduleOp, ScheduleReader,
};

/// Executes the schedule on hashes of expression trees: an operand, or the ordered combination of two. Returns the
/// results of all ranks.
pub(crate) fn symbolic_results(schedule: &dyn Schedule, elements: usize) -> Vec<Vec<u64>> {
    let layouts = BlockLayouts::symmetric(BlockLayout::Even { total: elements, blocks: schedule.blocks() });
    let buffer_map = |rank| BufferMap { schedule, layouts: &layouts, rank };
    let index = |buf| match buf {
        Buf::In => 0,
        Buf::Out => 1,
        Buf::Tmp(tmp) => 2 + tmp as usize,
    };
    let read = |memory: &[Vec<u64>], rank, part: BlockRange| {
        let mut data = Vec::new();
        buffer_map(rank).ranges(part, |range| data.extend(&memory[index(part.buf)][range]));
        data
    };
    let write = |memory: &mut [Vec<u64>], rank, part: BlockRange, data: &[u64], combine: &dyn Fn(u64, u64) -> u64| {
        let mut data = data.iter();
        buffer_map(rank).ranges(part, |range| {
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
    let on = |side| move |own, got| if side == OperandSide::Left { expression(got, own) } else { expression(own, got) };
    let mut memories: Vec<Vec<Vec<u64>>> = (0..schedule.ranks())
        .map(|rank| {
            let bufs = [Buf::In, Buf::Out].into_iter().chain((0..schedule.scratch_buffers()).map(Buf::Tmp));
            let mut memory: Vec<Vec<u64>> = bufs.map(|buf| vec![0; buffer_map(rank).buffer_len(buf)]).collect();
            memory[0] = (0..elements as u64).map(|element| expression(rank.into(), element)).collect();
            memory
        })
        .collect();
    let mut readers: Vec<ScheduleReader> =
        (0..schedule.ranks()).map(|rank| ScheduleReader::new(schedule, rank)).collect();
    // Running rounds, and messages in flight by phase, lane, sender and receiver.
    let mut running: Vec<(u32, StartedRound, Vec<ScheduleOp>)> = Vec::new();
    let mut messages: HashMap<(u32, u32, u32, u32), VecDeque<Vec<u64>>> = HashMap::new();
    loop {
        for rank in 0..schedule.ranks() {
            while let Some(started) = readers[rank as usize].start_round(schedule) {
                let ops = readers[rank as usize].ops(started.slot).to_vec();
                for op in &ops {
                    if let ScheduleOp::Send { to, part } = *op {
                        let data = read(&memories[rank as usize], rank, part);
                        messages.entry((started.phase, started.lane, rank, to)).or_default().push_back(data);
                    }
                }
                running.push((rank, started, ops));
            }
        }
        let can_end = |(rank, started, ops): &(u32, StartedRound, Vec<ScheduleOp>)| {
            ops.iter().all(|op| match op {
                ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => {
                    messages.get(&(started.phase, started.lane, *from, *rank)).is_some_and(|queue| !queue.is_empty())
                }
                _ => true,
            })
        };
        let Some(next) = running.iter().position(can_end) else { break };
        let (rank, started, ops) = running.swap_remove(next);
        let memory = &mut memories[rank as usize];
        let mut take =
            |from| messages.get_mut(&(started.phase, started.lane, from, rank)).and_then(VecDeque::pop_front).unwrap();
        for op in ops {
            match op {
                ScheduleOp::Send { .. } => {}
                ScheduleOp::Recv { from, part } => write(memory, rank, part, &take(from), &replace),
                ScheduleOp::RecvReduce { from, part, side } => write(memory, rank, part, &take(from), &on(side)),
                ScheduleOp::Copy { from, to } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, to, &data, &replace);
                }
                ScheduleOp::Reduce { from, into, side } => {
                    let data = read(memory, rank, from);
                    write(memory, rank, into, &data, &on(side));
                }
            }
        }
        readers[rank as usize].finish_round(started.slot);
    }
    assert!(running.is_empty(), "deadlock");
    memories.into_iter().map(|mut memory| memory.swap_remove(1)).collect()
}
