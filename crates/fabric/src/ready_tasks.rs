//! The tasks that are ready to be stepped.

/// Initial capacity for tasks. Programs seldom run more at once, so later steps do not allocate.
pub(crate) const TASK_CAPACITY: usize = 64;

/// The tasks that are ready to be stepped.
pub(crate) struct ReadyTasks {
    list: Vec<u32>,
    /// By task, whether `list` contains it.
    is_listed: Vec<bool>,
    all: bool,
}

impl Default for ReadyTasks {
    fn default() -> Self {
        Self { list: Vec::with_capacity(TASK_CAPACITY), is_listed: Vec::with_capacity(TASK_CAPACITY), all: false }
    }
}

impl ReadyTasks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && !self.all
    }

    /// Marks a task as ready.
    pub(crate) fn mark(&mut self, task: u32) {
        if self.is_listed.len() <= task as usize {
            self.is_listed.resize(task as usize + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[task as usize], true) {
            self.list.push(task);
        }
    }

    /// Marks all tasks as ready, after an event that may concern each of them.
    pub(crate) fn mark_all(&mut self) {
        self.all = true;
    }

    /// Moves the marked tasks to `into` and returns whether all are marked. Later marks use the former memory of
    /// `into`, so steps do not allocate.
    pub(crate) fn take(&mut self, into: &mut Vec<u32>) -> bool {
        into.clear();
        std::mem::swap(&mut self.list, into);
        into.iter().for_each(|task| self.is_listed[*task as usize] = false);
        std::mem::take(&mut self.all)
    }
}
