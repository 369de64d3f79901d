//! Things that come and go, by number: places are used again, so that nothing is allocated once there are enough.

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    things: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.things[id as usize] = thing;
            return id;
        }
        self.things.push(thing);
        self.things.len() as u32 - 1
    }

    /// The place may be used again; what lies there stays readable until then.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.things.capacity() * size_of::<T>() + self.free.capacity() * 4
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.things[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.things[id as usize]
    }
}
