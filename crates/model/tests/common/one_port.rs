//! Plays a schedule on ranks that send one message at a time and receive one at a time, each for alpha + n beta.
//!
//! Nothing else costs anything. It knows nothing of formulas or counts: it is what those of trees are tested by.

use std::collections::{HashMap, VecDeque};

use treepie_model::Prices;
use treepie_schedule::{Cursor, Layouts, Op, Places, Schedule};

struct Send {
    to: u32,
    bytes: f64,
    ready: f64,
    /// The phase and lane that it belongs to, and the round of its sender.
    channel: (u32, u32),
    slot: u32,
}

struct Rank {
    cursor: Cursor,
    sends: VecDeque<Send>,
    out_free: f64,
    in_free: f64,
    /// By slot: operations that are not done, and when the last was.
    rounds: HashMap<u32, (usize, f64)>,
    /// Messages that have come, and rounds that wait for one, by sender and channel.
    come: HashMap<(u32, (u32, u32)), VecDeque<f64>>,
    waiting: HashMap<(u32, (u32, u32)), VecDeque<u32>>,
    now: f64,
}

/// When the last rank is done.
pub(crate) fn play(schedule: &dyn Schedule, layouts: &Layouts, prices: &Prices) -> f64 {
    let new = |rank| Rank {
        cursor: Cursor::new(schedule, rank),
        sends: VecDeque::new(),
        out_free: 0.0,
        in_free: 0.0,
        rounds: HashMap::new(),
        come: HashMap::new(),
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
        let end = start + prices.alpha + send.bytes * prices.beta;
        ranks[from].out_free = end;
        ranks[send.to as usize].in_free = end;
        let key = (from as u32, send.channel);
        let receiver = &mut ranks[send.to as usize];
        match receiver.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
            Some(slot) => done(receiver, slot, end),
            None => receiver.come.entry(key).or_default().push_back(end),
        }
        done(&mut ranks[from], send.slot, end);
        for rank in [from as u32, send.to] {
            advance(&mut ranks[rank as usize], rank, schedule, layouts);
        }
    }
    for (number, rank) in ranks.iter().enumerate() {
        assert!(rank.cursor.is_done(schedule), "rank {number} waits for ever");
    }
    ranks.iter().map(|rank| rank.now).fold(0.0, f64::max)
}

fn done(rank: &mut Rank, slot: u32, time: f64) {
    let round = rank.rounds.get_mut(&slot).expect("the round goes on");
    *round = (round.0 - 1, round.1.max(time));
}

/// Ends rounds of which all is done, and begins those that may begin.
fn advance(rank: &mut Rank, number: u32, schedule: &dyn Schedule, layouts: &Layouts) {
    loop {
        let ended: Vec<u32> = rank.rounds.iter().filter(|(_, round)| round.0 == 0).map(|(slot, _)| *slot).collect();
        for slot in &ended {
            let (_, time) = rank.rounds.remove(slot).expect("it was there");
            rank.now = rank.now.max(time);
            rank.cursor.end(*slot);
        }
        let Some(begun) = rank.cursor.begin(schedule) else { break };
        let places = Places { schedule, layouts, rank: number };
        let (channel, slot) = ((begun.phase, begun.lane), begun.slot);
        let (mut left, mut last) = (0, rank.now);
        for op in rank.cursor.ops(slot) {
            match *op {
                Op::Send { to, part } => {
                    left += 1;
                    let bytes = places.len(part) as f64;
                    rank.sends.push_back(Send { to, bytes, ready: rank.now, channel, slot });
                }
                Op::Recv { from, .. } | Op::RecvReduce { from, .. } => {
                    match rank.come.get_mut(&(from, channel)).and_then(VecDeque::pop_front) {
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
