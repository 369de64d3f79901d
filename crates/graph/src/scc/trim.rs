//! Vertices without arcs in, or without arcs out, are components of their own.

use treepie_am::{Builder, Context, Port};

use super::{Direction, Search, State, Task};
use crate::Result;
use crate::patterns::search::{self, Spreading};
use crate::rows::Arc;

pub(super) fn register<'g, A: Arc>(build: &mut Builder<State<'g, A>>) -> [Port<u32>; 2] {
    Direction::BOTH.map(|direction| {
        let name = if direction == Direction::Out { "lose an arc out" } else { "lose an arc in" };
        let lose = build.port::<u32>(name);
        build.on(lose, move |state: &mut State<'g, A>, cx, vertex| {
            state.lose(vertex, direction);
            state.spread(cx);
        });
        lose
    })
}

impl<A: Arc> State<'_, A> {
    /// Counts arcs among those that are left. Those that have none in a direction go.
    fn count_arcs(&mut self) {
        let own = self.own();
        for vertex in &self.left {
            let vertex = *vertex as usize;
            let leads_on = |arc: &&A| arc.target() as usize != own + vertex && !self.gone.has(arc.target() as usize);
            self.degrees[vertex] = self.rows.map(|rows| rows.row(vertex).iter().filter(leads_on).count() as u32);
        }
        // Nobody goes before all have counted, since those who go tell those who have counted them.
        let left = std::mem::take(&mut self.left);
        for vertex in &left {
            if self.degrees[*vertex as usize].contains(&0) {
                self.go(*vertex);
            }
        }
        self.left = left;
    }

    fn go(&mut self, vertex: u32) {
        self.settle(vertex, self.number(vertex));
        self.waiting.push(vertex);
    }

    fn lose(&mut self, vertex: u32, direction: Direction) {
        if self.is_gone(vertex) {
            return;
        }
        let degree = &mut self.degrees[vertex as usize][direction as usize];
        *degree -= 1;
        if *degree == 0 {
            self.go(vertex);
        }
    }

    /// Tells the neighbours of a vertex that has gone.
    pub(super) fn follow_trimmed(&mut self, cx: &mut Context<Self>, vertex: u32) {
        // It has none in one direction: there is nobody to be told.
        let has_none_in = self.degrees[vertex as usize][Direction::Back as usize] == 0;
        let direction = if has_none_in { Direction::Out } else { Direction::Back };
        let lost = direction.opposite();
        let own = self.own() as u32;
        let (near, far) = self.rows[direction as usize].parts(vertex as usize);
        for arc in near {
            self.lose(arc.target() - own, lost);
        }
        for arc in far.iter().filter(|arc| !self.gone.has(arc.target() as usize)) {
            let (rank, place) = self.graph.view().owner(arc.target());
            cx.send(self.ports.lose[lost as usize], rank, place);
        }
    }
}

impl<A: Arc> Search<'_, A> {
    /// Lets all go that have no arcs in one direction among those that are left, and those that have none then.
    pub(super) fn trim(&mut self) -> Result<()> {
        self.state.task = Task::Trim;
        self.state.count_arcs();
        search::spread(self.am.named("trim"), &mut self.state)?;
        let state = &mut self.state;
        let (gone, own) = (&state.gone, state.graph.view().own().start);
        state.left.retain(|vertex| !gone.has(own + *vertex as usize));
        Ok(())
    }
}
