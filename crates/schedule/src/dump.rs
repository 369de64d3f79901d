//! Prints a schedule as GOAL, the input format of network simulators, and as JSON.

use std::fmt::{self, Write};

use crate::layout::{BlockLayouts, BufferMap};
use crate::op::{BlockRange, OperandSide, RoundList, ScheduleOp};
use crate::schedule::{PhaseEnd, Schedule};

/// Writes the schedule as GOAL. Elements have `bytes` bytes. Combining costs one time unit per byte.
///
/// Dependencies: a round requires the previous round of its lane, a lane those outside its window, a phase the whole
/// previous phase. GOAL cannot express a barrier at the end of a phase; a comment names these phases.
pub fn write_goal(
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> BlockLayouts,
    bytes: usize,
    out: &mut dyn Write,
) -> fmt::Result {
    for phase in (0..schedule.phases()).filter(|phase| schedule.phase(*phase).end == PhaseEnd::Global) {
        writeln!(out, "// Not expressible in GOAL: the barrier at the end of phase {phase}.")?;
    }
    writeln!(out, "num_ranks {}", schedule.ranks())?;
    for rank in 0..schedule.ranks() {
        writeln!(out, "\nrank {rank} {{")?;
        let layouts = layouts(rank);
        let buffer_map = BufferMap { schedule, layouts: &layouts, rank };
        let mut labels = 0;
        let mut before: Vec<u32> = Vec::new();
        for phase in 0..schedule.phases() {
            let shape = schedule.phase(phase);
            let window = shape.max_open_lanes() as usize;
            // The last labels of each lane; those it requires if it is empty.
            let mut ends: Vec<Vec<u32>> = Vec::new();
            for lane in 0..shape.lanes {
                // Lanes before these were finished when the last of these could start.
                let closed = (lane as usize + 1).saturating_sub(window);
                let mut required = ends[closed.saturating_sub(window)..closed].concat();
                if required.is_empty() {
                    required.clone_from(&before);
                }
                required.sort_unstable();
                required.dedup();
                let mut rounds = RoundList::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                // One tag per lane and phase: messages of a lane match in order.
                let tag = phase << 16 | lane;
                for round in rounds.iter() {
                    // The first labels of the round, and those that the next round requires.
                    let (mut first, mut done) = (Vec::new(), Vec::new());
                    for op in round {
                        labels += 1;
                        first.push(labels);
                        let size = |part| buffer_map.range_len(part) * bytes;
                        match *op {
                            ScheduleOp::Send { to, part } => {
                                writeln!(out, "l{labels}: send {}b to {to} tag {tag}", size(part))?;
                            }
                            ScheduleOp::Recv { from, part } => {
                                writeln!(out, "l{labels}: recv {}b from {from} tag {tag}", size(part))?;
                            }
                            ScheduleOp::RecvReduce { from, part, .. } => {
                                writeln!(out, "l{labels}: recv {}b from {from} tag {tag}", size(part))?;
                                labels += 1;
                                writeln!(out, "l{labels}: calc {}", size(part))?;
                                writeln!(out, "l{labels} requires l{}", labels - 1)?;
                            }
                            ScheduleOp::Copy { from: part, .. } | ScheduleOp::Reduce { from: part, .. } => {
                                writeln!(out, "l{labels}: calc {}", size(part))?;
                            }
                        }
                        done.push(labels);
                    }
                    for label in &first {
                        for other in &required {
                            writeln!(out, "l{label} requires l{other}")?;
                        }
                    }
                    if !done.is_empty() {
                        required = done;
                    }
                }
                ends.push(required);
            }
            let mut last = ends.concat();
            last.sort_unstable();
            last.dedup();
            before = last;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

/// Writes the schedule as JSON: ranks, phases, lanes, rounds, operations with their blocks and elements.
pub fn write_json(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> BlockLayouts, out: &mut dyn Write) -> fmt::Result {
    let name = schedule.operation().name();
    write!(
        out,
        "{{\"operation\":\"{name}\",\"ranks\":{},\"blocks\":{},\"schedule\":[",
        schedule.ranks(),
        schedule.blocks()
    )?;
    for rank in 0..schedule.ranks() {
        let layouts = layouts(rank);
        let buffer_map = BufferMap { schedule, layouts: &layouts, rank };
        write_separator(out, rank == 0)?;
        out.write_char('[')?;
        for phase in 0..schedule.phases() {
            write_separator(out, phase == 0)?;
            out.write_char('[')?;
            for lane in 0..schedule.phase(phase).lanes {
                write_separator(out, lane == 0)?;
                out.write_char('[')?;
                let mut rounds = RoundList::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                for (k, round) in rounds.iter().enumerate() {
                    write_separator(out, k == 0)?;
                    out.write_char('[')?;
                    for (i, op) in round.iter().enumerate() {
                        write_separator(out, i == 0)?;
                        write_op(buffer_map, *op, out)?;
                    }
                    out.write_char(']')?;
                }
                out.write_char(']')?;
            }
            out.write_char(']')?;
        }
        out.write_char(']')?;
    }
    out.write_str("]}\n")
}

fn write_separator(out: &mut dyn Write, first: bool) -> fmt::Result {
    if first { Ok(()) } else { out.write_char(',') }
}

fn write_op(buffer_map: BufferMap<'_>, op: ScheduleOp, out: &mut dyn Write) -> fmt::Result {
    let (name, peer, source, part, side) = match op {
        ScheduleOp::Send { to, part } => ("send", Some(to), None, part, None),
        ScheduleOp::Recv { from, part } => ("recv", Some(from), None, part, None),
        ScheduleOp::RecvReduce { from, part, side } => ("recv_reduce", Some(from), None, part, Some(side)),
        ScheduleOp::Copy { from, to } => ("copy", None, Some(from), to, None),
        ScheduleOp::Reduce { from, into, side } => ("reduce", None, Some(from), into, Some(side)),
    };
    write!(out, "{{\"op\":\"{name}\"")?;
    if let Some(peer) = peer {
        write!(out, ",\"peer\":{peer}")?;
    }
    if let Some(side) = side {
        let side = if side == OperandSide::Left { "left" } else { "right" };
        write!(out, ",\"side\":\"{side}\"")?;
    }
    if let Some(source) = source {
        write!(out, ",\"from\":\"{:?}\",\"source\":", source.buf)?;
        write_blocks(buffer_map, source, out)?;
    }
    write!(out, ",\"buffer\":\"{:?}\",\"blocks\":", part.buf)?;
    write_blocks(buffer_map, part, out)?;
    write!(out, ",\"elements\":{}}}", buffer_map.range_len(part))
}

fn write_blocks(buffer_map: BufferMap<'_>, part: BlockRange, out: &mut dyn Write) -> fmt::Result {
    out.write_char('[')?;
    let mut result = Ok(());
    let mut first = true;
    buffer_map.blocks(part, |block, _| {
        if result.is_ok() {
            result = write_separator(out, first).and_then(|()| write!(out, "{block}"));
            first = false;
        }
    });
    result?;
    out.write_char(']')
}
