//! Prints a schedule: as GOAL, the text that network simulators read, and as JSON.

use std::fmt::{self, Write};

use crate::layout::{Layouts, Places};
use crate::op::{Op, Part, Rounds, Side};
use crate::schedule::{End, Phase, Schedule};

/// Writes the schedule as GOAL. Elements have `bytes` bytes. Combining costs as many time units as there are bytes.
///
/// Dependencies: a round follows the round before it in its lane, a lane those that its window lets it wait for, a phase
/// all of the phase before it. That all ranks wait for all at the end of a phase cannot be said; a comment tells which do.
pub fn goal(
    schedule: &dyn Schedule,
    layouts: &dyn Fn(u32) -> Layouts,
    bytes: usize,
    out: &mut dyn Write,
) -> fmt::Result {
    for phase in (0..schedule.phases()).filter(|phase| schedule.phase(*phase).end == End::Global) {
        writeln!(out, "// Not said here: all ranks wait for all at the end of phase {phase}.")?;
    }
    writeln!(out, "num_ranks {}", schedule.ranks())?;
    for rank in 0..schedule.ranks() {
        writeln!(out, "\nrank {rank} {{")?;
        let layouts = layouts(rank);
        let places = Places { schedule, layouts: &layouts, rank };
        let mut labels = 0;
        let mut before: Vec<u32> = Vec::new();
        for phase in 0..schedule.phases() {
            let Phase { lanes, window, .. } = schedule.phase(phase);
            let window = window.max(1) as usize;
            // What each lane ends with; if it has nothing, what it waits for.
            let mut ends: Vec<Vec<u32>> = Vec::new();
            for lane in 0..lanes {
                // Lanes before these have ended when the last of these could begin.
                let closed = (lane as usize + 1).saturating_sub(window);
                let mut waits_for = ends[closed.saturating_sub(window)..closed].concat();
                if waits_for.is_empty() {
                    waits_for.clone_from(&before);
                }
                waits_for.sort_unstable();
                waits_for.dedup();
                let mut rounds = Rounds::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                // A tag for each lane of each phase: messages of a lane meet in order.
                let tag = phase << 16 | lane;
                for round in rounds.iter() {
                    // What begins the round, and what the next one waits for.
                    let (mut first, mut done) = (Vec::new(), Vec::new());
                    for op in round {
                        labels += 1;
                        first.push(labels);
                        let size = |part| places.len(part) * bytes;
                        match *op {
                            Op::Send { to, part } => {
                                writeln!(out, "l{labels}: send {}b to {to} tag {tag}", size(part))?;
                            }
                            Op::Recv { from, part } => {
                                writeln!(out, "l{labels}: recv {}b from {from} tag {tag}", size(part))?;
                            }
                            Op::RecvReduce { from, part, .. } => {
                                writeln!(out, "l{labels}: recv {}b from {from} tag {tag}", size(part))?;
                                labels += 1;
                                writeln!(out, "l{labels}: calc {}", size(part))?;
                                writeln!(out, "l{labels} requires l{}", labels - 1)?;
                            }
                            Op::Copy { from: part, .. } | Op::Reduce { from: part, .. } => {
                                writeln!(out, "l{labels}: calc {}", size(part))?;
                            }
                        }
                        done.push(labels);
                    }
                    for label in &first {
                        for other in &waits_for {
                            writeln!(out, "l{label} requires l{other}")?;
                        }
                    }
                    if !done.is_empty() {
                        waits_for = done;
                    }
                }
                ends.push(waits_for);
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

/// Writes the schedule as JSON: ranks, phases, lanes, rounds, operations, each with its blocks and its elements.
pub fn json(schedule: &dyn Schedule, layouts: &dyn Fn(u32) -> Layouts, out: &mut dyn Write) -> fmt::Result {
    let name = schedule.operation().name();
    write!(
        out,
        "{{\"operation\":\"{name}\",\"ranks\":{},\"blocks\":{},\"schedule\":[",
        schedule.ranks(),
        schedule.blocks()
    )?;
    for rank in 0..schedule.ranks() {
        let layouts = layouts(rank);
        let places = Places { schedule, layouts: &layouts, rank };
        separate(out, rank == 0)?;
        out.write_char('[')?;
        for phase in 0..schedule.phases() {
            separate(out, phase == 0)?;
            out.write_char('[')?;
            for lane in 0..schedule.phase(phase).lanes {
                separate(out, lane == 0)?;
                out.write_char('[')?;
                let mut rounds = Rounds::new();
                schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
                for (k, round) in rounds.iter().enumerate() {
                    separate(out, k == 0)?;
                    out.write_char('[')?;
                    for (i, op) in round.iter().enumerate() {
                        separate(out, i == 0)?;
                        operation(places, *op, out)?;
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

fn separate(out: &mut dyn Write, first: bool) -> fmt::Result {
    if first { Ok(()) } else { out.write_char(',') }
}

fn operation(places: Places<'_>, op: Op, out: &mut dyn Write) -> fmt::Result {
    let (name, peer, source, part, side) = match op {
        Op::Send { to, part } => ("send", Some(to), None, part, None),
        Op::Recv { from, part } => ("recv", Some(from), None, part, None),
        Op::RecvReduce { from, part, side } => ("recv_reduce", Some(from), None, part, Some(side)),
        Op::Copy { from, to } => ("copy", None, Some(from), to, None),
        Op::Reduce { from, into, side } => ("reduce", None, Some(from), into, Some(side)),
    };
    write!(out, "{{\"op\":\"{name}\"")?;
    if let Some(peer) = peer {
        write!(out, ",\"peer\":{peer}")?;
    }
    if let Some(side) = side {
        let side = if side == Side::Left { "left" } else { "right" };
        write!(out, ",\"side\":\"{side}\"")?;
    }
    if let Some(source) = source {
        write!(out, ",\"from\":\"{:?}\",\"source\":", source.buf)?;
        blocks(places, source, out)?;
    }
    write!(out, ",\"buffer\":\"{:?}\",\"blocks\":", part.buf)?;
    blocks(places, part, out)?;
    write!(out, ",\"elements\":{}}}", places.len(part))
}

fn blocks(places: Places<'_>, part: Part, out: &mut dyn Write) -> fmt::Result {
    out.write_char('[')?;
    let mut result = Ok(());
    let mut first = true;
    places.blocks(part, |block, _| {
        if result.is_ok() {
            result = separate(out, first).and_then(|()| write!(out, "{block}"));
            first = false;
        }
    });
    result?;
    out.write_char(']')
}
