//! Forward-backward search for the component of a pivot, which is likely to be the giant component.

use treepie_base::{MaxLoc, ValueLoc};
use treepie_comm::Min;

use super::{Direction, NO_VERTEX, SccSearch};
use crate::{EdgeWeight, Result};

impl<W: EdgeWeight> SccSearch<'_, W> {
    /// Finds the component of the remaining vertex with the greatest product of in-degree and out-degree. There must be
    /// one.
    pub(super) fn pivot(&mut self) -> Result<()> {
        let state = &mut self.state;
        let degree_product = |vertex: &u32| {
            let [out_degree, in_degree] = state.degrees[*vertex as usize].map(u64::from);
            ValueLoc { value: out_degree * in_degree, loc: state.global_id(*vertex) }
        };
        // The first of equal ones, as `MaxLoc` chooses among ranks.
        let first = ValueLoc { value: 0, loc: NO_VERTEX };
        let best = state
            .remaining
            .iter()
            .map(degree_product)
            .fold(first, |best, candidate| if candidate.value > best.value { candidate } else { best });
        let pivot = self.graph.comm().allreduce_one(best, MaxLoc)?.loc;

        for vertex in &state.remaining {
            state.colors[*vertex as usize] = pivot;
        }
        let pivots: Vec<u32> =
            self.graph.local_index(pivot).into_iter().map(|local_index| local_index as u32).collect();
        self.reach(pivots.clone(), Direction::Forward)?;
        let state = &mut self.state;
        for vertex in state.remaining.iter().filter(|vertex| !state.reached.contains(**vertex as usize)) {
            state.colors[*vertex as usize] = NO_VERTEX;
        }
        self.reach(pivots, Direction::Backward)?;
        let least = self.state.reached.iter().next().map_or(NO_VERTEX, |vertex| self.state.global_id(vertex as u32));
        let least = self.graph.comm().allreduce_one(least, Min)?;
        self.state.settle_reached(|_, _| least);
        Ok(())
    }
}
