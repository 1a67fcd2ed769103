//! The set of all tasks that the gate runs, so that a shutdown knows what it waits for.

use std::future::Future;

use tokio_util::task::TaskTracker;

/// Spawns tasks and knows when all have ended. Clones are the same set.
#[derive(Clone, Default)]
pub struct Tasks(TaskTracker);

impl Tasks {
    /// Runs a task of the set.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(task);
    }

    /// Waits until every task has ended. New ones may still be started.
    pub async fn ended(&self) {
        self.0.close();
        self.0.wait().await;
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}
