//! Distributed property maps: values of vertices, stored by their owners, that all ranks read and update by messages.
//!
//! The values of local vertices are part of the active-message state. [`PropertyUpdates`] puts or accumulates values at
//! vertices of the view; [`PropertyReads`] gets them, and calls a continuation when they arrive.

use bytemuck::{Pod, Zeroable};
use treepie_am::{Builder, Call, Context, Port};

use crate::LocalView;

/// A value for a local index of the destination.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, packed)]
struct UpdateMessage<T> {
    local_index: u32,
    value: T,
}

/// Updates of values of vertices.
#[derive(Clone, Copy)]
pub struct PropertyUpdates<T: Pod> {
    port: Port<UpdateMessage<T>>,
}

impl<T: Pod> PropertyUpdates<T> {
    /// Registers updates: `update` is called with the value of a vertex in `values`, those of local vertices, and with
    /// the value that was sent.
    ///
    /// If `update` is commutative and associative (sums, minima), `combines` lets updates be combined before they are
    /// sent.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        update: impl Fn(&mut T, T) + Copy + 'static,
        combines: bool,
    ) -> Self {
        let port = build.port::<UpdateMessage<T>>(name);
        build
            .on(port, move |state, _, message| update(&mut values(state)[message.local_index as usize], message.value));
        if combines {
            build.combine(
                port,
                |message: &UpdateMessage<T>| message.local_index.into(),
                move |into: &mut UpdateMessage<T>, message| {
                    let mut value = into.value;
                    update(&mut value, message.value);
                    into.value = value;
                },
            );
        }
        Self { port }
    }

    /// Updates the value of the vertex at an index of the view.
    #[inline]
    pub fn send<S>(&self, cx: &mut Context<S>, view: &LocalView, index: u32, value: T) {
        let (rank, local_index) = view.owner(index);
        cx.send(self.port, rank, UpdateMessage { local_index, value });
    }
}

/// Reads of values of vertices, each with a context for the continuation.
#[derive(Clone, Copy)]
pub struct PropertyReads<T: Pod, N: Pod> {
    call: Call<u32, T, N>,
}

impl<T: Pod, N: Pod> PropertyReads<T, N> {
    /// Registers reads: `then` is called with the context and the value.
    pub fn register<S>(
        build: &mut Builder<S>,
        name: &str,
        values: impl Fn(&mut S) -> &mut [T] + 'static,
        then: impl FnMut(&mut S, &mut Context<S>, N, T) + 'static,
    ) -> Self {
        let call = build.call::<u32, T, N>(name);
        build.on_call(call, move |state, _, local_index: u32| values(state)[local_index as usize], then);
        Self { call }
    }

    /// Requests the value of the vertex at an index of the view.
    #[inline]
    pub fn get<S>(&self, cx: &mut Context<S>, view: &LocalView, index: u32, context: N) {
        let (rank, local_index) = view.owner(index);
        cx.call(self.call, rank, context, local_index);
    }
}
