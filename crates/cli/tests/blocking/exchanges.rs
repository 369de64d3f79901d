//! Sparse exchanges.

use treepie::{Result, SparseExchange};

use crate::table::{Call, RANKS, Trial, test_until_over};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["SparseExchange::exchange"], |t| t.fails(|| t.world.exchange(to_all()))).sample(),
    Call::new(&["SparseExchange::exchange by pex"], |t| t.fails(|| by(t, "exchange/pex"))),
    Call::new(&["SparseExchange::exchange by pcx"], |t| t.fails(|| by(t, "exchange/pcx"))),
    Call::new(&["SparseExchange::exchange by rsx"], |t| t.fails(|| by(t, "exchange/rsx"))),
    Call::new(&["SparseExchange::exchange by nbx"], |t| t.fails(|| by(t, "exchange/nbx"))),
    Call::new(&["SparseExchange::exchange by nbx, condition 1"], |t| t.fails(|| by(t, "exchange/nbx:condition=1"))),
    Call::new(&["SparseExchange::exchange by nbx, condition 2"], |t| t.fails(|| by(t, "exchange/nbx:condition=2"))),
    Call::new(&["SparseExchange::exchange by crystal"], |t| t.fails(|| by(t, "exchange/crystal"))),
    Call::new(&["SparseExchange::iexchange"], |t| t.fails(|| t.world.iexchange(to_all())?.wait())),
    Call::new(&["SparseExchange::iexchange, tested"], |t| t.fails(|| test_until_over(t.world.iexchange(to_all())?))),
    Call::new(&["SparseExchange::exchange_with"], |t| t.fails(|| t.world.exchange_with(to_all(), |_, _| ()))),
    Call::new(&["SparseExchange::exchange_objects"], |t| {
        t.fails(|| t.world.exchange_objects((0..RANKS).map(|to| (to, "object".to_owned()))))
    }),
    Call::new(&["SparseExchange::exchange_by_owner"], |t| {
        t.fails(|| t.world.exchange_by_owner(0..RANKS, |item| *item))
    }),
    Call::new(&["SparseExchange::pattern"], |t| t.fails(|| t.world.pattern(0..RANKS))),
    Call::new(&["Pattern::is_unchanged"], |t| {
        let pattern = t.world.pattern(0..RANKS)?;
        t.fails(|| pattern.is_unchanged(0..RANKS))
    }),
    Call::new(&["Pattern::exchange"], |t| {
        let pattern = t.world.pattern(0..RANKS)?;
        t.fails(|| pattern.exchange(to_all()))
    }),
];

fn to_all() -> Vec<(usize, Vec<u64>)> {
    (0..RANKS).map(|to| (to, vec![1; 10])).collect()
}

fn by(t: &Trial<'_>, id: &str) -> Result<()> {
    t.world.with_algorithm(id)?.exchange(to_all()).map(drop)
}
