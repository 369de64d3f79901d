//! Simulates a schedule on ranks that send one message at a time and receive one at a time, each for alpha + n beta.
//!
//! Everything else is free. It is independent of formulas and counts: the reference for the formulas of trees.

use std::collections::{HashMap, VecDeque};

use treepie_model::CostParams;
use treepie_schedule::{BlockLayouts, BufferMap, Schedule, ScheduleOp, ScheduleReader};

struct Send {
    to: u32,
    bytes: f64,
    ready: f64,
    /// Its phase and lane, and the slot of its sender's round.
    channel: (u32, u32),
    slot: u32,
}

struct Rank {
    reader: ScheduleReader,
    sends: VecDeque<Send>,
    out_free: f64,
    in_free: f64,
    /// By slot: pending operations, and the latest completion.
    rounds: HashMap<u32, (usize, f64)>,
    /// Unexpected messages, and rounds that wait for a message, by sender and channel.
    unexpected: HashMap<(u32, (u32, u32)), VecDeque<f64>>,
    waiting: HashMap<(u32, (u32, u32)), VecDeque<u32>>,
    now: f64,
}

/// Simulates a schedule. Returns when the last rank completes.
pub(crate) fn simulate(schedule: &dyn Schedule, layouts: &BlockLayouts, params: &CostParams) -> f64 {
    let new = |rank| Rank {
        reader: ScheduleReader::new(schedule, rank),
        sends: VecDeque::new(),
        out_free: 0.0,
        in_free: 0.0,
        rounds: HashMap::new(),
        unexpected: HashMap::new(),
        waiting: HashMap::new(),
        now: 0.0,
    };
    let mut ranks: Vec<Rank> = (0..schedule.ranks()).map(new).collect();
    for rank in 0..schedule.ranks() {
        advance(&mut ranks[rank as usize], rank, schedule, layouts);
    }
    loop {
        let begins = |from: usize| {
            let send = ranks[from].sends.front()?;
            let start = send.ready.max(ranks[from].out_free).max(ranks[send.to as usize].in_free);
            Some((start, send.ready, from))
        };
        let order = |a: &(f64, f64, usize), b: &(f64, f64, usize)| {
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        };
        let Some((start, _, from)) = (0..ranks.len()).filter_map(begins).min_by(order) else { break };
        let send = ranks[from].sends.pop_front().expect("it was there");
        let end = start + params.alpha + send.bytes * params.beta;
        ranks[from].out_free = end;
        ranks[send.to as usize].in_free = end;
        let key = (from as u32, send.channel);
        let receiver = &mut ranks[send.to as usize];
        match receiver.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(slot) => complete_op(receiver, slot, end),
            None => receiver.unexpected.entry(key).or_default().push_back(end),
        }
        complete_op(&mut ranks[from], send.slot, end);
        for rank in [from as u32, send.to] {
            advance(&mut ranks[rank as usize], rank, schedule, layouts);
        }
    }
    for (number, rank) in ranks.iter().enumerate() {
        assert!(rank.reader.is_done(schedule), "rank {number} waits forever");
    }
    ranks.iter().map(|rank| rank.now).fold(0.0, f64::max)
}

fn complete_op(rank: &mut Rank, slot: u32, time: f64) {
    let round = rank.rounds.get_mut(&slot).expect("the round is in progress");
    *round = (round.0 - 1, round.1.max(time));
}

/// Ends completed rounds, and begins those that may begin.
fn advance(rank: &mut Rank, number: u32, schedule: &dyn Schedule, layouts: &BlockLayouts) {
    loop {
        let ended: Vec<u32> = rank.rounds.iter().filter(|(_, round)| round.0 == 0).map(|(slot, _)| *slot).collect();
        for slot in &ended {
            let (_, time) = rank.rounds.remove(slot).expect("it was there");
            rank.now = rank.now.max(time);
            rank.reader.finish_round(*slot);
        }
        let Some(begun) = rank.reader.start_round(schedule) else { break };
        let buffers = BufferMap { schedule, layouts, rank: number };
        let (channel, slot) = ((begun.phase, begun.lane), begun.slot);
        let (mut left, mut last) = (0, rank.now);
        for op in rank.reader.ops(slot) {
            match *op {
                ScheduleOp::Send { to, part } => {
                    left += 1;
                    let bytes = buffers.range_len(part) as f64;
                    rank.sends.push_back(Send { to, bytes, ready: rank.now, channel, slot });
                }
                ScheduleOp::Recv { from, .. } | ScheduleOp::RecvReduce { from, .. } => {
                    match rank.unexpected.get_mut(&(from, channel)).and_then(VecDeque::pop_front) {
                        Some(time) => last = last.max(time),
                        None => {
                            left += 1;
                            rank.waiting.entry((from, channel)).or_default().push_back(slot);
                        }
                    }
                }
                _ => {}
            }
        }
        rank.rounds.insert(slot, (left, last));
    }
}
