//! Slab: values by id. Freed slots are reused, so a simulation in steady state does not allocate.

/// No id.
pub(crate) const NIL: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.values[id as usize] = value;
            return id;
        }
        self.values.push(value);
        self.values.len() as u32 - 1
    }

    /// Frees a slot; its value stays readable until the slot is reused.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// The number of occupied slots.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(crate) fn memory(&self) -> usize {
        self.values.capacity() * size_of::<T>() + self.free.capacity() * 4
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.values[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.values[id as usize]
    }
}
