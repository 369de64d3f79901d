//! The component of one vertex, which is hopefully a large one.

use treepie_base::{Located, MaxLoc};
use treepie_comm::Min;

use super::{Direction, NONE, Search};
use crate::Result;
use crate::rows::Arc;

impl<A: Arc> Search<'_, A> {
    /// Finds the component of the vertex whose arcs in times arcs out are most. Some vertex must be left.
    pub(super) fn pivot(&mut self) -> Result<()> {
        let state = &mut self.state;
        let pairs = |vertex: &u32| {
            let [out, back] = state.degrees[*vertex as usize].map(u64::from);
            Located { value: out * back, place: state.number(*vertex) }
        };
        // The first of several, as on all ranks.
        let first = Located { value: 0, place: NONE };
        let best =
            state.left.iter().map(pairs).fold(first, |best, pair| if pair.value > best.value { pair } else { best });
        let pivot = self.comm.all_reduce(&[best], MaxLoc)?[0].place;

        for vertex in &state.left {
            state.colours[*vertex as usize] = pivot;
        }
        let from: Vec<u32> = self.graph.mine(pivot).into_iter().map(|place| place as u32).collect();
        self.reach(from.clone(), Direction::Out)?;
        let state = &mut self.state;
        for vertex in state.left.iter().filter(|vertex| !state.reached.has(**vertex as usize)) {
            state.colours[*vertex as usize] = NONE;
        }
        self.reach(from, Direction::Back)?;
        let least = self.state.reached.iter().next().map_or(NONE, |vertex| self.state.number(vertex as u32));
        let least = self.comm.all_reduce(&[least], Min)?[0];
        self.state.settle_reached(|_, _| least);
        Ok(())
    }
}
