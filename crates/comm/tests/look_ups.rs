//! Look-ups in shared tables where no memory is shared: each is one question and one answer, and then known.

use treepie_comm::{Comm, Result};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

const RANKS: u32 = 12;
const SORTERS: u32 = 4;

/// Messages of all ranks if rank 0 finds so many others, so often each, and what it was told of its look-ups.
fn messages(others: usize, times: usize) -> (u64, (u64, u64)) {
    let settings = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 }.into();
    let body = |world: Comm| -> Result<(u64, u64)> {
        let way = format!("split/distributed:sorters={SORTERS}");
        let comm = world.using(&way)?.split(0, world.rank() as i32 * 5 % 12)?.expect("every rank has a colour");
        world.barrier()?;
        let mut seen = (0, 0);
        if comm.rank() == 0 {
            let before = comm.look_ups();
            for _ in 0..times {
                for rank in 1..=others {
                    assert_eq!(comm.translate(rank, &world)?, Some(rank * 5 % 12), "5 times 5 is 1 modulo 12");
                }
            }
            seen = (comm.look_ups().0 - before.0, comm.look_ups().1 - before.1);
        }
        world.barrier()?;
        Ok(seen)
    };
    let ran = run(&Network::flat(RANKS), &settings, &Options::default(), |fabric| body(Comm::world(fabric))).unwrap();
    let messages = ran.messages;
    let seen = ran.into_results().into_iter().collect::<Result<Vec<_>>>().unwrap();
    (messages, seen.into_iter().max().unwrap())
}

#[test]
fn a_look_up_is_one_question_and_one_answer_and_then_known() {
    let (none, _) = messages(0, 0);
    let (eleven, seen) = messages(11, 1);
    assert_eq!(seen, (0, 11));
    // Rank 0 has some of the rows itself.
    let own = RANKS / SORTERS;
    assert!((eleven - none) / 2 >= u64::from(11 - own) && eleven - none <= 2 * 11, "{}", eleven - none);
    let (again, seen) = messages(11, 20);
    assert_eq!((again, seen), (eleven, (19 * 11, 11)));
}
