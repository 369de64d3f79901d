//! Remote spawn: a closure that runs on the rank of its data.   [Edmonds, Willcock, Lumsdaine, listing 2]
//!
//! A closure without captures is an offset in the program's code, the same in all processes that run the same
//! executable; its free variables are sent as plain data. A registered type takes 28 bytes per message less, and its
//! handler is inlined into the loop over the buffer.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use treepie_base::{Error, Rank, RemoteFn};

use crate::context::Context;
use crate::handler::{Handler, batch_handler};
use crate::parcel::messages;

impl<S: 'static> Context<S> {
    /// Runs a closure with `data` on another rank before the epoch ends. Requires
    /// [`Builder::allow_spawn`](crate::Builder::allow_spawn).
    ///
    /// ```
    /// # use treepie_am::Context;
    /// # struct State { color: Vec<bool>, next: Vec<u32> }
    /// # fn visit(cx: &mut Context<State>, owner: usize, w: u32) {
    /// cx.spawn(owner, w, |state: &mut State, _, w| {
    ///     if !std::mem::replace(&mut state.color[w as usize], true) {
    ///         state.next.push(w);
    ///     }
    /// });
    /// # }
    /// ```
    pub fn spawn<D: Pod>(&mut self, to: Rank, data: D, run: fn(&mut S, &mut Context<S>, D)) {
        let Some(index) = self.spawn_type else {
            let error = Error::Algorithm("spawn needs `Builder::allow_spawn` before the start".to_owned());
            self.sends.error.get_or_insert(error);
            return;
        };
        let mut bytes = [bytes_of(&RemoteFn::new(run)), bytes_of(&data)].concat();
        self.sends.send_bytes(index, to, &mut bytes);
    }
}

/// A handler that runs spawned closures.
pub(crate) fn spawn_handler<S: 'static>() -> Handler<S> {
    batch_handler(|state, context, batch| {
        let mut count = 0;
        for (from, bytes) in messages(batch) {
            count += 1;
            let ran = bytes
                .split_at_checked(size_of::<RemoteFn>())
                .is_some_and(|(code, data)| pod_read_unaligned::<RemoteFn>(code).call(state, context, data));
            if !ran {
                let error = format!("rank {from} spawned a closure that this executable does not have");
                context.sends.error.get_or_insert(Error::Algorithm(error));
            }
        }
        count
    })
}
