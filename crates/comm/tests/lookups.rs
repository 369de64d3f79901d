//! Lookups in shared tables without shared memory: each takes one request and one reply, and is then cached.

use treepie_comm::{Comm, Result};
use treepie_sim::costs::LogGP;
use treepie_sim::engine::{Options, run};
use treepie_topology::Network;

const RANKS: u32 = 12;
const SORTERS: u32 = 4;

/// Messages of all ranks if rank 0 looks up this number of others, each this number of times, and its lookup counts.
fn messages(others: usize, times: usize) -> (u64, (u64, u64)) {
    let settings = LogGP { latency: 2.0, overhead: 0.3, gap: 0.3, per_byte: 0.001 }.into();
    let body = |world: Comm| -> Result<(u64, u64)> {
        let id = format!("split/distributed:sorters={SORTERS}");
        let comm = world.with_algorithm(&id)?.split(0, world.rank() as i32 * 5 % 12)?.expect("every rank has a color");
        world.barrier()?;
        let mut lookups = (0, 0);
        if comm.rank() == 0 {
            let before = comm.rank_table_lookups();
            for _ in 0..times {
                for rank in 1..=others {
                    assert_eq!(comm.translate_rank(rank, &world)?, Some(rank * 5 % 12), "5 times 5 is 1 modulo 12");
                }
            }
            lookups = (comm.rank_table_lookups().0 - before.0, comm.rank_table_lookups().1 - before.1);
        }
        world.barrier()?;
        Ok(lookups)
    };
    let simulated =
        run(&Network::flat(RANKS), &settings, &Options::default(), |fabric| body(Comm::world(fabric))).unwrap();
    let messages = simulated.messages;
    let lookups = simulated.into_results().into_iter().collect::<Result<Vec<_>>>().unwrap();
    (messages, lookups.into_iter().max().unwrap())
}

#[test]
fn a_lookup_takes_one_request_and_one_reply_and_is_then_cached() {
    let (none, _) = messages(0, 0);
    let (eleven, lookups) = messages(11, 1);
    assert_eq!(lookups, (0, 11));
    // Rank 0 holds some of the rows itself.
    let own = RANKS / SORTERS;
    assert!((eleven - none) / 2 >= u64::from(11 - own) && eleven - none <= 2 * 11, "{}", eleven - none);
    let (again, lookups) = messages(11, 20);
    assert_eq!((again, lookups), (eleven, (19 * 11, 11)));
}
