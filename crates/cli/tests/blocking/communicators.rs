//! Communicators, topologies and windows.

use treepie::{Result, SplitType, Window};

use crate::table::{Call, Outcome, Trial, VICTIM};

pub(crate) const CALLS: &[Call] = &[
    Call::new(&["Comm::dup"], |t| t.fails(|| t.world.dup())),
    Call::new(&["Comm::adaptive"], |t| t.fails(|| t.world.adaptive())),
    Call::new(&["treepie::measure_again"], |t| t.fails(|| treepie::measure_again(t.world))),
    Call::new(&["Comm::split"], |t| t.fails(|| t.world.split(0, 0))).sample(),
    Call::new(&["Comm::create"], |t| t.fails(|| t.world.create(&[0, 1, 2]))),
    Call::new(&["Comm::create_group"], |t| {
        let mut tag = 0;
        t.fails(|| {
            tag += 1;
            t.world.create_group(&[0, 1, 2], tag)
        })
    }),
    Call::new(&["Comm::split_type"], |t| t.fails(|| t.world.split_type(SplitType::Host, 0))),
    Call::new(&["Comm::cart_create"], |t| t.fails(|| t.world.cart_create(&[3], &[true]))),
    Call::new(&["Cartesian::sub"], |t| {
        let grid = t.world.cart_create(&[3, 1], &[true, false])?.expect("all ranks are in it");
        t.fails(|| grid.sub(&[true, false]))
    }),
    Call::new(&["Cartesian::sendrecv_shift"], |t| {
        let grid = t.world.cart_create(&[3], &[true])?.expect("all ranks are in it");
        t.fails(|| grid.sendrecv_shift(&[1u8], &mut [0], 0, 1, 0).and(grid.sendrecv_shift(&[1u8], &mut [0], 0, -1, 0)))
    }),
    Call::new(&["Comm::dist_graph_create"], |t| t.fails(|| t.world.dist_graph_create(&[0, 1, 2]))),
    Call::new(&["Comm::dist_graph_create_adjacent"], |t| {
        t.fails(|| t.world.dist_graph_create_adjacent(&[0, 1, 2], &[0, 1, 2]))
    }),
    Call::new(&["Comm::window"], |t| t.fails(|| t.world.window::<u64>(4))),
    Call::new(&["Window::fence"], |t| {
        let window = t.world.window::<u64>(4)?;
        t.fails(|| window.fence())
    })
    .sample(),
    Call::new(&["Window::free"], |t| {
        let mut windows = (0..3).map(|_| t.world.window::<u64>(4)).collect::<Result<Vec<_>>>()?;
        t.fails(|| windows.pop().expect("one for each call").free())
    }),
    Call::new(&["Window::put"], |t| one_sided(t, |window| window.put(VICTIM, 1, &[8]).and_then(|()| window.flush()))),
    Call::new(&["Window::get"], |t| {
        one_sided(t, |window| {
            let mut got = [0; 2];
            window.get(VICTIM, 2, &mut got).map(|()| assert_eq!(got, [7, 7], "what the victim had put there"))
        })
    }),
    Call::new(&["Window::get_one"], |t| {
        one_sided(t, |window| window.get_one(VICTIM, 2).map(|got| assert_eq!(got, 7, "what the victim had put there")))
    }),
    Call::new(&["Window::flush"], |t| one_sided(t, |window| window.put(VICTIM, 1, &[8]).and_then(|()| window.flush()))),
    Call::new(&["Window::fetch_add"], |t| one_sided(t, |window| window.fetch_add(VICTIM, 0, 1).map(drop))),
    Call::new(&["Comm::dup and Comm::barrier"], |t| {
        let dup = t.world.dup()?;
        t.fails(|| dup.barrier())
    })
    .sample(),
];

/// A one-sided access to the victim's memory, which outlives the victim where ranks share memory.
fn one_sided(t: &Trial<'_>, access: impl Fn(&Window<u64>) -> Result<()>) -> Outcome {
    let window = t.world.window::<u64>(4)?;
    window.put(t.rank(), 0, &[0, 0, 7, 7])?;
    window.fence()?;
    t.may_fail(|| access(&window), |()| true)
}
